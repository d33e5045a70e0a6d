//! A peer that has overlooked what came right after its reply is told to look again.
//!
//! Linux siw sends its reply before its socket's callback is set. A first FPDU that comes in between sleeps in its
//! socket until more bytes come; who waits for the answer to it waits for ever. So the side that has begun a
//! connection, and has heard nothing since it stood, sends a zero-length RDMA Write behind what it has said: it changes
//! nothing, and every peer takes it (RFC 5040 section 5.1, RFC 6581 section 9.2).

use core::time::Duration;

use weft_base::Time;
use weft_rdmap::Role;

use super::{Connection, Context};
use crate::lower::{Carrier, Terms};

/// When it is seen to after the set-up, and how many times as late each time after that.
const FIRST_AFTER: Duration = Duration::from_millis(20);
const LATER: u32 = 5;
/// So often: 20 ms, 120 ms and 620 ms after the set-up.
const TIMES: u8 = 3;

/// What is to be done for a peer that may have overlooked something.
#[derive(Clone, Copy, Debug)]
pub(super) struct Nudges {
    at: Time,
    pause: Duration,
    left: u8,
}

impl Nudges {
    /// For a connection that stands now. None are due to a peer that shows by its extensions that it is another Weft,
    /// or that has begun the connection.
    pub(super) fn begin(terms: &Terms, now: Time) -> Option<Self> {
        let mpa = terms.info.mpa()?;
        let may_sleep = terms.stream.role == Role::Initiator && !mpa.extensions.any();
        may_sleep.then(|| Self { at: now + FIRST_AFTER, pause: FIRST_AFTER, left: TIMES })
    }

    /// When it is to be looked at.
    pub(super) fn at(&self) -> Time {
        self.at
    }

    fn next(self, now: Time) -> Option<Self> {
        let (left, pause) = (self.left - 1, self.pause * LATER);
        (left > 0).then(|| Self { at: now + pause, pause, left })
    }
}

impl<N: Carrier> Connection<N> {
    /// Sends a nudge if it is time, and if the peer has said nothing yet to what was sent.
    pub(super) fn nudge(&mut self, cx: &Context<'_>) {
        let Some(nudges) = self.nudges.take_if(|nudges| nudges.at <= cx.io.now) else { return };
        self.stir();
        let Some((running, _)) = self.running() else { return };
        if running.stream.hold().nudge() {
            self.nudges = nudges.next(cx.io.now);
            self.waits_anew = true;
        }
    }
}
