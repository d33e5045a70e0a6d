//! A run: packets in a row with one segment each and nothing else, whose segments are consecutive parts of one DDP
//! message. Their numbers, positions and offsets count on, and everything else in their headers is the same. So the
//! first is parsed, and the others are compared with what they must be; and they are written from one template.

use core::ops::Range;

use super::EdgeError;
use super::frame::{self, CRC_LENGTH, Frame, Segment, SegmentOptions, ddp_header_length, kind};
use super::packet::{ACK_NOW, CHECK, HEADER_LENGTH, Header, NUMBER, Packet, before_check, unchecked};
use crate::Crc32c;
use crate::bytes::{read_u64, write_u32, write_u64};
use crate::ddp::{LAST, TAGGED_LENGTH, UNTAGGED_LENGTH};

/// The most packets of a run: as many as Linux joins in one receive (UDP_GRO_CNT_MAX).
pub const MOST_IN_RUN: usize = 64;

const POSITION_LENGTH: usize = 6;
/// The most bytes before the payload: header, type, options without a fence, position, DDP header.
const MOST_HEAD: usize = HEADER_LENGTH + 2 + POSITION_LENGTH + UNTAGGED_LENGTH;
/// Bytes before the payload, with a tagged DDP header and without options.
pub const TAGGED_HEAD: usize = HEADER_LENGTH + 1 + POSITION_LENGTH + TAGGED_LENGTH;
/// The same with an untagged DDP header.
pub const UNTAGGED_HEAD: usize = HEADER_LENGTH + 1 + POSITION_LENGTH + UNTAGGED_LENGTH;
/// The most bytes between header and payload, which the header check covers.
const MOST_COVERED: usize = MOST_HEAD - HEADER_LENGTH;
/// Bits that a position leaves of a word.
const NOT_POSITION: u32 = u64::BITS - 8 * POSITION_LENGTH as u32;

/// In a template: the header before its check, the whole number before that, and what is covered before the number.
const WORDS: usize = 64;
const HEADER: usize = WORDS - CHECK;
const WHOLE_NUMBER: usize = HEADER - size_of::<u64>();

/// What a CRC is fed first, and is not to cover, has to leave its register as it was: all ones, which the first four
/// bytes take away, so that zeros change nothing, and the last four bring back.
const REGISTER: usize = size_of::<u32>();
const LEAST_FILL: usize = 2 * REGISTER;
const FIRST_FILL: [u8; REGISTER] = [u8::MAX; REGISTER];
const LAST_FILL: [u8; REGISTER] = before_four_bytes(u32::MAX).to_le_bytes();
const _: () = assert!(MOST_COVERED + LEAST_FILL <= WHOLE_NUMBER, "there is room for the fill");

/// The register of the CRC which becomes this one when four zeros are fed.
const fn before_four_bytes(register: u32) -> u32 {
    // The polynomial, its bits reversed as in the register.
    const POLYNOMIAL: u32 = 0x82f6_3b78;
    let (mut register, mut bit) = (register, 0);
    while bit < u32::BITS {
        // Only a one that was shifted out has set the highest bit.
        register = if register >> 31 == 1 { (register ^ POLYNOMIAL) << 1 | 1 } else { register << 1 };
        bit += 1;
    }
    register
}

/// The bytes before the payload of the packets of a run, in the order in which the header check covers them: first a
/// fill that it does not cover, then what is between header and payload, the whole number, and the header before the
/// check. So whole words are summed up, and all that changes from packet to packet has a fixed place.
#[derive(Clone, Copy, Debug)]
#[repr(align(8))]
struct Template {
    bytes: [u8; WORDS],
    /// Bytes of the DDP header, which ends before the whole number, and those before the payload.
    ddp_length: usize,
    payload_at: usize,
    /// The two bytes before the position, in one word with it.
    before_position: u64,
    /// Of the first packet's segment: its position, and its offset in the buffer or in the message.
    position: u64,
    offset: u64,
}

