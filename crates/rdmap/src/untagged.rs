//! The receive requests that messages on queue 0 use up, one each.

use std::collections::VecDeque;

use weft_base::{Gather, MessageNumber};
use weft_wire::rdmap::{Opcode, queue};

use crate::FIRST_PLACES;
use crate::completion::{Completion, CompletionKind, Status};
use crate::request::{ReceiveRequest, ReceiveSource};
use crate::segment::Part;
use crate::violation::Violation;

/// A receive request that was taken for a message.
#[derive(Debug)]
struct Assigned {
    id: u64,
    sink: Gather,
    length: u32,
    status: Status,
}

/// How messages are matched with receive requests: the message of number n gets the n-th request that is taken.
#[derive(Debug)]
pub(crate) struct Receives {
    /// Completed ones first, then the one of the message that is being delivered, then those that were taken early.
    assigned: VecDeque<Assigned>,
    /// Completions that wait to be polled, for the first requests in `assigned`.
    completed: VecDeque<Completion>,
    depth: usize,
    /// The message that is being delivered.
    number: MessageNumber,
    /// Bytes of it that were delivered.
    filled: u32,
    /// Opcode and Invalidate STag of its first segment.
    first: Option<(Opcode, u32)>,
    /// The first message that was put off because there was no request for it, and has not been let go on since.
    put_off: Option<MessageNumber>,
    /// Requests are those that were promised.
    are_promised: bool,
    /// Requests that were taken so far.
    taken: u32,
}

/// Why there is no place.
pub(crate) enum Missing {
    Violation(Violation),
    /// Something else comes first.
    Early,
    /// Completions must be polled first.
    Unpolled,
}

impl Receives {
    pub(crate) fn new(depth: usize) -> Self {
        let depth = depth.max(1);
        Self {
            assigned: VecDeque::with_capacity(depth.min(FIRST_PLACES)),
            completed: VecDeque::with_capacity(depth.min(FIRST_PLACES)),
            depth,
            number: MessageNumber::FIRST,
            filled: 0,
            first: None,
            put_off: None,
            are_promised: false,
            taken: 0,
        }
    }

    /// The same, whose requests are those that were promised ([`ReceiveSource::take_promised`]).
    pub(crate) fn promised(self, are_promised: bool) -> Self {
        Self { are_promised, ..self }
    }

    /// The number of the message that is being delivered, or comes next.
    pub(crate) fn number(&self) -> MessageNumber {
        self.number
    }

    /// How many requests were taken so far, wrapping after 2^32.
    pub(crate) fn taken(&self) -> u32 {
        self.taken
    }

    /// Whether the message of this number may go without a receive request: it is the next one, nothing of it has come,
    /// and no request waits to be filled or reported before it. A request stays assigned until its completion is
    /// polled.
    pub(crate) fn can_skip(&self, number: MessageNumber) -> bool {
        number == self.number && self.assigned.is_empty()
    }

    /// A message without a receive request: the ready-to-receive Send, or one that its taker has no request for.
    pub(crate) fn skip_message(&mut self) {
        self.number = self.number.next();
    }

    /// The request of a message that [`Receives::can_skip`], if there is one that is long enough. Without
    /// [`Receives::skip_message`] it is to be given back.
    pub(crate) fn take_for(&mut self, length: u32, source: &mut dyn ReceiveSource) -> Option<ReceiveRequest> {
        let request = self.take(source)?;
        if length <= request.sink.length() {
            return Some(request);
        }
        self.give_back(request);
        None
    }

    fn take(&mut self, source: &mut dyn ReceiveSource) -> Option<ReceiveRequest> {
        let taken = if self.are_promised { source.take_promised() } else { source.take() };
        self.taken = self.taken.wrapping_add(u32::from(taken.is_some()));
        taken
    }

    /// The request of a message that [`Receives::can_skip`] was filled where it waited.
    pub(crate) fn count_filled(&mut self) {
        self.taken = self.taken.wrapping_add(1);
    }

    /// A request that was taken for the next message is that message's still.
    pub(crate) fn give_back(&mut self, ReceiveRequest { id, sink }: ReceiveRequest) {
        self.assigned.push_front(Assigned { id, sink, length: sink.length(), status: Status::Success });
    }

    /// Where the segment goes whose turn it is.
    pub(crate) fn locate_next(&mut self, part: &Part, source: &mut dyn ReceiveSource) -> Result<Gather, Missing> {
        self.check_next(part).map_err(Missing::Violation)?;
        self.locate_any(part, source)
    }

