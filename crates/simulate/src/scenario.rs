//! A scenario: random operations on a pair, and a model that says what must come of them.
//!
//! Each end sends, writes to, reads from and atomically changes a window of the other end, while it receives and is
//! written to itself. The model applies the same operations to plain vectors. Writes and atomics that follow a read are
//! fenced, so that what the read returns is determined (RFC 5040 section 5.5). Where the lower layer keeps no order,
//! writes may be placed in another order than they were posted in: there a read and a fence keep one that overlaps
//! another that is still in flight behind it.

use core::ops::Range;
use core::time::Duration;
use std::collections::VecDeque;

use weft_base::{Gather, Iwarp, NoDigest, Random, Slice};
use weft_memory::{Access, Region};
use weft_nic::WorkCompletion;
use weft_rdmap::{AtomicCode, Operation, Payload, ReceiveRequest, RemoteTarget, RequestFlags, SendRequest, Status};

use crate::network::Tag;
use crate::packets::PacketBehaviour;
use crate::pair::{End, Pair, PairOptions};
use crate::pipe::Behaviour;
use crate::rails;
use crate::shuffle::ShuffleFault;
use crate::world::{HelperThreads, World};

/// Bytes of the window that the peer may use.
const WINDOW: u64 = 192 * 1024;
/// Bytes before and after it, in the same allocation but in a region of their own rights.
const GUARD: usize = 4096;
/// Bytes of one receive buffer.
const INBOX: u32 = 20_000;
/// The longest virtual time that a scenario may take.
const LIMIT: Duration = Duration::from_secs(300);
/// How long what is in flight at the end gets to arrive.
const SETTLE: Duration = Duration::from_secs(1);
/// What guards are filled with.
const GUARD_BYTE: u8 = 0xa5;

/// A deliberate falsification of what a run has come to, so that it shows whether the checker sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Break {
    /// None: the checker must be content.
    Nothing,
    /// One byte of a window is changed.
    FlipByte,
    /// One completion is lost.
    LoseCompletion,
    /// One completion comes twice.
    DoubleCompletion,
    /// Two neighbouring completions are exchanged.
    SwapCompletions,
    /// A byte outside of what was granted is changed.
    TouchGuard,
    /// A received message is changed.
    FlipMessage,
}

/// What to run.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Everything follows from it.
    pub seed: u64,
    /// Operations that each end posts.
    pub operations: usize,
    /// The network.
    pub behaviour: Behaviour,
    /// How packets are treated, where the lower layer sends any; not at all otherwise.
    pub packets: PacketBehaviour,
    /// The ends.
    pub options: PairOptions,
    /// How their engines beside the first are run, where they have any.
    pub helpers: HelperThreads,
    /// Whether the connection is expected to survive: then everything must have happened. Otherwise only what must hold
    /// in any case is checked.
    pub survives: bool,
    /// Falsification.
    pub sabotage: Break,
    /// A mistake of the lower layer, where it can make any.
    pub fault: ShuffleFault,
    /// Whether the lower layer brings segments in the order of sending.
    pub keeps_order: bool,
}

/// What a run has come to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Completions with success.
    pub succeeded: usize,
    /// Completions of other kinds.
    pub failed: usize,
    /// Virtual time that passed, in nanoseconds.
    pub elapsed_ns: u64,
    /// Rails that were opened beside the first, and that were left for being silent, by both ends.
    pub rails: (u64, u64),
    /// Receives and sends of engines that serve rails of others' connections, at both ends.
    pub served: (u64, u64),
    /// Bytes that were kept before they were placed, at both ends.
    pub kept_bytes: u64,
    /// Bytes that peers copied from where they were written, at both ends.
    pub borrowed_bytes: u64,
}

