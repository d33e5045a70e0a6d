//! TCP segments: bytes to values and back (RFC 9293 section 3.1).

use core::ops::Range;
use core::{fmt, mem};
use std::net::{IpAddr, SocketAddr};

use etherparse::{TcpHeader, TcpSlice};

use crate::checksum;

mod options;
#[cfg(test)]
mod tests;

pub use options::{MAX_SACK_BLOCKS, OptionError, Options, Timestamps};

/// Bytes of a TCP header without options.
pub const MIN_HEADER: usize = TcpHeader::MIN_LEN;
/// Bytes of a TCP header with as many options as fit.
pub const MAX_HEADER: usize = TcpHeader::MAX_LEN;

/// The place of the checksum in a header.
const CHECKSUM: Range<usize> = 16..18;

/// The two ends of a connection, as one of them sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    /// Of this end.
    pub local: SocketAddr,
    /// Of the other one.
    pub remote: SocketAddr,
}

impl Flow {
    /// Whether both ends are one and the same, which no honest segment says (the "land" attack).
    #[must_use]
    pub fn is_circle(&self) -> bool {
        self.local == self.remote
    }
}

/// The control bits that Weft reads and writes. Urgent data is ordinary data to it (RFC 6093 section 5 advises
/// against using the bit), and it doesn't take part in ECN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// Synchronise sequence numbers.
    pub syn: bool,
    /// The acknowledgement field is valid.
    pub ack: bool,
    /// No more data from the sender.
    pub fin: bool,
    /// Reset the connection.
    pub rst: bool,
    /// Push.
    pub psh: bool,
}

/// A segment without its payload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Port of the sender.
    pub source: u16,
    /// Port of the receiver.
    pub destination: u16,
    /// The number of the first byte, or of the SYN.
    pub sequence: u32,
    /// The number that is expected next; zero where `flags.ack` is not set.
    pub acknowledgement: u32,
    /// Control bits.
    pub flags: Flags,
    /// The window as it is in the header, not scaled.
    pub window: u16,
    /// Options.
    pub options: Options,
}

/// Whether the checksum of a received segment is to be computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// Yes.
    Verify,
    /// No: the device has done so, or the segment never was on a wire.
    Trusted,
}

/// Why bytes are not a segment. It is dropped without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentError {
    /// Fewer bytes than its header says, or than a header has.
    Short(usize),
    /// The header says that it is shorter than a header.
    Offset(u8),
    /// The checksum does not fit.
    Checksum {
        /// What the bytes give.
        computed: u16,
        /// What the field says.
        received: u16,
    },
    /// The addresses are of different versions of IP, or it is longer than IP carries.
    Addresses,
    /// An option makes no sense.
    Option(OptionError),
}

