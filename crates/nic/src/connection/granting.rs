//! Receives that are posted here are promised to the peer, where receipts were agreed: its Sends wait at the peer until
//! then. And Sends of this side that wait for a promise of the peer.

use weft_base::Time;

use super::Connection;
use crate::lower::{Carrier, Pollable as _, Segments as _};
use crate::policy::Starved;

impl<N: Carrier> Connection<N> {
    /// Promises receives to the peer if it is to have some and some are posted. Where the peer waits and none is
    /// posted, the connection polls for them: a thread that posts a receive does not report it.
    pub(super) fn grant(&mut self, now: Time) {
        let Some((running, _)) = self.running() else { return };
        let mut stream = running.stream.hold();
        if !stream.wants_grant() {
            drop(stream);
            self.starved = None;
            return;
        }
        stream.grant(&mut running.queue_pair.receive_source());
        let owes = stream.owes_credit();
        drop(stream);
        match &mut self.starved {
            Some(starved) if owes => starved.on_empty_poll(now),
            None if owes => self.starved = Some(Starved::since(now)),
            _ => self.starved = None,
        }
        self.waits_anew |= owes;
    }

    /// The position of a message for which the peer has no receive, as a number that changes when the peer takes one:
    /// bytes that are not acknowledged, where it waits below; the number of the message, where it waits for a promise.
    pub(super) fn waits_at(&mut self) -> Option<usize> {
        let (running, lower) = self.running()?;
        if lower.lacks_receive() {
            return Some(lower.unacknowledged());
        }
        running.stream.hold().awaits_credit().map(|number| number as usize)
    }
}
