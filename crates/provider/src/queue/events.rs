//! Events of control operations that wait to be read.

use std::collections::VecDeque;

/// The most bytes of one event.
pub(crate) const MOST_BYTES: usize = 4096;

/// Events that wait to be read, in the order in which they came.
pub(crate) struct Events {
    waiting: VecDeque<Event>,
    room: usize,
}

/// An event: its kind, and what is known of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) kind: u32,
    pub(crate) bytes: Box<[u8]>,
}

/// What [`Events::read`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    Event(Event),
    /// The next event has more bytes than that.
    TooShort,
    Nothing,
}

impl Events {
    /// Room for so many.
    pub(crate) const fn new(room: usize) -> Self {
        Self { waiting: VecDeque::new(), room }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns whether there was room.
    #[must_use]
    pub(crate) fn push(&mut self, event: Event) -> bool {
        let room = self.waiting.len() < self.room;
        if room {
            self.waiting.push_back(event);
        }
        room
    }

    /// The next event, if it has at most `most` bytes. With `peek` it stays.
    pub(crate) fn read(&mut self, most: usize, peek: bool) -> Read {
        match self.waiting.front() {
            None => Read::Nothing,
            Some(event) if event.bytes.len() > most => Read::TooShort,
            Some(event) if peek => Read::Event(event.clone()),
            Some(_) => self.waiting.pop_front().map_or(Read::Nothing, Read::Event),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_order_and_no_more_than_fit() {
        let event = |kind, bytes: &[u8]| Event { kind, bytes: bytes.into() };
        let mut events = Events::new(2);
        assert!(events.push(event(5, b"abc")) && events.push(event(6, b"")));
        assert!(!events.push(event(7, b"")));
        assert_eq!(events.read(2, false), Read::TooShort);
        assert_eq!(events.read(3, true), Read::Event(event(5, b"abc")));
        assert_eq!(events.read(9, false), Read::Event(event(5, b"abc")));
        assert_eq!(events.read(0, false), Read::Event(event(6, b"")));
        assert_eq!(events.read(9, false), Read::Nothing);
        assert!(events.is_empty() && events.push(event(7, b"")));
    }
}
