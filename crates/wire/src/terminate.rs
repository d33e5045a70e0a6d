//! The Terminate message (RFC 5040 section 4.8) and its error codes (there, RFC 5041 section 7.2, RFC 5044 section 8,
//! RFC 6581 section 8; RFC 7306 section 8 adds no code).

use core::fmt;

use crate::bytes::{read_u16, write_u16};
use crate::ddp;
use crate::rdmap::{self, Opcode, ReadRequest};

/// What ended a stream: layer, error type and error code of a Terminate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are those of the standards' tables, which the Display text spells out")]
pub enum TerminateCode {
    // Layer 0: RDMAP.
    LocalCatastrophic,
    ProtectionInvalidStag,
    ProtectionBounds,
    ProtectionRights,
    ProtectionNotAssociated,
    ProtectionOffsetWrap,
    ProtectionCannotInvalidate,
    ProtectionUnspecified,
    OperationVersion,
    OperationOpcode,
    OperationStreamCatastrophic,
    OperationGlobalCatastrophic,
    OperationCannotInvalidate,
    OperationUnspecified,
    // Layer 1: DDP.
    DdpLocalCatastrophic,
    TaggedInvalidStag,
    TaggedBounds,
    TaggedNotAssociated,
    TaggedOffsetWrap,
    TaggedVersion,
    UntaggedQueue,
    UntaggedNoBuffer,
    UntaggedNumberRange,
    UntaggedOffset,
    UntaggedTooLong,
    UntaggedVersion,
    // Layer 2: MPA.
    MpaClosed,
    MpaCrc,
    MpaMarker,
    MpaInvalidFpdu,
    MpaLocalCatastrophic,
    MpaInsufficientResources,
    MpaNoReadyToReceive,
    /// A code of no table we know.
    Unknown {
        layer: u8,
        kind: u8,
        code: u8,
    },
}

use TerminateCode as T;

/// One row a code: layer, error type, error code, what it says.
const TABLE: &[(TerminateCode, u8, u8, u8, &str)] = &[
    (T::LocalCatastrophic, 0, 0, 0x00, "RDMAP: local catastrophic error"),
    (T::ProtectionInvalidStag, 0, 1, 0x00, "RDMAP remote protection: invalid STag"),
    (T::ProtectionBounds, 0, 1, 0x01, "RDMAP remote protection: base or bounds violation"),
    (T::ProtectionRights, 0, 1, 0x02, "RDMAP remote protection: access rights violation"),
    (T::ProtectionNotAssociated, 0, 1, 0x03, "RDMAP remote protection: STag not associated with the stream"),
    (T::ProtectionOffsetWrap, 0, 1, 0x04, "RDMAP remote protection: tagged offset wraps"),
    (T::ProtectionCannotInvalidate, 0, 1, 0x09, "RDMAP remote protection: STag cannot be invalidated"),
    (T::ProtectionUnspecified, 0, 1, 0xff, "RDMAP remote protection: unspecified"),
    (T::OperationVersion, 0, 2, 0x05, "RDMAP remote operation: invalid RDMAP version"),
    (T::OperationOpcode, 0, 2, 0x06, "RDMAP remote operation: unexpected opcode"),
    (T::OperationStreamCatastrophic, 0, 2, 0x07, "RDMAP remote operation: catastrophic error of the stream"),
    (T::OperationGlobalCatastrophic, 0, 2, 0x08, "RDMAP remote operation: global catastrophic error"),
    (T::OperationCannotInvalidate, 0, 2, 0x09, "RDMAP remote operation: STag cannot be invalidated"),
    (T::OperationUnspecified, 0, 2, 0xff, "RDMAP remote operation: unspecified"),
    (T::DdpLocalCatastrophic, 1, 0, 0x00, "DDP: local catastrophic error"),
    (T::TaggedInvalidStag, 1, 1, 0x00, "DDP tagged buffer: invalid STag"),
    (T::TaggedBounds, 1, 1, 0x01, "DDP tagged buffer: base or bounds violation"),
    (T::TaggedNotAssociated, 1, 1, 0x02, "DDP tagged buffer: STag not associated with the stream"),
    (T::TaggedOffsetWrap, 1, 1, 0x03, "DDP tagged buffer: tagged offset wraps"),
    (T::TaggedVersion, 1, 1, 0x04, "DDP tagged buffer: invalid DDP version"),
    (T::UntaggedQueue, 1, 2, 0x01, "DDP untagged buffer: invalid queue number"),
    (T::UntaggedNoBuffer, 1, 2, 0x02, "DDP untagged buffer: no buffer available for this message number"),
    (T::UntaggedNumberRange, 1, 2, 0x03, "DDP untagged buffer: message number out of range"),
    (T::UntaggedOffset, 1, 2, 0x04, "DDP untagged buffer: invalid message offset"),
    (T::UntaggedTooLong, 1, 2, 0x05, "DDP untagged buffer: message too long for the buffer"),
    (T::UntaggedVersion, 1, 2, 0x06, "DDP untagged buffer: invalid DDP version"),
    (T::MpaClosed, 2, 0, 0x01, "MPA: TCP connection closed, terminated or lost"),
    (T::MpaCrc, 2, 0, 0x02, "MPA: CRC error"),
    (T::MpaMarker, 2, 0, 0x03, "MPA: marker and ULPDU length disagree"),
    (T::MpaInvalidFpdu, 2, 0, 0x04, "MPA: invalid start-up frame"),
    (T::MpaLocalCatastrophic, 2, 0, 0x05, "MPA: local catastrophic error"),
    (T::MpaInsufficientResources, 2, 0, 0x06, "MPA: insufficient resources for the IRD or ORD asked for"),
    (T::MpaNoReadyToReceive, 2, 0, 0x07, "MPA: no ready-to-receive kind in common"),
];

