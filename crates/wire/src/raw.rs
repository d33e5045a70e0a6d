//! Datagrams on an Ethernet without IP: the header between Ethernet's and the datagram (`docs/wire.md`).

use core::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The EtherType: the first of the two that are for local experiments (IEEE 802, "Local Experimental EtherType 1").
pub const ETHER_TYPE: u16 = 0x88b5;
/// Bytes of the header with addresses of IPv4, and of IPv6.
pub const HEADER_LENGTH: usize = 16;
/// See [`HEADER_LENGTH`].
pub const HEADER_LENGTH_IPV6: usize = 40;
/// The first two bytes: what the addresses are, 1 of IPv4 and 2 of IPv6, and a letter that tells these frames from what
/// others try out with that EtherType.
pub const VERSION: u16 = 0x0157;
/// See [`VERSION`].
pub const VERSION_IPV6: u16 = 0x0257;

/// The place of the receiver's port number in the header, for a filter of frames.
pub const DESTINATION_PORT_AT: usize = 6;
/// The place of its address of IPv4, and of that of IPv6.
pub const DESTINATION_AT: usize = 12;
/// See [`DESTINATION_AT`].
pub const DESTINATION_AT_IPV6: usize = 24;

/// The place of the sender's address.
const SOURCE_AT: usize = 8;

/// The header before a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its sender, as the sender says: any host may write anything there.
    pub source: SocketAddr,
    /// Its receiver: an address of the same kind.
    pub destination: SocketAddr,
    /// Bytes of the datagram. More may follow: an Ethernet has no frame of less than 60 bytes.
    pub length: u16,
}

/// Why a frame has no datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RawError {
    /// It ends within the header: this many bytes are there.
    Short(usize),
    /// Another version, or another experiment: these are its first two bytes.
    Version(u16),
    /// The header says more bytes than there are behind it.
    Cut {
        /// What it says.
        says: u16,
        /// What is there.
        is: usize,
    },
    /// No answer can be sent there: no port, or not the address of one host.
    Source(SocketAddr),
}

impl fmt::Display for RawError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short(bytes) => {
                write!(f, "{bytes} bytes are no header, which has {HEADER_LENGTH}, or {HEADER_LENGTH_IPV6} of IPv6")
            }
            Self::Version(found) => {
                write!(
                    f,
                    "it begins with {found:#06x}, a frame that is known with {VERSION:#06x} or {VERSION_IPV6:#06x}"
                )
            }
            Self::Cut { says, is } => write!(f, "the header says {says} bytes, {is} are there"),
            Self::Source(source) => write!(f, "{source} cannot be answered"),
        }
    }
}

impl std::error::Error for RawError {}

/// Bytes of the header with addresses of this kind.
#[must_use]
pub const fn header_length(of: IpAddr) -> usize {
    if of.is_ipv4() { HEADER_LENGTH } else { HEADER_LENGTH_IPV6 }
}

impl Header {
    /// Writes it at the start of `out`; how many bytes that is: [`header_length`] of either address.
    ///
    /// # Panics
    /// The addresses are of two kinds, or `out` has no room.
    pub fn emit(&self, out: &mut [u8]) -> usize {
        let length = header_length(self.source.ip());
        let out = &mut out[..length];
        let version = if self.source.is_ipv4() { VERSION } else { VERSION_IPV6 };
        out[..2].copy_from_slice(&version.to_be_bytes());
        out[2..4].copy_from_slice(&self.length.to_be_bytes());
        out[4..6].copy_from_slice(&self.source.port().to_be_bytes());
        out[6..8].copy_from_slice(&self.destination.port().to_be_bytes());
        match (self.source.ip(), self.destination.ip()) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                out[SOURCE_AT..DESTINATION_AT].copy_from_slice(&source.octets());
                out[DESTINATION_AT..].copy_from_slice(&destination.octets());
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                out[SOURCE_AT..DESTINATION_AT_IPV6].copy_from_slice(&source.octets());
                out[DESTINATION_AT_IPV6..].copy_from_slice(&destination.octets());
            }
            (source, destination) => panic!("a frame from {source} to {destination}"),
        }
        length
    }

    /// The header at the start of what Ethernet carries, and the datagram behind it, without what only fills the frame.
    ///
    /// # Errors
    /// There is no datagram.
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), RawError> {
        let (begin, _) = bytes.split_first_chunk::<2>().ok_or(RawError::Short(bytes.len()))?;
        match u16::from_be_bytes(*begin) {
            VERSION => Self::parse_with(bytes, |address: [u8; 4]| Ipv4Addr::from(address).into()),
            VERSION_IPV6 => Self::parse_with(bytes, |address: [u8; 16]| Ipv6Addr::from(address).into()),
            other => Err(RawError::Version(other)),
        }
    }

    /// The same, with addresses of `BYTES` bytes.
    fn parse_with<const BYTES: usize>(
        bytes: &[u8],
        address: impl Fn([u8; BYTES]) -> IpAddr,
    ) -> Result<(Self, &[u8]), RawError> {
        let short = RawError::Short(bytes.len());
        let (numbers, rest) = bytes.split_first_chunk::<SOURCE_AT>().ok_or(short)?;
        let (source, rest) = rest.split_first_chunk::<BYTES>().ok_or(short)?;
        let (destination, rest) = rest.split_first_chunk::<BYTES>().ok_or(short)?;
        let number = |at: usize| u16::from_be_bytes([numbers[at], numbers[at + 1]]);
        let source = SocketAddr::new(address(*source), number(4));
        let destination = SocketAddr::new(address(*destination), number(6));
        let length = number(2);
        if source.port() == 0 || is_nobody(source.ip()) {
            return Err(RawError::Source(source));
        }
        let datagram = rest.get(..usize::from(length)).ok_or(RawError::Cut { says: length, is: rest.len() })?;
        Ok((Self { source, destination, length }, datagram))
    }
}

