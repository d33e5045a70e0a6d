//! Receipts in a stream: when one goes out, and what one that came does. The rules are in [`crate::receipts`].

use weft_base::MessageNumber;
use weft_wire::rdmap::{ASKS_RECEIPT, Receipt};

use super::Stream;
use crate::config::{ReadyKind, Role, StreamConfig};
use crate::receipts::Receipts;
use crate::request::ReceiveSource;
use crate::segment::{Effect, Received};
use crate::sent::Owner;
use crate::state::State;
use crate::violation::Violation;

/// The receipts of a new stream, where they were agreed.
pub(super) fn begin(config: &StreamConfig) -> Option<Box<Receipts>> {
    // The Send that says ready-to-receive takes no receive.
    let after_ready = if config.ready_to_receive == Some(ReadyKind::Send) {
        MessageNumber::FIRST.next()
    } else {
        MessageNumber::FIRST
    };
    let (first_out, first_in) = match config.role {
        Role::Initiator => (after_ready, MessageNumber::FIRST),
        Role::Responder => (MessageNumber::FIRST, after_ready),
    };
    config.receipts.then(|| Box::new(Receipts::new(first_out, first_in)))
}

impl Stream {
    /// Whether the source of receives may have promises for this stream: [`Stream::grant`] is to be called, now and
    /// whenever receives may have been posted.
    #[must_use]
    #[inline]
    pub fn wants_grant(&self) -> bool {
        self.receipts.as_ref().is_some_and(|receipts| {
            self.state.sends() && !self.outgoing.is_silent && receipts.wants_promises(self.receives.number())
        })
    }

    /// Whether the peer waits for a receive: it has a message to send, and no promise.
    #[must_use]
    pub fn owes_credit(&self) -> bool {
        self.wants_grant() && self.receipts.as_ref().is_some_and(|receipts| receipts.owed() > 0)
    }

    /// Takes promises of receives from the source, and has a receipt announce them to the peer.
    pub fn grant(&mut self, source: &mut dyn ReceiveSource) {
        if !self.wants_grant() {
            return;
        }
        let next = self.receives.number();
        if let Some(receipts) = &mut self.receipts {
            receipts.set_generous(source.is_generous());
            let promised = source.promise(receipts.owed());
            if promised > 0 {
                receipts.promise(promised, next);
            }
        }
    }

    /// How many receives were promised to the peer that it has not used, when the stream has ended: they are the
    /// source's again. Each is returned once.
    pub fn take_promised(&mut self) -> u32 {
        let taken = self.receives.taken();
        self.receipts.as_mut().map_or(0, |receipts| receipts.take_promised(taken))
    }

    /// The number of the message that is to go out next and waits for a receive of the peer, if one does.
    #[must_use]
    pub fn awaits_credit(&self) -> Option<u32> {
        (self.state.sends() && self.lacks_credit()).then_some(self.outgoing.send_number.0)
    }

    /// Whether the next request waits for a receive of the peer.
    pub(super) fn lacks_credit(&self) -> bool {
        let Some(receipts) = &self.receipts else { return false };
        let Some((_, entry)) = self.sends.next() else { return false };
        let waits = entry.is_untouched() && entry.request.operation.takes_receive();
        waits && !receipts.may_send(self.outgoing.send_number)
    }

    /// Whether the peer acknowledges messages by receipts, and this side does.
    #[must_use]
    #[inline]
    pub fn has_receipts(&self) -> bool {
        self.receipts.is_some()
    }

    /// Whether a receipt is due that may wait a moment: an answer of the application would take it along. Nothing waits
    /// for it but the completion of what the peer has sent.
    #[must_use]
    #[inline]
    pub fn may_hold_receipt(&self) -> bool {
        self.receipts.as_ref().is_some_and(|receipts| {
            self.state == State::Established && receipts.is_answer_due() && !self.has_urgent_news(receipts)
        })
    }

    /// Has a receipt that may wait ([`Stream::may_hold_receipt`]) go out in front of the next segment, and not before;
    /// or at once, if it has waited for long enough. Holds for one receipt.
    pub fn hold_receipt(&mut self, hold: bool) {
        self.holds_receipt = hold;
    }

    /// Whether a receipt is to be sent to the peer, held or not.
    #[inline]
    pub(super) fn is_receipt_due(&self) -> bool {
        self.receipts.as_ref().is_some_and(|receipts| receipts.is_answer_due() || self.has_urgent_news(receipts))
    }

    /// Whether a receipt is the next to go. `others_go`: a segment could go that is none.
    #[inline]
    pub(super) fn is_receipt_next(&self, others_go: bool) -> bool {
        self.is_receipt_due() && (!self.holds_receipt || others_go || !self.may_hold_receipt())
    }

