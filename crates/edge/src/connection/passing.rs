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
use crate::stored::Options;

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
            && rail.pacer.free_at(rail.burst(self.settings.batch_time)) <= now
    }

    /// Writes a datagram with this segment to the empty batch `out`, in one piece, with the acknowledgement that is due
    /// or will be before the next packet. Only if [`Connection::can_pass`].
    ///
    /// # Panics
    /// When the segment is longer than [`MOST_PASSED`] bytes, has bytes to gather, or options.
    pub fn pass(&mut self, segment: &Segment<'_>, now: Time, out: &mut Batch) {
        debug_assert!(self.can_pass(now), "a segment that overtakes others");
        let length = segment.header.len() + segment.bytes.len();
        let is_short = length <= MOST_PASSED && segment.gather.is_empty() && segment.options == Options::default();
        assert!(is_short, "{length} bytes are too long, gathered, or have options");
        self.rails[0].see_quiet(now);
        self.pass_alone(now, out, |connection, draft, room| connection.put_new(segment, draft, room));
    }

    /// As [`Connection::pass`], for the kept segment. Only if [`Connection::can_pass_kept`]. Returns false when it has
    /// to wait after all.
    pub fn pass_kept(&mut self, now: Time, out: &mut Batch) -> bool {
        debug_assert!(self.can_pass_kept(now), "a segment that overtakes others");
        let may = self.may_send_segments(0, now);
        if may {
            self.pass_alone(now, out, |connection, draft, room| {
                let serial = connection.outgoing.end_serial() - 1;
                let is_in = connection.put_segment(serial, None, draft, room);
                debug_assert!(is_in, "a short segment fits");
            });
        }
        may
    }

    /// Writes a datagram with one segment, which `put` puts in, and the acknowledgement that it takes along.
    #[inline]
    fn pass_alone(&mut self, now: Time, out: &mut Batch, put: impl FnOnce(&mut Self, &mut Draft<'_>, usize)) {
        let place = self.rails[0].place.expect("the fast path needs a validated path");
        let size = self.rails[0].mtu.current();
        let header = self.header(0);
        let Batch { bytes, pieces, .. } = out;
        let mut draft = Draft::new(bytes, pieces, &header, place);
        if self.takes_ack_along(0, now) {
            self.acknowledge(0, &mut draft, now);
        }
        let room = size - draft.length();
        put(self, &mut draft, room);
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

#[cfg(test)]
mod tests {
    use core::net::SocketAddr;

    use weft_base::Gather;

    use super::*;
    use crate::connection::Established;
    use crate::outgoing::Source;
    use crate::settings::Settings;

    struct One<'a>(Option<Segment<'a>>);

    impl Source for One<'_> {
        fn next(&mut self, _: u32) -> Option<Segment<'_>> {
            self.0.take()
        }
    }

    #[test]
    fn a_passed_segment_is_written_and_kept_as_any_other() {
        let (settings, now) = (Settings::default(), Time::from_nanos(1_000_000));
        let established = Established::unknown(SocketAddr::from(([10, 0, 0, 1], 4791)), 1, &settings);
        // A DDP header, and bytes behind it.
        let header = &[[0x41, 0x43].as_slice(), &[0; 16], &[5; 6]].concat();
        for (length, ack_now) in [(0, false), (8, false), (8, true), (MOST_PASSED - header.len(), false)] {
            let bytes = &vec![7; length];
            let (gather, options) = (Gather::empty(), Options::default());
            let segment = Segment { header, bytes, gather, is_steady: false, ack_now, options };
            let [(passed, one), (sent, other)] = [true, false].map(|passes| {
                let mut connection = Connection::new(&established, &settings, Time::ZERO);
                let mut batch = Batch::new(8, 1 << 17);
                if passes {
                    connection.pass(&segment, now, &mut batch);
                } else {
                    connection.transmit(&mut One(Some(segment)), now, &mut batch);
                }
                (batch, format!("{:?} {:?}", connection.outgoing, connection.rails[0].sent))
            });
            assert_eq!((passed.bytes, passed.datagrams), (sent.bytes, sent.datagrams), "{length} bytes");
            assert_eq!(one, other, "{length} bytes");
        }
    }
}
