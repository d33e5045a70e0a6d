//! The order of delivery: segments are placed as they come, and count when their turn comes.

use std::collections::VecDeque;

use crate::segment::Arrival;

/// Early segments for which the memory stays.
const USUAL: usize = 1024;

/// Which positions were placed, and what is kept of those whose turn has not come. Its memory grows with what is kept
/// at a time; that for [`USUAL`] segments stays.
#[derive(Debug)]
pub(crate) struct Order<T> {
    /// Everything before this was placed and has had its turn.
    next: u64,
    /// Placed before their turn, by position. They do not overlap.
    early: VecDeque<Kept>,
    /// What they are.
    segments: Vec<Option<T>>,
    /// Places in `segments` that are free.
    free: Vec<u32>,
    limit: usize,
}

/// A segment that was placed before its turn. Small, for one that comes between others moves some of them.
#[derive(Clone, Copy, Debug)]
struct Kept {
    arrival: Arrival,
    place: u32,
}

/// Whether it is a segment's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    Now,
    Early,
    /// All of it was placed before. A position is placed at most once.
    Duplicate,
    /// A part of it was placed before. This is the first part that was not.
    Partial(Arrival),
    /// Its turn has not come, and as many early ones as may be are kept already.
    Full,
}

impl<T> Order<T> {
    pub(crate) fn new(limit: usize) -> Self {
        Self { next: 0, early: VecDeque::new(), segments: Vec::new(), free: Vec::new(), limit }
    }

