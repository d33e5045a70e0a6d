//! The content of a packet of an established connection: frames, one after the other.

use super::ack::Ack;
use super::addresses::Addresses;
use super::reader::Reader;
use super::{EdgeError, PROOF_LENGTH};
use crate::ddp;

/// Bytes of a segment's frame beside the segment, when the segment reaches to the end of the packet: type, position,
/// CRC.
pub const SEGMENT_OVERHEAD: usize = 11;
/// The same with a length, so that more frames can follow.
pub const COUNTED_SEGMENT_OVERHEAD: usize = 13;
/// The most bytes that options add to a segment's frame.
pub const MAX_OPTIONS_LENGTH: usize = SegmentOptions { unordered: true, fence: Some(0) }.length();
/// Bytes of the CRC behind a payload.
pub const CRC_LENGTH: usize = 4;
/// The most bytes of a reason for closing: an RDMAP Terminate fits.
pub const MAX_REASON: usize = 128;
/// Positions are this many bits on the wire.
pub const POSITION_BITS: u32 = 48;

pub(super) mod kind {
    pub(in super::super) const PADDING: u8 = 0x00;
    pub(in super::super) const PING: u8 = 0x01;
    pub(in super::super) const ACK: u8 = 0x02;
    pub(in super::super) const SEGMENT: u8 = 0x03;
    pub(in super::super) const COUNTED_SEGMENT: u8 = 0x04;
    pub(in super::super) const NOT_READY: u8 = 0x05;
    pub(in super::super) const GO_ON: u8 = 0x06;
    pub(in super::super) const CLOSE: u8 = 0x07;
    pub(in super::super) const CLOSE_ACK: u8 = 0x08;
    pub(in super::super) const CHALLENGE: u8 = 0x09;
    pub(in super::super) const RESPONSE: u8 = 0x0a;
    pub(in super::super) const CONFIRM: u8 = 0x0b;
    pub(in super::super) const ADDRESSES: u8 = 0x0c;
    pub(in super::super) const OPTIONS_SEGMENT: u8 = 0x0d;
    pub(in super::super) const OPTIONS_COUNTED_SEGMENT: u8 = 0x0e;
    /// Frames from here on have a length behind their type, and a peer that does not know them skips them.
    pub(in super::super) const SKIPPABLE: u8 = 0x80;
}

/// One frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// Nothing but a wish for an acknowledgement.
    Ping,
    /// Packets that are placed and good.
    Ack(Ack<'a>),
    /// A DDP segment.
    Segment(Segment<'a>),
    /// A segment found no posted receive. It is not lost: it is to be held, with Sends and requests behind it.
    NotReady(NotReady),
    /// Receives were posted: what is held of this round or an earlier one may come again.
    GoOn {
        /// Counts the rounds.
        round: u32,
    },
    /// Nothing more comes from here.
    Close(Close<'a>),
    /// The close has arrived.
    CloseAck,
    /// A peer that can read this at the address to which it was sent sends it back.
    Challenge([u8; 8]),
    /// A challenge, sent back.
    Response([u8; 8]),
    /// The third message of set-up: proves the key over both hellos, zeros where there is none.
    Confirm([u8; PROOF_LENGTH]),
    /// Where the sender is found beside the address of rail 0. Only to a peer that takes more than one rail.
    Addresses(Addresses<'a>),
    /// Of a later version, and made to be skipped.
    Skipped(u8),
    /// Nothing, up to the end of the packet.
    Padding,
}

/// A DDP segment in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment<'a> {
    /// Its position in the connection's sequence: the low [`POSITION_BITS`] bits.
    pub position: u64,
    /// DDP header and payload.
    pub ulpdu: &'a [u8],
    /// CRC-32C of the payload, which only the end that places it checks.
    pub crc: u32,
    /// What it requires of the order in which it is placed.
    pub options: SegmentOptions,
}

/// What a segment asks of the order in which it is placed: in the segments of Writes, to a peer that has offered to
/// keep it. In others it means nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentOptions {
    /// It may be placed as it comes, whatever else is written to the same bytes.
    pub unordered: bool,
    /// It is not placed before everything that is this many positions or more before it.
    pub fence: Option<u32>,
}

/// Bits of the options that come first among them.
pub(super) const UNORDERED: u8 = 0x01;
const FENCE: u8 = 0x02;
/// Those that must be understood. A peer that does not know the others ignores them.
const MUST_UNDERSTAND: u8 = 0x0f;

impl SegmentOptions {
    /// No options.
    pub const NONE: Self = Self { unordered: false, fence: None };

    /// Whether it requires nothing.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        !self.unordered && self.fence.is_none()
    }

    /// Bytes that they add to the frame.
    #[must_use]
    pub const fn length(&self) -> usize {
        match self {
            Self { unordered: false, fence: None } => 0,
            Self { fence: None, .. } => 1,
            Self { fence: Some(_), .. } => 1 + size_of::<u32>(),
        }
    }

    fn parse(reader: &mut Reader<'_>) -> Result<Self, EdgeError> {
        let bits = reader.u8()?;
        if bits & MUST_UNDERSTAND & !(UNORDERED | FENCE) != 0 {
            return Err(EdgeError::Value("an option of a segment"));
        }
        let fence = if bits & FENCE != 0 { Some(reader.u32()?) } else { None };
        Ok(Self { unordered: bits & UNORDERED != 0, fence })
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        let bit = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
        out.push(bit(self.unordered, UNORDERED) | bit(self.fence.is_some(), FENCE));
        if let Some(fence) = self.fence {
            out.extend_from_slice(&fence.to_be_bytes());
        }
    }
}

