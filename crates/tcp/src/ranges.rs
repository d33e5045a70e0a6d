//! A bounded set of ranges of a stream.

use core::ops::Range;

/// Ranges that neither overlap nor touch, in order, of limited number.
#[derive(Clone, Debug)]
pub(crate) struct Ranges {
    list: Vec<Range<u64>>,
    limit: usize,
}

impl Ranges {
    /// For at most `limit` ranges; memory is taken as they come.
    pub(crate) fn new(limit: usize) -> Self {
        Self { list: Vec::new(), limit }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Range<u64>> {
        self.list.iter()
    }

    /// Bytes in them.
    pub(crate) fn bytes(&self) -> u64 {
        self.list.iter().map(|range| range.end - range.start).sum()
    }

    /// The end of the last.
    pub(crate) fn end(&self) -> Option<u64> {
        self.list.last().map(|range| range.end)
    }

    /// The range that holds `position`.
    pub(crate) fn holding(&self, position: u64) -> Option<&Range<u64>> {
        let index = self.list.partition_point(|range| range.end <= position);
        self.list.get(index).filter(|range| range.start <= position)
    }

    /// The first part of `wanted` that is not in the set; none when all of it is.
    pub(crate) fn first_missing(&self, wanted: Range<u64>) -> Option<Range<u64>> {
        let start = self.holding(wanted.start).map_or(wanted.start, |range| range.end);
        let next = self.list.get(self.list.partition_point(|range| range.start <= start));
        let end = next.map_or(wanted.end, |range| range.start.min(wanted.end));
        (start < end).then_some(start..end)
    }

    /// Whether [`Ranges::insert`] would have room for it.
    pub(crate) fn has_room_for(&self, range: &Range<u64>) -> bool {
        self.list.len() < self.limit || !self.touched(range).is_empty()
    }

    /// Adds a range. False, and nothing is added, when it would be one too many.
    pub(crate) fn insert(&mut self, range: Range<u64>) -> bool {
        let touched = self.touched(&range);
        let Some((first, last)) = self.list[touched.clone()].first().zip(self.list[touched.clone()].last()) else {
            let has_room = self.list.len() < self.limit;
            if has_room && !range.is_empty() {
                self.list.insert(touched.start, range);
            }
            return has_room;
        };
        let joined = first.start.min(range.start)..last.end.max(range.end);
        self.list[touched.start] = joined;
        self.list.drain(touched.start + 1..touched.end);
        true
    }

    /// Everything before `position` is no longer of interest.
    pub(crate) fn remove_before(&mut self, position: u64) {
        let gone = self.list.partition_point(|range| range.end <= position);
        self.list.drain(..gone);
        if let Some(first) = self.list.first_mut() {
            first.start = first.start.max(position);
        }
    }

    /// Indices of those that overlap or touch `range`.
    fn touched(&self, range: &Range<u64>) -> Range<usize> {
        let from = self.list.partition_point(|other| other.end < range.start);
        let to = self.list.partition_point(|other| other.start <= range.end);
        from..to.max(from)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_too_many_is_refused() {
        let mut ranges = Ranges::new(2);
        assert!(ranges.insert(0..2) && ranges.insert(4..6));
        assert!(!ranges.insert(8..9) && !ranges.has_room_for(&(8..9)));
        assert!(ranges.insert(6..8), "it only grows one that is there");
        assert!(ranges.insert(2..4));
        assert_eq!(ranges.holding(7), Some(&(0..8)));
        assert!(ranges.insert(9..10), "two have become one");
        assert_eq!((ranges.bytes(), ranges.end()), (9, Some(10)));
    }

    proptest! {
        #[test]
        fn a_set_of_numbers_says_the_same(
            steps in prop::collection::vec((0u64..60, 1u64..20, prop::bool::weighted(0.1)), 0..40),
            asked in (0u64..60, 1u64..20),
        ) {
            let (mut ranges, mut model) = (Ranges::new(100), BTreeSet::new());
            for (start, length, removes) in steps {
                if removes {
                    ranges.remove_before(start);
                    model.retain(|number| *number >= start);
                } else {
                    prop_assert!(ranges.insert(start..start + length));
                    model.extend(start..start + length);
                }
                prop_assert!(ranges.list.windows(2).all(|pair| pair[0].end < pair[1].start));
            }
            prop_assert!((0..90).all(|number| ranges.holding(number).is_some() == model.contains(&number)));
            let wanted = asked.0..asked.0 + asked.1;
            let missing = wanted.clone().find(|number| !model.contains(number));
            let found = ranges.first_missing(wanted.clone());
            prop_assert_eq!(found.as_ref().map(|range| range.start), missing);
            if let Some(range) = found {
                prop_assert!(range.clone().all(|number| !model.contains(&number)));
                prop_assert!(range.end == wanted.end || model.contains(&range.end));
            }
        }
    }
}
