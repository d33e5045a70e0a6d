//! One rank's part of a window.

use std::collections::VecDeque;

use weft_base::Time;
use weft_collective::{Collective, Kind, Operation, Shape};

use crate::{
    Access, Action, Asserts, Choice, CreateError, Event, Fence, FenceError, Load, Message, OperationError, Part,
    PeerError, Request, Settings, Update, WindowError,
};

mod active;
mod fence;
mod handle;
mod operations;
mod passive;

use active::Active;
use operations::Operations;
use passive::Passive;

/// Where a window is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The ranks compare what they made it with.
    Create,
    /// No epoch is open.
    Closed,
    /// Operations may begin.
    Open,
    /// What was written is flushed, then finishes go out.
    Finish,
    /// Operations end here.
    Drain,
    /// The ranks learn what to expect.
    Agree,
    /// Deferred operations move.
    Issue,
    /// What others sent comes in.
    Arrive,
    /// This rank has all; do the others?
    Close,
    Failed,
}

/// What came from others in one epoch.
#[derive(Debug)]
struct Inbox {
    /// Updates that were placed, and that finishes speak of.
    placed: u64,
    announced: u64,
    finishes: u64,
    readies: usize,
    /// By rank: finishes and ready messages, whose number is limited.
    finished: Vec<u16>,
    ready: Vec<bool>,
    /// By rank: what it has sent before this epoch began here.
    early: Vec<Load>,
}

impl Inbox {
    fn new(ranks: usize) -> Self {
        let (finished, ready, early) = (vec![0; ranks], vec![false; ranks], vec![Load::default(); ranks]);
        Self { placed: 0, announced: 0, finishes: 0, readies: 0, finished, ready, early }
    }

    fn clear(&mut self) {
        (self.placed, self.announced, self.finishes, self.readies) = (0, 0, 0, 0);
        self.finished.fill(0);
        self.ready.fill(false);
        self.early.fill(Load::default());
    }
}

/// What this rank did to another in the present epoch.
#[derive(Clone, Copy, Debug, Default)]
struct Target {
    updates: u32,
    reads: u32,
    /// Updates of a deferred fence that have gone.
    gone: u32,
    /// What was to go there as messages.
    messages: Load,
}

/// One rank's part of a window.
///
/// To use it: after each call, take [`poll_action`](Self::poll_action) until it gives nothing and do what it says, then
/// [`poll_event`](Self::poll_event) likewise, and call [`handle_timeout`](Self::handle_timeout) when
/// [`next_timeout`](Self::next_timeout) has come. Wait for [`Event::Created`], then [`fence`](Self::fence); when
/// [`Event::Fenced`] has come operations may begin, until the next fence. After [`Event::Failed`] nothing is possible.
#[derive(Debug)]
pub struct Window {
    rank: usize,
    ranks: usize,
    settings: Settings,
    kind: Fence,
    shape: Shape,
    is_neighbour: Vec<bool>,
    step: Step,
    epoch: u32,
    asserts: Asserts,
    /// Whether the fence that is in progress has operations to end.
    ends: bool,
    /// What this rank waits for in [`Step::Arrive`]: updates or finishes, as the fence counts.
    expected: u64,
    barrier_needed: bool,
    /// Under [`Fence::Tagged`]: whether this epoch began behind a barrier, so that operations need not be messages;
    /// whether this rank has begun one that is none; and fences in a row whose epochs had none at any rank.
    is_direct: bool,
    has_moved: bool,
    quiet: u32,
    sizes: Vec<u64>,
    targets: Vec<Target>,
    operations: Operations,
    /// By rank.
    passive: Vec<Passive>,
    active: Active,
    /// Flushes that have not been answered.
    flushes: usize,
    /// What came in the present epoch and in the next: by parity.
    inbox: [Inbox; 2],
    create: Collective,
    agree: Collective,
    barrier: Collective,
    /// Values of the message that is given out.
    scratch: Vec<u64>,
    actions: VecDeque<Action<'static>>,
    event: Option<Event>,
    deadline: Option<Time>,
    asked: bool,
    answers: Vec<Option<bool>>,
}