impl Template {
    /// Of the bytes before the payload of the first packet.
    fn new(first: &[u8], position: u64) -> Option<Self> {
        let covered = first.get(HEADER_LENGTH..)?;
        let options = usize::from(*covered.first()? == kind::OPTIONS_SEGMENT);
        let ddp_at = 1 + options + POSITION_LENGTH;
        let ddp_length = ddp_header_length(*covered.get(ddp_at)?);
        if ddp_at + ddp_length != covered.len() {
            return None;
        }
        let mut bytes = [0; WORDS];
        let covered_at = WHOLE_NUMBER - covered.len();
        bytes[..REGISTER].copy_from_slice(&FIRST_FILL);
        bytes[covered_at - REGISTER..covered_at].copy_from_slice(&LAST_FILL);
        bytes[covered_at..WHOLE_NUMBER].copy_from_slice(covered);
        bytes[HEADER..].copy_from_slice(before_check(first));
        let word = |end| read_u64(&bytes, end - size_of::<u64>());
        let before_position = word(WHOLE_NUMBER - ddp_length) & !(u64::MAX >> NOT_POSITION);
        let offset = word(WHOLE_NUMBER);
        Some(Self { bytes, ddp_length, payload_at: first.len(), before_position, position, offset })
    }

    /// Makes it that of the packet with this number, whose payload begins `skip` bytes behind the first's. The offset
    /// is the last of a DDP header: 8 bytes of a tagged one (RFC 5041 figure 4), or 4 of an untagged one (figure 5).
    #[inline]
    fn set<const DDP: usize>(&mut self, number: u64, skip: u64) {
        let position = self.position.wrapping_add(skip) << NOT_POSITION >> NOT_POSITION;
        let offset = self.offset.wrapping_add(skip);
        write_u64(&mut self.bytes, WHOLE_NUMBER, number);
        write_u32(&mut self.bytes, HEADER + NUMBER, number as u32);
        write_u64(&mut self.bytes, WHOLE_NUMBER - DDP - size_of::<u64>(), self.before_position | position);
        if DDP == TAGGED_LENGTH {
            write_u64(&mut self.bytes, WHOLE_NUMBER - size_of::<u64>(), offset);
        } else {
            write_u32(&mut self.bytes, WHOLE_NUMBER - size_of::<u32>(), offset as u32);
        }
    }

    /// Sets what may differ in any packet: that it asks for an acknowledgement, and that it ends the message.
    #[inline]
    fn set_flags<const DDP: usize>(&mut self, ack_now: bool, last: bool) {
        let set = |byte: &mut u8, bit: u8, is_set: bool| *byte = *byte & !bit | if is_set { bit } else { 0 };
        set(&mut self.bytes[HEADER], ACK_NOW, ack_now);
        set(&mut self.bytes[WHOLE_NUMBER - DDP], LAST, last);
    }

    /// Whether a packet that begins so has this head, whatever its check is.
    #[inline]
    fn is_head_of<const HEAD: usize>(&self, packet: &[u8; MOST_HEAD]) -> bool {
        const HALF: usize = size_of::<u128>();
        let half = |bytes: &[u8], at: usize| bytes[at..].first_chunk::<HALF>().copied();
        // Of what is covered the first and the last 16 bytes: these are all.
        const { assert!(MOST_COVERED <= 2 * HALF) };
        read_u64(packet, 0) == read_u64(&self.bytes, HEADER)
            && read_u64(packet, CHECK - 8) == read_u64(&self.bytes, WORDS - 8)
            && half(packet, HEADER_LENGTH) == half(&self.bytes, WHOLE_NUMBER + HEADER_LENGTH - HEAD)
            && half(packet, HEAD - HALF) == half(&self.bytes, WHOLE_NUMBER - HALF)
    }

    /// The header check, as [`end_check`](super::packet::end_check) gives it.
    #[inline]
    fn check(&self) -> [u8; CRC_LENGTH] {
        Crc32c::of(&self.bytes).to_be_bytes()
    }

    /// Writes the head to the end of `out`, with its check.
    #[inline]
    fn write<const HEAD: usize>(&self, out: &mut Vec<u8>) {
        let mut head = [0; HEAD];
        head[..CHECK].copy_from_slice(&self.bytes[HEADER..]);
        head[CHECK..HEADER_LENGTH].copy_from_slice(&self.check());
        head[HEADER_LENGTH..].copy_from_slice(&self.bytes[WHOLE_NUMBER + HEADER_LENGTH - HEAD..WHOLE_NUMBER]);
        out.extend_from_slice(&head);
    }
}

