//! What a fence costs among many ranks: the machines of `weft-window`, each driven by a processor of its own in virtual
//! time, as LogGP has it (Alexandrov, Ionescu, Schauser, Scheiman, SPAA 1995).
//!
//! Each rank's processor sends and takes one thing at a time. There is no loss, no order to keep but that between two
//! ranks, and as many processors as ranks: so this shows what a fence asks of a machine that is not here, and not how
//! it runs on an oversubscribed machine.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use weft_base::{RegionId, Slice, Time};
use weft_window::{
    Access, Action, Asserts, Carrier, CreateError, Event, Fence, Load, Message, Order, Part, Settings, Shape, Window,
};

/// The parameters of LogGP. The gap between two messages is the overhead: the processor is the NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogGp {
    /// L: from when one processor has sent something until another could take it.
    pub latency: Duration,
    /// o: a processor's time to send something, and to take it.
    pub overhead: Duration,
    /// G: more of that for each 1024 bytes.
    pub per_kib: Duration,
}

impl LogGp {
    /// Endpoints over iWARP on the loopback of the virtual machine that Weft was measured on: an empty counted fence of
    /// two ranks takes 13 us and each put 3.3 us more (`weft perf fence`).
    pub const LOOPBACK: Self = Self {
        latency: Duration::from_nanos(3200),
        overhead: Duration::from_nanos(1650),
        per_kib: Duration::from_nanos(500),
    };

    fn work(&self, bytes: usize) -> u64 {
        let nanoseconds = self.overhead.as_nanos() + self.per_kib.as_nanos() * bytes as u128 / 1024;
        nanoseconds as u64
    }
}

/// What is measured.
#[derive(Clone, Debug)]
pub struct FenceScenario {
    /// How many ranks.
    pub ranks: usize,
    /// The fence, and how what all ranks agree on runs among them.
    pub fence: Fence,
    /// As [`Settings::shape`].
    pub shape: Shape,
    /// Puts of each rank before each fence, of 8 bytes, to the next ranks; under [`Fence::Neighbour`] those are the
    /// neighbours, and at least the next one is.
    pub puts: usize,
    /// How many neighbours a rank has at most, for [`Fence::Auto`]; 0: unknown.
    pub fan_out: usize,
    /// Whether each epoch is followed by one in which nothing happens, and all ranks assert that.
    pub is_alternating: bool,
    /// What things cost.
    pub cost: LogGp,
}

/// What came out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FenceReport {
    /// The fence that was used.
    pub fence: Fence,
    /// From the first put until the last rank has left the fence: the mean over some epochs.
    pub time: Duration,
    /// What a rank has sent for it, on the average over the ranks: puts and messages.
    pub sent: f64,
}

/// Fences that come before those that count: the one that opens the first epoch, and as many as [`Fence::Tagged`] has
/// a barrier for before it takes epochs for ones in which everything goes as a message.
const FIRST: u32 = 5;
/// Epochs that count in [`simulate_fences`].
pub const FENCE_EPOCHS: u32 = 4;
/// Bytes of a put, and of the head of a message.
const PUT_BYTES: usize = 8;
const HEAD_BYTES: usize = 12;

/// Drives the windows through some epochs.
///
/// # Errors
/// The window cannot be made so.
///
/// # Panics
/// A window has found something wrong: that is a bug of it, or of this.
pub fn simulate_fences(scenario: &FenceScenario) -> Result<FenceReport, CreateError> {
    let ranks = scenario.ranks;
    let windows: Result<Vec<Window>, CreateError> = (0..ranks).map(|rank| scenario.window(rank)).collect();
    let mut world = World {
        scenario,
        windows: windows?,
        early: (0..ranks).map(|_| Vec::new()).collect(),
        free: vec![0; ranks],
        left: vec![0; ranks],
        done: 0,
        number: 0,
        events: BinaryHeap::new(),
        sent: 0,
        began: 0,
    };
    (0..ranks).for_each(|rank| world.pump(rank));
    while world.done < ranks {
        let Some(Reverse(next)) = world.events.pop() else { panic!("only {} of {ranks} ranks have left", world.done) };
        world.take(next);
    }
    let end = world.free.iter().copied().max().unwrap_or(0);
    let epochs = u64::from(FENCE_EPOCHS);
    Ok(FenceReport {
        fence: world.windows[0].fence_kind(),
        time: Duration::from_nanos((end - world.began) / epochs),
        sent: world.sent as f64 / (ranks as u64 * epochs) as f64,
    })
}

