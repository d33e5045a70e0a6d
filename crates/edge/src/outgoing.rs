//! Segments that are to be sent, or were sent and are not acknowledged.

use std::collections::VecDeque;

use arrayvec::ArrayVec;
use weft_base::Gather;
use weft_wire::ddp::{self, Header, Target};
use weft_wire::edge::frame::{MAX_OPTIONS_LENGTH, SegmentOptions, ddp_header_length};
use weft_wire::rdmap::queue;

use crate::inline_ring::InlineRing;
use crate::sent::Contents;

/// The most segments in one packet.
pub(crate) const MOST_IN_PACKET: usize = 16;
/// A segment that no longer fits is cut into parts of this many bytes of payload, which fit into every datagram; the
/// largest segment gives 64.
pub(crate) const PART: u32 = 1024;
/// Places for answers beyond the maximum number of segments: requests that the peer has no receive for may take all
/// other places, and answers to the peer must not wait for these.
const MORE_ANSWERS: usize = 64;

/// Segments for which an idle connection keeps its memory.
const IDLE_SEGMENTS: usize = 4;

/// Constraints on the order in which the peer places a segment. Only for a peer that honours them
/// ([`Connection::keeps_options`](crate::Connection::keeps_options)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// May be placed on arrival, whatever else is written to the same bytes.
    pub unordered: bool,
    /// Placed only after all positions below this. 0: no constraint.
    pub after: u64,
}

impl Options {
    /// The most bytes that they add to a segment.
    pub const MAX_LENGTH: usize = MAX_OPTIONS_LENGTH;

    /// Encodes them for a segment at this position. A fence too far back to encode waits for more than necessary.
    pub(crate) fn at(self, position: u64) -> SegmentOptions {
        debug_assert!(self.after <= position, "a segment that waits for itself");
        let back = u32::try_from(position.saturating_sub(self.after)).unwrap_or(u32::MAX);
        SegmentOptions { unordered: self.unordered, fence: (self.after > 0).then_some(back) }
    }

    pub(crate) fn of(options: SegmentOptions, position: u64) -> Self {
        let after = options.fence.map_or(0, |back| position.saturating_sub(u64::from(back)));
        Self { unordered: options.unordered, after }
    }
}

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

    /// Whether [`Source::next`] may have one. It is not called when this returns false.
    fn may_have(&self) -> bool {
        true
    }

    /// Tells whether the peer has no receive for a Send of this source. While it has none, the source should give only
    /// segments that do not wait for Sends: answers to the peer. Others fill the room that answers need. Returns
    /// whether the source honours this: if not, nothing is taken where there is room for answers alone.
    fn hold_requests(&mut self, _hold: bool) -> bool {
        false
    }
}

/// The bytes of a DDP header.
pub(crate) type DdpHeader = ArrayVec<u8, { ddp::UNTAGGED_LENGTH }>;

/// A segment that is kept until it is acknowledged.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) position: u64,
    pub(crate) ddp: DdpHeader,
    /// Position of the inline payload in the ring.
    start: u64,
    inline: u32,
    gather: Gather,
    is_steady: bool,
    pub(crate) ack_now: bool,
    pub(crate) options: Options,
    pub(crate) was_sent: bool,
    cut: bool,
    /// Parts to be sent, as bits.
    waiting: u64,
    acked: u64,
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

impl Stored {
    /// A segment whose payload is in the ring.
    const fn new(ddp: DdpHeader, start: u64, inline: u32) -> Self {
        let (gather, is_steady, ack_now) = (Gather::empty(), false, false);
        let (position, was_sent, cut, waiting, acked) = (0, false, false, 1, 0);
        let options = Options { unordered: false, after: 0 };
        Self { position, ddp, start, inline, gather, is_steady, ack_now, options, was_sent, cut, waiting, acked }
    }

    pub(crate) fn payload(&self) -> u32 {
        self.inline + self.gather.length()
    }

    /// Whether it may be sent though the peer has no receive for a Send before it: tagged segments, answers and
    /// Terminates. A request, which takes effect after that Send, would only wait there.
    fn passes_sends(&self) -> bool {
        match Header::parse(&self.ddp).map(|header| header.target) {
            Ok(Target::Untagged { queue, .. }) => queue != queue::SEND && queue != queue::READ_REQUEST,
            _ => true,
        }
    }

    fn takes(&self) -> u64 {
        u64::from(self.payload()) + u64::from(self.ddp[0] & 0x40 != 0)
    }

    /// All its parts, as bits.
    fn all(&self) -> u64 {
        let parts = if self.cut { self.payload().div_ceil(PART).max(1) } else { 1 };
        u64::MAX >> (64 - parts.min(64))
    }

    fn is_acked(&self) -> bool {
        self.acked == self.all()
    }

    /// Bytes of the whole as a ULPDU, with its options.
    pub(crate) fn length(&self) -> usize {
        self.ddp.len() + self.payload() as usize + self.options.at(self.position).length()
    }

    fn bits(&self, part: Option<u8>) -> u64 {
        match part {
            Some(part) if self.cut => 1 << part,
            _ => self.all(),
        }
    }
}

