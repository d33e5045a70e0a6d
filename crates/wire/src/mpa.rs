//! MPA: start-up frames, FPDU sizes, markers (RFC 5044), and the enhanced set-up of RFC 6581.

use crate::bytes::{read_u16, write_u16};

/// Bytes of a start-up frame before its private data (RFC 5044 section 7.1.1).
pub const START_HEADER_LENGTH: usize = 20;
/// The most private data a start-up frame may carry, in bytes (RFC 5044 section 7.1.1).
pub const MAX_PRIVATE_DATA: usize = 512;
/// Bytes from the start of one marker to the start of the next (RFC 5044 section 4.3).
pub const MARKER_SPACING: u64 = 512;
/// Bytes of a marker.
pub const MARKER_LENGTH: usize = 4;
/// Bytes of the ULPDU length at the head of an FPDU.
pub const LENGTH_FIELD: usize = 2;
/// Bytes of the CRC at the tail of an FPDU.
pub const CRC_LENGTH: usize = 4;
/// The most bytes of a ULPDU that the length field can say.
pub const MAX_ULPDU: u32 = 65_535;

const KEY_REQUEST: &[u8; 16] = b"MPA ID Req Frame";
const KEY_REPLY: &[u8; 16] = b"MPA ID Rep Frame";

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

/// The fixed part of an MPA Request or Reply Frame (RFC 5044 section 7.1.1, RFC 6581 section 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartHeader {
    /// Request or reply.
    pub kind: StartKind,
    /// M: the sender of this frame wants markers in what it receives.
    pub markers: bool,
    /// C: the sender of this frame wants CRCs, in both directions.
    pub crc: bool,
    /// R: the responder rejects. Zero in a request.
    pub reject: bool,
    /// S: the private data begins with an [`Enhanced`] word (RFC 6581; revision 2 only).
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
    /// Reads the head of a start-up frame. Reserved flag bits are not looked at (RFC 5044 section 7.1.1: they must not be checked).
    ///
    /// # Errors
    /// When the bytes are no start-up frame. The revision is not judged here.
    pub fn parse(bytes: &[u8; START_HEADER_LENGTH]) -> Result<Self, StartError> {
        let kind = match &bytes[..16] {
            key if key == KEY_REQUEST => StartKind::Request,
            key if key == KEY_REPLY => StartKind::Reply,
            _ => return Err(StartError::Key),
        };
        let flags = bytes[16];
        let private_length = read_u16(bytes, 18);
        if usize::from(private_length) > MAX_PRIVATE_DATA {
            return Err(StartError::PrivateLength(private_length));
        }
        Ok(Self {
            kind,
            markers: flags & flag::MARKERS != 0,
            crc: flags & flag::CRC != 0,
            reject: flags & flag::REJECT != 0,
            enhanced: flags & flag::ENHANCED != 0,
            revision: bytes[17],
            private_length,
        })
    }

    /// Whether `bytes` (as many as are there, up to 16) can still become the key of a frame of this kind: so that a peer that speaks
    /// something else is recognised by its first bytes, without waiting for twenty.
    #[must_use]
    pub fn key_may_follow(kind: StartKind, bytes: &[u8]) -> bool {
        let key = match kind {
            StartKind::Request => KEY_REQUEST,
            StartKind::Reply => KEY_REPLY,
        };
        let seen = bytes.len().min(key.len());
        bytes[..seen] == key[..seen]
    }

    /// Writes the head of a start-up frame. Reserved bits are zero (RFC 5044 section 7.1.1).
    pub fn emit(&self, bytes: &mut [u8; START_HEADER_LENGTH]) {
        bytes[..16].copy_from_slice(match self.kind {
            StartKind::Request => KEY_REQUEST,
            StartKind::Reply => KEY_REPLY,
        });
        let set = |condition, bit| if condition { bit } else { 0 };
        bytes[16] = set(self.markers, flag::MARKERS)
            | set(self.crc, flag::CRC)
            | set(self.reject, flag::REJECT)
            | set(self.enhanced, flag::ENHANCED);
        bytes[17] = self.revision;
        write_u16(bytes, 18, self.private_length);
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
    /// How many outbound reads the sender of this frame wants to have under way at a time. 14 bits.
    pub ord: u16,
    /// A: peer-to-peer: the initiator must open with a ready-to-receive message.
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
        let ird = read_u16(bytes, 0);
        let ord = read_u16(bytes, 2);
        Self {
            ird: ird & Self::DEPTH,
            ord: ord & Self::DEPTH,
            peer_to_peer: ird & Self::A_OR_C != 0,
            rtr_send: ird & Self::B_OR_D != 0,
            rtr_write: ord & Self::A_OR_C != 0,
            rtr_read: ord & Self::B_OR_D != 0,
        }
    }

    /// Writes the word. Depths above 14 bits are cut to the largest that is not [`DEPTH_NOT_NEGOTIATED`].
    #[must_use]
    pub fn emit(&self) -> [u8; ENHANCED_LENGTH] {
        let depth = |depth: u16| if depth > Self::DEPTH { Self::DEPTH - 1 } else { depth };
        let set = |condition, bit| if condition { bit } else { 0 };
        let ird = depth(self.ird) | set(self.peer_to_peer, Self::A_OR_C) | set(self.rtr_send, Self::B_OR_D);
        let ord = depth(self.ord) | set(self.rtr_write, Self::A_OR_C) | set(self.rtr_read, Self::B_OR_D);
        let mut bytes = [0; ENHANCED_LENGTH];
        write_u16(&mut bytes, 0, ird);
        write_u16(&mut bytes, 2, ord);
        bytes
    }
}

/// Bytes of padding after a ULPDU, so that length field, ULPDU and pad are a multiple of four (RFC 5044 section 4.1).
#[must_use]
pub const fn pad_length(ulpdu_length: u32) -> u32 {
    (4 - (ulpdu_length + LENGTH_FIELD as u32) % 4) % 4
}

/// The marker of a stream: two zero bytes, then the distance back to the start of the FPDU (RFC 5044 section 4.3).
#[must_use]
pub const fn marker(fpdu_pointer: u16) -> [u8; MARKER_LENGTH] {
    let pointer = fpdu_pointer.to_be_bytes();
    [0, 0, pointer[0], pointer[1]]
}

/// The FPDUPTR of a marker; the reserved half is not looked at (RFC 5044 section 4.3: it must be ignored).
#[must_use]
pub const fn marker_pointer(bytes: [u8; MARKER_LENGTH]) -> u16 {
    u16::from_be_bytes([bytes[2], bytes[3]])
}

/// The largest ULPDU whose FPDU fits a packet with `emss` payload bytes, marker worst case included (RFC 5044 section 4.5).
#[must_use]
pub const fn max_ulpdu(emss: u32, markers: bool) -> u32 {
    let overhead = 6 + if markers { 4 * emss.div_ceil(512) } else { 0 } + emss % 4;
    let ulpdu = emss.saturating_sub(overhead);
    if ulpdu > MAX_ULPDU { MAX_ULPDU } else { ulpdu }
}
