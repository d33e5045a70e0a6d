//! Packets of message endpoints, and short work requests, that pass the queues by on the way out.
//!
//! A packet is written where its frame is laid out: no work request, no completion, and no copy. A work request that
//! finds nothing before it goes from the caller's hands to the port. On the wire they are the same RDMAP messages. What
//! can't go this way (the stream is not ready for it, markers, stages on other threads) goes through
//! the queue pair as other work requests do; the order is kept, because nothing passes by what waits there.

use weft_base::{NoDigest, Piece, Segmented};
use weft_memory::{MemoryError, Registry};
use weft_rdmap::{Payload, SendRequest, Stream};
use weft_wire::ddp::UNTAGGED_LENGTH;
use weft_wire::mpa::LENGTH_FIELD;
use weft_wire::rdmap::Receipt;

use super::bytes::Bytes;
use super::outgoing::Outgoing;
use super::send::{FRAME_OVERHEAD, Sender};
use super::staging::Pool;
use crate::lower::{Io, MOST_PASSED, Passed, PassedRequest, StreamSink};

/// What stands before a packet in its frame.
const BEFORE: usize = LENGTH_FIELD + UNTAGGED_LENGTH;
/// What the frame of a receipt takes.
const RECEIPT_ROOM: usize = BEFORE + Receipt::LENGTH + FRAME_OVERHEAD;

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

    /// Sends a short request at once, with the receipt that is due in front of it, or leaves everything as it was.
    pub(super) fn pass_request<P: Segmented, A: StreamSink>(
        &mut self,
        bytes: &mut Bytes<P>,
        above: &mut A,
        request: &SendRequest,
        io: &mut Io<'_, impl AsMut<Pool>>,
    ) -> PassedRequest {
        let operation = &request.operation;
        let Some(payload) = operation.short_payload(MOST_PASSED) else { return PassedRequest::Not };
        let mut stream = above.stream();
        let framer = self.framer.clone();
        let mut frames = [0; RECEIPT_ROOM + BEFORE + MOST_PASSED as usize + FRAME_OVERHEAD];
        let first = match stream.receipt_to_pass() {
            Some(receipt) if !framer.markers() => self.write_receipt(receipt, &mut frames),
            Some(_) => return PassedRequest::Not,
            None => 0,
        };
        let Some(written) = self.write_request(&mut stream, request, payload, &mut frames[first..], io.registry) else {
            self.framer = framer;
            return PassedRequest::Not;
        };
        let frames = &frames[..first + written];
        let units = &mut [first, written].into_iter().filter(|length| *length > 0).map(|length| length as u32);
        let taken = bytes.port.send_units(&[Piece::Bytes(frames)], units).unwrap_or(0);
        if taken == 0 {
            // The stage that sends gets the reason in its turn.
            self.framer = framer;
            return PassedRequest::Not;
        }
        if first > 0 {
            let rest = frames[..first].get(taken..).unwrap_or(&[]);
            if !rest.is_empty() {
                bytes.queue_frame(rest, io.scratch.as_mut());
            }
            stream.pass_receipt(rest.is_empty());
            self.path.count_frame();
            io.counters.sent_frames += 1;
        }
        let rest = &frames[taken.max(first)..];
        if !rest.is_empty() {
            bytes.queue_frame(rest, io.scratch.as_mut());
        }
        let is_gone = rest.is_empty();
        if stream.has_receipts() {
            stream.pass_owed(request, is_gone);
        } else {
            stream.pass(operation, is_gone);
        }
        self.path.count_frame();
        io.counters.sends += 1;
        io.counters.sent_wire_bytes += taken as u64;
        io.counters.sent_frames += 1;
        io.counters.sent_copied_bytes += u64::from(payload.length());
        if is_gone { PassedRequest::Gone } else { PassedRequest::Waits }
    }

    /// Writes the frame of a receipt. Returns its length.
    fn write_receipt(&mut self, receipt: &[u8], out: &mut [u8]) -> usize {
        let layout = self.framer.frame(receipt.len() as u32);
        layout.write_around(receipt, out);
        layout.length()
    }

    /// Writes the frame of a short request. Returns its length. `None`: it does not fit, or is something else.
    #[inline]
    fn write_request(
        &mut self,
        stream: &mut Stream,
        request: &SendRequest,
        payload: &Payload,
        out: &mut [u8],
        registry: &Registry,
    ) -> Option<usize> {
        let header = stream.header_to_pass(request)?;
        let length = header.len() + payload.length() as usize;
        if length > self.path.max_ulpdu as usize || self.framer.markers() {
            return None;
        }
        copy(payload, &mut out[LENGTH_FIELD + header.len()..LENGTH_FIELD + length], registry).ok()?;
        let layout = self.framer.frame(length as u32);
        layout.write_around(header, out);
        Some(layout.length())
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
