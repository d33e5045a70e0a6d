//! Waiting completions.

use core::sync::atomic::{AtomicUsize, Ordering};
use std::collections::VecDeque;

use weft_lock::{Mutex, Rank};

use super::entry::Entry;
use super::failure::Failure;

/// The initial capacity.
const FIRST_ROOM: usize = 4096;
/// The maximum number of kept completions, if the application did not request more. Requests are refused long before
/// that ([`Ring::has_room`]); only operations of peers get there: messages into a receive of many, and writes with
/// immediate data.
const MOST: usize = 1 << 20;

/// Waiting completions, in order. Polling an empty one costs a load.
pub(crate) struct Ring {
    /// The number that may wait before requests are refused.
    size: usize,
    most: usize,
    waiting: AtomicUsize,
    state: Mutex<State>,
}

struct State {
    entries: VecDeque<Entry>,
    /// One for each failed entry, in the same order.
    failures: VecDeque<Failure>,
    /// Entries were lost.
    overrun: bool,
}

/// The result of [`Ring::take`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// This many completions, at least one unless none was requested.
    Entries(usize),
    Nothing,
    /// The next one has failed.
    Failure,
}

impl Ring {
    /// With room for `size` waiting completions before requests are refused.
    pub(crate) fn new(size: usize) -> Self {
        let state =
            State { entries: VecDeque::with_capacity(size.min(FIRST_ROOM)), failures: VecDeque::new(), overrun: false };
        Self {
            size,
            most: size.max(MOST),
            waiting: AtomicUsize::new(0),
            state: Mutex::new(Rank::CompletionRing, state),
        }
    }

    /// The number of waiting completions.
    #[inline]
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Acquire)
    }

    /// Whether requests may be accepted that complete here.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.waiting() < self.size
    }

    /// Whether there are this many completions, or one that failed.
    pub(crate) fn is_due(&self, count: usize) -> bool {
        let waiting = self.waiting();
        waiting >= count || (waiting > 0 && self.state.lock().has_failed())
    }

    /// An operation has succeeded.
    #[inline]
    pub(crate) fn push(&self, entry: Entry) {
        debug_assert!(!entry.failed);
        let mut state = self.state.lock();
        state.push(entry, self.most);
        self.publish(&state);
    }

    /// An operation has failed.
    #[cold]
    pub(crate) fn push_failure(&self, entry: Entry, failure: Failure) {
        let mut state = self.state.lock();
        if state.push(Entry { failed: true, ..entry }, self.most) {
            state.failures.push_back(failure);
        }
        self.publish(&state);
    }

    /// Takes up to `most` completions up to the first that failed, and passes each to `each` with its number. `each`
    /// must not use this ring.
    #[inline]
    pub(crate) fn take(&self, most: usize, mut each: impl FnMut(usize, &Entry)) -> Taken {
        if self.waiting() == 0 {
            return Taken::Nothing;
        }
        let mut state = self.state.lock();
        match state.entries.front() {
            None => return if state.overrun { Taken::Failure } else { Taken::Nothing },
            Some(first) if first.failed => return Taken::Failure,
            Some(_) => {}
        }
        let mut count = 0;
        while count < most
            && let Some(entry) = state.entries.front()
            && !entry.failed
        {
            each(count, entry);
            state.entries.pop_front();
            count += 1;
        }
        self.publish(&state);
        Taken::Entries(count)
    }

    /// Takes the next one if it has failed.
    pub(crate) fn take_failure(&self) -> Option<(Entry, Failure)> {
        let mut state = self.state.lock();
        let taken = match state.entries.front() {
            None => return state.overrun.then(|| (Entry::new(0, 0), Failure::overrun())),
            Some(first) if first.failed => {
                let failure = state.failures.pop_front().unwrap_or_else(Failure::overrun);
                state.entries.pop_front().map(|entry| (entry, failure))
            }
            Some(_) => None,
        };
        self.publish(&state);
        taken
    }

    /// An overrun counts as one more waiting completion, forever.
    fn publish(&self, state: &State) {
        self.waiting.store(state.entries.len() + usize::from(state.overrun), Ordering::Release);
    }
}

