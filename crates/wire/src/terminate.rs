//! The Terminate message and its error codes (RFC 5040 section 4.8, RFC 5041 section 6.2, RFC 5044 section 8, RFC 6581 section 9.2, RFC 7306
//! section 8).

use core::fmt;

use crate::bytes::{read_u16, write_u16};
use crate::ddp;
use crate::rdmap::ReadRequest;

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
    (T::MpaInvalidFpdu, 2, 0, 0x04, "MPA: invalid start-up frame or FPDU"),
    (T::MpaLocalCatastrophic, 2, 0, 0x05, "MPA: local catastrophic error"),
    (T::MpaInsufficientResources, 2, 0, 0x06, "MPA: insufficient resources for the IRD or ORD asked for"),
    (T::MpaNoReadyToReceive, 2, 0, 0x07, "MPA: no ready-to-receive kind in common"),
];

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
        TABLE
            .iter()
            .find(|row| (row.1, row.2, row.3) == (layer, kind, code))
            .map_or(Self::Unknown { layer, kind, code }, |row| row.0)
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
    /// Bytes of the segment, its DDP header included.
    pub length: u16,
    /// Its DDP header.
    pub header: ddp::Header,
    /// Its RDMAP header, when it is (or belongs to the answer of) a read request.
    pub read_request: Option<ReadRequest>,
}

const SEGMENT_LENGTH_VALID: u8 = 0x80;
const DDP_HEADER_INCLUDED: u8 = 0x40;
const RDMAP_HEADER_INCLUDED: u8 = 0x20;
const CONTROL_LENGTH: usize = 4;
const SEGMENT_LENGTH_FIELD: usize = 2;

impl Terminate {
    /// The longest payload in bytes: control, segment length, untagged DDP header, read request.
    pub const MAX_LENGTH: usize = CONTROL_LENGTH + SEGMENT_LENGTH_FIELD + ddp::UNTAGGED_LENGTH + ReadRequest::LENGTH;

    /// Writes the payload at the start of `bytes` and returns its length.
    pub fn emit(&self, bytes: &mut [u8; Self::MAX_LENGTH]) -> usize {
        let (layer, kind, code) = self.code.numbers();
        bytes[..CONTROL_LENGTH].copy_from_slice(&[layer << 4 | kind & 0x0f, code, 0, 0]);
        let Some(segment) = &self.segment else { return CONTROL_LENGTH };
        bytes[2] = SEGMENT_LENGTH_VALID | DDP_HEADER_INCLUDED;
        write_u16(bytes, CONTROL_LENGTH, segment.length);
        let mut end = CONTROL_LENGTH + SEGMENT_LENGTH_FIELD;
        end += segment.header.emit(&mut bytes[end..]);
        if let Some(request) = &segment.read_request {
            bytes[2] |= RDMAP_HEADER_INCLUDED;
            bytes[end..end + ReadRequest::LENGTH].copy_from_slice(&request.emit());
            end += ReadRequest::LENGTH;
        }
        end
    }

    /// Reads a payload. What follows the control word is taken as far as it can be understood: a peer that is in trouble may cut it short.
    /// `None` when not even the control word is there.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let [first, code, flags, ..] = *bytes else { return None };
        let code = Self::parse_code(first, code);
        let rest = bytes.get(CONTROL_LENGTH + SEGMENT_LENGTH_FIELD..);
        let segment = rest.filter(|_| flags & DDP_HEADER_INCLUDED != 0).and_then(|rest| {
            let header = ddp::Header::parse(rest).ok()?;
            let request = rest.get(header.length()..).and_then(|rest| rest.first_chunk());
            Some(TerminatedSegment {
                length: read_u16(bytes, CONTROL_LENGTH),
                header,
                read_request: request.filter(|_| flags & RDMAP_HEADER_INCLUDED != 0).map(ReadRequest::parse),
            })
        });
        Some(Self { code, segment })
    }

    /// Linux siw on little-endian machines swaps the nibbles of layer and error type. Where the numbers make no sense as they stand but
    /// make sense swapped, they are taken swapped.
    fn parse_code(first: u8, code: u8) -> TerminateCode {
        let as_written = TerminateCode::from_numbers(first >> 4, first & 0x0f, code);
        let swapped = TerminateCode::from_numbers(first & 0x0f, first >> 4, code);
        match (as_written, swapped) {
            (TerminateCode::Unknown { .. }, known) if !matches!(known, TerminateCode::Unknown { .. }) => known,
            _ => as_written,
        }
    }
}