impl FenceScenario {
    fn window(&self, rank: usize) -> Result<Window, CreateError> {
        let carrier = Carrier { order: Order::Whole, notices: true, flush: true };
        let mut settings = Settings::new(self.fence, (self.ranks * PUT_BYTES) as u64, carrier);
        settings.operations = self.puts.max(1) as u32;
        settings.limit = Duration::from_secs(3600);
        (settings.fan_out, settings.shape, settings.tags) = (self.fan_out, self.shape, true);
        if self.fence == Fence::Neighbour || self.fan_out > 0 {
            let steps = 1..=self.puts.max(1);
            let both = steps.flat_map(|step| [rank + step, rank + self.ranks * step - step]);
            settings.neighbours = both.map(|other| other % self.ranks).filter(|other| *other != rank).collect();
            settings.neighbours.sort_unstable();
            settings.neighbours.dedup();
        }
        Window::new(settings, rank, self.ranks, Time::ZERO)
    }
}

/// Something that arrives.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Arrival {
    at: u64,
    number: u64,
    to: usize,
    from: usize,
    thing: Thing,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Thing {
    /// A write or a message that is placed; with how many there were, if it says.
    Placed {
        epoch: u32,
        is_noticed: bool,
        finish: Option<u32>,
    },
    Round {
        part: u8,
        sequence: u32,
        round: u32,
        values: Vec<u64>,
    },
    Finish {
        epoch: u32,
        count: u32,
    },
    Ready {
        epoch: u32,
    },
}

struct World<'a> {
    scenario: &'a FenceScenario,
    windows: Vec<Window>,
    /// What came before its epoch: its sources, and its epochs.
    early: Vec<Vec<(usize, u32)>>,
    /// When each processor has nothing to do.
    free: Vec<u64>,
    /// Fences that each rank has left.
    left: Vec<u32>,
    done: usize,
    number: u64,
    events: BinaryHeap<Reverse<Arrival>>,
    sent: u64,
    /// When the last rank has left the opening fence.
    began: u64,
}

