//! Whatever the order in which segments arrive, memory and completions are those of a model that knows nothing of
//! segments.

use crate::pair::{Area, Flying, Pair, Refused, Rights, Side, config, inline, target};
use proptest::prelude::*;
use weft_base::{Gather, Random, Stag};
use weft_rdmap::{
    AtomicCode, Closed, CompletionKind, Operation, Payload, RequestFlags, Role, SendRequest, State, Status,
    StreamConfig,
};

/// The most operations of one side.
const OPERATIONS: usize = 10;
/// Bytes that each operation has for itself.
const SLOT: u32 = 4096;
const CELLS: u64 = 3;

/// One operation of a script. What is not used by its kind is ignored.
#[derive(Clone, Debug)]
struct Step {
    kind: Kind,
    length: u32,
    pieces: u32,
    is_inline: bool,
    is_solicited: bool,
    invalidates: bool,
    is_fenced: bool,
    is_signaled: bool,
    value: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Send,
    Write,
    WriteImmediate,
    Immediate,
    Read,
    FetchAdd,
    Swap,
}

impl Step {
    fn bytes(&self) -> u32 {
        if self.is_inline { self.length % (weft_rdmap::MAX_INLINE as u32 + 1) } else { self.length }
    }

    fn takes_receive(&self) -> bool {
        matches!(self.kind, Kind::Send | Kind::WriteImmediate | Kind::Immediate)
    }
}

fn step() -> impl Strategy<Value = Step> {
    let kind = prop::sample::select(vec![
        Kind::Send,
        Kind::Send,
        Kind::Write,
        Kind::WriteImmediate,
        Kind::Immediate,
        Kind::Read,
        Kind::Read,
        Kind::FetchAdd,
        Kind::Swap,
    ]);
    let length = prop_oneof![Just(0), 1..300_u32, 0..=SLOT];
    (kind, length, 1..4_u32, any::<[bool; 5]>(), any::<u64>()).prop_map(|(kind, length, pieces, flags, value)| {
        let [is_inline, is_solicited, invalidates, is_fenced, is_signaled] = flags;
        Step { kind, length, pieces, is_inline, is_solicited, invalidates, is_fenced, is_signaled, value }
    })
}

fn script() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 0..=OPERATIONS)
}

/// The memory of one side: one slot for each operation in each.
struct Land {
    /// What it sends.
    source: Area,
    /// Its receive buffers.
    inbox: Area,
    /// What its reads and atomics bring.
    sink: Area,
    /// What the peer writes to.
    window: Area,
    /// What the peer reads.
    shelf: Area,
    /// What the peer's atomics change.
    cells: Area,
    /// What the peer invalidates.
    doomed: Vec<Area>,
}

impl Land {
    fn new(pair: &Pair, seed: u64) -> Self {
        let slots = SLOT * OPERATIONS as u32;
        let land = Self {
            source: pair.area(slots, Rights::Local),
            inbox: pair.area(slots, Rights::Local),
            sink: pair.area(slots, Rights::Local),
            window: pair.area(slots, Rights::Write),
            shelf: pair.area(slots, Rights::Read),
            cells: pair.area(8 * CELLS as u32, Rights::Atomic),
            doomed: (0..OPERATIONS).map(|_| pair.area(8, Rights::All)).collect(),
        };
        land.source.fill(seed);
        land.shelf.fill(seed + 1);
        land
    }

    fn image(&self) -> Image {
        Image {
            inbox: self.inbox.bytes(),
            sink: self.sink.bytes(),
            window: self.window.bytes(),
            cells: self.cells.bytes(),
        }
    }

    fn pins(&self) -> u64 {
        [&self.source, &self.inbox, &self.sink, &self.window, &self.shelf, &self.cells].map(Area::pins).iter().sum()
    }
}

/// What a side's memory holds in the end, where anything can change.
#[derive(Clone, Debug, PartialEq)]
struct Image {
    inbox: Vec<u8>,
    sink: Vec<u8>,
    window: Vec<u8>,
    cells: Vec<u8>,
}

/// What is compared of completions.
type Sent = (u64, CompletionKind, Status, u32);
type Received = (u64, CompletionKind, Status, u32, Option<u64>, bool, Option<Stag>);