impl fmt::Display for SegmentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short(length) => write!(f, "a TCP segment is cut short at {length} bytes"),
            Self::Offset(words) => write!(f, "a TCP header says that it has {words} words, fewer than 5"),
            Self::Checksum { computed, received } => {
                write!(f, "a TCP segment is damaged: its checksum says {received:#06x}, its bytes give {computed:#06x}")
            }
            Self::Addresses => write!(f, "a TCP segment that IP cannot carry between these addresses"),
            Self::Option(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SegmentError {}

impl Segment {
    /// Reads a segment that came from `source` to `destination`: the header, and the place of its payload in `bytes`.
    ///
    /// # Errors
    /// What is wrong with it. Options of unknown kinds are skipped (RFC 9293 section 3.1, MUST-6).
    pub fn parse(
        bytes: &[u8],
        source: IpAddr,
        destination: IpAddr,
        checksum: Checksum,
    ) -> Result<(Self, Range<usize>), SegmentError> {
        let offset = bytes.get(12).map_or(5, |byte| byte >> 4);
        if offset < 5 {
            return Err(SegmentError::Offset(offset));
        }
        let slice = TcpSlice::from_slice(bytes).map_err(|_| SegmentError::Short(bytes.len()))?;
        if checksum == Checksum::Verify {
            verify(&slice, source, destination)?;
        }
        let segment = Self {
            source: slice.source_port(),
            destination: slice.destination_port(),
            sequence: slice.sequence_number(),
            acknowledgement: if slice.ack() { slice.acknowledgment_number() } else { 0 },
            flags: Flags { syn: slice.syn(), ack: slice.ack(), fin: slice.fin(), rst: slice.rst(), psh: slice.psh() },
            window: slice.window_size(),
            options: Options::parse(slice.options()).map_err(SegmentError::Option)?,
        };
        Ok((segment, slice.header_len()..bytes.len()))
    }

    /// Bytes of its header.
    #[must_use]
    pub fn header_length(&self) -> usize {
        MIN_HEADER + self.options.length()
    }

    /// Writes the segment, header and payload and checksum, at the start of `out`, and returns how many bytes that is.
    ///
    /// # Errors
    /// The addresses are of different versions of IP, or the segment is longer than IP carries.
    ///
    /// # Panics
    /// When `out` is too short.
    pub fn emit(&self, flow: &Flow, payload: &[u8], out: &mut [u8]) -> Result<usize, SegmentError> {
        let header = self.emit_header(flow, payload, out)?;
        out[header..header + payload.len()].copy_from_slice(payload);
        Ok(header + payload.len())
    }

    /// The same; `fill` writes the payload to its place.
    pub(crate) fn emit_with(
        &self,
        flow: &Flow,
        payload: usize,
        out: &mut [u8],
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<usize, SegmentError> {
        let (head, body) = out.split_at_mut(self.header_length());
        fill(&mut body[..payload]);
        let header = self.emit_header(flow, &body[..payload], head)?;
        Ok(header + payload)
    }

    /// Writes the header, for a payload that is elsewhere, at the start of `out`; how many bytes that is.
    pub(crate) fn emit_header(&self, flow: &Flow, payload: &[u8], out: &mut [u8]) -> Result<usize, SegmentError> {
        let mut bytes = self.header().to_bytes();
        let checksum = checksum::of_segment(flow.local.ip(), flow.remote.ip(), &bytes, payload);
        bytes[CHECKSUM].copy_from_slice(&checksum.ok_or(SegmentError::Addresses)?.to_be_bytes());
        out[..bytes.len()].copy_from_slice(&bytes);
        Ok(bytes.len())
    }

    /// Writes the header for a payload of this length that a device sums up, with the sum of the pseudo-header in the
    /// place of the checksum, at the start of `out`; how many bytes that is.
    pub(crate) fn emit_unsummed(&self, flow: &Flow, payload: usize, out: &mut [u8]) -> Result<usize, SegmentError> {
        let mut bytes = self.header().to_bytes();
        let sum = checksum::of_pseudo_header(flow.local.ip(), flow.remote.ip(), bytes.len() + payload);
        bytes[CHECKSUM].copy_from_slice(&sum.ok_or(SegmentError::Addresses)?.to_be_bytes());
        out[..bytes.len()].copy_from_slice(&bytes);
        Ok(bytes.len())
    }

    fn header(&self) -> TcpHeader {
        let mut header = TcpHeader::new(self.source, self.destination, self.sequence, self.window);
        header.acknowledgment_number = self.acknowledgement;
        (header.syn, header.ack, header.fin) = (self.flags.syn, self.flags.ack, self.flags.fin);
        (header.rst, header.psh) = (self.flags.rst, self.flags.psh);
        // What `Options::emit` writes always fits.
        let _ = header.set_options_raw(&self.options.emit());
        header
    }

    /// Bytes of sequence space that it takes: payload, SYN and FIN.
    #[must_use]
    pub const fn sequence_length(&self, payload: usize) -> u64 {
        payload as u64 + self.flags.syn as u64 + self.flags.fin as u64
    }

    /// The answer to a segment for which there is no connection: a reset, unless it is one itself (RFC 9293 section
    /// 3.10.7.1).
    #[must_use]
    pub fn refusal(&self, payload: usize) -> Option<Self> {
        if self.flags.rst {
            return None;
        }
        let expected = self.sequence.wrapping_add(self.sequence_length(payload) as u32);
        let (sequence, acknowledgement) = if self.flags.ack { (self.acknowledgement, 0) } else { (0, expected) };
        let flags = Flags { rst: true, ack: !self.flags.ack, ..Flags::default() };
        Some(Self {
            source: self.destination,
            destination: self.source,
            sequence,
            acknowledgement,
            flags,
            ..Self::default()
        })
    }
}

fn verify(slice: &TcpSlice<'_>, source: IpAddr, destination: IpAddr) -> Result<(), SegmentError> {
    let difference = checksum::of_segment(source, destination, slice.header_slice(), slice.payload());
    if difference.ok_or(SegmentError::Addresses)? == 0 {
        return Ok(());
    }
    let mut header = slice.to_header();
    let received = mem::take(&mut header.checksum);
    let computed = checksum::of_segment(source, destination, &header.to_bytes(), slice.payload()).unwrap_or_default();
    Err(SegmentError::Checksum { computed, received })
}
