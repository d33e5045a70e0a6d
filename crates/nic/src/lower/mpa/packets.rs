//! Packets of message endpoints that pass the queues by, on the way out.
//!
//! A packet is written where its frame is laid out: no work request, no completion, and no copy. On the wire it is the same
//! RDMAP Send. What can't go this way (the stream is not ready for it, markers, stages on other threads) goes through
//! the queue pair as other work requests do; the order is kept, because nothing passes by what waits there.

use weft_wire::ddp::UNTAGGED_LENGTH;
use weft_wire::mpa::LENGTH_FIELD;

use super::outgoing::Outgoing;
use super::send::{FRAME_OVERHEAD, Sender};
use crate::lower::{Above, Io, Passed};

/// What stands before a packet in its frame.
const BEFORE: usize = LENGTH_FIELD + UNTAGGED_LENGTH;

impl Sender {
    /// Has a packet of at most `most` bytes written straight into its frame.
    pub(super) fn pass_packet<A: Above>(
        &mut self,
        outgoing: &mut Outgoing,
        above: &mut A,
        most: usize,
        io: &mut Io<'_>,
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
        let frame = outgoing.try_write(room, io.pool, |out| {
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
}
