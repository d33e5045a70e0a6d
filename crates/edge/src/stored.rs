//! A segment that is kept until it is acknowledged, and its parts.
//!
//! It is sent whole, or in parts: in packets of a run, or because it was made for a larger datagram.

use arrayvec::ArrayVec;
use weft_base::Gather;
use weft_wire::ddp::{self, Header, Target};
use weft_wire::edge::frame::{MAX_OPTIONS_LENGTH, SegmentOptions};
use weft_wire::rdmap::queue;

use crate::row::{Span, bits};

/// A segment that no longer fits is cut into parts of this many bytes of payload, which fit into every datagram; the
/// largest segment gives 64.
pub(crate) const PART: u32 = 1024;
/// The most parts of a segment: they are bits.
const MOST_PARTS: u32 = u64::BITS;

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

/// The bytes of a DDP header.
pub(crate) type DdpHeader = ArrayVec<u8, { ddp::UNTAGGED_LENGTH }>;

/// A segment that is kept until it is acknowledged.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) position: u64,
    pub(crate) ddp: DdpHeader,
    /// Position of the inline payload in the ring.
    pub(crate) start: u64,
    pub(crate) inline: u32,
    pub(crate) gather: Gather,
    pub(crate) is_steady: bool,
    pub(crate) ack_now: bool,
    pub(crate) options: Options,
    /// Bytes of payload of each part but the last, which may have fewer. 0: it is sent whole.
    pub(crate) part: u32,
    /// Places that it takes.
    pub(crate) places: u8,
    /// Parts to be sent, parts sent at least once, and acknowledged parts, as bits.
    pub(crate) waiting: u64,
    pub(crate) sent: u64,
    pub(crate) acked: u64,
    /// Bytes at its beginning that were acknowledged when it was cut again.
    pub(crate) reached: u32,
}

impl Stored {
    /// A segment whose payload is in the ring.
    pub(crate) const fn new(ddp: DdpHeader, start: u64, inline: u32) -> Self {
        let (gather, is_steady, ack_now) = (Gather::empty(), false, false);
        let (position, part, places) = (0, 0, 1);
        let (waiting, sent, acked, reached) = (1, 0, 0, 0);
        let options = Options { unordered: false, after: 0 };
        Self {
            position,
            ddp,
            start,
            inline,
            gather,
            is_steady,
            ack_now,
            options,
            part,
            places,
            waiting,
            sent,
            acked,
            reached,
        }
    }

    /// This part of it, as a segment of its own that is sent with `part` bytes of payload in each packet (0: in one).
    /// Only the last one requests an acknowledgement.
    pub(crate) fn piece(&self, skip: u32, length: u32, part: u32) -> Self {
        if length == self.payload() {
            return Self { ddp: self.ddp.clone(), ..*self }.in_parts(part);
        }
        let is_last = skip + length == self.payload();
        let (from, to) = (skip.min(self.inline), (skip + length).min(self.inline));
        let piece = Self {
            ddp: part_header(&self.ddp, skip, is_last),
            start: self.start + u64::from(from),
            inline: to - from,
            gather: self.gather.part(skip - from, length - (to - from)),
            ack_now: self.ack_now && is_last,
            ..*self
        };
        piece.in_parts(part)
    }

    fn in_parts(mut self, part: u32) -> Self {
        self.part = part;
        (self.places, self.waiting) = (self.parts() as u8, self.all());
        self
    }

    pub(crate) fn payload(&self) -> u32 {
        self.inline + self.gather.length()
    }

    /// Whether it may be sent though the peer has no receive for a Send before it: tagged segments, answers and
    /// Terminates. A request, which takes effect after that Send, would only wait there.
    pub(crate) fn passes_sends(&self) -> bool {
        match Header::parse(&self.ddp).map(|header| header.target) {
            Ok(Target::Untagged { queue, .. }) => queue != queue::SEND && queue != queue::READ_REQUEST,
            _ => true,
        }
    }

    /// Whether it is the last segment of a message.
    pub(crate) fn ends_message(&self) -> bool {
        self.ddp[0] & 0x40 != 0
    }

    /// The number of its positions.
    pub(crate) fn takes(&self) -> u64 {
        u64::from(self.payload()) + u64::from(self.ends_message())
    }

    /// The position after it.
    pub(crate) fn end(&self) -> u64 {
        self.position + self.takes()
    }