/// The refusal of a segment that found no posted receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotReady {
    /// The rail on which it came.
    pub rail: u8,
    /// The packet in which it came: it is neither acknowledged nor lost.
    pub number: u64,
    /// The segment's position.
    pub position: u64,
    /// The round that the receiver is in: a later `GoOn` ends the wait.
    pub round: u32,
}

/// The end of what one side sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Close<'a> {
    /// Whether the connection was given up: what is in flight is not waited for.
    pub abortive: bool,
    /// The position after the last one that was sent.
    pub end: u64,
    /// Why, for the layer above: an RDMAP Terminate, or nothing.
    pub reason: &'a [u8],
}

/// Where payload begins in a segment whose first byte this is.
#[must_use]
pub const fn ddp_header_length(first: u8) -> usize {
    if first & 0x80 == 0 { ddp::UNTAGGED_LENGTH } else { ddp::TAGGED_LENGTH }
}

/// The whole position from its low bits: the one that is closest to `near`.
#[must_use]
pub const fn expand_position(low: u64, near: u64) -> u64 {
    expand(low, near, POSITION_BITS)
}

/// RFC 9000 appendix A.3, for any number of bits.
pub(super) const fn expand(low: u64, near: u64, bits: u32) -> u64 {
    let window = 1u64 << bits;
    let candidate = (near & !(window - 1)) | low;
    if candidate.saturating_add(window / 2) <= near && candidate < u64::MAX - window {
        candidate + window
    } else if candidate > near.saturating_add(window / 2) && candidate >= window {
        candidate - window
    } else {
        candidate
    }
}

/// A frame, the bytes of it that the header check covers, and what follows it.
pub(super) type Split<'a> = (Frame<'a>, &'a [u8], &'a [u8]);

/// Splits off the first frame.
#[inline]
pub(super) fn split(bytes: &[u8]) -> Result<Split<'_>, EdgeError> {
    let mut reader = Reader(bytes);
    let frame = parse(&mut reader)?;
    let uncovered = match frame {
        Frame::Segment(segment) => segment.payload().len() + CRC_LENGTH,
        Frame::Padding => bytes.len() - 1,
        _ => 0,
    };
    let length = bytes.len() - reader.0.len();
    Ok((frame, &bytes[..length - uncovered], reader.0))
}

/// Of a segment that reaches to the end of the packet the bytes that the header check covers, if its form is right: as
/// [`split`] finds, for the most frequent of all frames.
#[inline]
pub(super) fn covered_of_last(bytes: &[u8]) -> Option<usize> {
    const DDP: usize = SEGMENT_OVERHEAD - CRC_LENGTH;
    let header = DDP + ddp_header_length(*bytes.get(DDP)?);
    (bytes[0] == kind::SEGMENT && header + CRC_LENGTH <= bytes.len()).then_some(header)
}

/// Reads a frame.
#[inline]
pub(super) fn parse<'a>(reader: &mut Reader<'a>) -> Result<Frame<'a>, EdgeError> {
    Ok(match reader.u8()? {
        kind::PADDING => {
            reader.0 = &[];
            Frame::Padding
        }
        kind::PING => Frame::Ping,
        kind::ACK => Frame::Ack(Ack::parse(reader)?),
        kind::SEGMENT => Frame::Segment(Segment::parse(reader, false, SegmentOptions::NONE)?),
        kind::COUNTED_SEGMENT => Frame::Segment(Segment::parse(reader, true, SegmentOptions::NONE)?),
        kind @ (kind::OPTIONS_SEGMENT | kind::OPTIONS_COUNTED_SEGMENT) => {
            let options = SegmentOptions::parse(reader)?;
            Frame::Segment(Segment::parse(reader, kind == kind::OPTIONS_COUNTED_SEGMENT, options)?)
        }
        kind::NOT_READY => Frame::NotReady(NotReady {
            rail: reader.u8()?,
            number: reader.u64()?,
            position: reader.u64()?,
            round: reader.u32()?,
        }),
        kind::GO_ON => Frame::GoOn { round: reader.u32()? },
        kind::CLOSE => Frame::Close(Close::parse(reader)?),
        kind::CLOSE_ACK => Frame::CloseAck,
        kind::CHALLENGE => Frame::Challenge(reader.array()?),
        kind::RESPONSE => Frame::Response(reader.array()?),
        kind::CONFIRM => Frame::Confirm(reader.array()?),
        kind::ADDRESSES => Frame::Addresses(Addresses::parse(reader)?),
        later @ kind::SKIPPABLE.. => {
            reader.counted(usize::MAX, "a frame's length")?;
            Frame::Skipped(later)
        }
        unknown => return Err(EdgeError::Frame(unknown)),
    })
}

