//! RDMAP: the control byte, and the messages that RDMAP itself reads (RFC 5040 section 4, RFC 7306 section 5).

use weft_base::Stag;

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
}

impl Opcode {
    const ALL: [Self; 12] = [
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
            | Self::ImmediateSolicited => Some(queue::SEND),
            Self::ReadRequest | Self::AtomicRequest => Some(queue::READ_REQUEST),
            Self::Terminate => Some(queue::TERMINATE),
            Self::AtomicResponse => Some(queue::ATOMIC_RESPONSE),
        }
    }
}

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
    /// Reads the byte. The two reserved bits are not looked at (RFC 5040 section 4.1).
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

impl ReadRequest {
    /// Bytes on the wire.
    pub const LENGTH: usize = 28;

    /// Reads it.
    #[must_use]
    pub fn parse(bytes: &[u8; Self::LENGTH]) -> Self {
        Self {
            sink_stag: Stag(read_u32(bytes, 0)),
            sink_offset: read_u64(bytes, 4),
            length: read_u32(bytes, 12),
            source_stag: Stag(read_u32(bytes, 16)),
            source_offset: read_u64(bytes, 20),
        }
    }

    /// Writes it.
    #[must_use]
    pub fn emit(&self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        write_u32(&mut bytes, 0, self.sink_stag.0);
        write_u64(&mut bytes, 4, self.sink_offset);
        write_u32(&mut bytes, 12, self.length);
        write_u32(&mut bytes, 16, self.source_stag.0);
        write_u64(&mut bytes, 20, self.source_offset);
        bytes
    }
}

/// The payload of Immediate Data (RFC 7306 section 6.2).
pub const IMMEDIATE_LENGTH: usize = 8;

/// What an atomic request does (RFC 7306 section 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum AtomicCode {
    /// Add, field by field.
    FetchAdd = 0,
    /// Exchange.
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
    /// Add mask or swap mask.
    pub mask: u64,
    /// What to compare with.
    pub compare: u64,
    /// Which bits to compare.
    pub compare_mask: u64,
}

impl AtomicRequest {
    /// Bytes on the wire.
    pub const LENGTH: usize = 52;

    /// Reads it. The error is the unknown operation code (RFC 7306 section 5.2.1, rule 4: it must be surfaced).
    ///
    /// # Errors
    /// The operation code is none of the three.
    pub fn parse(bytes: &[u8; Self::LENGTH]) -> Result<Self, u8> {
        let code = match bytes[3] & 0x0f {
            0 => AtomicCode::FetchAdd,
            1 => AtomicCode::Swap,
            2 => AtomicCode::CompareSwap,
            unknown => return Err(unknown),
        };
        Ok(Self {
            code,
            identifier: read_u32(bytes, 4),
            stag: Stag(read_u32(bytes, 8)),
            offset: read_u64(bytes, 12),
            data: read_u64(bytes, 20),
            mask: read_u64(bytes, 28),
            compare: read_u64(bytes, 36),
            compare_mask: read_u64(bytes, 44),
        })
    }

    /// Writes it.
    #[must_use]
    pub fn emit(&self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        write_u32(&mut bytes, 0, self.code as u32);
        write_u32(&mut bytes, 4, self.identifier);
        write_u32(&mut bytes, 8, self.stag.0);
        write_u64(&mut bytes, 12, self.offset);
        write_u64(&mut bytes, 20, self.data);
        write_u64(&mut bytes, 28, self.mask);
        write_u64(&mut bytes, 36, self.compare);
        write_u64(&mut bytes, 44, self.compare_mask);
        bytes
    }
}

/// The payload of an Atomic Response (RFC 7306 section 5.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtomicResponse {
    /// The request's identifier.
    pub identifier: u32,
    /// What stood there before.
    pub original: u64,
}

impl AtomicResponse {
    /// Bytes on the wire.
    pub const LENGTH: usize = 12;

    /// Reads it.
    #[must_use]
    pub fn parse(bytes: &[u8; Self::LENGTH]) -> Self {
        Self { identifier: read_u32(bytes, 0), original: read_u64(bytes, 4) }
    }

    /// Writes it.
    #[must_use]
    pub fn emit(&self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        write_u32(&mut bytes, 0, self.identifier);
        write_u64(&mut bytes, 4, self.original);
        bytes
    }
}
