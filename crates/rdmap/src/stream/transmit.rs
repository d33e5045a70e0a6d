//! What is sent next, cut into segments.

use weft_base::{Gather, MessageNumber, Slice, Stag};
use weft_memory::{LocalRight, RemoteFault, RemoteRight};
use weft_wire::ddp::{Header, TAGGED_LENGTH, Target, UNTAGGED_LENGTH};
use weft_wire::rdmap::{AtomicCode, AtomicRequest, AtomicResponse, Control, Opcode, ReadRequest, queue};
use weft_wire::terminate::Terminate;

use super::Stream;
use crate::config::ReadyKind;
use crate::lifecycle::{Event, State};
use crate::request::{Operation, Payload};
use crate::requester::SINK_OFFSET;
use crate::responder::{Inbound, read_context};
use crate::segment::{MIN_ULPDU, Segment, SegmentPayload};
use crate::sent::Owner;
use crate::violation::Violation;

/// What is to be sent next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Terminate,
    Ready(ReadyKind),
    /// An answer to the peer.
    Answer,
    /// A request of this side.
    Request,
}

/// The state of sending that belongs to no single request.
#[derive(Debug)]
pub(super) struct Outgoing {
    /// The ready-to-receive message that is due.
    ready: Option<ReadyKind>,
    /// Nothing may be sent before the peer has.
    is_silent: bool,
    /// The message that has begun and is not whole: its segments are not interleaved with others.
    begun: Option<Source>,
    /// Answers and requests take turns, message by message.
    answers_next: bool,
    send_number: MessageNumber,
    request_number: MessageNumber,
    answer_number: MessageNumber,
    pen: Pen,
}

impl Outgoing {
    pub(super) fn new(ready: Option<ReadyKind>, is_silent: bool) -> Self {
        Self {
            ready,
            is_silent,
            begun: None,
            answers_next: true,
            send_number: MessageNumber::FIRST,
            request_number: MessageNumber::FIRST,
            answer_number: MessageNumber::FIRST,
            pen: Pen::default(),
        }
    }

    /// The peer has sent something.
    pub(super) fn speak(&mut self) {
        self.is_silent = false;
    }

    pub(super) fn abandon(&mut self) {
        self.ready = None;
        self.begun = None;
    }
}

/// A segment, when all that changes state is over: what [`Segment`] is made of.
struct Formed {
    payload: FormedPayload,
    length: u32,
}

enum FormedPayload {
    None,
    Gather(Gather),
    /// Bytes of the request of this running number.
    Inline {
        sequence: u64,
        start: u32,
        length: u32,
    },
}

