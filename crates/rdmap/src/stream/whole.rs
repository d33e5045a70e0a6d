//! Messages of one segment that pass the queues by: plain Sends of an upper layer that keeps its own account of
//! messages and of the room for them, and so has no use for a work request, a receive request and a completion of each;
//! and short Sends and Writes that find nothing before them.
//!
//! On the wire they are Sends like all others, numbered with them. Each of these calls says beforehand whether it is
//! possible; where it is not, the message takes the way of all others.

use weft_base::MessageNumber;
use weft_wire::ddp::{Header, Target, UNTAGGED_LENGTH};
use weft_wire::rdmap::{ASKS_RECEIPT, Control, Opcode, Receipt, queue};

use super::Stream;
use super::outgoing::{Source, advance};
use crate::completion::{Completion, CompletionKind, Status};
use crate::request::{Operation, ReceiveRequest, ReceiveSource, SendRequest};
use crate::segment::{Arrival, Written};
use crate::sent::Owner;
use crate::state::State;

/// Payloads up to this length, in bytes, are copied while the queue of receive requests is held: less work than to take
/// a request out of it.
const FILLED_IN_QUEUE: u32 = 1024;

impl Stream {
    /// Whether a Send may be given out now without a request: nothing that was posted waits before it, and no message
    /// has begun that it would cut (RFC 5040 section 5.5, rule 13).
    #[must_use]
    #[inline]
    pub fn can_send_whole(&self) -> bool {
        // Each message has to be counted, and to wait for a receive.
        self.receipts.is_none() && self.has_free_way()
    }