impl Scenario {
    /// A scenario over a well-behaved network.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            operations: 60,
            behaviour: Behaviour::default(),
            packets: PacketBehaviour::default(),
            options: PairOptions::default(),
            helpers: HelperThreads::default(),
            survives: true,
            sabotage: Break::Nothing,
            fault: ShuffleFault::Nothing,
            keeps_order: true,
        }
    }

    /// Runs it over iWARP and checks everything.
    ///
    /// # Errors
    /// What does not hold, with the seed.
    pub fn run(&self) -> Result<Report, String> {
        self.run_over::<Iwarp>()
    }

    /// Runs it over the lower layer of this tag and checks everything.
    ///
    /// # Errors
    /// What does not hold, with the seed.
    pub fn run_over<T: Tag>(&self) -> Result<Report, String> {
        self.run_unnamed::<T>().map_err(|text| format!("seed {}: {text}", self.seed))
    }

    fn run_unnamed<T: Tag>(&self) -> Result<Report, String> {
        let world = World::new(self.seed, self.behaviour);
        world.set_fault(self.fault);
        world.set_packets(self.packets);
        world.set_helpers(self.helpers);
        rails::lay(&world, 2, self.options.networks, &self.packets, self.seed);
        let pair = Pair::<T>::unconnected(&world, &self.options);
        if !pair.connect(&self.options) {
            return if self.survives {
                Err(format!("not connected: {:?}", pair.active.queue_pair.error()))
            } else {
                Ok(Report::default())
            };
        }
        let mut sides = [
            Side::new(&pair.active, world.fork_random(), self.operations)?,
            Side::new(&pair.passive, world.fork_random(), self.operations)?,
        ];
        sides.iter_mut().for_each(|side| side.keeps_order = self.keeps_order);
        let inboxes = sides.each_ref().map(|side| side.plan.iter().filter(|step| step.is_send()).count());
        sides[0].prepare_receives(&pair.active, inboxes[1])?;
        sides[1].prepare_receives(&pair.passive, inboxes[0])?;
        let remotes = sides.each_ref().map(Side::remote);
        let ends = [&pair.active, &pair.passive];
        let mut finished = pair.run(LIMIT, || {
            for (index, side) in sides.iter_mut().enumerate() {
                side.step(ends[index], remotes[1 - index]);
            }
            let over = ends.iter().all(|end| end.queue_pair.state().has_ended());
            over || sides.iter().all(Side::is_done)
        });
        if !finished && self.behaviour.damage_one_in > 0 {
            // A damaged length can say more than any side still sends. Then the end comes from outside.
            world.break_streams();
            finished = pair.run(LIMIT, || ends.iter().all(|end| end.queue_pair.state().has_ended()));
        }
        // A write completes when it has left; let it arrive.
        pair.run(SETTLE, || false);
        for (index, side) in sides.iter_mut().enumerate() {
            side.collect(ends[index]);
        }
        if !finished {
            return Err(format!("stuck: {}", sides.each_ref().map(Side::describe).join("; ")));
        }
        self.falsify(&mut sides);
        let why = |text| format!("{text} ({:?})", ends.map(|end| end.queue_pair.error()));
        self.check(&sides).map_err(why)?;
        let all = || sides.iter().flat_map(|side| side.sent.iter().chain(&side.received));
        let succeeded = all().filter(|completion| completion.status == Status::Success).count();
        let failed = all().count() - succeeded;
        let counters = [&pair.active, &pair.passive].map(|end| end.nic.counters());
        let add = |sum: (u64, u64), one: (u64, u64)| (sum.0 + one.0, sum.1 + one.1);
        let rails = counters.iter().map(rails::counted).fold((0, 0), add);
        let served = counters.iter().map(|one| (one.served_receives, one.served_sends)).fold((0, 0), add);
        let kept_bytes = counters.iter().map(|one| one.kept_bytes).sum();
        let borrowed_bytes = counters.iter().map(|one| one.placed_borrowed_bytes).sum();
        let elapsed_ns = world.now().as_nanos();
        Ok(Report { succeeded, failed, elapsed_ns, rails, served, kept_bytes, borrowed_bytes })
    }

    fn falsify(&self, sides: &mut [Side; 2]) {
        let side = &mut sides[0];
        match self.sabotage {
            Break::Nothing => {}
            Break::FlipByte => flip(&side.window, 77),
            Break::TouchGuard => flip(&side.guard, 5),
            Break::FlipMessage => flip(&side.inbox, 0),
            Break::LoseCompletion => drop(side.sent.pop()),
            Break::DoubleCompletion => side.sent.extend(side.sent.last().copied()),
            Break::SwapCompletions => {
                let end = side.sent.len();
                side.sent.swap(end - 1, end - 2);
            }
        }
    }

    fn check(&self, sides: &[Side; 2]) -> Result<(), String> {
        for (index, side) in sides.iter().enumerate() {
            let peer = &sides[1 - index];
            side.check_guard().map_err(|text| format!("end {index}: {text}"))?;
            side.check_completions(self.survives).map_err(|text| format!("end {index}: {text}"))?;
            if self.survives {
                side.check_window(&peer.model).map_err(|text| format!("end {index}: {text}"))?;
                side.check_messages(&peer.messages).map_err(|text| format!("end {index}: {text}"))?;
                side.check_reads().map_err(|text| format!("end {index}: {text}"))?;
            }
        }
        Ok(())
    }
}

