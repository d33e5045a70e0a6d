//! Where order between Writes was promised: whatever comes late, twice, or cut in other places, memory ends as if all
//! had come in order, and no flag is seen before what was written earlier.

use crate::pair::{Area, DOMAIN, Flying, Refused, Rights, Side, config, memory};
use proptest::prelude::*;
use weft_base::{MessageNumber, Random};
use weft_memory::AtomicOperation;
use weft_rdmap::{Arrival, Later, LowerTraits, OrderConstraint, Placement, Role, State, StreamConfig};
use weft_wire::ddp::{Header, Target};
use weft_wire::rdmap::{AtomicCode, AtomicRequest, Control, Opcode, queue};

/// Bytes that all kinds of Writes share.
const SHARED: u64 = 160;
/// Behind them words that atomics and Writes of whole words share.
const WORDS: u64 = 8;
/// Behind those a word for each flag, which nothing else touches.
const FLAGS: u64 = SHARED + 8 * WORDS;
const MOST: usize = 24;
const LENGTH: u32 = FLAGS as u32 + 8 * MOST as u32;

/// What a message does, and where in the window.
#[derive(Clone, Debug)]
enum Deed {
    Write { at: u64, bytes: Vec<u8> },
    Add { at: u64, add: u64 },
}

impl Deed {
    fn on(&self, memory: &mut [u8]) {
        match self {
            Self::Write { at, bytes } => memory[*at as usize..][..bytes.len()].copy_from_slice(bytes),
            Self::Add { at, add } => {
                let word: &mut [u8; 8] = (&mut memory[*at as usize..][..8]).try_into().unwrap();
                let sum = AtomicOperation::FetchAdd { add: *add, mask: 0 }.apply(u64::from_ne_bytes(*word));
                *word = sum.to_ne_bytes();
            }
        }
    }

    fn payload(&self) -> u64 {
        match self {
            Self::Write { bytes, .. } => bytes.len() as u64,
            Self::Add { .. } => AtomicRequest::LENGTH as u64,
        }
    }
}

/// A message and where it stands in the order.
struct Message {
    deed: Deed,
    start: u64,
    /// Of an atomic, which.
    number: u32,
    /// Positions behind those of its payload and its end: not 0 where segments keep their bounds.
    further: u64,
}

impl Message {
    fn end(&self) -> u64 {
        self.start + self.deed.payload() + 1 + self.further
    }

    fn has_words(&self) -> bool {
        matches!(self.deed, Deed::Write { at, .. } if (SHARED..FLAGS).contains(&at))
    }

    /// A segment with these bytes of it.
    fn part(&self, area: &Area, from: u64, to: u64) -> Flying {
        let last = to == self.deed.payload();
        let end = if last { self.end() } else { self.start + to };
        let (target, opcode, payload) = match &self.deed {
            Deed::Write { at, bytes } => {
                let target = Target::Tagged { stag: area.stag, offset: area.base + at + from };
                (target, Opcode::Write, bytes[from as usize..to as usize].to_vec())
            }
            Deed::Add { at, add } => (
                Target::Untagged { word: 0, queue: queue::READ_REQUEST, number: MessageNumber(self.number), offset: 0 },
                Opcode::AtomicRequest,
                AtomicRequest {
                    code: AtomicCode::FetchAdd,
                    identifier: self.number,
                    stag: area.stag,
                    offset: area.base + at,
                    data: *add,
                    mask: 0,
                    compare: 0,
                    compare_mask: 0,
                }
                .emit()
                .to_vec(),
            ),
        };
        let header = Header { last, control: Control { opcode }.emit(), target };
        let mut bytes = vec![0; header.length()];
        header.emit(&mut bytes);
        bytes.extend(payload);
        Flying { arrival: Arrival { start: self.start + from, end }, bytes }
    }

    /// All of it, cut at random, unless it is of a kind that is never cut.
    fn cut(&self, area: &Area, random: &mut Random) -> Vec<Flying> {
        let (mut parts, mut from, length) = (Vec::new(), 0, self.deed.payload());
        while from < length {
            let is_whole = matches!(self.deed, Deed::Add { .. }) || self.further > 0 || random.one_in(3);
            // What shares words with atomics is cut between words: of half a word, which a newer Write has placed, a
            // sum that is still to be made there knows nothing.
            let step = if self.has_words() { 8 * (1 + random.below(3)) } else { 1 + random.below(40) };
            let to = if is_whole { length } else { (from + step).min(length) };
            parts.push(self.part(area, from, to));
            from = to;
        }
        parts
    }
}