    /// Where a segment goes that may be of any message to come.
    pub(crate) fn locate_any(&mut self, part: &Part, source: &mut dyn ReceiveSource) -> Result<Gather, Missing> {
        let index = self.index(part.number)?;
        self.assign(index, part.number, source)?;
        let buffer = &self.assigned[index];
        let end = u64::from(part.offset) + u64::from(part.length);
        if end > u64::from(buffer.length) {
            let buffer = buffer.length;
            return Err(Missing::Violation(Violation::TooLong { queue: queue::SEND, end, buffer }));
        }
        Ok(buffer.sink.part(part.offset, part.length))
    }

    fn index(&self, number: MessageNumber) -> Result<usize, Missing> {
        let ahead = usize::try_from(number.distance_from(self.number)).unwrap_or(usize::MAX);
        if ahead >= self.depth {
            let expected = self.number;
            return Err(Missing::Violation(Violation::Number { queue: queue::SEND, number, expected }));
        }
        let index = self.completed.len() + ahead;
        if index >= self.depth { Err(Missing::Unpolled) } else { Ok(index) }
    }

    /// Takes requests until there is one for the message at `index`.
    fn assign(&mut self, index: usize, number: MessageNumber, source: &mut dyn ReceiveSource) -> Result<(), Missing> {
        while self.assigned.len() <= index {
            let Some(ReceiveRequest { id, sink }) = self.take(source) else {
                self.put_off(number);
                // RFC 5041 section 7.1, check 2.
                return Err(Missing::Violation(Violation::NoBuffer { queue: queue::SEND, number }));
            };
            self.assigned.push_back(Assigned { id, sink, length: sink.length(), status: Status::Success });
        }
        Ok(())
    }

    /// A message must wait for a request.
    fn put_off(&mut self, number: MessageNumber) {
        if self.put_off.is_none_or(|first| number.distance_from(first) < 0) {
            self.put_off = Some(number);
        }
    }

    /// Whether messages that were put off may come again, if `posted` requests are there: the first of them has one of
    /// its own, perhaps taken early for a message behind it. Then none counts as put off any more.
    pub(crate) fn go_on(&mut self, posted: usize) -> bool {
        let may_go_on = self.missing() <= posted;
        if may_go_on {
            self.put_off = None;
        }
        may_go_on
    }

    /// How many requests must be posted before the first message that was put off has one of its own: the messages
    /// before it take theirs first.
    fn missing(&self) -> usize {
        let ahead = self.put_off.map(|number| usize::try_from(number.distance_from(self.number)));
        let Some(Ok(ahead)) = ahead else { return 0 };
        (self.completed.len() + ahead + 1).saturating_sub(self.assigned.len())
    }

    /// Whether a segment continues the message that is being delivered. DDP delivers messages in the order of sending
    /// (RFC 5041 section 5.3), and a source sends the segments of a message in the order of their offsets.
    fn check_next(&self, part: &Part) -> Result<(), Violation> {
        if part.number != self.number {
            return Err(Violation::Number { queue: queue::SEND, number: part.number, expected: self.number });
        }
        if part.offset != self.filled {
            return Err(Violation::Offset { queue: queue::SEND, offset: part.offset, expected: self.filled });
        }
        match self.first {
            Some((first, word)) if (first, word) != (part.opcode, part.word) => {
                Err(Violation::Inconsistent { first, now: part.opcode })
            }
            _ => Ok(()),
        }
    }

    /// The segment whose turn it was is in place. True when the message is whole.
    pub(crate) fn on_placed(&mut self, part: &Part) -> Result<bool, Violation> {
        self.check_next(part)?;
        self.first.get_or_insert((part.opcode, part.word));
        self.filled += part.length;
        Ok(part.last)
    }

    /// Whether a message has begun and not ended.
    pub(crate) fn is_within(&self) -> bool {
        self.first.is_some()
    }

    /// Bytes of the message that is being delivered.
    pub(crate) fn filled(&self) -> u32 {
        self.filled
    }

    /// The message is whole: its receive request completes (RFC 5040 section 5.5, rules 10 and 16).
    pub(crate) fn complete(&mut self, completion: impl FnOnce(u64) -> Completion) {
        if let Some(assigned) = self.assigned.get(self.completed.len()) {
            self.completed.push_back(completion(assigned.id));
        }
        self.number = self.number.next();
        self.filled = 0;
        self.first = None;
    }

    /// The request of the message that is being delivered will complete with this status.
    pub(crate) fn fail_current(&mut self, status: Status) {
        if let Some(assigned) = self.assigned.get_mut(self.completed.len()) {
            assigned.status = status;
        }
    }