/// One operation, decided before the run.
#[derive(Clone, Debug)]
enum Step {
    Send { bytes: Vec<u8>, inline: bool },
    Write { offset: u64, bytes: Vec<u8>, inline: bool },
    WriteImmediate { offset: u64, bytes: Vec<u8>, immediate: u64 },
    Read { offset: u64, length: u32 },
    Add { word: u64, add: u64 },
    Swap { word: u64, new: u64 },
}

impl Step {
    fn random(random: &mut Random) -> Self {
        let word = random.below(WINDOW / 8) * 8;
        let length = match random.below(8) {
            0 => 0,
            1..=3 => random.below(200),
            4..=6 => random.below(9000),
            _ => random.below(WINDOW),
        };
        let offset = random.below(WINDOW - length + 1);
        let mut bytes = vec![0; length as usize];
        random.fill(&mut bytes);
        let inline = length <= weft_rdmap::MAX_INLINE as u64 && random.one_in(2);
        match random.below(10) {
            0..=2 => {
                bytes.truncate(INBOX as usize);
                Self::Send { bytes, inline }
            }
            3..=5 => Self::Write { offset, bytes, inline },
            6 => Self::WriteImmediate { offset, bytes, immediate: random.next_u64() },
            7 => Self::Read { offset, length: length as u32 },
            8 => Self::Add { word, add: random.next_u64() },
            _ => Self::Swap { word, new: random.next_u64() },
        }
    }

    /// Whether it uses up a receive at the peer.
    fn is_send(&self) -> bool {
        matches!(self, Self::Send { .. } | Self::WriteImmediate { .. })
    }

    fn changes_window(&self) -> bool {
        !matches!(self, Self::Send { .. } | Self::Read { .. })
    }
}

/// What a receive must bring.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Message {
    Bytes(Vec<u8>),
    Immediate(u64),
}

struct Side {
    plan: VecDeque<Step>,
    posted: Vec<(u64, bool)>,
    next_id: u64,
    /// What the peer's window must hold when all of this end's operations have happened.
    model: Vec<u8>,
    messages: Vec<Message>,
    /// What the reads must have brought, and where they did.
    expected_reads: Vec<(Slice, Vec<u8>)>,
    expected_receives: usize,
    sent: Vec<WorkCompletion>,
    received: Vec<WorkCompletion>,
    must_fence: bool,
    keeps_order: bool,
    /// What writes in flight touch, if no read or atomic was posted behind them ...
    open: Vec<Range<u64>>,
    /// ... and what those touch that a fence waits for.
    answered: Vec<Range<u64>>,
    window: Region,
    guard: Region,
    source: Region,
    source_used: u64,
    sink: Region,
    sink_used: u64,
    inbox: Region,
    registry: weft_memory::Registry,
}

