//! The way in: bytes become FPDUs, FPDUs become segments, segments find their place.
//!
//! A frame is staged and then copied to its place, or, when it is large and has no markers, its header is staged and
//! the rest is read straight into place ([`Direct`]). Either way the stream checks rights and bounds before a byte is
//! written, and nothing counts before the CRC was good (`docs/architecture.md`, the rule of early placement).

use core::ops::Range;

use weft_base::{
    Digest, Gather, Lending, NoDigest, PortError, ReceivePiece, Received, Segmented, StreamPosition, Time,
};
use weft_memory::{MemoryError, Registry};
use weft_mpa::{Deframer, Frame, FrameError, FrameHead, Peek, check_tail};
use weft_rdmap::{Arrival, HEAD_LENGTH, OrderConstraint, Placement, Verdict};
use weft_wire::Crc32c;
use weft_wire::lent::{self, LentSegment};
use weft_wire::terminate::TerminateCode;

use super::bytes::Bytes;
use super::held::HeldGather;
use super::staging::{ALIGNMENT, BUFFER_BYTES, Pool, Staging};
use crate::counters::Counters;
use crate::lower::{Got, Io, ReceiveError, StreamSink};
use crate::settings::{Settings, Verify};

/// What is read behind a large frame: enough for the head of the next, too little to be worth a copy.
const LOOK_AHEAD: usize = 128;
/// After a large frame, this many smaller ones are read one by one, because another large one may follow: long messages
/// end with a small frame.
const EXPECT_LARGE_FRAMES: u8 = 2;
const _: () = assert!(LOOK_AHEAD >= HEAD_LENGTH + 8, "an FPDU's length, a marker and a whole head");
/// What is read at a time where a read costs no system call: more than one short frame, and few enough bytes to stay in
/// the first-level cache.
const SHORT_BYTES: usize = 1024;
/// Pieces of a scatter list: the slices of a gather list, then staging.
const SCATTER: usize = weft_base::MAX_GATHER + 1;

impl From<FrameError> for ReceiveError {
    fn from(error: FrameError) -> Self {
        Self::Broken(error.terminate_code())
    }
}

impl From<PortError> for ReceiveError {
    fn from(error: PortError) -> Self {
        if error.is_of_memory() { Self::Memory } else { Self::Port(error) }
    }
}

impl From<MemoryError> for ReceiveError {
    fn from(_: MemoryError) -> Self {
        Self::Memory
    }
}

/// Finds frames in the stream of bytes, and knows how much to read.
pub(super) struct FrameReader {
    pub(super) deframer: Deframer,
    /// A large frame came not this many frames ago: read only as much as holds the next header, so that the rest can go
    /// straight into place.
    expect_large: u8,
}

impl FrameReader {
    pub(super) fn new(deframer: Deframer) -> Self {
        Self { deframer, expect_large: 0 }
    }

    /// A frame is large if it is read without those behind it.
    pub(super) fn note(&mut self, is_large: bool) {
        self.expect_large = if is_large { EXPECT_LARGE_FRAMES } else { self.expect_large.saturating_sub(1) };
    }

    /// How many bytes at least there must be room for, and how many to read at most.
    fn wanted(&self, staging: &Staging) -> Range<usize> {
        let filled = staging.filled();
        let least = match self.deframer.peek(filled) {
            _ if filled.is_empty() => LOOK_AHEAD,
            Ok(Peek::Head(head)) => head.wire_length - filled.len(),
            _ => LOOK_AHEAD,
        };
        least..if self.expect_large == 0 { BUFFER_BYTES } else { least + LOOK_AHEAD }
    }

    /// Reads into staging.
    pub(super) fn read<P: Segmented + Lending>(
        &self,
        port: &mut P,
        staging: &mut Staging,
        io: &mut Io<'_, impl AsMut<Pool>>,
    ) -> Result<Received, ReceiveError> {
        let wanted = self.wanted(staging);
        let room = staging.room(wanted.start, io.scratch.as_mut());
        let most = room.len().min(wanted.end);
        let received = port.receive(&mut [ReceivePiece::Staging(&mut room[..most])])?;
        if let Received::Bytes(count) = received {
            staging.fill(count);
            count_received(count, io);
        }
        Ok(received)
    }
}

