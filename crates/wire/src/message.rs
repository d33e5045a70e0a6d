//! Messages: the packets that RDMAP Sends carry between two endpoints, the records in them, and what both ends tell
//! each other when they connect.
//!
//! A packet is a [`PacketHeader`] and records up to its end. Each record is a head of fixed form and, for some kinds, a
//! body of bytes.

mod hello;

use arrayvec::ArrayVec;
use weft_base::{MAX_GATHER, Stag};

use crate::bytes::{read_u16, read_u32, read_u64, write_u16, write_u32, write_u64};

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

/// Reads fields one after the other.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn advance(&mut self, length: usize) -> Result<usize, MessageError> {
        let at = self.at;
        if self.bytes.len() - at < length {
            return Err(MessageError::Short);
        }
        self.at += length;
        Ok(at)
    }

    fn u32(&mut self) -> Result<u32, MessageError> {
        let at = self.advance(4)?;
        Ok(read_u32(self.bytes, at))
    }

    fn u64(&mut self) -> Result<u64, MessageError> {
        let at = self.advance(8)?;
        Ok(read_u64(self.bytes, at))
    }

    fn optional(&mut self, present: bool) -> Result<Option<u64>, MessageError> {
        if present { self.u64().map(Some) } else { Ok(None) }
    }

    fn envelope(&mut self, flags: u8) -> Result<Envelope, MessageError> {
        Ok(Envelope { tag: self.optional(flags & flag::TAGGED != 0)?, data: self.optional(flags & flag::DATA != 0)? })
    }

    fn parts(&mut self, count: u8) -> Result<Parts, MessageError> {
        if usize::from(count) > MAX_GATHER {
            return Err(MessageError::Parts(count));
        }
        (0..count)
            .map(|_| Ok(RemotePart { stag: Stag(self.u32()?), offset: self.u64()?, length: self.u64()? }))
            .collect()
    }
}

/// Writes fields one after the other.
struct Writer<'a> {
    bytes: &'a mut [u8],
    at: usize,
}