    /// Whether nothing waits to be given out, and nothing has begun.
    #[inline]
    fn has_free_way(&self) -> bool {
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

    /// Whether a request may go out without a place among those under way: nothing of them is incomplete, so it
    /// completes in its turn (RFC 5040 section 5.5, rule 15), and there is nothing for a fence to wait for.
    #[must_use]
    #[inline]
    pub fn can_pass(&self) -> bool {
        // A receipt may go before it.
        let has_room = self.receipts.is_none() || !self.in_flight.is_half_full();
        has_room && self.sends.is_empty() && self.has_free_way()
    }

    /// The header of a Send or Write that is one segment. Only after [`Stream::can_pass`]; nothing has gone out before
    /// [`Stream::pass`] or [`Stream::pass_owed`] says so. `None`: it is something else, or the peer has no receive for
    /// it.
    #[inline]
    pub fn header_to_pass(&mut self, request: &SendRequest) -> Option<&[u8]> {
        debug_assert!(self.can_pass(), "a request that passes others by");
        let asks = self.asks_in_passing(request);
        let receipts = self.receipts.as_ref();
        if receipts.is_some_and(|receipts| !receipts.may_send(self.outgoing.send_number))
            && request.operation.takes_receive()
        {
            return None;
        }
        self.outgoing.write_whole(&request.operation)?;
        if asks {
            self.outgoing.writer.ask();
        }
        Some(self.outgoing.writer.bytes())
    }

    /// Whether a request that passes the queues asks for a receipt: its completion is wanted, or half of the places are
    /// taken with it and those before it have not asked for long.
    fn asks_in_passing(&self, request: &SendRequest) -> bool {
        self.receipts.as_ref().is_some_and(|receipts| {
            let is_due = self.sends.is_half_full_with(1) && receipts.unasked() + 1 >= self.sends.asks_every();
            request.signaled || is_due
        })
    }

    /// What has the header that [`Stream::header_to_pass`] has written goes out. `is_sent`: the stream below is done
    /// with it. Else it counts in [`Stream::handle_sent`]. Not where the peer acknowledges messages.
    #[inline]
    pub fn pass(&mut self, operation: &Operation, is_sent: bool) {
        debug_assert!(self.receipts.is_none(), "a message that is not counted");
        self.outgoing.pass(operation);
        if !is_sent {
            self.in_flight.push(Owner::Stream, None);
        }
    }

    /// As [`Stream::pass`], for a request that is to complete when [`Stream::handle_sent`] counts its segment and, if
    /// it acknowledges messages, the peer has it in place: it has a place among those under way, and its memory was
    /// pinned for this domain.
    pub fn pass_owed(&mut self, request: &SendRequest, is_sent: bool) {
        let number = self.outgoing.pass(&request.operation).map(|number| (queue::SEND, number));
        let mark = self.count_passed(self.asks_in_passing(request));
        let sequence = self.sends.post_given(*request, number, is_sent, mark);
        if !is_sent {
            self.in_flight.push(Owner::Request(sequence), None);
        }
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
        let is_plain = is_plain && self.receipts.as_ref().is_none_or(|receipts| receipts.check(number).is_ok());
        let is_due = self.state.receives() && !self.awaits_ready_send && self.order.is_next(arrival);
        (is_plain && is_due && self.receives.can_skip(number)).then_some(UNTAGGED_LENGTH)
    }

    /// Copies the payload of the message that [`Stream::find_whole_send`] has found, at `start` of the ULPDU, into the
    /// receive request that is next: it is delivered, and the request complete. `None`: there is no request, or
    /// something is wrong with it, and the message takes the way of all others.
    pub fn receive_whole_send<R: ReceiveSource>(
        &mut self,
        arrival: Arrival,
        ulpdu: &[u8],
        start: usize,
        receives: &mut R,
    ) -> Option<Completion> {
        let payload = &ulpdu[start..];
        let length = payload.len() as u32;
        let registry = &self.registry;
        let are_promised = self.receipts.is_some();
        let filled = if length <= FILLED_IN_QUEUE {
            receives.fill_next(length, are_promised, |sink| registry.fill_pinned(sink, payload).is_ok())
        } else {
            None
        };
        let id = match filled {
            Some(id) => {
                self.receives.count_filled();
                id
            }
            None => self.fill_taken(payload, receives)?,
        };
        self.take_whole_send(arrival);
        if let Some(receipts) = &mut self.receipts {
            receipts.count_placed(ulpdu[1] & ASKS_RECEIPT != 0);
        }
        Some(Completion {
            id,
            kind: CompletionKind::Receive,
            status: Status::Success,
            length,
            immediate: None,
            invalidated: None,
            solicited: false,
        })
    }

    /// Copies the payload into a request that is taken out of its queue before.
    #[inline(never)]
    fn fill_taken(&mut self, payload: &[u8], receives: &mut dyn ReceiveSource) -> Option<u64> {
        let ReceiveRequest { id, sink } = self.receives.take_for(payload.len() as u32, receives)?;
        if self.registry.fill_pinned(&sink, payload).is_err() {
            self.receives.give_back(ReceiveRequest { id, sink });
            return None;
        }
        Some(id)
    }

    /// Takes a receipt of the peer whose turn it is: it is delivered. Returns whether this was one; else nothing has
    /// changed, and the segment takes the way of all others. `ulpdu` is the whole of it, and its CRC was good.
    pub fn take_whole_receipt(&mut self, arrival: Arrival, ulpdu: &[u8]) -> bool {
        let Some((number, receipt)) = whole_receipt(ulpdu) else { return false };
        let is_due = self.state == State::Established && !self.awaits_ready_send && self.order.is_next(arrival);
        // One that breaks a rule is judged where all others are.
        if self.receipts.is_none() || !is_due || self.deliver_receipt(number, &receipt).is_err() {
            return false;
        }
        self.order.advance(arrival);
        self.outgoing.speak();
        true
    }

    /// The message that [`Stream::find_whole_send`] has found was taken: it is delivered. The receive requests are as
    /// they were. Not where the peer is sent receipts, which count messages.
    #[inline]
    pub fn take_whole_send(&mut self, arrival: Arrival) {
        self.order.advance(arrival);
        self.outgoing.speak();
        self.written = Written::default();
        self.receives.skip_message();
        self.check_drained();
    }
}

/// What a segment says that is a receipt, and its number.
fn whole_receipt(ulpdu: &[u8]) -> Option<(MessageNumber, Receipt)> {
    let header = Header::parse(ulpdu).ok()?;
    let Target::Untagged { queue: queue::RECEIPT, number, offset: 0, .. } = header.target else { return None };
    let is_receipt = header.last && Control::parse(header.control).is_ok_and(|one| one.opcode == Opcode::Receipt);
    let bytes = ulpdu[UNTAGGED_LENGTH..].try_into().ok()?;
    is_receipt.then(|| (number, Receipt::parse(bytes)))
}
