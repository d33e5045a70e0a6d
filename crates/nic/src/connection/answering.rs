//! Receipts wait for the answer of the application, where receipts were agreed: that takes them along. One that has
//! waited for a turn of the engine goes out alone, so while a caller polls it waits for one poll; and when callers are
//! away, until the NIC's thread takes over. A lower layer that acknowledges messages itself does the same.

use weft_base::Time;

use super::completion::report_sends;
use super::{Connection, Context, Phase, Running};
use crate::lower::{Carrier, Io, StreamCell};

impl<N: Carrier> Connection<N> {
    /// Whole messages were received, and nothing else. Returns whether something is to be sent for them now; what may
    /// wait does so until the next turn.
    #[inline]
    pub(super) fn is_anything_due(&mut self, io: &Io<'_, N::Scratch>) -> bool {
        let Some((running, _)) = self.running() else { return false };
        if !running.stream.hold().has_receipts() {
            return false;
        }
        running.hold_receipt(true, io);
        let stream = running.stream.hold();
        let is_quiet = stream.is_quiet();
        let waits = running.receipt_waits.is_some() && !stream.can_transmit() && !stream.wants_grant();
        drop(stream);
        // The next turn drives it if something waits.
        running.is_quiet = is_quiet;
        !is_quiet && !waits
    }

    /// Has a receipt that is due wait for the answer, if that pays; or go, if it has waited. `is_awake`: something was
    /// done in this turn, so that there will be another one.
    pub(super) fn hold_receipt(&mut self, is_awake: bool, io: &Io<'_, N::Scratch>) {
        if let Some((running, _)) = self.running() {
            running.hold_receipt(is_awake, io);
        }
    }

    /// The lower layer has received whole messages, and holds their acknowledgement back for the answer
    /// ([`Got::MessagesToAnswer`](crate::lower::Got::MessagesToAnswer)). Reports what the peer has acknowledged.
    /// Returns whether nothing else follows in this turn; the next one drives the connection.
    pub(super) fn awaits_answer(&mut self, cx: &mut Context<'_, N::Scratch>) -> bool {
        let waits = self.answers_wait;
        let Phase::Running(running) = &mut self.phase else { return false };
        // What is shared may be changed by others.
        let StreamCell::Own(stream) = &mut running.stream else { return false };
        report_sends(stream, &running.queue_pair, cx.io.counters);
        let rests = !waits && !running.cut_short && stream.is_quiet();
        if rests {
            (running.ready.receive, running.ready.idle) = (true, false);
            (running.is_quiet, running.ack_waits) = (false, Some(cx.io.turn));
        }
        rests
    }

    /// A receipt that waits goes now. Returns whether one does.
    pub(super) fn release_receipt(&mut self) -> bool {
        let Some((running, _)) = self.running() else { return false };
        let waits = running.receipt_waits.take().is_some();
        if waits {
            running.stream.hold().hold_receipt(false);
        }
        waits
    }

    /// Something is posted: what has waited goes out with it.
    #[inline]
    pub(super) fn note_answer(&mut self, io: &Io<'_, N::Scratch>) {
        if let Some((running, _)) = self.running()
            && running.stream.hold().has_receipts()
        {
            running.note_answer(io.now);
        }
    }
}

impl Running {
    pub(super) fn note_answer(&mut self, now: Time) {
        self.answers.answered(now);
        if self.receipt_waits.take().is_some() {
            // What is posted may have to wait, and the receipt must not wait for that.
            self.stream.hold().hold_receipt(false);
        }
    }

    fn hold_receipt<S>(&mut self, is_awake: bool, io: &Io<'_, S>) {
        let mut stream = self.stream.hold();
        if !stream.may_hold_receipt() {
            self.receipt_waits = None;
            return;
        }
        match self.receipt_waits {
            None => {
                let waits = is_awake && self.answers.holds(io.now) && io.settings.lets_acknowledgements_wait();
                self.receipt_waits = waits.then_some(io.turn);
                stream.hold_receipt(waits);
            }
            Some(turn) if turn != io.turn => {
                self.answers.unanswered(io.now);
                self.receipt_waits = None;
                stream.hold_receipt(false);
            }
            Some(_) => {}
        }
    }
}
