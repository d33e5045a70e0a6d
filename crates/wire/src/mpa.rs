//! MPA: start-up frames, FPDU sizes, markers (RFC 5044), and the enhanced set-up of RFC 6581.

use core::fmt;

use crate::bytes::{read_u16, write_u16};

/// Bytes of a start-up frame before its private data (RFC 5044 section 7.1.1).
pub const START_HEADER_LENGTH: usize = 20;
/// The most private data a start-up frame may carry, in bytes (RFC 5044 section 7.1.1).
pub const MAX_PRIVATE_DATA: usize = 512;
/// Bytes of a marker.
pub const MARKER_LENGTH: usize = 4;
/// Bytes of the ULPDU length at the head of an FPDU.
pub const LENGTH_FIELD: usize = 2;
/// Bytes of the CRC at the tail of an FPDU.
pub const CRC_LENGTH: usize = 4;
/// The most bytes of a ULPDU that the length field can say. A sender stays within [`MAX_MULPDU`].
pub const MAX_ULPDU: u32 = 65_535;
/// The largest ULPDU that may ever be sent, in bytes (RFC 5044 section 3: MULPDU MUST be within 128 and 64768, and DDP
/// MUST NOT post a larger ULPDU).
pub const MAX_MULPDU: u32 = 64_768;
/// The least MULPDU, in bytes, however small the packets are (RFC 5044 sections 3 and 4.5).
pub const MIN_MULPDU: u32 = 128;

const KEY_REQUEST: &[u8; 16] = b"MPA ID Req Frame";
const KEY_REPLY: &[u8; 16] = b"MPA ID Rep Frame";

/// Where each field of a start-up frame begins, in bytes (RFC 5044 figure 8).
mod field {
    use core::ops::Range;

    pub(super) const KEY: Range<usize> = 0..16;
    pub(super) const FLAGS: usize = 16;
    pub(super) const REVISION: usize = 17;
    pub(super) const PRIVATE_LENGTH: usize = 18;
    // The enhanced word, in private data (RFC 6581 section 9).
    pub(super) const IRD: usize = 0;
    pub(super) const ORD: usize = 2;
}

mod flag {
    pub(super) const MARKERS: u8 = 0x80;
    pub(super) const CRC: u8 = 0x40;
    pub(super) const REJECT: u8 = 0x20;
    pub(super) const ENHANCED: u8 = 0x10;
}

/// Which of the two start-up frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartKind {
    /// From the initiator.
    Request,
    /// From the responder.
    Reply,
}

impl StartKind {
    const fn key(self) -> &'static [u8; 16] {
        match self {
            Self::Request => KEY_REQUEST,
            Self::Reply => KEY_REPLY,
        }
    }
}

/// The fixed part of an MPA Request or Reply Frame (RFC 5044 section 7.1.1, RFC 6581 section 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartHeader {
    /// Request or reply.
    pub kind: StartKind,
    /// M: the sender of this frame wants markers in what it receives.
    pub markers: bool,
    /// C: the sender of this frame wants CRCs, in both directions.
    pub crc: bool,
    /// R: the responder rejects. A request has no such bit: it is written zero and not read (RFC 5044 section 7.1.1).
    pub reject: bool,
    /// S: the private data begins with an [`Enhanced`] word. Below revision 2 the bit is reserved: written zero and not
    /// read (RFC 6581 section 6, RFC 5044 section 7.1.1).
    pub enhanced: bool,
    /// MPA revision: 0 (the pre-standard one), 1 (RFC 5044) or 2 (RFC 6581).
    pub revision: u8,
    /// Bytes of private data that follow, the [`Enhanced`] word included.
    pub private_length: u16,
}

/// Why 20 bytes are not the head of a start-up frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartError {
    /// The key is neither that of a request nor that of a reply.
    Key,
    /// More than [`MAX_PRIVATE_DATA`] bytes of private data are announced.
    PrivateLength(u16),
}

