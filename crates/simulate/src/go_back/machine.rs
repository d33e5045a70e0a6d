//! The two ends of a reliable connection of InfiniBand, as far as order and loss concern them (InfiniBand Architecture
//! Specification, volume 1, section 9.7: packet sequence numbers, acknowledgements, retries).
//!
//! The responder takes packets in order only. At a gap it answers once with a NAK that names the packet it expects, and
//! drops what follows until that one has come. The requester goes back to the packet that a NAK names, or, when no
//! answer comes for the time of a retry, to the oldest one that is not acknowledged, and sends all from there again.
//!
//! Left out: the limit of seven retries, after which a connection fails, and the acknowledgement of several packets at
//! once: each one is acknowledged.

use core::time::Duration;

use weft_base::Time;

/// A packet sequence number: 24 bits, which wrap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Psn(u32);

impl Psn {
    const MASK: u32 = (1 << 24) - 1;
    /// As far as one number may be ahead of another one.
    const HALF: u32 = 1 << 23;

    /// The number of the `index`th packet of a connection that begins with `self`.
    pub(super) const fn plus(self, index: u64) -> Self {
        Self(self.0.wrapping_add(index as u32) & Self::MASK)
    }

    /// How far it is ahead of `other`; `None`: it is behind.
    const fn ahead_of(self, other: Self) -> Option<u32> {
        let distance = self.0.wrapping_sub(other.0) & Self::MASK;
        if distance < Self::HALF { Some(distance) } else { None }
    }
}

/// Both ends begin with this number, soon after which the numbers wrap.
pub(super) const FIRST: Psn = Psn(Psn::MASK - 1000);

/// What goes over the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// A packet with payload.
    Request(Psn),
    /// All packets up to this one have come.
    Ack(Psn),
    /// All packets before this one have come; this one has not, though later ones have.
    Nak(Psn),
}

/// What a responder does with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is the one that was expected.
    Taken,
    /// It is dropped: it came too early, or came before.
    Dropped,
}

/// The end that receives.
#[derive(Debug)]
pub(super) struct Responder {
    expected: Psn,
    /// The packet that is expected was named in a NAK.
    has_complained: bool,
}

impl Responder {
    pub(super) const fn new() -> Self {
        Self { expected: FIRST, has_complained: false }
    }

    /// A packet has come; gives what becomes of it, and the answer to send.
    pub(super) fn handle(&mut self, psn: Psn) -> (Verdict, Option<Message>) {
        match psn.ahead_of(self.expected) {
            Some(0) => {
                *self = Self { expected: psn.plus(1), has_complained: false };
                (Verdict::Taken, Some(Message::Ack(psn)))
            }
            Some(_) if self.has_complained => (Verdict::Dropped, None),
            Some(_) => {
                self.has_complained = true;
                (Verdict::Dropped, Some(Message::Nak(self.expected)))
            }
            // The acknowledgement may have been lost.
            None => (Verdict::Dropped, Some(Message::Ack(self.expected.plus(Psn::MASK.into())))),
        }
    }
}

/// The end that sends. Packets are counted from 0; `oldest <= next <= newest <= packets`.
#[derive(Debug)]
pub(super) struct Requester {
    packets: u64,
    window: u64,
    retry_after: Duration,
    /// The first that is not acknowledged.
    oldest: u64,
    /// The one to be sent next.
    next: u64,
    /// The first that has never been sent.
    newest: u64,
    retry_at: Option<Time>,
    resent: u64,
}

impl Requester {
    /// Of a connection that carries this many packets, at most `window` of them without an acknowledgement.
    pub(super) fn new(packets: u64, window: u32, retry_after: Duration) -> Self {
        assert!(window < Psn::HALF, "a window of {window} packets: with so many, old packets look new");
        let window = window.into();
        Self { packets, window, retry_after, oldest: 0, next: 0, newest: 0, retry_at: None, resent: 0 }
    }

    /// Whether there is a packet to be sent.
    pub(super) const fn may_send(&self) -> bool {
        self.next < self.packets && self.next - self.oldest < self.window
    }

    /// The next packet, counted from 0, if there is one to be sent.
    pub(super) fn poll_transmit(&mut self, now: Time) -> Option<u64> {
        if !self.may_send() {
            return None;
        }
        let index = self.next;
        self.next += 1;
        self.resent += u64::from(index < self.newest);
        self.newest = self.newest.max(self.next);
        self.retry_at.get_or_insert(now + self.retry_after);
        Some(index)
    }

