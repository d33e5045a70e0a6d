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
/// A segment that does not fit any more is cut into parts of so many bytes of payload, which fit into every datagram;
/// the largest segment gives 64.
pub(crate) const PART: u32 = 1024;
/// Beyond the most segments so many answers are kept: requests that the peer has no receive for may take all other
/// places, and what the peer has asked for must not wait for these.
const MORE_ANSWERS: usize = 64;

/// Segments for which an idle connection keeps its memory.
const IDLE_SEGMENTS: usize = 4;

/// What a segment asks of the order in which the peer places it. Only for a peer that has said that it keeps these
/// ([`Connection::keeps_options`](crate::Connection::keeps_options)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// It may be placed as it comes, whatever else is written to the same bytes.
    pub unordered: bool,
    /// All positions below this are in place before it is. 0: nothing is waited for.
    pub after: u64,
}

impl Options {
    /// The most bytes that they add to a segment.
    pub const MAX_LENGTH: usize = MAX_OPTIONS_LENGTH;

    /// As they stand in the frame of a segment at this position. A fence that is too far away to be said waits for more
    /// than it has to.
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
    /// Its DDP header, and what follows it at once.
    pub header: &'a [u8],
    /// Payload that is copied now.
    pub bytes: &'a [u8],
    /// The rest of the payload, which is gathered when the segment is sent, and again when it is sent again: it stays
    /// until the segment's positions are acknowledged.
    pub gather: Gather,
    /// What is gathered is likely to stay as it is until then, so it need not be copied before it is summed up. Only
    /// the first time: a segment that changed meanwhile arrives damaged, and is copied when it is sent again.
    pub is_steady: bool,
    /// Somebody waits for the acknowledgement: the end of a signalled message, a fence.
    pub ack_now: bool,
    /// What it asks of the order of placement.
    pub options: Options,
}

/// Where segments come from.
pub trait Source {
    /// The next one, with a ULPDU of at most `budget` bytes (never asked with less than 128), or with
    /// [`Options::MAX_LENGTH`] bytes less where it has options. `None`: there is none now.
    fn next(&mut self, budget: u32) -> Option<Segment<'_>>;

    /// Whether [`Source::next`] may have one. What says no here is not asked.
    fn may_have(&self) -> bool {
        true
    }

    /// Whether the peer has no receive for a Send of this source. While it has none, only what does not wait for
    /// Sends should come: answers to the peer. What else comes fills the room that these need. Returns whether it
    /// keeps to that: else nothing is taken where there is room for answers alone.
    fn hold_requests(&mut self, _hold: bool) -> bool {
        false
    }
}

/// The bytes of a DDP header.
pub(crate) type DdpHeader = ArrayVec<u8, { ddp::UNTAGGED_LENGTH }>;

/// A segment that is kept.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) position: u64,
    pub(crate) ddp: DdpHeader,
    /// Inline payload, in the ring.
    start: u64,
    inline: u32,
    gather: Gather,
    is_steady: bool,
    pub(crate) ack_now: bool,
    pub(crate) options: Options,
    pub(crate) was_sent: bool,
    cut: bool,
    /// Parts that are to be sent.
    waiting: u64,
    acked: u64,
}

/// A whole segment or a part of it, as it is to be sent now.
#[derive(Debug)]
pub(crate) struct Sendable<'a> {
    pub(crate) position: u64,
    pub(crate) options: SegmentOptions,
    pub(crate) ddp: DdpHeader,
    pub(crate) inline: &'a [u8],
    pub(crate) gather: Gather,
    /// What is gathered may be sent from where it is.
    pub(crate) in_place: bool,
}

impl Stored {
    /// One of payload that is kept.
    const fn new(ddp: DdpHeader, start: u64, inline: u32) -> Self {
        let (gather, is_steady, ack_now) = (Gather::empty(), false, false);
        let (position, was_sent, cut, waiting, acked) = (0, false, false, 1, 0);
        let options = Options { unordered: false, after: 0 };
        Self { position, ddp, start, inline, gather, is_steady, ack_now, options, was_sent, cut, waiting, acked }
    }

    pub(crate) fn payload(&self) -> u32 {
        self.inline + self.gather.length()
    }

    /// Whether it goes though the peer has no receive for a Send before it: what is tagged, and answers and
    /// Terminates. A request, which has its effect after that Send, would only wait there.
    fn passes_sends(&self) -> bool {
        match Header::parse(&self.ddp).map(|header| header.target) {
            Ok(Target::Untagged { queue, .. }) => queue != queue::SEND && queue != queue::READ_REQUEST,
            _ => true,
        }
    }

    fn takes(&self) -> u64 {
        u64::from(self.payload()) + u64::from(self.ddp[0] & 0x40 != 0)
    }