impl StartHeader {
    /// Reads the head of a start-up frame. Reserved flag bits are ignored (RFC 5044 section 7.1.1: they must not be
    /// checked).
    ///
    /// # Errors
    /// When the bytes are no start-up frame. The revision is not judged here, nor whether a frame of this kind is due.
    pub fn parse(bytes: &[u8; START_HEADER_LENGTH]) -> Result<Self, StartError> {
        let kind = [StartKind::Request, StartKind::Reply]
            .into_iter()
            .find(|kind| bytes[field::KEY] == kind.key()[..])
            .ok_or(StartError::Key)?;
        let private_length = read_u16(bytes, field::PRIVATE_LENGTH);
        if usize::from(private_length) > MAX_PRIVATE_DATA {
            return Err(StartError::PrivateLength(private_length));
        }
        let flags = bytes[field::FLAGS];
        let revision = bytes[field::REVISION];
        Ok(Self {
            kind,
            markers: flags & flag::MARKERS != 0,
            crc: flags & flag::CRC != 0,
            reject: kind == StartKind::Reply && flags & flag::REJECT != 0,
            enhanced: revision >= 2 && flags & flag::ENHANCED != 0,
            revision,
            private_length,
        })
    }

    /// Whether `bytes` (as many as are there, up to 16) can still become the key of a frame of this kind: so that a
    /// peer that speaks something else is recognised by its first bytes, without waiting for twenty.
    #[must_use]
    pub fn key_may_follow(kind: StartKind, bytes: &[u8]) -> bool {
        let key = kind.key();
        let seen = bytes.len().min(key.len());
        bytes[..seen] == key[..seen]
    }

    /// Writes the head of a start-up frame. Reserved bits are zero (RFC 5044 section 7.1.1).
    pub fn emit(&self, bytes: &mut [u8; START_HEADER_LENGTH]) {
        bytes[field::KEY].copy_from_slice(self.kind.key());
        bytes[field::FLAGS] = bit(self.markers, flag::MARKERS)
            | bit(self.crc, flag::CRC)
            | bit(self.reject && self.kind == StartKind::Reply, flag::REJECT)
            | bit(self.enhanced && self.revision >= 2, flag::ENHANCED);
        bytes[field::REVISION] = self.revision;
        write_u16(bytes, field::PRIVATE_LENGTH, self.private_length);
    }
}

/// Bytes of the [`Enhanced`] word.
pub const ENHANCED_LENGTH: usize = 4;
/// The IRD or ORD that says "not negotiated here, the application takes care" (RFC 6581 section 9.1).
pub const DEPTH_NOT_NEGOTIATED: u16 = 0x3fff;

/// The word at the start of the private data of an enhanced start-up frame (RFC 6581 section 9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Enhanced {
    /// How many inbound reads the sender of this frame takes at a time. 14 bits.
    pub ird: u16,
    /// How many outbound reads the sender of this frame wants to have in flight at a time. 14 bits.
    pub ord: u16,
    /// A: peer-to-peer: the initiator must open with a ready-to-receive message. Without it the three kinds below are
    /// written zero and not read (RFC 6581 section 9.2).
    pub peer_to_peer: bool,
    /// B: a Send of length zero may be that message.
    pub rtr_send: bool,
    /// C: an RDMA Write of length zero may be that message.
    pub rtr_write: bool,
    /// D: an RDMA Read of length zero may be that message.
    pub rtr_read: bool,
}

impl Enhanced {
    const A_OR_C: u16 = 0x8000;
    const B_OR_D: u16 = 0x4000;
    const DEPTH: u16 = 0x3fff;

    /// Reads the word.
    #[must_use]
    pub fn parse(bytes: &[u8; ENHANCED_LENGTH]) -> Self {
        let ird = read_u16(bytes, field::IRD);
        let ord = read_u16(bytes, field::ORD);
        let peer_to_peer = ird & Self::A_OR_C != 0;
        Self {
            ird: ird & Self::DEPTH,
            ord: ord & Self::DEPTH,
            peer_to_peer,
            rtr_send: peer_to_peer && ird & Self::B_OR_D != 0,
            rtr_write: peer_to_peer && ord & Self::A_OR_C != 0,
            rtr_read: peer_to_peer && ord & Self::B_OR_D != 0,
        }
    }

    /// Writes the word. Depths above 14 bits are cut to the largest that is not [`DEPTH_NOT_NEGOTIATED`].
    #[must_use]
    pub fn emit(&self) -> [u8; ENHANCED_LENGTH] {
        let depth = |depth: u16| if depth > Self::DEPTH { Self::DEPTH - 1 } else { depth };
        let kind = |supported: bool, bit| if supported && self.peer_to_peer { bit } else { 0 };
        let ird = depth(self.ird) | kind(true, Self::A_OR_C) | kind(self.rtr_send, Self::B_OR_D);
        let ord = depth(self.ord) | kind(self.rtr_write, Self::A_OR_C) | kind(self.rtr_read, Self::B_OR_D);
        let mut bytes = [0; ENHANCED_LENGTH];
        write_u16(&mut bytes, field::IRD, ird);
        write_u16(&mut bytes, field::ORD, ord);
        bytes
    }
}

