//! A nudge: bytes that make a peer poll again when it has overlooked what arrived right after its reply.
//!
//! Linux siw sends its reply before its socket's callback is set. A first FPDU that comes in between stays in its
//! socket until more bytes come; a thread that waits for the answer to it waits for ever. So the side that has begun a
//! connection, and has received nothing since it was established, sends a zero-length RDMA Write behind what it has
//! sent: it changes nothing, and every peer takes it (RFC 5040 section 5.1, RFC 6581 section 9.2).

use super::{Connection, Context};
use crate::lower::Carrier;

impl<N: Carrier> Connection<N> {
    /// Sends a nudge if it is time, and if the peer has not answered yet what was sent.
    pub(super) fn nudge(&mut self, cx: &Context<'_, N::Scratch>) {
        let Some(nudges) = self.nudges.take_if(|nudges| nudges.at() <= cx.io.now) else { return };
        self.stir();
        let Some((running, _)) = self.running() else { return };
        if running.stream.hold().nudge() {
            self.nudges = nudges.next(cx.io.now);
            self.waits_anew = true;
        }
    }
}
