//! What the two ends of a stream announce to each other by receipts ([`Receipt`]): which messages have a receive at the
//! peer, and which are in place there. Each side has both halves: that of a sender, and that of a receiver.
//!
//! # Credits
//! A message of queue 0 is sent only if its number is below a limit that the peer has set, so it waits at its sender,
//! in the queue of requests, and nothing in the stream waits for it. The limit grows by demand: a sender whose next
//! request may not go says for which messages it has requests, and the receiver promises receives that are posted and
//! not yet promised, as many as are wanted. From the first demand on, a source of receives that is this stream's alone
//! promises more than are wanted, so that later messages need no demand ([`ReceiveSource::promise`]). A shared one
//! promises nothing to a peer that has nothing to send: so no promise can keep receives from others for long.
//!
//! # Acknowledgements
//! Both sides count messages that are placed at the peer: Writes, Sends and immediate data. The receiver reports its
//! count on request, and in each receipt that it sends for another reason.

use weft_base::MessageNumber;
use weft_wire::rdmap::{Receipt, queue};

#[cfg(doc)]
use crate::request::ReceiveSource;
use crate::violation::Violation;

/// Credits and acknowledgements of a stream.
#[derive(Debug)]
pub(crate) struct Receipts {
    sender: Sender,
    receiver: Receiver,
    /// The next receipt of this side ...
    number: MessageNumber,
    /// ... and the next of the peer.
    expected: MessageNumber,
}

/// What this side may send, and what the peer has in place of it.
#[derive(Debug)]
struct Sender {
    /// The first message of queue 0 that may not be sent.
    limit: MessageNumber,
    /// The limit at the last receipt that announced what is wanted beyond it.
    demanded_at: Option<MessageNumber>,
    /// Messages given out whole.
    given: u64,
    /// The same when the last request was given out whole: what follows is none of the user's.
    requested: u64,
    /// The same when the last message was given out that requests a receipt.
    asked: u64,
    /// Those of them that are in place at the peer.
    placed: u64,
}

/// What the peer may send, and what is in place of it.
#[derive(Debug)]
struct Receiver {
    /// The first message of queue 0 that the peer may not send.
    limit: MessageNumber,
    /// The same, as last announced to the peer.
    told_limit: MessageNumber,
    /// The first message of queue 0 for which the peer has no request, as far as it has announced. `None`: it has
    /// announced nothing, and gets no promises.
    wanted: Option<MessageNumber>,
    /// How far the limit was ahead of the peer when it was set last.
    window: u32,
    /// Receives that were promised so far, whether messages have taken them or not.
    promised: u32,
    /// The source of receives promises more than are wanted.
    is_generous: bool,
    /// Messages that are in place.
    placed: u64,
    /// The same, as last reported to the peer.
    told_placed: u64,
    /// The peer has requested a receipt.
    is_asked: bool,
}

impl Receipts {
    /// `first_out`, `first_in`: the first messages of queue 0 that need a receive, of this side and of the peer.
    pub(crate) fn new(first_out: MessageNumber, first_in: MessageNumber) -> Self {
        Self {
            sender: Sender { limit: first_out, demanded_at: None, given: 0, requested: 0, asked: 0, placed: 0 },
            receiver: Receiver {
                limit: first_in,
                told_limit: first_in,
                wanted: None,
                window: 0,
                promised: 0,
                is_generous: false,
                placed: 0,
                told_placed: 0,
                is_asked: false,
            },
            number: MessageNumber::FIRST,
            expected: MessageNumber::FIRST,
        }
    }

    // --- as a sender

    /// Whether the message of queue 0 with this number has a receive at the peer.
    pub(crate) fn may_send(&self, number: MessageNumber) -> bool {
        number.distance_from(self.sender.limit) < 0
    }

    /// Whether the peer does not know yet that something waits for its limit.
    pub(crate) fn is_demand_due(&self) -> bool {
        self.sender.demanded_at != Some(self.sender.limit)
    }

