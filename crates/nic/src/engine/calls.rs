//! Calls by datagrams whose callers have not confirmed: how many there are, who makes way for another, and which hellos
//! have been heard.

use std::collections::{HashSet, VecDeque};

use slotmap::DefaultKey;
use weft_base::Clock;

use super::listening::Yielding;
use super::{Engine, Upper};
use crate::connection::Connection;
use crate::lower::{Carrier, Lower};

/// Callers that a listener has accepted and that have not confirmed yet. A further one takes the place of the oldest
/// (see [`Yielding`]); who calls from where it says confirms within a round trip.
pub(super) const MOST_UNCONFIRMED: usize = 256;
/// Hellos that an engine remembers, oldest forgotten first: as many calls as come in a burst, and those that a replay
/// may wait for. Each takes some 50 bytes.
const MOST_HEARD: usize = 4096;

/// The hellos that were calls. One that is said again under another address, by who has recorded it, is no other call:
/// its nonce is part of what is proved, so nobody but its sender can change it.
#[derive(Debug, Default)]
pub(super) struct HeardCalls {
    names: HashSet<u128>,
    oldest_first: VecDeque<u128>,
}

impl HeardCalls {
    /// A hello has come. Returns whether it is a new one, which is remembered.
    pub(super) fn note(&mut self, name: u128) -> bool {
        if !self.names.insert(name) {
            return false;
        }
        if self.oldest_first.len() >= MOST_HEARD
            && let Some(oldest) = self.oldest_first.pop_front()
        {
            self.names.remove(&oldest);
        }
        self.oldest_first.push_back(name);
        true
    }

    /// Its call has come to nothing: its caller, if it still calls, may try again.
    pub(super) fn forget(&mut self, name: u128) {
        if self.names.remove(&name) {
            self.oldest_first.retain(|heard| *heard != name);
        }
    }
}

impl<N: Carrier, C: Clock, U: Upper> Engine<N, C, U> {
    /// The application has accepted a call at this listener: the caller has to confirm, if it has not.
    pub(super) fn await_confirmation(&mut self, listener: DefaultKey, key: DefaultKey) {
        let now = self.now;
        let Some(connection) = self.connection(key).filter(|one| !one.lower.is_confirmed()) else { return };
        let remote = connection.lower.remote_address().ip();
        if let Some(listening) = self.listening(listener) {
            listening.await_confirmation(key, remote, now);
        }
    }

    /// How many callers of a listener were accepted and have not confirmed.
    pub(super) fn unconfirmed(&mut self, listener: DefaultKey) -> usize {
        let Some(listening) = self.listening(listener) else { return 0 };
        let mut unconfirmed = listening.take_unconfirmed();
        unconfirmed.retain(|key| self.connection(key).is_some_and(|one| !one.lower.is_confirmed()));
        let count = unconfirmed.len();
        if let Some(listening) = self.listening(listener) {
            listening.put_unconfirmed(unconfirmed);
        }
        count
    }

    /// Whether a listener that has accepted so many callers who have not confirmed takes another call.
    pub(super) fn takes_call(&mut self, listener: DefaultKey, unconfirmed: usize) -> bool {
        let has_room = self.connections < self.settings.limits.connections as usize;
        has_room && (unconfirmed < MOST_UNCONFIRMED || self.oldest_unconfirmed(listener).is_some())
    }

    /// The oldest caller that has not confirmed makes way for another call, where there are as many as may be.
    pub(super) fn make_way(&mut self, listener: DefaultKey, unconfirmed: usize) {
        if unconfirmed >= MOST_UNCONFIRMED
            && let Some(oldest) = self.oldest_unconfirmed(listener)
        {
            self.with_connection(oldest, Connection::make_way);
        }
    }

    /// The oldest, if it has had its time.
    fn oldest_unconfirmed(&mut self, listener: DefaultKey) -> Option<DefaultKey> {
        let now = self.now;
        match self.listening(listener)?.unconfirmed_yielding(now) {
            Yielding::Now(oldest) => Some(oldest),
            Yielding::At(_) | Yielding::Never => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hello_is_new_once_and_no_more_are_remembered_than_are_meant_to() {
        let mut heard = HeardCalls::default();
        assert!(heard.note(7) && !heard.note(7));
        heard.forget(7);
        heard.forget(8);
        assert!(heard.note(7) && !heard.note(7), "its caller may try again");
        assert!((100..100 + MOST_HEARD as u128).all(|name| heard.note(name)));
        assert_eq!((heard.names.len(), heard.oldest_first.len()), (MOST_HEARD, MOST_HEARD));
        assert!(heard.note(7), "the oldest is forgotten");
        assert!(!heard.note(100 + MOST_HEARD as u128 - 1));
    }
}
