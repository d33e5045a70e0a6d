//! Messages: the packets that RDMAP Sends carry between two endpoints, the records in them, and what both ends tell
//! each other when they connect.
//!
//! A packet is a [`PacketHeader`] and records up to its end. Each record is a head of fixed form and, for some kinds, a
//! body of bytes.

mod fields;
mod hello;

use arrayvec::ArrayVec;
use weft_base::{MAX_GATHER, Stag};

use crate::bytes::{read_u16, write_u16};
use fields::{Reader, Writer};

pub use hello::{
    CONFIRMATION_LENGTH, Confirmation, Hello, HelloError, MAX_ADDRESSES, MAX_HELLO_LENGTH, NONCE_LENGTH, PROOF_LENGTH,
    REFUSAL_LENGTH, Refusal, VERDICT_LENGTH, Verdict,
};

/// The version of packets, records and [`Hello`] that this module speaks.
pub const VERSION: u8 = 1;
/// Bytes of the header of a packet.
pub const PACKET_HEADER_LENGTH: usize = 8;
/// The most bytes of a record's head: a request with data and a tag, and as many parts as possible.
pub const MAX_HEAD_LENGTH: usize = 4 + 8 + 8 + 8 + 8 + MAX_GATHER * PART_LENGTH;
/// The most records of a packet.
pub const MAX_RECORDS: usize = 256;
/// Messages of at most this many bytes may be sent without a request for room also to a peer that is short of memory,
/// see [`PacketHeader::scarce`].
pub const UNASKED_BYTES: u64 = 256;
/// The least size of packets that an endpoint may ask for, in bytes.
pub const MIN_PACKET_BYTES: u32 = 256;

const PART_LENGTH: usize = 20;

/// Where each field of a packet's header begins, in bytes.
mod packet {
    pub(super) const VERSION: usize = 0;
    pub(super) const CLASS: usize = 1;
    pub(super) const DATA_CREDITS: usize = 2;
    pub(super) const CONTROL_CREDITS: usize = 4;
    pub(super) const FLAGS: usize = 6;
    pub(super) const RESERVED: usize = 7;
    // Flags.
    pub(super) const SCARCE: u8 = 0x01;
    pub(super) const WAITED: u8 = 0x02;
    pub(super) const DOUBLED: u8 = 0x04;
}

/// Where each field of a record's head begins, in bytes. What a kind does not have is not there.
mod field {
    pub(super) const KIND: usize = 0;
    pub(super) const FLAGS: usize = 1;
    // Parts that follow, or an outcome.
    pub(super) const COUNT: usize = 2;
    pub(super) const RESERVED: usize = 3;
    pub(super) const AFTER: usize = 4;
}

mod kind {
    pub(super) const SHORT: u8 = 1;
    pub(super) const REQUEST: u8 = 2;
    pub(super) const CLEAR: u8 = 3;
    pub(super) const WRITTEN: u8 = 4;
    pub(super) const TAKEN: u8 = 5;
    pub(super) const CALL: u8 = 6;
    pub(super) const ANSWER: u8 = 7;
    pub(super) const CLOSE: u8 = 8;
    pub(super) const CLOSE_ANSWER: u8 = 9;
    pub(super) const START: u8 = 10;
    pub(super) const MORE: u8 = 11;
}

mod flag {
    pub(super) const TAGGED: u8 = 0x01;
    pub(super) const DATA: u8 = 0x02;
    pub(super) const DELIVERY: u8 = 0x04;
}

/// A piece of a peer's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemotePart {
    /// The region, as the peer has announced it.
    pub stag: Stag,
    /// The tagged offset of the first byte.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
}

/// Memory of an operation, in order.
pub type Parts = ArrayVec<RemotePart, MAX_GATHER>;

/// Which credit a packet costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// One of those for packets with messages and calls.
    Data,
    /// One of those for packets that must never wait for an application.
    Control,
    /// None: it gives back credits and has no records.
    Credits,
}

