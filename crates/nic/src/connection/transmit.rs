//! The way out: work requests become segments, segments become frames, frames go to the port.

use weft_base::{Digest, Gather, Port, PortError};
use weft_memory::{MemoryError, Registry};
use weft_mpa::{Layout, Source};
use weft_rdmap::{Segment, SegmentPayload};
use weft_wire::Crc32c;
use weft_wire::terminate::TerminateCode;

use super::end::state_has_ended;
use super::held::HeldGather;
use super::stages::{Broken, Protocol};
use super::{Connection, Context};
use crate::connection::outgoing::Outgoing;
use crate::connection::staging::Pool;

/// When sending fails, so many reads at most are made of what the peer has sent before: more than a socket's buffer holds.
const LAST_READS: usize = 1024;

/// Bytes beyond header and payload that a frame may have in the buffer: length, pad, CRC.
pub(super) const FRAME_OVERHEAD: usize = 16;

/// Once a turn has sent so many bytes, what has come is looked at before the rest goes: it may ask for something that should not wait behind all of that.
pub(super) const BYTES_PER_TURN: usize = 128 * 1024;

impl<P: Port> Connection<P> {
    /// Hands what was posted to the stream.
    pub(super) fn take_posted(&mut self, cx: &mut Context<'_>) -> bool {
        let Some((running, ..)) = self.running() else { return false };
        if !running.queue_pair.has_posted() {
            return false;
        }
        running.core.hold().take_posted(&running.queue_pair, cx.registry)
    }

    /// Lays out frames and sends them until the port takes no more, nothing is left, or `most` bytes were sent.
    pub(super) fn transmit(&mut self, most: usize, cx: &mut Context<'_>) -> bool {
        let Some((running, ..)) = self.running() else { return false };
        if state_has_ended(running.core.hold().stream.state()) {
            // Nothing is accounted for any more; what is left is thrown away, or goes out while the connection drains.
            return false;
        }
        if running.pipeline.is_some() {
            return self.transmit_staged(cx);
        }
        let mut progress = false;
        let mut bytes = 0;
        loop {
            let Some((running, port, _, outgoing)) = self.running() else { return progress };
            running.cut_short = bytes >= most;
            if running.send_closed || running.verdict_pending || running.cut_short {
                return progress;
            }
            let mut protocol = running.core.hold();
            protocol.follow_path(port);
            protocol.lay_out(outgoing, cx);
            if outgoing.is_empty() {
                return progress;
            }
            match outgoing.send(port, cx.pool) {
                Ok((0, _)) => return progress,
                Ok((taken, frames)) => {
                    cx.counters.sends += 1;
                    cx.counters.sent_wire_bytes += taken as u64;
                    bytes += taken;
                    if frames > 0 {
                        protocol.stream.handle_sent(frames);
                    }
                    progress = true;
                }
                Err(error) => {
                    drop(protocol);
                    self.lose_sending(error, cx);
                    return true;
                }
            }
        }
    }

    /// The same by stages.
    fn transmit_staged(&mut self, cx: &mut Context<'_>) -> bool {
        // The start-up's frames, which all come before.
        let mut progress = match self.flush(cx) {
            Ok(progress) => progress,
            Err(error) => {
                self.lose_sending(error, cx);
                return true;
            }
        };
        let Some((running, port, _, outgoing)) = self.running() else { return progress };
        if running.send_closed || !outgoing.is_empty() {
            return progress;
        }
        let Some(pipeline) = &mut running.pipeline else { return progress };
        match pipeline.run(&mut running.core, port, cx) {
            Ok(worked) => progress |= worked,
            Err(Broken::Port(error)) => {
                self.lose_sending(error, cx);
                progress = true;
            }
            Err(Broken::Memory) => {
                running.core.hold().stream.fail(TerminateCode::ProtectionInvalidStag);
                self.lose(PortError::Reset, cx);
                progress = true;
            }
        }
        progress
    }

    fn lose_sending(&mut self, error: PortError, cx: &mut Context<'_>) {
        if let Some((running, ..)) = self.running()
            && matches!(error, PortError::Memory(_))
        {
            // Part of the frame may be on its way: no Terminate can follow.
            running.core.hold().stream.fail(TerminateCode::ProtectionInvalidStag);
        }
        // What the peer has said before still counts: it may have ended its program right behind it.
        for _ in 0..LAST_READS {
            if !self.receive(cx) {
                break;
            }
        }
        self.lose(error, cx);
    }
}

