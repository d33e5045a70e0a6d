//! RDMAP: the control byte, and the messages that RDMAP itself reads (RFC 5040 section 4, RFC 7306 sections 4 to 6).

use weft_base::{MessageNumber, Stag};

use crate::bytes::{read_u32, read_u64, write_u32, write_u64};

/// The RDMAP version this module speaks (RFC 5040 section 4.1: 1).
pub const VERSION: u8 = 1;

/// Untagged queues of a stream (RFC 5040 section 4, RFC 7306 section 4).
pub mod queue {
    /// Sends of all kinds, and immediate data.
    pub const SEND: u32 = 0;
    /// Read requests and atomic requests.
    pub const READ_REQUEST: u32 = 1;
    /// Terminates.
    pub const TERMINATE: u32 = 2;
    /// Atomic responses.
    pub const ATOMIC_RESPONSE: u32 = 3;
    /// Receipts, between Weft peers that have agreed on them.
    pub const RECEIPT: u32 = 4;
}

/// What a message is (RFC 5040 section 4.2, RFC 7306 section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Opcode {
    /// RDMA Write.
    Write = 0,
    /// RDMA Read Request.
    ReadRequest = 1,
    /// RDMA Read Response.
    ReadResponse = 2,
    /// Send.
    Send = 3,
    /// Send with Invalidate.
    SendInvalidate = 4,
    /// Send with Solicited Event.
    SendSolicited = 5,
    /// Send with Solicited Event and Invalidate.
    SendSolicitedInvalidate = 6,
    /// Terminate.
    Terminate = 7,
    /// Immediate Data (RFC 7306).
    Immediate = 8,
    /// Immediate Data with Solicited Event (RFC 7306).
    ImmediateSolicited = 9,
    /// Atomic Request (RFC 7306).
    AtomicRequest = 10,
    /// Atomic Response (RFC 7306).
    AtomicResponse = 11,
    /// [`Receipt`]: no standard has it, and only Weft peers that have agreed on receipts send it.
    Receipt = 12,
    /// Send with Immediate Data in the word of its header that a Send with Invalidate has for its STag: no standard has
    /// it, and only Weft peers that have agreed on extensions send it.
    SendImmediate = 13,
    /// Send with Immediate Data and Solicited Event, of the same kind.
    SendSolicitedImmediate = 14,
}

impl Opcode {
    const ALL: [Self; 15] = [
        Self::Write,
        Self::ReadRequest,
        Self::ReadResponse,
        Self::Send,
        Self::SendInvalidate,
        Self::SendSolicited,
        Self::SendSolicitedInvalidate,
        Self::Terminate,
        Self::Immediate,
        Self::ImmediateSolicited,
        Self::AtomicRequest,
        Self::AtomicResponse,
        Self::Receipt,
        Self::SendImmediate,
        Self::SendSolicitedImmediate,
    ];

    /// Whether messages of this kind travel in tagged segments (RFC 5040 figure 4).
    #[must_use]
    pub const fn is_tagged(self) -> bool {
        matches!(self, Self::Write | Self::ReadResponse)
    }

    /// The queue of messages of this kind, `None` for tagged ones.
    #[must_use]
    pub const fn queue(self) -> Option<u32> {
        match self {
            Self::Write | Self::ReadResponse => None,
            Self::Send
            | Self::SendInvalidate
            | Self::SendSolicited
            | Self::SendSolicitedInvalidate
            | Self::Immediate
            | Self::ImmediateSolicited
            | Self::SendImmediate
            | Self::SendSolicitedImmediate => Some(queue::SEND),
            Self::ReadRequest | Self::AtomicRequest => Some(queue::READ_REQUEST),
            Self::Terminate => Some(queue::TERMINATE),
            Self::AtomicResponse => Some(queue::ATOMIC_RESPONSE),
            Self::Receipt => Some(queue::RECEIPT),
        }
    }
}