    /// A message that the peer acknowledges is given out whole. `of_request`: it ends a request.
    pub(crate) fn count_given(&mut self, of_request: bool) -> u64 {
        self.sender.given += 1;
        if of_request {
            self.sender.requested = self.sender.given;
        }
        self.sender.given
    }

    /// The message that was given out last requests a receipt.
    pub(crate) fn note_asked(&mut self) {
        self.sender.asked = self.sender.given;
    }

    /// Messages that were given out since a receipt was requested last.
    pub(crate) fn unasked(&self) -> u64 {
        self.sender.given - self.sender.asked
    }

    /// Whether a request is not acknowledged, and no receipt was requested for it.
    pub(crate) fn is_question_due(&self) -> bool {
        self.sender.placed.max(self.sender.asked) < self.sender.requested
    }

    // --- as a receiver

    /// Whether the peer may send the message of queue 0 with this number.
    pub(crate) fn check(&self, number: MessageNumber) -> Result<(), Violation> {
        let limit = self.receiver.told_limit;
        if number.distance_from(limit) < 0 { Ok(()) } else { Err(Violation::NoCredit { number, limit }) }
    }

    /// A message is in place; `asks`: its sender requests a receipt.
    pub(crate) fn count_placed(&mut self, asks: bool) {
        self.receiver.placed += 1;
        self.receiver.is_asked |= asks;
    }

    /// How many promises the peer wants that it has not got.
    pub(crate) fn owed(&self) -> u32 {
        let wanted = self.receiver.wanted.map(|wanted| wanted.distance_from(self.receiver.limit));
        wanted.and_then(|owed| u32::try_from(owed).ok()).unwrap_or(0)
    }

    /// Whether the source of receives may have promises to give: the peer waits for some, or has used up half of what
    /// it had. `next`: the message of queue 0 that comes next.
    pub(crate) fn wants_promises(&self, next: MessageNumber) -> bool {
        let receiver = &self.receiver;
        let left = u32::try_from(receiver.limit.distance_from(next)).unwrap_or(0);
        self.owed() > 0 || receiver.is_generous && left <= receiver.window / 2
    }

    /// The source of receives promises as many as there are, whatever is wanted: to a peer that has wanted some.
    pub(crate) fn set_generous(&mut self, is_generous: bool) {
        self.receiver.is_generous = is_generous && self.receiver.wanted.is_some();
    }

    /// This number of receives more is promised.
    pub(crate) fn promise(&mut self, count: u32, next: MessageNumber) {
        // Half of the numbers are in the past: more can't be announced, nor posted.
        debug_assert!(count < 1 << 30, "{count} receives are posted");
        let receiver = &mut self.receiver;
        receiver.limit = MessageNumber(receiver.limit.0.wrapping_add(count));
        receiver.promised = receiver.promised.wrapping_add(count);
        receiver.window = u32::try_from(receiver.limit.distance_from(next)).unwrap_or(0);
    }

    /// Takes back what was promised and not taken: the stream has ended. `taken`: receives that messages have taken so
    /// far.
    pub(crate) fn take_promised(&mut self, taken: u32) -> u32 {
        let left = self.receiver.promised.wrapping_sub(taken);
        self.receiver.promised = taken;
        left
    }

    /// Whether something is in place that the peer has requested a receipt for.
    pub(crate) fn is_answer_due(&self) -> bool {
        self.receiver.is_asked && self.owes_acknowledgement()
    }

    /// Whether the peer does not know all that it was promised.
    pub(crate) fn is_promise_due(&self) -> bool {
        self.receiver.limit != self.receiver.told_limit
    }

    /// Whether something is in place that was not reported to the peer.
    pub(crate) fn owes_acknowledgement(&self) -> bool {
        self.receiver.placed != self.receiver.told_placed
    }

    // --- on the wire