/// The header of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketHeader {
    /// Which credit it costs.
    pub class: Class,
    /// Data credits that it gives back.
    pub data_credits: u16,
    /// Control credits that it gives back.
    pub control_credits: u16,
    /// Its sender is short of memory for unexpected messages: a peer should request room before it sends more than
    /// [`UNASKED_BYTES`] to it.
    pub scarce: bool,
    /// Its sender has had messages that waited for data credits for long: it wants twice as many. Set once, until
    /// `doubled` answers it.
    pub waited: bool,
    /// Its sender grants twice as many data credits from now on. The new ones are given with this.
    pub doubled: bool,
}

/// Why bytes are no packet or record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageError {
    /// The packet ends within a header or a body.
    Short,
    /// Another version.
    Version(u8),
    /// A class that there is not.
    Class(u8),
    /// A kind of record that there is not.
    Kind(u8),
    /// More parts than [`MAX_GATHER`].
    Parts(u8),
    /// An outcome that there is not.
    Outcome(u8),
}

impl PacketHeader {
    /// Reads the header at the start of a packet.
    ///
    /// # Errors
    /// When the packet is too short, or of another version or class.
    pub fn parse(bytes: &[u8]) -> Result<Self, MessageError> {
        if bytes.len() < PACKET_HEADER_LENGTH {
            return Err(MessageError::Short);
        }
        if bytes[packet::VERSION] != VERSION {
            return Err(MessageError::Version(bytes[packet::VERSION]));
        }
        let class = match bytes[packet::CLASS] {
            0 => Class::Data,
            1 => Class::Control,
            2 => Class::Credits,
            other => return Err(MessageError::Class(other)),
        };
        Ok(Self {
            class,
            data_credits: read_u16(bytes, packet::DATA_CREDITS),
            control_credits: read_u16(bytes, packet::CONTROL_CREDITS),
            scarce: bytes[packet::FLAGS] & packet::SCARCE != 0,
            waited: bytes[packet::FLAGS] & packet::WAITED != 0,
            doubled: bytes[packet::FLAGS] & packet::DOUBLED != 0,
        })
    }

    /// Writes the header at the start of `bytes`. Reserved bytes are zero.
    ///
    /// # Panics
    /// When `bytes` is shorter than [`PACKET_HEADER_LENGTH`].
    pub fn emit(&self, bytes: &mut [u8]) {
        bytes[packet::VERSION] = VERSION;
        bytes[packet::CLASS] = match self.class {
            Class::Data => 0,
            Class::Control => 1,
            Class::Credits => 2,
        };
        write_u16(bytes, packet::DATA_CREDITS, self.data_credits);
        write_u16(bytes, packet::CONTROL_CREDITS, self.control_credits);
        let flags = [(self.scarce, packet::SCARCE), (self.waited, packet::WAITED), (self.doubled, packet::DOUBLED)];
        bytes[packet::FLAGS] = flags.into_iter().filter(|(is_set, _)| *is_set).fold(0, |all, (_, flag)| all | flag);
        bytes[packet::RESERVED] = 0;
    }
}

/// What a receive is matched with, and what comes along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The tag; `None`: an untagged message.
    pub tag: Option<u64>,
    /// Immediate data.
    pub data: Option<u64>,
}

/// How something has ended at the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As it was meant.
    Done,
    /// The peer could not take part.
    Refused,
}