    /// All its parts.
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
    /// Segments with something to send.
    waiting: usize,
    /// None before this one has anything to send.
    from: u64,
    /// Sends and requests from this position on are held: the peer has no receive for the first of them.
    held_from: Option<u64>,
    /// What is to be placed behind others leaves when these are acknowledged, not before.
    pub(crate) holds_fenced: bool,
    bytes: InlineRing,
}

impl Outgoing {
    pub(crate) fn new(most: usize, inline: usize) -> Self {
        Self {
            // It grows with what is under way.
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

    /// All positions below this are acknowledged.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.ring.front().map_or(self.next, |front| front.position)
    }

    /// The position that the next segment gets.
    pub(crate) fn end(&self) -> u64 {
        self.next
    }

    /// The serial that the next segment gets.
    pub(crate) fn end_serial(&self) -> u64 {
        self.first + self.ring.len() as u64
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    /// Whether a segment of any kind with a ULPDU of `budget` bytes can be kept.
    pub(crate) fn has_room(&self, budget: u32) -> bool {
        self.has_places() && self.bytes.has_room(budget as usize)
    }

    /// Whether there are places for more segments than answers.
    pub(crate) fn has_places(&self) -> bool {
        self.ring.len() < self.most
    }

    /// Whether an answer with a ULPDU of `budget` bytes can be kept.
    pub(crate) fn has_room_for_answer(&self, budget: u32) -> bool {
        self.ring.len() < self.most + MORE_ANSWERS && self.bytes.has_room(budget as usize)
    }

    /// Whether something is to be sent, held or not.
    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting > 0
    }

    /// Whether a new segment could not leave at once: others go before it, or the peer has no receive for one.
    pub(crate) fn is_held(&self) -> bool {
        self.waiting > 0 || self.held_from.is_some()
    }

    /// Whether the peer has no receive for a Send.
    pub(crate) fn is_refused(&self) -> bool {
        self.held_from.is_some()
    }

    /// Whether nothing is to be sent but the last segment, which is at hand, asks for nothing, has no more than `most`
    /// bytes and was not sent before.
    pub(crate) fn has_one_to_pass(&self, most: usize) -> bool {
        let passes = |last: &Stored| {
            let is_new = last.waiting != 0 && !last.cut && !last.was_sent;
            is_new && last.gather.is_empty() && last.options == Options::default() && last.length() <= most
        };
        self.waiting == 1 && self.held_from.is_none() && self.ring.back().is_some_and(passes)
    }

    /// Keeps segments that are to be sent, of one untagged message whose payload is written straight to where it is
    /// kept: at most `most` bytes; `write` says how many, or that there is no message. `head` gives the DDP header of
    /// the whole, and each segment has up to `room` bytes of payload. None when there is no room, before `write` is
    /// asked.
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

    /// Keeps a segment that is to be sent.
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

    /// The lowest segment from `serial` on that has something to send and is not held, and of it the first part, if
    /// it is cut.
    pub(crate) fn next_waiting(&mut self, serial: u64) -> Option<(u64, Option<u8>)> {
        if self.waiting == 0 {
            return None;
        }
        let skip = serial.max(self.from).max(self.first) - self.first;
        let candidates = (self.first + skip..).zip(self.ring.iter().skip(skip as usize));
        let held = self.held_from;
        // What is behind one that is held has no better chance.
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

    /// The segment, or a part of it, leaves. False: it is left again.
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

    /// What is to be sent of a segment, or of a part of it: RFC 5041 section 5.2.
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

    /// What these contents say has arrived.
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

    /// What these contents say is to be sent again, as far as it has not arrived. True when that is something which
    /// did not wait already.
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

    /// What comes first of all that is not acknowledged is to be sent again: unlike others, it need not wait for
    /// anything at the peer but a receive.
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

    /// Nothing is held any more.
    pub(crate) fn release(&mut self) {
        self.held_from = None;
        self.from = self.first;
    }

    /// Gives back memory that nothing needs which is under way.
    pub(crate) fn shrink(&mut self) {
        self.ring.shrink_to(IDLE_SEGMENTS);
        self.bytes.shrink();
    }

    /// Nothing is to be sent any more.
    pub(crate) fn abandon(&mut self) {
        self.next = self.acknowledged();
        self.first += self.ring.len() as u64;
        self.ring.clear();
        self.bytes.clear();
        self.waiting = 0;
    }
}

/// The DDP header of a part: its offset moved, and Last only on the last one.
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
        assert!(!outgoing.sendable(0, None).in_place, "it may have been damaged because its memory had changed");
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
        assert!(!outgoing.has_one_to_pass(118), "nothing is there");
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
