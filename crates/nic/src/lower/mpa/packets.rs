//! Packets of message endpoints, and short work requests, that pass the queues by on the way out.
//!
//! A packet is written where its frame is laid out: no work request, no completion, and no copy. A work request that
//! finds nothing before it goes from the caller's hands to the port. On the wire they are the same RDMAP messages. What
//! can't go this way (the stream is not ready for it, markers, stages on other threads) goes through
//! the queue pair as other work requests do; the order is kept, because nothing passes by what waits there.

use weft_base::{NoDigest, Piece, Segmented};
use weft_memory::{MemoryError, Registry};
use weft_rdmap::{Operation, Payload};
use weft_wire::ddp::UNTAGGED_LENGTH;
use weft_wire::mpa::LENGTH_FIELD;

use super::bytes::Bytes;
use super::outgoing::Outgoing;
use super::send::{FRAME_OVERHEAD, Sender};
use super::staging::Pool;
use crate::lower::{Io, MOST_PASSED, Passed, PassedRequest, StreamSink};

/// What stands before a packet in its frame.
const BEFORE: usize = LENGTH_FIELD + UNTAGGED_LENGTH;

impl Sender {
    /// Has a packet of at most `most` bytes written straight into its frame.
    pub(super) fn pass_packet<A: StreamSink>(
        &mut self,
        outgoing: &mut Outgoing,
        above: &mut A,
        most: usize,
        io: &mut Io<'_, impl AsMut<Pool>>,
        write: impl FnOnce(&mut [u8]) -> Option<usize>,
    ) -> Passed {
        let room = BEFORE + most + FRAME_OVERHEAD;
        if !above.passes_packets() || !outgoing.has_room(room) {
            return Passed::Not;
        }
        let mut stream = above.stream();
        let fits = UNTAGGED_LENGTH + most <= self.path.max_ulpdu as usize;
        if !fits || self.framer.markers() || !stream.can_send_whole() {
            return Passed::Not;
        }
        let mut bytes = 0;
        let frame = outgoing.try_write(room, io.scratch.as_mut(), |out| {
            bytes = write(&mut out[BEFORE..BEFORE + most])?;
            let layout = self.framer.frame((UNTAGGED_LENGTH + bytes) as u32);
            layout.write_around(stream.send_whole(), out);
            Some(layout.length())
        });
        let Some(length) = frame else { return Passed::Nothing };
        outgoing.end_frame(length);
        self.path.count_frame();
        io.counters.sent_frames += 1;
        io.counters.sent_messages += 1;
        io.counters.passed_packets_sent += 1;
        io.counters.sent_copied_bytes += bytes as u64;
        Passed::Yes
    }

    /// Sends a short request at once, or leaves everything as it was.
    pub(super) fn pass_request<P: Segmented, A: StreamSink>(
        &mut self,
        bytes: &mut Bytes<P>,
        above: &mut A,
        operation: &Operation,
        io: &mut Io<'_, impl AsMut<Pool>>,
    ) -> PassedRequest {
        let Some(payload) = operation.short_payload(MOST_PASSED) else { return PassedRequest::Not };
        let mut stream = above.stream();
        let Some(header) = stream.header_to_pass(operation) else { return PassedRequest::Not };
        let length = header.len() + payload.length() as usize;
        if length > self.path.max_ulpdu as usize || self.framer.markers() {
            return PassedRequest::Not;
        }
        let mut frame = [0; BEFORE + MOST_PASSED as usize + FRAME_OVERHEAD];
        let place = &mut frame[LENGTH_FIELD + header.len()..LENGTH_FIELD + length];
        if copy(payload, place, io.registry).is_err() {
            return PassedRequest::Not;
        }
        let framer = self.framer.clone();
        let layout = self.framer.frame(length as u32);
        layout.write_around(header, &mut frame);
        let frame = &frame[..layout.length()];
        let units = &mut core::iter::once(frame.len() as u32);
        let taken = bytes.port.send_units(&[Piece::Bytes(frame)], units).unwrap_or(0);
        if taken == 0 {
            // The stage that sends gets the reason in its turn.
            self.framer = framer;
            return PassedRequest::Not;
        }
        let rest = &frame[taken..];
        if !rest.is_empty() {
            bytes.queue_frame(rest, io.scratch.as_mut());
        }
        let is_gone = rest.is_empty();
        stream.pass(operation, is_gone);
        self.path.count_frame();
        io.counters.sends += 1;
        io.counters.sent_wire_bytes += taken as u64;
        io.counters.sent_frames += 1;
        io.counters.sent_copied_bytes += u64::from(payload.length());
        if is_gone { PassedRequest::Gone } else { PassedRequest::Waits }
    }
}

/// Copies what a request sends.
#[inline]
fn copy(payload: &Payload, out: &mut [u8], registry: &Registry) -> Result<(), MemoryError> {
    match payload {
        Payload::Inline(bytes) => {
            out.copy_from_slice(bytes);
            Ok(())
        }
        Payload::Gather(gather) => registry.copy_out_gather(gather, 0, out, &mut NoDigest),
    }
}