impl Stream {
    /// The next segment to be sent, of at most `max_ulpdu` bytes (less than [`MIN_ULPDU`] is taken for that). `None` when there is none now.
    ///
    /// Its memory is pinned until [`Stream::handle_sent`] counts it. The header and inline bytes are to be copied before the next call.
    pub fn poll_transmit(&mut self, max_ulpdu: u32) -> Option<Segment<'_>> {
        let max_ulpdu = max_ulpdu.max(MIN_ULPDU);
        let formed = match self.source()? {
            Source::Terminate => self.form_terminate(),
            Source::Ready(kind) => Some(self.form_ready(kind)),
            Source::Answer => self.form_answer(max_ulpdu),
            Source::Request => self.form_request(max_ulpdu),
        }?;
        let payload = match formed.payload {
            FormedPayload::None => SegmentPayload::None,
            FormedPayload::Gather(gather) => SegmentPayload::Gather(gather),
            FormedPayload::Inline { sequence, start, length } => {
                SegmentPayload::Inline(self.inline_bytes(sequence, start, length))
            }
        };
        Some(Segment { header: self.outgoing.pen.bytes(), payload, length: formed.length })
    }

    /// Whether [`Stream::poll_transmit`] has something.
    #[must_use]
    pub fn can_transmit(&self) -> bool {
        self.source().is_some()
    }

    /// The oldest `segments` of the segments that were given out have left for good: the stream below answers for them and will not read
    /// their memory again.
    pub fn handle_sent(&mut self, segments: usize) {
        let mut left = u32::try_from(segments).unwrap_or(u32::MAX);
        while left > 0 {
            let Some(run) = self.ledger.take(left) else {
                debug_assert!(false, "{left} more segments sent than were given out");
                break;
            };
            left -= run.segments;
            self.release(run.release);
            match run.owner {
                Owner::Request(sequence) => self.sends.on_sent(sequence, run.segments),
                Owner::Stream => {}
                Owner::Terminate => self.on_terminate_sent(),
            }
        }
        self.release_abandoned();
        self.check_drained();
    }

    /// RFC 5040 section 6.2.1: the stream below should be closed gracefully, so that the Terminate arrives.
    fn on_terminate_sent(&mut self) {
        let next = self.state.on(Event::TerminateSent);
        self.close_send_due |= next != self.state;
        self.state = next;
    }

    fn source(&self) -> Option<Source> {
        if self.state == State::Terminating {
            // RFC 5040 section 5.4: one Terminate, and nothing after it.
            return self.terminate.as_ref().map(|_| Source::Terminate);
        }
        if !self.state.sends() || self.outgoing.is_silent || self.ledger.is_full() {
            return None;
        }
        let begun = self.outgoing.ready.map(Source::Ready).or(self.outgoing.begun);
        begun.or_else(|| self.choose())
    }

    fn choose(&self) -> Option<Source> {
        match (!self.responder.is_empty(), self.may_start_request()) {
            (true, true) if self.outgoing.answers_next => Some(Source::Answer),
            (true, false) => Some(Source::Answer),
            (_, true) => Some(Source::Request),
            (false, false) => None,
        }
    }

    /// Whether the next request may go now. One that may not holds up those behind it: requests are sent in the order of posting
    /// (RFC 5040 section 5.5, rule 13).
    fn may_start_request(&self) -> bool {
        let Some((_, entry)) = self.sends.next() else { return false };
        if entry.request.fence && !self.requester.is_empty() {
            return false;
        }
        !entry.request.operation.is_answered() || self.requester.has_room()
    }

    fn form_terminate(&mut self) -> Option<Formed> {
        let terminate = self.terminate.take()?;
        self.is_provisional = false;
        let mut bytes = [0; Terminate::MAX_LENGTH];
        let length = terminate.emit(&mut bytes);
        let pen = &mut self.outgoing.pen;
        pen.untagged(Opcode::Terminate, true, 0, queue::TERMINATE, MessageNumber::FIRST, 0);
        pen.append(&bytes[..length]);
        self.ledger.push(Owner::Terminate, None);
        Some(self.headers_only())
    }

    /// The message with which an initiator says that it is ready (RFC 6581 section 9.2).
    fn form_ready(&mut self, kind: ReadyKind) -> Formed {
        self.outgoing.ready = None;
        self.ledger.push(Owner::Stream, None);
        let outgoing = &mut self.outgoing;
        match kind {
            ReadyKind::Send => {
                let number = advance(&mut outgoing.send_number);
                outgoing.pen.untagged(Opcode::Send, true, 0, queue::SEND, number, 0);
            }
            ReadyKind::Write => outgoing.pen.tagged(Opcode::Write, true, Stag(0), 0),
            ReadyKind::Read => {
                let number = advance(&mut outgoing.request_number);
                let sink_stag = self.requester.start_read(None, Gather::empty());
                outgoing.pen.untagged(Opcode::ReadRequest, true, 0, queue::READ_REQUEST, number, 0);
                let request = ReadRequest {
                    sink_stag,
                    sink_offset: SINK_OFFSET,
                    length: 0,
                    source_stag: Stag(0),
                    source_offset: 0,
                };
                outgoing.pen.append(&request.emit());
            }
        }
        self.headers_only()
    }

    fn form_answer(&mut self, max_ulpdu: u32) -> Option<Formed> {
        match self.responder.front()? {
            Inbound::Atomic(response) => Some(self.form_atomic_response(response)),
            Inbound::Read { number, rest } => match self.form_read_response(rest, max_ulpdu) {
                Ok(formed) => Some(formed),
                Err(fault) => {
                    let violation = Violation::ReadSource {
                        stag: rest.source_stag,
                        offset: rest.source_offset,
                        length: rest.length,
                        fault,
                    };
                    self.raise(violation, &read_context(number, rest));
                    self.form_terminate()
                }
            },
        }
    }

    fn form_atomic_response(&mut self, response: AtomicResponse) -> Formed {
        let outgoing = &mut self.outgoing;
        let number = advance(&mut outgoing.answer_number);
        outgoing.pen.untagged(Opcode::AtomicResponse, true, 0, queue::ATOMIC_RESPONSE, number, 0);
        outgoing.pen.append(&response.emit());
        outgoing.answers_next = false;
        self.responder.on_atomic_given();
        self.ledger.push(Owner::Stream, None);
        self.headers_only()
    }

    /// A segment of a Read Response. The source is checked for each: the user may have revoked it since the request was delivered
    /// (RFC 5040 section 8.1.1, rule 6).
    fn form_read_response(&mut self, rest: ReadRequest, max_ulpdu: u32) -> Result<Formed, RemoteFault> {
        let (take, last) = cut(rest.length, max_ulpdu - TAGGED_LENGTH as u32);
        let payload = if take == 0 { Gather::empty() } else { Gather::from(self.check_source(&rest, take)?) };
        let outgoing = &mut self.outgoing;
        // RFC 5040 section 4.4: the sink's STag and offset are copied as they are.
        outgoing.pen.tagged(Opcode::ReadResponse, last, rest.sink_stag, rest.sink_offset);
        outgoing.begun = if last { None } else { Some(Source::Answer) };
        outgoing.answers_next = !last;
        let release = self.responder.on_read_given(take);
        self.ledger.push(Owner::Stream, release);
        Ok(self.with_gather(payload, take))
    }

    /// The next `take` bytes of a read's source. The whole rest is pinned with the first segment, until the last one was sent.
    fn check_source(&mut self, rest: &ReadRequest, take: u32) -> Result<Slice, RemoteFault> {
        let domain = self.config.domain;
        let check = |length| {
            self.registry.check_remote(domain, rest.source_stag, rest.source_offset, length, RemoteRight::Read)
        };
        if let Some(pinned) = self.responder.pinned() {
            let slice = check(take)?;
            // The same STag may by now be the name of another region; that one was not asked for.
            return if slice.region == pinned.region { Ok(slice) } else { Err(RemoteFault::InvalidStag) };
        }
        let whole = check(rest.length)?;
        // Between the check and the pin the region may have gone.
        let pin = self.registry.pin_gather(domain, &Gather::from(whole), LocalRight::Read);
        pin.map_err(|_| RemoteFault::InvalidStag)?;
        self.responder.on_pinned(whole);
        Ok(whole.part(0, take))
    }

    fn form_request(&mut self, max_ulpdu: u32) -> Option<Formed> {
        let (sequence, entry) = self.sends.next_mut()?;
        let outgoing = &mut self.outgoing;
        let formed = entry.formed;
        // What it is, and: how many bytes of payload go now, and whether this is the last segment of the request.
        let (payload, take, whole) = match &entry.request.operation {
            Operation::Send { payload, solicited, invalidate } => {
                let (take, last) = cut(payload.length() - formed, max_ulpdu - UNTAGGED_LENGTH as u32);
                let (_, number) =
                    *entry.number.get_or_insert_with(|| (queue::SEND, advance(&mut outgoing.send_number)));
                let word = invalidate.map_or(0, |stag| stag.0);
                outgoing.pen.untagged(
                    send_opcode(*solicited, invalidate.is_some()),
                    last,
                    word,
                    queue::SEND,
                    number,
                    formed,
                );
                (Some(payload), take, last)
            }
            Operation::Write { payload, target } => {
                let (take, last) = cut(payload.length() - formed, max_ulpdu - TAGGED_LENGTH as u32);
                outgoing.pen.tagged(Opcode::Write, last, target.stag, target.offset + u64::from(formed));
                (Some(payload), take, last)
            }
            Operation::WriteImmediate { payload, target, .. } if !entry.write_formed => {
                let (take, last) = cut(payload.length() - formed, max_ulpdu - TAGGED_LENGTH as u32);
                outgoing.pen.tagged(Opcode::Write, last, target.stag, target.offset + u64::from(formed));
                entry.write_formed = last;
                (Some(payload), take, false)
            }
            Operation::WriteImmediate { immediate, solicited, .. } | Operation::Immediate { immediate, solicited } => {
                let number = advance(&mut outgoing.send_number);
                entry.number = Some((queue::SEND, number));
                let opcode = if *solicited { Opcode::ImmediateSolicited } else { Opcode::Immediate };
                outgoing.pen.untagged(opcode, true, 0, queue::SEND, number, 0);
                outgoing.pen.append(&immediate.to_be_bytes());
                (None, 0, true)
            }
            Operation::Read { sink, source } => {
                let number = advance(&mut outgoing.request_number);
                entry.number = Some((queue::READ_REQUEST, number));
                let request = ReadRequest {
                    sink_stag: self.requester.start_read(Some(sequence), *sink),
                    sink_offset: SINK_OFFSET,
                    length: sink.length(),
                    source_stag: source.stag,
                    source_offset: source.offset,
                };
                outgoing.pen.untagged(Opcode::ReadRequest, true, 0, queue::READ_REQUEST, number, 0);
                outgoing.pen.append(&request.emit());
                (None, 0, true)
            }
            operation @ Operation::Atomic { .. } => {
                let number = advance(&mut outgoing.request_number);
                entry.number = Some((queue::READ_REQUEST, number));
                let request = atomic_request(operation, self.requester.start_atomic(sequence))?;
                outgoing.pen.untagged(Opcode::AtomicRequest, true, 0, queue::READ_REQUEST, number, 0);
                outgoing.pen.append(&request.emit());
                (None, 0, true)
            }
        };
        let payload = payload.map_or(FormedPayload::None, |payload| piece(payload, sequence, formed, take));
        entry.formed += take;
        outgoing.begun = if whole { None } else { Some(Source::Request) };
        outgoing.answers_next = whole;
        let length = outgoing.pen.length() + take;
        self.sends.on_given(whole);
        self.ledger.push(Owner::Request(sequence), None);
        Some(Formed { payload, length })
    }

    fn headers_only(&self) -> Formed {
        Formed { payload: FormedPayload::None, length: self.outgoing.pen.length() }
    }

    fn with_gather(&self, gather: Gather, bytes: u32) -> Formed {
        let payload = if bytes == 0 { FormedPayload::None } else { FormedPayload::Gather(gather) };
        Formed { payload, length: self.outgoing.pen.length() + bytes }
    }

    fn inline_bytes(&self, sequence: u64, start: u32, length: u32) -> &[u8] {
        match self.sends.operation(sequence) {
            Some(
                Operation::Send { payload: Payload::Inline(bytes), .. }
                | Operation::Write { payload: Payload::Inline(bytes), .. }
                | Operation::WriteImmediate { payload: Payload::Inline(bytes), .. },
            ) => &bytes[start as usize..(start + length) as usize],
            _ => &[],
        }
    }
}