/// Bytes of padding after a ULPDU, so that length field, ULPDU and pad are a multiple of four (RFC 5044 section 4.1).
#[must_use]
pub const fn pad_length(ulpdu_length: u32) -> u32 {
    ulpdu_length.wrapping_add(LENGTH_FIELD as u32).wrapping_neg() % 4
}

/// The two low bits of an FPDUPTR: sent as zero, taken for zero (RFC 5044 section 4.2).
const POINTER_RESERVED: u16 = 0x0003;

/// The marker of a stream: two zero bytes, then the distance back to the start of the FPDU (RFC 5044 section 4.2).
#[must_use]
pub const fn marker(fpdu_pointer: u16) -> [u8; MARKER_LENGTH] {
    let pointer = (fpdu_pointer & !POINTER_RESERVED).to_be_bytes();
    [0, 0, pointer[0], pointer[1]]
}

/// The FPDUPTR of a marker; the reserved half is ignored and the two low bits count as zero (RFC 5044 section 4.2).
#[must_use]
pub const fn marker_pointer(bytes: [u8; MARKER_LENGTH]) -> u16 {
    u16::from_be_bytes([bytes[2], bytes[3]]) & !POINTER_RESERVED
}

/// The distance of the markers of a stream: bytes from the start of one to the start of the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MarkerSpacing {
    /// 512 bytes (RFC 5044 section 4.3).
    #[default]
    Standard,
    /// 1024 bytes: only between two Weft peers that agree.
    Kilobyte,
    /// 2048 bytes: only between two Weft peers that agree.
    TwoKilobytes,
}

impl MarkerSpacing {
    /// All there are, the closest first.
    pub const ALL: [Self; 3] = [Self::Standard, Self::Kilobyte, Self::TwoKilobytes];

    /// In bytes, a power of two.
    #[must_use]
    pub const fn bytes(self) -> u32 {
        match self {
            Self::Standard => 512,
            Self::Kilobyte => 1024,
            Self::TwoKilobytes => 2048,
        }
    }
}

impl fmt::Display for MarkerSpacing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.bytes())
    }
}

/// MULPDU: the largest ULPDU whose FPDU fits a packet with `emss` payload bytes, the most markers included (RFC 5044
/// section 4.5), and never outside [`MIN_MULPDU`] and [`MAX_MULPDU`] (section 3), even when a smaller packet then has
/// to be cut by TCP.
#[must_use]
pub const fn max_ulpdu(emss: u32, markers: Option<MarkerSpacing>) -> u32 {
    let most_markers = match markers {
        Some(spacing) => emss.div_ceil(spacing.bytes()),
        None => 0,
    };
    fitting_ulpdu(emss, 4 * most_markers)
}

/// The largest ULPDU whose FPDU fits a packet with `emss` payload bytes, `marker_bytes` of them markers; never outside
/// [`MIN_MULPDU`] and [`MAX_MULPDU`].
#[must_use]
pub const fn fitting_ulpdu(emss: u32, marker_bytes: u32) -> u32 {
    let overhead = 6 + marker_bytes + emss % 4;
    match emss.saturating_sub(overhead) {
        ..MIN_MULPDU => MIN_MULPDU,
        ulpdu @ MIN_MULPDU..=MAX_MULPDU => ulpdu,
        _ => MAX_MULPDU,
    }
}