pub(super) fn count_received(count: usize, io: &mut Io<'_, impl AsMut<Pool>>) {
    io.counters.receives += 1;
    io.counters.received_wire_bytes += count as u64;
}

/// A large frame whose payload is being read straight into its final place.
struct Direct {
    head: FrameHead,
    placement: Placement,
    /// Where the rest of the payload goes.
    rest: Gather,
    crc_on: bool,
    crc: Crc32c,
}

/// Reads FPDUs, and brings what is in them to its place.
pub(super) struct Receiver {
    frames: FrameReader,
    crc: bool,
    direct: Option<Direct>,
    /// A large frame was refused by its head. No Terminate goes out before the rest has arrived and its CRC was
    /// checked.
    verdict_pending: bool,
    /// Bytes stay in memory, and nothing is to be checked in them.
    is_bare: bool,
    /// The peer may lend ([`Lending::begin_borrowing`]).
    pub(super) borrows: bool,
    /// The frame that begins here is good, and is no message that the connection takes whole.
    refused: Option<StreamPosition>,
}

impl Receiver {
    pub(super) fn new<P: Segmented + Lending>(deframer: Deframer, crc: bool, port: &mut P) -> Self {
        // Where bytes stay in memory a read costs next to nothing, so few may be read at a time.
        let is_bare = port.keeps_bytes() && !crc && !deframer.markers();
        let borrows = is_bare && port.begin_borrowing();
        let frames = FrameReader::new(deframer);
        Self { frames, crc, direct: None, verdict_pending: false, is_bare, borrows, refused: None }
    }

    /// Whether the next frame can be a whole message ([`Got::Messages`]): no marker cuts it, and nothing is begun.
    #[inline]
    pub(super) fn is_straight(&self) -> bool {
        self.direct.is_none() && !self.verdict_pending && !self.frames.deframer.markers()
    }

    pub(super) fn is_verdict_pending(&self) -> bool {
        self.verdict_pending
    }

    /// Forgets the frame that is being received.
    pub(super) fn clear(&mut self) {
        self.direct = None;
        self.verdict_pending = false;
    }

    /// What is in place of the frame that is being read straight there.
    pub(super) fn placed_bytes(&self) -> Option<u32> {
        self.direct.as_ref().map(|direct| direct.placement.sink.length() - direct.rest.length())
    }

    /// Reads once, and handles every frame that is whole then.
    pub(super) fn receive<P: Segmented + Lending, A: StreamSink>(
        &mut self,
        bytes: &mut Bytes<P>,
        above: &mut A,
        io: &mut Io<'_, impl AsMut<Pool>>,
    ) -> Result<Got, ReceiveError> {
        if self.is_straight() && bytes.staging.is_empty() && self.frames.expect_large == 0 {
            return self.receive_messages(bytes, above, io);
        }
        match self.read(bytes, above, io)? {
            Received::Bytes(_) => self.process(bytes, above, io),
            Received::Nothing => Ok(Got::Nothing),
            // In the middle of a frame that is an error.
            Received::End => Ok(Got::End { whole: bytes.staging.filled().is_empty() && self.direct.is_none() }),
        }
    }

    /// Reads once, with nothing staged, into room that all connections of the engine use, and hands on the whole
    /// messages from there. What else has come is staged, in that very buffer.
    fn receive_messages<P: Segmented + Lending, A: StreamSink>(
        &mut self,
        bytes: &mut Bytes<P>,
        above: &mut A,
        io: &mut Io<'_, impl AsMut<Pool>>,
    ) -> Result<Got, ReceiveError> {
        bytes.staging.release(io.scratch.as_mut());
        let (start, most) =
            if self.is_bare { (0, SHORT_BYTES) } else { (bytes.staging.aligned(), BUFFER_BYTES - ALIGNMENT) };
        let room = &mut io.scratch.as_mut().shared()[start..start + most];
        let count = match bytes.port.receive(&mut [ReceivePiece::Staging(&mut *room)])? {
            Received::Bytes(count) => count,
            Received::Nothing => return Ok(Got::Nothing),
            Received::End => return Ok(Got::End { whole: true }),
        };
        io.counters.receives += 1;
        io.counters.received_wire_bytes += count as u64;
        let taken = self.take_messages(&room[..count], above, io.settings, io.counters, io.now);
        if taken == count {
            bytes.staging.bypass(count);
            return Ok(Got::Messages);
        }
        bytes.staging.adopt(start + taken..start + count, count, io.scratch.as_mut());
        self.process(bytes, above, io)
    }