    /// Everything before this position has had its turn.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    pub(crate) fn turn(&self, arrival: Arrival) -> Turn {
        if self.is_next(arrival) { Turn::Now } else { self.turn_among_early(arrival) }
    }

    /// Whether it is a segment's turn, and none was placed before its own.
    #[inline]
    pub(crate) fn is_next(&self, arrival: Arrival) -> bool {
        arrival.start == self.next && self.early.is_empty() && arrival.end > arrival.start
    }

    fn turn_among_early(&self, arrival: Arrival) -> Turn {
        match self.first_missing(arrival) {
            None => Turn::Duplicate,
            Some(run) if run != arrival => Turn::Partial(run),
            Some(_) if arrival.start == self.next => Turn::Now,
            Some(_) if self.early.len() >= self.limit => Turn::Full,
            Some(_) => Turn::Early,
        }
    }

    /// The first run of positions in a segment that was not placed.
    fn first_missing(&self, Arrival { start, end }: Arrival) -> Option<Arrival> {
        let mut from = start.max(self.next);
        let mut at = self.early.partition_point(|kept| kept.arrival.end <= from);
        while let Some(Kept { arrival, .. }) = self.early.get(at)
            && arrival.start <= from
        {
            from = arrival.end;
            at += 1;
        }
        let to = self.early.get(at).map_or(end, |later| end.min(later.arrival.start));
        (from < to).then_some(Arrival { start: from, end: to })
    }

    /// The segment whose turn it was has been placed.
    pub(crate) fn advance(&mut self, arrival: Arrival) {
        debug_assert_eq!(arrival.start, self.next, "only the segment whose turn it is moves the order on");
        self.next = arrival.end;
    }

    /// Keeps a segment that was placed before its turn. [`Order::turn`] has returned [`Turn::Early`].
    pub(crate) fn keep(&mut self, arrival: Arrival, segment: T) {
        let place = self.free.pop().unwrap_or_else(|| {
            self.segments.push(None);
            self.segments.len() as u32 - 1
        });
        self.segments[place as usize] = Some(segment);
        // Mostly the last: what is late fills a gap, and that is its turn.
        let at = self.early.partition_point(|kept| kept.arrival.start < arrival.start);
        self.early.insert(at, Kept { arrival, place });
    }

    /// Early segments that have positions in common with these, and where they are.
    pub(crate) fn overlapping(&self, with: Arrival) -> impl Iterator<Item = (Arrival, &T)> {
        let from = self.early.partition_point(|kept| kept.arrival.end <= with.start);
        let kept = self.early.range(from..).take_while(move |kept| kept.arrival.start < with.end);
        kept.filter_map(|kept| Some((kept.arrival, self.segments[kept.place as usize].as_ref()?)))
    }

    /// Calls `change` with the kept early segments, in their order, until it returns something for one. Returns that.
    pub(crate) fn change_early<R>(&mut self, mut change: impl FnMut(&mut T) -> Option<R>) -> Option<R> {
        let Self { early, segments, .. } = self;
        early.iter().find_map(|kept| change(segments[kept.place as usize].as_mut()?))
    }

    /// The early segment whose turn has come, if one's has.
    #[inline]
    pub(crate) fn pop_due(&mut self) -> Option<T> {
        let Kept { arrival, place } = *self.early.front()?;
        if arrival.start != self.next {
            return None;
        }
        self.early.pop_front();
        self.free.push(place);
        self.next = arrival.end;
        let segment = self.segments[place as usize].take();
        if self.early.is_empty() && self.segments.len() > USUAL {
            (self.early, self.segments, self.free) = (VecDeque::new(), Vec::new(), Vec::new());
        }
        segment
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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
    fn those_that_overlap_are_found() {
        let mut order = Order::new(4);
        for (start, segment) in [(10, 'a'), (20, 'b'), (40, 'c')] {
            order.keep(at(start, start + 10), segment);
        }
        let found = |start, end| order.overlapping(at(start, end)).map(|(_, segment)| *segment).collect::<String>();
        assert_eq!([found(0, 10), found(0, 11), found(19, 21), found(29, 30)], ["", "a", "ab", "b"]);
        assert_eq!([found(30, 40), found(12, 60), found(50, 60)], ["", "abc", ""]);
    }

    #[test]
    fn what_was_placed_is_not_placed_again() {
        let mut order = Order::new(4);
        order.advance(at(0, 10));
        order.keep(at(20, 30), ());
        for (start, end) in [(0, 10), (20, 30), (29, 30), (11, 11), (10, 10)] {
            assert_eq!(order.turn(at(start, end)), Turn::Duplicate, "{start}..{end}");
        }
        for ((start, end), missing) in [
            ((5, 12), (10, 12)),
            ((25, 40), (30, 40)),
            ((15, 21), (15, 20)),
            ((10, 21), (10, 20)),
            ((0, 99), (10, 20)),
            ((20, 99), (30, 99)),
        ] {
            let missing = Turn::Partial(at(missing.0, missing.1));
            assert_eq!(order.turn(at(start, end)), missing, "{start}..{end}");
        }
        assert_eq!(order.turn(at(10, 20)), Turn::Now);
        assert_eq!(order.turn(at(30, 31)), Turn::Early);
    }

    proptest! {
        /// Against a model that knows of each position whether it was placed.
        #[test]
        fn what_is_missing_is_what_no_segment_has_brought(
            segments in prop::collection::vec((0..60_u64, 1..20_u64), 1..40),
        ) {
            let mut order = Order::new(64);
            let mut placed = [false; 80];
            for (start, length) in segments {
                let whole = at(start, start + length);
                loop {
                    let first = (whole.start..whole.end).find(|position| !placed[*position as usize]);
                    let Some(first) = first else { break };
                    let end = (first..whole.end).find(|position| placed[*position as usize]).unwrap_or(whole.end);
                    let run = at(first, end);
                    match order.turn(whole) {
                        Turn::Partial(missing) => prop_assert_eq!(missing, run),
                        Turn::Now | Turn::Early => prop_assert_eq!(whole, run),
                        other => prop_assert!(false, "{other:?} for {whole:?}"),
                    }
                    placed[first as usize..end as usize].fill(true);
                    if order.turn(run) == Turn::Now {
                        order.advance(run);
                        while order.pop_due().is_some() {}
                    } else {
                        order.keep(run, ());
                    }
                }
                prop_assert_eq!(order.turn(whole), Turn::Duplicate);
            }
            let in_order = placed.iter().take_while(|placed| **placed).count() as u64;
            prop_assert_eq!(order.next, in_order);
        }
    }
}
