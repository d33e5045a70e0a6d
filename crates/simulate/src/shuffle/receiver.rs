//! The receiving side: it holds segments for a while, and delivers them in random order.

use core::time::Duration;
use std::collections::BTreeMap;

use weft_base::{NoDigest, Random, Time};
use weft_memory::MemoryError;
use weft_nic::lower::{Io, ReceiveError, StreamSink};
use weft_rdmap::{Arrival, HEAD_LENGTH, OrderConstraint, Placement, Verdict, Violation};
use weft_wire::ddp::{Header, Target};
use weft_wire::rdmap::queue;

use super::{Disorder, ShuffleFault, span};

/// What the stream could not take is offered again after about this time, and after twice as long each further time.
const AGAIN_AFTER: Duration = Duration::from_micros(50);
/// As often does that time double.
const DOUBLINGS: u32 = 8;

/// A segment, or a part of one, that has come and is not in place.
struct Held {
    due: Time,
    start: u64,
    ulpdu: Vec<u8>,
    /// How often it was offered and refused.
    tries: u32,
}

/// What became of a segment that was delivered.
enum Fate {
    Placed,
    /// It was in place before.
    Known,
    /// The stream can't take it now.
    Later,
    /// The stream takes nothing any more.
    Over,
}

/// What handing up has come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Handed {
    pub(super) progress: bool,
    /// The stream takes nothing more.
    pub(super) over: bool,
}

/// Hands segments up, and knows what is in place.
pub(super) struct Receiver {
    held: Vec<Held>,
    /// Everything before this is in place.
    pub(super) next: u64,
    /// Ranges behind it that are.
    placed: BTreeMap<u64, u64>,
    /// The other end is to be notified of how far that is.
    pub(super) acknowledgement_due: bool,
    /// Where the last segment ends, once the other end has said so.
    pub(super) close_at: Option<u64>,
    /// What comes is thrown away, and acknowledged, so that the other end can end.
    pub(super) discards: bool,
    random: Random,
    disorder: Disorder,
}

impl Receiver {
    pub(super) fn new(disorder: Disorder, random: Random) -> Self {
        Self {
            held: Vec::new(),
            next: 0,
            placed: BTreeMap::new(),
            acknowledgement_due: false,
            close_at: None,
            discards: false,
            random,
            disorder,
        }
    }

    /// From now on what comes is thrown away.
    pub(super) fn discard(&mut self) {
        self.discards = true;
        self.held.clear();
    }

    /// Whether everything that the other end will ever send is in place.
    pub(super) fn has_ended(&self) -> bool {
        self.close_at.is_some_and(|at| self.next >= at)
    }

    pub(super) fn next_timeout(&self) -> Option<Time> {
        self.held.iter().map(|held| held.due).min()
    }

    /// Nothing more will come: nothing is to be waited for.
    pub(super) fn hurry(&mut self, now: Time) {
        self.held.iter_mut().for_each(|held| held.due = held.due.min(now));
    }

    /// A segment has come. It may get lost here, come twice, or in two parts.
    pub(super) fn take(&mut self, start: u64, ulpdu: Vec<u8>, now: Time) {
        let Some(length) = span(&ulpdu) else { return };
        if self.discards || self.disorder.fault == ShuffleFault::AcknowledgeOnArrival {
            self.note_placed(start, start + length);
            self.acknowledgement_due = true;
        }
        if self.discards || self.chance(self.disorder.lost_one_in) {
            return;
        }
        let copies = if self.chance(self.disorder.doubled_one_in) { 2 } else { 1 };
        for _ in 0..copies {
            match self.cut(start, &ulpdu) {
                Some(parts) => parts.into_iter().for_each(|(start, part)| self.hold(start, part, now)),
                None => self.hold(start, ulpdu.clone(), now),
            }
        }
    }

    /// A segment may be cut elsewhere each time that it comes.
    fn cut(&mut self, start: u64, ulpdu: &[u8]) -> Option<[(u64, Vec<u8>); 2]> {
        if self.chance(self.disorder.cut_one_in) { cut(start, ulpdu, &mut self.random) } else { None }
    }

    fn chance(&mut self, one_in: u64) -> bool {
        one_in > 0 && self.random.one_in(one_in)
    }

    fn hold(&mut self, start: u64, ulpdu: Vec<u8>, now: Time) {
        let late =
            if self.chance(self.disorder.late_one_in) { self.below(self.disorder.latest) } else { Duration::ZERO };
        let due = round_up(now + late, self.disorder.batch);
        self.held.push(Held { due, start, ulpdu, tries: 0 });
        if self.held.len() > 4 * self.disorder.window {
            // The other end sends it again; those that come before it are wanted first.
            let last = (0..self.held.len()).max_by_key(|at| self.held[*at].start);
            last.map(|at| self.held.swap_remove(at));
        }
    }

    fn below(&mut self, most: Duration) -> Duration {
        Duration::from_nanos(self.random.below(most.as_nanos() as u64 + 1))
    }

    /// Hands up what is due, in an order of chance.
    pub(super) fn deliver<A: StreamSink>(
        &mut self,
        above: &mut A,
        io: &mut Io<'_, ()>,
    ) -> Result<Handed, ReceiveError> {
        let mut handed = Handed::default();
        loop {
            let due: Vec<usize> = (0..self.held.len()).filter(|at| self.held[*at].due <= io.now).collect();
            if due.is_empty() {
                return Ok(handed);
            }
            let held = self.held.swap_remove(due[self.random.below(due.len() as u64) as usize]);
            handed.progress = true;
            match self.hand_up(&held, above, io)? {
                Fate::Placed | Fate::Known => self.acknowledgement_due = true,
                Fate::Later => self.hold_again(held, io.now),
                Fate::Over => {
                    self.acknowledgement_due = true;
                    handed.over = true;
                    self.discard();
                    return Ok(handed);
                }
            }
        }
    }