/// RDMAP's local catastrophic error has no error codes: any value is right there (RFC 5040 figure 9).
const LOCAL_CATASTROPHIC: (u8, u8) = (0, 0);

impl TerminateCode {
    /// Layer, error type and error code.
    #[must_use]
    pub fn numbers(self) -> (u8, u8, u8) {
        match self {
            Self::Unknown { layer, kind, code } => (layer, kind, code),
            known => TABLE
                .iter()
                .find(|row| row.0 == known)
                .map_or((0, 2, 0xff), |&(_, layer, kind, code, _)| (layer, kind, code)),
        }
    }

    /// The code with these numbers.
    #[must_use]
    pub fn from_numbers(layer: u8, kind: u8, code: u8) -> Self {
        if (layer, kind) == LOCAL_CATASTROPHIC {
            return Self::LocalCatastrophic;
        }
        TABLE
            .iter()
            .find(|row| (row.1, row.2, row.3) == (layer, kind, code))
            .map_or(Self::Unknown { layer, kind, code }, |row| row.0)
    }

    const fn is_known(self) -> bool {
        !matches!(self, Self::Unknown { .. })
    }

    /// Whether a Terminate with this code may repeat the segment that caused it (RFC 5040 figure 10): one of RDMAP or
    /// DDP, unless the fault is local; never one of MPA.
    #[must_use]
    pub fn repeats_segment(self) -> bool {
        let (layer, kind, _) = self.numbers();
        layer < 2 && kind != 0
    }
}

impl fmt::Display for TerminateCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (layer, kind, code) = self.numbers();
        let text = TABLE.iter().find(|row| row.0 == *self).map_or("unknown error", |row| row.4);
        write!(f, "{text} (layer {layer}, type {kind}, code {code:#04x})")
    }
}

/// A Terminate message's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terminate {
    /// What went wrong.
    pub code: TerminateCode,
    /// The segment that it went wrong with.
    pub segment: Option<TerminatedSegment>,
}