/// How many of the bytes that are left go into a segment with so much room, and whether those are all (RFC 5041 section 5.2: a message of
/// length zero is one segment).
fn cut(left: u32, room: u32) -> (u32, bool) {
    (left.min(room), left <= room)
}

fn piece(payload: &Payload, sequence: u64, start: u32, length: u32) -> FormedPayload {
    match payload {
        _ if length == 0 => FormedPayload::None,
        Payload::Gather(gather) => FormedPayload::Gather(gather.part(start, length)),
        Payload::Inline(_) => FormedPayload::Inline { sequence, start, length },
    }
}

/// Takes the next message number of a queue.
fn advance(number: &mut MessageNumber) -> MessageNumber {
    let taken = *number;
    *number = taken.next();
    taken
}

fn send_opcode(solicited: bool, invalidates: bool) -> Opcode {
    match (solicited, invalidates) {
        (false, false) => Opcode::Send,
        (false, true) => Opcode::SendInvalidate,
        (true, false) => Opcode::SendSolicited,
        (true, true) => Opcode::SendSolicitedInvalidate,
    }
}

/// What an operation does not use is sent as RFC 7306 section 5.2.1 says.
fn atomic_request(operation: &Operation, identifier: u32) -> Option<AtomicRequest> {
    let Operation::Atomic { code, data, mask, compare, compare_mask, target, .. } = *operation else { return None };
    let request =
        AtomicRequest { code, identifier, stag: target.stag, offset: target.offset, data, mask, compare, compare_mask };
    Some(match code {
        AtomicCode::FetchAdd => AtomicRequest { compare: 0, compare_mask: u64::MAX, ..request },
        AtomicCode::Swap => AtomicRequest { mask: u64::MAX, compare: 0, compare_mask: u64::MAX, ..request },
        AtomicCode::CompareSwap => request,
    })
}

