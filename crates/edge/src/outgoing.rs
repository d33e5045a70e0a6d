//! Segments that are to be sent, or were sent and are not acknowledged.

use std::collections::VecDeque;

use weft_base::Gather;
use weft_wire::edge::frame::{SegmentOptions, ddp_header_length};

use crate::inline_ring::InlineRing;
use crate::row::{Contents, Span, bits};
use crate::stored::{DdpHeader, Options, PART, Stored, most_parts, part_header};

/// The most segments in one packet.
pub(crate) const MOST_IN_PACKET: usize = 16;
/// Places for answers beyond the maximum number of segments: requests that the peer has no receive for may take all
/// other places, and answers to the peer must not wait for these.
const MORE_ANSWERS: usize = 64;

/// Segments for which an idle connection keeps its memory.
const IDLE_SEGMENTS: usize = 4;

/// A segment to be sent.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    /// Its DDP header, and the bytes that directly follow it.
    pub header: &'a [u8],
    /// Payload that is copied now.
    pub bytes: &'a [u8],
    /// The rest of the payload, gathered when the segment is sent or retransmitted: it must stay valid until the
    /// segment's positions are acknowledged.
    pub gather: Gather,
    /// Whether the gathered bytes are unlikely to change, so that they need not be copied before they are checksummed.
    /// Only for the first transmission: a segment that changed meanwhile arrives damaged, and is copied when it is
    /// retransmitted.
    pub is_steady: bool,
    /// Whether an immediate acknowledgement is needed: the end of a signalled message, a fence.
    pub ack_now: bool,
    /// Constraints on the order of placement.
    pub options: Options,
}

/// Provides segments.
pub trait Source {
    /// The next segment, with a ULPDU of at most `budget` bytes (never less than 128), or of [`Options::MAX_LENGTH`]
    /// bytes less if it has options. `None`: there is none now.
    fn next(&mut self, budget: u32) -> Option<Segment<'_>>;

    /// As [`Source::next`], for a segment that is sent in up to `most` packets, each with a ULPDU of at most `budget`
    /// bytes. In the middle of a long message it takes at most `mid_message` packets. Returns also the bytes of payload
    /// in each packet; 0: the segment takes one packet.
    fn next_run(&mut self, budget: u32, most: u32, mid_message: u32) -> Option<(Segment<'_>, u32)> {
        let _ = (most, mid_message);
        self.next(budget).map(|segment| (segment, 0))
    }

    /// Whether [`Source::next`] may have one. It is not called when this returns false.
    fn may_have(&self) -> bool {
        true
    }

    /// Announces whether the peer has no receive for a Send of this source. While it has none, the source should give
    /// only segments that do not wait for Sends: answers to the peer. Others fill the room that answers need. Returns
    /// whether the source honours this: if not, nothing is taken where there is room for answers alone.
    fn hold_requests(&mut self, _hold: bool) -> bool {
        false
    }
}

/// A whole segment or a part of it, ready to be sent.
#[derive(Debug)]
pub(crate) struct Sendable<'a> {
    pub(crate) position: u64,
    pub(crate) options: SegmentOptions,
    pub(crate) ddp: DdpHeader,
    pub(crate) inline: &'a [u8],
    pub(crate) gather: Gather,
    /// Whether gathered bytes may be sent in place.
    pub(crate) in_place: bool,
}

/// The segments: a ring in order of position.
#[derive(Debug)]
pub(crate) struct Outgoing {
    ring: VecDeque<Stored>,
    first: u64,
    /// Places that are taken, and how many there are: one for each packet's part of a segment.
    places: usize,
    most: usize,
    next: u64,
    /// Number of segments with something to send.
    waiting: usize,
    /// No segment before this one has anything to send.
    from: u64,
    /// Sends and requests from this position on are held: the peer has no receive for the first of them.
    held_from: Option<u64>,
    /// Whether fenced segments are sent only when the positions before the fence are acknowledged.
    pub(crate) holds_fenced: bool,
    bytes: InlineRing,
}

impl Outgoing {
    pub(crate) fn new(most: usize, inline: usize) -> Self {
        Self {
            // It grows with the segments in flight.
            ring: VecDeque::new(),
            first: 0,
            places: 0,
            most,
            next: 0,
            waiting: 0,
            from: 0,
            held_from: None,
            holds_fenced: false,
            bytes: InlineRing::new(inline),
        }
    }