/// Whether an address is none of one host.
fn is_nobody(address: IpAddr) -> bool {
    let is_broadcast = matches!(address, IpAddr::V4(four) if four.is_broadcast());
    address.is_unspecified() || address.is_multicast() || is_broadcast
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Between two addresses of each kind.
    fn headers(length: u16) -> [Header; 2] {
        [("10.0.0.77:4791", "10.0.0.78:258"), ("[fd00::4d]:4791", "[fd00::4e]:258")].map(|(source, destination)| {
            Header { source: source.parse().unwrap(), destination: destination.parse().unwrap(), length }
        })
    }

    fn emit(header: &Header) -> Vec<u8> {
        let mut bytes = [0xa5; HEADER_LENGTH_IPV6];
        let length = header.emit(&mut bytes);
        assert!(bytes[length..].iter().all(|byte| *byte == 0xa5));
        bytes[..length].to_vec()
    }

    #[test]
    fn the_bytes_are_those_of_the_document() {
        let [four, six] = headers(3).map(|header| emit(&header));
        assert_eq!(four, [1, 0x57, 0, 3, 0x12, 0xb7, 1, 2, 10, 0, 0, 77, 10, 0, 0, 78]);
        assert_eq!(four[DESTINATION_PORT_AT..][..2], [1, 2]);
        assert_eq!(four[DESTINATION_AT..], [10, 0, 0, 78]);
        let address = |last| [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last];
        assert_eq!(six[..8], [2, 0x57, 0, 3, 0x12, 0xb7, 1, 2]);
        assert_eq!((&six[8..24], &six[DESTINATION_AT_IPV6..]), (&address(0x4d)[..], &address(0x4e)[..]));
    }

    #[test]
    fn what_fills_a_frame_is_not_of_the_datagram() {
        for (header, empty) in headers(3).into_iter().zip(headers(0)) {
            let mut frame = emit(&header);
            let length = frame.len();
            frame.extend_from_slice(b"abc\0\0\0\0");
            assert_eq!(Header::parse(&frame), Ok((header, &b"abc"[..])));
            assert_eq!(Header::parse(&frame[..length + 3]), Ok((header, &b"abc"[..])));
            assert_eq!(Header::parse(&frame[..length + 2]), Err(RawError::Cut { says: 3, is: 2 }));
            for short in [0, 1, 2, 7, 8, length - 1] {
                assert_eq!(Header::parse(&frame[..short]), Err(RawError::Short(short)));
            }
            assert_eq!(Header::parse(&emit(&empty)), Ok((empty, &[][..])));
        }
    }

    #[test]
    fn a_sender_that_cannot_be_answered_is_dropped() {
        let [four, six] = headers(0);
        let four = ["10.0.0.1:0", "0.0.0.0:1", "224.0.0.1:1", "255.255.255.255:1"].map(|source| (source, four));
        let six = ["[fd00::1]:0", "[::]:1", "[ff02::1]:1"].map(|source| (source, six));
        for (source, header) in four.into_iter().chain(six) {
            let source: SocketAddr = source.parse().unwrap();
            assert_eq!(Header::parse(&emit(&Header { source, ..header })), Err(RawError::Source(source)));
        }
        let mut other = emit(&headers(0)[0]);
        other[0] = 3;
        assert_eq!(Header::parse(&other), Err(RawError::Version(0x0357)));
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(
            source: (u128, u16),
            to: (u128, u16),
            six: bool,
            body: Vec<u8>,
            padding in 0usize..60,
        ) {
            let of_four = |bits: u128| IpAddr::from((bits as u32).to_be_bytes());
            let ip = |bits: u128| if six { bits.to_be_bytes().into() } else { of_four(bits) };
            let end = |(bits, port)| SocketAddr::new(ip(bits), port);
            let written = Header { source: end(source), destination: end(to), length: body.len() as u16 };
            let mut frame = emit(&written);
            frame.extend_from_slice(&body);
            frame.resize(frame.len() + padding, 0);
            match Header::parse(&frame) {
                Ok(read) => prop_assert_eq!(read, (written, &body[..])),
                Err(error) => prop_assert_eq!(error, RawError::Source(end(source))),
            }
        }

        #[test]
        fn whatever_comes_is_read_or_refused(mut bytes: Vec<u8>, begin in 0usize..4) {
            // Most begin with nothing that is known.
            if let Some([kind, letter]) = bytes.first_chunk_mut::<2>().filter(|_| begin < 2) {
                (*kind, *letter) = (begin as u8 + 1, 0x57);
            }
            if let Ok((header, datagram)) = Header::parse(&bytes) {
                prop_assert_eq!(usize::from(header.length), datagram.len());
                let written = emit(&header);
                prop_assert_eq!(&written[..], &bytes[..written.len()]);
            }
        }
    }
}
