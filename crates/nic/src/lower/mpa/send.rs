//! The way out: segments become FPDUs, FPDUs go to the port.

use arrayvec::ArrayVec;
use weft_base::{Digest, Gather, Lending, Lent, MAX_GATHER, Port, PortError, Segmented};
use weft_memory::{MemoryError, Registry};
use weft_mpa::{Framer, Layout, Source};
use weft_rdmap::{HEAD_LENGTH, Segment, SegmentPayload, Stream};
use weft_wire::terminate::TerminateCode;
use weft_wire::{Crc32c, lent};

use super::bytes::Bytes;
use super::held::HeldGather;
use super::outgoing::Outgoing;
use super::staging::Pool;
use crate::lower::{Io, SendError, Sent, StreamSink};

/// Bytes beyond header and payload that a frame may have in the buffer: length, pad, CRC.
pub(super) const FRAME_OVERHEAD: usize = 16;
/// Asking costs a system call, and paths change rarely.
const ASK_PATH_EVERY_FRAMES: u32 = 4096;

/// The most payload of a segment that is lent: what the peer's engine copies in one go, before it polls its other
/// connections.
const MOST_LENT_BYTES: u32 = 1 << 20;
/// This many lent segments may be under way. The peer has the next one when it is through with one.
const MOST_LENT: usize = 4;

/// How long FPDUs may be: what fits a packet of the path, which may change (RFC 5044 section 4.5).
pub(super) struct PathSize {
    large_fpdus: bool,
    /// Bytes of payload in a packet of the path.
    segment_size: u32,
    /// What a ULPDU may always have, wherever the markers are.
    pub(super) max_ulpdu: u32,
    /// Frames laid out since the packet size of the path was last read.
    frames_since_asked: u32,
}

impl PathSize {
    pub(super) fn new(framer: &Framer, large_fpdus: bool, segment_size: u32) -> Self {
        let max_ulpdu = framer.max_ulpdu(segment_size, large_fpdus);
        Self { large_fpdus, segment_size, max_ulpdu, frames_since_asked: 0 }
    }

    /// The longest ULPDU that may come next.
    #[inline]
    pub(super) const fn next_ulpdu(&self, framer: &Framer) -> u32 {
        framer.next_ulpdu(self.segment_size, self.large_fpdus)
    }

    /// One more frame is laid out.
    #[inline]
    pub(super) fn count_frame(&mut self) {
        self.frames_since_asked += 1;
    }

    #[inline]
    pub(super) fn follow<P: Port>(&mut self, framer: &Framer, port: &P) {
        if self.frames_since_asked >= ASK_PATH_EVERY_FRAMES {
            self.frames_since_asked = 0;
            self.segment_size = port.segment_size();
            self.max_ulpdu = framer.max_ulpdu(self.segment_size, self.large_fpdus);
        }
    }
}

/// Makes FPDUs and sends them.
pub(super) struct Sender {
    pub(super) framer: Framer,
    pub(super) path: PathSize,
    /// The peer borrows ([`Lending::can_lend`]).
    lends: bool,
}

impl Sender {
    pub(super) fn new(framer: Framer, large_fpdus: bool, segment_size: u32) -> Self {
        let path = PathSize::new(&framer, large_fpdus, segment_size);
        Self { framer, path, lends: false }
    }

    /// Whether payload may be lent: nothing is added to it on the way, and the peer takes it so.
    fn may_lend<P: Segmented + Lending>(&mut self, port: &mut P, io: &Io<'_, impl AsMut<Pool>>) -> bool {
        let is_bare = !self.framer.markers() && !self.framer.crc() && io.settings.lend_threshold < u32::MAX;
        // It may stop to, when it can't read this process any more.
        self.lends = is_bare && port.can_lend();
        self.lends
    }

    /// Counts the frames whose payload the peer has returned. Returns whether there were any.
    fn take_returned<P: Segmented + Lending>(
        &self,
        bytes: &mut Bytes<P>,
        stream: &mut Stream,
    ) -> Result<bool, SendError> {
        if bytes.outgoing.lent() == 0 {
            return Ok(false);
        }
        let returned = bytes.port.take_returned()?;
        let frames = bytes.outgoing.take_returned(returned).ok_or(SendError::Port(PortError::Reset))?;
        if frames > 0 {
            stream.handle_sent(frames);
        }
        Ok(frames > 0)
    }