impl Side {
    fn new<T: Tag>(end: &End<T>, mut random: Random, operations: usize) -> Result<Self, String> {
        let registry = end.nic.registry().clone();
        let register = |length: usize, fill: u8, access| {
            registry.register(end.domain, vec![fill; length], access, 0).map_err(|error| error.to_string())
        };
        let plan: VecDeque<Step> = (0..operations).map(|_| Step::random(&mut random)).collect();
        let exposed = Access::LOCAL_WRITE | Access::REMOTE_READ | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC;
        let payload: usize = plan.iter().map(|step| step.payload().len()).sum();
        let answers: usize = plan.iter().map(|step| step.answer_length() as usize + 8).sum();
        Ok(Self {
            plan,
            posted: Vec::new(),
            next_id: 1,
            model: vec![0; WINDOW as usize],
            messages: Vec::new(),
            expected_reads: Vec::new(),
            expected_receives: 0,
            sent: Vec::new(),
            received: Vec::new(),
            must_fence: false,
            keeps_order: true,
            open: Vec::new(),
            answered: Vec::new(),
            window: register(WINDOW as usize, 0, exposed)?,
            guard: register(GUARD, GUARD_BYTE, Access::LOCAL_READ)?,
            source: register(payload.max(1), 0, Access::LOCAL_READ)?,
            source_used: 0,
            sink: register(answers.max(8), 0, Access::LOCAL_WRITE)?,
            sink_used: 0,
            inbox: register(operations.max(1) * INBOX as usize, 0, Access::LOCAL_WRITE)?,
            registry: registry.clone(),
        })
    }

    fn remote(&self) -> RemoteTarget {
        RemoteTarget { stag: self.window.stag(), offset: self.window.base() }
    }