#[derive(Clone, Debug, PartialEq)]
struct Outcome {
    images: [Image; 2],
    sent: [Vec<Sent>; 2],
    received: [Vec<Received>; 2],
}

fn slot(index: usize) -> u64 {
    index as u64 * u64::from(SLOT)
}

fn operation(step: &Step, index: usize, own: &Land, peer: &Land) -> Operation {
    let bytes = own.source.bytes();
    let start = slot(index);
    let payload = if step.is_inline {
        inline(&bytes[start as usize..][..step.bytes() as usize])
    } else {
        Payload::Gather(scattered(&own.source, start, step))
    };
    let (immediate, solicited) = (step.value, step.is_solicited);
    let write = target(peer.window.stag, peer.window.base + start);
    let atomic = |code| Operation::Atomic {
        code,
        data: step.value,
        mask: 0,
        compare: 0,
        compare_mask: 0,
        sink: own.sink.slice(start, 8),
        target: target(peer.cells.stag, peer.cells.base + 8 * (step.value % CELLS)),
    };
    match step.kind {
        Kind::Send => {
            Operation::Send { payload, solicited, invalidate: step.invalidates.then(|| peer.doomed[index].stag) }
        }
        Kind::Write => Operation::Write { payload, target: write },
        Kind::WriteImmediate => Operation::WriteImmediate { payload, target: write, immediate, solicited },
        Kind::Immediate => Operation::Immediate { immediate, solicited },
        Kind::Read => Operation::Read {
            sink: scattered(&own.sink, start, step),
            source: target(peer.shelf.stag, peer.shelf.base + start),
        },
        Kind::FetchAdd => atomic(AtomicCode::FetchAdd),
        Kind::Swap => atomic(AtomicCode::Swap),
    }
}

/// The bytes of a step, in several pieces that follow each other.
fn scattered(area: &Area, start: u64, step: &Step) -> Gather {
    let length = step.bytes();
    let piece = length.div_ceil(step.pieces).max(1);
    let slices: Vec<_> = (0..length)
        .step_by(piece as usize)
        .map(|at| area.slice(start + u64::from(at), piece.min(length - at)))
        .collect();
    Gather::new(&slices).unwrap()
}

/// How segments travel.
#[derive(Clone, Copy, Debug)]
enum Travel {
    InOrder,
    /// Any order, with duplicates, by this seed.
    Shuffled(u64),
    /// Any order, and the streams are told that this is the order of sending: they must notice.
    Lied(u64),
}

fn run(scripts: &[Vec<Step>; 2], travel: Travel) -> Result<Outcome, Refused> {
    let depth = |role| StreamConfig { reorder_limit: 12, ird: 2, ord: 2, ..config(role) };
    let mut pair = Pair::with(depth(Role::Initiator), depth(Role::Responder));
    let lands = [Land::new(&pair, 10), Land::new(&pair, 20)];
    for (side, own, peer) in [(0, &lands[0], &lands[1]), (1, &lands[1], &lands[0])] {
        let stream = if side == 0 { &mut pair.a } else { &mut pair.b };
        for index in 0..OPERATIONS {
            stream.post_receive(index as u64, own.inbox.slice(slot(index), SLOT));
        }
        for (index, step) in scripts[side].iter().enumerate() {
            let operation = operation(step, index, own, peer);
            let request = SendRequest {
                id: index as u64,
                operation,
                signaled: step.is_signaled,
                fence: step.is_fenced,
                flags: RequestFlags::NONE,
            };
            stream.try_post(request).unwrap();
        }
    }
    match travel {
        Travel::InOrder => pair.run(700),
        Travel::Shuffled(seed) => shuffle(&mut pair, seed, false)?,
        Travel::Lied(seed) => shuffle(&mut pair, seed, true)?,
    }
    let images = [lands[0].image(), lands[1].image()];
    for side in [&mut pair.a, &mut pair.b] {
        side.stream.close();
        side.poll();
        assert_eq!((side.stream.state(), side.stream.error()), (State::Closing, None));
        side.close_below(Closed::Graceful);
        assert_eq!(side.stream.error(), None);
    }
    drop_unused_receives(&mut pair.a);
    drop_unused_receives(&mut pair.b);
    assert_eq!(lands.iter().map(Land::pins).sum::<u64>(), 0);
    let sent = [&pair.a, &pair.b].map(|side| side.sent.iter().map(|c| (c.id, c.kind, c.status, c.length)).collect());
    let received = [&pair.a, &pair.b].map(|side| {
        let keep =
            |c: &weft_rdmap::Completion| (c.id, c.kind, c.status, c.length, c.immediate, c.solicited, c.invalidated);
        side.received.iter().map(keep).collect()
    });
    Ok(Outcome { images, sent, received })
}