    /// Lays out frames and sends them until the port takes no more, nothing is left, or `most` bytes were sent.
    pub(super) fn transmit<P: Segmented + Lending, A: StreamSink>(
        &mut self,
        bytes: &mut Bytes<P>,
        above: &mut A,
        most: usize,
        io: &mut Io<'_, impl AsMut<Pool>>,
    ) -> Result<Sent, SendError> {
        let mut sent = Sent::default();
        let mut count = 0;
        let mut stream = above.stream();
        sent.progress = self.take_returned(bytes, &mut stream)?;
        self.may_lend(&mut bytes.port, io);
        loop {
            sent.cut_short = count >= most;
            if sent.cut_short {
                return Ok(sent);
            }
            self.path.follow(&self.framer, &bytes.port);
            self.lay_out(&mut stream, bytes, io);
            if bytes.outgoing.is_empty() {
                return Ok(sent);
            }
            let (taken, frames) = bytes.outgoing.send(&mut bytes.port, io.scratch.as_mut())?;
            if taken == 0 {
                return Ok(sent);
            }
            io.counters.sends += 1;
            io.counters.sent_wire_bytes += taken as u64;
            count += taken;
            if frames > 0 {
                stream.handle_sent(frames);
            }
            sent.progress = true;
            if bytes.outgoing.is_empty() && !stream.can_transmit() {
                return Ok(sent);
            }
        }
    }

    /// Turns segments into frames while there is room.
    #[inline]
    fn lay_out<P: Segmented + Lending>(
        &mut self,
        stream: &mut Stream,
        bytes: &mut Bytes<P>,
        io: &mut Io<'_, impl AsMut<Pool>>,
    ) {
        let Bytes { port, outgoing, .. } = bytes;
        while outgoing.has_room(self.largest_copied(stream, io)) && outgoing.lent() < MOST_LENT {
            let fitting = self.path.next_ulpdu(&self.framer);
            // A list has more pieces than a frame can name.
            let lends = self.lends && !stream.next_is_listed();
            let Some(segment) = stream.poll_transmit(if lends { MOST_LENT_BYTES } else { fitting }) else { break };
            let payload = u64::from(segment.length) - segment.header.len() as u64;
            let (framer, mark) = (self.framer.clone(), outgoing.mark());
            let laid_out = match &segment.payload {
                SegmentPayload::Gather(gather) | SegmentPayload::Exposed(gather)
                    if lends && gather.length() >= io.settings.lend_threshold.min(fitting / 2) =>
                {
                    // It is pinned until it is counted, also where the peer's right to it is revoked meanwhile.
                    let gather = io.registry.as_pinned(gather);
                    lend(&mut self.framer, &segment, &gather, port, outgoing, io.scratch.as_mut())
                        .map(|()| Passage::Lent)
                        .map_err(drop)
                }
                _ => {
                    let layout = self.framer.frame(segment.length);
                    let crc = self.framer.crc();
                    let frame = FrameWriter { registry: io.registry, pool: io.scratch.as_mut(), outgoing, crc };
                    let passage = frame.write(&layout, &segment, io.settings.gather_threshold, self.framer.markers());
                    passage.inspect(|_| outgoing.end_frame(layout.length())).map_err(drop)
                }
            };
            io.counters.sent_frames += 1;
            self.path.count_frame();
            match laid_out {
                Ok(Passage::Lent) => {
                    io.counters.sent_lent_bytes += payload;
                    io.counters.sent_wire_bytes += payload;
                }
                Ok(Passage::Gathered) => io.counters.sent_gathered_bytes += payload,
                Ok(Passage::Copied) => io.counters.sent_copied_bytes += payload,
                Err(()) => {
                    // Remote access to the source of a read response has just been ended by another thread. What a
                    // request of our own names is pinned and can't be gone. The frame is taken back; the Terminate
                    // takes its place.
                    self.framer = framer;
                    outgoing.take_back(mark);
                    outgoing.end_frame(0);
                    stream.fail(TerminateCode::ProtectionInvalidStag);
                }
            }
        }
    }

    /// The most bytes that the next frame can take up in the buffer.
    fn largest_copied(&self, stream: &Stream, io: &Io<'_, impl AsMut<Pool>>) -> usize {
        let ulpdu = self.path.max_ulpdu as usize;
        if self.framer.markers() {
            // One has a marker less than the most, at best.
            ulpdu + ulpdu / 127 + 3 * FRAME_OVERHEAD
        } else if stream.has_answers() {
            // Memory that its owner may change is copied, however much it is.
            ulpdu + FRAME_OVERHEAD
        } else {
            ulpdu.min(io.settings.gather_threshold as usize + 128) + FRAME_OVERHEAD
        }
    }
}

/// How a payload leaves.
#[derive(Clone, Copy)]
enum Passage {
    /// Copied next to its header.
    Copied,
    /// From where it is, by the port.
    Gathered,
    /// It stays, and the peer fetches it.
    Lent,
}

