//! The fast path: a short segment that is sent at once, past the stream's queues, and a message that is written
//! straight to the ring that keeps it.

use weft_base::Time;
use weft_wire::ddp::UNTAGGED_LENGTH;
use weft_wire::edge::BASE_DATAGRAM;
use weft_wire::edge::frame::SEGMENT_OVERHEAD;
use weft_wire::edge::packet::HEADER_LENGTH;

use super::sending::{Draft, MOST_ACK};
use super::{Confirmation, Connection};
use crate::batch::Batch;
use crate::outgoing::Segment;
use crate::phase::Phase;

/// The longest segment on the fast path, header and payload: with an acknowledgement it fits into every datagram.
pub const MOST_PASSED: usize = BASE_DATAGRAM - HEADER_LENGTH - MOST_ACK - SEGMENT_OVERHEAD - 2;

impl Connection {
    /// Whether [`Connection::pass`] may send a segment now: none waits before it, and nothing but an acknowledgement is
    /// to be sent. Only where there is one rail.
    #[must_use]
    pub fn can_pass(&self, now: Time) -> bool {
        self.is_clear(now) && !self.outgoing.is_held() && self.outgoing.has_room(MOST_PASSED as u32)
    }

    /// Whether the only thing to send is one short segment of a message that [`Connection::write_message`] has kept,
    /// and it may be sent now.
    #[must_use]
    pub fn can_pass_kept(&self, now: Time) -> bool {
        self.outgoing.has_one_to_pass(MOST_PASSED) && self.is_clear(now)
    }

    /// Whether a segment may be sent on the only rail, with nothing else to send but an acknowledgement.
    fn is_clear(&self, now: Time) -> bool {
        let [rail] = &self.rails[..] else { return false };
        let is_open = self.phase == Phase::Open && !self.closing.wanted && self.blocked == 0;
        let is_proved = matches!(self.confirmation, Confirmation::Done) && rail.candidate.is_none();
        let is_silent = self.pending == 0 && !self.owes_close_ack && self.refusals.is_empty() && rail.probes == 0;
        is_open
            && is_proved
            && is_silent
            && rail.place.is_some()
            && rail.response.is_none()
            && rail.sent.has_room(true)
            && rail.window_is_open()
            && rail.pacer.free_at(self.settings.batch_time) <= now
    }

    /// Writes a datagram with this segment to the empty batch `out`, in one piece, with the acknowledgement that is due
    /// or will be before the next packet. Only if [`Connection::can_pass`].
    ///
    /// # Panics
    /// When the segment is longer than [`MOST_PASSED`] bytes or has bytes to gather.
    pub fn pass(&mut self, segment: &Segment<'_>, now: Time, out: &mut Batch) {
        debug_assert!(self.can_pass(now), "a segment that overtakes others");
        let length = segment.header.len() + segment.bytes.len();
        assert!(length <= MOST_PASSED && segment.gather.is_empty(), "{length} bytes are too long, or gathered");
        self.outgoing.push(segment);
        self.rails[0].see_quiet(now);
        self.pass_last(now, out);
    }

    /// As [`Connection::pass`], for the kept segment. Only if [`Connection::can_pass_kept`]. Returns false when it has
    /// to wait after all.
    pub fn pass_kept(&mut self, now: Time, out: &mut Batch) -> bool {
        debug_assert!(self.can_pass_kept(now), "a segment that overtakes others");
        let may = self.may_send_segments(0, now);
        if may {
            self.pass_last(now, out);
        }
        may
    }

    fn pass_last(&mut self, now: Time, out: &mut Batch) {
        let place = self.rails[0].place.expect("the fast path needs a validated path");
        let size = self.rails[0].mtu.current();
        let header = self.header(0);
        let Batch { bytes, pieces, .. } = out;
        let mut draft = Draft::new(bytes, pieces, &header, place);
        if self.takes_ack_along(0, now) {
            self.acknowledge(0, &mut draft, now);
        }
        let serial = self.outgoing.end_serial() - 1;
        let room = size - draft.length();
        let is_in = self.put_segment(serial, None, &mut draft, room);
        debug_assert!(is_in, "a short segment fits");
        self.finish(draft, now, &mut out.datagrams);
        self.on_nothing_to_send();
    }

    /// Writes an untagged message of at most `most` bytes straight to the ring that keeps it until it is acknowledged;
    /// `write` returns its length, or `None` if there is no message. `head` gives the DDP header of the message in one
    /// segment; a message that is too long for a datagram is cut. [`Connection::transmit`] sends it. Returns `None`
    /// when there is no room, without calling `write`; `Some(None)` when there was no message.
    pub fn write_message<'h>(
        &mut self,
        most: u32,
        write: impl FnOnce(&mut [u8]) -> Option<usize>,
        head: impl FnOnce() -> &'h [u8],
    ) -> Option<Option<u32>> {
        if self.phase != Phase::Open || self.closing.wanted {
            return None;
        }
        let room = self.datagram_size() - HEADER_LENGTH - SEGMENT_OVERHEAD - UNTAGGED_LENGTH;
        self.outgoing.write((most, room as u32), write, head)
    }

    /// Whether [`Connection::transmit`] may write something though the source is empty. It may turn out to be nothing.
    #[must_use]
    pub fn is_due(&self, now: Time) -> bool {
        let [rail] = &self.rails[..] else { return true };
        self.is_word_due(0, now)
            || self.outgoing.is_waiting()
            || self.is_close_due()
            || rail.response.is_some()
            || rail.candidate.is_some_and(|candidate| candidate.due <= now)
            || rail.paced_until.is_some_and(|until| until <= now)
            || self.path_probe(0).is_some()
    }
}