impl World<'_> {
    fn take(&mut self, arrival: Arrival) {
        let Arrival { at, to, from, thing, .. } = arrival;
        let bytes = match &thing {
            Thing::Placed { .. } => PUT_BYTES,
            Thing::Round { values, .. } => HEAD_BYTES + 8 * values.len(),
            Thing::Finish { .. } | Thing::Ready { .. } => HEAD_BYTES,
        };
        self.free[to] = self.free[to].max(at) + self.scenario.cost.work(bytes);
        let window = &mut self.windows[to];
        let outcome = match thing {
            Thing::Placed { epoch, .. } if window.is_early(epoch) => {
                self.early[to].push((from, epoch));
                window.keep_early(from, PUT_BYTES as u32)
            }
            Thing::Placed { epoch, is_noticed, finish } => {
                let placed = if is_noticed { window.handle_placed(from, epoch) } else { Ok(()) };
                let said = |count| window.handle_message(from, Message::Finish { epoch, count });
                placed.and(finish.map_or(Ok(()), said))
            }
            Thing::Round { part, sequence, round, values } => {
                let part = [Part::Create, Part::Agree, Part::Barrier][usize::from(part)];
                window.handle_message(from, Message::Round { part, sequence, round, values: &values })
            }
            Thing::Finish { epoch, count } => window.handle_message(from, Message::Finish { epoch, count }),
            Thing::Ready { epoch } => window.handle_message(from, Message::Ready { epoch }),
        };
        outcome.unwrap_or_else(|error| panic!("rank {to}: {error}"));
        self.pump(to);
    }

    /// Does what a window wants done, and what its rank does next.
    fn pump(&mut self, rank: usize) {
        loop {
            while let Some((to, bytes, thing)) = self.next_thing(rank) {
                self.send(rank, to, bytes, thing);
            }
            match self.windows[rank].poll_event() {
                None => return,
                Some(Event::Failed(error)) => panic!("rank {rank}: {error}"),
                Some(Event::Created) => self.fence(rank),
                Some(Event::Fenced { .. }) => self.go_on(rank),
            }
        }
    }

    fn next_thing(&mut self, rank: usize) -> Option<(usize, usize, Thing)> {
        let window = &mut self.windows[rank];
        let epoch = window.epoch();
        let (request, given) = match window.poll_action()? {
            Action::Write { request, access, notice, .. } => {
                let thing = Thing::Placed { epoch, is_noticed: notice.is_some(), finish: None };
                (Some(request), (access.rank, PUT_BYTES, thing))
            }
            Action::Deliver { request, access, epoch, last, .. } => {
                (Some(request), (access.rank, PUT_BYTES, Thing::Placed { epoch, is_noticed: true, finish: last }))
            }
            Action::Send { to, message, .. } => {
                let (bytes, thing) = message_of(message);
                (None, (to, bytes, thing))
            }
            Action::Read { .. } | Action::Flush { .. } | Action::Lock { .. } | Action::Unlock { .. } => {
                unreachable!("nobody gets, locks or needs a flush here")
            }
        };
        // What was sent is the carrier's.
        request.into_iter().for_each(|request| window.handle_complete(request).expect("it was begun"));
        Some(given)
    }

    fn send(&mut self, from: usize, to: usize, bytes: usize, thing: Thing) {
        self.free[from] += self.scenario.cost.work(bytes);
        let latency = if from == to { 0 } else { self.scenario.cost.latency.as_nanos() as u64 };
        self.number += 1;
        self.sent += u64::from(self.left[from] >= FIRST);
        let arrival = Arrival { at: self.free[from] + latency, number: self.number, to, from, thing };
        self.events.push(Reverse(arrival));
    }

    /// A rank has left a fence.
    fn go_on(&mut self, rank: usize) {
        self.left[rank] += 1;
        for (from, epoch) in std::mem::take(&mut self.early[rank]) {
            self.windows[rank].handle_placed(from, epoch).expect("its epoch has begun");
        }
        let is_quiet = self.scenario.is_alternating && !self.windows[rank].is_open();
        if is_quiet {
            // The fence that opens the next epoch is part of its cost.
            self.left[rank] -= 1;
            return self.fence(rank);
        }
        if self.left[rank] == FIRST {
            self.began = self.began.max(self.free[rank]);
        }
        if self.left[rank] == FIRST + FENCE_EPOCHS {
            self.done += 1;
            return;
        }
        let ranks = self.scenario.ranks;
        for put in 0..self.scenario.puts {
            let to = (rank + 1 + put) % ranks;
            if to == rank {
                continue;
            }
            let local = Slice { region: RegionId { index: 0, generation: 0 }, offset: 0, length: PUT_BYTES as u32 };
            let access = Access { rank: to, offset: (rank * PUT_BYTES) as u64, local };
            let load = Load::message(PUT_BYTES as u32);
            self.windows[rank].put_message(access, load).expect("an epoch is open, and there is room");
            while let Some((to, bytes, thing)) = self.next_thing(rank) {
                self.send(rank, to, bytes, thing);
            }
        }
        self.fence(rank);
    }

    fn fence(&mut self, rank: usize) {
        let is_open = self.windows[rank].is_open();
        let alternates = self.scenario.is_alternating;
        let asserts = Asserts { no_precede: alternates && !is_open, no_succeed: alternates && is_open };
        self.windows[rank].fence(asserts, Time::ZERO).expect("it may fence now");
    }
}