/// Calls a function that is compiled for each of the four heads, with the lengths of the DDP header and of all that is
/// before the payload: where places are known they cost an instruction or two.
macro_rules! for_head {
    ($template:expr, $run:ident.$function:ident($($argument:expr),*)) => {
        match ($template.ddp_length == TAGGED_LENGTH, $template.payload_at) {
            (true, TAGGED_HEAD) => $run.$function::<TAGGED_LENGTH, TAGGED_HEAD>($($argument),*),
            (true, _) => $run.$function::<TAGGED_LENGTH, { TAGGED_HEAD + 1 }>($($argument),*),
            (false, UNTAGGED_HEAD) => $run.$function::<UNTAGGED_LENGTH, UNTAGGED_HEAD>($($argument),*),
            (false, _) => $run.$function::<UNTAGGED_LENGTH, { UNTAGGED_HEAD + 1 }>($($argument),*),
        }
    };
}

/// A run that was received.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    first: Packet<'a>,
    segment: Segment<'a>,
    /// All packets, and the bytes of each but the last, which may have fewer.
    bytes: &'a [u8],
    size: usize,
    /// Where the payload begins in each.
    payload_at: usize,
    count: usize,
    ack_now: bool,
    last: bool,
}

impl<'a> Run<'a> {
    /// Finds the run at the front of these datagrams, of `size` bytes each but the last, which may have fewer. `None`:
    /// there are not two packets that belong together.
    ///
    /// The first packet and the last one are still to be verified ([`Run::verify`]). Then so are the others, but for
    /// their payload: each byte is what it must be behind the first, but for whether the acknowledgement is waited for.
    /// Their header checks are not computed.
    #[must_use]
    pub fn find(bytes: &'a [u8], size: usize) -> Option<Self> {
        let datagram = bytes.get(..size).filter(|_| size < bytes.len())?;
        if !matches!(datagram.get(HEADER_LENGTH)?, &(kind::SEGMENT | kind::OPTIONS_SEGMENT)) {
            return None;
        }
        let first = Packet::parse(datagram).ok()?;
        let Ok((Frame::Segment(segment), covered, [])) = frame::split(&datagram[HEADER_LENGTH..]) else { return None };
        let payload_at = HEADER_LENGTH + covered.len();
        let payload = segment.payload().len();
        if segment.options.fence.is_some() || segment.ulpdu[0] & LAST != 0 || payload == 0 {
            return None;
        }
        let mut template = Template::new(&datagram[..payload_at], segment.position)?;
        let mut run =
            Self { first, segment, bytes, size, payload_at, count: 1, ack_now: first.header.ack_now, last: false };
        for_head!(template, run.extend(&mut template, payload));
        run.bytes = &bytes[..bytes.len().min(run.count * size)];
        (run.count > 1).then_some(run)
    }

    /// Adds the packets that belong to the first, with this length of their payloads.
    fn extend<const DDP: usize, const HEAD: usize>(&mut self, template: &mut Template, payload: usize) {
        let (mut number, mut skip) = (self.first.header.number, 0);
        let mut rest = &self.bytes[self.size..];
        while !self.last && self.count < MOST_IN_RUN {
            // With a payload, even a short one, there are more bytes than in any head.
            const { assert!(HEAD + CRC_LENGTH + 1 >= MOST_HEAD) };
            let Some(head) = rest.first_chunk().filter(|_| rest.len() > HEAD + CRC_LENGTH) else { return };
            (number, skip) = (number + 1, skip + payload as u64);
            template.set::<DDP>(number, skip);
            // It may ask for an acknowledgement, and end the message.
            let (ack_now, last) = (head[0] & ACK_NOW != 0, head[HEAD - DDP] & LAST != 0);
            template.set_flags::<DDP>(ack_now, last);
            if !template.is_head_of::<HEAD>(head) {
                return;
            }
            self.ack_now |= ack_now;
            self.last = last;
            self.count += 1;
            rest = rest.get(self.size..).unwrap_or_default();
        }
    }