/// Every receive completes once; those that no message came for are flushed, and are of no further interest.
fn drop_unused_receives(side: &mut Side) {
    let ids: Vec<_> = side.received.iter().map(|completion| completion.id).collect();
    assert_eq!(ids, (0..OPERATIONS as u64).collect::<Vec<_>>());
    side.received.retain(|completion| completion.status != Status::Flushed);
}

/// One direction: what is on its way, and what was taken.
#[derive(Default)]
struct Path {
    flying: Vec<Flying>,
    taken: Vec<Flying>,
    /// Given out, and not yet counted as sent.
    unsent: usize,
}

fn shuffle(pair: &mut Pair, seed: u64, lies: bool) -> Result<(), Refused> {
    let Pair { a, b } = pair;
    let mut random = Random::new(seed);
    let mut paths = [Path::default(), Path::default()];
    loop {
        let [there, back] = &mut paths;
        depart(a, there, &mut random);
        arrive(b, there, &mut random, lies)?;
        depart(b, back, &mut random);
        arrive(a, back, &mut random, lies)?;
        let is_over = paths.iter().all(|path| path.flying.is_empty() && path.unsent == 0);
        if is_over && !a.stream.can_transmit() && !b.stream.can_transmit() {
            return Ok(());
        }
    }
}

/// Some segments leave, and some that left are counted as sent.
fn depart(from: &mut Side, path: &mut Path, random: &mut Random) {
    for _ in 0..random.below(6) {
        if path.flying.len() >= 30 {
            break;
        }
        let Some(flying) = from.transmit(128 + random.below(1400) as u32) else { break };
        path.flying.push(flying);
        path.unsent += 1;
    }
    let sent = random.below(path.unsent as u64 + 1) as usize;
    from.stream.handle_sent(sent);
    path.unsent -= sent;
    from.poll();
}

/// Some segments arrive, any of those on their way, and sometimes one that had arrived before.
fn arrive(to: &mut Side, path: &mut Path, random: &mut Random, lies: bool) -> Result<(), Refused> {
    for _ in 0..random.below(6) {
        if path.flying.is_empty() {
            break;
        }
        let mut flying = path.flying.swap_remove(random.below(path.flying.len() as u64) as usize);
        if lies {
            flying.arrival = weft_rdmap::Arrival { start: path.taken.len() as u64, end: path.taken.len() as u64 + 1 };
        }
        match to.take(&flying) {
            Ok(()) => path.taken.push(flying),
            Err(Refused::Later(_)) => path.flying.push(flying),
            Err(violation) => return Err(violation),
        }
    }
    if !path.taken.is_empty() && random.one_in(4) {
        let again = &path.taken[random.below(path.taken.len() as u64) as usize];
        assert_eq!(to.take(again), Err(Refused::Drop));
    }
    Ok(())
}