    /// All positions of it below this are acknowledged. It never decreases.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.position + u64::from(self.reached.max(self.acked_bytes()))
    }

    /// Bytes at its beginning whose parts are acknowledged.
    fn acked_bytes(&self) -> u32 {
        (self.acked.trailing_ones() * self.part).min(self.payload())
    }

    /// The number of its parts.
    pub(crate) fn parts(&self) -> u32 {
        if self.part == 0 { 1 } else { self.payload().div_ceil(self.part).clamp(1, MOST_PARTS) }
    }

    /// All its parts, as bits.
    pub(crate) fn all(&self) -> u64 {
        bits(0, self.parts())
    }

    /// The bytes of a part; of the whole if it is not cut.
    pub(crate) fn span(&self, part: Option<u8>) -> Span {
        match part {
            Some(part) if self.part > 0 => {
                let start = u32::from(part) * self.part;
                Span { start, length: self.part.min(self.payload() - start) }
            }
            _ => Span { start: 0, length: self.payload() },
        }
    }

    /// The parts that lie within these bytes, as bits.
    pub(crate) fn parts_in(&self, span: Option<Span>) -> u64 {
        let Some(Span { start, length }) = span.filter(|_| self.part > 0) else { return self.all() };
        let end = start + length;
        bits(start.div_ceil(self.part), if end >= self.payload() { self.parts() } else { end / self.part })
    }

    /// The parts that have any of these bytes, as bits.
    pub(crate) fn parts_of(&self, span: Option<Span>) -> u64 {
        let Some(Span { start, length }) = span.filter(|_| self.part > 0) else { return self.all() };
        bits(start / self.part, (start + length).div_ceil(self.part).min(self.parts()))
    }

    /// Parts have [`PART`] bytes from now on. What is not acknowledged is sent again: of a new part that lies in two
    /// old ones no packet in flight has all.
    pub(crate) fn cut_again(&mut self) {
        let is_acked = |part: &u32| {
            let start = part * PART;
            let span = Span { start, length: PART.min(self.payload() - start) };
            self.parts_of(Some(span)) & !self.acked == 0
        };
        let count = self.payload().div_ceil(PART).max(1);
        let acked = (0..count).filter(is_acked).fold(0, |acked, part| acked | 1 << part);
        self.reached = self.reached.max(self.acked_bytes());
        (self.part, self.acked) = (PART, acked);
        self.waiting = self.all() & !acked;
        self.sent = if self.sent == 0 { 0 } else { self.all() };
    }

    pub(crate) fn is_acked(&self) -> bool {
        self.acked == self.all()
    }

    /// The first part to be sent, if it is sent in parts.
    pub(crate) fn first_waiting(&self) -> Option<u8> {
        (self.part > 0).then(|| self.waiting.trailing_zeros() as u8)
    }

    /// Bytes of the whole as a ULPDU, with its options.
    pub(crate) fn length(&self) -> usize {
        self.ddp.len() + self.payload() as usize + self.options.at(self.position).length()
    }

    pub(crate) fn bit(&self, part: Option<u8>) -> u64 {
        match part {
            Some(part) if self.part > 0 => 1 << part,
            _ => self.all(),
        }
    }
}

/// The most parts of this size in one record, so that it can be cut into parts of [`PART`] bytes.
pub(crate) const fn most_parts(size: u32) -> u32 {
    let most = MOST_PARTS * PART / size;
    if most < MOST_PARTS { most } else { MOST_PARTS }
}

/// The DDP header of a part: its offset advanced, and Last only on the last one.
pub(crate) fn part_header(whole: &[u8], skip: u32, is_last: bool) -> DdpHeader {
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

    /// A Write of as many bytes, in packets of `part`.
    fn stored(payload: u32, part: u32) -> Stored {
        let region = RegionId { index: 1, generation: 0 };
        let mut header = [0; ddp::UNTAGGED_LENGTH];
        let target = Target::Tagged { stag: weft_base::Stag(7), offset: 100 };
        let length = Header { last: true, control: 0x40, target }.emit(&mut header);
        let ddp = header[..length].iter().copied().collect();
        let gather = Gather::from(Slice { region, offset: 0, length: payload });
        Stored { gather, ack_now: true, ..Stored::new(ddp, 0, 0) }.piece(0, payload, part)
    }

    #[test]
    fn bytes_are_parts_and_parts_are_bytes() {
        let stored = stored(10_000, 3000);
        assert_eq!((stored.all(), stored.places), (0b1111, 4));
        assert_eq!(stored.span(Some(3)), Span { start: 9000, length: 1000 });
        assert_eq!(stored.span(None), Span { start: 0, length: 10_000 });
        for part in 0..4 {
            let span = Some(stored.span(Some(part)));
            assert_eq!([stored.parts_in(span), stored.parts_of(span)], [1 << part; 2]);
        }
        let span = Some(Span { start: 2500, length: 4000 });
        assert_eq!((stored.parts_in(span), stored.parts_of(span)), (0b0010, 0b0111));
        assert_eq!((stored.parts_in(None), stored.parts_of(None)), (0b1111, 0b1111));
        assert_eq!((bits(0, 64), bits(63, 64), bits(5, 5), bits(6, 5)), (u64::MAX, 1 << 63, 0, 0));
    }

    #[test]
    fn what_is_cut_again_loses_nothing_that_was_acknowledged_and_sends_the_rest() {
        let mut stored = stored(9000, 3000);
        (stored.sent, stored.waiting) = (0b111, 0);
        let [first, middle] = [Some(stored.span(Some(0))), Some(stored.span(Some(1)))];
        stored.acked |= stored.parts_in(first);
        assert_eq!(stored.acknowledged(), 3000);
        stored.cut_again();
        // Of nine parts the first two lie in the old one; the third has bytes of the next.
        assert_eq!((stored.all(), stored.acked, stored.waiting), (0x1ff, 0b11, 0x1fc));
        assert_eq!(stored.acknowledged(), 3000, "it never decreases");
        assert_eq!(stored.sent, stored.all(), "no part is sent from its memory any more");
        // A packet of before arrives.
        assert_eq!((stored.parts_in(middle), stored.parts_of(middle)), (0b1_1000, 0b11_1100));
    }

    #[test]
    fn a_piece_has_its_own_header_and_the_last_one_asks() {
        let whole = stored(10_000, 0);
        let [first, last] = [whole.piece(0, 9000, 3000), whole.piece(9000, 1000, 0)];
        assert_eq!((first.places, first.part, first.payload()), (3, 3000, 9000));
        assert_eq!((last.places, last.part, last.payload()), (1, 0, 1000));
        assert_eq!([first.ack_now, last.ack_now], [false, true]);
        let parse = |stored: &Stored| Header::parse(&stored.ddp).map(|header| (header.last, header.target)).unwrap();
        let target = |offset| Target::Tagged { stag: weft_base::Stag(7), offset };
        assert_eq!([parse(&first), parse(&last)], [(false, target(100)), (true, target(9100))]);
        assert_eq!((first.takes(), last.takes()), (9000, 1001));
    }
}
