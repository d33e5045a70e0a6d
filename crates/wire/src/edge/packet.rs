//! The packet of an established connection: a header, a check of everything in it but payload, and frames.

use core::ops::Range;

use weft_base::Digest;

use super::frame::{self, CRC_LENGTH, Frame, SegmentOptions, kind};
use super::reader::Reader;
use super::{ConnectionId, EdgeError};
use crate::Crc32c;
use crate::bytes::{read_u32, read_u64};

/// Bytes before the first frame: flags, rail, connection, packet number, header check.
pub const HEADER_LENGTH: usize = 18;

pub(super) const FORM: u8 = 0xc0;
pub(super) const ESTABLISHED: u8 = 0x40;
const SEALED: u8 = 0x20;
const KEY_PHASE: u8 = 0x10;
pub(super) const ACK_NOW: u8 = 0x08;
const VERSION_MASK: u8 = 0x07;
/// Where the packet number and the header check begin.
pub(super) const NUMBER: usize = 10;
pub(super) const CHECK: usize = 14;
const NUMBER_LENGTH: usize = size_of::<u64>();
/// Bits of a packet number that go over the wire.
const NUMBER_BITS: u32 = 32;

/// The header of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The sender waits for the acknowledgement.
    pub ack_now: bool,
    /// Which of two keys a sealed packet has. Zero: nothing is sealed in this version.
    pub key_phase: bool,
    /// The rail whose numbers the packets have.
    pub rail: u8,
    /// What the receiver calls the connection.
    pub destination: ConnectionId,
    /// Never the same twice on a rail. Only the low 32 bits go over the wire.
    pub number: u64,
}

/// A packet that was received: its header, and frames that are not yet known to be good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// The header; of the number the low 32 bits, before [`Packet::verify`].
    pub header: Header,
    bytes: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Reads the header.
    ///
    /// # Errors
    /// It is not a packet of an established connection, of another version, sealed, or too short.
    pub fn parse(datagram: &'a [u8]) -> Result<Self, EdgeError> {
        let first = *datagram.first().ok_or(EdgeError::Short)?;
        if first & FORM != ESTABLISHED {
            return Err(EdgeError::NotEdge);
        }
        if u32::from(first & VERSION_MASK) != super::VERSION {
            return Err(EdgeError::Version(u32::from(first & VERSION_MASK)));
        }
        if first & SEALED != 0 {
            return Err(EdgeError::Value("the seal"));
        }
        let bytes: &[u8; HEADER_LENGTH] = datagram.first_chunk().ok_or(EdgeError::Short)?;
        let header = Header {
            ack_now: first & ACK_NOW != 0,
            key_phase: first & KEY_PHASE != 0,
            rail: bytes[1],
            destination: ConnectionId(read_u64(bytes, 2)),
            number: u64::from(read_u32(bytes, NUMBER)),
        };
        Ok(Self { header, bytes: datagram })
    }

    /// Makes the packet number whole (the one closest to `expected`), and checks everything but the payloads: each
    /// frame's form and the
    /// header check. After that [`Packet::frames`] can be acted on.
    ///
    /// # Errors
    /// Something in it is not as it was sent, or of a kind that this version does not have.
    pub fn verify(mut self, expected: u64) -> Result<Self, EdgeError> {
        self.header.number = frame::expand(self.header.number, expected, NUMBER_BITS);
        let mut check = Crc32c::new();
        let mut rest = &self.bytes[HEADER_LENGTH..];
        // What is covered of frames in a row is summed up at once, and the last of that with the header.
        let (mut run, mut last) = (rest, &[][..]);
        while !rest.is_empty() {
            if let Some(covered) = frame::covered_of_last(rest) {
                // Its payload is what is left.
                let covered = run.len() - rest.len() + covered;
                check.update(last);
                (last, run) = (&run[..covered], &[][..]);
                break;
            }
            let (_, covered, after) = frame::split(rest)?;
            if covered.len() + after.len() < rest.len() {
                check.update(last);
                last = &run[..run.len() - rest.len() + covered.len()];
                run = after;
            }
            rest = after;
        }
        if !run.is_empty() {
            check.update(last);
            last = run;
        }
        let stands = &self.bytes[CHECK..HEADER_LENGTH];
        if end_check(check, last, self.header.number, before_check(self.bytes)) == *stands {
            Ok(self)
        } else {
            Err(EdgeError::Check)
        }
    }

    /// The frames, in order. It ends early where there is none: never after a good [`Packet::verify`].
    pub fn frames(&self) -> impl Iterator<Item = Frame<'a>> + use<'a> {
        let mut rest = Reader(&self.bytes[HEADER_LENGTH..]);
        core::iter::from_fn(move || if rest.0.is_empty() { None } else { frame::parse(&mut rest).ok() })
    }
}

/// The bytes of a header, without its check.
pub(super) fn unchecked(header: &Header) -> [u8; HEADER_LENGTH] {
    let flag = |set: bool, bit: u8| if set { bit } else { 0 };
    let mut bytes = [0; HEADER_LENGTH];
    bytes[0] = ESTABLISHED | super::VERSION as u8 | flag(header.ack_now, ACK_NOW) | flag(header.key_phase, KEY_PHASE);
    bytes[1] = header.rail;
    bytes[2..NUMBER].copy_from_slice(&header.destination.0.to_be_bytes());
    bytes[NUMBER..CHECK].copy_from_slice(&(header.number as u32).to_be_bytes());
    bytes
}