    /// Hands on the frames that `bytes` begin with, as long as the connection takes them as whole messages. Returns how
    /// many bytes those were. What is refused goes to [`Receiver::place`], which neither checks nor offers it again.
    #[inline]
    fn take_messages<A: StreamSink>(
        &mut self,
        bytes: &[u8],
        above: &mut A,
        settings: &Settings,
        counters: &mut Counters,
        now: Time,
    ) -> usize {
        let mut taken = 0;
        while !self.verdict_pending
            && self.refused.is_none()
            && let Some(frame) = self.frames.deframer.straight(&bytes[taken..])
            && !(self.borrows && lent::is_lent(frame.ulpdu))
        {
            let arrival = Arrival { start: frame.start.0, end: frame.end.0 };
            if !above.packet(arrival, frame.ulpdu, now, counters) {
                self.refused = Some(frame.start);
                break;
            }
            self.frames.note(is_long(frame.ulpdu.len() as u32, settings));
            self.frames.deframer.pass(&frame);
            counters.received_frames += 1;
            taken += frame.wire_length;
        }
        taken
    }

    fn read<P: Segmented + Lending, A: StreamSink>(
        &mut self,
        bytes: &mut Bytes<P>,
        above: &mut A,
        io: &mut Io<'_, impl AsMut<Pool>>,
    ) -> Result<Received, ReceiveError> {
        let Bytes { port, staging, .. } = bytes;
        let Some(direct) = &mut self.direct else { return self.frames.read(port, staging, io) };
        match direct.read(port, staging, io) {
            Err(ReceiveError::Memory) => Err(match self.direct.take() {
                Some(direct) => blame(above, &direct.placement),
                None => ReceiveError::Memory,
            }),
            received => received,
        }
    }

    /// Handles what has been staged, frame by frame.
    fn process<P: Segmented + Lending, A: StreamSink>(
        &mut self,
        bytes: &mut Bytes<P>,
        above: &mut A,
        io: &mut Io<'_, impl AsMut<Pool>>,
    ) -> Result<Got, ReceiveError> {
        let Bytes { port, staging, .. } = bytes;
        let mut got = Got::Messages;
        if self.direct.is_some() {
            got = Got::Progress;
            if !self.finish_direct(staging, above, io)? {
                return Ok(got);
            }
        }
        loop {
            staging.consume(self.take_messages(staging.filled(), above, io.settings, io.counters, io.now));
            let bytes = staging.filled();
            if bytes.is_empty() {
                return Ok(got);
            }
            got = Got::Progress;
            let head = match self.frames.deframer.peek(bytes)? {
                Peek::More { .. } => return Ok(Got::Progress),
                Peek::Head(head) => head,
            };
            let Some(frame) = self.frames.deframer.frame(&head, bytes) else {
                self.begin_direct(&head, staging, above, io)?;
                return Ok(Got::Progress);
            };
            self.frames.note(self.is_read_alone(&head, io));
            self.place(&head, &frame, bytes, port, above, io)?;
            self.frames.deframer.advance(&head);
            staging.consume(head.wire_length);
            io.counters.received_frames += 1;
            if !above.stream().state().receives() {
                staging.clear(io.scratch.as_mut());
                return Ok(Got::Over);
            }
        }
    }

