//! Callers for which the operating system has no descriptors. They wait in its queue for a while, for others may end;
//! then they are taken on a descriptor that is kept for this, and learn why they are refused.

use core::time::Duration;

use slotmap::DefaultKey;
use weft_base::{Clock, PortError};
use weft_wire::message::Refusal;

use super::{Engine, EngineClient};
use crate::connection::Connection;
use crate::error::{ConnectionError, Error, RefusedStart};
use crate::lower::Carrier;

/// Callers wait this long for descriptors before they are refused: connections come and go.
const SHORT_FOR: Duration = Duration::from_secs(1);
/// This many callers are being refused at a time, each of which has a descriptor of those that are left to the program.
const MOST_REFUSING: usize = 4;
/// How long a caller that is to be refused may take to send its request.
const REFUSED_WITHIN: Duration = Duration::from_secs(1);

impl<N: Carrier, C: Clock, U: EngineClient> Engine<N, C, U> {
    /// Takes callers for which there are no descriptors, to refuse them, if it has been so for long enough.
    pub(super) fn refuse_some(&mut self, key: DefaultKey) {
        let now = self.now;
        let Some(listening) = self.listening(key) else { return };
        let since = *listening.short_since.get_or_insert(now);
        if now < since + SHORT_FOR {
            return;
        }
        listening.report_shortage();
        while self.may_refuse_another(key) {
            let Some(Ok(Some(port))) = self.listening(key).map(|listening| listening.accept_to_refuse()) else {
                return;
            };
            let offer = self.listening(key).map(|listening| listening.offer).unwrap_or_default();
            let added = self.add_connection(Some(REFUSED_WITHIN), |_, _, deadline| {
                Ok(Connection::respond(port, key, offer, deadline))
            });
            let Ok(caller) = added else { return };
            if let Some(listening) = self.listening(key) {
                listening.refusing.push(caller);
            }
            self.start_connection(caller);
        }
    }

    fn may_refuse_another(&mut self, key: DefaultKey) -> bool {
        let Some(listening) = self.listening(key) else { return false };
        let mut refusing = core::mem::take(&mut listening.refusing);
        refusing.retain(|caller| self.connection(*caller).is_some());
        let may = refusing.len() < MOST_REFUSING;
        if let Some(listening) = self.listening(key) {
            listening.refusing = refusing;
        }
        may
    }

    /// Whether a caller was taken to be refused.
    pub(super) fn is_to_be_refused(&mut self, listener: DefaultKey, caller: DefaultKey) -> bool {
        self.listening(listener).is_some_and(|listening| listening.refusing.contains(&caller))
    }

    /// Refuses a caller for lack of descriptors, and reports the refusal to the thread that waits for requests.
    pub(super) fn refuse_for_shortage(&mut self, listener: DefaultKey, caller: DefaultKey) {
        let Some(connection) = self.connection(caller) else { return };
        let remote = crate::lower::Segments::<N::Scratch>::remote_address(&connection.lower);
        let error = ConnectionError::Local(Box::new(Error::Port(PortError::Exhausted)));
        if let Some(listening) = self.listening(listener) {
            listening.refuse(RefusedStart { remote, error });
        }
        // When it is gone already there is no program to answer.
        let _ = self.reject(crate::engine::listening::RequestKey(caller), &Refusal::Exhausted.emit());
    }
}