/// What the messages of a run are: overlapping Writes of all sizes, atomics, and flags.
fn deed(index: usize, random: &mut Random) -> Deed {
    let words = 8 * (1 + random.below(4));
    let mut write = |at, length| {
        let bytes = (0..length).map(|_| 1 + random.below(255) as u8).collect();
        Deed::Write { at, bytes }
    };
    match index % 6 {
        0 | 1 => write(index as u64 * 17 % 50, 40 + index as u64 * 13 % 70),
        2 => write(index as u64 * 29 % (SHARED - 8), 1 + index as u64 * 7 % 8),
        3 => write(SHARED + 8 * (index as u64 / 6 % WORDS), words),
        4 => Deed::Add { at: SHARED + 8 * (index as u64 / 6 % WORDS), add: random.next_u64() },
        _ => write(FLAGS + 8 * index as u64, 8),
    }
}

/// The receiver, and how memory is after each message in order.
struct World {
    side: Side,
    window: Area,
    messages: Vec<Message>,
    /// Memory before the first message, after it, after the second, ...
    history: Vec<Vec<u8>>,
}

impl World {
    fn new(order: &[usize], lower: LowerTraits, ordered_writes: bool, seed: u64) -> Self {
        let registry = memory::registry();
        let config =
            StreamConfig { reorder_limit: 4096, lower, ordered_writes, ird: MOST as u16, ..config(Role::Responder) };
        let window = Area::in_domain(&registry, DOMAIN, LENGTH, Rights::All);
        let side = Side::new(&registry, config);
        let mut random = Random::new(seed);
        let (mut start, mut number) = (0, 0);
        let mut memory = vec![0; LENGTH as usize];
        let mut history = vec![memory.clone()];
        let mut messages = Vec::new();
        for index in order {
            let deed = deed(*index, &mut random);
            number += u32::from(matches!(deed, Deed::Add { .. }));
            deed.on(&mut memory);
            history.push(memory.clone());
            let further = if lower.cuts_again { 0 } else { 1 + random.below(30) };
            let message = Message { deed, start, number, further };
            start = message.end();
            messages.push(message);
        }
        Self { side, window, messages, history }
    }

    /// Brings a segment, a part at a time, with others in between where several may be out. Returns whether all of it
    /// counts.
    fn take(&mut self, flying: &Flying) -> bool {
        loop {
            match self.side.locate(flying) {
                Ok(placement) => {
                    if !self.put(flying, placement) {
                        return true;
                    }
                }
                Err(Refused::Drop) => return true,
                Err(Refused::Later(_)) => return false,
                Err(Refused::Violation(violation)) => panic!("{violation}"),
            }
        }
    }

    /// Returns whether more of the segment is missing.
    fn put(&mut self, flying: &Flying, placement: Placement) -> bool {
        self.side.place(flying, &placement);
        let is_partial = placement.is_partial;
        self.side.stream.handle_placed(&placement).unwrap();
        self.side.poll();
        is_partial
    }

    /// Of every flag that is seen: every byte is as it was when the flag was written, or as a newer message has made
    /// it.
    fn premature_flag(&self) -> Option<usize> {
        let now = self.window.bytes();
        self.messages.iter().enumerate().find_map(|(index, message)| {
            let Deed::Write { at, bytes } = &message.deed else { return None };
            let is_seen = *at >= FLAGS && now[*at as usize..][..bytes.len()] == bytes[..];
            (is_seen && !self.is_after(index + 1, &now)).then_some(index)
        })
    }

    /// Whether each byte of memory is as after so many messages, or as some newer one left it. The words of atomics
    /// that have not had their turn are theirs alone, so that holds of them too.
    fn is_after(&self, count: usize, now: &[u8]) -> bool {
        let mut may_be = vec![[false; 256]; now.len()];
        for state in &self.history[count..] {
            state.iter().zip(&mut may_be).for_each(|(byte, may)| may[usize::from(*byte)] = true);
        }
        now.iter().zip(&may_be).all(|(byte, may)| may[usize::from(*byte)])
    }

    fn is_done(&self) -> bool {
        self.side.stream.state() == State::Established && self.window.bytes() == *self.history.last().unwrap()
    }
}

