//! The way in: bytes become frames, frames become segments, segments find their place.
//!
//! A frame is staged and then copied to its place, or, when it is large and has no markers, its header is staged and the rest is read
//! straight into place ([`Direct`]). Either way the stream checks rights and bounds before a byte is written, and nothing counts before the
//! CRC was good (`docs/architecture.md`, the rule of early placement).

use weft_base::{Digest, Gather, NoDigest, Port, PortError, ReceivePiece, Received};
use weft_memory::{MemoryError, Registry};
use weft_mpa::{Frame, FrameError, FrameHead, Peek, check_tail};
use weft_rdmap::{Arrival, HEAD_LENGTH, Placement, Status, Stream, Violation};
use weft_wire::Crc32c;
use weft_wire::terminate::TerminateCode;

use super::held::HeldGather;
use super::{Connection, Context, Incoming, Running};
use crate::connection::staging::{BUFFER_BYTES, Staging};
use crate::queues::receive_queue::ReceiveQueue;
use crate::settings::Verify;

/// What is read behind a large frame: enough for the head of the next, too little to be worth a copy.
const LOOK_AHEAD: usize = 128;
/// After a large frame, so many smaller ones are read one by one, because another large one may follow: long messages end with a small frame.
const EXPECT_LARGE_FRAMES: u8 = 2;
const _: () = assert!(LOOK_AHEAD >= HEAD_LENGTH + 8, "an FPDU's length, a marker and a whole head");
/// Pieces of a scatter list: the slices of a gather list, then staging.
const SCATTER: usize = weft_base::MAX_GATHER + 1;

/// A large frame whose payload is being read straight into its final place.
pub(crate) struct Direct {
    head: FrameHead,
    placement: Placement,
    /// Where the rest of the payload goes.
    rest: Gather,
    crc_on: bool,
    crc: Crc32c,
}

/// Why a stream can't go on reading.
enum Stop {
    /// A frame broke a rule of MPA.
    Frame(FrameError),
    /// A segment broke a rule of DDP or RDMAP, and its CRC was good.
    Segment,
    /// The memory that a frame was being read into is gone.
    Memory,
    /// The port.
    Port(PortError),
}

impl From<FrameError> for Stop {
    fn from(error: FrameError) -> Self {
        Self::Frame(error)
    }
}

impl From<PortError> for Stop {
    fn from(error: PortError) -> Self {
        match error {
            PortError::Memory(_) => Self::Memory,
            error => Self::Port(error),
        }
    }
}

impl From<MemoryError> for Stop {
    fn from(_: MemoryError) -> Self {
        Self::Memory
    }
}

impl<P: Port> Connection<P> {
    /// Reads once, and handles every frame that is whole then.
    pub(super) fn receive(&mut self, cx: &mut Context<'_>) -> bool {
        let Some((running, port, staging, _)) = self.running() else { return false };
        if running.input_over {
            return false;
        }
        let result = match running.read(port, staging, cx) {
            Ok(Received::Bytes(_)) => running.process(staging, cx).map(|()| true),
            Ok(Received::Nothing) => Ok(false),
            Ok(Received::End) => {
                self.peer_ended(cx);
                return true;
            }
            Err(stop) => Err(stop),
        };
        staging.release(cx.pool);
        match result {
            Ok(progress) => progress,
            Err(stop) => {
                self.stop(stop, cx);
                true
            }
        }
    }

    fn stop(&mut self, stop: Stop, cx: &mut Context<'_>) {
        let Some((running, ..)) = self.running() else { return };
        match stop {
            Stop::Port(error) => return self.lose(error, cx),
            Stop::Frame(error) => running.core.hold().stream.fail(error.terminate_code()),
            // The stream has judged already, and has a Terminate to send.
            Stop::Segment => {}
            Stop::Memory => running.core.hold().stream.fail(TerminateCode::LocalCatastrophic),
        }
        running.direct = None;
        running.verdict_pending = false;
        running.input_over = true;
        self.staging.clear(cx.pool);
    }