/// A bit of RDMAP's byte that the standard reserves and no receiver reads (RFC 5040 section 4.1). Between Weft peers
/// that have agreed on receipts it asks in the last segment of a message for a [`Receipt`] that acknowledges the
/// message.
pub const ASKS_RECEIPT: u8 = 0x20;

/// RDMAP's byte in each DDP header: version and opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Control {
    /// What the message is.
    pub opcode: Opcode,
}

/// Why a control byte is not one of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlError {
    /// The RDMAP version is not 1.
    Version(u8),
    /// No message has this opcode.
    Opcode(u8),
}

impl Control {
    /// Reads the byte. The two reserved bits are ignored (RFC 5040 section 4.1).
    ///
    /// # Errors
    /// When the version or the opcode is unknown.
    pub fn parse(byte: u8) -> Result<Self, ControlError> {
        let version = byte >> 6;
        if version != VERSION {
            return Err(ControlError::Version(version));
        }
        let code = byte & 0x0f;
        let opcode = Opcode::ALL.get(usize::from(code)).ok_or(ControlError::Opcode(code))?;
        Ok(Self { opcode: *opcode })
    }

    /// The byte.
    #[must_use]
    pub const fn emit(self) -> u8 {
        VERSION << 6 | self.opcode as u8
    }
}

/// The payload of an RDMA Read Request (RFC 5040 section 4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadRequest {
    /// Where the response goes: the requester's buffer.
    pub sink_stag: Stag,
    /// Where in it.
    pub sink_offset: u64,
    /// Bytes to read.
    pub length: u32,
    /// Where the bytes are: the responder's buffer.
    pub source_stag: Stag,
    /// Where in it.
    pub source_offset: u64,
}

/// Where each field of a read request begins, in bytes (RFC 5040 figure 6).
mod read_request {
    pub(super) const SINK_STAG: usize = 0;
    pub(super) const SINK_OFFSET: usize = 4;
    pub(super) const LENGTH: usize = 12;
    pub(super) const SOURCE_STAG: usize = 16;
    pub(super) const SOURCE_OFFSET: usize = 20;
}

impl ReadRequest {
    /// Bytes on the wire.
    pub const LENGTH: usize = 28;

    /// Reads it.
    #[must_use]
    pub fn parse(bytes: &[u8; Self::LENGTH]) -> Self {
        use read_request as field;
        Self {
            sink_stag: Stag(read_u32(bytes, field::SINK_STAG)),
            sink_offset: read_u64(bytes, field::SINK_OFFSET),
            length: read_u32(bytes, field::LENGTH),
            source_stag: Stag(read_u32(bytes, field::SOURCE_STAG)),
            source_offset: read_u64(bytes, field::SOURCE_OFFSET),
        }
    }

    /// Writes it.
    #[must_use]
    pub fn emit(&self) -> [u8; Self::LENGTH] {
        use read_request as field;
        let mut bytes = [0; Self::LENGTH];
        write_u32(&mut bytes, field::SINK_STAG, self.sink_stag.0);
        write_u64(&mut bytes, field::SINK_OFFSET, self.sink_offset);
        write_u32(&mut bytes, field::LENGTH, self.length);
        write_u32(&mut bytes, field::SOURCE_STAG, self.source_stag.0);
        write_u64(&mut bytes, field::SOURCE_OFFSET, self.source_offset);
        bytes
    }
}

/// Bytes of Immediate Data, the whole payload of its message (RFC 7306 section 6.2).
pub const IMMEDIATE_LENGTH: usize = 8;

/// What an atomic request does (RFC 7306 section 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum AtomicCode {
    /// Add, field by field.
    FetchAdd = 0,
    /// Exchange, whatever the old value is. The number 1 is reserved (RFC 7306 section 10.1: the standard's text still
    /// speaks of a Swap, its table has none), so it never travels: [`AtomicRequest::emit`] writes the
    /// [`AtomicCode::CompareSwap`] that compares no bit and swaps all, which each responder that knows atomic
    /// operations knows. [`AtomicRequest::parse`] never returns it.
    Swap = 1,
    /// Exchange if equal.
    CompareSwap = 2,
}