/// What must come out, from the scripts alone.
fn model(scripts: &[Vec<Step>; 2]) -> Outcome {
    // The same seeds and the same STags as in the run.
    let pair = Pair::new();
    let lands = [Land::new(&pair, 10), Land::new(&pair, 20)];
    let mut images = [lands[0].image(), lands[1].image()];
    let mut sent = [vec![], vec![]];
    let mut received = [vec![], vec![]];
    for own in [0, 1] {
        let peer = 1 - own;
        // Of the Write that immediate data may belong to.
        let mut written = 0;
        for (index, step) in scripts[own].iter().enumerate() {
            let (start, length) = (slot(index) as usize, step.bytes() as usize);
            let payload = &lands[own].source.bytes()[start..start + length];
            let id = received[peer].len();
            let (kind, done) = match step.kind {
                Kind::Send => {
                    images[peer].inbox[slot(id) as usize..][..length].copy_from_slice(payload);
                    (CompletionKind::Send, step.bytes())
                }
                Kind::Write | Kind::WriteImmediate => {
                    images[peer].window[start..][..length].copy_from_slice(payload);
                    written = step.bytes();
                    let is_plain = step.kind == Kind::Write;
                    (if is_plain { CompletionKind::Write } else { CompletionKind::WriteImmediate }, step.bytes())
                }
                Kind::Immediate => (CompletionKind::Immediate, 0),
                Kind::Read => {
                    images[own].sink[start..][..length].copy_from_slice(&lands[peer].shelf.bytes()[start..][..length]);
                    (CompletionKind::Read, step.bytes())
                }
                Kind::FetchAdd | Kind::Swap => {
                    let cell = &mut images[peer].cells[8 * (step.value % CELLS) as usize..][..8];
                    let before = u64::from_ne_bytes(cell.try_into().unwrap());
                    let is_swap = step.kind == Kind::Swap;
                    let after = if is_swap { step.value } else { before.wrapping_add(step.value) };
                    cell.copy_from_slice(&after.to_ne_bytes());
                    images[own].sink[start..][..8].copy_from_slice(&before.to_ne_bytes());
                    (CompletionKind::Atomic(if is_swap { AtomicCode::Swap } else { AtomicCode::FetchAdd }), 8)
                }
            };
            if step.is_signaled {
                sent[own].push((index as u64, kind, Status::Success, done));
            }
            if step.takes_receive() {
                let is_send = step.kind == Kind::Send;
                let invalidated = (is_send && step.invalidates).then(|| lands[peer].doomed[index].stag);
                let (kind, length, immediate) = if is_send {
                    (CompletionKind::Receive, step.bytes(), None)
                } else {
                    (CompletionKind::ReceiveImmediate, written, Some(step.value))
                };
                written = 0;
                received[peer].push((
                    id as u64,
                    kind,
                    Status::Success,
                    length,
                    immediate,
                    step.is_solicited,
                    invalidated,
                ));
            }
        }
    }
    Outcome { images, sent, received }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn in_order_arrival_does_what_the_model_says(a in script(), b in script()) {
        let scripts = [a, b];
        prop_assert!(run(&scripts, Travel::InOrder) == Ok(model(&scripts)));
    }

    #[test]
    fn any_order_of_arrival_does_what_the_model_says(a in script(), b in script(), seed in any::<u64>()) {
        let scripts = [a, b];
        let outcome = run(&scripts, Travel::Shuffled(seed));
        let outcome = outcome.map_err(|refused| TestCaseError::fail(format!("{refused:?}")))?;
        let expected = model(&scripts);
        prop_assert_eq!(&outcome.sent, &expected.sent);
        prop_assert_eq!(&outcome.received, &expected.received);
        prop_assert!(outcome.images == expected.images, "memory differs");
    }
}

fn sends(lengths: &[u32]) -> Vec<Step> {
    let step = |length: &u32| Step {
        kind: Kind::Send,
        length: *length,
        pieces: 1,
        is_inline: false,
        is_solicited: false,
        invalidates: false,
        is_fenced: false,
        is_signaled: true,
        value: 0,
    };
    lengths.iter().map(step).collect()
}

/// A checker that can't fail checks nothing: a model of other operations must not agree.
#[test]
fn a_wrong_model_is_noticed() {
    let outcome = run(&[sends(&[100, 200]), vec![]], Travel::Shuffled(1)).unwrap();
    assert!(outcome == model(&[sends(&[100, 200]), vec![]]));
    assert!(outcome != model(&[sends(&[200, 100]), vec![]]));
    let silent = |mut steps: Vec<Step>| {
        steps[1].is_signaled = false;
        steps
    };
    assert!(outcome != model(&[silent(sends(&[100, 200])), vec![]]));
}

/// And a stream that is lied to about the order must notice, so the shuffling does shuffle.
#[test]
fn a_lie_about_the_order_is_noticed() {
    let scripts = [sends(&[4000, 4000, 4000]), vec![]];
    let noticed = (0..20).filter(|seed| run(&scripts, Travel::Lied(*seed)).is_err()).count();
    assert!(noticed > 15, "{noticed} of 20");
}