    /// Completes every request that is held, with an error.
    pub(crate) fn flush(&mut self) {
        while let Some(assigned) = self.assigned.get(self.completed.len()) {
            let status = if assigned.status == Status::Success { Status::Flushed } else { assigned.status };
            self.completed.push_back(failed(assigned.id, status));
        }
    }

    /// The memory of the oldest request that is complete.
    pub(crate) fn oldest_done(&self) -> Option<&Gather> {
        if self.completed.is_empty() { None } else { self.assigned.front().map(|assigned| &assigned.sink) }
    }

    /// Removes the oldest request that is complete.
    pub(crate) fn pop(&mut self) -> Option<Completion> {
        let completion = self.completed.pop_front()?;
        self.assigned.pop_front();
        Some(completion)
    }

    /// Takes a request only to complete it with an error. False when there is none, or no room.
    pub(crate) fn flush_from(&mut self, source: &mut dyn ReceiveSource) -> bool {
        if self.assigned.len() == self.depth {
            return false;
        }
        let Some(ReceiveRequest { id, sink }) = source.take() else { return false };
        self.assigned.push_back(Assigned { id, sink, length: 0, status: Status::Flushed });
        self.flush();
        true
    }
}

fn failed(id: u64, status: Status) -> Completion {
    Completion {
        id,
        kind: CompletionKind::Receive,
        status,
        length: 0,
        immediate: None,
        invalidated: None,
        solicited: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::ReceiveQueue;

    fn source(requests: u64) -> ReceiveQueue {
        let mut source = ReceiveQueue::new(8);
        (0..requests).for_each(|id| source.post(ReceiveRequest { id, sink: Gather::empty() }).unwrap());
        source
    }

    fn part(number: u32) -> Part {
        Part { number: MessageNumber(number), opcode: Opcode::Send, word: 0, offset: 0, length: 0, last: true }
    }

    fn complete(receives: &mut Receives, number: u32) -> u64 {
        assert!(receives.on_placed(&part(number)).unwrap());
        receives.complete(|id| failed(id, Status::Success));
        receives.pop().unwrap().id
    }

    #[test]
    fn message_numbers_wrap() {
        let mut source = source(4);
        let mut receives = Receives { number: MessageNumber(u32::MAX), ..Receives::new(4) };
        assert!(receives.locate_any(&part(1), &mut source).is_ok(), "two messages ahead");
        for (number, id) in [(u32::MAX, 0), (0, 1), (1, 2)] {
            assert!(receives.locate_next(&part(number), &mut source).is_ok());
            assert_eq!(complete(&mut receives, number), id);
        }
        assert_eq!(source.len(), 1);
    }

    #[test]
    fn a_message_that_was_put_off_waits_for_as_many_requests_as_the_messages_before_it_need() {
        let mut source = source(1);
        let mut receives = Receives::new(8);
        assert_eq!(receives.missing(), 0, "nothing waits");
        // The third message comes first, and takes the request that the first will need.
        assert!(receives.locate_any(&part(3), &mut source).is_err());
        assert!(receives.locate_any(&part(5), &mut source).is_err());
        assert_eq!(receives.missing(), 2, "the first one that waits counts");
        assert!(receives.locate_any(&part(2), &mut source).is_err());
        assert_eq!(receives.missing(), 1);
        // The request for message 2 is taken by a later one: the queue is empty, but nothing is missing.
        source.post(ReceiveRequest { id: 1, sink: Gather::empty() }).unwrap();
        assert!(receives.locate_any(&part(3), &mut source).is_err());
        assert_eq!((source.len(), receives.missing()), (0, 0));
        assert!(receives.go_on(0), "message 2 may come, and finds its request");
        assert!(receives.locate_any(&part(4), &mut source).is_err());
        assert!(!receives.go_on(1), "messages 3 and 4 need two");
        for number in 1..=2 {
            assert!(receives.locate_next(&part(number), &mut source).is_ok());
            complete(&mut receives, number);
        }
        assert_eq!(receives.missing(), 2);
        (2..4).for_each(|id| source.post(ReceiveRequest { id, sink: Gather::empty() }).unwrap());
        assert!(receives.go_on(2));
        assert_eq!(receives.missing(), 0, "none is put off any more");
    }

    #[test]
    fn no_more_requests_are_taken_than_the_depth() {
        let mut source = source(8);
        let mut receives = Receives::new(4);
        assert!(matches!(
            receives.locate_any(&part(5), &mut source),
            Err(Missing::Violation(Violation::Number { .. }))
        ));
        assert_eq!(source.len(), 8);
        assert!(receives.locate_any(&part(4), &mut source).is_ok());
        assert_eq!(source.len(), 4);
    }
}