/// The payload of an Atomic Request (RFC 7306 section 5.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtomicRequest {
    /// What to do.
    pub code: AtomicCode,
    /// Chosen by the requester, sent back in the response.
    pub identifier: u32,
    /// The responder's buffer.
    pub stag: Stag,
    /// Where in it: the address there must be a multiple of 8.
    pub offset: u64,
    /// What to add or to put.
    pub data: u64,
    /// Add mask (the highest bit of each field; 0 is one field of 64 bits) or swap mask (the bits to exchange).
    pub mask: u64,
    /// What to compare with. Of [`AtomicCode::CompareSwap`] only.
    pub compare: u64,
    /// Which bits to compare. Of [`AtomicCode::CompareSwap`] only.
    pub compare_mask: u64,
}

/// Where each field of an atomic request begins, in bytes (RFC 7306 figure 4).
mod atomic_request {
    pub(super) const CODE: usize = 3;
    pub(super) const IDENTIFIER: usize = 4;
    pub(super) const STAG: usize = 8;
    pub(super) const OFFSET: usize = 12;
    pub(super) const DATA: usize = 20;
    pub(super) const MASK: usize = 28;
    pub(super) const COMPARE: usize = 36;
    pub(super) const COMPARE_MASK: usize = 44;
}

/// The bits of the byte that holds the atomic operation code; the rest of the word is reserved.
const ATOMIC_CODE_MASK: u8 = 0x0f;

impl AtomicRequest {
    /// Bytes on the wire.
    pub const LENGTH: usize = 52;

    /// Reads it. The error is the unknown operation code (RFC 7306 section 5.2.1, rule 4: it must be surfaced).
    ///
    /// # Errors
    /// The operation code is neither FetchAdd nor CmpSwap.
    pub fn parse(bytes: &[u8; Self::LENGTH]) -> Result<Self, u8> {
        use atomic_request as field;
        let code = match bytes[field::CODE] & ATOMIC_CODE_MASK {
            0 => AtomicCode::FetchAdd,
            2 => AtomicCode::CompareSwap,
            unknown => return Err(unknown),
        };
        let request = Self {
            code,
            identifier: read_u32(bytes, field::IDENTIFIER),
            stag: Stag(read_u32(bytes, field::STAG)),
            offset: read_u64(bytes, field::OFFSET),
            data: read_u64(bytes, field::DATA),
            mask: read_u64(bytes, field::MASK),
            compare: read_u64(bytes, field::COMPARE),
            compare_mask: read_u64(bytes, field::COMPARE_MASK),
        };
        Ok(request.canonical())
    }

    /// Writes it, in the form of [`AtomicRequest::canonical`].
    #[must_use]
    pub fn emit(&self) -> [u8; Self::LENGTH] {
        use atomic_request as field;
        let request = self.canonical();
        let mut bytes = [0; Self::LENGTH];
        bytes[field::CODE] = request.code as u8;
        write_u32(&mut bytes, field::IDENTIFIER, request.identifier);
        write_u32(&mut bytes, field::STAG, request.stag.0);
        write_u64(&mut bytes, field::OFFSET, request.offset);
        write_u64(&mut bytes, field::DATA, request.data);
        write_u64(&mut bytes, field::MASK, request.mask);
        write_u64(&mut bytes, field::COMPARE, request.compare);
        write_u64(&mut bytes, field::COMPARE_MASK, request.compare_mask);
        bytes
    }