/// Lends the payload of a segment, and queues the frame that says where it is.
fn lend<P: Segmented + Lending>(
    framer: &mut Framer,
    segment: &Segment<'_>,
    payload: &Gather,
    port: &mut P,
    outgoing: &mut Outgoing,
    pool: &mut Pool,
) -> Result<(), PortError> {
    let slices = payload.slices();
    let mut runs = [Lent::default(); MAX_GATHER];
    let runs = &mut runs[..slices.len()];
    port.lend(slices, runs)?;
    let mut ulpdu = ArrayVec::<u8, { lent::MOST_BEFORE + HEAD_LENGTH }>::new();
    let mut before = [0; lent::MOST_BEFORE];
    lent::emit(runs, &mut before);
    ulpdu.extend(before[..lent::before(runs.len())].iter().chain(segment.header).copied());
    let layout = framer.frame(ulpdu.len() as u32);
    outgoing.write(layout.length(), pool, |out| {
        // There is nothing behind what is copied from a slice, which can't fail.
        let _ = layout.write(&ulpdu, &mut &[][..], out);
        layout.length()
    });
    outgoing.end_lent_frame(layout.length());
    Ok(())
}

struct FrameWriter<'a> {
    registry: &'a Registry,
    pool: &'a mut Pool,
    outgoing: &'a mut Outgoing,
    crc: bool,
}

impl FrameWriter<'_> {
    /// Queues one frame.
    fn write(
        self,
        layout: &Layout,
        segment: &Segment<'_>,
        gather_threshold: u32,
        markers: bool,
    ) -> Result<Passage, MemoryError> {
        match &segment.payload {
            SegmentPayload::Gather(gather) if !markers && gather.length() >= gather_threshold => {
                self.gather(layout, segment.header, gather).map(|()| Passage::Gathered)
            }
            // Without a CRC, bytes that change meanwhile are torn and nothing else.
            SegmentPayload::Exposed(gather) if !markers && !self.crc && gather.length() >= gather_threshold => {
                self.gather(layout, segment.header, gather).map(|()| Passage::Gathered)
            }
            SegmentPayload::Gather(gather) | SegmentPayload::Exposed(gather) if markers => {
                let mut source = HeldSource(HeldGather::new(gather, self.registry)?);
                // What is held can be copied.
                let _ = self.copy(layout, segment.header, &mut source);
                Ok(Passage::Copied)
            }
            SegmentPayload::Gather(gather) | SegmentPayload::Exposed(gather) => {
                let mut source = MemorySource { registry: self.registry, gather: *gather };
                self.copy(layout, segment.header, &mut source).map(|()| Passage::Copied)
            }
            SegmentPayload::Inline(bytes) => {
                let mut source: &[u8] = bytes;
                // Copying from a slice can't fail.
                let _ = self.copy(layout, segment.header, &mut source);
                Ok(Passage::Copied)
            }
            SegmentPayload::None => {
                let mut source: &[u8] = &[];
                let _ = self.copy(layout, segment.header, &mut source);
                Ok(Passage::Copied)
            }
        }
    }

    fn copy<S: Source>(self, layout: &Layout, header: &[u8], payload: &mut S) -> Result<(), S::Error> {
        let mut result = Ok(());
        self.outgoing.write(layout.length(), self.pool, |out| {
            result = layout.write(header, payload, out);
            layout.length()
        });
        result
    }

    fn gather(self, layout: &Layout, header: &[u8], gather: &Gather) -> Result<(), MemoryError> {
        let mut crc = Crc32c::new();
        self.outgoing.write(header.len() + FRAME_OVERHEAD, self.pool, |out| {
            let length = layout.write_head(header, out);
            if self.crc {
                crc.update(&out[..length]);
            }
            length
        });
        if self.crc {
            for slice in gather.slices() {
                self.registry.digest(slice, &mut crc)?;
            }
        }
        match gather.slices() {
            [list] if gather.is_listed() => self.outgoing.gather(&self.registry.pieces(list)?),
            slices => self.outgoing.gather(slices),
        }
        self.outgoing.write(8, self.pool, |out| {
            let mut tail = [0; 8];
            let length = layout.write_tail(&crc, &mut tail);
            out[..length].copy_from_slice(&tail[..length]);
            length
        });
        Ok(())
    }
}

/// The payload of a segment that is cut by markers.
struct HeldSource(HeldGather);

impl Source for HeldSource {
    type Error = MemoryError;

    fn copy<D: Digest>(&mut self, out: &mut [u8], digest: &mut D) -> Result<(), MemoryError> {
        self.0.copy_out(out, digest)
    }
}

/// The payload of a segment, copied out of its regions in one piece.
struct MemorySource<'a> {
    registry: &'a Registry,
    gather: Gather,
}

impl Source for MemorySource<'_> {
    type Error = MemoryError;

    fn copy<D: Digest>(&mut self, out: &mut [u8], digest: &mut D) -> Result<(), MemoryError> {
        let count = out.len() as u32;
        let now = self.gather.part(0, count);
        let mut rest = out;
        for slice in now.slices() {
            let (piece, others) = rest.split_at_mut(slice.length as usize);
            self.registry.copy_out(slice, piece, digest)?;
            rest = others;
        }
        self.gather = self.gather.part(count, self.gather.length() - count);
        Ok(())
    }
}
