//! Ranks, a carrier, and what must hold, in virtual time from one seed.

use std::collections::BTreeMap;
use std::time::Duration;

use weft_base::{Random, RegionId, Slice, Time};
use weft_window::{
    Access, Action, Asserts, Carrier, CreateError, Event, Fence, Load, Message, Order, Part, Request, Settings, Shape,
    Window,
};

mod checker;

use checker::Checker;

/// Cells of 8 bytes that one origin has in an epoch at each target.
const CELLS: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Network {
    Ordered,
    Striped(u16),
    Reordering,
    /// As reordering; one in four is lost at least once, and comes much later.
    Lossy,
}

#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub seed: u64,
    pub fence: Fence,
    pub network: Network,
    pub ranks: usize,
    pub epochs: u32,
    pub notices: bool,
    pub flush: bool,
    /// Lies, for fences that must be found wrong.
    pub claims_order: bool,
    pub flush_is_local: bool,
    pub barrier_is_empty: bool,
    pub keeps_nothing: bool,
    /// The stated length of a message: with some lengths, only a few messages may come early.
    pub message_bytes: u32,
    /// A rank's window does not know that it may not send more.
    pub sends_too_much: bool,
    /// Every other world has a tree.
    pub shape: Shape,
}

impl Scenario {
    /// 2 to 64 ranks, mostly few.
    pub(crate) fn new(seed: u64, fence: Fence, network: Network) -> Self {
        let mut random = Random::new(seed ^ 0x77);
        let most = [3, 5, 9, 17, 33, 65][random.below(6) as usize];
        let ranks = 2 + random.below(most - 2) as usize;
        let (claims_order, flush_is_local, barrier_is_empty) = (false, false, false);
        let epochs = if fence == Fence::Tagged { 10 } else { 5 };
        Self {
            seed,
            fence,
            network,
            ranks,
            epochs,
            notices: true,
            flush: true,
            claims_order,
            flush_is_local,
            barrier_is_empty,
            keeps_nothing: false,
            message_bytes: match Random::new(seed ^ 0xb17e5).below(3) {
                0 => Load::EARLY.bytes / 2 + 1,
                1 => Load::EARLY.bytes / 2,
                _ => 8,
            },
            sends_too_much: false,
            shape: match Random::new(seed ^ 0x7ee).below(4) {
                0 | 1 => Shape::Rounds,
                2 => Shape::Tree { fan: 3 },
                _ => Shape::Tree { fan: ranks },
            },
        }
    }

    /// Under [`Fence::Tagged`]: epochs in which no rank begins anything but messages. They follow each other, or not.
    fn has_messages_only(&self, epoch: u32) -> bool {
        let random = |salt: u64| Random::new(self.seed ^ salt << 20);
        match random(1).below(3) {
            0 => true,
            1 => epoch < 8,
            _ => random(u64::from(epoch)).one_in(2),
        }
    }

    fn order(&self) -> Order {
        match self.network {
            _ if self.claims_order => Order::Whole,
            Network::Ordered => Order::Whole,
            Network::Striped(rails) => Order::Rails(rails),
            Network::Reordering | Network::Lossy => Order::None,
        }
    }

