//! When something has to happen by itself: a queue of times, the earliest first.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use slotmap::DefaultKey;
use weft_base::Time;

/// Whose time it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timed {
    /// A connection's or a listener's, by its key in the engine.
    Key(DefaultKey),
    /// That of an endpoint on the engine, by its number.
    EngineClient(usize),
}

/// The time at which an entry is in the queue, if at all: kept by what it is about. A later time than this needs no
/// entry of its own: when the entry comes up, it is put where it belongs then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Queued(Option<Time>);

/// The queue. Entries whose time has changed, or that are gone, are left in it and thrown away when they come up: for
/// each of what it is about there is at most one entry that counts.
#[derive(Debug, Default)]
pub(super) struct Timers {
    heap: BinaryHeap<Reverse<(Time, Timed)>>,
}

impl Timers {
    /// Wants `whose` to come up at `at`, if nothing brings it up before.
    #[inline]
    pub(super) fn want(&mut self, whose: Timed, queued: &mut Queued, at: Option<Time>) {
        let Some(at) = at else { return };
        if queued.0.is_none_or(|before| at < before) {
            queued.0 = Some(at);
            self.heap.push(Reverse((at, whose)));
        }
    }

    /// The earliest time in the queue.
    #[inline]
    pub(super) fn next(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse((at, _))| *at)
    }

    /// Entries.
    pub(super) fn length(&self) -> usize {
        self.heap.len()
    }

    /// Takes the earliest entry if its time has come.
    pub(super) fn pop(&mut self, now: Time) -> Option<(Time, Timed)> {
        if self.next().is_none_or(|at| at > now) {
            return None;
        }
        self.heap.pop().map(|Reverse(entry)| entry)
    }
}

impl Queued {
    /// The time of the entry that counts, if there is one in the queue.
    #[inline]
    pub(super) fn at(&self) -> Option<Time> {
        self.0
    }

    /// The entry with this time has come up. Returns whether it is the one that counts: then the queue has no entry
    /// that counts any more.
    pub(super) fn take(&mut self, at: Time) -> bool {
        let counts = self.0 == Some(at);
        if counts {
            self.0 = None;
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    fn at(milliseconds: u64) -> Time {
        Time::ZERO + Duration::from_millis(milliseconds)
    }

    #[test]
    fn the_earliest_comes_up_first_and_in_time() {
        let mut timers = Timers::default();
        let mut queued = [Queued::default(); 3];
        for (number, time) in [30, 10, 20].into_iter().enumerate() {
            timers.want(Timed::EngineClient(number), &mut queued[number], Some(at(time)));
        }
        assert_eq!((timers.next(), timers.pop(at(9))), (Some(at(10)), None));
        let order: Vec<_> = core::iter::from_fn(|| timers.pop(at(25))).map(|(_, whose)| whose).collect();
        assert_eq!(order, [Timed::EngineClient(1), Timed::EngineClient(2)]);
    }

    #[test]
    fn a_time_that_moves_away_costs_no_entry_and_one_that_comes_nearer_counts() {
        let mut timers = Timers::default();
        let mut queued = Queued::default();
        for time in [50, 60, 70, 40, 80] {
            timers.want(Timed::EngineClient(0), &mut queued, Some(at(time)));
        }
        assert_eq!(timers.heap.len(), 2);
        let (first, _) = timers.pop(at(100)).unwrap();
        assert_eq!((first, queued.take(first)), (at(40), true));
        let (stale, _) = timers.pop(at(100)).unwrap();
        assert!(!queued.take(stale), "its time was another one since");
        assert_eq!(timers.next(), None);
    }
}