/// The offending segment, as far as a Terminate repeats it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminatedSegment {
    /// Bytes of the segment, its DDP header included. Zero when the peer does not say.
    pub length: u16,
    /// Its DDP header.
    pub header: ddp::Header,
    /// Its RDMAP header, when it is a read request. No other message's is repeated, an atomic request's neither
    /// (RFC 5040 section 4.8, RFC 7306 section 8.1).
    pub read_request: Option<ReadRequest>,
}

impl TerminatedSegment {
    fn is_read_request(&self) -> bool {
        rdmap::Control::parse(self.header.control) == Ok(rdmap::Control { opcode: Opcode::ReadRequest })
    }
}

/// Where each field begins, in bytes (RFC 5040 figures 7 and 8).
mod field {
    pub(super) const LAYER_AND_TYPE: usize = 0;
    pub(super) const CODE: usize = 1;
    pub(super) const FLAGS: usize = 2;
    pub(super) const RESERVED: usize = 3;
    pub(super) const SEGMENT_LENGTH: usize = 4;
    pub(super) const DDP_HEADER: usize = 6;
}

mod flag {
    pub(super) const SEGMENT_LENGTH_VALID: u8 = 0x80;
    pub(super) const DDP_HEADER: u8 = 0x40;
    pub(super) const RDMAP_HEADER: u8 = 0x20;
}

/// Bytes of a Terminate that repeats no segment.
const CONTROL_LENGTH: usize = field::SEGMENT_LENGTH;

impl Terminate {
    /// The longest payload in bytes: control, segment length, untagged DDP header, read request.
    pub const MAX_LENGTH: usize = field::DDP_HEADER + ddp::UNTAGGED_LENGTH + ReadRequest::LENGTH;

    /// Writes the payload at the start of `bytes` and returns its length. The segment is left out where the code does
    /// not go with one ([`TerminateCode::repeats_segment`]), the RDMAP header where the segment is no read request.
    /// Reserved bits are zero (RFC 5040 section 4.8).
    pub fn emit(&self, bytes: &mut [u8; Self::MAX_LENGTH]) -> usize {
        let (layer, kind, code) = self.code.numbers();
        bytes[field::LAYER_AND_TYPE] = layer << 4 | kind & 0x0f;
        bytes[field::CODE] = code;
        bytes[field::FLAGS] = 0;
        bytes[field::RESERVED] = 0;
        match self.segment.filter(|_| self.code.repeats_segment()) {
            Some(segment) => Self::emit_segment(&segment, bytes),
            None => CONTROL_LENGTH,
        }
    }

    fn emit_segment(segment: &TerminatedSegment, bytes: &mut [u8; Self::MAX_LENGTH]) -> usize {
        bytes[field::FLAGS] = flag::SEGMENT_LENGTH_VALID | flag::DDP_HEADER;
        write_u16(bytes, field::SEGMENT_LENGTH, segment.length);
        let end = field::DDP_HEADER + segment.header.emit(&mut bytes[field::DDP_HEADER..]);
        let Some(request) = segment.read_request.filter(|_| segment.is_read_request()) else { return end };
        bytes[field::FLAGS] |= flag::RDMAP_HEADER;
        bytes[end..end + ReadRequest::LENGTH].copy_from_slice(&request.emit());
        end + ReadRequest::LENGTH
    }

    /// Reads a payload. What follows the control word is taken as far as it can be understood: a peer that is in
    /// trouble may cut it short. `None` when not even the control word is there.
    ///
    /// A control word that Linux siw wrote on a little-endian machine is read as siw meant it, where the two can be
    /// distinguished; what the standard writes is never misread.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let control = Control::parse(bytes.first_chunk()?);
        Some(Self { code: control.code, segment: Self::parse_segment(bytes, control.flags) })
    }

    fn parse_segment(bytes: &[u8], flags: u8) -> Option<TerminatedSegment> {
        let header_and_rest = bytes.get(field::DDP_HEADER..).filter(|_| flags & flag::DDP_HEADER != 0)?;
        let header = ddp::Header::parse(header_and_rest).ok()?;
        let length_is_valid = flags & flag::SEGMENT_LENGTH_VALID != 0;
        let length = if length_is_valid { read_u16(bytes, field::SEGMENT_LENGTH) } else { 0 };
        let mut segment = TerminatedSegment { length, header, read_request: None };
        if flags & flag::RDMAP_HEADER != 0 && segment.is_read_request() {
            segment.read_request = header_and_rest[header.length()..].first_chunk().map(ReadRequest::parse);
        }
        Some(segment)
    }
}