const fn bit(set: bool, bit: u8) -> u8 {
    if set { bit } else { 0 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PLAIN: StartHeader = StartHeader {
        kind: StartKind::Request,
        markers: false,
        crc: false,
        reject: false,
        enhanced: false,
        revision: 1,
        private_length: 0,
    };

    fn emitted(header: StartHeader) -> [u8; START_HEADER_LENGTH] {
        let mut bytes = [0xa5; START_HEADER_LENGTH];
        header.emit(&mut bytes);
        bytes
    }

    #[test]
    fn exact_bytes_of_a_request_both_ways() {
        // What rping of rdmacm-utils sends, but for CRC and markers.
        let header = StartHeader { markers: true, crc: true, enhanced: true, revision: 2, private_length: 4, ..PLAIN };
        let bytes = [
            0x4d, 0x50, 0x41, 0x20, 0x49, 0x44, 0x20, 0x52, 0x65, 0x71, 0x20, 0x46, 0x72, 0x61, 0x6d, 0x65, 0xd0, 2, 0,
            4,
        ];
        assert_eq!(emitted(header), bytes);
        assert_eq!(StartHeader::parse(&bytes), Ok(header));
    }

    #[test]
    fn exact_bytes_of_a_reply_both_ways() {
        let header = StartHeader { kind: StartKind::Reply, reject: true, private_length: 512, ..PLAIN };
        let bytes = [
            0x4d, 0x50, 0x41, 0x20, 0x49, 0x44, 0x20, 0x52, 0x65, 0x70, 0x20, 0x46, 0x72, 0x61, 0x6d, 0x65, 0x20, 1, 2,
            0,
        ];
        assert_eq!(emitted(header), bytes);
        assert_eq!(StartHeader::parse(&bytes), Ok(header));
    }

    #[test]
    fn reserved_bits_of_a_start_frame_are_not_read() {
        let mut bytes = emitted(PLAIN);
        bytes[16] |= 0x3f; // R of a request, S of revision 1, and the four that nobody has given a meaning.
        assert_eq!(StartHeader::parse(&bytes), Ok(PLAIN));
    }

    #[test]
    fn bits_that_a_frame_does_not_have_are_written_zero() {
        assert_eq!(emitted(StartHeader { reject: true, enhanced: true, ..PLAIN }), emitted(PLAIN));
    }

    #[test]
    fn another_key_is_refused_by_its_first_byte_that_differs() {
        let good = emitted(PLAIN);
        for at in 0..16 {
            let mut bytes = good;
            bytes[at] ^= 0x01;
            // The eleventh byte alone tells the two keys apart, and q ^ 1 is p.
            let other =
                if at == 9 { Ok(StartHeader { kind: StartKind::Reply, ..PLAIN }) } else { Err(StartError::Key) };
            assert_eq!(StartHeader::parse(&bytes), other);
            assert!(StartHeader::key_may_follow(StartKind::Request, &bytes[..at]));
            assert!(!StartHeader::key_may_follow(StartKind::Request, &bytes[..=at]));
        }
        assert!(StartHeader::key_may_follow(StartKind::Request, &good));
        assert!(!StartHeader::key_may_follow(StartKind::Reply, &good));
    }

    #[test]
    fn more_private_data_than_512_bytes_is_refused() {
        let mut bytes = emitted(PLAIN);
        write_u16(&mut bytes, 18, 513);
        assert_eq!(StartHeader::parse(&bytes), Err(StartError::PrivateLength(513)));
    }

    #[test]
    fn exact_bytes_of_the_enhanced_word_both_ways() {
        let rping =
            Enhanced { ird: 1, ord: 1, peer_to_peer: false, rtr_send: false, rtr_write: false, rtr_read: false };
        assert_eq!(rping.emit(), [0, 1, 0, 1]);
        assert_eq!(Enhanced::parse(&[0, 1, 0, 1]), rping);

        for (kind, bytes) in [
            (Enhanced { rtr_send: true, ..rping }, [0xd2, 0x34, 0x05, 0x67]),
            (Enhanced { rtr_write: true, ..rping }, [0x92, 0x34, 0x85, 0x67]),
            (Enhanced { rtr_read: true, ..rping }, [0x92, 0x34, 0x45, 0x67]),
        ] {
            let word = Enhanced { ird: 0x1234, ord: 0x0567, peer_to_peer: true, ..kind };
            assert_eq!(word.emit(), bytes);
            assert_eq!(Enhanced::parse(&bytes), word);
        }
    }

    #[test]
    fn without_peer_to_peer_the_ready_to_receive_kinds_are_neither_written_nor_read() {
        let client_server = Enhanced::parse(&[0x40, 1, 0xc0, 1]);
        assert!(!client_server.rtr_send && !client_server.rtr_write && !client_server.rtr_read);
        let told = Enhanced { rtr_send: true, rtr_write: true, rtr_read: true, ..client_server };
        assert_eq!(told.emit(), [0, 1, 0, 1]);
    }

    #[test]
    fn depths_above_14_bits_do_not_become_the_one_that_says_not_negotiated() {
        let word = Enhanced { ird: 0x4000, ord: DEPTH_NOT_NEGOTIATED, ..Enhanced::parse(&[0; 4]) };
        assert_eq!(word.emit(), [0x3f, 0xfe, 0x3f, 0xff]);
    }

    #[test]
    fn the_pad_makes_an_fpdu_a_multiple_of_four() {
        for (ulpdu, pad) in [(0, 2), (1, 1), (2, 0), (3, 3), (4, 2), (42, 0), (MAX_ULPDU, 3), (u32::MAX, 3)] {
            assert_eq!(pad_length(ulpdu), pad, "ULPDU of {ulpdu}");
        }
    }

    #[test]
    fn exact_bytes_of_a_marker_both_ways() {
        assert_eq!(marker(0x0214), [0, 0, 0x02, 0x14]);
        assert_eq!(marker_pointer([0xa5, 0xa5, 0x02, 0x14]), 0x0214);
    }

    #[test]
    fn the_two_low_bits_of_a_marker_are_sent_zero_and_taken_for_zero() {
        assert_eq!(marker(0x0217), [0, 0, 0x02, 0x14]);
        assert_eq!(marker_pointer([0, 0, 0x02, 0x17]), 0x0214);
    }

    #[test]
    fn spacings_are_powers_of_two_and_say_what_they_are() {
        assert_eq!(MarkerSpacing::ALL.map(MarkerSpacing::bytes), [512, 1024, 2048]);
        assert_eq!(MarkerSpacing::Kilobyte.to_string(), "1024 bytes");
        assert_eq!(MarkerSpacing::default(), MarkerSpacing::Standard);
    }

    #[test]
    fn mulpdu_is_that_of_the_standards_formula_within_its_limits() {
        let (none, standard) = (None, Some(MarkerSpacing::Standard));
        assert_eq!(max_ulpdu(1460, none), 1454);
        assert_eq!(max_ulpdu(1460, standard), 1442);
        assert_eq!(max_ulpdu(1463, none), 1454);
        assert_eq!(max_ulpdu(8960, standard), 8960 - 6 - 72);
        assert_eq!(max_ulpdu(8960, Some(MarkerSpacing::Kilobyte)), 8960 - 6 - 36);
        assert_eq!(max_ulpdu(8960, Some(MarkerSpacing::TwoKilobytes)), 8960 - 6 - 20);
        assert_eq!([132, 133, 134, 135, 136].map(|emss| max_ulpdu(emss, none)), [128, 128, 128, 128, 130]);
        assert_eq!([64_772, 64_774, 64_776].map(|emss| max_ulpdu(emss, none)), [64_766, 64_766, 64_768]);
        assert_eq!(max_ulpdu(100, standard), MIN_MULPDU);
        assert_eq!(max_ulpdu(0, none), MIN_MULPDU);
        assert_eq!(max_ulpdu(65_535, none), MAX_MULPDU);
        assert_eq!(max_ulpdu(u32::MAX, standard), MAX_MULPDU);
    }

    proptest! {
        #[test]
        fn every_start_frame_survives_the_wire(
            reply: bool,
            markers: bool,
            crc: bool,
            reject: bool,
            enhanced: bool,
            revision: u8,
            private_length in 0..=512u16,
        ) {
            let kind = if reply { StartKind::Reply } else { StartKind::Request };
            let (reject, enhanced) = (reject && reply, enhanced && revision >= 2);
            let header = StartHeader { kind, markers, crc, reject, enhanced, revision, private_length };
            prop_assert_eq!(StartHeader::parse(&emitted(header)), Ok(header));
        }

        #[test]
        fn any_bytes_parse_without_panic(
            bytes: [u8; START_HEADER_LENGTH],
            reply: bool,
            key: bool,
            word: [u8; ENHANCED_LENGTH],
        ) {
            let mut bytes = bytes;
            if key {
                bytes[field::KEY].copy_from_slice(if reply { KEY_REPLY } else { KEY_REQUEST });
            }
            if let Ok(header) = StartHeader::parse(&bytes) {
                prop_assert_eq!(StartHeader::parse(&emitted(header)), Ok(header));
            }
            let word = Enhanced::parse(&word);
            prop_assert_eq!(Enhanced::parse(&word.emit()), word);
        }

        #[test]
        fn an_fpdu_of_mulpdu_fits_the_packet_with_its_worst_case_of_markers(
            emss in 256..65_000u32,
            spacing in 0..=3usize,
        ) {
            let markers = MarkerSpacing::ALL.get(spacing).copied();
            let ulpdu = max_ulpdu(emss, markers);
            let most_markers = markers.map_or(0, |spacing| 4 * emss.div_ceil(spacing.bytes()));
            let fpdu = 2 + ulpdu + pad_length(ulpdu) + 4 + most_markers;
            prop_assert!(fpdu <= emss, "FPDU of {} in {}", fpdu, emss);
            prop_assert_eq!((fpdu - most_markers) % 4, 0);
        }
    }
}