    /// Offers it again later, or has the other end send it again.
    fn hold_again(&mut self, held: Held, now: Time) {
        if self.random.one_in(4) {
            return;
        }
        let due = now + AGAIN_AFTER * (1 << held.tries.min(DOUBLINGS)) + self.below(AGAIN_AFTER);
        self.held.push(Held { due, tries: held.tries + 1, ..held });
    }

    fn hand_up<A: StreamSink>(
        &mut self,
        held: &Held,
        above: &mut A,
        io: &mut Io<'_, ()>,
    ) -> Result<Fate, ReceiveError> {
        let length = span(&held.ulpdu).unwrap_or(1);
        let start = match self.disorder.fault {
            ShuffleFault::ArrivalOrder => self.next,
            ShuffleFault::DuplicateAsNew if held.start < self.next => self.next,
            _ => held.start,
        };
        let arrival = Arrival { start, end: start + length };
        if above.packet(arrival, &held.ulpdu, io.now, io.counters) {
            io.counters.received_frames += 1;
            self.note_placed(arrival.start, arrival.end);
            return Ok(Fate::Placed);
        }
        let head = &held.ulpdu[..held.ulpdu.len().min(HEAD_LENGTH)];
        let placement = match above.locate(arrival, OrderConstraint::default(), held.ulpdu.len() as u32, head) {
            Verdict::Place(placement) => placement,
            Verdict::Drop => {
                self.note_placed(arrival.start, arrival.end);
                return Ok(Fate::Known);
            }
            Verdict::Later(_) => return Ok(Fate::Later),
            Verdict::Fatal(Violation::NotReceiving(_)) => return Ok(Fate::Over),
            Verdict::Fatal(_) => return Err(ReceiveError::Judged),
        };
        if copy(&held.ulpdu, &placement, io).is_err() {
            return match above.stream().recheck(&placement) {
                Ok(()) => Err(ReceiveError::Memory),
                Err(None) => Ok(Fate::Later),
                Err(_) => Err(ReceiveError::Judged),
            };
        }
        io.counters.received_frames += 1;
        io.counters.placed_copied += 1;
        io.counters.placed_copied_bytes += u64::from(placement.sink.length());
        let is_partial = placement.is_partial;
        above.placed(&placement, io.counters).map_err(|_| ReceiveError::Judged)?;
        if is_partial && above.stream().state().receives() {
            return self.hand_up(held, above, io);
        }
        self.note_placed(arrival.start, arrival.end);
        Ok(if above.stream().state().receives() { Fate::Placed } else { Fate::Over })
    }

    fn note_placed(&mut self, start: u64, end: u64) {
        let end = end.max(self.placed.get(&start).copied().unwrap_or(0));
        self.placed.insert(start, end);
        while let Some((&start, &end)) = self.placed.first_key_value()
            && start <= self.next
        {
            self.next = self.next.max(end);
            self.placed.remove(&start);
        }
    }
}

/// The next time that is a multiple of `step`.
fn round_up(at: Time, step: Duration) -> Time {
    let (at_ns, step_ns) = (at.as_nanos(), (step.as_nanos() as u64).max(1));
    Time::from_nanos(at_ns.next_multiple_of(step_ns))
}

fn copy(ulpdu: &[u8], placement: &Placement, io: &Io<'_, ()>) -> Result<(), MemoryError> {
    // What was in place before is not touched again.
    let mut rest = &ulpdu[placement.header_length as usize..];
    for slice in placement.sink.slices() {
        let (now, later) = rest.split_at(slice.length as usize);
        io.registry.copy_in(slice, now, &mut NoDigest)?;
        rest = later;
    }
    Ok(())
}

/// A segment in two parts, each a segment of its own with its own place in the order. `None`: there is nothing to cut,
/// or it is a message that is one segment by definition.
fn cut(start: u64, ulpdu: &[u8], random: &mut Random) -> Option<[(u64, Vec<u8>); 2]> {
    let header = Header::parse(ulpdu).ok()?;
    let payload = &ulpdu[header.length()..];
    if payload.len() < 2 || matches!(header.target, Target::Untagged { queue, .. } if queue != queue::SEND) {
        return None;
    }
    let opcode = weft_wire::rdmap::Control::parse(header.control).ok()?.opcode;
    if matches!(opcode, weft_wire::rdmap::Opcode::Immediate | weft_wire::rdmap::Opcode::ImmediateSolicited) {
        return None;
    }
    let at = 1 + random.below(payload.len() as u64 - 1) as usize;
    let target = match header.target {
        Target::Tagged { stag, offset } => Target::Tagged { stag, offset: offset + at as u64 },
        Target::Untagged { word, queue, number, offset } => {
            Target::Untagged { word, queue, number, offset: offset + at as u32 }
        }
    };
    let part = |header: Header, payload: &[u8]| {
        let mut bytes = vec![0; header.length()];
        header.emit(&mut bytes);
        bytes.extend_from_slice(payload);
        bytes
    };
    let first = part(Header { last: false, ..header }, &payload[..at]);
    let second = part(Header { target, ..header }, &payload[at..]);
    Some([(start, first), (start + at as u64, second)])
}