/// The control word: 19 bits that mean something (RFC 5040 figure 8).
struct Control {
    code: TerminateCode,
    flags: u8,
}

impl Control {
    /// Linux siw lays the control word out as bit fields of its compiler. On a little-endian machine that swaps the
    /// nibbles of layer and type and puts the flags, in reverse order, at the other end of their byte, among the
    /// reserved bits that the standard sends as zero. So flags in the wrong place prove siw. Without flags the numbers
    /// decide: what is in no table as it is, but is when swapped, was swapped. The rest is ambiguous, and taken as the
    /// standard means it: siw's RDMAP version and opcode errors read as MPA's codes 5 and 6, and siw's MPA codes 5, 6
    /// and 7 as RDMAP's remote operation errors with those numbers.
    fn parse(word: &[u8; CONTROL_LENGTH]) -> Self {
        let [layer_and_type, code, flags, _] = *word;
        let as_written = TerminateCode::from_numbers(layer_and_type >> 4, layer_and_type & 0x0f, code);
        let swapped = TerminateCode::from_numbers(layer_and_type & 0x0f, layer_and_type >> 4, code);
        let flags_of_siw = SIW_FLAGS.contains(&flags) && word[field::RESERVED] == 0;
        if swapped.is_known() && flags_of_siw {
            Self { code: swapped, flags: flags.reverse_bits() }
        } else if swapped.is_known() && !as_written.is_known() {
            Self { code: swapped, flags }
        } else {
            Self { code: as_written, flags }
        }
    }
}