    /// A ring, and the rank opposite.
    fn neighbours(&self, rank: usize) -> Vec<usize> {
        let (ranks, half) = (self.ranks, self.ranks / 2);
        let opposite = if ranks.is_multiple_of(2) { half } else { 1 };
        let mut all = vec![(rank + 1) % ranks, (rank + ranks - 1) % ranks, (rank + opposite) % ranks];
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Epochs in which no rank does anything, and of which all know.
    fn is_quiet(&self, epoch: u32) -> bool {
        epoch == 0 || Random::new(self.seed ^ u64::from(epoch) << 40).one_in(3)
    }
}

/// The window of a rank.
pub(crate) fn make(scenario: &Scenario, rank: usize) -> Result<Window, CreateError> {
    let carrier = Carrier { order: scenario.order(), notices: scenario.notices, flush: scenario.flush };
    let mut settings = Settings::new(scenario.fence, (scenario.ranks * CELLS * 8) as u64, carrier);
    settings.shape = scenario.shape;
    settings.neighbours = if scenario.fence == Fence::Neighbour { scenario.neighbours(rank) } else { Vec::new() };
    Window::new(settings, rank, scenario.ranks, Time::ZERO)
}

/// What arrives somewhere.
enum Thing {
    /// The rank does its next operation, or fences.
    Act,
    Place {
        access: Access,
        epoch: u32,
        how: How,
    },
    Read {
        request: Request,
        access: Access,
        epoch: u32,
    },
    Complete(Request),
    Flushed,
    Round {
        part: Part,
        sequence: u32,
        round: u32,
        values: Vec<u64>,
    },
    Plain(Message<'static>),
}

enum How {
    Silent,
    Notice,
    Message(Option<u32>),
    /// In an epoch that is open at its origin.
    Tagged,
}

struct World<'a> {
    scenario: &'a Scenario,
    random: Random,
    now: u64,
    number: u64,
    events: BTreeMap<(u64, u64), (usize, usize, Thing)>,
    /// When the last thing arrived: by sender, receiver, rail.
    last: BTreeMap<(usize, usize, u16), u64>,
    /// When all writes from one rank to another are placed, and when they have left.
    placed: BTreeMap<(usize, usize), (u64, u64)>,
    windows: Vec<Window>,
    /// What came before its epoch: its sources, and its content.
    early: Vec<Vec<(usize, Thing)>>,
    /// Operations that a rank still does in its epoch; cells that it has used at each target.
    left: Vec<u64>,
    used: Vec<Vec<usize>>,
    done: usize,
    checker: Checker,
}

/// What the checker has found, or nothing.
pub(crate) fn run(scenario: &Scenario) -> Result<(), String> {
    let windows = (0..scenario.ranks).map(|rank| make(scenario, rank).expect("the scenario has what the fence needs"));
    let windows: Vec<Window> = windows.collect();
    let ranks = scenario.ranks;
    let mut world = World {
        scenario,
        random: Random::new(scenario.seed),
        now: 0,
        number: 0,
        events: BTreeMap::new(),
        last: BTreeMap::new(),
        placed: BTreeMap::new(),
        windows,
        early: (0..ranks).map(|_| Vec::new()).collect(),
        left: vec![0; ranks],
        used: vec![vec![0; ranks]; ranks],
        done: 0,
        checker: Checker::new(ranks, ranks * CELLS),
    };
    (0..ranks).try_for_each(|rank| world.pump(rank))?;
    while let Some(((at, _), (from, to, thing))) = world.events.pop_first() {
        world.now = at;
        world.take(from, to, thing)?;
        world.pump(to)?;
    }
    match world.done == ranks {
        true => Ok(()),
        false => Err(format!("only {} of {ranks} ranks came to the end", world.done)),
    }
}

impl World<'_> {
    fn at(&mut self, when: u64, from: usize, to: usize, thing: Thing) {
        self.number += 1;
        self.events.insert((when, self.number), (from, to, thing));
    }

    /// When something that leaves now arrives. A write, and what does not name its rail, takes any.
    fn arrival(&mut self, from: usize, to: usize, rail: Option<u16>) -> u64 {
        let when = self.now + 1 + self.random.below(400);
        self.arrival_after(when, from, to, rail)
    }

    /// Some writes are long: a fence's messages would pass them, and a whole barrier could.
    fn arrival_of_write(&mut self, from: usize, to: usize) -> u64 {
        let spread = if self.random.one_in(4) { 8000 } else { 400 };
        let when = self.now + 1 + self.random.below(spread);
        self.arrival_after(when, from, to, None)
    }

    fn arrival_after(&mut self, mut when: u64, from: usize, to: usize, rail: Option<u16>) -> u64 {
        let rails = match self.scenario.network {
            Network::Ordered => 1,
            Network::Striped(rails) => rails,
            Network::Reordering => return when,
            Network::Lossy => {
                while self.random.one_in(4) {
                    when += 2000;
                }
                return when;
            }
        };
        let rail = rail.unwrap_or_else(|| self.random.below(u64::from(rails)) as u16);
        // Rails differ, as links do.
        when += u64::from(rail) * 300;
        let last = self.last.entry((from, to, rail)).or_default();
        *last = when.max(*last + 1);
        *last
    }

    fn pump(&mut self, rank: usize) -> Result<(), String> {
        loop {
            let mut window = std::mem::replace(&mut self.windows[rank], dummy());
            let epoch = window.epoch();
            while let Some(action) = window.poll_action() {
                self.carry(rank, epoch, action);
            }
            let event = window.poll_event();
            self.windows[rank] = window;
            match event {
                None => return Ok(()),
                Some(event) => self.note(rank, event)?,
            }
        }
    }