    /// Sets the limit of unacknowledged segments. Above a lowered limit no segment is taken from the source until
    /// acknowledgements have brought their number below it.
    pub(crate) fn set_most(&mut self, most: usize) {
        self.most = most;
    }

    /// All positions below this are acknowledged.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.ring.front().map_or(self.next, Stored::acknowledged)
    }

    /// The position of the next segment.
    pub(crate) fn end(&self) -> u64 {
        self.next
    }

    /// The serial of the next segment.
    pub(crate) fn end_serial(&self) -> u64 {
        self.first + self.ring.len() as u64
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    /// Whether there is room for a segment of any kind with a ULPDU of `budget` bytes.
    pub(crate) fn has_room(&self, budget: u32) -> bool {
        self.has_places() && self.bytes.has_room(budget as usize)
    }

    /// Whether there are places for segments other than answers.
    pub(crate) fn has_places(&self) -> bool {
        self.places < self.most
    }

    /// The number of packets for which a segment of any kind may be taken, with a ULPDU of `budget` bytes in each.
    pub(crate) fn room_for_run(&self, budget: u32) -> u32 {
        let most = most_parts(budget).min(self.most.saturating_sub(self.places) as u32);
        if self.bytes.has_room((budget * most) as usize) { most } else { 0 }
    }

    /// Whether there is room for an answer with a ULPDU of `budget` bytes.
    pub(crate) fn has_room_for_answer(&self, budget: u32) -> bool {
        self.places < self.most + MORE_ANSWERS && self.bytes.has_room(budget as usize)
    }

    /// Whether anything is to be sent, held or not.
    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting > 0
    }

    /// Whether a new segment could not be sent at once: others precede it, or the peer has no receive for one.
    pub(crate) fn is_held(&self) -> bool {
        self.waiting > 0 || self.held_from.is_some()
    }

    /// Whether the peer has no receive for a Send.
    pub(crate) fn is_refused(&self) -> bool {
        self.held_from.is_some()
    }

    /// Whether the last segment is the only one to be sent, is complete in the ring, requests no acknowledgement, has
    /// at most `most` bytes and was never sent.
    pub(crate) fn has_one_to_pass(&self, most: usize) -> bool {
        let passes = |last: &Stored| {
            let is_new = last.waiting != 0 && last.part == 0 && last.sent == 0;
            is_new && last.gather.is_empty() && last.options == Options::default() && last.length() <= most
        };
        self.waiting == 1 && self.held_from.is_none() && self.ring.back().is_some_and(passes)
    }

    /// Queues segments of one untagged message of at most `most` bytes whose payload `write` puts straight into the
    /// ring; `write` returns its length, or `None` if there is no message. `head` gives the DDP header of the whole,
    /// and each segment has up to `room` bytes of payload. Returns `None` when there is no room, without calling
    /// `write`.
    pub(crate) fn write<'h>(
        &mut self,
        (most, room): (u32, u32),
        write: impl FnOnce(&mut [u8]) -> Option<usize>,
        head: impl FnOnce() -> &'h [u8],
    ) -> Option<Option<u32>> {
        let segments = most.div_ceil(room).max(1) as usize;
        if self.places + segments > self.most {
            return None;
        }
        let place = self.bytes.place(most as usize)?;
        let Some(length) = write(self.bytes.get_mut(place, most)) else { return Some(None) };
        let length = length as u32;
        self.bytes.take(place, length);
        self.keep_in_parts(&Stored::new(head().iter().copied().collect(), place, length), room);
        Some(Some(length))
    }

    /// Queues a segment.
    ///
    /// # Panics
    /// When it has no DDP header, or there is no room: bugs of the source.
    pub(crate) fn push(&mut self, segment: &Segment<'_>) {
        let stored = self.store(segment);
        self.keep(stored);
    }

    /// Keeps a segment that was sent whole, and is the first that is not acknowledged or follows such.
    ///
    /// # Panics
    /// As [`Outgoing::push`].
    pub(crate) fn push_sent(&mut self, segment: &Segment<'_>) {
        let mut stored = self.store(segment);
        stored.position = self.next;
        (stored.waiting, stored.sent) = (0, 1);
        self.next += stored.takes();
        self.places += 1;
        self.ring.push_back(stored);
    }

    /// Queues a segment that is sent in packets with `part` bytes of its payload each: as one record for those that are
    /// full, and one for the rest, which leaves room for other segments in its packet.
    ///
    /// # Panics
    /// As [`Outgoing::push`].
    pub(crate) fn push_run(&mut self, segment: &Segment<'_>, part: u32) {
        let stored = self.store(segment);
        self.keep_in_parts(&stored, part);
    }

    fn store(&mut self, segment: &Segment<'_>) -> Stored {
        let (ddp, behind) = segment.header.split_at(ddp_header_length(segment.header[0]));
        let start = self.bytes.push(behind, segment.bytes);
        let inline = (behind.len() + segment.bytes.len()) as u32;
        let ddp = ddp.try_into().expect("as long as a DDP header");
        let Segment { gather, is_steady, ack_now, options, .. } = *segment;
        Stored { gather, is_steady, ack_now, options, ..Stored::new(ddp, start, inline) }
    }

    fn keep_in_parts(&mut self, stored: &Stored, part: u32) {
        let (payload, mut skip) = (stored.payload(), 0);
        let size = if part == 0 { payload.max(1) } else { part };
        loop {
            let full = ((payload - skip) / size).min(most_parts(size));
            let length = if full > 1 { full * size } else { size.min(payload - skip) };
            self.keep(stored.piece(skip, length, if full > 1 { size } else { 0 }));
            skip += length;
            if skip == payload {
                return;
            }
        }
    }

    fn keep(&mut self, stored: Stored) {
        let stored = Stored { position: self.next, ..stored };
        assert!(stored.payload() <= 64 * PART, "a segment of {} bytes is longer than a datagram", stored.payload());
        self.next += stored.takes();
        self.waiting += 1;
        self.places += usize::from(stored.places);
        self.ring.push_back(stored);
    }

    pub(crate) fn get(&self, serial: u64) -> &Stored {
        &self.ring[(serial - self.first) as usize]
    }

    /// Bytes of a segment, or of a part of it, as a ULPDU with its options.
    pub(crate) fn length(&self, serial: u64, part: Option<u8>) -> usize {
        let stored = self.get(serial);
        stored.length() - (stored.payload() - stored.span(part).length) as usize
    }

    /// The bytes of a part of a segment.
    pub(crate) fn span(&self, serial: u64, part: u8) -> Span {
        self.get(serial).span(Some(part))
    }

    /// The lowest segment from `serial` on that has something to send and is not held, and its first such part, if it
    /// is cut.
    pub(crate) fn next_waiting(&mut self, serial: u64) -> Option<(u64, Option<u8>)> {
        if self.waiting == 0 {
            return None;
        }
        let skip = serial.max(self.from).max(self.first) - self.first;
        let candidates = (self.first + skip..).zip(self.ring.iter().skip(skip as usize));
        let held = self.held_from;
        // Segments behind a held one are held as well.
        let placeable = if self.holds_fenced { self.acknowledged() } else { held.unwrap_or(u64::MAX) };
        let has_receive = |stored: &Stored| held.is_none_or(|from| stored.end() <= from || stored.passes_sends());
        let is_free = |stored: &Stored| stored.options.after <= placeable;
        let mut waiting = candidates.filter(|(_, stored)| stored.waiting != 0).peekable();
        let first = waiting.peek().map(|(first, _)| *first)?;
        let found = waiting.find(|(_, stored)| has_receive(stored) && is_free(stored));
        let found = found.map(|(found, stored)| (found, stored.first_waiting()));
        if serial <= self.from {
            self.from = first;
        }
        found
    }

    /// The segment, or a part of it, is sent. Returns true for a retransmission.
    pub(crate) fn on_sent(&mut self, serial: u64, part: Option<u8>) -> bool {
        let bit = self.get(serial).bit(part);
        self.on_sent_parts(serial, bit) > 0
    }

    /// `count` parts of a segment are sent, from part `first` on. Returns how many of them were sent before.
    pub(crate) fn on_sent_run(&mut self, serial: u64, first: u8, count: u32) -> u32 {
        self.on_sent_parts(serial, bits(first.into(), u32::from(first) + count))
    }

    fn on_sent_parts(&mut self, serial: u64, parts: u64) -> u32 {
        let stored = &mut self.ring[(serial - self.first) as usize];
        stored.waiting &= !parts;
        if stored.waiting == 0 {
            self.waiting -= 1;
        }
        let repeated = stored.sent & parts;
        stored.sent |= parts;
        repeated.count_ones()
    }

    /// The parts of a segment that are to be sent in a row: the bytes of each, the first one, and their number. `None`:
    /// it is not sent in parts.
    pub(crate) fn waiting_run(&self, serial: u64) -> Option<(u32, u8, u32)> {
        let stored = self.get(serial);
        let first = stored.first_waiting()?;
        Some((stored.part, first, (stored.waiting >> first).trailing_ones()))
    }

    /// The segment is sent in parts that fit into every datagram from now on. Returns the first one that is to be sent.
    pub(crate) fn cut(&mut self, serial: u64) -> Option<u8> {
        let stored = &mut self.ring[(serial - self.first) as usize];
        if stored.part != PART {
            stored.cut_again();
        }
        stored.first_waiting()
    }

    /// The bytes to send of a segment, or of a part of it: RFC 5041 section 5.2.
    pub(crate) fn sendable(&self, serial: u64, part: Option<u8>) -> Sendable<'_> {
        let stored = self.get(serial);
        let whole = stored.payload();
        let Span { start: skip, length } = stored.span(part);
        let inline = self.bytes.get(stored.start, stored.inline);
        let from = skip.min(stored.inline);
        let to = (skip + length).min(stored.inline);
        let (gather, ddp) = if length == whole {
            (stored.gather, stored.ddp.clone())
        } else {
            let gather = stored.gather.part(skip - from, length - (to - from));
            (gather, part_header(&stored.ddp, skip, skip + length == whole))
        };
        let inline = &inline[from as usize..to as usize];
        let in_place = stored.is_steady && stored.sent & stored.bit(part) == 0;
        let position = stored.position + u64::from(skip);
        Sendable { position, options: stored.options.at(position), ddp, inline, gather, in_place }
    }

    /// The payload of `count` full parts from part `first` on: what is in the ring, what is to be gathered, and whether
    /// it may be sent in place.
    pub(crate) fn payload(&self, serial: u64, first: u8, count: u32) -> (&[u8], Gather, bool) {
        let stored = self.get(serial);
        let Span { start, length } = stored.span(Some(first));
        let end = (start + length * count).min(stored.payload());
        let (from, to) = (start.min(stored.inline), end.min(stored.inline));
        let inline = if from < to { self.bytes.get(stored.start + u64::from(from), to - from) } else { &[] };
        let parts = bits(first.into(), u32::from(first) + count);
        let in_place = stored.is_steady && stored.sent & parts == 0;
        (inline, stored.gather.part(start - from, end - start - (to - from)), in_place)
    }

    /// Bytes of a segment's payload that are in the ring.
    pub(crate) fn inline_of(&self, serial: u64) -> u32 {
        self.get(serial).inline
    }

    /// These contents are acknowledged.
    pub(crate) fn on_acked(&mut self, contents: &Contents) {
        for serial in contents.first..contents.first + u64::from(contents.count) {
            let Some(index) = serial.checked_sub(self.first) else { continue };
            let stored = &mut self.ring[index as usize];
            let was_waiting = stored.waiting != 0;
            let parts = stored.parts_in(contents.part);
            stored.acked |= parts;
            stored.waiting &= !parts;
            if was_waiting && stored.waiting == 0 {
                self.waiting -= 1;
            }
        }
        while self.ring.front().is_some_and(Stored::is_acked) {
            self.pop();
        }
    }

    fn pop(&mut self) {
        if let Some(stored) = self.ring.pop_front() {
            self.bytes.free(stored.start, stored.inline);
            self.places -= usize::from(stored.places);
            self.first += 1;
        }
    }

    /// Queues these contents for retransmission, as far as they are not acknowledged. Returns true when anything was
    /// not queued yet.
    pub(crate) fn on_lost(&mut self, contents: &Contents) -> bool {
        let mut is_new = false;
        for serial in contents.first..contents.first + u64::from(contents.count) {
            let Some(index) = serial.checked_sub(self.first) else { continue };
            let stored = &mut self.ring[index as usize];
            let before = stored.waiting;
            stored.waiting |= stored.parts_of(contents.part) & !stored.acked;
            is_new |= stored.waiting != before;
            if before == 0 && stored.waiting != 0 {
                self.waiting += 1;
            }
            self.from = self.from.min(serial);
        }
        is_new
    }

    /// Retransmits the first unacknowledged segment, or the first such part of it: unlike others, it need not wait for
    /// anything at the peer but a receive.
    pub(crate) fn send_first_again(&mut self) {
        let Some(stored) = self.ring.front_mut() else { return };
        self.waiting += usize::from(stored.waiting == 0);
        let missing = stored.all() & !stored.acked;
        stored.waiting |= missing & missing.wrapping_neg();
        self.from = self.first;
    }

    /// The peer has no receive for the untagged segment at `position`. False when there is no such position.
    pub(crate) fn hold(&mut self, position: u64) -> bool {
        let known = position < self.next;
        if known {
            self.held_from = Some(self.held_from.map_or(position, |held| held.min(position)));
        }
        known
    }

    /// Releases all held segments.
    pub(crate) fn release(&mut self) {
        self.held_from = None;
        self.from = self.first;
    }

    /// Releases memory that no segment in flight needs.
    pub(crate) fn shrink(&mut self) {
        self.ring.shrink_to(IDLE_SEGMENTS);
        self.bytes.shrink();
    }

    /// Drops everything that is to be sent.
    pub(crate) fn abandon(&mut self) {
        self.next = self.acknowledged();
        self.first += self.ring.len() as u64;
        self.ring.clear();
        self.bytes.clear();
        (self.waiting, self.places) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use weft_base::{RegionId, Slice};

    use super::*;

    #[test]
    fn what_is_steady_may_be_sent_from_where_it_is_the_first_time_only() {
        let region = RegionId { index: 1, generation: 0 };
        let gather = Gather::from(Slice { region, offset: 0, length: 5000 });
        let mut outgoing = Outgoing::new(8, 4096);
        for is_steady in [true, false] {
            let options = Options::default();
            outgoing.push(&Segment { header: &[0x40; 18], bytes: &[], gather, is_steady, ack_now: false, options });
        }
        assert!(outgoing.sendable(0, None).in_place && !outgoing.sendable(1, None).in_place);
        assert!(!outgoing.on_sent(0, None));
        let contents = Contents { first: 0, count: 1, ..Contents::default() };
        assert!(outgoing.on_lost(&contents));
        assert!(!outgoing.sendable(0, None).in_place, "its memory may have changed");
        outgoing.cut(0);
        assert!(!outgoing.sendable(0, Some(3)).in_place);
    }

    #[test]
    fn one_passes_that_is_short_and_new_and_alone() {
        let write = |outgoing: &mut Outgoing, length: usize| {
            let written = outgoing.write((4096, 1000), |_| Some(length), || &[0x40; 18]);
            assert_eq!(written, Some(Some(length as u32)));
        };
        let mut outgoing = Outgoing::new(8, 64 << 10);
        assert!(!outgoing.has_one_to_pass(118), "nothing is queued");
        write(&mut outgoing, 101);
        assert!(!outgoing.has_one_to_pass(118), "a byte too long");
        assert!(outgoing.has_one_to_pass(119));
        outgoing.hold(0);
        assert!(!outgoing.has_one_to_pass(119), "the peer has no receive for it");
        outgoing.release();
        assert!(outgoing.has_one_to_pass(119));
        write(&mut outgoing, 8);
        assert!(!outgoing.has_one_to_pass(119), "two are to be sent");
        outgoing.on_sent(0, None);
        assert!(outgoing.has_one_to_pass(119));
        outgoing.on_sent(1, None);
        assert!(!outgoing.has_one_to_pass(119), "both were sent");
        assert!(outgoing.on_lost(&Contents { first: 1, count: 1, ..Contents::default() }));
        assert!(!outgoing.has_one_to_pass(119), "it was sent before");
    }
}