/// The check of what is in `check` and `run`, and of the header. That comes last, since whether the acknowledgement is
/// waited for is known last. The whole number is covered, so that a packet is not taken for one that is 2^32 older.
pub(super) fn end_check(mut check: Crc32c, run: &[u8], number: u64, header: &[u8; CHECK]) -> [u8; CRC_LENGTH] {
    let mut last = [0; NUMBER_LENGTH + CHECK];
    let (whole_number, rest) = last.split_at_mut(NUMBER_LENGTH);
    whole_number.copy_from_slice(&number.to_be_bytes());
    rest.copy_from_slice(header);
    check.update_both(run, &last);
    check.value().to_be_bytes()
}

/// The bytes before the header check.
pub(super) fn before_check(packet: &[u8]) -> &[u8; CHECK] {
    packet.first_chunk().expect("a packet has a header")
}

/// Writes the header check of bytes that came from elsewhere, for tests of what a hostile peer can send: frames that
/// can't be read
/// are left as they are.
pub fn reseal(packet: &mut [u8], number: u64) {
    let Some(mut rest) = packet.get(HEADER_LENGTH..) else { return };
    let mut check = Crc32c::new();
    while let Ok((_, covered, after)) = frame::split(rest) {
        check.update(covered);
        rest = after;
    }
    let check = end_check(check, &[], number, before_check(packet));
    packet[CHECK..HEADER_LENGTH].copy_from_slice(&check);
}

/// Writes a packet, but for payload that is gathered later: that goes between what two calls have written.
#[derive(Debug)]
pub struct Builder<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
    number: u64,
    check: Crc32c,
    /// Where bytes begin that the check is to cover, and whose end is not known yet.
    uncovered: Option<usize>,
    /// Bytes that the check is to cover and does not yet.
    run: Range<usize>,
}

impl<'a> Builder<'a> {
    /// Writes the header at the end of `out`.
    #[must_use]
    pub fn new(out: &'a mut Vec<u8>, header: &Header) -> Self {
        let start = out.len();
        out.extend_from_slice(&unchecked(header));
        Self { out, start, number: header.number, check: Crc32c::new(), uncovered: None, run: 0..0 }
    }

    /// Writes any frame but a segment.
    ///
    /// # Panics
    /// Of a segment, or of a frame of a later version.
    pub fn frame(&mut self, frame: &Frame<'_>) {
        self.uncovered.get_or_insert(self.out.len());
        frame.emit(self.out);
    }

    /// Writes a segment up to its payload. The payload and its CRC must follow: [`Builder::payload`], or from
    /// elsewhere.
    /// `counted` is the length of the whole ULPDU when more frames follow it in the packet.
    ///
    /// # Panics
    /// When `ddp_header` is not a DDP header in length.
    pub fn segment(&mut self, position: u64, counted: Option<u16>, options: &SegmentOptions, ddp_header: &[u8]) {
        assert_eq!(ddp_header.len(), frame::ddp_header_length(ddp_header[0]), "a DDP header");
        self.uncovered.get_or_insert(self.out.len());
        self.out.push(match (counted.is_some(), options.is_none()) {
            (true, true) => kind::COUNTED_SEGMENT,
            (false, true) => kind::SEGMENT,
            (true, false) => kind::OPTIONS_COUNTED_SEGMENT,
            (false, false) => kind::OPTIONS_SEGMENT,
        });
        if !options.is_none() {
            options.emit(self.out);
        }
        self.out.extend_from_slice(&position.to_be_bytes()[2..]);
        if let Some(length) = counted {
            self.out.extend_from_slice(&length.to_be_bytes());
        }
        self.out.extend_from_slice(ddp_header);
        self.cover();
    }

    /// Writes payload that is at hand, and its CRC.
    pub fn payload(&mut self, bytes: &[u8]) {
        self.payload_of([bytes]);
    }

    /// As [`Builder::payload`], of payload in pieces.
    pub fn payload_of<const N: usize>(&mut self, pieces: [&[u8]; N]) {
        let start = self.out.len();
        pieces.iter().for_each(|piece| self.out.extend_from_slice(piece));
        let crc: [u8; CRC_LENGTH] = Crc32c::of(&self.out[start..]).to_be_bytes();
        self.out.extend_from_slice(&crc);
    }

    /// Writes the first bytes of a payload whose rest, and whose CRC, come from elsewhere.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// Fills with padding, which nothing may follow, until what was written of this packet has `length` bytes.
    pub fn pad(&mut self, length: usize) {
        if self.out.len() - self.start < length {
            self.frame(&Frame::Padding);
            self.cover();
            self.out.resize(self.start + length, 0);
        }
    }

    /// Where in the buffer the next byte goes.
    #[must_use]
    pub fn at(&self) -> usize {
        self.out.len()
    }

    /// Says that the acknowledgement is waited for.
    pub fn ack_now(&mut self) {
        self.out[self.start] |= ACK_NOW;
    }

    /// Writes the header check.
    pub fn finish(mut self) {
        self.cover();
        let at = self.start + CHECK;
        let run = &self.out[self.run];
        let check = end_check(self.check, run, self.number, before_check(&self.out[self.start..]));
        self.out[at..at + CRC_LENGTH].copy_from_slice(&check);
    }

    /// What was written of frames up to here is covered.
    fn cover(&mut self) {
        if let Some(from) = self.uncovered.take() {
            let before = core::mem::replace(&mut self.run, from..self.out.len());
            if !before.is_empty() {
                self.check.update(&self.out[before]);
            }
        }
    }
}