    /// The peer sends no more. In the middle of a frame that is an error.
    fn peer_ended(&mut self, cx: &mut Context<'_>) {
        let whole = self.staging.filled().is_empty();
        self.staging.clear(cx.pool);
        let Some((running, ..)) = self.running() else { return };
        running.input_over = true;
        let whole = whole && running.direct.take().is_none();
        running.core.hold().stream.handle_closed(if whole {
            weft_rdmap::Closed::Graceful
        } else {
            weft_rdmap::Closed::MidFrame
        });
    }
}

impl Running {
    fn read<P: Port>(&mut self, port: &mut P, staging: &mut Staging, cx: &mut Context<'_>) -> Result<Received, Stop> {
        let received = match &mut self.direct {
            Some(direct) => match direct.read(port, staging, cx) {
                Err(Stop::Memory) => return Err(self.blame_direct()),
                received => received?,
            },
            None => {
                let wanted = self.wanted(staging);
                let room = staging.room(wanted.start, cx.pool);
                let most = room.len().min(wanted.end);
                let received = port.receive(&mut [ReceivePiece::Staging(&mut room[..most])])?;
                if let Received::Bytes(count) = received {
                    staging.fill(count);
                }
                received
            }
        };
        if let Received::Bytes(count) = received {
            cx.counters.receives += 1;
            cx.counters.received_wire_bytes += count as u64;
        }
        Ok(received)
    }

    fn blame_direct(&mut self) -> Stop {
        match self.direct.take() {
            Some(direct) => self.blame(&direct.placement),
            None => Stop::Memory,
        }
    }

    /// How many bytes at least there must be room for, and how many to read at most.
    fn wanted(&self, staging: &Staging) -> core::ops::Range<usize> {
        let filled = staging.filled();
        let least = match self.deframer.peek(filled) {
            Ok(Peek::Head(head)) => head.wire_length - filled.len(),
            _ => LOOK_AHEAD,
        };
        least..if self.expect_large == 0 { BUFFER_BYTES } else { least + LOOK_AHEAD }
    }

    /// Handles what has been staged, frame by frame.
    fn process(&mut self, staging: &mut Staging, cx: &mut Context<'_>) -> Result<(), Stop> {
        if self.direct.is_some() && !self.finish_direct(staging, cx)? {
            return Ok(());
        }
        loop {
            let bytes = staging.filled();
            let head = match self.deframer.peek(bytes)? {
                Peek::More { .. } => return Ok(()),
                Peek::Head(head) => head,
            };
            if self.is_split() {
                self.advance(&head, bytes);
            }
            let Some(frame) = self.deframer.frame(&head, bytes) else {
                return self.begin_direct(&head, staging, cx);
            };
            self.expect_large =
                if self.is_read_alone(&head, cx) { EXPECT_LARGE_FRAMES } else { self.expect_large.saturating_sub(1) };
            if self.is_split() {
                self.place_checked(&head, &frame, bytes, cx)?;
            } else {
                self.place(&head, &frame, bytes, cx)?;
            }
            self.deframer.advance(&head);
            staging.consume(head.wire_length);
            cx.counters.received_frames += 1;
            if !self.core.hold().stream.state().receives() {
                self.input_over = true;
                staging.clear(cx.pool);
                return Ok(());
            }
        }
    }

    /// A whole frame is staged: check it, copy it to its place, count it.
    fn place(&mut self, head: &FrameHead, frame: &Frame<'_>, bytes: &[u8], cx: &mut Context<'_>) -> Result<(), Stop> {
        // Markers cut its payload, so it can't be read straight into place; all else is as if it were.
        let in_one_pass = cx.settings.verify == Verify::LargeInPlace
            && head.ulpdu_length >= cx.settings.direct_threshold
            && frame.contiguous().is_none();
        if !in_one_pass || self.verdict_pending {
            frame.verify()?;
        }
        if self.verdict_pending {
            return Err(Stop::Segment);
        }
        if !in_one_pass && self.hand_over(head, frame, cx) {
            return Ok(());
        }
        let receives = self.queue_pair.receives();
        let Ok(placement) = inspect(&mut self.core.hold().stream, head, bytes, receives) else {
            // What is wrong with a frame that is damaged is the damage.
            frame.verify()?;
            return Err(Stop::Segment);
        };
        let copied = if in_one_pass {
            copy_and_verify(frame, &placement, cx.registry)?
        } else {
            copy_frame(frame, &placement, cx.registry)
        };
        if copied.is_err() {
            return Err(self.blame(&placement));
        }
        self.count_copied(placement, cx)
    }

