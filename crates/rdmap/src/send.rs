//! The requests to the peer, from posting to completion.

use std::collections::VecDeque;

use weft_base::MessageNumber;

use crate::FIRST_PLACES;
use crate::completion::{Completion, Status};
use crate::request::{Operation, Payload, PostError, SendRequest};

/// A request under way.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) request: SendRequest,
    /// Bytes of it that were given out.
    pub(crate) formed: u32,
    /// A Write with immediate data: the Write was given out, the Immediate Data message is next.
    pub(crate) write_formed: bool,
    /// The message on an untagged queue that it is: queue and MSN.
    pub(crate) number: Option<(u32, MessageNumber)>,
    /// All of it was given out.
    given: bool,
    /// Segments given out that the stream below may still read.
    out: u32,
    /// The peer's answer was delivered, or its acknowledgement where it acknowledges messages. True from the start for
    /// what is neither.
    answered: bool,
    status: Status,
    /// Where the peer acknowledges messages: how many it has acknowledged when this is in place.
    mark: u64,
}

impl Entry {
    /// It is in place at the peer when that has acknowledged this number of messages.
    pub(crate) fn set_mark(&mut self, mark: u64) {
        self.mark = mark;
    }

    /// Whether none of it was given out.
    pub(crate) fn is_untouched(&self) -> bool {
        self.formed == 0 && !self.write_formed && self.number.is_none()
    }

    fn is_done(&self) -> bool {
        // RFC 5040 section 5.5, rule 14: complete when DDP says so, which is when the stream below answers for it (RFC
        // 5041 section 5.4); rule 19: a read when its response was delivered. That shows that the request has arrived,
        // which has no payload: a stream below that waits for acknowledgements may still have it.
        let is_let_go = self.out == 0 || self.answered && self.request.operation.is_answered();
        is_let_go && (self.status != Status::Success || (self.given && self.answered))
    }

    fn completion(&self) -> Completion {
        self.request.completion(self.status)
    }
}

/// Requests in the order of posting. They are given out in this order (RFC 5040 section 5.5, rule 13) and complete in
/// it (rule 15).
#[derive(Debug)]
pub(crate) struct SendQueue {
    ring: VecDeque<Entry>,
    /// The running number of the request at the front.
    first: u64,
    /// Position in the ring of the one that is given out next.
    next: usize,
    /// Position in the ring of the first one that the peer's last acknowledgement does not cover.
    acknowledged: usize,
    depth: usize,
    /// The peer acknowledges what it does not answer.
    awaits_acknowledgements: bool,
}

impl SendQueue {
    pub(crate) fn new(depth: usize) -> Self {
        Self {
            ring: VecDeque::with_capacity(depth.min(FIRST_PLACES)),
            first: 0,
            next: 0,
            acknowledged: 0,
            depth,
            awaits_acknowledgements: false,
        }
    }

    /// The same, with a peer that acknowledges what it does not answer.
    pub(crate) fn acknowledged(self, awaits_acknowledgements: bool) -> Self {
        Self { awaits_acknowledgements, ..self }
    }

    pub(crate) fn post(&mut self, request: SendRequest) -> Result<(), PostError> {
        if self.ring.len() == self.depth {
            return Err(PostError::QueueFull { depth: self.depth });
        }
        let answered = !self.awaits_acknowledgements && !request.operation.is_answered();
        self.ring.push_back(Entry {
            request,
            formed: 0,
            write_formed: false,
            number: None,
            given: false,
            out: 0,
            answered,
            status: Status::Success,
            mark: 0,
        });
        Ok(())
    }

    /// Takes a request of one segment that is given out at once: nothing waits before it. `is_sent`: the stream below
    /// is done with it; `mark`: how many messages the peer has acknowledged when it is in place, where it acknowledges
    /// any. Returns its running number. There must be a place.
    pub(crate) fn post_given(
        &mut self,
        request: SendRequest,
        number: Option<(u32, MessageNumber)>,
        is_sent: bool,
        mark: Option<u64>,
    ) -> u64 {
        debug_assert!(self.next == self.ring.len(), "a request that passes others by");
        debug_assert!(self.ring.len() < self.depth, "more requests than there are places");
        let formed = request.operation.payload().map_or(0, Payload::length);
        self.ring.push_back(Entry {
            request,
            formed,
            write_formed: false,
            number,
            given: true,
            out: u32::from(!is_sent),
            answered: mark.is_none(),
            status: Status::Success,
            mark: mark.unwrap_or(0),
        });
        self.next = self.ring.len();
        self.first + self.next as u64 - 1
    }

    /// The request that is given out next, and its running number.
    pub(crate) fn next(&self) -> Option<(u64, &Entry)> {
        self.ring.get(self.next).map(|entry| (self.first + self.next as u64, entry))
    }

    /// Whether the request before the one that is given out next is complete when the stream below is done with it, and
    /// nobody waits for that: what comes behind it completes no sooner.
    pub(crate) fn follows_unasked(&self) -> bool {
        let before = self.next.checked_sub(1).and_then(|before| self.ring.get(before));
        let is_unasked = |entry: &Entry| !entry.request.signaled && !entry.request.operation.is_answered();
        before.is_some_and(|entry| entry.out > 0 && is_unasked(entry))
    }