    fn has_urgent_news(&self, receipts: &Receipts) -> bool {
        if receipts.is_promise_due() || self.lacks_credit() && receipts.is_demand_due() {
            return true;
        }
        // What it has in place is to be known before anything ends: here, and there.
        let nothing_follows = self.sends.next().is_none();
        let is_closing = self.state == State::Draining && nothing_follows;
        let ends = is_closing || self.lacks_credit();
        is_closing && receipts.owes_acknowledgement() || ends && receipts.is_question_due()
    }

    /// Whether what is in place is to be reported before a Terminate: so the peer knows which of its requests has
    /// failed.
    pub(super) fn precedes_terminate(&self) -> bool {
        let owes = self.receipts.as_ref().is_some_and(|receipts| receipts.owes_acknowledgement());
        owes && !self.in_flight.is_full()
    }

    /// Writes a receipt. It may come between the segments of a message: it is none of them, and on a queue of its own.
    pub(super) fn write_receipt(&mut self) {
        let waits = self.draft_receipt();
        self.on_receipt_told(waits, false);
    }

    /// Writes the receipt that would go now, and counts nothing yet. Returns whether a message waits for the peer's
    /// limit.
    fn draft_receipt(&mut self) -> bool {
        let waits = self.lacks_credit();
        let next = self.outgoing.send_number;
        let wanted = if waits { MessageNumber(next.0.wrapping_add(self.sends.unnumbered())) } else { next };
        if let Some(receipts) = &self.receipts {
            let (number, receipt) = receipts.draft(wanted);
            self.outgoing.write_receipt(number, &receipt);
        }
        waits
    }

    fn on_receipt_told(&mut self, waits: bool, is_sent: bool) {
        if let Some(receipts) = &mut self.receipts {
            receipts.on_told(waits);
        }
        self.holds_receipt = false;
        if !is_sent {
            self.in_flight.push(Owner::Stream, None);
        }
    }

    /// The receipt that goes in front of a request that passes the queues, if one is due. Only after
    /// [`Stream::can_pass`]; nothing has gone out before [`Stream::pass_receipt`] says so.
    #[inline]
    pub fn receipt_to_pass(&mut self) -> Option<&[u8]> {
        if !self.is_receipt_due() {
            return None;
        }
        self.draft_receipt();
        Some(self.outgoing.writer.bytes())
    }

    /// What [`Stream::receipt_to_pass`] has written goes out. `is_sent`: the stream below is done with it. Else it
    /// counts in [`Stream::handle_sent`].
    pub fn pass_receipt(&mut self, is_sent: bool) {
        self.on_receipt_told(false, is_sent);
    }

    /// A segment of the next request was written; `whole`: its last, `was_written`: its Write had been formed before.
    /// Counts the message that it ends, and has the peer acknowledge it where that is to be known soon.
    pub(super) fn count_given(&mut self, whole: bool, was_written: bool) {
        let Some(receipts) = &mut self.receipts else { return };
        let is_due = self.sends.is_half_full() && receipts.unasked() + 1 >= self.sends.asks_every();
        let Some((_, entry)) = self.sends.next_mut() else { return };
        let ends_write = !was_written && entry.write_formed;
        if entry.request.operation.is_answered() || !whole && !ends_write {
            return;
        }
        let given = receipts.count_given(whole);
        if whole {
            entry.set_mark(given);
            if entry.request.signaled || is_due {
                receipts.note_asked();
                self.outgoing.writer.ask();
            }
        }
    }

    /// Counts the message that is the whole of a request, which passes the queues. Returns how many messages the peer
    /// has in place when it is.
    pub(super) fn count_passed(&mut self, is_asked: bool) -> Option<u64> {
        let receipts = self.receipts.as_mut()?;
        let given = receipts.count_given(true);
        if is_asked {
            receipts.note_asked();
        }
        Some(given)
    }

    /// A message went out that is no request's.
    pub(super) fn count_ready(&mut self, kind: ReadyKind) {
        if let Some(receipts) = &mut self.receipts
            && kind != ReadyKind::Read
        {
            receipts.count_given(false);
        }
    }

    /// A segment has had its turn: counts the message that it ends.
    pub(super) fn count_placed(&mut self, received: &Received) {
        let Some(receipts) = &mut self.receipts else { return };
        let Some(header) = received.context.header else { return };
        let is_counted = match &received.effect {
            Effect::Write { .. } | Effect::SmallWrite(_) | Effect::Send(_) => header.last,
            Effect::Immediate { .. } | Effect::ReadySend => true,
            _ => false,
        };
        if is_counted {
            receipts.count_placed(header.control & ASKS_RECEIPT != 0);
        }
    }

    /// A receipt has its turn.
    pub(super) fn deliver_receipt(&mut self, number: MessageNumber, receipt: &Receipt) -> Result<(), Violation> {
        let (next_out, next_in) = (self.outgoing.send_number, self.receives.number());
        let Some(receipts) = &mut self.receipts else { return Ok(()) };
        let placed = receipts.on_receipt(number, receipt, next_out, next_in)?;
        self.sends.on_acknowledged(placed);
        Ok(())
    }
}