    /// Checks the first packet, and makes its number whole, as [`Packet::verify`]. And the last one, which is left out
    /// if it is damaged: its end of the message is not compared with anything. A packet that says wrongly that it ends
    /// the message, or does not say it, is always the last: none behind it goes on.
    ///
    /// # Errors
    /// As there, or only the first packet is left.
    pub fn verify(mut self, expected: u64) -> Result<Self, EdgeError> {
        self.first = self.first.verify(expected)?;
        let (before, last) = self.bytes.split_at((self.count - 1) * self.size);
        let number = self.first.header.number + self.count as u64 - 1;
        match Packet::parse(last)?.verify(number) {
            Ok(_) => Ok(self),
            Err(error) if before.len() == self.size => Err(error),
            Err(_) => Ok(self.without_last(before)),
        }
    }

    #[cold]
    fn without_last(self, before: &'a [u8]) -> Self {
        let ack_now = before.chunks(self.size).any(|datagram| datagram[0] & ACK_NOW != 0);
        Self { bytes: before, count: self.count - 1, ack_now, last: false, ..self }
    }

    /// The header of the first packet; `ack_now` if any of them has that.
    #[must_use]
    pub fn header(&self) -> Header {
        Header { ack_now: self.ack_now, ..self.first.header }
    }

    /// The segment in the first packet.
    #[must_use]
    pub const fn segment(&self) -> &Segment<'a> {
        &self.segment
    }

    /// The DDP header of the first segment.
    #[must_use]
    pub fn ddp_header(&self) -> &'a [u8] {
        &self.segment.ulpdu[..ddp_header_length(self.segment.ulpdu[0])]
    }

    /// Whether the last segment is the last one of its message.
    #[must_use]
    pub const fn is_last(&self) -> bool {
        self.last
    }

    /// The number of packets: at least 2 and at most [`MOST_IN_RUN`].
    #[must_use]
    pub const fn count(&self) -> usize {
        self.count
    }

    /// Bytes of all packets.
    #[must_use]
    pub const fn length(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes of payload of all segments.
    #[must_use]
    pub const fn payload_length(&self) -> usize {
        self.bytes.len() - self.count * (self.payload_at + CRC_LENGTH)
    }

    /// The payload of each segment, and its CRC-32C as the packet has it.
    pub fn parts(&self) -> impl Iterator<Item = (&'a [u8], u32)> + use<'a> {
        let payload_at = self.payload_at;
        self.bytes.chunks(self.size).map(move |datagram| {
            let (bytes, crc) = datagram.split_last_chunk().expect("a packet of a run ends with a CRC");
            (&bytes[payload_at..], u32::from_be_bytes(*crc))
        })
    }
}

/// Writes the packets of a run up to their payloads, each as [`Builder`](super::packet::Builder) does.
#[derive(Clone, Copy, Debug)]
pub struct RunWriter(Template);

impl RunWriter {
    /// For a run whose first packet has this header, and whose first segment has this position and DDP header. `None`:
    /// its options have a fence, which is encoded relative to each packet's position.
    ///
    /// # Panics
    /// When `ddp_header` is not a DDP header in length.
    #[must_use]
    pub fn new(header: &Header, position: u64, options: &SegmentOptions, ddp_header: &[u8]) -> Option<Self> {
        assert_eq!(ddp_header.len(), ddp_header_length(ddp_header[0]), "a DDP header");
        if options.fence.is_some() {
            return None;
        }
        let mut head = [0; MOST_HEAD];
        head[..HEADER_LENGTH].copy_from_slice(&unchecked(header));
        head[HEADER_LENGTH] = if options.is_none() { kind::SEGMENT } else { kind::OPTIONS_SEGMENT };
        // There is no other option without a fence.
        head[HEADER_LENGTH + 1] = frame::UNORDERED;
        let position_at = HEADER_LENGTH + 1 + options.length();
        let ddp_at = position_at + POSITION_LENGTH;
        let payload_at = ddp_at + ddp_header.len();
        head[position_at..ddp_at].copy_from_slice(&position.to_be_bytes()[8 - POSITION_LENGTH..]);
        head[ddp_at..payload_at].copy_from_slice(ddp_header);
        Template::new(&head[..payload_at], position).map(Self)
    }

    /// Bytes before the payload of each packet.
    #[must_use]
    pub const fn length(&self) -> usize {
        self.0.payload_at
    }

    /// Writes the head of packet `number`, whose segment begins `skip` bytes behind the first one's, to the end of
    /// `out`. `last`: the segment is the last one of its message. Payload and CRC follow, and end the packet.
    #[inline]
    pub fn write(&mut self, out: &mut Vec<u8>, number: u64, skip: u64, ack_now: bool, last: bool) {
        for_head!(self.0, self.put(out, number, skip, ack_now, last));
    }

    /// Writes the heads of packets with these numbers, each of which has `size` bytes of payload, as
    /// [`RunWriter::write`] would: none asks for an acknowledgement, and none ends the message.
    pub fn write_row(&mut self, out: &mut Vec<u8>, numbers: Range<u64>, skip: u64, size: u64) {
        for_head!(self.0, self.put_row(out, numbers, skip, size));
    }

    fn put_row<const DDP: usize, const HEAD: usize>(
        &mut self,
        out: &mut Vec<u8>,
        numbers: Range<u64>,
        mut skip: u64,
        size: u64,
    ) {
        self.0.set_flags::<DDP>(false, false);
        for number in numbers {
            self.0.set::<DDP>(number, skip);
            self.0.write::<HEAD>(out);
            skip += size;
        }
    }

    #[inline]
    fn put<const DDP: usize, const HEAD: usize>(
        &mut self,
        out: &mut Vec<u8>,
        number: u64,
        skip: u64,
        ack_now: bool,
        last: bool,
    ) {
        self.0.set::<DDP>(number, skip);
        self.0.set_flags::<DDP>(ack_now, last);
        self.0.write::<HEAD>(out);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ddp::{self, Target};
    use crate::edge::ConnectionId;
    use crate::edge::packet::{Builder, reseal};
    use weft_base::{MessageNumber, Stag};

    /// A message in packets of `size` bytes of payload, each written by [`Builder`].
    #[derive(Clone, Debug)]
    struct Row {
        number: u64,
        position: u64,
        target: Target,
        options: SegmentOptions,
        payload: usize,
        size: usize,
    }

    const ROW: Row = Row {
        number: 70,
        position: 9000,
        target: Target::Tagged { stag: Stag(7), offset: 400 },
        options: SegmentOptions::NONE,
        payload: 1000,
        size: 100,
    };

    fn ddp_header(target: Target, last: bool) -> Vec<u8> {
        let mut bytes = [0; UNTAGGED_LENGTH];
        let length = ddp::Header { last, control: 0x40, target }.emit(&mut bytes);
        bytes[..length].to_vec()
    }

    fn advanced(target: Target, skip: usize) -> Target {
        match target {
            Target::Tagged { stag, offset } => Target::Tagged { stag, offset: offset.wrapping_add(skip as u64) },
            Target::Untagged { word, queue, number, offset } => {
                Target::Untagged { word, queue, number, offset: offset.wrapping_add(skip as u32) }
            }
        }
    }

    impl Row {
        fn header(&self, index: usize) -> Header {
            let number = self.number + index as u64;
            let ack_now = index == 2;
            Header { ack_now, key_phase: false, rail: 1, destination: ConnectionId(0x1122_3344), number }
        }

        fn payload(&self) -> Vec<u8> {
            (0..self.payload).map(|at| (at * 7) as u8).collect()
        }

        fn packets(&self) -> Vec<Vec<u8>> {
            let payload = self.payload();
            let parts = payload.chunks(self.size).count();
            let packet = |(index, part): (usize, &[u8])| {
                let mut out = vec![];
                let mut builder = Builder::new(&mut out, &self.header(index));
                let skip = index * self.size;
                let ddp = ddp_header(advanced(self.target, skip), index + 1 == parts);
                builder.segment(self.position.wrapping_add(skip as u64), None, &self.options, &ddp);
                builder.payload(part);
                builder.finish();
                out
            };
            payload.chunks(self.size).enumerate().map(packet).collect()
        }
    }

    fn find(packets: &[Vec<u8>]) -> Option<(usize, bool, bool)> {
        let bytes = packets.concat();
        let run = Run::find(&bytes, packets[0].len())?;
        Some((run.count(), run.is_last(), run.header().ack_now))
    }

    #[test]
    fn a_message_in_packets_is_one_run() {
        let packets = ROW.packets();
        assert_eq!(find(&packets), Some((10, true, true)));
        assert_eq!(find(&packets[3..]), Some((7, true, false)));
        assert_eq!(find(&packets[..1]), None, "one packet is no run");
        let bytes = packets.concat();
        let run = Run::find(&bytes, packets[0].len()).unwrap().verify(60).unwrap();
        assert_eq!((run.header().number, run.segment().position), (70, 9000));
        assert_eq!((run.length(), run.payload_length()), (bytes.len(), 1000));
        let payload: Vec<u8> = run.parts().flat_map(|(part, _)| part.iter().copied()).collect();
        assert_eq!(payload, ROW.payload());
        assert!(run.parts().all(|(part, crc)| Crc32c::of(part) == crc));
        let mut damaged = bytes.clone();
        damaged[HEADER_LENGTH + 3] ^= 1;
        assert!(Run::find(&damaged, packets[0].len()).is_none_or(|run| run.verify(60).is_err()));
    }

    #[test]
    fn what_does_not_belong_ends_a_run() {
        let packets = ROW.packets();
        let cases = [
            ("missing", [&packets[..4], &packets[5..]].concat(), Some(4)),
            ("doubled", [&packets[..4], &packets[3..]].concat(), Some(4)),
            ("swapped", [&packets[..3], &[packets[4].clone(), packets[3].clone()], &packets[5..]].concat(), Some(3)),
            ("the first is missing", packets[1..].to_vec(), Some(9)),
            ("the first is doubled", [&packets[..1], &packets[..]].concat(), None),
            ("the first is swapped", [&[packets[1].clone(), packets[0].clone()], &packets[2..]].concat(), None),
            ("another message", [&packets[..5], &Row { position: 9500, ..ROW }.packets()[..5]].concat(), Some(5)),
        ];
        for (what, packets, expected) in cases {
            assert_eq!(find(&packets).map(|(count, ..)| count), expected, "{what}");
        }
        let mut cut_short = packets.clone();
        cut_short.truncate(6);
        cut_short[5].truncate(60);
        assert_eq!(find(&cut_short).map(|(count, ..)| count), Some(6), "a shorter payload, whose CRC tells");
        cut_short[5].truncate(HEADER_LENGTH + 21 + CRC_LENGTH);
        assert_eq!(find(&cut_short).map(|(count, ..)| count), Some(5), "no payload at all");
    }

    #[test]
    fn a_run_ends_with_its_message() {
        let mut packets = ROW.packets();
        let next = Row { number: 80, position: 10_001, target: advanced(ROW.target, 1000), ..ROW };
        packets.extend(next.packets());
        assert_eq!(find(&packets), Some((10, true, true)));
        assert_eq!(find(&packets[9..]), None, "a segment that ends a message has no next one");
    }

    #[test]
    fn any_byte_of_a_head_that_is_another_one_ends_the_run() {
        let untagged = Target::Untagged { word: 5, queue: 0, number: MessageNumber(8), offset: 400 };
        let unordered = SegmentOptions { unordered: true, fence: None };
        let rows = [ROW, Row { target: untagged, ..ROW }, Row { target: untagged, options: unordered, ..ROW }];
        for (row, ddp_at) in rows.into_iter().zip([7, 7, 8].map(|at| HEADER_LENGTH + at)) {
            let packets = row.packets();
            let head = ddp_at + ddp_header(row.target, false).len();
            for (index, at) in (1..4).flat_map(|index| (0..head).map(move |at| (index, at))) {
                // These may be set in any packet, and the check is that of another one.
                let is_free = |bit| (at, bit) == (0, 3) || (at, bit) == (ddp_at, 6);
                let is_checked = (CHECK..HEADER_LENGTH).contains(&at);
                for bit in (0..8).filter(|bit| !is_free(*bit) && !is_checked) {
                    let mut changed = packets.clone();
                    changed[index][at] ^= 1 << bit;
                    let number = row.number + index as u64;
                    // As a forger would: with a header check that fits.
                    reseal(&mut changed[index], number);
                    let count = find(&changed).map_or(1, |(count, ..)| count);
                    assert_eq!(count, index, "packet {index}, byte {at}, bit {bit}");
                }
            }
        }
    }

    #[test]
    fn a_packet_whose_last_flag_was_damaged_is_in_no_run() {
        let (packets, last_at) = (ROW.packets(), HEADER_LENGTH + 7);
        let next = Row { number: 80, position: 10_001, target: advanced(ROW.target, 1000), ..ROW }.packets();
        for (index, others) in (1..10).flat_map(|index| [(index, &[][..]), (index, &next)]) {
            let mut packets = [&packets[..], others].concat();
            packets[index][last_at] ^= LAST;
            let bytes = packets.concat();
            let found = Run::find(&bytes, packets[0].len()).and_then(|run| run.verify(60).ok());
            let found = found.map(|run| (run.count(), run.is_last(), run.length(), run.header().ack_now));
            let expected = (index > 1).then_some((index, false, index * packets[0].len(), index > 2));
            assert_eq!(found, expected, "packet {index}");
        }
    }

    #[test]
    fn nothing_too_short_or_of_another_kind_is_a_run() {
        let packets = ROW.packets();
        for length in 0..packets[0].len() {
            let short = vec![packets[0][..length].to_vec(), packets[1][..length].to_vec()];
            if length > 0 {
                let _ = find(&short);
            }
        }
        let fence = SegmentOptions { unordered: false, fence: Some(7) };
        assert_eq!(find(&Row { options: fence, ..ROW }.packets()), None);
        let unordered = SegmentOptions { unordered: true, fence: None };
        assert_eq!(find(&Row { options: unordered, ..ROW }.packets()), Some((10, true, true)));
        assert!(Run::find(&[], 100).is_none() && Run::find(&[0x41; 100], 0).is_none());
    }

    proptest! {
        #[test]
        fn counters_wrap_within_a_run_and_both_writers_agree(
            number in prop_oneof![Just(u64::from(u32::MAX) - 3), 0..1_u64 << 40],
            position in prop_oneof![Just((1_u64 << 48) - 250), 0..1_u64 << 50],
            tagged in any::<bool>(),
            offset in prop_oneof![Just(u64::MAX - 250), Just(u64::from(u32::MAX) - 250), any::<u64>()],
            unordered in any::<bool>(),
            payload in 2_usize..3000,
            size in 1_usize..200,
        ) {
            let target = if tagged {
                Target::Tagged { stag: Stag(9), offset }
            } else {
                Target::Untagged { word: 5, queue: 0, number: MessageNumber(u32::MAX), offset: offset as u32 }
            };
            let options = SegmentOptions { unordered, fence: None };
            let row = Row { number, position, target, options, payload, size };
            let (packets, bytes) = (row.packets(), row.payload());
            let ddp = ddp_header(target, false);
            let mut writer = RunWriter::new(&row.header(0), position, &options, &ddp).unwrap();
            let mut written = vec![];
            for (index, part) in bytes.chunks(size).enumerate() {
                let Header { number, ack_now, .. } = row.header(index);
                let last = index + 1 == packets.len();
                writer.write(&mut written, number, (index * size) as u64, ack_now, last);
                written.extend_from_slice(part);
                written.extend_from_slice(&Crc32c::of(part).to_be_bytes());
            }
            prop_assert_eq!(&written, &packets.concat());
            // Heads in a row, of packets that neither ask nor end the message.
            let first = 3.min(packets.len() - 1);
            let (from, to) = (number + first as u64, number + packets.len() as u64 - 1);
            let mut heads = vec![];
            writer.write_row(&mut heads, from..to, (first * size) as u64, size as u64);
            let each = packets[first..packets.len() - 1].iter().flat_map(|packet| &packet[..writer.length()]);
            prop_assert!(heads.iter().eq(each));
            let expected = (packets.len() > 1).then_some(packets.len().min(MOST_IN_RUN));
            prop_assert_eq!(find(&packets).map(|(count, ..)| count), expected);
        }
    }
}