    fn count_copied(&mut self, placement: Placement, cx: &mut Context<'_>) -> Result<(), Stop> {
        if !placement.sink.is_empty() {
            cx.counters.placed_copied += 1;
            cx.counters.placed_copied_bytes += u64::from(placement.sink.length());
        }
        self.count(placement, cx)
    }

    // --- the way in by stages

    fn is_split(&self) -> bool {
        self.pipeline.is_some()
    }

    /// What has come of a frame goes through the stages that need not wait for the rest.
    fn advance(&mut self, head: &FrameHead, bytes: &[u8]) {
        let there = bytes.len().min(head.wire_length);
        let (crc, flat) = (self.crc, self.flat.as_mut());
        let incoming = self.incoming.get_or_insert_with(|| Incoming::new(head, crc));
        incoming.advance(&bytes[..there], flat);
    }

    /// A whole frame has gone through the stages: judge it, copy its payload to its place, count it.
    fn place_checked(
        &mut self,
        head: &FrameHead,
        frame: &Frame<'_>,
        bytes: &[u8],
        cx: &mut Context<'_>,
    ) -> Result<(), Stop> {
        if let Some(incoming) = self.incoming.take() {
            incoming.check()?;
        }
        let judged = inspect(&mut self.core.hold().stream, head, bytes, self.queue_pair.receives());
        let placement = judged.map_err(|_| Stop::Segment)?;
        let copied = match &mut self.flat {
            None => copy_frame(frame, &placement, cx.registry),
            Some(flat) if placement.sink.is_empty() => {
                flat.clear();
                Ok(())
            }
            Some(flat) => {
                let payload = &flat[placement.header_length as usize..];
                let copied = cx.registry.copy_in_gather(&placement.sink, 0, payload, &mut NoDigest);
                flat.clear();
                copied
            }
        };
        if copied.is_err() {
            return Err(self.blame(&placement));
        }
        self.count_copied(placement, cx)
    }

    /// The payload is in place and the CRC was good.
    fn count(&mut self, placement: Placement, cx: &mut Context<'_>) -> Result<(), Stop> {
        let stream = &mut self.core.hold().stream;
        let delivered = stream.handle_placed(placement);
        // Also when it went wrong: what was delivered before is reported.
        while let Some(completion) = stream.poll_receive_completion() {
            cx.counters.received_messages += u64::from(completion.status == Status::Success);
            self.queue_pair.complete_receive(completion);
        }
        delivered.map_err(|_| Stop::Segment)
    }

    /// The memory has refused. If the peer may not write there any more, it is told so.
    fn blame(&mut self, placement: &Placement) -> Stop {
        match self.core.hold().stream.recheck(placement) {
            Ok(()) => Stop::Memory,
            Err(_) => Stop::Segment,
        }
    }

    /// Whether a frame is read without those behind it: straight into its place, or, with markers, into a part of staging that stays in the
    /// cache. A part of the next one would only have to be moved there.
    fn is_read_alone(&self, head: &FrameHead, cx: &Context<'_>) -> bool {
        let is_staged = self.deframer.markers() || self.is_split();
        self.goes_direct(head, cx) || (is_staged && head.ulpdu_length >= cx.settings.direct_threshold)
    }

    /// Whether a frame is so large that it is read straight into its place, if not all of it has come.
    fn goes_direct(&self, head: &FrameHead, cx: &Context<'_>) -> bool {
        head.ulpdu_length >= cx.settings.direct_threshold
            && cx.settings.verify != Verify::BeforePlace
            && !self.deframer.markers()
            && !self.is_split()
    }