    /// A whole frame is staged: check it, copy it to its place, count it.
    fn place<P: Segmented + Lending, A: StreamSink>(
        &mut self,
        head: &FrameHead,
        frame: &Frame<'_>,
        bytes: &[u8],
        port: &mut P,
        above: &mut A,
        io: &mut Io<'_, impl AsMut<Pool>>,
    ) -> Result<(), ReceiveError> {
        if self.borrows
            && let Some(ulpdu) = frame.contiguous().filter(|ulpdu| lent::is_lent(ulpdu))
        {
            return borrow(head, ulpdu, port, above, io);
        }
        // Markers cut its payload, so it can't be read straight into place; all else is as if it were.
        let in_one_pass = io.settings.verify == Verify::LargeInPlace
            && head.ulpdu_length >= io.settings.direct_threshold
            && frame.contiguous().is_none();
        let is_refused = self.refused.take() == Some(head.start);
        if (!in_one_pass || self.verdict_pending) && !is_refused {
            frame.verify()?;
        }
        if self.verdict_pending {
            return Err(ReceiveError::Judged);
        }
        if !in_one_pass
            && !is_refused
            && let Some(ulpdu) = frame.contiguous()
            && above.packet(arrival_of(head), ulpdu, io.now, io.counters)
        {
            return Ok(());
        }
        // A verdict is large: it stays where it is.
        let verdict = locate(above, head, bytes);
        let placement = match place_in(&verdict) {
            Ok(placement) => placement,
            Err(error) => {
                // What is wrong with a frame that is damaged is the damage.
                frame.verify()?;
                return Err(error);
            }
        };
        let copied = if in_one_pass {
            copy_and_verify(frame, placement, io.registry)?
        } else {
            copy_frame(frame, placement, io.registry)
        };
        if copied.is_err() {
            return Err(blame(above, placement));
        }
        count_copied(placement, above, io)
    }

    /// Whether a frame is read without those behind it: straight into its place, or, with markers, into a part of
    /// staging that stays in the cache. A part of the next one would only have to be moved there.
    fn is_read_alone(&self, head: &FrameHead, io: &Io<'_, impl AsMut<Pool>>) -> bool {
        let is_large = head.ulpdu_length >= io.settings.direct_threshold;
        self.goes_direct(head, io) || (self.frames.deframer.markers() && is_large)
    }

    /// Whether a frame is so large that it is read straight into its place, if not all of it has come.
    fn goes_direct(&self, head: &FrameHead, io: &Io<'_, impl AsMut<Pool>>) -> bool {
        is_long(head.ulpdu_length, io.settings) && !self.frames.deframer.markers()
    }

    /// The head of a frame is staged, but not all of it. If the rest is large, it is read straight into its place.
    fn begin_direct<A: StreamSink>(
        &mut self,
        head: &FrameHead,
        staging: &mut Staging,
        above: &mut A,
        io: &mut Io<'_, impl AsMut<Pool>>,
    ) -> Result<(), ReceiveError> {
        let bytes = staging.filled();
        let begin = head.ulpdu_offset();
        let head_is_here = bytes.len() >= begin + HEAD_LENGTH.min(head.ulpdu_length as usize);
        if !self.goes_direct(head, io) || !head_is_here || self.verdict_pending {
            return Ok(());
        }
        let Verdict::Place(placement) = locate(above, head, bytes) else {
            self.verdict_pending = true;
            return Ok(());
        };
        let end = begin + placement.header_length as usize;
        // A list is no scatter list of a system call.
        if placement.sink.is_empty() || placement.sink.is_listed() || bytes.len() < end {
            return Ok(());
        }
        let staged = (bytes.len() - end).min(placement.sink.length() as usize);
        let mut crc = Crc32c::new();
        if self.crc {
            crc.update(&bytes[..end]);
        }
        let now = placement.sink.part(0, staged as u32);
        if copy_in(&now, &bytes[end..end + staged], io.registry, self.crc.then_some(&mut crc)).is_err() {
            return Err(blame(above, &placement));
        }
        io.counters.placed_copied_bytes += staged as u64;
        let rest = placement.sink.part(staged as u32, placement.sink.length() - staged as u32);
        staging.consume(end + staged);
        self.direct = Some(Direct { head: *head, placement, rest, crc_on: self.crc, crc });
        self.frames.note(true);
        Ok(())
    }