    fn prepare_receives<T: Tag>(&mut self, end: &End<T>, count: usize) -> Result<(), String> {
        self.expected_receives = count;
        for index in 0..count {
            let sink = Slice { region: self.inbox.id(), offset: index as u64 * u64::from(INBOX), length: INBOX };
            let request = ReceiveRequest { id: index as u64, sink: Gather::from(sink) };
            end.nic.post_receive(&end.queue_pair, request).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Posts as much as there is room for, and takes what has completed.
    fn step<T: Tag>(&mut self, end: &End<T>, remote: RemoteTarget) {
        self.collect(end);
        while let Some(step) = self.plan.front().cloned().map(|step| self.behind_a_read(step)) {
            let signaled = !self.next_id.is_multiple_of(3) || self.plan.len() == 1;
            let operation = self.operation(&step, remote);
            let fence = self.must_fence && step.changes_window() || self.meets(&step, &self.answered);
            let request = SendRequest { id: self.next_id, operation, signaled, fence, flags: RequestFlags::NONE };
            if end.nic.post_send(&end.queue_pair, core::iter::once(request)).is_err() {
                return;
            }
            self.note_order(&step, fence);
            self.commit(&step, signaled);
        }
    }

    /// Puts a read before a step that must wait for writes in flight.
    fn behind_a_read(&mut self, step: Step) -> Step {
        if !self.meets(&step, &self.open) {
            return step;
        }
        let read = Step::Read { offset: 0, length: 0 };
        self.plan.push_front(read.clone());
        read
    }

    /// Whether a step writes, and to bytes of these. Atomics need no care: they are done in the order of delivery.
    fn meets(&self, step: &Step, under_way: &[Range<u64>]) -> bool {
        let writes = matches!(step, Step::Write { .. } | Step::WriteImmediate { .. });
        let place = step.place();
        writes && under_way.iter().any(|other| other.start < place.end && place.start < other.end)
    }

    /// Notes what the step that was posted touches.
    fn note_order(&mut self, step: &Step, fence: bool) {
        if self.keeps_order {
            return;
        }
        if fence {
            self.answered.clear();
        }
        match step {
            Step::Write { .. } | Step::WriteImmediate { .. } => self.open.push(step.place()),
            Step::Add { .. } | Step::Swap { .. } | Step::Read { .. } => {
                self.answered.append(&mut self.open);
                self.answered.push(step.place());
            }
            Step::Send { .. } => {}
        }
    }

    fn operation(&self, step: &Step, remote: RemoteTarget) -> Operation {
        let at = |offset: u64| RemoteTarget { stag: remote.stag, offset: remote.offset + offset };
        let sink = |length: u32| Slice { region: self.sink.id(), offset: self.sink_used, length };
        match step {
            Step::Send { bytes, inline } => {
                Operation::Send { payload: self.payload(bytes, *inline), solicited: false, invalidate: None }
            }
            Step::Write { offset, bytes, inline } => {
                Operation::Write { payload: self.payload(bytes, *inline), target: at(*offset) }
            }
            Step::WriteImmediate { offset, bytes, immediate } => Operation::WriteImmediate {
                payload: self.payload(bytes, false),
                target: at(*offset),
                immediate: *immediate,
                solicited: true,
            },
            Step::Read { offset, length } => Operation::Read { sink: Gather::from(sink(*length)), source: at(*offset) },
            Step::Add { word, add } => self.atomic(AtomicCode::FetchAdd, sink(8), at(*word), *add),
            Step::Swap { word, new } => self.atomic(AtomicCode::Swap, sink(8), at(*word), *new),
        }
    }

    fn atomic(&self, code: AtomicCode, sink: Slice, target: RemoteTarget, data: u64) -> Operation {
        let mask = if code == AtomicCode::FetchAdd { 0 } else { u64::MAX };
        Operation::Atomic { code, data, mask, compare: 0, compare_mask: u64::MAX, sink, target }
    }

    /// The payload, which lies in the source region in two slices, or in the request itself.
    fn payload(&self, bytes: &[u8], inline: bool) -> Payload {
        if inline {
            return Payload::Inline(weft_rdmap::InlineBytes::new(bytes).expect("no more than fit"));
        }
        let slice = Slice { region: self.source.id(), offset: self.source_used, length: bytes.len() as u32 };
        self.registry.copy_in(&slice, bytes, &mut NoDigest).expect("the source region is registered");
        let half = slice.length / 3;
        let halves = [slice.part(0, half), slice.part(half, slice.length - half)];
        Payload::Gather(Gather::new(&halves).expect("two slices"))
    }

    /// The step was posted: the model does the same.
    fn commit(&mut self, step: &Step, signaled: bool) {
        self.plan.pop_front();
        self.posted.push((self.next_id, signaled));
        self.next_id += 1;
        self.source_used += step.payload().len() as u64;
        if matches!(step, Step::Read { .. }) {
            self.must_fence = true;
        } else if step.changes_window() {
            self.must_fence = false;
        }
        match step {
            Step::Send { bytes, .. } => self.messages.push(Message::Bytes(bytes.clone())),
            Step::Write { offset, bytes, .. } => self.model_write(*offset, bytes),
            Step::WriteImmediate { offset, bytes, immediate } => {
                self.model_write(*offset, bytes);
                self.messages.push(Message::Immediate(*immediate));
            }
            Step::Read { offset, length } => {
                let bytes = self.model[*offset as usize..][..*length as usize].to_vec();
                self.expect(bytes);
            }
            Step::Add { word, add } => self.model_word(*word, |old| old.wrapping_add(*add)),
            Step::Swap { word, new } => self.model_word(*word, |_| *new),
        }
    }

    fn model_write(&mut self, offset: u64, bytes: &[u8]) {
        self.model[offset as usize..][..bytes.len()].copy_from_slice(bytes);
    }

    fn model_word(&mut self, word: u64, change: impl FnOnce(u64) -> u64) {
        let place = &mut self.model[word as usize..][..8];
        let old = u64::from_ne_bytes(place.try_into().expect("eight bytes"));
        place.copy_from_slice(&change(old).to_ne_bytes());
        self.expect(old.to_ne_bytes().to_vec());
    }

    fn expect(&mut self, bytes: Vec<u8>) {
        let length = bytes.len() as u32;
        let slice = Slice { region: self.sink.id(), offset: self.sink_used, length };
        self.sink_used += u64::from(length);
        self.expected_reads.push((slice, bytes));
    }

    fn collect<T: Tag>(&mut self, end: &End<T>) {
        end.take_sends(&mut self.sent);
        end.take_receives(&mut self.received);
    }

    fn is_done(&self) -> bool {
        let signaled = self.posted.iter().filter(|(_, signaled)| *signaled).count();
        self.plan.is_empty() && self.sent.len() >= signaled && self.received.len() >= self.expected_receives
    }

    fn describe(&self) -> String {
        format!(
            "{} of {} posted, {} completed, {} of {} received",
            self.posted.len(),
            self.posted.len() + self.plan.len(),
            self.sent.len(),
            self.received.len(),
            self.expected_receives
        )
    }

    fn check_guard(&self) -> Result<(), String> {
        match bytes_of(&self.guard).iter().position(|byte| *byte != GUARD_BYTE) {
            None => Ok(()),
            Some(at) => Err(format!("byte {at} of a region that was granted to nobody has changed")),
        }
    }

    /// In order, each once; when all went well exactly the signaled ones, otherwise at least all that failed.
    fn check_completions(&self, survives: bool) -> Result<(), String> {
        let ids: Vec<u64> = self.sent.iter().map(|completion| completion.id).collect();
        if !ids.is_sorted_by(|a, b| a < b) {
            return Err(format!("send completions are out of order or doubled: {ids:?}"));
        }
        let receive_ids: Vec<u64> = self.received.iter().map(|completion| completion.id).collect();
        if receive_ids != (0..receive_ids.len() as u64).collect::<Vec<_>>() {
            return Err(format!("receive completions are out of order, doubled or missing: {receive_ids:?}"));
        }
        if self.received.len() != self.expected_receives {
            return Err(format!("{} of {} receives have completed", self.received.len(), self.expected_receives));
        }
        let first_failure = self.sent.iter().find(|completion| completion.status != Status::Success).map(|c| c.id);
        for (id, signaled) in &self.posted {
            let due = *signaled || first_failure.is_some_and(|first| *id >= first);
            if due != ids.contains(id) {
                return Err(format!("request {id}: completion due {due}, there {}", ids.contains(id)));
            }
        }
        if survives && let Some(failed) = self.sent.iter().chain(&self.received).find(|c| c.status != Status::Success) {
            return Err(format!("request {} failed: {}", failed.id, failed.status));
        }
        Ok(())
    }

    fn check_window(&self, model: &[u8]) -> Result<(), String> {
        match bytes_of(&self.window).iter().zip(model).position(|(found, expected)| found != expected) {
            None => Ok(()),
            Some(at) => Err(format!("byte {at} of the window is not what was written there last")),
        }
    }

    fn check_messages(&self, messages: &[Message]) -> Result<(), String> {
        for (index, (completion, message)) in self.received.iter().zip(messages).enumerate() {
            let found = match completion.immediate {
                Some(immediate) => Message::Immediate(immediate),
                None => {
                    let mut bytes = vec![0; completion.length as usize];
                    let offset = index as u64 * u64::from(INBOX);
                    self.inbox.read(offset, &mut bytes).map_err(|error| error.to_string())?;
                    Message::Bytes(bytes)
                }
            };
            if found != *message {
                return Err(format!("message {index} is not the one that was sent"));
            }
        }
        Ok(())
    }

    fn check_reads(&self) -> Result<(), String> {
        for (slice, expected) in &self.expected_reads {
            let mut found = vec![0; expected.len()];
            self.sink.read(slice.offset, &mut found).map_err(|error| error.to_string())?;
            if found != *expected {
                return Err(format!(
                    "a read or atomic of {} bytes brought something else than what was there",
                    found.len()
                ));
            }
        }
        Ok(())
    }
}

impl Step {
    /// What it touches of the window.
    fn place(&self) -> Range<u64> {
        match self {
            Self::Send { .. } => 0..0,
            Self::Write { offset, bytes, .. } | Self::WriteImmediate { offset, bytes, .. } => {
                *offset..*offset + bytes.len() as u64
            }
            Self::Read { offset, length } => *offset..*offset + u64::from(*length),
            Self::Add { word, .. } | Self::Swap { word, .. } => *word..*word + 8,
        }
    }

    fn payload(&self) -> &[u8] {
        match self {
            Self::Send { bytes, inline: false }
            | Self::Write { bytes, inline: false, .. }
            | Self::WriteImmediate { bytes, .. } => bytes,
            _ => &[],
        }
    }

    fn answer_length(&self) -> u32 {
        match self {
            Self::Read { length, .. } => *length,
            Self::Add { .. } | Self::Swap { .. } => 8,
            _ => 0,
        }
    }
}

fn bytes_of(region: &Region) -> Vec<u8> {
    let mut bytes = vec![0; region.length() as usize];
    region.read(0, &mut bytes).expect("the whole region can be read");
    bytes
}

fn flip(region: &Region, offset: u64) {
    let mut byte = [0];
    region.read(offset, &mut byte).expect("inside the region");
    region.write(offset, &[byte[0] ^ 1]).expect("inside the region");
}
