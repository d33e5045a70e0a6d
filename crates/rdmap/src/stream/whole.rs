//! Plain Sends of one segment that pass the queues by: for an upper layer that keeps its own account of messages and of
//! the room for them, and so has no use for a work request, a receive request and a completion of each.
//!
//! On the wire they are Sends like all others, numbered with them. Each of these calls says beforehand whether it is
//! possible; where it is not, the message takes the way of all others.

use weft_wire::ddp::{Header, Target, UNTAGGED_LENGTH};
use weft_wire::rdmap::{Control, Opcode, queue};

use super::Stream;
use super::outgoing::{Source, advance};
use crate::lifecycle::State;
use crate::segment::{Arrival, Written};
use crate::sent::Owner;

impl Stream {
    /// Whether a Send may be given out now without a request: nothing that was posted waits before it, and no message
    /// has begun that it would cut (RFC 5040 section 5.5, rule 13).
    #[must_use]
    #[inline]
    pub fn can_send_whole(&self) -> bool {
        self.state == State::Established
            && self.sends.next().is_none()
            && self.outgoing.is_between_messages()
            && !self.in_flight.is_full()
    }

    /// The header of a Send of one segment, whose payload is not this stream's to know. It is given out with this, as
    /// by [`Stream::poll_transmit`]: it counts in [`Stream::handle_sent`]. Only after [`Stream::can_send_whole`].
    pub fn send_whole(&mut self) -> &[u8] {
        debug_assert!(self.can_send_whole(), "a message that passes others by");
        let outgoing = &mut self.outgoing;
        let number = advance(&mut outgoing.send_number);
        outgoing.writer.untagged(Opcode::Send, true, 0, queue::SEND, number, 0);
        outgoing.on_written(Source::Request, true);
        self.in_flight.push(Owner::Stream, None);
        self.outgoing.writer.bytes()
    }

    /// Where in the ULPDU the payload begins, if this segment is all of a plain Send, and its turn has come. Nothing is
    /// changed by this. `ulpdu` is the whole of it, and its CRC was good.
    #[must_use]
    #[inline]
    pub fn find_whole_send(&self, arrival: Arrival, ulpdu: &[u8]) -> Option<usize> {
        let header = Header::parse(ulpdu).ok()?;
        let Target::Untagged { queue: queue::SEND, number, offset: 0, .. } = header.target else { return None };
        let is_plain =
            header.last && Control::parse(header.control).is_ok_and(|control| control.opcode == Opcode::Send);
        let is_due = self.state.receives() && !self.awaits_ready_send && self.order.is_next(arrival);
        (is_plain && is_due && self.receives.can_skip(number)).then_some(UNTAGGED_LENGTH)
    }

    /// The message that [`Stream::find_whole_send`] has found was taken: it is delivered. The receive requests are as
    /// they were.
    pub fn take_whole_send(&mut self, arrival: Arrival) {
        self.order.advance(arrival);
        self.outgoing.speak();
        self.written = Written::default();
        self.receives.skip_message();
        self.check_drained();
    }
}