    pub(crate) fn next_mut(&mut self) -> Option<(u64, &mut Entry)> {
        let sequence = self.first + self.next as u64;
        self.ring.get_mut(self.next).map(|entry| (sequence, entry))
    }

    pub(crate) fn get(&self, sequence: u64) -> Option<&Entry> {
        self.ring.get(self.position(sequence)?)
    }

    fn get_mut(&mut self, sequence: u64) -> Option<&mut Entry> {
        let position = self.position(sequence)?;
        self.ring.get_mut(position)
    }

    fn position(&self, sequence: u64) -> Option<usize> {
        usize::try_from(sequence.checked_sub(self.first)?).ok()
    }

    /// A segment of the next request was given out; `whole`: its last.
    pub(crate) fn on_given(&mut self, whole: bool) {
        if let Some(entry) = self.ring.get_mut(self.next) {
            entry.out += 1;
            entry.given = whole;
            self.next += usize::from(whole);
        }
    }

    /// Messages that wait for a receive of the peer and have no number yet: no more than are posted.
    pub(crate) fn unnumbered(&self) -> u32 {
        let waiting = self.ring.range(self.next..).filter(|entry| entry.number.is_none());
        waiting.filter(|entry| entry.request.operation.takes_receive()).count() as u32
    }

    /// Whether half of the places are taken.
    pub(crate) fn is_half_full(&self) -> bool {
        self.is_half_full_with(0)
    }

    /// The same when this number of requests more has been posted.
    pub(crate) fn is_half_full_with(&self, more: usize) -> bool {
        (self.ring.len() + more) * 2 >= self.depth
    }

    /// Once half of the places are taken, no more messages than these go out without a question which of them are in
    /// place.
    pub(crate) fn asks_every(&self) -> u64 {
        (self.depth / 4).max(1) as u64
    }

    /// The peer has this number of messages in place.
    pub(crate) fn on_acknowledged(&mut self, placed: u64) {
        while self.acknowledged < self.next
            && let Some(entry) = self.ring.get_mut(self.acknowledged)
        {
            if !entry.request.operation.is_answered() {
                if entry.mark > placed {
                    break;
                }
                entry.answered = true;
            }
            self.acknowledged += 1;
        }
    }

    /// The stream below is done with this many segments of a request.
    pub(crate) fn on_sent(&mut self, sequence: u64, segments: u32) {
        if let Some(entry) = self.get_mut(sequence) {
            debug_assert!(entry.out >= segments, "more segments sent than were given out");
            entry.out = entry.out.saturating_sub(segments);
        }
    }

    /// The peer's answer to a request was delivered. A peer begins with a request when all before it is in place (RFC
    /// 5040 section 5.5, rule 12): so the answer acknowledges that.
    pub(crate) fn on_answered(&mut self, sequence: u64, status: Status) {
        let Some(position) = self.position(sequence) else { return };
        if let Some(entry) = self.ring.get_mut(position) {
            entry.answered = true;
            entry.status = status;
        }
        if self.acknowledged < position {
            for entry in self.ring.range_mut(self.acknowledged..position) {
                entry.answered |= !entry.request.operation.is_answered();
            }
            self.acknowledged = position;
        }
    }

    /// The first request that is not complete and that `is_meant` picks ends with this status.
    pub(crate) fn fail_first(&mut self, status: Status, is_meant: impl Fn(u64, &Entry) -> bool) {
        let first = self.first;
        let meant =
            self.ring.iter_mut().zip(first..).find(|(entry, sequence)| !entry.is_done() && is_meant(*sequence, entry));
        if let Some((entry, _)) = meant {
            entry.status = status;
        }
    }

    /// Ends everything that is not complete. What the stream below may still read completes when it has let go of it.
    pub(crate) fn flush(&mut self) {
        let complete = self.ring.iter().take_while(|entry| entry.is_done() && entry.status == Status::Success).count();
        for entry in self.ring.iter_mut().skip(complete) {
            if entry.status == Status::Success {
                entry.status = Status::Flushed;
            }
        }
        self.next = self.ring.len();
    }

    /// The stream below has ended, and with it all its reading.
    pub(crate) fn let_go(&mut self) {
        for entry in &mut self.ring {
            entry.out = 0;
        }
    }

    /// Whether nothing is under way, and no completion waits to be polled.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    /// Whether everything that was posted is done, polled or not.
    pub(crate) fn is_idle(&self) -> bool {
        self.next == self.ring.len() && self.ring.iter().all(Entry::is_done)
    }

    /// The oldest request when it is complete.
    pub(crate) fn oldest_done(&self) -> Option<&SendRequest> {
        self.ring.front().filter(|entry| entry.is_done()).map(|entry| &entry.request)
    }

    /// Removes the oldest request, which is complete.
    pub(crate) fn pop(&mut self) -> Option<Completion> {
        let completion = self.ring.front()?.completion();
        self.ring.pop_front();
        self.first += 1;
        self.next = self.next.saturating_sub(1);
        self.acknowledged = self.acknowledged.saturating_sub(1);
        Some(completion)
    }

    /// Takes out the oldest request, complete or not: the stream is being dropped.
    pub(crate) fn abandon(&mut self) -> Option<SendRequest> {
        self.ring.pop_front().map(|entry| entry.request)
    }

    pub(crate) fn operation(&self, sequence: u64) -> Option<&Operation> {
        self.get(sequence).map(|entry| &entry.request.operation)
    }
}