    /// The same request with each field that its operation does not use as the standard wants it on the wire, and a
    /// Swap as the CmpSwap that it travels as (RFC 7306 section 5.2.1: compare data zero and compare mask all ones
    /// where nothing is compared).
    #[must_use]
    pub const fn canonical(self) -> Self {
        match self.code {
            AtomicCode::FetchAdd => Self { compare: 0, compare_mask: u64::MAX, ..self },
            AtomicCode::Swap => {
                Self { code: AtomicCode::CompareSwap, mask: u64::MAX, compare: 0, compare_mask: 0, ..self }
            }
            AtomicCode::CompareSwap => self,
        }
    }
}

/// The payload of an Atomic Response (RFC 7306 figure 6: 12 bytes; the 32 of its section 4 are a slip of the pen).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtomicResponse {
    /// The request's identifier.
    pub identifier: u32,
    /// The old value.
    pub original: u64,
}

/// Where each field of an atomic response begins, in bytes (RFC 7306 figure 6).
mod atomic_response {
    pub(super) const IDENTIFIER: usize = 0;
    pub(super) const ORIGINAL: usize = 4;
}

impl AtomicResponse {
    /// Bytes on the wire.
    pub const LENGTH: usize = 12;

    /// Reads it.
    #[must_use]
    pub fn parse(bytes: &[u8; Self::LENGTH]) -> Self {
        use atomic_response as field;
        Self { identifier: read_u32(bytes, field::IDENTIFIER), original: read_u64(bytes, field::ORIGINAL) }
    }

    /// Writes it.
    #[must_use]
    pub fn emit(&self) -> [u8; Self::LENGTH] {
        use atomic_response as field;
        let mut bytes = [0; Self::LENGTH];
        write_u32(&mut bytes, field::IDENTIFIER, self.identifier);
        write_u64(&mut bytes, field::ORIGINAL, self.original);
        bytes
    }
}

/// What an end reports of the messages of its peer, and of its own that wait: the payload of a message that only Weft
/// peers send, and only if both have offered it in the start-up. All counts begin at the start of the connection, so
/// that one receipt includes all before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// A receipt is wanted for all that was sent before this.
    pub asks: bool,
    /// The first message of queue 0 that the receiver of this may not send yet: all before it have a receive.
    pub limit: MessageNumber,
    /// The first message of queue 0 for which the sender of this has no request: those before it are sent, or wait for
    /// the limit.
    pub wanted: MessageNumber,
    /// Writes, Sends and immediate data of the receiver of this that are whole and in place.
    pub placed: u64,
}

/// Where each field of a receipt begins, in bytes.
mod receipt {
    pub(super) const FLAGS: usize = 0;
    pub(super) const LIMIT: usize = 4;
    pub(super) const WANTED: usize = 8;
    pub(super) const PLACED: usize = 12;
}

/// The flag of a receipt that asks for one. The others are written zero and not read.
const ASKS: u8 = 0x01;

impl Receipt {
    /// Bytes on the wire.
    pub const LENGTH: usize = 20;

    /// Reads it.
    #[must_use]
    pub fn parse(bytes: &[u8; Self::LENGTH]) -> Self {
        use receipt as field;
        Self {
            asks: bytes[field::FLAGS] & ASKS != 0,
            limit: MessageNumber(read_u32(bytes, field::LIMIT)),
            wanted: MessageNumber(read_u32(bytes, field::WANTED)),
            placed: read_u64(bytes, field::PLACED),
        }
    }