    fn carry(&mut self, from: usize, epoch: u32, action: Action<'_>) {
        match action {
            Action::Write { request, access, notice, .. } => {
                let how = if notice.is_some() { How::Notice } else { How::Silent };
                self.write(from, request, access, epoch, how);
            }
            Action::Deliver { request, access, epoch, last, .. } => {
                let how = if self.scenario.fence == Fence::Tagged { How::Tagged } else { How::Message(last) };
                self.write(from, request, access, epoch, how);
            }
            Action::Read { request, access } => {
                let when = self.arrival(from, access.rank, None);
                self.at(when, from, access.rank, Thing::Read { request, access, epoch });
            }
            Action::Lock { .. } | Action::Unlock { .. } => unreachable!("nobody locks in these worlds"),
            Action::Flush { to } => {
                let (there, left) = self.placed.get(&(from, to)).copied().unwrap_or_default();
                let when = if self.scenario.flush_is_local { left } else { there + 100 };
                self.at(when.max(self.now), to, from, Thing::Flushed);
            }
            Action::Send { to, message: Message::Round { part: Part::Barrier, sequence, round, .. }, .. }
                if self.scenario.barrier_is_empty =>
            {
                // A rank that waits for this round receives at once what no rank has sent.
                let back = (2 * from + self.scenario.ranks - to) % self.scenario.ranks;
                self.at(self.now, back, from, Thing::Round { part: Part::Barrier, sequence, round, values: vec![] });
            }
            Action::Send { to, rail, message } => {
                let when = self.arrival(from, to, rail);
                self.at(when, from, to, own(message));
            }
        }
    }

    /// The source is free before the bytes are there.
    fn write(&mut self, from: usize, request: Request, access: Access, epoch: u32, how: How) {
        let when = self.arrival_of_write(from, access.rank);
        let left = self.now + self.random.below((when - self.now).min(400));
        let both = self.placed.entry((from, access.rank)).or_default();
        *both = (both.0.max(when), both.1.max(left));
        self.at(left, from, from, Thing::Complete(request));
        self.at(when, from, access.rank, Thing::Place { access, epoch, how });
    }

    fn take(&mut self, from: usize, to: usize, thing: Thing) -> Result<(), String> {
        let wrong = |error| format!("rank {to}: {error}");
        match thing {
            Thing::Act => return self.act(to),
            Thing::Place { access, epoch, how } => {
                let length = access.local.length;
                match how {
                    How::Message(_) => self.windows[to].check(from, epoch, access.offset, length).map_err(wrong)?,
                    How::Tagged if self.windows[to].is_early(epoch) && !self.scenario.keeps_nothing => {
                        self.windows[to].keep_early(from, self.scenario.message_bytes).map_err(wrong)?;
                        self.early[to].push((from, Thing::Place { access, epoch, how }));
                        return Ok(());
                    }
                    How::Tagged if self.scenario.keeps_nothing => {}
                    How::Tagged => self.windows[to].check_open(from, epoch, access.offset, length).map_err(wrong)?,
                    How::Silent | How::Notice => {}
                }
                self.checker.place(to, (access.offset / 8) as usize, access.local.offset)?;
                if !matches!(how, How::Silent) {
                    self.windows[to].handle_placed(from, epoch).map_err(wrong)?;
                }
                if let How::Message(Some(count)) = how {
                    self.windows[to].handle_message(from, Message::Finish { epoch, count }).map_err(wrong)?;
                }
            }
            Thing::Read { request, access, epoch } => {
                self.checker.read(to, (access.offset / 8) as usize, epoch)?;
                let when = self.arrival(to, from, None);
                self.at(when, to, from, Thing::Complete(request));
            }
            Thing::Complete(request) => self.windows[to].handle_complete(request).map_err(wrong)?,
            Thing::Flushed => self.windows[to].handle_flushed(from).map_err(wrong)?,
            Thing::Round { part, sequence, round, values } => {
                let message = Message::Round { part, sequence, round, values: &values };
                self.windows[to].handle_message(from, message).map_err(wrong)?;
            }
            Thing::Plain(message) => self.windows[to].handle_message(from, message).map_err(wrong)?,
        }
        Ok(())
    }