/// The segments: a ring in order of position.
#[derive(Debug)]
pub(crate) struct Outgoing {
    ring: VecDeque<Stored>,
    first: u64,
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
        self.ring.front().map_or(self.next, |front| front.position)
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
        self.ring.len() < self.most
    }

    /// Whether there is room for an answer with a ULPDU of `budget` bytes.
    pub(crate) fn has_room_for_answer(&self, budget: u32) -> bool {
        self.ring.len() < self.most + MORE_ANSWERS && self.bytes.has_room(budget as usize)
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
            let is_new = last.waiting != 0 && !last.cut && !last.was_sent;
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
        if self.ring.len() + segments > self.most {
            return None;
        }
        let place = self.bytes.place(most as usize)?;
        let Some(length) = write(self.bytes.get_mut(place, most)) else { return Some(None) };
        let length = length as u32;
        self.bytes.take(place, length);
        let head = head();
        let mut skip = 0;
        loop {
            let payload = room.min(length - skip);
            let is_last = skip + payload == length;
            let ddp = if payload == length { head.iter().copied().collect() } else { part_header(head, skip, is_last) };
            self.keep(Stored::new(ddp, place + u64::from(skip), payload));
            skip += payload;
            if is_last {
                return Some(Some(length));
            }
        }
    }

    /// Queues a segment.
    ///
    /// # Panics
    /// When it has no DDP header, or there is no room: bugs of the source.
    pub(crate) fn push(&mut self, segment: &Segment<'_>) {
        let (ddp, behind) = segment.header.split_at(ddp_header_length(segment.header[0]));
        let start = self.bytes.push(behind, segment.bytes);
        let inline = (behind.len() + segment.bytes.len()) as u32;
        let ddp = ddp.try_into().expect("as long as a DDP header");
        let Segment { gather, is_steady, ack_now, options, .. } = *segment;
        self.keep(Stored { gather, is_steady, ack_now, options, ..Stored::new(ddp, start, inline) });
    }

    fn keep(&mut self, stored: Stored) {
        let stored = Stored { position: self.next, ..stored };
        assert!(stored.payload() <= 64 * PART, "a segment of {} bytes is longer than a datagram", stored.payload());
        self.next += stored.takes();
        self.waiting += 1;
        self.ring.push_back(stored);
    }

    pub(crate) fn get(&self, serial: u64) -> &Stored {
        &self.ring[(serial - self.first) as usize]
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
        let has_receive = |stored: &Stored| held.is_none_or(|from| stored.position < from || stored.passes_sends());
        let is_free = |stored: &Stored| stored.options.after <= placeable;
        let mut waiting = candidates.filter(|(_, stored)| stored.waiting != 0).peekable();
        let first = waiting.peek().map(|(first, _)| *first)?;
        let found = waiting.find(|(_, stored)| has_receive(stored) && is_free(stored));
        let found = found.map(|(found, stored)| (found, stored.cut.then(|| stored.waiting.trailing_zeros() as u8)));
        if serial <= self.from {
            self.from = first;
        }
        found
    }

    /// The segment, or a part of it, is sent. Returns false for a retransmission.
    pub(crate) fn on_sent(&mut self, serial: u64, part: Option<u8>) -> bool {
        let stored = &mut self.ring[(serial - self.first) as usize];
        stored.waiting &= !stored.bits(part);
        if stored.waiting == 0 {
            self.waiting -= 1;
        }
        core::mem::replace(&mut stored.was_sent, true)
    }

    /// The segment is sent in parts from now on.
    pub(crate) fn cut(&mut self, serial: u64) {
        let stored = &mut self.ring[(serial - self.first) as usize];
        if !stored.cut {
            stored.cut = true;
            stored.waiting = stored.all();
        }
    }

    /// The bytes to send of a segment, or of a part of it: RFC 5041 section 5.2.
    pub(crate) fn sendable(&self, serial: u64, part: Option<u8>) -> Sendable<'_> {
        let stored = self.get(serial);
        let whole = stored.payload();
        let (skip, length) = part.map_or((0, whole), |part| {
            let skip = u32::from(part) * PART;
            (skip, PART.min(whole - skip))
        });
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
        let in_place = stored.is_steady && !stored.was_sent;
        let position = stored.position + u64::from(skip);
        Sendable { position, options: stored.options.at(position), ddp, inline, gather, in_place }
    }

    /// These contents are acknowledged.
    pub(crate) fn on_acked(&mut self, contents: &Contents) {
        for serial in contents.first..contents.first + u64::from(contents.count) {
            let Some(index) = serial.checked_sub(self.first) else { continue };
            let stored = &mut self.ring[index as usize];
            let was_waiting = stored.waiting != 0;
            let bits = stored.bits(contents.part);
            stored.acked |= bits;
            stored.waiting &= !bits;
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
            stored.waiting |= stored.bits(contents.part) & !stored.acked;
            is_new |= stored.waiting != before;
            if before == 0 && stored.waiting != 0 {
                self.waiting += 1;
            }
            self.from = self.from.min(serial);
        }
        is_new
    }

    /// Retransmits the first unacknowledged segment: unlike others, it need not wait for anything at the peer but a
    /// receive.
    pub(crate) fn send_first_again(&mut self) {
        let Some(stored) = self.ring.front_mut() else { return };
        self.waiting += usize::from(stored.waiting == 0);
        stored.waiting |= stored.all() & !stored.acked;
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
        self.waiting = 0;
    }
}

/// The DDP header of a part: its offset advanced, and Last only on the last one.
fn part_header(whole: &[u8], skip: u32, is_last: bool) -> DdpHeader {
    let mut bytes = [0; ddp::UNTAGGED_LENGTH];
    let Ok(mut header) = Header::parse(whole) else { return whole.iter().copied().collect() };
    match &mut header.target {
        Target::Tagged { offset, .. } => *offset = offset.wrapping_add(u64::from(skip)),
        Target::Untagged { offset, .. } => *offset = offset.wrapping_add(skip),
    }
    header.last &= is_last;
    let length = header.emit(&mut bytes);
    bytes[..length].iter().copied().collect()
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