/// The two sets of flags that siw sends on a little-endian machine, if any: the segment's length and DDP header; both
/// and the RDMAP header.
const SIW_FLAGS: [u8; 2] = [0x03, 0x07];

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;
    use weft_base::{MessageNumber, Stag};

    use super::*;

    const TAGGED: TerminatedSegment = TerminatedSegment {
        length: 0x05dc,
        header: ddp::Header {
            last: true,
            control: 0x40,
            target: ddp::Target::Tagged { stag: Stag(0x0102_0304), offset: 0x1112_1314_1516_1718 },
        },
        read_request: None,
    };

    const READ: TerminatedSegment = TerminatedSegment {
        length: 46,
        header: ddp::Header {
            last: true,
            control: 0x41,
            target: ddp::Target::Untagged { word: 0, queue: 1, number: MessageNumber(7), offset: 0 },
        },
        read_request: Some(ReadRequest {
            sink_stag: Stag(0x2122_2324),
            sink_offset: 0x3132_3334_3536_3738,
            length: 0x4142_4344,
            source_stag: Stag(0x5152_5354),
            source_offset: 0x6162_6364_6566_6768,
        }),
    };

    fn emitted(terminate: &Terminate) -> Vec<u8> {
        let mut bytes = [0xa5; Terminate::MAX_LENGTH];
        let length = terminate.emit(&mut bytes);
        assert!(bytes[length..].iter().all(|byte| *byte == 0xa5), "wrote past the end");
        bytes[..length].to_vec()
    }

    fn check_both_ways(terminate: Terminate, bytes: &[u8]) {
        assert_eq!(emitted(&terminate), bytes);
        assert_eq!(Terminate::parse(bytes), Some(terminate));
    }

    /// What siw sends for a code on a little-endian machine: nibbles swapped; the segment repeated, with flags in the
    /// wrong place, for anything of RDMAP or DDP but a local catastrophe of RDMAP and what leaves the segment's form in
    /// doubt.
    fn as_siw_writes_it(code: TerminateCode) -> Vec<u8> {
        let (layer, kind, number) = code.numbers();
        let flags = match code {
            T::LocalCatastrophic | T::OperationVersion | T::OperationOpcode | T::TaggedVersion | T::UntaggedVersion => {
                0
            }
            _ if (layer, kind) == (0, 1) => 0x07,
            _ if layer < 2 => 0x03,
            _ => 0,
        };
        let mut bytes = vec![kind << 4 | layer, number, flags, 0];
        if flags != 0 {
            bytes.extend(&emitted(&Terminate { code: T::TaggedBounds, segment: Some(TAGGED) })[CONTROL_LENGTH..]);
        }
        bytes
    }

    #[test]
    fn the_table_is_bijective() {
        let codes: HashSet<_> = TABLE.iter().map(|row| row.0).collect();
        let numbers: HashSet<_> = TABLE.iter().map(|row| (row.1, row.2, row.3)).collect();
        let texts: HashSet<_> = TABLE.iter().map(|row| row.4).collect();
        assert_eq!([codes.len(), numbers.len(), texts.len()], [TABLE.len(); 3]);
        assert!(codes.iter().all(|code| code.is_known()));
        for &(code, layer, kind, number, _) in TABLE {
            assert_eq!(code.numbers(), (layer, kind, number));
            assert_eq!(TerminateCode::from_numbers(layer, kind, number), code);
        }
    }

    #[test]
    fn every_number_is_a_row_or_unknown_and_comes_back() {
        for (layer, kind) in (0..16).flat_map(|layer| (0..16).map(move |kind| (layer, kind))) {
            for number in 0..=u8::MAX {
                let code = TerminateCode::from_numbers(layer, kind, number);
                if (layer, kind) == LOCAL_CATASTROPHIC {
                    assert_eq!(code, T::LocalCatastrophic);
                } else {
                    assert_eq!(code.numbers(), (layer, kind, number));
                }
            }
        }
    }

    #[test]
    fn display_has_text_and_numbers() {
        assert_eq!(T::MpaCrc.to_string(), "MPA: CRC error (layer 2, type 0, code 0x02)");
        let unknown = TerminateCode::from_numbers(3, 4, 5);
        assert_eq!(unknown.to_string(), "unknown error (layer 3, type 4, code 0x05)");
    }

    #[test]
    fn exact_bytes_of_a_bad_crc_both_ways() {
        check_both_ways(Terminate { code: T::MpaCrc, segment: None }, &[0x20, 0x02, 0, 0]);
    }

    #[test]
    fn exact_bytes_with_a_tagged_segment_both_ways() {
        #[rustfmt::skip]
        let bytes = [
            0x11, 0x01, 0xc0, 0, 0x05, 0xdc,
            0xc1, 0x40, 0x01, 0x02, 0x03, 0x04, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18,
        ];
        check_both_ways(Terminate { code: T::TaggedBounds, segment: Some(TAGGED) }, &bytes);
    }

    #[test]
    fn exact_bytes_with_a_read_request_both_ways() {
        #[rustfmt::skip]
        let bytes = [
            0x01, 0x02, 0xe0, 0, 0, 46,
            0x41, 0x41, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0, 0,
            0x21, 0x22, 0x23, 0x24, 0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38, 0x41, 0x42, 0x43, 0x44,
            0x51, 0x52, 0x53, 0x54, 0x61, 0x62, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68,
        ];
        assert_eq!(bytes.len(), Terminate::MAX_LENGTH);
        check_both_ways(Terminate { code: T::ProtectionRights, segment: Some(READ) }, &bytes);
    }

    #[test]
    fn only_a_code_that_goes_with_a_segment_repeats_it() {
        for &(code, layer, kind, ..) in TABLE {
            let length = emitted(&Terminate { code, segment: Some(TAGGED) }).len();
            let expected = if layer < 2 && kind != 0 { 20 } else { 4 };
            assert_eq!(length, expected, "{code}");
        }
    }

    #[test]
    fn an_atomic_requests_header_is_neither_written_nor_read() {
        let header = ddp::Header { control: 0x4a, ..READ.header };
        let segment = Some(TerminatedSegment { header, ..READ });
        let mut bytes = emitted(&Terminate { code: T::OperationStreamCatastrophic, segment });
        assert_eq!((bytes.len(), bytes[2]), (24, 0xc0));
        bytes[2] |= 0x20;
        bytes.extend([0xa5; 52]);
        assert_eq!(Terminate::parse(&bytes).and_then(|terminate| terminate.segment?.read_request), None);
    }

    #[test]
    fn a_terminate_cut_anywhere_keeps_its_code() {
        let whole = Terminate { code: T::ProtectionRights, segment: Some(READ) };
        let bytes = emitted(&whole);
        for length in 0..bytes.len() {
            let read = Terminate::parse(&bytes[..length]);
            assert_eq!(read.map(|terminate| terminate.code), (length >= 4).then_some(whole.code));
            let segment = read.and_then(|terminate| terminate.segment);
            assert_eq!(segment.map(|segment| segment.header), (length >= 24).then_some(READ.header));
        }
    }

    #[test]
    fn a_segment_length_that_is_not_marked_valid_is_not_believed() {
        let mut bytes = emitted(&Terminate { code: T::TaggedBounds, segment: Some(TAGGED) });
        bytes[2] &= !0x80;
        assert_eq!(
            Terminate::parse(&bytes).and_then(|terminate| terminate.segment).map(|segment| segment.length),
            Some(0)
        );
    }

    #[test]
    fn reserved_bits_are_not_read() {
        assert_eq!(Terminate::parse(&[0x20, 0x02, 0x1f, 0xff]), Some(Terminate { code: T::MpaCrc, segment: None }));
    }

    #[test]
    fn a_code_as_the_standard_writes_it_is_never_misread() {
        for &(code, ..) in TABLE {
            for segment in [None, Some(TAGGED), Some(READ)] {
                let read = Terminate::parse(&emitted(&Terminate { code, segment })).map(|terminate| terminate.code);
                assert_eq!(read, Some(code));
            }
        }
    }

    #[test]
    fn what_siw_writes_is_understood_but_for_five_codes_that_nobody_could_tell_apart() {
        let misread: Vec<_> = TABLE
            .iter()
            .map(|row| (row.0, Terminate::parse(&as_siw_writes_it(row.0)).map(|terminate| terminate.code)))
            .filter(|(sent, read)| *read != Some(*sent))
            .collect();
        let expected = [
            (T::OperationVersion, Some(T::MpaLocalCatastrophic)),
            (T::OperationOpcode, Some(T::MpaInsufficientResources)),
            (T::MpaLocalCatastrophic, Some(T::OperationVersion)),
            (T::MpaInsufficientResources, Some(T::OperationOpcode)),
            (T::MpaNoReadyToReceive, Some(T::OperationStreamCatastrophic)),
        ];
        assert_eq!(misread, expected);
    }

    #[test]
    fn the_segment_that_siw_repeats_is_found() {
        let read = Terminate::parse(&as_siw_writes_it(T::ProtectionInvalidStag));
        assert_eq!(read, Some(Terminate { code: T::ProtectionInvalidStag, segment: Some(TAGGED) }));
    }

    #[test]
    fn siws_bad_crc_is_a_bad_crc() {
        assert_eq!(Terminate::parse(&[0x02, 0x02, 0, 0]), Some(Terminate { code: T::MpaCrc, segment: None }));
    }

    proptest! {
        #[test]
        fn any_bytes_parse_without_panic_and_what_parses_is_stable(bytes: Vec<u8>) {
            if let Some(terminate) = Terminate::parse(&bytes) {
                let once = Terminate::parse(&emitted(&terminate));
                // A segment beside a code that does not go with one is not written again; all else is.
                let segment = terminate.segment.filter(|_| terminate.code.repeats_segment());
                prop_assert_eq!(once, Some(Terminate { segment, ..terminate }));
            }
        }
    }
}
