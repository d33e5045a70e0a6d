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

    /// Whether a receipt is to be sent to the peer.
    #[inline]
    pub(super) fn is_receipt_due(&self) -> bool {
        self.receipts.as_ref().is_some_and(|receipts| self.has_news(receipts))
    }

    fn has_news(&self, receipts: &Receipts) -> bool {
        if receipts.is_answer_due() || self.lacks_credit() && receipts.is_demand_due() {
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
        let waits = self.lacks_credit();
        let next = self.outgoing.send_number;
        let wanted = if waits { MessageNumber(next.0.wrapping_add(self.sends.unnumbered())) } else { next };
        let Some(receipts) = &mut self.receipts else { return };
        let (number, receipt) = receipts.tell(wanted, waits);
        self.outgoing.write_receipt(number, &receipt);
        self.in_flight.push(Owner::Stream, None);
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
