//! Segments that have come before their turn and are kept until it comes, as a receiver does that must have everything
//! in order before it copies it to its place ([`OutOfOrder::Copy`](crate::laboratory::OutOfOrder)).

use std::collections::VecDeque;

use weft_rdmap::{Arrival, OrderConstraint};

/// Segments that are kept before their turn.
const REORDER_LIMIT: usize = 1024;

/// A segment with its header.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) arrival: Arrival,
    pub(super) constraint: OrderConstraint,
    pub(super) ulpdu: Vec<u8>,
}

/// Segments, by position. They may overlap: the stream leaves out what it has.
#[derive(Debug, Default)]
pub(in crate::lower::edge) struct ReorderBuffer {
    list: VecDeque<Segment>,
    /// Memory of such as have had their turn: as much as was ever needed at a time.
    spare: Vec<Vec<u8>>,
    /// The turn of the first one has come, and it could not be taken: it is tried again.
    pub(super) is_stuck: bool,
}

impl ReorderBuffer {
    pub(in crate::lower::edge) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Keeps a copy of a segment. `None`: there are as many as there may be. Otherwise whether it is new.
    pub(super) fn keep(&mut self, arrival: Arrival, constraint: OrderConstraint, ulpdu: &[u8]) -> Option<bool> {
        let at = self.list.partition_point(|other| other.arrival.start < arrival.start);
        let mut beside = self.list.range(at..).take_while(|other| other.arrival.start == arrival.start);
        if beside.any(|other| other.arrival.end >= arrival.end) {
            return Some(false);
        }
        if self.list.len() >= REORDER_LIMIT {
            return None;
        }
        let mut copy = self.spare.pop().unwrap_or_default();
        copy.extend_from_slice(ulpdu);
        self.list.insert(at, Segment { arrival, constraint, ulpdu: copy });
        Some(true)
    }

    /// Takes the first one, if everything before it is there: all positions below `next` are.
    pub(super) fn take(&mut self, next: u64) -> Option<Segment> {
        let first = self.list.front()?;
        if first.arrival.start > next { None } else { self.list.pop_front() }
    }

    /// Its turn is over.
    pub(super) fn recycle(&mut self, mut segment: Segment) {
        segment.ulpdu.clear();
        self.spare.push(segment.ulpdu);
    }

    /// It could not be taken yet: it stays the first one.
    pub(super) fn put_back(&mut self, segment: Segment) {
        self.list.push_front(segment);
        self.is_stuck = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn arrival(start: u64, end: u64) -> Arrival {
        Arrival { start, end }
    }

    #[test]
    fn what_is_kept_comes_out_in_order_once() {
        let mut kept = ReorderBuffer::default();
        for (start, byte) in [(30, 3), (10, 1), (20, 2)] {
            assert_eq!(kept.keep(arrival(start, start + 10), OrderConstraint::default(), &[byte; 4]), Some(true));
        }
        assert_eq!(kept.keep(arrival(20, 30), OrderConstraint::default(), &[9; 4]), Some(false), "it is there");
        assert_eq!(
            kept.keep(arrival(20, 25), OrderConstraint::default(), &[9; 4]),
            Some(false),
            "and a part of it with it"
        );
        assert_eq!(kept.keep(arrival(20, 40), OrderConstraint::default(), &[4; 4]), Some(true), "a longer one is news");
        assert!(kept.take(9).is_none());
        let mut next = 10;
        let mut out = vec![];
        while let Some(segment) = kept.take(next) {
            next = next.max(segment.arrival.end);
            out.push((segment.arrival.start, segment.ulpdu[0]));
            kept.recycle(segment);
        }
        assert_eq!(out, [(10, 1), (20, 4), (20, 2), (30, 3)]);
        assert!(kept.is_empty() && kept.spare.len() == 4 && kept.spare.iter().all(Vec::is_empty));
    }

    #[test]
    fn as_many_as_may_be_and_no_more() {
        let mut kept = ReorderBuffer::default();
        for number in 0..REORDER_LIMIT as u64 {
            assert_eq!(kept.keep(arrival(number + 1, number + 2), OrderConstraint::default(), &[0]), Some(true));
        }
        assert_eq!(kept.keep(arrival(5000, 5001), OrderConstraint::default(), &[0]), None);
        assert_eq!(kept.keep(arrival(7, 8), OrderConstraint::default(), &[0]), Some(false));
        let first = kept.take(1).unwrap();
        kept.put_back(first);
        assert!(kept.is_stuck && kept.take(0).is_none() && kept.take(1).is_some());
        assert_eq!(kept.keep(arrival(5000, 5001), OrderConstraint::default(), &[0]), Some(true));
    }
}