    /// More of a large frame has come. Returns whether it is whole, and counted.
    fn finish_direct<A: StreamSink>(
        &mut self,
        staging: &mut Staging,
        above: &mut A,
        io: &mut Io<'_, impl AsMut<Pool>>,
    ) -> Result<bool, ReceiveError> {
        let Some(direct) = &self.direct else { return Ok(true) };
        let tail = direct.head.tail_length();
        if !direct.rest.is_empty() || staging.filled().len() < tail {
            return Ok(false);
        }
        let Some(direct) = self.direct.take() else { return Ok(true) };
        io.counters.placed_direct += 1;
        check_tail(direct.crc, self.crc, &direct.head, &staging.filled()[..tail])?;
        staging.consume(tail);
        self.frames.deframer.advance(&direct.head);
        io.counters.received_frames += 1;
        count(&direct.placement, above, io)?;
        Ok(true)
    }
}

impl Direct {
    /// Reads the rest of the payload into place, and the tail and a little more into staging.
    fn read<P: Segmented + Lending>(
        &mut self,
        port: &mut P,
        staging: &mut Staging,
        io: &mut Io<'_, impl AsMut<Pool>>,
    ) -> Result<Received, ReceiveError> {
        let tail = self.head.tail_length();
        let staged = staging.filled().len();
        let room = staging.room(tail + LOOK_AHEAD, io.scratch.as_mut());
        let most = (tail + LOOK_AHEAD).saturating_sub(staged).max(1);
        let mut pieces = arrayvec::ArrayVec::<ReceivePiece<'_>, SCATTER>::new();
        for slice in self.rest.slices() {
            pieces.push(ReceivePiece::Memory(*slice));
        }
        pieces.push(ReceivePiece::Staging(&mut room[..most]));
        let received = port.receive(&mut pieces)?;
        drop(pieces);
        if let Received::Bytes(count) = received {
            let placed = count.min(self.rest.length() as usize);
            self.account(placed as u32, io)?;
            staging.bypass(placed);
            staging.fill(count - placed);
            count_received(count, io);
        }
        Ok(received)
    }

    fn account(&mut self, placed: u32, io: &mut Io<'_, impl AsMut<Pool>>) -> Result<(), MemoryError> {
        for slice in self.rest.part(0, placed).slices() {
            if self.crc_on {
                io.registry.digest(slice, &mut self.crc)?;
            }
        }
        self.rest = self.rest.part(placed, self.rest.length() - placed);
        io.counters.placed_direct_bytes += u64::from(placed);
        Ok(())
    }
}

/// Whether a ULPDU that no marker cuts is so long that it is read straight into its place, if not all of it has come.
#[inline]
fn is_long(ulpdu_length: u32, settings: &Settings) -> bool {
    ulpdu_length >= settings.direct_threshold && settings.verify != Verify::BeforePlace
}

/// A segment is here but its payload, which the peer lends: brings that to its place.
fn borrow<P: Segmented + Lending, A: StreamSink>(
    head: &FrameHead,
    ulpdu: &[u8],
    port: &mut P,
    above: &mut A,
    io: &mut Io<'_, impl AsMut<Pool>>,
) -> Result<(), ReceiveError> {
    let broken = ReceiveError::Broken(TerminateCode::LocalCatastrophic);
    let segment = LentSegment::parse(ulpdu).ok_or(broken)?;
    let length = segment.payload + segment.header.len() as u32;
    let start = &segment.header[..HEAD_LENGTH.min(segment.header.len())];
    let verdict = above.locate(arrival_of(head), OrderConstraint::default(), length, start);
    let placement = place_in(&verdict)?;
    if placement.header_length as usize != segment.header.len() || placement.sink.length() != segment.payload {
        return Err(broken);
    }
    match port.borrow_into(segment.runs(), placement.sink.slices()) {
        Ok(()) => {}
        Err(PortError::Memory(_)) => return Err(blame(above, placement)),
        Err(error) => return Err(ReceiveError::Port(error)),
    }
    io.counters.placed_borrowed += 1;
    io.counters.placed_borrowed_bytes += u64::from(segment.payload);
    io.counters.received_wire_bytes += u64::from(segment.payload);
    count(placement, above, io)
}

fn arrival_of(head: &FrameHead) -> Arrival {
    Arrival { start: head.start.0, end: head.end.0 }
}

/// Asks the stream where a segment belongs.
#[inline]
pub(super) fn locate<A: StreamSink>(above: &mut A, head: &FrameHead, bytes: &[u8]) -> Verdict {
    let mut scratch = [0; HEAD_LENGTH];
    let start = head.head(bytes, &mut scratch);
    above.locate(arrival_of(head), OrderConstraint::default(), head.ulpdu_length, start)
}