impl<'a> Segment<'a> {
    fn parse(reader: &mut Reader<'a>, counted: bool, options: SegmentOptions) -> Result<Self, EdgeError> {
        let position = reader.u48()?;
        let length = if counted {
            usize::from(reader.u16()?)
        } else {
            reader.0.len().checked_sub(CRC_LENGTH).ok_or(EdgeError::Short)?
        };
        let segment = Self { position, ulpdu: reader.take(length)?, crc: reader.u32()?, options };
        let first = segment.ulpdu.first().ok_or(EdgeError::Value("the length of a segment"))?;
        if length < ddp_header_length(*first) {
            return Err(EdgeError::Value("the length of a segment"));
        }
        Ok(segment)
    }

    /// The bytes behind the DDP header.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        &self.ulpdu[ddp_header_length(self.ulpdu[0])..]
    }
}

impl<'a> Close<'a> {
    fn parse(reader: &mut Reader<'a>) -> Result<Self, EdgeError> {
        let abortive = match reader.u8()? {
            0 => false,
            1 => true,
            _ => return Err(EdgeError::Value("the kind of a close")),
        };
        Ok(Self { abortive, end: reader.u64()?, reason: reader.counted(MAX_REASON, "the reason of a close")? })
    }
}

impl Frame<'_> {
    /// Whether the peer is to acknowledge a packet with this frame: not one that only acknowledges, or fills.
    #[must_use]
    pub const fn wants_ack(&self) -> bool {
        !matches!(self, Self::Ack(_) | Self::Padding | Self::Skipped(_) | Self::NotReady(_))
    }

    /// Writes the frame at the end of `out`.
    ///
    /// # Panics
    /// Of a segment, which [`super::packet::Builder`] writes, since its payload is elsewhere; and of a frame of later
    /// versions.
    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        match self {
            Self::Padding => out.push(kind::PADDING),
            Self::Ping => out.push(kind::PING),
            Self::Ack(ack) => {
                out.push(kind::ACK);
                ack.emit(out);
            }
            Self::NotReady(refused) => refused.emit(out),
            Self::GoOn { round } => {
                out.push(kind::GO_ON);
                out.extend_from_slice(&round.to_be_bytes());
            }
            Self::Close(close) => close.emit(out),
            Self::CloseAck => out.push(kind::CLOSE_ACK),
            Self::Challenge(bytes) => emit_bytes(out, kind::CHALLENGE, bytes),
            Self::Response(bytes) => emit_bytes(out, kind::RESPONSE, bytes),
            Self::Confirm(proof) => emit_bytes(out, kind::CONFIRM, proof),
            Self::Addresses(addresses) => {
                out.push(kind::ADDRESSES);
                addresses.emit(out);
            }
            Self::Segment(_) | Self::Skipped(_) => unreachable!("not written as a frame: {self:?}"),
        }
    }
}

fn emit_bytes(out: &mut Vec<u8>, kind: u8, bytes: &[u8]) {
    out.push(kind);
    out.extend_from_slice(bytes);
}

impl NotReady {
    fn emit(&self, out: &mut Vec<u8>) {
        out.push(kind::NOT_READY);
        out.push(self.rail);
        out.extend_from_slice(&self.number.to_be_bytes());
        out.extend_from_slice(&self.position.to_be_bytes());
        out.extend_from_slice(&self.round.to_be_bytes());
    }
}

impl Close<'_> {
    fn emit(&self, out: &mut Vec<u8>) {
        assert!(self.reason.len() <= MAX_REASON, "a reason of {} bytes", self.reason.len());
        out.push(kind::CLOSE);
        out.push(u8::from(self.abortive));
        out.extend_from_slice(&self.end.to_be_bytes());
        out.extend_from_slice(&(self.reason.len() as u16).to_be_bytes());
        out.extend_from_slice(self.reason);
    }
}