    /// One operation, or the fence when there is none left.
    fn act(&mut self, rank: usize) -> Result<(), String> {
        let epoch = self.windows[rank].epoch();
        if self.left[rank] == 0 {
            self.checker.fence(rank);
            let asserts =
                Asserts { no_precede: self.scenario.is_quiet(epoch), no_succeed: self.scenario.is_quiet(epoch + 1) };
            return self.windows[rank].fence(asserts, Time::from_nanos(self.now)).map_err(|error| error.to_string());
        }
        self.left[rank] -= 1;
        let target = match self.scenario.fence {
            Fence::Neighbour => {
                let all = self.scenario.neighbours(rank);
                all[self.random.below(all.len() as u64) as usize]
            }
            _ => self.random.below(self.scenario.ranks as u64) as usize,
        };
        self.operate(rank, target, epoch)?;
        let when = self.now + self.random.below(200);
        self.at(when, rank, rank, Thing::Act);
        Ok(())
    }

    fn operate(&mut self, rank: usize, target: usize, epoch: u32) -> Result<(), String> {
        let ranks = self.scenario.ranks;
        let used = self.used[rank][target];
        let (is_tagged, only) = (self.scenario.fence == Fence::Tagged, self.scenario.has_messages_only(epoch));
        let is_get = (used == CELLS || self.random.one_in(4)) && !(is_tagged && only);
        let is_message = is_tagged && (only || self.random.one_in(2));
        if used == CELLS && !is_get {
            return Ok(());
        }
        // Cells go from rank to rank, so that what comes late hits those of another rank.
        let cell = match is_get {
            true => self.random.below((ranks * CELLS) as u64) as usize,
            false => (rank + epoch as usize) % ranks * CELLS + used,
        };
        let stamp = u64::from(epoch) << 32 | (rank as u64) << 8 | used as u64;
        let local = Slice { region: RegionId { index: 0, generation: 0 }, offset: stamp, length: 8 };
        let access = Access { rank: target, offset: 8 * cell as u64, local };
        let window = &mut self.windows[rank];
        let done = match (is_get, is_message) {
            (true, _) => window.get(access),
            (false, true) if self.scenario.sends_too_much => window.put_message(access, Load::default()),
            (false, true) => window.put_message(access, Load::message(self.scenario.message_bytes)),
            (false, false) => window.put(access),
        };
        done.map_err(|error| format!("rank {rank}: {error}"))?;
        if !is_get {
            self.used[rank][target] += 1;
            self.checker.begin(target, cell, stamp);
        }
        Ok(())
    }

    fn note(&mut self, rank: usize, event: Event) -> Result<(), String> {
        let ended = match event {
            Event::Failed(error) => return Err(format!("rank {rank}: {error}")),
            Event::Fenced { epoch } => Some(epoch),
            Event::Created => None,
        };
        if let Some(epoch) = ended {
            self.checker.leave(rank, epoch)?;
        }
        let epoch = self.windows[rank].epoch();
        if epoch == self.scenario.epochs {
            self.done += 1;
            return Ok(());
        }
        for (from, thing) in std::mem::take(&mut self.early[rank]) {
            self.take(from, rank, thing)?;
        }
        self.used[rank].fill(0);
        self.left[rank] = if self.scenario.is_quiet(epoch) { 0 } else { self.random.below(7) };
        let when = self.now + self.random.below(300);
        self.at(when, rank, rank, Thing::Act);
        Ok(())
    }
}

fn own(message: Message<'_>) -> Thing {
    match message {
        Message::Round { part, sequence, round, values } => {
            Thing::Round { part, sequence, round, values: values.to_vec() }
        }
        Message::Finish { epoch, count } => Thing::Plain(Message::Finish { epoch, count }),
        Message::Post | Message::Complete { .. } => unreachable!("nobody posts in these worlds"),
        Message::Ready { epoch } => Thing::Plain(Message::Ready { epoch }),
        Message::Ask { epoch } => Thing::Plain(Message::Ask { epoch }),
        Message::Answer { epoch, fenced } => Thing::Plain(Message::Answer { epoch, fenced }),
        Message::Abort { rank } => Thing::Plain(Message::Abort { rank }),
    }
}

/// Takes the place of a window while a method of that window runs.
fn dummy() -> Window {
    let carrier = Carrier { order: Order::Whole, notices: false, flush: false };
    let mut settings = Settings::new(Fence::TwoSided, 0, carrier);
    (settings.operations, settings.limit) = (0, Duration::ZERO);
    Window::new(settings, 0, 1, Time::ZERO).expect("one rank is a group")
}