fn shuffle<T>(items: &mut [T], random: &mut Random) {
    for at in (1..items.len()).rev() {
        items.swap(at, random.below(at as u64 + 1) as usize);
    }
}

/// What is wrong in the end, or was on the way.
#[derive(Debug, PartialEq)]
enum Wrong {
    Flag(usize),
    Memory,
    Stuck(usize),
}

/// Two cuttings of each message, with losses, in any order, and then what is missing until all is there.
fn run(order: &[usize], lower: LowerTraits, ordered_writes: bool, seed: u64) -> Result<(), Wrong> {
    let mut world = World::new(order, lower, ordered_writes, seed);
    let mut random = Random::new(seed ^ 1);
    let mut rounds = Vec::new();
    for round in 0..3 {
        let mut flying: Vec<Flying> = Vec::new();
        for message in &world.messages {
            flying.extend(
                message.cut(&world.window, &mut random).into_iter().filter(|_| round == 2 || !random.one_in(3)),
            );
        }
        shuffle(&mut flying, &mut random);
        rounds.push(flying);
    }
    let mut missing = rounds.pop().unwrap();
    for flying in rounds.iter().flatten() {
        take_beside(&mut world, flying, &missing, &mut random);
        world.premature_flag().map_or(Ok(()), |index| Err(Wrong::Flag(index)))?;
    }
    for _ in 0..=missing.len() {
        let mut again = Vec::new();
        for flying in missing {
            if !world.take(&flying) {
                again.push(flying);
            }
            world.premature_flag().map_or(Ok(()), |index| Err(Wrong::Flag(index)))?;
        }
        missing = again;
    }
    match missing.len() {
        0 if world.is_done() => Ok(()),
        0 => Err(Wrong::Memory),
        stuck => Err(Wrong::Stuck(stuck)),
    }
}

/// Where several placements may be out, others are located before the first is in place, and then they are put in any
/// order.
fn take_beside(world: &mut World, flying: &Flying, others: &[Flying], random: &mut Random) {
    let mut out = Vec::new();
    for _ in 1..random.below(4) {
        let other = &others[random.below(others.len() as u64) as usize];
        if let Ok(placement) = world.side.locate(other) {
            out.push((other, placement));
        }
    }
    if let Ok(placement) = world.side.locate(flying) {
        out.push((flying, placement));
    }
    shuffle(&mut out, random);
    for (flying, placement) in out {
        if random.one_in(8) {
            world.side.stream.abandon(&placement);
        } else {
            // With one at a time all but the last count for nothing, and may not be placed.
            if world.side.stream.recheck(&placement).is_ok() {
                world.put(flying, placement);
            }
        }
    }
}

const ONE: LowerTraits = LowerTraits { placements: 1, cuts_again: true, holds_back: true };
const SEVERAL: LowerTraits = LowerTraits { placements: 4, ..ONE };
/// MPA's, whose positions count all bytes of an FPDU.
const WHOLE: LowerTraits = LowerTraits { placements: 1, cuts_again: false, holds_back: false };