impl State {
    fn has_failed(&self) -> bool {
        self.overrun || !self.failures.is_empty()
    }

    /// Returns whether there was room.
    #[inline]
    fn push(&mut self, entry: Entry, most: usize) -> bool {
        if self.overrun || self.entries.len() >= most {
            self.overrun = true;
            return false;
        }
        self.entries.push_back(entry);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::failure::Kind;

    fn contexts(ring: &Ring, most: usize) -> (Taken, Vec<usize>) {
        let mut seen = Vec::new();
        let taken = ring.take(most, |number, entry| {
            assert_eq!(number, seen.len());
            seen.push(entry.context);
        });
        (taken, seen)
    }

    #[test]
    fn in_order_and_up_to_the_first_failure() {
        let ring = Ring::new(8);
        assert_eq!(contexts(&ring, 4), (Taken::Nothing, vec![]));
        assert!(!ring.is_due(1));
        for context in 1..=3 {
            ring.push(Entry::new(context, 0));
        }
        assert!(ring.is_due(3) && !ring.is_due(4));
        ring.push_failure(Entry::new(4, 0), Failure::no_message());
        ring.push(Entry::new(5, 0));
        assert!(ring.waiting() == 5 && ring.is_due(9));
        assert!(ring.take_failure().is_none());
        assert_eq!(contexts(&ring, 0), (Taken::Entries(0), vec![]));
        assert_eq!(contexts(&ring, 2), (Taken::Entries(2), vec![1, 2]));
        assert_eq!(contexts(&ring, 9), (Taken::Entries(1), vec![3]));
        assert_eq!(contexts(&ring, 9), (Taken::Failure, vec![]));
        let (entry, failure) = ring.take_failure().unwrap();
        assert_eq!((entry.context, failure), (4, Failure::no_message()));
        assert_eq!(contexts(&ring, 9), (Taken::Entries(1), vec![5]));
        assert_eq!(ring.waiting(), 0);
    }

    #[test]
    fn requests_are_refused_while_it_is_full() {
        let ring = Ring::new(2);
        ring.push(Entry::new(1, 0));
        assert!(ring.has_room());
        ring.push(Entry::new(2, 0));
        assert!(!ring.has_room());
        // Operations in flight are kept all the same.
        ring.push(Entry::new(3, 0));
        assert_eq!(contexts(&ring, 2).1, [1, 2]);
        assert!(ring.has_room());
    }

    #[test]
    fn what_is_lost_is_said_after_what_is_not() {
        let ring = Ring { most: 2, ..Ring::new(2) };
        for context in 1..=3 {
            ring.push(Entry::new(context, 0));
        }
        ring.push_failure(Entry::new(4, 0), Failure::no_message());
        assert_eq!(contexts(&ring, 9).1, [1, 2]);
        for _ in 0..2 {
            assert_eq!(contexts(&ring, 9), (Taken::Failure, vec![]));
            assert_eq!(ring.take_failure().unwrap().1.kind, Kind::Overrun);
        }
        assert!(!Ring::new(1).state.lock().overrun);
    }

    #[test]
    fn readers_and_writers_at_once() {
        const EACH: usize = 20_000;
        let ring = Ring::new(EACH);
        let total = std::thread::scope(|scope| {
            for writer in 0..2 {
                let ring = &ring;
                scope.spawn(move || (0..EACH).for_each(|number| ring.push(Entry::new(number * 2 + writer, 0))));
            }
            let mut last = [None; 2];
            let mut total = 0;
            while total < 2 * EACH {
                ring.take(16, |_, entry| {
                    let (writer, number) = (entry.context % 2, entry.context / 2);
                    assert!(last[writer].is_none_or(|before| before + 1 == number));
                    last[writer] = Some(number);
                    total += 1;
                });
            }
            total
        });
        assert_eq!((total, ring.waiting()), (2 * EACH, 0));
    }
}
