//! The receiving side of a world, which checks each byte that it gets.

use std::collections::{BTreeMap, BTreeSet};

use weft_base::Random;
use weft_edge::{Options, Run, Sink, Verdict};
use weft_wire::Crc32c;
use weft_wire::ddp::{Header, Target};

use super::{Faults, content, hit};

/// Everything that one side has received, and the rules about it.
pub(crate) struct Receiver {
    /// Placed positions: disjoint runs, by start.
    pub(super) runs: BTreeMap<u64, u64>,
    pub(crate) placed: u64,
    /// Positions after segments with the Last flag.
    pub(super) ends: BTreeSet<u64>,
    /// Untagged messages for which receives are posted.
    pub(super) posted: u32,
    /// Claims to have placed segments that it has not: for the test of the tests.
    pub(crate) lies: bool,
    pub(super) put_off: u64,
    random: Random,
    pub(crate) wants_receives: bool,
    knows_fences: bool,
    in_turn: bool,
    /// Segments that were received and waited for others.
    pub(crate) fenced: u64,
    /// Runs that were received.
    pub(crate) taken_runs: u64,
}

impl Receiver {
    pub(crate) fn new(faults: &Faults, seed: u64) -> Self {
        let posted = if faults.receives == 0 { u32::MAX } else { faults.receives as u32 };
        let random = Random::new(seed);
        let (runs, ends) = (BTreeMap::new(), BTreeSet::new());
        let (put_off, knows_fences, in_turn) = (faults.put_off, faults.fences > 0, faults.in_turn);
        let (placed, lies, wants_receives, fenced, taken_runs) = (0, false, false, 0, 0);
        Self {
            runs,
            ends,
            placed,
            posted,
            lies,
            put_off,
            random,
            wants_receives,
            knows_fences,
            in_turn,
            fenced,
            taken_runs,
        }
    }

    /// All positions below this are placed.
    pub(crate) fn in_place(&self) -> u64 {
        self.runs.get(&0).copied().unwrap_or(0)
    }

    /// Adds a run; returns false when all of it was there.
    fn add(&mut self, start: u64, end: u64) -> bool {
        let before = self.runs.range(..=start).next_back().map(|(from, to)| (*from, *to));
        if before.is_some_and(|(_, to)| to >= end) {
            return false;
        }
        let (mut from, mut to) = (start, end);
        let touching: Vec<u64> =
            self.runs.range(..=end).filter(|(_, to)| **to >= start).map(|(from, _)| *from).collect();
        let mut there = 0;
        for old in touching {
            let old_to = self.runs.remove(&old).unwrap();
            there += old_to.min(end).saturating_sub(old.max(start));
            (from, to) = (from.min(old), to.max(old_to));
        }
        self.runs.insert(from, to);
        self.placed += end - start - there;
        true
    }
}

impl Sink for Receiver {
    fn segment(&mut self, position: u64, ulpdu: &[u8], crc: u32, options: Options) -> Verdict {
        let header = Header::parse(ulpdu).expect("a header that passed the check");
        let payload = &ulpdu[header.length()..];
        let end = position + payload.len() as u64 + u64::from(header.last);
        if self.lies && position > 2000 {
            self.lies = false;
            return Verdict::Placed;
        }
        // First: a packet that was cut off would acknowledge what it has lost.
        if Crc32c::of(payload) != crc {
            return Verdict::BadPayload;
        }
        let known = self.runs.range(..=position).next_back().is_some_and(|(_, to)| *to >= end && end > position);
        if known {
            return Verdict::Duplicate;
        }
        // A part of a segment has the options of the whole.
        assert!(options.after <= position && (options.after == 0 || self.knows_fences), "{options:?} at {position}");
        self.fenced += u64::from(options.after > 0);
        let is_early = options.after > self.in_place() || self.in_turn && position > self.in_place();
        if is_early || hit(&mut self.random, self.put_off) {
            return Verdict::Later;
        }
        let (number, offset) = match header.target {
            Target::Tagged { offset, .. } => (0, offset),
            Target::Untagged { number, offset, .. } => {
                if number.0 > self.posted {
                    self.wants_receives = true;
                    return Verdict::NotReady;
                }
                (u64::from(number.0), u64::from(offset))
            }
        };
        let mut rest = payload;
        for part in content(number, offset, payload.len()) {
            let (now, later) = rest.split_at(part.len());
            assert!(now == part, "the bytes from {offset} on of message {number}");
            rest = later;
        }
        if header.last {
            self.ends.insert(end);
        }
        if self.add(position, end) || end == position { Verdict::Placed } else { Verdict::Duplicate }
    }

    /// As one long segment.
    fn run(&mut self, position: u64, run: &Run<'_>, options: Options) -> Verdict {
        self.taken_runs += 1;
        if run.parts().any(|(payload, crc)| Crc32c::of(payload) != crc) {
            return Verdict::BadPayload;
        }
        let payload: Vec<u8> = run.parts().flat_map(|(payload, _)| payload.iter().copied()).collect();
        let mut ulpdu = [run.ddp_header(), &payload].concat();
        ulpdu[0] |= if run.is_last() { 0x40 } else { 0 };
        self.segment(position, &ulpdu, Crc32c::of(&payload), options)
    }
}