    /// The head of a frame is staged, but not all of it. If the rest is large, it is read straight into its place.
    fn begin_direct(&mut self, head: &FrameHead, staging: &mut Staging, cx: &mut Context<'_>) -> Result<(), Stop> {
        let bytes = staging.filled();
        let begin = head.ulpdu_offset();
        let head_is_here = bytes.len() >= begin + HEAD_LENGTH.min(head.ulpdu_length as usize);
        if !self.goes_direct(head, cx) || !head_is_here || self.verdict_pending {
            return Ok(());
        }
        let Ok(placement) = inspect(&mut self.core.hold().stream, head, bytes, self.queue_pair.receives()) else {
            self.verdict_pending = true;
            return Ok(());
        };
        let end = begin + placement.header_length as usize;
        if placement.sink.is_empty() || bytes.len() < end {
            return Ok(());
        }
        let staged = (bytes.len() - end).min(placement.sink.length() as usize);
        let mut crc = Crc32c::new();
        if self.crc {
            crc.update(&bytes[..end]);
        }
        let now = placement.sink.part(0, staged as u32);
        if copy_in(&now, &bytes[end..end + staged], cx.registry, self.crc.then_some(&mut crc)).is_err() {
            return Err(self.blame(&placement));
        }
        cx.counters.placed_copied_bytes += staged as u64;
        let rest = placement.sink.part(staged as u32, placement.sink.length() - staged as u32);
        staging.consume(end + staged);
        self.direct = Some(Direct { head: *head, placement, rest, crc_on: self.crc, crc });
        self.expect_large = EXPECT_LARGE_FRAMES;
        Ok(())
    }

    /// More of a large frame has come. Returns whether it is whole, and counted.
    fn finish_direct(&mut self, staging: &mut Staging, cx: &mut Context<'_>) -> Result<bool, Stop> {
        let Some(direct) = &self.direct else { return Ok(true) };
        let tail = direct.head.tail_length();
        if !direct.rest.is_empty() || staging.filled().len() < tail {
            return Ok(false);
        }
        let Some(direct) = self.direct.take() else { return Ok(true) };
        cx.counters.placed_direct += 1;
        check_tail(direct.crc, self.crc, &direct.head, &staging.filled()[..tail])?;
        staging.consume(tail);
        self.deframer.advance(&direct.head);
        cx.counters.received_frames += 1;
        self.count(direct.placement, cx)?;
        Ok(true)
    }
}

impl Direct {
    /// What of the payload is in place.
    pub(super) fn placed_bytes(&self) -> u32 {
        self.placement.sink.length() - self.rest.length()
    }

    /// Reads the rest of the payload into place, and the tail and a little more into staging.
    fn read<P: Port>(&mut self, port: &mut P, staging: &mut Staging, cx: &mut Context<'_>) -> Result<Received, Stop> {
        let tail = self.head.tail_length();
        let staged = staging.filled().len();
        let room = staging.room(tail + LOOK_AHEAD, cx.pool);
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
            self.account(placed as u32, cx)?;
            staging.bypass(placed);
            staging.fill(count - placed);
        }
        Ok(received)
    }

    fn account(&mut self, placed: u32, cx: &mut Context<'_>) -> Result<(), MemoryError> {
        for slice in self.rest.part(0, placed).slices() {
            if self.crc_on {
                cx.registry.digest(slice, &mut self.crc)?;
            }
        }
        self.rest = self.rest.part(placed, self.rest.length() - placed);
        cx.counters.placed_direct_bytes += u64::from(placed);
        Ok(())
    }
}

/// Asks the stream where a segment belongs.
fn inspect(
    stream: &mut Stream,
    head: &FrameHead,
    bytes: &[u8],
    receives: &ReceiveQueue,
) -> Result<Placement, Violation> {
    let mut scratch = [0; HEAD_LENGTH];
    let start = head.head(bytes, &mut scratch);
    let arrival = Arrival { start: head.start.0, end: head.end.0 };
    stream.handle_segment(arrival, head.ulpdu_length, start, &mut receives.source())
}

/// Copies the payload of a staged frame to its place. With markers in it the payload comes in many pieces, so the place is looked up once.
fn copy_frame(frame: &Frame<'_>, placement: &Placement, registry: &Registry) -> Result<(), MemoryError> {
    if placement.sink.is_empty() {
        return Ok(());
    }
    let mut header = placement.header_length as usize;
    if let Some(ulpdu) = frame.contiguous() {
        return place(&placement.sink, &ulpdu[header..], registry, &mut NoDigest);
    }
    let mut held = HeldGather::new(&placement.sink, registry)?;
    frame.ulpdu().for_each(|piece| held.copy_in(behind(&mut header, piece), &mut NoDigest));
    Ok(())
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
    frame.strip_markers(|piece| held.copy_in(behind(&mut header, piece), &mut NoDigest)).map(Ok)
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