impl Writer<'_> {
    fn u32(&mut self, value: u32) {
        write_u32(self.bytes, self.at, value);
        self.at += 4;
    }

    fn u64(&mut self, value: u64) {
        write_u64(self.bytes, self.at, value);
        self.at += 8;
    }

    fn optional(&mut self, value: Option<u64>) {
        if let Some(value) = value {
            self.u64(value);
        }
    }

    fn envelope(&mut self, envelope: &Envelope) {
        self.optional(envelope.tag);
        self.optional(envelope.data);
    }

    fn parts(&mut self, parts: &Parts) {
        for part in parts {
            self.u32(part.stag.0);
            self.u64(part.offset);
            self.u64(part.length);
        }
    }
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
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PART: RemotePart =
        RemotePart { stag: Stag(0x0102_0304), offset: 0x1112_1314_1516_1718, length: 0x2122_2324_2526_2728 };

    fn check(record: &Record, body: &[u8], expected: &[u8]) {
        let mut bytes = [0xa5; 200];
        let length = record.emit(&mut bytes);
        assert_eq!(length, record.length());
        assert_eq!(&bytes[..length], expected, "{record:?}");
        assert!(bytes[length..].iter().all(|byte| *byte == 0xa5), "wrote past the head of {record:?}");
        bytes[length..length + body.len()].copy_from_slice(body);
        let whole = &bytes[..length + body.len()];
        assert_eq!(Record::parse(whole), Ok((record.clone(), length, body)));
        for shorter in 0..whole.len() {
            assert_eq!(Record::parse(&whole[..shorter]), Err(MessageError::Short), "{shorter} bytes of {record:?}");
        }
    }

    #[test]
    fn exact_bytes_of_messages_both_ways() {
        let plain = Envelope { tag: None, data: None };
        let full = Envelope { tag: Some(0x3132_3334_3536_3738), data: Some(0x4142_4344_4546_4748) };
        check(&Record::Short { envelope: plain, acknowledge: None, length: 2 }, &[7, 8], &[1, 0, 0, 0, 0, 0, 0, 2]);
        check(
            &Record::Short { envelope: full, acknowledge: Some(0x5152_5354_5556_5758), length: 0 },
            &[],
            &[
                1, 7, 0, 0, 0, 0, 0, 0, 0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38, 0x41, 0x42, 0x43, 0x44, 0x45,
                0x46, 0x47, 0x48, 0x51, 0x52, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58,
            ],
        );
        check(
            &Record::Request {
                envelope: Envelope { tag: Some(9), data: None },
                id: 3,
                length: 4,
                delivery: true,
                source: [PART].into_iter().collect(),
            },
            &[],
            &[
                2, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 9, 1, 2, 3, 4, 0x11,
                0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28,
            ],
        );
    }

    #[test]
    fn exact_bytes_of_a_message_in_pieces_both_ways() {
        let envelope = Envelope { tag: None, data: Some(9) };
        check(
            &Record::Start { envelope, acknowledge: Some(0x5152_5354_5556_5758), whole: 0x0102_0304_0506, length: 2 },
            &[7, 8],
            &[
                10, 6, 0, 0, 0, 0, 0, 2, 0, 0, 1, 2, 3, 4, 5, 6, 0, 0, 0, 0, 0, 0, 0, 9, 0x51, 0x52, 0x53, 0x54, 0x55,
                0x56, 0x57, 0x58,
            ],
        );
        check(&Record::More { length: 3 }, &[1, 2, 3], &[11, 0, 0, 0, 0, 0, 0, 3]);
    }

    #[test]
    fn exact_bytes_of_answers_both_ways() {
        let id = 0x6162_6364_6566_6768;
        let id_bytes = [0x61, 0x62, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68];
        let with_id = |head: &[u8]| [head, &id_bytes].concat();
        let mut clear = with_id(&[3, 0, 1, 0]);
        clear.extend([0, 0, 0, 0, 0, 0, 0, 5, 1, 2, 3, 4, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18]);
        clear.extend([0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28]);
        check(&Record::Clear { id, sink_id: 5, sink: [PART].into_iter().collect() }, &[], &clear);
        check(&Record::Written { sink_id: id }, &[], &with_id(&[4, 0, 0, 0]));
        check(&Record::Taken { id, outcome: Outcome::Done }, &[], &with_id(&[5, 0, 0, 0]));
        check(&Record::Taken { id, outcome: Outcome::Refused }, &[], &with_id(&[5, 0, 1, 0]));
        check(&Record::Call { id, length: 3 }, &[1, 2, 3], &with_id(&[6, 0, 0, 0, 0, 0, 0, 3]));
        let answer = Record::Answer { id, outcome: Outcome::Refused, length: 1 };
        check(&answer, &[9], &with_id(&[7, 0, 1, 0, 0, 0, 0, 1]));
        check(&Record::Close, &[], &[8, 0, 0, 0]);
        check(&Record::CloseAnswer { agreed: true }, &[], &[9, 0, 0, 0]);
        check(&Record::CloseAnswer { agreed: false }, &[], &[9, 0, 1, 0]);
    }

    #[test]
    fn exact_bytes_of_a_packet_header_both_ways() {
        for (class, code) in [(Class::Data, 0), (Class::Control, 1), (Class::Credits, 2)] {
            for flags in 0..8 {
                let [scarce, waited, doubled] = [1, 2, 4].map(|flag| flags & flag != 0);
                let header =
                    PacketHeader { class, data_credits: 0x0102, control_credits: 0x0304, scarce, waited, doubled };
                let mut bytes = [0xa5; 10];
                header.emit(&mut bytes);
                assert_eq!(bytes, [1, code, 1, 2, 3, 4, flags, 0, 0xa5, 0xa5]);
                assert_eq!(PacketHeader::parse(&bytes), Ok(header));
                assert_eq!(PacketHeader::parse(&bytes[..7]), Err(MessageError::Short));
            }
        }
        assert_eq!(PacketHeader::parse(&[2, 0, 0, 0, 0, 0, 0, 0]), Err(MessageError::Version(2)));
        assert_eq!(PacketHeader::parse(&[1, 3, 0, 0, 0, 0, 0, 0]), Err(MessageError::Class(3)));
    }

    #[test]
    fn what_there_is_not_is_refused() {
        let mut bytes = [0; 200];
        for kind in [0, 12, 255] {
            bytes[0] = kind;
            assert_eq!(Record::parse(&bytes).unwrap_err(), MessageError::Kind(kind));
        }
        bytes[..4].copy_from_slice(&[2, 0, 5, 0]);
        assert_eq!(Record::parse(&bytes).unwrap_err(), MessageError::Parts(5));
        bytes[..4].copy_from_slice(&[5, 0, 2, 0]);
        assert_eq!(Record::parse(&bytes).unwrap_err(), MessageError::Outcome(2));
    }

    fn envelope() -> impl Strategy<Value = Envelope> {
        (any::<Option<u64>>(), any::<Option<u64>>()).prop_map(|(tag, data)| Envelope { tag, data })
    }

    fn parts() -> impl Strategy<Value = Parts> {
        let part = (any::<u32>(), any::<u64>(), any::<u64>()).prop_map(|(stag, offset, length)| RemotePart {
            stag: Stag(stag),
            offset,
            length,
        });
        proptest::collection::vec(part, 0..=MAX_GATHER).prop_map(|parts| parts.into_iter().collect())
    }

    fn record() -> impl Strategy<Value = Record> {
        let outcome = || prop_oneof![Just(Outcome::Done), Just(Outcome::Refused)];
        prop_oneof![
            (envelope(), any::<Option<u64>>(), 0..300_u32).prop_map(|(envelope, acknowledge, length)| Record::Short {
                envelope,
                acknowledge,
                length
            }),
            (envelope(), any::<Option<u64>>(), any::<u64>(), 0..300_u32).prop_map(
                |(envelope, acknowledge, whole, length)| Record::Start { envelope, acknowledge, whole, length }
            ),
            (0..300_u32).prop_map(|length| Record::More { length }),
            (envelope(), any::<u64>(), any::<u64>(), any::<bool>(), parts()).prop_map(
                |(envelope, id, length, delivery, source)| Record::Request { envelope, id, length, delivery, source }
            ),
            (any::<u64>(), any::<u64>(), parts()).prop_map(|(id, sink_id, sink)| Record::Clear { id, sink_id, sink }),
            any::<u64>().prop_map(|sink_id| Record::Written { sink_id }),
            (any::<u64>(), outcome()).prop_map(|(id, outcome)| Record::Taken { id, outcome }),
            (any::<u64>(), 0..300_u32).prop_map(|(id, length)| Record::Call { id, length }),
            (any::<u64>(), outcome(), 0..300_u32).prop_map(|(id, outcome, length)| Record::Answer {
                id,
                outcome,
                length
            }),
            Just(Record::Close),
            any::<bool>().prop_map(|agreed| Record::CloseAnswer { agreed }),
        ]
    }

    proptest! {
        #[test]
        fn every_record_survives_the_wire(record in record(), fill: u8, after in 0..9_usize) {
            let mut bytes = vec![0xa5; record.length()];
            prop_assert!(record.length() <= MAX_HEAD_LENGTH);
            prop_assert_eq!(record.emit(&mut bytes), record.length());
            let body = vec![fill; record.body_length()];
            bytes.extend(&body);
            bytes.resize(bytes.len() + after, 0xa5);
            prop_assert_eq!(Record::parse(&bytes), Ok((record.clone(), record.length(), body.as_slice())));
        }

        #[test]
        fn any_bytes_parse_without_panic_and_what_parses_survives(first in 0..13_u8, mut bytes: Vec<u8>) {
            if let Some(byte) = bytes.first_mut() {
                *byte = first;
            }
            let _ = PacketHeader::parse(&bytes);
            if let Ok((record, length, _)) = Record::parse(&bytes) {
                let mut again = vec![0xa5; MAX_HEAD_LENGTH + record.body_length()];
                prop_assert_eq!(record.emit(&mut again), length);
                prop_assert_eq!(Record::parse(&again).map(|(record, ..)| record), Ok(record));
            }
        }
    }
}