fn message_of(message: Message<'_>) -> (usize, Thing) {
    match message {
        Message::Round { part, sequence, round, values } => {
            (HEAD_BYTES + 8 * values.len(), Thing::Round { part: part as u8, sequence, round, values: values.to_vec() })
        }
        Message::Finish { epoch, count } => (HEAD_BYTES, Thing::Finish { epoch, count }),
        Message::Ready { epoch } => (HEAD_BYTES, Thing::Ready { epoch }),
        other => unreachable!("nobody is late or lost here: {other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FENCES: [Fence; 7] = [
        Fence::TwoSided,
        Fence::OneSided,
        Fence::OneSidedBarrier,
        Fence::RemoteImmediate,
        Fence::Counted,
        Fence::Neighbour,
        Fence::Tagged,
    ];

    fn run(ranks: usize, fence: Fence, puts: usize) -> FenceReport {
        shaped(ranks, fence, Shape::Rounds, puts)
    }

    fn shaped(ranks: usize, fence: Fence, shape: Shape, puts: usize) -> FenceReport {
        let cost = LogGp::LOOPBACK;
        simulate_fences(&FenceScenario { ranks, fence, shape, puts, fan_out: 0, is_alternating: false, cost }).unwrap()
    }

    #[test]
    fn two_ranks_take_what_was_measured() {
        // Two rounds, each of which is sent, travels and is taken.
        let empty = run(2, Fence::Counted, 0).time;
        assert!((12_000..15_000).contains(&empty.as_nanos()), "{empty:?}");
        let eight = run(2, Fence::Counted, 8).time;
        assert!((20_000..50_000).contains(&eight.as_nanos()), "{eight:?}");
    }

    #[test]
    fn every_fence_ends_and_sends_what_it_must() {
        for ranks in [1, 2, 3, 16, 33] {
            for fence in FENCES {
                for puts in [0, 1, 8] {
                    let report = run(ranks, fence, puts);
                    let own = if ranks == 1 { 0 } else { (0..puts).filter(|put| (put + 1) % ranks != 0).count() };
                    assert!(report.sent >= own as f64, "{ranks} {fence:?} {puts}: {report:?}");
                }
            }
        }
    }

    #[test]
    fn what_grows_with_all_ranks_is_slow_and_neighbours_do_not_care_how_many_there_are() {
        let (few, many) = (run(16, Fence::Neighbour, 1).time, run(128, Fence::Neighbour, 1).time);
        assert!(many < few * 2, "{few:?} {many:?}");
        let counted = run(128, Fence::Counted, 1).time;
        assert!(run(128, Fence::OneSided, 1).time > counted * 3);
        assert!(run(128, Fence::RemoteImmediate, 1).time > counted);
        assert!(run(128, Fence::TwoSided, 0).time < counted);
        assert!(many < counted);
    }

    #[test]
    fn messages_that_name_their_epoch_save_the_barrier_and_a_tree_saves_messages() {
        let (counted, tagged) = (run(64, Fence::Counted, 0), run(64, Fence::Tagged, 0));
        // Six rounds for the counts, and as many for the barrier.
        assert_eq!((counted.sent, tagged.sent), (12.0, 6.0));
        assert!(tagged.time < counted.time, "{counted:?} {tagged:?}");
        let tree = shaped(64, Fence::Tagged, Shape::Tree { fan: 8 }, 0);
        // Up and down again: two for each rank but the root.
        assert_eq!(tree.sent, 2.0 * 63.0 / 64.0);
    }

    #[test]
    fn asserts_save_the_barrier() {
        let scenario = |is_alternating| FenceScenario {
            ranks: 64,
            fence: Fence::Counted,
            shape: Shape::Rounds,
            puts: 0,
            fan_out: 0,
            is_alternating,
            cost: LogGp::LOOPBACK,
        };
        let (plain, pairs) = (simulate_fences(&scenario(false)).unwrap(), simulate_fences(&scenario(true)).unwrap());
        // Two fences with the asserts are no more than one without.
        assert!(pairs.time <= plain.time + plain.time / 4, "{plain:?} {pairs:?}");
    }
}
