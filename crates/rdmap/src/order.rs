//! The order of delivery: segments are placed as they come, and count when their turn comes.

use std::collections::VecDeque;

use crate::segment::Arrival;

/// Which segments were placed, and what is kept of those whose turn has not come.
#[derive(Debug)]
pub(crate) struct Order<T> {
    /// Everything before this was placed and has had its turn.
    next: u64,
    /// Placed before their turn, by position.
    early: VecDeque<(Arrival, T)>,
    limit: usize,
}

/// Whether it is a segment's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    Now,
    Early,
    /// It, or a part of it, was placed before. A segment is placed at most once.
    Duplicate,
    /// Its turn has not come, and as many early ones as may be are kept already.
    Full,
}

impl<T> Order<T> {
    pub(crate) fn new(limit: usize) -> Self {
        Self { next: 0, early: VecDeque::with_capacity(limit), limit }
    }

    pub(crate) fn turn(&self, arrival: Arrival) -> Turn {
        if self.is_next(arrival) { Turn::Now } else { self.turn_among_early(arrival) }
    }

    /// Whether it is a segment's turn, and none was placed before its own.
    pub(crate) fn is_next(&self, arrival: Arrival) -> bool {
        arrival.start == self.next && self.early.is_empty() && arrival.end > arrival.start
    }

    fn turn_among_early(&self, arrival: Arrival) -> Turn {
        let at = self.position(arrival);
        let overlaps = self.early.get(at).is_some_and(|(later, _)| later.start < arrival.end)
            || at.checked_sub(1).and_then(|before| self.early.get(before)).is_some_and(|(b, _)| b.end > arrival.start);
        if arrival.end <= arrival.start || arrival.start < self.next || overlaps {
            Turn::Duplicate
        } else if arrival.start == self.next {
            Turn::Now
        } else if self.early.len() >= self.limit {
            Turn::Full
        } else {
            Turn::Early
        }
    }

    fn position(&self, arrival: Arrival) -> usize {
        self.early.partition_point(|(other, _)| other.start < arrival.start)
    }

    /// The segment whose turn it was has been placed.
    pub(crate) fn advance(&mut self, arrival: Arrival) {
        debug_assert_eq!(arrival.start, self.next, "only the segment whose turn it is moves the order on");
        self.next = arrival.end;
    }

    /// Keeps a segment that was placed before its turn. [`Order::turn`] has said [`Turn::Early`].
    pub(crate) fn keep(&mut self, arrival: Arrival, segment: T) {
        self.early.insert(self.position(arrival), (arrival, segment));
    }

    /// The early segment whose turn has come, if one's has.
    pub(crate) fn pop_due(&mut self) -> Option<T> {
        let (arrival, _) = self.early.front()?;
        if arrival.start != self.next {
            return None;
        }
        let (arrival, segment) = self.early.pop_front()?;
        self.next = arrival.end;
        Some(segment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(start: u64, end: u64) -> Arrival {
        Arrival { start, end }
    }

    #[test]
    fn in_order_needs_no_table() {
        let mut order = Order::<u32>::new(0);
        for n in 0..5 {
            assert_eq!(order.turn(at(n * 10, n * 10 + 10)), Turn::Now);
            order.advance(at(n * 10, n * 10 + 10));
        }
        assert_eq!(order.turn(at(60, 70)), Turn::Full, "a table of no entries keeps none");
    }

    #[test]
    fn early_segments_follow_when_the_gap_closes() {
        let mut order = Order::new(2);
        assert_eq!(order.turn(at(2, 3)), Turn::Early);
        order.keep(at(2, 3), 'c');
        order.keep(at(1, 2), 'b');
        assert_eq!(order.turn(at(3, 4)), Turn::Full);
        assert_eq!(order.pop_due(), None);
        assert_eq!(order.turn(at(0, 1)), Turn::Now);
        order.advance(at(0, 1));
        assert_eq!((order.pop_due(), order.pop_due(), order.pop_due()), (Some('b'), Some('c'), None));
        assert_eq!(order.turn(at(3, 4)), Turn::Now);
    }

    #[test]
    fn what_was_placed_is_not_placed_again() {
        let mut order = Order::new(4);
        order.advance(at(0, 10));
        order.keep(at(20, 30), ());
        for (start, end) in [(0, 10), (5, 12), (20, 30), (25, 40), (15, 21), (29, 30), (10, 21), (11, 11), (10, 10)] {
            assert_eq!(order.turn(at(start, end)), Turn::Duplicate, "{start}..{end}");
        }
        assert_eq!(order.turn(at(10, 20)), Turn::Now);
        assert_eq!(order.turn(at(30, 31)), Turn::Early);
    }
}