/// The head of a record. An id is chosen by the side that will get it back, and means nothing to the other side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A whole message; its bytes are the body.
    Short {
        /// What it is matched with.
        envelope: Envelope,
        /// The sender wants [`Record::Taken`] with this id once it is in the receive's memory.
        acknowledge: Option<u64>,
        /// Bytes of the body.
        length: u32,
    },
    /// The beginning of a message, in the body. The rest follows in [`Record::More`], before another message of this
    /// kind begins.
    Start {
        /// What it is matched with.
        envelope: Envelope,
        /// The sender wants [`Record::Taken`] with this id once it is in the receive's memory.
        acknowledge: Option<u64>,
        /// Bytes of the whole message.
        whole: u64,
        /// Bytes of the body.
        length: u32,
    },
    /// The next bytes of the message that was begun last, in the body.
    More {
        /// Bytes of the body.
        length: u32,
    },
    /// Asks to send a message.
    Request {
        /// What it is matched with.
        envelope: Envelope,
        /// The sender's id of the message.
        id: u64,
        /// Bytes of the message.
        length: u64,
        /// The sender wants [`Record::Taken`] even if it has written the message itself.
        delivery: bool,
        /// Where the receiver reads it. None: the sender wants to write it, and to be given the place.
        source: Parts,
    },
    /// Says where to write a message.
    Clear {
        /// The sender's id of the message.
        id: u64,
        /// The receiver's id of the message.
        sink_id: u64,
        /// Where to. Together perhaps shorter than the message: the rest is not wanted.
        sink: Parts,
    },
    /// The message is where [`Record::Clear`] said.
    Written {
        /// The receiver's id of the message.
        sink_id: u64,
    },
    /// The message has been read, or is in the receive's memory; or never will be.
    Taken {
        /// The sender's id of the message.
        id: u64,
        /// Which of them.
        outcome: Outcome,
    },
    /// Has the peer do what the body says.
    Call {
        /// The caller's id of the call.
        id: u64,
        /// Bytes of the body.
        length: u32,
    },
    /// What came of it, in the body.
    Answer {
        /// The caller's id of the call.
        id: u64,
        /// Whether there is an answer.
        outcome: Outcome,
        /// Bytes of the body.
        length: u32,
    },
    /// Nothing is in flight here: shall the connection be closed?
    Close,
    /// The answer to that. A side that agrees sends nothing more.
    CloseAnswer {
        /// Whether.
        agreed: bool,
    },
}

const fn outcome(code: u8) -> Result<Outcome, MessageError> {
    match code {
        0 => Ok(Outcome::Done),
        1 => Ok(Outcome::Refused),
        other => Err(MessageError::Outcome(other)),
    }
}

impl Record {
    /// Reads the head at the start of `bytes`, which extend to the end of the packet. Returns the head, its length, and
    /// the body. Reserved bytes are ignored.
    ///
    /// # Errors
    /// When `bytes` end too early, or say something that there is not.
    pub fn parse(bytes: &[u8]) -> Result<(Self, usize, &[u8]), MessageError> {
        let mut reader = Reader { bytes, at: 0 };
        reader.advance(field::AFTER)?;
        let (flags, count) = (bytes[field::FLAGS], bytes[field::COUNT]);
        let record = match bytes[field::KIND] {
            kind::SHORT => {
                let length = reader.u32()?;
                let envelope = reader.envelope(flags)?;
                Self::Short { envelope, acknowledge: reader.optional(flags & flag::DELIVERY != 0)?, length }
            }
            kind::START => {
                let (length, whole) = (reader.u32()?, reader.u64()?);
                let envelope = reader.envelope(flags)?;
                Self::Start { envelope, acknowledge: reader.optional(flags & flag::DELIVERY != 0)?, whole, length }
            }
            kind::MORE => Self::More { length: reader.u32()? },
            kind::REQUEST => Self::Request {
                id: reader.u64()?,
                length: reader.u64()?,
                envelope: reader.envelope(flags)?,
                delivery: flags & flag::DELIVERY != 0,
                source: reader.parts(count)?,
            },
            kind::CLEAR => Self::Clear { id: reader.u64()?, sink_id: reader.u64()?, sink: reader.parts(count)? },
            kind::WRITTEN => Self::Written { sink_id: reader.u64()? },
            kind::TAKEN => Self::Taken { id: reader.u64()?, outcome: outcome(count)? },
            kind::CALL => Self::Call { length: reader.u32()?, id: reader.u64()? },
            kind::ANSWER => Self::Answer { length: reader.u32()?, id: reader.u64()?, outcome: outcome(count)? },
            kind::CLOSE => Self::Close,
            kind::CLOSE_ANSWER => Self::CloseAnswer { agreed: outcome(count)? == Outcome::Done },
            other => return Err(MessageError::Kind(other)),
        };
        let length = reader.at;
        let body = reader.advance(record.body_length())?;
        Ok((record, length, &bytes[body..reader.at]))
    }