/// The place of a segment of an ordered stream, or why there is none.
#[inline]
pub(super) fn place_in(verdict: &Verdict) -> Result<&Placement, ReceiveError> {
    match verdict {
        Verdict::Place(placement) => Ok(placement),
        // The stream has judged.
        Verdict::Fatal(_) => Err(ReceiveError::Judged),
        // It has come before its turn, or again: on a byte stream that is an error of ours.
        Verdict::Drop | Verdict::Later(_) => Err(ReceiveError::Broken(TerminateCode::LocalCatastrophic)),
    }
}

/// The registry has refused. If the peer may not write there any more, it gets a Terminate.
pub(super) fn blame<A: StreamSink>(above: &mut A, placement: &Placement) -> ReceiveError {
    if above.stream().recheck(placement).is_ok() {
        above.stream().fail_placement(placement);
    }
    ReceiveError::Judged
}

pub(super) fn count_copied<A: StreamSink>(
    placement: &Placement,
    above: &mut A,
    io: &mut Io<'_, impl AsMut<Pool>>,
) -> Result<(), ReceiveError> {
    if !placement.sink.is_empty() {
        io.counters.placed_copied += 1;
        io.counters.placed_copied_bytes += u64::from(placement.sink.length());
    }
    count(placement, above, io)
}

/// The payload is in place and the CRC was good.
fn count<A: StreamSink>(
    placement: &Placement,
    above: &mut A,
    io: &mut Io<'_, impl AsMut<Pool>>,
) -> Result<(), ReceiveError> {
    above.placed(placement, io.counters).map_err(|_| ReceiveError::Judged)
}

/// Copies the payload of a staged frame to its place. With markers in it the payload comes in many pieces, so the place
/// is looked up once.
pub(super) fn copy_frame(frame: &Frame<'_>, placement: &Placement, registry: &Registry) -> Result<(), MemoryError> {
    if placement.sink.is_empty() {
        return Ok(());
    }
    let mut header = placement.header_length as usize;
    if let Some(ulpdu) = frame.contiguous() {
        return place(&placement.sink, &ulpdu[header..], registry, &mut NoDigest);
    }
    let mut held = HeldGather::new(&placement.sink, registry)?;
    frame.ulpdu().try_for_each(|piece| held.copy_in(behind(&mut header, piece), &mut NoDigest))
}

/// The same in one pass with the check of CRC and markers, which comes first in what is returned.
fn copy_and_verify(
    frame: &Frame<'_>,
    placement: &Placement,
    registry: &Registry,
) -> Result<Result<(), MemoryError>, FrameError> {
    if placement.sink.is_empty() {
        return frame.verify().map(Ok);
    }
    let mut header = placement.header_length as usize;
    let mut held = match HeldGather::new(&placement.sink, registry) {
        Ok(held) => held,
        Err(gone) => return frame.verify().map(|()| Err(gone)),
    };
    let mut copied = Ok(());
    frame.strip_markers(|piece| {
        let piece = behind(&mut header, piece);
        copied = copied.and_then(|()| held.copy_in(piece, &mut NoDigest));
    })?;
    Ok(copied)
}

/// What of the next piece of a ULPDU is payload.
fn behind<'a>(header: &mut usize, piece: &'a [u8]) -> &'a [u8] {
    let (first, payload) = piece.split_at((*header).min(piece.len()));
    *header -= first.len();
    payload
}

fn place<D: Digest>(sink: &Gather, mut rest: &[u8], registry: &Registry, digest: &mut D) -> Result<(), MemoryError> {
    for slice in sink.slices() {
        let (now, later) = rest.split_at(slice.length as usize);
        registry.copy_in(slice, now, digest)?;
        rest = later;
    }
    Ok(())
}

fn copy_in(sink: &Gather, bytes: &[u8], registry: &Registry, crc: Option<&mut Crc32c>) -> Result<(), MemoryError> {
    match crc {
        Some(crc) => place(sink, bytes, registry, crc),
        None => place(sink, bytes, registry, &mut NoDigest),
    }
}