fn order() -> impl Strategy<Value = Vec<usize>> {
    Just((0..MOST).collect::<Vec<_>>())
        .prop_shuffle()
        .prop_flat_map(|all| (1..=MOST).prop_map(move |n| all[..n].to_vec()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn memory_ends_as_in_order_and_no_flag_comes_early(order in order(), seed: u64) {
        prop_assert_eq!(run(&order, ONE, true, seed), Ok(()));
    }

    #[test]
    fn so_it_does_with_several_placements_out(order in order(), seed: u64) {
        prop_assert_eq!(run(&order, SEVERAL, true, seed), Ok(()));
    }

    #[test]
    fn so_it_does_with_segments_that_keep_their_bounds(order in order(), seed: u64) {
        prop_assert_eq!(run(&order, WHOLE, true, seed), Ok(()));
    }
}

/// The checker sees what the rule is there for.
#[test]
fn without_the_rule_memory_and_flags_are_wrong() {
    let order: Vec<usize> = (0..MOST).collect();
    let runs: Vec<_> = (0..200).map(|seed| run(&order, ONE, false, seed)).collect();
    let flags = runs.iter().filter(|run| matches!(run, Err(Wrong::Flag(_)))).count();
    assert!(flags > 150, "{flags} of 200 runs show a flag too early");
    // Without the flags.
    let order: Vec<usize> = (0..MOST).filter(|index| index % 6 != 5).collect();
    let memory = (0..200).filter(|seed| run(&order, ONE, false, *seed) == Err(Wrong::Memory)).count();
    assert!(memory > 150, "{memory} of 200 runs end with wrong memory");
}

fn world(deeds: Vec<Deed>, lower: LowerTraits) -> World {
    let mut world = World::new(&[], lower, true, 0);
    let mut number = 0;
    for deed in deeds {
        number += u32::from(matches!(deed, Deed::Add { .. }));
        let start = world.messages.last().map_or(0, Message::end);
        let mut memory = world.history.last().unwrap().clone();
        deed.on(&mut memory);
        world.history.push(memory);
        world.messages.push(Message { deed, start, number, further: 0 });
    }
    world
}

fn whole(world: &World, index: usize) -> Flying {
    let message = &world.messages[index];
    message.part(&world.window, 0, message.deed.payload())
}

#[test]
fn a_late_write_is_placed_around_a_newer_one() {
    let write = |at, length, byte| Deed::Write { at, bytes: vec![byte; length] };
    let mut world = world(vec![write(0, 100, 1), write(30, 20, 2)], ONE);
    let (old, new) = (whole(&world, 0), whole(&world, 1));
    assert!(world.take(&new));
    let mut runs = Vec::new();
    loop {
        let placement = world.side.locate(&old).unwrap();
        runs.push((placement.header_length - 14, placement.sink.length(), placement.is_partial));
        if !world.put(&old, placement) {
            break;
        }
    }
    assert_eq!(runs[0], (0, 30, true));
    assert_eq!((runs[1].1, runs[1].2), (0, true), "what the newer one has placed counts, and is not touched");
    assert_eq!(runs[2], (50, 50, false));
    assert!(world.is_done());
}

#[test]
fn a_write_over_a_flag_that_waits_is_put_off() {
    let write = |at, length, byte| Deed::Write { at, bytes: vec![byte; length] };
    let mut world = world(vec![write(0, 20, 1), write(60, 8, 2), write(50, 40, 3), write(120, 40, 4)], ONE);
    assert!(world.take(&whole(&world, 1)));
    assert_eq!(world.window.bytes()[60], 0, "it is kept");
    assert_eq!(world.side.locate(&whole(&world, 2)).unwrap_err(), Refused::Later(Later::Early));
    assert!(world.take(&whole(&world, 3)), "another place");
    assert!(world.take(&whole(&world, 0)));
    assert_eq!(world.window.bytes()[60], 2, "and written when the gap closes");
    assert!(world.take(&whole(&world, 2)));
    assert!(world.is_done());
}

#[test]
fn placements_that_are_out_do_not_meet_in_memory() {
    let write = |at, length, byte| Deed::Write { at, bytes: vec![byte; length] };
    let mut world = world(vec![write(0, 100, 1), write(30, 20, 2), write(110, 20, 3)], SEVERAL);
    let (old, new, other) = (whole(&world, 0), whole(&world, 1), whole(&world, 2));
    let first = world.side.locate(&old).unwrap();
    assert_eq!(world.side.locate(&new).unwrap_err(), Refused::Later(Later::Early));
    let second = world.side.locate(&other).unwrap();
    world.put(&other, second);
    world.put(&old, first);
    assert!(world.take(&new));
    assert!(world.is_done());
}

#[test]
fn a_flag_whose_region_has_gone_meanwhile_ends_the_stream() {
    let write = |at, length, byte| Deed::Write { at, bytes: vec![byte; length] };
    let mut world = world(vec![write(0, 20, 1), write(60, 8, 2)], ONE);
    assert!(world.take(&whole(&world, 1)));
    let old = whole(&world, 0);
    let placement = world.side.locate(&old).unwrap();
    world.side.place(&old, &placement);
    world.window.invalidate();
    let violation = world.side.stream.handle_placed(&placement).unwrap_err();
    assert!(violation.code().is_some(), "{violation}");
    assert_eq!(world.side.stream.state(), State::Terminating);
}

#[test]
fn a_late_atomic_leaves_what_a_newer_write_has_placed() {
    let word = Deed::Write { at: SHARED, bytes: vec![9; 16] };
    let mut world = world(vec![Deed::Add { at: SHARED, add: 5 }, word], ONE);
    assert!(world.take(&whole(&world, 1)));
    assert!(world.take(&whole(&world, 0)));
    assert!(world.is_done());
}

/// Immediate data say how long the Write before them was, in however many parts it came.
#[test]
fn a_write_that_was_placed_in_parts_has_its_whole_length() {
    let write = |at, length, byte| Deed::Write { at, bytes: vec![byte; length] };
    let mut world = world(vec![write(0, 100, 1)], ONE);
    world.side.post_receive(1, world.window.slice(FLAGS, 8));
    let immediate = Header {
        last: true,
        control: Control { opcode: Opcode::Immediate }.emit(),
        target: Target::Untagged { word: 0, queue: queue::SEND, number: MessageNumber::FIRST, offset: 0 },
    };
    let mut bytes = vec![0; immediate.length()];
    immediate.emit(&mut bytes);
    bytes.extend([0; 8]);
    let newer = Message { deed: write(30, 20, 2), start: 101 + 9, number: 0, further: 0 };
    assert!(world.take(&newer.part(&world.window, 0, 20)));
    assert!(world.take(&Flying { arrival: Arrival { start: 101, end: 110 }, bytes }));
    assert!(world.take(&whole(&world, 0)));
    assert_eq!(world.side.received[0].length, 100);
}

/// A fence holds what comes too early, all of it or a part, and nothing when its turn has come.
#[test]
fn what_is_to_come_behind_others_is_put_off_until_they_are_placed() {
    let write = |at, length, byte| Deed::Write { at, bytes: vec![byte; length] };
    let mut world = world(vec![write(0, 50, 1), write(60, 50, 2), write(110, 50, 3)], ONE);
    let [first, second, third] = [0, 1, 2].map(|index| whole(&world, index));
    let behind = |flying: &Flying| OrderConstraint { after: flying.arrival.start, ..OrderConstraint::default() };
    let refused =
        |world: &mut World, flying: &Flying, constraint| world.side.locate_demanding(flying, constraint).unwrap_err();
    assert_eq!(refused(&mut world, &second, behind(&second)), Refused::Later(Later::Early));
    assert!(world.take(&third), "that one waits for nothing");
    let part = world.messages[1].part(&world.window, 20, 50);
    assert_eq!(refused(&mut world, &part, behind(&second)), Refused::Later(Later::Early));
    assert!(world.take(&first));
    let placement = world.side.locate_demanding(&part, behind(&second)).unwrap();
    assert!(!world.put(&part, placement), "what it waits for is placed, though its turn has not come");
    let placement = world.side.locate_demanding(&second, behind(&second)).unwrap();
    world.put(&second, placement);
    assert_eq!(refused(&mut world, &second, behind(&second)), Refused::Drop);
    assert!(world.is_done());
}

/// What asks for no order waits for nothing, leaves nothing out, and is not remembered.
#[test]
fn an_unordered_write_is_placed_as_it_comes() {
    let write = |at, length, byte| Deed::Write { at, bytes: vec![byte; length] };
    let mut world = world(vec![write(0, 50, 1), write(60, 8, 2), write(10, 20, 3), write(100, 8, 4)], ONE);
    let [first, word, again, flag] = [0, 1, 2, 3].map(|index| whole(&world, index));
    let unordered = OrderConstraint { unordered: true, after: 0 };
    assert!(world.take(&flag));
    for flying in [&word, &again] {
        let placement = world.side.locate_demanding(flying, unordered).unwrap();
        assert!(!world.put(flying, placement));
    }
    let now = world.window.bytes();
    assert_eq!((now[60], now[10], now[100]), (2, 3, 0), "only the flag waits");
    assert!(world.take(&first));
    let now = world.window.bytes();
    assert_eq!((now[10], now[100]), (1, 4), "the older one came last, and the flag behind it");
}

/// A flag of which a part has come is as much a flag.
#[test]
fn the_rest_of_a_flag_waits_too() {
    let write = |at, length, byte| Deed::Write { at, bytes: vec![byte; length] };
    let mut world = world(vec![write(0, 20, 1), write(60, 8, 2)], ONE);
    let half = world.messages[1].part(&world.window, 0, 4);
    assert!(world.take(&half));
    assert!(world.take(&whole(&world, 1)));
    assert_eq!(world.window.bytes()[60..68], [0; 8]);
    assert!(world.take(&whole(&world, 0)));
    assert!(world.is_done());
}