/// Writes headers, and what RDMAP puts behind them.
#[derive(Debug)]
struct Pen {
    bytes: [u8; Self::ROOM],
    length: usize,
}

impl Default for Pen {
    fn default() -> Self {
        Self { bytes: [0; Self::ROOM], length: 0 }
    }
}

impl Pen {
    const ROOM: usize = UNTAGGED_LENGTH + max(max(AtomicRequest::LENGTH, ReadRequest::LENGTH), Terminate::MAX_LENGTH);

    fn tagged(&mut self, opcode: Opcode, last: bool, stag: Stag, offset: u64) {
        let control = Control { opcode }.emit();
        self.length = Header { last, control, target: Target::Tagged { stag, offset } }.emit(&mut self.bytes);
    }

    fn untagged(&mut self, opcode: Opcode, last: bool, word: u32, queue: u32, number: MessageNumber, offset: u32) {
        let control = Control { opcode }.emit();
        let target = Target::Untagged { word, queue, number, offset };
        self.length = Header { last, control, target }.emit(&mut self.bytes);
    }

    fn append(&mut self, bytes: &[u8]) {
        self.bytes[self.length..self.length + bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    fn length(&self) -> u32 {
        self.length as u32
    }
}

const fn max(a: usize, b: usize) -> usize {
    if a > b { a } else { b }
}
