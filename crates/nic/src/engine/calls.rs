//! Calls by datagrams whose callers have not confirmed: how many there are, and which of them makes way for another.

use slotmap::DefaultKey;
use weft_base::Clock;

use super::listening::{MOST_UNCONFIRMED, Yielding};
use super::{Engine, EngineClient};
use crate::connection::Connection;
use crate::lower::{Carrier, Pollable as _, Segments as _};

impl<N: Carrier, C: Clock, U: EngineClient> Engine<N, C, U> {
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

    /// Whether a listener that has accepted this many callers that have not confirmed takes another call.
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