impl Protocol {
    /// Turns segments into frames while there is room.
    #[inline]
    fn lay_out(&mut self, outgoing: &mut Outgoing, cx: &mut Context<'_>) {
        while outgoing.has_room(self.largest_copied(cx)) {
            let Some(segment) = self.stream.poll_transmit(self.max_ulpdu) else { break };
            let (framer, mark) = (self.framer.clone(), outgoing.mark());
            let layout = self.framer.frame(segment.length);
            let frame = FrameWriter { registry: cx.registry, pool: cx.pool, outgoing, crc: self.framer.crc() };
            let gathered = frame.write(&layout, &segment, cx.settings.gather_threshold, self.framer.markers());
            let payload = u64::from(segment.length) - segment.header.len() as u64;
            cx.counters.sent_frames += 1;
            self.frames_since_asked += 1;
            match gathered {
                Ok(true) => cx.counters.sent_gathered_bytes += payload,
                Ok(false) => cx.counters.sent_copied_bytes += payload,
                Err(_) => {
                    // Remote access to the source of a read response has just been ended by another thread. What a request of our own
                    // names is pinned and can't be gone. The frame is as if it had never been; the Terminate takes its place.
                    self.framer = framer;
                    outgoing.take_back(mark);
                    outgoing.end_frame(0);
                    self.stream.fail(TerminateCode::ProtectionInvalidStag);
                    continue;
                }
            }
            outgoing.end_frame(layout.length());
        }
    }

    /// The most bytes that the next frame can take up in the buffer.
    fn largest_copied(&self, cx: &Context<'_>) -> usize {
        let ulpdu = self.max_ulpdu as usize;
        if self.framer.markers() {
            ulpdu + ulpdu / 127 + 2 * FRAME_OVERHEAD
        } else if self.stream.has_answers() {
            // Memory that its owner may change is copied, however much it is.
            ulpdu + FRAME_OVERHEAD
        } else {
            ulpdu.min(cx.settings.gather_threshold as usize + 128) + FRAME_OVERHEAD
        }
    }
}

struct FrameWriter<'a> {
    registry: &'a Registry,
    pool: &'a mut Pool,
    outgoing: &'a mut Outgoing,
    crc: bool,
}

impl FrameWriter<'_> {
    /// Queues one frame. Returns whether its payload goes by reference.
    fn write(
        self,
        layout: &Layout,
        segment: &Segment<'_>,
        gather_threshold: u32,
        markers: bool,
    ) -> Result<bool, MemoryError> {
        match &segment.payload {
            SegmentPayload::Gather(gather) if !markers && gather.length() >= gather_threshold => {
                self.gather(layout, segment.header, gather).map(|()| true)
            }
            // Without a CRC, bytes that change meanwhile are torn and nothing else.
            SegmentPayload::Exposed(gather) if !markers && !self.crc && gather.length() >= gather_threshold => {
                self.gather(layout, segment.header, gather).map(|()| true)
            }
            SegmentPayload::Gather(gather) | SegmentPayload::Exposed(gather) if markers => {
                let mut source = HeldSource(HeldGather::new(gather, self.registry)?);
                // What is held can be copied.
                let _ = self.copy(layout, segment.header, &mut source);
                Ok(false)
            }
            SegmentPayload::Gather(gather) | SegmentPayload::Exposed(gather) => {
                let mut source = MemorySource { registry: self.registry, gather: *gather };
                self.copy(layout, segment.header, &mut source).map(|()| false)
            }
            SegmentPayload::Inline(bytes) => {
                let mut source: &[u8] = bytes;
                // Copying from a slice can't fail.
                let _ = self.copy(layout, segment.header, &mut source);
                Ok(false)
            }
            SegmentPayload::None => {
                let mut source: &[u8] = &[];
                let _ = self.copy(layout, segment.header, &mut source);
                Ok(false)
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
        self.outgoing.gather(gather);
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
    type Error = core::convert::Infallible;

    fn copy<D: Digest>(&mut self, out: &mut [u8], digest: &mut D) -> Result<(), Self::Error> {
        self.0.copy_out(out, digest);
        Ok(())
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
