//! Waiting events of control operations.

use std::collections::VecDeque;

/// The maximum length of an event in bytes.
pub(crate) const MOST_BYTES: usize = 4096;

/// Waiting events, in order of arrival.
pub(crate) struct Events<F> {
    waiting: VecDeque<Event<F>>,
    room: usize,
}

enum Event<F> {
    Ordinary { kind: u32, bytes: Box<[u8]> },
    Failed(F),
}

/// The result of [`Events::read`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// An event of this kind, and its bytes as far as there was room.
    Event {
        kind: u32,
        bytes: Box<[u8]>,
    },
    /// The next event has more bytes than that.
    TooShort,
    /// The next one has failed.
    Failure,
    Nothing,
}

impl<F: Clone> Events<F> {
    /// With room for this many.
    pub(crate) fn new(room: usize) -> Self {
        Self { waiting: VecDeque::new(), room }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns whether there was room.
    #[must_use]
    pub(crate) fn push(&mut self, kind: u32, bytes: &[u8]) -> bool {
        self.add(Event::Ordinary { kind, bytes: bytes.into() })
    }

    /// Returns whether there was room.
    #[must_use]
    pub(crate) fn push_failure(&mut self, failure: F) -> bool {
        self.add(Event::Failed(failure))
    }

    /// The next event, if it has at most `most` bytes. With `peek` it stays.
    pub(crate) fn read(&mut self, most: usize, peek: bool) -> Read {
        let read = match self.waiting.front() {
            None => return Read::Nothing,
            Some(Event::Failed(_)) => return Read::Failure,
            Some(Event::Ordinary { bytes, .. }) if bytes.len() > most => return Read::TooShort,
            Some(Event::Ordinary { kind, bytes }) => Read::Event { kind: *kind, bytes: bytes.clone() },
        };
        if !peek {
            self.waiting.pop_front();
        }
        read
    }

    /// The next event, if it has failed.
    pub(crate) fn read_failure(&mut self, peek: bool) -> Option<F> {
        let failure = match self.waiting.front()? {
            Event::Failed(failure) => failure.clone(),
            Event::Ordinary { .. } => return None,
        };
        if !peek {
            self.waiting.pop_front();
        }
        Some(failure)
    }

    fn add(&mut self, event: Event<F>) -> bool {
        let room = self.waiting.len() < self.room;
        if room {
            self.waiting.push_back(event);
        }
        room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_order_with_failures_apart() {
        let mut events = Events::new(3);
        assert!(events.push(5, b"abc") && events.push_failure("late") && events.push(6, b""));
        assert!(!events.push(7, b"") && !events.push_failure("later"));
        assert_eq!(events.read(2, false), Read::TooShort);
        let first = Read::Event { kind: 5, bytes: (*b"abc").into() };
        assert_eq!(events.read(3, true), first);
        assert_eq!(events.read_failure(false), None);
        assert_eq!(events.read(9, false), first);
        assert_eq!(events.read(9, false), Read::Failure);
        assert_eq!(events.read_failure(true), Some("late"));
        assert_eq!(events.read_failure(false), Some("late"));
        assert_eq!(events.read(9, false), Read::Event { kind: 6, bytes: [].into() });
        assert_eq!(events.read(9, false), Read::Nothing);
        assert!(events.is_empty() && events.push(7, b""));
    }
}
