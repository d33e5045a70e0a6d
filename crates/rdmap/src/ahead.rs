//! What was placed, or waits to be, ahead of a gap in the order: where order between Writes was promised, the final
//! contents of memory are those of arrival in order.

use std::collections::VecDeque;

use crate::segment::{Arrival, Extent};

/// The first bytes of an extent that have all fared the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) length: u64,
    /// Newer Writes have placed them: they are not to be touched.
    pub(crate) is_covered: bool,
}

/// The record. Each entry covers one or more segments that the order keeps, so the order's limit is its limit; its
/// memory grows with use, and stays.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    /// Placed, by position. What follows on both in the order and in memory is one entry.
    placed: VecDeque<Entry>,
    /// Small Writes and atomics that wait for their turn, by position.
    waiting: VecDeque<Entry>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    arrival: Arrival,
    extent: Extent,
}

impl Entry {
    /// Takes in what follows right behind it, in the order and in memory.
    fn join(&mut self, next: &Self) -> bool {
        let follows = self.extent.address.checked_add(self.extent.length) == Some(next.extent.address);
        if !follows || self.arrival.end != next.arrival.start {
            return false;
        }
        self.arrival.end = next.arrival.end;
        self.extent.length += next.extent.length;
        true
    }
}

impl Ahead {
    /// A Write was placed before its turn.
    pub(crate) fn add_placed(&mut self, arrival: Arrival, extent: Extent) {
        let entry = Entry { arrival, extent };
        let at = after(&self.placed, arrival.start);
        if at > 0 && self.placed[at - 1].join(&entry) {
            // The gap between two entries may be closed by this.
            if let Some(next) = self.placed.get(at).copied()
                && self.placed[at - 1].join(&next)
            {
                self.placed.remove(at);
            }
        } else if let Some(next) = self.placed.get(at).copied() {
            self.add_before(at, entry, &next);
        } else {
            self.placed.push_back(entry);
        }
    }

    fn add_before(&mut self, at: usize, mut entry: Entry, next: &Entry) {
        if entry.join(next) {
            self.placed[at] = entry;
        } else {
            self.placed.insert(at, entry);
        }
    }

    /// A small Write or an atomic waits for its turn.
    pub(crate) fn add_waiting(&mut self, arrival: Arrival, extent: Extent) {
        let at = after(&self.waiting, arrival.start);
        self.waiting.insert(at, Entry { arrival, extent });
    }

    /// Whether something that comes before `position` in the order waits to change some of these bytes.
    pub(crate) fn awaits(&self, position: u64, extent: &Extent) -> bool {
        let older = after(&self.waiting, position);
        self.waiting.range(..older).any(|entry| entry.extent.overlaps(extent))
    }

    /// What has become of the first bytes of an extent, which a segment that ends at `position` wants to change.
    pub(crate) fn first_run(&self, position: u64, extent: &Extent) -> Run {
        let mut clear = extent.length;
        for Entry { extent: newer, .. } in self.placed.range(after(&self.placed, position)..) {
            if newer.has(extent.address) {
                let covered = newer.length - extent.address.wrapping_sub(newer.address);
                return Run { length: covered.min(extent.length), is_covered: true };
            }
            if extent.has(newer.address) {
                clear = clear.min(newer.address.wrapping_sub(extent.address));
            }
        }
        Run { length: clear, is_covered: false }
    }

    /// Everything before `position` has had its turn.
    pub(crate) fn retire(&mut self, position: u64) {
        for entries in [&mut self.placed, &mut self.waiting] {
            while entries.front().is_some_and(|entry| entry.arrival.start < position) {
                entries.pop_front();
            }
        }
    }
}

/// How many entries start before `position`.
fn after(entries: &VecDeque<Entry>, position: u64) -> usize {
    entries.partition_point(|entry| entry.arrival.start < position)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(start: u64, end: u64) -> Arrival {
        Arrival { start, end }
    }

    fn extent(address: u64, length: u64) -> Extent {
        Extent { address, length }
    }

    #[test]
    fn extents_overlap_where_they_share_a_byte() {
        let high = extent(u64::MAX - 3, 4);
        assert!(extent(10, 5).overlaps(&extent(14, 1)) && extent(14, 1).overlaps(&extent(10, 5)));
        assert!(!extent(10, 5).overlaps(&extent(15, 5)) && !extent(15, 5).overlaps(&extent(10, 5)));
        assert!(high.overlaps(&extent(u64::MAX, 1)));
        assert!(!high.overlaps(&extent(0, 4)) && !extent(0, 4).overlaps(&high));
    }

    #[test]
    fn what_follows_on_is_one_entry() {
        let mut ahead = Ahead::default();
        for n in [3, 1, 5, 2, 4] {
            ahead.add_placed(at(n * 10, n * 10 + 10), extent(n * 10, 10));
        }
        assert_eq!(ahead.placed.len(), 1);
        assert_eq!(ahead.first_run(10, &extent(0, 100)), Run { length: 10, is_covered: false });
        assert_eq!(ahead.first_run(10, &extent(10, 100)), Run { length: 50, is_covered: true });
        // Behind in the order, but not in memory, and the reverse.
        ahead.add_placed(at(60, 70), extent(61, 10));
        ahead.add_placed(at(71, 80), extent(71, 9));
        assert_eq!(ahead.placed.len(), 3);
        ahead.retire(80);
        assert!(ahead.placed.is_empty());
    }

    #[test]
    fn only_what_is_older_is_waited_for() {
        let mut ahead = Ahead::default();
        ahead.add_waiting(at(20, 29), extent(100, 8));
        assert!(ahead.awaits(29, &extent(107, 50)));
        assert!(!ahead.awaits(29, &extent(108, 50)), "other bytes");
        assert!(!ahead.awaits(10, &extent(107, 50)), "an older one goes first");
        ahead.retire(29);
        assert!(!ahead.awaits(29, &extent(107, 50)));
    }

    proptest! {
        /// Against a list of all that was placed.
        #[test]
        fn runs_are_what_newer_writes_have_placed(
            writes in prop::collection::vec((0..40_u64, 1..20_u64, 0..50_u64), 1..20),
            (position, offset, length) in (0..60_u64, 0..50_u64, 1..30_u64),
        ) {
            let (mut ahead, mut taken, mut newer) = (Ahead::default(), [false; 60], [false; 80]);
            for (start, count, offset) in writes {
                let positions = start as usize..(start + count) as usize;
                if taken[positions.clone()].iter().any(|taken| *taken) || (start..start + count).contains(&position) {
                    continue;
                }
                taken[positions].fill(true);
                ahead.add_placed(at(start, start + count), extent(offset, count));
                if start >= position {
                    newer[offset as usize..(offset + count) as usize].fill(true);
                }
            }
            let (mut from, end) = (offset, offset + length);
            while from < end {
                let run = ahead.first_run(position, &extent(from, end - from));
                prop_assert!(run.length > 0 && from + run.length <= end);
                for byte in from..from + run.length {
                    prop_assert_eq!(newer[byte as usize], run.is_covered, "byte {}", byte);
                }
                from += run.length;
            }
        }
    }
}