impl Window {
    /// The part of `rank` in a window of `ranks`. It begins at once to compare it with the others.
    ///
    /// # Errors
    /// When the fence cannot be right on the carrier, or there is no such group.
    pub fn new(settings: Settings, rank: usize, ranks: usize, now: Time) -> Result<Self, CreateError> {
        let choice = settings.resolve(rank, ranks)?;
        let (kind, shape) = (choice.fence, choice.shape);
        let barrier = Collective::shaped(Kind::Barrier, shape, rank, ranks).map_err(CreateError::Group)?;
        let sum = Operation::Sum;
        let agree = match kind {
            Fence::RemoteImmediate => Kind::AllReduce { length: ranks + 1, operation: sum },
            _ => Kind::ReduceScatter { block: 2, operation: sum },
        };
        let agree = Collective::shaped(agree, shape, rank, ranks).map_err(CreateError::Group)?;
        let mut create = Collective::new(Kind::AllGather { block: 2 }, rank, ranks).map_err(CreateError::Group)?;
        create.start(&[settings.bytes, settings.likeness(choice)]).expect("two values and never started before");
        let mut is_neighbour = vec![false; ranks];
        settings.neighbours.iter().for_each(|&other| is_neighbour[other] = true);
        let operations = Operations::new(settings.operations);
        let deadline = Some(now + settings.limit);
        Ok(Self {
            rank,
            ranks,
            kind,
            shape,
            is_neighbour,
            step: Step::Create,
            epoch: 0,
            asserts: Asserts::default(),
            ends: false,
            expected: 0,
            barrier_needed: false,
            is_direct: true,
            has_moved: false,
            quiet: 0,
            sizes: vec![0; ranks],
            targets: vec![Target::default(); ranks],
            actions: VecDeque::with_capacity(settings.operations as usize + ranks * usize::from(settings.rails())),
            settings,
            operations,
            passive: vec![Passive::default(); ranks],
            active: Active::new(ranks),
            flushes: 0,
            inbox: [Inbox::new(ranks), Inbox::new(ranks)],
            create,
            agree,
            barrier,
            scratch: Vec::with_capacity(2 * ranks),
            event: None,
            deadline,
            asked: false,
            answers: vec![None; ranks],
        })
    }

    /// How epochs end: the requested fence, or the one that was picked.
    #[must_use]
    pub fn fence_kind(&self) -> Fence {
        self.kind
    }

    /// The pattern of collective operations among the ranks: the requested one, or the one that was picked.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The present epoch, modulo 2^32: how many fences have ended.
    #[must_use]
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Whether operations of an epoch that a fence ends may begin now.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.step == Step::Open
    }

    /// Whether an operation is over: its source may be used again, or what it reads is here.
    #[must_use]
    pub fn is_complete(&self, request: Request) -> bool {
        !self.operations.has(request)
    }

    /// Begins to end this epoch; [`Event::Fenced`] says when it has.
    ///
    /// # Errors
    /// [`FenceError`]; nothing has happened then.
    pub fn fence(&mut self, asserts: Asserts, now: Time) -> Result<(), FenceError> {
        let begun: u32 = self.targets.iter().map(|target| target.updates.saturating_add(target.reads)).sum();
        match self.step {
            Step::Create => return Err(FenceError::NotCreated),
            Step::Failed => return Err(FenceError::Failed),
            Step::Open if asserts.no_precede && begun > 0 => return Err(FenceError::Preceded(begun)),
            Step::Open => self.ends = !asserts.no_precede,
            Step::Closed => self.ends = false,
            _ => return Err(FenceError::InFence),
        }
        if let Some(rank) = self.passive.iter().position(|passive| !passive.is_nothing()) {
            return Err(FenceError::Locked(rank));
        }
        if !self.active.is_nothing() {
            return Err(FenceError::Active);
        }
        self.asserts = asserts;
        self.deadline = Some(now + self.settings.limit);
        self.begin_fence();
        Ok(())
    }

    /// What is to be done next.
    pub fn poll_action(&mut self) -> Option<Action<'_>> {
        self.advance();
        if let Some(action) = self.actions.pop_front() {
            return Some(action);
        }
        let mut round = self.next_round();
        // Giving out a round may have ended its operation, and the next step may have begun another.
        while round.is_none() && self.advance() {
            if let Some(action) = self.actions.pop_front() {
                return Some(action);
            }
            round = self.next_round();
        }
        let (part, to, sequence, round) = round?;
        let message = Message::Round { part, sequence, round, values: &self.scratch };
        Some(Action::Send { to, rail: None, message })
    }

    fn next_round(&mut self) -> Option<(Part, usize, u32, u32)> {
        if self.step == Step::Failed {
            return None;
        }
        let machines =
            [(Part::Create, &mut self.create), (Part::Agree, &mut self.agree), (Part::Barrier, &mut self.barrier)];
        for (part, machine) in machines {
            if let Some(transmit) = machine.poll_transmit() {
                self.scratch.clear();
                self.scratch.extend_from_slice(transmit.values);
                let round = u32::try_from(transmit.round).expect("rounds are few");
                return Some((part, transmit.to, transmit.sequence, round));
            }
        }
        None
    }

    /// What has happened, each thing once.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.advance();
        self.event.take()
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Time> {
        self.deadline
    }

    fn is_fencing(&self) -> bool {
        !matches!(self.step, Step::Create | Step::Closed | Step::Open | Step::Failed)
    }

    fn send(&mut self, to: usize, message: Message<'static>) {
        self.actions.push_back(Action::Send { to, rail: None, message });
    }

    /// Ends everything. The others are notified when one rank is the cause, so that no rank waits for one that does not
    /// come. Every rank finds by itself what the ranks compare, since a rank that has the result has sent its part.
    fn fail(&mut self, error: WindowError) {
        if self.step == Step::Failed {
            return;
        }
        self.step = Step::Failed;
        self.event = Some(Event::Failed(error));
        self.deadline = None;
        self.actions.clear();
        let Some(rank) = error.to_tell() else { return };
        let rank = u32::try_from(rank).expect("ranks are few");
        let own = self.rank;
        (0..self.ranks).filter(|&to| to != own).for_each(|to| self.send(to, Message::Abort { rank }));
    }
}