    /// Writes it.
    #[must_use]
    pub fn emit(&self) -> [u8; Self::LENGTH] {
        use receipt as field;
        let mut bytes = [0; Self::LENGTH];
        bytes[field::FLAGS] = if self.asks { ASKS } else { 0 };
        write_u32(&mut bytes, field::LIMIT, self.limit.0);
        write_u32(&mut bytes, field::WANTED, self.wanted.0);
        write_u64(&mut bytes, field::PLACED, self.placed);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Opcode, control byte, whether tagged, queue: figure 4 of RFC 5040, figure 2 of RFC 7306, and our own.
    const OPCODES: [(Opcode, u8, Option<u32>); 15] = [
        (Opcode::Write, 0x40, None),
        (Opcode::ReadRequest, 0x41, Some(1)),
        (Opcode::ReadResponse, 0x42, None),
        (Opcode::Send, 0x43, Some(0)),
        (Opcode::SendInvalidate, 0x44, Some(0)),
        (Opcode::SendSolicited, 0x45, Some(0)),
        (Opcode::SendSolicitedInvalidate, 0x46, Some(0)),
        (Opcode::Terminate, 0x47, Some(2)),
        (Opcode::Immediate, 0x48, Some(0)),
        (Opcode::ImmediateSolicited, 0x49, Some(0)),
        (Opcode::AtomicRequest, 0x4a, Some(1)),
        (Opcode::AtomicResponse, 0x4b, Some(3)),
        (Opcode::Receipt, 0x4c, Some(4)),
        (Opcode::SendImmediate, 0x4d, Some(0)),
        (Opcode::SendSolicitedImmediate, 0x4e, Some(0)),
    ];

    #[test]
    fn each_opcode_has_its_byte_buffer_model_and_queue() {
        for (opcode, byte, queue) in OPCODES {
            assert_eq!(Control { opcode }.emit(), byte);
            assert_eq!(Control::parse(byte), Ok(Control { opcode }));
            assert_eq!(opcode.queue(), queue);
            assert_eq!(opcode.is_tagged(), queue.is_none());
        }
    }

    #[test]
    fn every_control_byte_is_read_or_refused_for_the_right_reason() {
        for byte in 0..=u8::MAX {
            let expected = match (byte >> 6, byte & 0x0f) {
                (1, code) if code < 15 => Ok(Control { opcode: OPCODES[usize::from(code)].0 }),
                (1, code) => Err(ControlError::Opcode(code)),
                (version, _) => Err(ControlError::Version(version)),
            };
            assert_eq!(Control::parse(byte), expected, "{byte:#04x}");
        }
    }

    #[test]
    fn exact_bytes_of_a_read_request_both_ways() {
        let request = ReadRequest {
            sink_stag: Stag(0x0102_0304),
            sink_offset: 0x1112_1314_1516_1718,
            length: 0x2122_2324,
            source_stag: Stag(0x3132_3334),
            source_offset: 0x4142_4344_4546_4748,
        };
        let bytes = [
            0x01, 0x02, 0x03, 0x04, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x21, 0x22, 0x23, 0x24, 0x31, 0x32,
            0x33, 0x34, 0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48,
        ];
        assert_eq!(request.emit(), bytes);
        assert_eq!(ReadRequest::parse(&bytes), request);
    }

    #[test]
    fn exact_bytes_of_a_receipt_both_ways() {
        let receipt = Receipt {
            asks: true,
            limit: MessageNumber(0x0102_0304),
            wanted: MessageNumber(0x1112_1314),
            placed: 0x2122_2324_2526_2728,
        };
        let mut bytes = [
            0x01, 0x00, 0x00, 0x00, 0x01, 0x02, 0x03, 0x04, 0x11, 0x12, 0x13, 0x14, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26,
            0x27, 0x28,
        ];
        assert_eq!(receipt.emit(), bytes);
        assert_eq!(Receipt::parse(&bytes), receipt);
        bytes[..4].copy_from_slice(&[0xff; 4]);
        assert_eq!(Receipt::parse(&bytes), receipt, "what is reserved is not read");
        // The vector of docs/wire.md.
        let receipt = Receipt { limit: MessageNumber(5), wanted: MessageNumber(7), placed: 7, ..receipt };
        assert_eq!(receipt.emit(), [1, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 7]);
    }

    #[test]
    fn the_bit_that_asks_for_a_receipt_is_one_that_no_receiver_reads() {
        for (opcode, byte, _) in OPCODES {
            assert_eq!(Control::parse(byte | ASKS_RECEIPT), Ok(Control { opcode }));
        }
    }

    const ATOMIC: AtomicRequest = AtomicRequest {
        code: AtomicCode::CompareSwap,
        identifier: 0x0102_0304,
        stag: Stag(0x1112_1314),
        offset: 0x2122_2324_2526_2728,
        data: 0x3132_3334_3536_3738,
        mask: 0x4142_4344_4546_4748,
        compare: 0x5152_5354_5556_5758,
        compare_mask: 0x6162_6364_6566_6768,
    };

    #[test]
    fn exact_bytes_of_an_atomic_request_both_ways() {
        let bytes = [
            0x00, 0x00, 0x00, 0x02, 0x01, 0x02, 0x03, 0x04, 0x11, 0x12, 0x13, 0x14, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26,
            0x27, 0x28, 0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38, 0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48,
            0x51, 0x52, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58, 0x61, 0x62, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68,
        ];
        assert_eq!(ATOMIC.emit(), bytes);
        assert_eq!(AtomicRequest::parse(&bytes), Ok(ATOMIC));
    }

    #[test]
    fn reserved_bits_of_an_atomic_request_are_not_read() {
        let mut bytes = ATOMIC.emit();
        bytes[..4].copy_from_slice(&[0xff, 0xff, 0xff, 0xf2]);
        assert_eq!(AtomicRequest::parse(&bytes), Ok(ATOMIC));
    }

    #[test]
    fn an_add_compares_nothing_on_the_wire() {
        let bytes = AtomicRequest { code: AtomicCode::FetchAdd, ..ATOMIC }.emit();
        assert_eq!(bytes[3], 0);
        assert_eq!(bytes[36..44], [0; 8]);
        assert_eq!(bytes[44..52], [0xff; 8]);
    }

    #[test]
    fn a_swap_travels_as_the_compare_and_swap_that_compares_nothing() {
        let sent = AtomicRequest { code: AtomicCode::Swap, mask: 0, ..ATOMIC };
        let expected = AtomicRequest { mask: u64::MAX, compare: 0, compare_mask: 0, ..ATOMIC };
        assert_eq!(AtomicRequest::parse(&sent.emit()), Ok(expected));
    }

    #[test]
    fn the_reserved_and_the_unassigned_atomic_codes_are_refused() {
        for code in (0..16).filter(|code| ![0, 2].contains(code)) {
            let mut bytes = ATOMIC.emit();
            bytes[3] = 0xf0 | code;
            assert_eq!(AtomicRequest::parse(&bytes), Err(code));
        }
    }

    #[test]
    fn exact_bytes_of_an_atomic_response_both_ways() {
        let response = AtomicResponse { identifier: 0x0102_0304, original: 0x1112_1314_1516_1718 };
        let bytes = [0x01, 0x02, 0x03, 0x04, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18];
        assert_eq!(response.emit(), bytes);
        assert_eq!(AtomicResponse::parse(&bytes), response);
    }

    proptest! {
        #[test]
        fn any_bytes_survive_reading_and_writing(
            read: [u8; ReadRequest::LENGTH], response: [u8; AtomicResponse::LENGTH],
            first in proptest::array::uniform32(any::<u8>()), rest in proptest::array::uniform20(any::<u8>()),
        ) {
            prop_assert_eq!(ReadRequest::parse(&read).emit(), read);
            prop_assert_eq!(AtomicResponse::parse(&response).emit(), response);
            let mut known = rest;
            known[0] &= ASKS;
            known[1..4].fill(0);
            prop_assert_eq!(Receipt::parse(&rest).emit(), known);
            let mut atomic = [0; AtomicRequest::LENGTH];
            atomic[..32].copy_from_slice(&first);
            atomic[32..].copy_from_slice(&rest);
            if let Ok(request) = AtomicRequest::parse(&atomic) {
                prop_assert_eq!(AtomicRequest::parse(&request.emit()), Ok(request));
            }
        }
    }
}