    /// An answer has come.
    pub(super) fn handle(&mut self, message: Message, now: Time) {
        match message {
            Message::Request(_) => {}
            Message::Ack(psn) => {
                if let Some(index) = self.under_way(psn) {
                    self.acknowledge(index + 1, now);
                    self.next = self.next.max(self.oldest);
                }
            }
            Message::Nak(psn) => {
                if let Some(index) = self.under_way(psn) {
                    self.acknowledge(index, now);
                    self.next = self.oldest;
                }
            }
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) has something to do.
    pub(super) const fn next_timeout(&self) -> Option<Time> {
        self.retry_at
    }

    /// Goes back if nothing has come for too long.
    pub(super) fn handle_timeout(&mut self, now: Time) {
        if self.retry_at.is_some_and(|at| at <= now) {
            self.next = self.oldest;
            self.retry_at = Some(now + self.retry_after);
        }
    }

    /// Packets that were sent more than once, each time counted.
    pub(super) const fn resent(&self) -> u64 {
        self.resent
    }

    /// Which packet a number means, if that was sent and is not acknowledged.
    fn under_way(&self, psn: Psn) -> Option<u64> {
        let index = self.oldest + u64::from(psn.ahead_of(FIRST.plus(self.oldest))?);
        (index < self.newest).then_some(index)
    }

    fn acknowledge(&mut self, all_before: u64, now: Time) {
        self.oldest = all_before;
        self.retry_at = (self.oldest < self.newest).then(|| now + self.retry_after);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_nanos(1_000_000);
    const RETRY: Duration = Duration::from_millis(4);

    fn psn(index: u64) -> Psn {
        FIRST.plus(index)
    }

    /// A requester that has sent all that its window allows.
    fn sent(packets: u64, window: u32) -> Requester {
        let mut requester = Requester::new(packets, window, RETRY);
        while requester.poll_transmit(NOW).is_some() {}
        requester
    }

    #[test]
    fn numbers_wrap() {
        let last = Psn(Psn::MASK);
        assert_eq!(last.plus(1), Psn(0));
        assert_eq!(Psn(2).ahead_of(last), Some(3));
        assert_eq!(last.ahead_of(Psn(2)), None);
        assert_eq!(last.ahead_of(last), Some(0));
    }

    #[test]
    fn a_gap_has_one_nak_and_what_follows_is_dropped() {
        let mut responder = Responder::new();
        assert_eq!(responder.handle(psn(0)), (Verdict::Taken, Some(Message::Ack(psn(0)))));
        assert_eq!(responder.handle(psn(2)), (Verdict::Dropped, Some(Message::Nak(psn(1)))));
        assert_eq!(responder.handle(psn(3)), (Verdict::Dropped, None), "the gap was named");
        assert_eq!(responder.handle(psn(1)), (Verdict::Taken, Some(Message::Ack(psn(1)))));
        assert_eq!(responder.handle(psn(3)), (Verdict::Dropped, Some(Message::Nak(psn(2)))), "another gap");
    }

    #[test]
    fn what_came_before_is_acknowledged_again() {
        let mut responder = Responder::new();
        let _ = responder.handle(psn(0));
        let _ = responder.handle(psn(1));
        assert_eq!(responder.handle(psn(0)), (Verdict::Dropped, Some(Message::Ack(psn(1)))));
        assert_eq!(responder.handle(psn(2)).0, Verdict::Taken);
    }

    #[test]
    fn the_window_holds_packets_back() {
        let mut requester = sent(10, 4);
        assert_eq!((requester.next, requester.may_send()), (4, false));
        requester.handle(Message::Ack(psn(1)), NOW);
        assert_eq!(requester.poll_transmit(NOW), Some(4));
        assert_eq!(requester.poll_transmit(NOW), Some(5));
        assert_eq!(requester.poll_transmit(NOW), None);
        assert_eq!(requester.resent(), 0);
    }

    #[test]
    fn a_nak_acknowledges_what_is_before_and_all_is_sent_again_from_there() {
        let mut requester = sent(10, 4);
        requester.handle(Message::Nak(psn(2)), NOW);
        let again: Vec<_> = std::iter::from_fn(|| requester.poll_transmit(NOW)).collect();
        assert_eq!((again, requester.resent()), (vec![2, 3, 4, 5], 2));
    }

    #[test]
    fn without_an_answer_it_goes_back_to_the_oldest() {
        let mut requester = sent(10, 4);
        requester.handle(Message::Ack(psn(0)), NOW);
        let at = requester.next_timeout().unwrap();
        assert_eq!(at, NOW + RETRY);
        requester.handle_timeout(at);
        assert_eq!(requester.poll_transmit(at), Some(1));
        assert_eq!(requester.next_timeout(), Some(at + RETRY));
    }

    #[test]
    fn an_answer_restarts_the_time_and_the_last_one_ends_it() {
        let mut requester = sent(3, 4);
        let later = NOW + RETRY / 2;
        requester.handle(Message::Ack(psn(1)), later);
        assert_eq!(requester.next_timeout(), Some(later + RETRY));
        requester.handle(Message::Ack(psn(2)), later);
        assert_eq!((requester.next_timeout(), requester.may_send()), (None, false));
    }

    #[test]
    fn answers_that_are_old_or_of_what_was_never_sent_change_nothing() {
        let mut requester = sent(10, 4);
        requester.handle(Message::Ack(psn(2)), NOW);
        for message in [Message::Ack(psn(0)), Message::Nak(psn(1)), Message::Ack(psn(4)), Message::Nak(psn(9))] {
            requester.handle(message, NOW);
            assert_eq!((requester.oldest, requester.next), (3, 4), "{message:?}");
        }
    }

    #[test]
    fn an_acknowledgement_passes_by_what_was_to_be_sent_again() {
        let mut requester = sent(10, 4);
        requester.handle_timeout(requester.next_timeout().unwrap());
        requester.handle(Message::Ack(psn(2)), NOW);
        assert_eq!(requester.poll_transmit(NOW), Some(3), "0 to 2 have come");
    }
}
