//! Packets in flight, in the order in which they arrive.

use core::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};

use weft_base::Time;

/// What waits for its time: by that, and where it is the same, by what was put in first.
///
/// Nearly all packets of a link keep their order, so nearly all times come in order: those are in a ring, and taking
/// one in or out is a few instructions, however many there are. The others (held back, copies) are in a heap.
#[derive(Debug)]
pub(crate) struct Schedule<T> {
    in_order: VecDeque<Entry<T>>,
    others: BinaryHeap<Reverse<Entry<T>>>,
    next_number: u64,
}

#[derive(Debug)]
struct Entry<T> {
    at: Time,
    number: u64,
    item: T,
}

impl<T> Entry<T> {
    const fn key(&self) -> (Time, u64) {
        (self.at, self.number)
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl<T> Schedule<T> {
    pub(crate) const fn new() -> Self {
        Self { in_order: VecDeque::new(), others: BinaryHeap::new(), next_number: 0 }
    }

    /// Puts one in. `is_in_order`: most of those after it come no earlier.
    pub(crate) fn put(&mut self, item: T, at: Time, is_in_order: bool) {
        let entry = Entry { at, number: self.next_number, item };
        self.next_number += 1;
        if is_in_order && self.in_order.back().is_none_or(|last| last.at <= at) {
            self.in_order.push_back(entry);
        } else {
            self.others.push(Reverse(entry));
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.in_order.len() + self.others.len()
    }

    /// When the next one comes.
    pub(crate) fn next_time(&self) -> Option<Time> {
        let other = self.others.peek().map(|Reverse(entry)| entry.at);
        self.in_order.front().map(|entry| entry.at).into_iter().chain(other).min()
    }

    /// The next one that has come by `now`, and when it did.
    pub(crate) fn take(&mut self, now: Time) -> Option<(Time, T)> {
        let first = self.in_order.front().map(Entry::key);
        let other = self.others.peek().map(|Reverse(entry)| entry.key());
        let is_other = other.is_some_and(|other| first.is_none_or(|first| other < first));
        if if is_other { other } else { first }?.0 > now {
            return None;
        }
        let entry = if is_other { self.others.pop()?.0 } else { self.in_order.pop_front()? };
        Some((entry.at, entry.item))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// As a sorted list, whatever is said of the order.
        #[test]
        fn what_comes_first_is_first(puts in proptest::collection::vec((0..50u64, any::<bool>(), 0..60u64), 0..100)) {
            let (mut schedule, mut list) = (Schedule::new(), Vec::new());
            for (number, (at, is_in_order, now)) in puts.into_iter().enumerate() {
                schedule.put(number, Time::from_nanos(at), is_in_order);
                list.push((Time::from_nanos(at), number));
                list.sort_unstable();
                prop_assert_eq!(schedule.next_time(), list.first().map(|(at, _)| *at));
                let taken = schedule.take(Time::from_nanos(now));
                let is_due = list.first().is_some_and(|(at, _)| at.as_nanos() <= now);
                prop_assert_eq!(taken, is_due.then(|| list.remove(0)));
                prop_assert_eq!(schedule.len(), list.len());
            }
        }
    }
}