    /// Bytes of the head.
    #[must_use]
    pub fn length(&self) -> usize {
        field::AFTER
            + match self {
                Self::Short { envelope, acknowledge, .. } => {
                    4 + envelope.length() + if acknowledge.is_some() { 8 } else { 0 }
                }
                Self::Start { envelope, acknowledge, .. } => {
                    12 + envelope.length() + if acknowledge.is_some() { 8 } else { 0 }
                }
                Self::More { .. } => 4,
                Self::Request { envelope, source, .. } => 16 + envelope.length() + source.len() * PART_LENGTH,
                Self::Clear { sink, .. } => 16 + sink.len() * PART_LENGTH,
                Self::Written { .. } | Self::Taken { .. } => 8,
                Self::Call { .. } | Self::Answer { .. } => 12,
                Self::Close | Self::CloseAnswer { .. } => 0,
            }
    }

    /// Bytes of the body that follows the head.
    #[must_use]
    pub const fn body_length(&self) -> usize {
        match self {
            Self::Short { length, .. }
            | Self::Start { length, .. }
            | Self::More { length }
            | Self::Call { length, .. }
            | Self::Answer { length, .. } => *length as usize,
            _ => 0,
        }
    }

    /// Writes the head at the start of `bytes` and returns its length. Reserved bytes are zero.
    ///
    /// # Panics
    /// When `bytes` is shorter than [`Record::length`].
    pub fn emit(&self, bytes: &mut [u8]) -> usize {
        let (kind, flags, count) = self.head();
        bytes[field::KIND] = kind;
        bytes[field::FLAGS] = flags;
        bytes[field::COUNT] = count;
        bytes[field::RESERVED] = 0;
        let mut writer = Writer { bytes, at: field::AFTER };
        match self {
            Self::Short { envelope, acknowledge, length } => {
                writer.u32(*length);
                writer.envelope(envelope);
                writer.optional(*acknowledge);
            }
            Self::Start { envelope, acknowledge, whole, length } => {
                writer.u32(*length);
                writer.u64(*whole);
                writer.envelope(envelope);
                writer.optional(*acknowledge);
            }
            Self::More { length } => writer.u32(*length),
            Self::Request { envelope, id, length, source, .. } => {
                writer.u64(*id);
                writer.u64(*length);
                writer.envelope(envelope);
                writer.parts(source);
            }
            Self::Clear { id, sink_id, sink } => {
                writer.u64(*id);
                writer.u64(*sink_id);
                writer.parts(sink);
            }
            Self::Written { sink_id: id } | Self::Taken { id, .. } => writer.u64(*id),
            Self::Call { id, length } | Self::Answer { id, length, .. } => {
                writer.u32(*length);
                writer.u64(*id);
            }
            Self::Close | Self::CloseAnswer { .. } => {}
        }
        writer.at
    }

    /// Kind, flags, and the number of parts or the outcome.
    fn head(&self) -> (u8, u8, u8) {
        match self {
            Self::Short { envelope, acknowledge, .. } => {
                (kind::SHORT, envelope.flags() | if acknowledge.is_some() { flag::DELIVERY } else { 0 }, 0)
            }
            Self::Start { envelope, acknowledge, .. } => {
                (kind::START, envelope.flags() | if acknowledge.is_some() { flag::DELIVERY } else { 0 }, 0)
            }
            Self::More { .. } => (kind::MORE, 0, 0),
            Self::Request { envelope, delivery, source, .. } => {
                let delivery = if *delivery { flag::DELIVERY } else { 0 };
                (kind::REQUEST, envelope.flags() | delivery, source.len() as u8)
            }
            Self::Clear { sink, .. } => (kind::CLEAR, 0, sink.len() as u8),
            Self::Written { .. } => (kind::WRITTEN, 0, 0),
            Self::Taken { outcome, .. } => (kind::TAKEN, 0, *outcome as u8),
            Self::Call { .. } => (kind::CALL, 0, 0),
            Self::Answer { outcome, .. } => (kind::ANSWER, 0, *outcome as u8),
            Self::Close => (kind::CLOSE, 0, 0),
            Self::CloseAnswer { agreed } => (kind::CLOSE_ANSWER, 0, u8::from(!agreed)),
        }
    }
}

impl Envelope {
    const fn length(&self) -> usize {
        (if self.tag.is_some() { 8 } else { 0 }) + if self.data.is_some() { 8 } else { 0 }
    }

    const fn flags(&self) -> u8 {
        (if self.tag.is_some() { flag::TAGGED } else { 0 }) | if self.data.is_some() { flag::DATA } else { 0 }
    }
}

#[cfg(test)]
mod tests;
