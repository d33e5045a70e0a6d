//! What is sent next, cut into segments.

use weft_base::{Gather, MessageNumber, Slice, Stag};
use weft_memory::{LocalRight, RemoteFault, RemoteRight};
use weft_wire::ddp::TAGGED_LENGTH;
use weft_wire::rdmap::{AtomicResponse, Opcode, ReadRequest, queue};
use weft_wire::terminate::Terminate;

use super::Stream;
use super::outgoing::{Piece, Room, Source, advance};
use crate::config::ReadyKind;
use crate::request::{Operation, Payload, RemoteTarget, RequestFlags};
use crate::responder::{Inbound, read_context};
use crate::segment::{MIN_ULPDU, Segment, SegmentOf, SegmentPayload};
use crate::sent::Owner;
use crate::state::{Event, State};
use crate::violation::Violation;

/// A segment, when all that changes state is over: what [`Segment`] is made of.
struct Formed {
    payload: FormedPayload,
    length: u32,
    is_awaited: bool,
    request: SegmentOf,
}

enum FormedPayload {
    None,
    Gather(Gather),
    Exposed(Gather),
    /// Bytes of the request of this running number.
    Inline {
        sequence: u64,
        start: u32,
        length: u32,
    },
}

impl Stream {
    /// The next segment to be sent, of at most `max_ulpdu` bytes (less than [`MIN_ULPDU`] is taken for that). `None`
    /// when there is none now.
    ///
    /// Its memory is pinned until [`Stream::handle_sent`] counts it. The header and inline bytes are to be copied
    /// before the next call.
    pub fn poll_transmit(&mut self, max_ulpdu: u32) -> Option<Segment<'_>> {
        self.poll_transmit_run(max_ulpdu, 1, 1)
    }

    /// As [`Stream::poll_transmit`], for a stream below that cuts the segment itself: into up to `most` segments with
    /// ULPDUs of `max_ulpdu` bytes, each with the header of this one, but for its offset and Last. In the middle
    /// of a long message there are at most `mid_message` segments.
    pub fn poll_transmit_run(&mut self, max_ulpdu: u32, most: u32, mid_message: u32) -> Option<Segment<'_>> {
        let room = Room { max_ulpdu: max_ulpdu.max(MIN_ULPDU), most: most.max(1), mid_message: mid_message.max(1) };
        let formed = match self.source()? {
            Source::Terminate => self.form_terminate(),
            Source::Ready(kind) => Some(self.form_ready(kind)),
            Source::Receipt => Some(self.form_receipt()),
            Source::Answer => self.form_answer(room),
            Source::Request => self.form_request(room),
        }?;
        let payload = match formed.payload {
            FormedPayload::None => SegmentPayload::None,
            FormedPayload::Gather(gather) => SegmentPayload::Gather(gather),
            FormedPayload::Exposed(gather) => SegmentPayload::Exposed(gather),
            FormedPayload::Inline { sequence, start, length } => {
                SegmentPayload::Inline(self.inline_bytes(sequence, start, length))
            }
        };
        let Formed { length, is_awaited, request, .. } = formed;
        // When it is full nothing more is given out, not even an answer.
        let is_awaited = is_awaited || self.in_flight.is_half_full();
        Some(Segment { header: self.outgoing.writer.bytes(), payload, length, is_awaited, request })
    }

    /// Whether something that the peer has requested is to be sent.
    #[must_use]
    pub fn has_answers(&self) -> bool {
        !self.responder.is_empty()
    }

    /// Bytes that are missing of the Read Response whose first segment has come. Messages are sent in order (RFC 5041
    /// section 5.3), so nothing else is to be expected before them. 0 when there is no such response.
    #[must_use]
    pub fn missing_of_answer(&self) -> u32 {
        self.requester.missing()
    }

    /// Whether [`Stream::poll_transmit`] has something.
    #[must_use]
    pub fn can_transmit(&self) -> bool {
        self.source().is_some()
    }

    /// Segments that were given out since the stream was established. It only grows: as long as it does, the stream
    /// below takes what is sent.
    #[must_use]
    pub const fn segments_given(&self) -> u64 {
        self.in_flight.given()
    }

    /// Whether the request that is sent next has flags.
    #[must_use]
    #[inline]
    pub fn has_flags(&self) -> bool {
        self.sends.next().is_some_and(|(_, entry)| entry.request.flags != RequestFlags::NONE)
    }

    /// Whether the payload of the request that is sent next is a list of slices ([`weft_base::RegionId::LIST`]).
    #[must_use]
    #[inline]
    pub fn next_is_listed(&self) -> bool {
        let payload = self.sends.next().and_then(|(_, entry)| entry.request.operation.payload());
        matches!(payload, Some(Payload::Gather(gather)) if gather.is_listed())
    }

    /// The oldest `segments` of the segments that were given out have left for good: the stream below answers for them
    /// and will not read their memory again.
    pub fn handle_sent(&mut self, segments: usize) {
        let mut left = u32::try_from(segments).unwrap_or(u32::MAX);
        while left > 0 {
            let Some(run) = self.in_flight.take(left) else {
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
            let first = if self.precedes_terminate() { Source::Receipt } else { Source::Terminate };
            return self.terminate.as_ref().map(|_| first);
        }
        if !self.state.sends() || self.outgoing.is_silent || self.in_flight.is_full() {
            return None;
        }
        let other = self.other_source();
        let is_receipt = self.outgoing.ready.is_none() && self.is_receipt_next(other.is_some());
        if is_receipt { Some(Source::Receipt) } else { other }
    }

    /// What goes next that is no receipt.
    fn other_source(&self) -> Option<Source> {
        if self.holds_requests {
            return self.choose_answer();
        }
        let begun = self.outgoing.ready.map(Source::Ready).or(self.outgoing.begun);
        begun.or_else(|| self.choose())
    }

    fn choose(&self) -> Option<Source> {
        match (!self.responder.is_empty(), self.may_start_request()) {
            (true, true) if self.outgoing.answers_next && !self.asks_next() => Some(Source::Answer),
            (true, false) => Some(Source::Answer),
            (_, true) => Some(Source::Request),
            (false, false) => None,
        }
    }

    /// Whether the next request may go now. One that may not holds up those behind it: requests are sent in the order
    /// of posting (RFC 5040 section 5.5, rule 13).
    fn may_start_request(&self) -> bool {
        let Some((_, entry)) = self.sends.next() else { return false };
        if entry.request.fence && !self.requester.is_empty() || self.lacks_credit() {
            return false;
        }
        !entry.request.operation.is_answered() || self.requester.has_room()
    }

    /// Whether the next request needs an answer. It is short, and the peer could be answering already; and there are
    /// never more of them than the peer answers at a time, so they need not take turns with our own answers.
    fn asks_next(&self) -> bool {
        self.sends.next().is_some_and(|(_, entry)| entry.request.operation.is_answered())
    }

    fn form_terminate(&mut self) -> Option<Formed> {
        let terminate = self.terminate.take()?;
        self.is_provisional = false;
        let mut bytes = [0; Terminate::MAX_LENGTH];
        let length = terminate.emit(&mut bytes);
        let writer = &mut self.outgoing.writer;
        writer.untagged(Opcode::Terminate, true, 0, queue::TERMINATE, MessageNumber::FIRST, 0);
        writer.append(&bytes[..length]);
        self.in_flight.push(Owner::Terminate, None);
        Some(self.headers_only())
    }

    /// The message with which an initiator says that it is ready (RFC 6581 section 9.2).
    fn form_ready(&mut self, kind: ReadyKind) -> Formed {
        self.outgoing.ready = None;
        self.count_ready(kind);
        self.in_flight.push(Owner::Stream, None);
        let outgoing = &mut self.outgoing;
        match kind {
            ReadyKind::Send => {
                let number = advance(&mut outgoing.send_number);
                outgoing.writer.untagged(Opcode::Send, true, 0, queue::SEND, number, 0);
            }
            ReadyKind::Write => outgoing.writer.tagged(Opcode::Write, true, Stag(0), 0),
            ReadyKind::Read => {
                let number = advance(&mut outgoing.request_number);
                let sink_stag = self.requester.start_read(None, Gather::empty());
                outgoing.write_read(number, sink_stag, 0, RemoteTarget { stag: Stag(0), offset: 0 });
            }
        }
        self.headers_only()
    }

    fn form_receipt(&mut self) -> Formed {
        self.write_receipt();
        self.headers_only()
    }

    fn form_answer(&mut self, room: Room) -> Option<Formed> {
        match self.responder.front()? {
            Inbound::Atomic(response) => Some(self.form_atomic_response(response)),
            Inbound::Read { number, rest } => match self.form_read_response(rest, room) {
                Ok(formed) => Some(formed),
                Err(fault) => {
                    let violation = Violation::ReadSource {
                        stag: rest.source_stag,
                        offset: rest.source_offset,
                        length: rest.length,
                        fault,
                    };
                    // RFC 5040 section 4.8: with offsets and length of what is left.
                    self.raise(violation, &read_context(number), Some(rest));
                    self.form_terminate()
                }
            },
        }
    }

    fn form_atomic_response(&mut self, response: AtomicResponse) -> Formed {
        let outgoing = &mut self.outgoing;
        let number = advance(&mut outgoing.answer_number);
        outgoing.writer.untagged(Opcode::AtomicResponse, true, 0, queue::ATOMIC_RESPONSE, number, 0);
        outgoing.writer.append(&response.emit());
        outgoing.on_written(Source::Answer, true);
        self.responder.on_atomic_given();
        self.in_flight.push(Owner::Stream, None);
        self.headers_only()
    }

    /// A segment of a Read Response. The source is checked for each: the user may have revoked it since the request was
    /// delivered (RFC 5040 section 8.1.1, rule 6).
    fn form_read_response(&mut self, rest: ReadRequest, room: Room) -> Result<Formed, RemoteFault> {
        let (take, last) = room.cut(rest.length, TAGGED_LENGTH);
        let payload = match take {
            0 => FormedPayload::None,
            _ => {
                let gather = Gather::from(self.check_source(&rest, take)?);
                if self.responder.is_steady() { FormedPayload::Gather(gather) } else { FormedPayload::Exposed(gather) }
            }
        };
        let outgoing = &mut self.outgoing;
        // RFC 5040 section 4.4: the sink's STag and offset are copied as they are.
        outgoing.writer.tagged(Opcode::ReadResponse, last, rest.sink_stag, rest.sink_offset);
        outgoing.on_written(Source::Answer, last);
        let release = self.responder.on_read_given(take);
        self.in_flight.push(Owner::Stream, release);
        let (length, request) = (self.outgoing.writer.length() + take, SegmentOf::default());
        Ok(Formed { payload, length, is_awaited: false, request })
    }

    /// The next `take` bytes of a read's source. The whole rest is pinned with the first segment, until the last one
    /// was sent.
    fn check_source(&mut self, rest: &ReadRequest, take: u32) -> Result<Slice, RemoteFault> {
        let domain = self.config.domain;
        let check = |length| {
            let located = self.locate_remote(rest.source_stag, rest.source_offset, length, RemoteRight::Read);
            located.map(|(slice, _)| slice)
        };
        if let Some(pinned) = self.responder.pinned() {
            let slice = check(take)?;
            // The same STag may by now be the name of another region; that one was not requested.
            return if slice.region == pinned.region { Ok(slice) } else { Err(RemoteFault::InvalidStag) };
        }
        let whole = check(rest.length)?;
        // Between the check and the pin the region may have gone.
        let pin = self.registry.pin_all(domain, &[whole], LocalRight::Read);
        pin.map_err(|_| RemoteFault::InvalidStag)?;
        self.responder.on_pinned(whole, self.registry.is_steady(&whole));
        Ok(whole.part(0, take))
    }

    fn form_request(&mut self, room: Room) -> Option<Formed> {
        let follows_unasked = self.sends.follows_unasked();
        let (sequence, entry) = self.sends.next_mut()?;
        let start = entry.formed;
        let was_written = entry.write_formed;
        let is_first = start == 0 && !was_written;
        let Piece { take, whole } = self.outgoing.write(sequence, entry, &mut self.requester, room);
        entry.formed += take;
        let payload = match entry.request.operation.payload() {
            Some(Payload::Gather(gather)) if take > 0 => FormedPayload::Gather(gather.part(start, take)),
            Some(Payload::Inline(_)) if take > 0 => FormedPayload::Inline { sequence, start, length: take },
            _ => FormedPayload::None,
        };
        let is_answered = entry.request.operation.is_answered();
        // An answer says that the request has arrived, but nothing of what went before it.
        let is_awaited = whole && if is_answered { follows_unasked } else { entry.request.signaled };
        let is_write = match entry.request.operation {
            Operation::Write { .. } => true,
            // What has no payload of its own ends it: the immediate data.
            Operation::WriteImmediate { .. } => !whole,
            _ => false,
        };
        let request = SegmentOf { flags: entry.request.flags, is_first, is_last: whole, is_write };
        self.count_given(whole, was_written);
        self.outgoing.on_written(Source::Request, whole);
        self.sends.on_given(whole);
        self.in_flight.push(Owner::Request(sequence), None);
        let is_awaited = is_awaited && !(whole && self.is_awaited_with_next());
        Some(Formed { payload, length: self.outgoing.writer.length() + take, is_awaited, request })
    }

    /// Whether the next request may be sent now and requests an acknowledgement itself, which covers this one too. A
    /// stream of signaled requests is then acknowledged as often as its bytes need it, not once for each request.
    fn is_awaited_with_next(&self) -> bool {
        let next = self.sends.next().map(|(_, entry)| &entry.request);
        next.is_some_and(|next| next.signaled && !next.operation.is_answered()) && self.may_start_request()
    }

    fn headers_only(&self) -> Formed {
        let (length, request) = (self.outgoing.writer.length(), SegmentOf::default());
        Formed { payload: FormedPayload::None, length, is_awaited: false, request }
    }

    fn inline_bytes(&self, sequence: u64, start: u32, length: u32) -> &[u8] {
        match self.sends.operation(sequence).and_then(Operation::payload) {
            Some(Payload::Inline(bytes)) => &bytes[start as usize..(start + length) as usize],
            Some(Payload::Gather(_)) | None => &[],
        }
    }
}
