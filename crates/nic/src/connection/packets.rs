//! Packets of message endpoints that pass the queues by.
//!
//! A packet is written where its frame is laid out, and read where its frame was staged: no work request, no receive request, no completion, and one copy less at the receiver.
//! On the wire it is the same RDMAP Send. What can't go this way (the stream is not ready for it, markers, stages on other threads, a frame that was not staged whole) goes through the queue pair as other
//! work requests do; the order is kept, because nothing passes by what waits there.

use weft_base::Port;
use weft_mpa::{Frame, FrameHead};
use weft_rdmap::Arrival;
use weft_wire::ddp::UNTAGGED_LENGTH;
use weft_wire::mpa::LENGTH_FIELD;

use super::transmit::FRAME_OVERHEAD;
use super::{Connection, Context, Running};
use crate::ids::State;

/// What stands before a packet in its frame.
const BEFORE: usize = LENGTH_FIELD + UNTAGGED_LENGTH;

/// What became of a packet that was to go out straight into its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passed {
    /// It is laid out, and goes with what is sent next.
    Yes,
    /// There was none.
    Nothing,
    /// Not now: something is to go before it, or there is no room.
    Not,
}

impl<P: Port> Connection<P> {
    /// Has a packet of at most `most` bytes written straight into its frame. `write` says how long it has become, or that there is none; it is asked only where a packet can go.
    pub(crate) fn pass_packet(
        &mut self,
        most: usize,
        cx: &mut Context<'_>,
        write: impl FnOnce(&mut [u8]) -> Option<usize>,
    ) -> Passed {
        let Some((running, _, _, outgoing)) = self.running() else { return Passed::Not };
        let room = BEFORE + most + FRAME_OVERHEAD;
        if !running.passes_packets() || !outgoing.has_room(room) {
            return Passed::Not;
        }
        let mut protocol = running.core.hold();
        let protocol = &mut *protocol;
        let fits = UNTAGGED_LENGTH + most <= protocol.max_ulpdu as usize;
        if !fits || protocol.framer.markers() || !protocol.stream.can_send_whole() {
            return Passed::Not;
        }
        let mut bytes = 0;
        let frame = outgoing.try_write(room, cx.pool, |out| {
            bytes = write(&mut out[BEFORE..BEFORE + most])?;
            let layout = protocol.framer.frame((UNTAGGED_LENGTH + bytes) as u32);
            layout.write_around(protocol.stream.send_whole(), out);
            Some(layout.length())
        });
        let Some(length) = frame else { return Passed::Nothing };
        outgoing.end_frame(length);
        protocol.frames_since_asked += 1;
        cx.counters.sent_frames += 1;
        cx.counters.sent_messages += 1;
        cx.counters.passed_packets_sent += 1;
        cx.counters.sent_copied_bytes += bytes as u64;
        Passed::Yes
    }
}

impl Running {
    /// Whether a packet may be laid out before what is posted next.
    fn passes_packets(&self) -> bool {
        let is_well = !self.send_closed && !self.verdict_pending && self.pipeline.is_none();
        is_well && !self.queue_pair.has_posted() && self.queue_pair.state() == State::Ready
    }

    /// Gives a frame, whose CRC was good, to the endpoint if it is one of its packets. Returns whether it has taken it.
    pub(super) fn hand_over(&mut self, head: &FrameHead, frame: &Frame<'_>, cx: &mut Context<'_>) -> bool {
        let Some(upper) = self.queue_pair.upper() else { return false };
        let Some(ulpdu) = frame.contiguous() else { return false };
        let stream = &mut self.core.hold().stream;
        let arrival = Arrival { start: head.start.0, end: head.end.0 };
        let Some(start) = stream.find_whole_send(arrival, ulpdu) else { return false };
        if !cx.packets.take(upper, &self.queue_pair, &ulpdu[start..], cx.now) {
            return false;
        }
        stream.take_whole_send(arrival);
        cx.counters.received_messages += 1;
        cx.counters.passed_packets_received += 1;
        true
    }
}