    /// The receipt that would be sent now, and its number. `wanted`: the first message of queue 0 for which there is
    /// no request.
    pub(crate) fn draft(&self, wanted: MessageNumber) -> (MessageNumber, Receipt) {
        let receiver = &self.receiver;
        let asks = self.is_question_due();
        (self.number, Receipt { asks, limit: receiver.limit, wanted, placed: receiver.placed })
    }

    /// That receipt is sent. `waits`: a message waits for the peer's limit.
    pub(crate) fn on_told(&mut self, waits: bool) {
        if waits {
            self.sender.demanded_at = Some(self.sender.limit);
        }
        if self.is_question_due() {
            self.note_asked();
        }
        let receiver = &mut self.receiver;
        receiver.told_limit = receiver.limit;
        receiver.told_placed = receiver.placed;
        receiver.is_asked = false;
        self.number = self.number.next();
    }

    /// Whether a receipt of this number comes now.
    pub(crate) fn check_number(&self, number: MessageNumber) -> Result<(), Violation> {
        if number == self.expected {
            return Ok(());
        }
        Err(Violation::Number { queue: queue::RECEIPT, number, expected: self.expected })
    }

    /// A receipt of the peer has its turn. `next_out`: the message of queue 0 that this side sends next; `next_in`: the
    /// one that the peer sends next. Returns how many messages of this side are in place.
    pub(crate) fn on_receipt(
        &mut self,
        number: MessageNumber,
        receipt: &Receipt,
        next_out: MessageNumber,
        next_in: MessageNumber,
    ) -> Result<u64, Violation> {
        self.check_number(number)?;
        let Self { sender, receiver, .. } = self;
        // Counts of messages never go back, and are never half of all numbers ahead.
        if receipt.limit.distance_from(sender.limit) < 0 || receipt.limit.distance_from(next_out) < 0 {
            return Err(Violation::CreditLimit { limit: receipt.limit, least: sender.limit });
        }
        if receipt.wanted.distance_from(next_in) < 0 {
            return Err(Violation::CreditDemand { wanted: receipt.wanted, least: next_in });
        }
        if !(sender.placed..=sender.given).contains(&receipt.placed) {
            let (placed, least, most) = (receipt.placed, sender.placed, sender.given);
            return Err(Violation::Acknowledgement { placed, least, most });
        }
        self.expected = number.next();
        sender.limit = receipt.limit;
        sender.placed = receipt.placed;
        // A receipt for another reason names what is sent already, too: that is no demand.
        if receipt.wanted.distance_from(receiver.told_limit) > 0 {
            receiver.wanted = Some(receipt.wanted);
        }
        receiver.is_asked |= receipt.asks;
        Ok(receipt.placed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: MessageNumber = MessageNumber::FIRST;

    fn new() -> Receipts {
        Receipts::new(FIRST, FIRST)
    }

    fn tell(receipts: &mut Receipts, wanted: MessageNumber, waits: bool) -> (MessageNumber, Receipt) {
        let told = receipts.draft(wanted);
        receipts.on_told(waits);
        told
    }

    fn receipt(limit: u32, wanted: u32, placed: u64) -> Receipt {
        Receipt { asks: false, limit: MessageNumber(limit), wanted: MessageNumber(wanted), placed }
    }

    #[test]
    fn a_promise_is_told_once_and_a_receipt_that_says_it_again_changes_nothing() {
        let (mut a, mut b) = (new(), new());
        assert!(!a.may_send(FIRST) && a.is_demand_due());
        let (number, demand) = tell(&mut a, MessageNumber(3), true);
        assert!(!a.is_demand_due());
        b.on_receipt(number, &demand, FIRST, FIRST).unwrap();
        assert_eq!((b.owed(), b.wants_promises(FIRST)), (2, true));
        b.promise(2, FIRST);
        assert_eq!((b.owed(), b.is_promise_due()), (0, true));
        for number in [1, 2] {
            let (told, grant) = tell(&mut b, FIRST, false);
            assert_eq!((told, grant.limit), (MessageNumber(number), MessageNumber(3)));
            a.on_receipt(told, &grant, FIRST, FIRST).unwrap();
            assert!(a.may_send(MessageNumber(2)) && !a.may_send(MessageNumber(3)));
            assert!(!b.is_promise_due());
        }
    }

    #[test]
    fn limits_wrap_with_the_numbers_of_messages() {
        let last = MessageNumber(u32::MAX);
        let mut receipts = Receipts::new(last, last);
        receipts.on_receipt(FIRST, &receipt(5, u32::MAX, 0), last, last).unwrap();
        assert!(receipts.may_send(MessageNumber(4)) && !receipts.may_send(MessageNumber(5)));
        receipts.promise(2, last);
        tell(&mut receipts, last, false);
        assert!(receipts.check(MessageNumber(0)).is_ok() && receipts.check(MessageNumber(1)).is_err());
    }

    #[test]
    fn what_cannot_be_is_refused_and_changes_nothing() {
        let mut receipts = new();
        receipts.on_receipt(FIRST, &receipt(10, 1, 0), FIRST, FIRST).unwrap();
        receipts.count_given(true);
        let next = MessageNumber(2);
        // Below the limit before, half of all numbers ahead and more.
        for limit in [9, 1 << 31 | 2, u32::MAX] {
            let refused = receipts.on_receipt(next, &receipt(limit, 1, 0), next, FIRST);
            assert!(matches!(refused, Err(Violation::CreditLimit { .. })), "{limit}: {refused:?}");
        }
        let refused = receipts.on_receipt(next, &receipt(10, 1, 2), next, FIRST);
        assert_eq!(refused, Err(Violation::Acknowledgement { placed: 2, least: 0, most: 1 }));
        let refused = receipts.on_receipt(next, &receipt(10, 4, 0), next, MessageNumber(5));
        assert!(matches!(refused, Err(Violation::CreditDemand { .. })), "{refused:?}");
        let refused = receipts.on_receipt(MessageNumber(3), &receipt(10, 1, 0), next, FIRST);
        assert!(matches!(refused, Err(Violation::Number { .. })), "{refused:?}");
        assert_eq!(receipts.on_receipt(next, &receipt(10, 1, 1), next, FIRST), Ok(1));
    }

    #[test]
    fn acknowledgements_are_told_when_they_are_asked_for() {
        let (mut a, mut b) = (new(), new());
        for _ in 0..3 {
            a.count_given(true);
            b.count_placed(false);
        }
        assert!(a.is_question_due() && b.owes_acknowledgement() && !b.is_answer_due());
        let (number, question) = tell(&mut a, FIRST, false);
        assert!(question.asks && !a.is_question_due());
        b.on_receipt(number, &question, FIRST, FIRST).unwrap();
        assert!(b.is_answer_due());
        let (number, answer) = tell(&mut b, FIRST, false);
        assert_eq!((answer.placed, answer.asks), (3, false));
        assert_eq!(a.on_receipt(number, &answer, FIRST, FIRST), Ok(3));
        assert!(!b.is_answer_due() && !a.is_question_due());
    }

    #[test]
    fn a_peer_that_has_wanted_nothing_is_promised_nothing() {
        let mut receipts = new();
        assert!(!receipts.wants_promises(FIRST));
        receipts.on_receipt(FIRST, &receipt(1, 1, 0), FIRST, FIRST).unwrap();
        assert!(!receipts.wants_promises(FIRST), "it has no request");
        receipts.on_receipt(MessageNumber(2), &receipt(1, 2, 0), FIRST, FIRST).unwrap();
        receipts.promise(8, FIRST);
        assert!(!receipts.wants_promises(MessageNumber(9)), "a queue of several streams promises what is wanted");
        receipts.set_generous(true);
        assert!(!receipts.wants_promises(MessageNumber(4)), "it has more than half");
        assert!(receipts.wants_promises(MessageNumber(5)));
        assert_eq!((receipts.take_promised(3), receipts.take_promised(3)), (5, 0));
    }
}
