//! Datagrams on an Ethernet without IP: the header between Ethernet's and the datagram (`docs/wire.md`).

use core::fmt;
use std::net::{Ipv4Addr, SocketAddrV4};

/// The EtherType: the first of the two that are for local experiments (IEEE 802, "Local Experimental EtherType 1").
pub const ETHER_TYPE: u16 = 0x88b5;
/// Bytes of the header.
pub const HEADER_LENGTH: usize = 16;
/// The first two bytes: this version, and a letter that tells these frames from what others try out with that
/// EtherType.
pub const VERSION: u16 = 0x0157;

/// Where the port number and the address of the receiver stand in the header, for a filter of frames.
pub const DESTINATION_PORT_AT: usize = 6;
/// See [`DESTINATION_PORT_AT`].
pub const DESTINATION_AT: usize = 12;

/// What stands before a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Who sends it, as the sender says: anybody may write anything there.
    pub source: SocketAddrV4,
    /// For whom it is.
    pub destination: SocketAddrV4,
    /// Bytes of the datagram. More may follow: an Ethernet has no frame of less than 60 bytes.
    pub length: u16,
}

/// Why a frame has no datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RawError {
    /// It ends within the header: so many bytes are there.
    Short(usize),
    /// Another version, or somebody else's experiment: these are its first two bytes.
    Version(u16),
    /// The header says more bytes than there are behind it.
    Cut {
        /// What it says.
        says: u16,
        /// What is there.
        is: usize,
    },
    /// Nobody can be answered there: no port, or not the address of one host.
    Source(SocketAddrV4),
}

impl fmt::Display for RawError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short(bytes) => write!(f, "{bytes} bytes are no header, which has {HEADER_LENGTH}"),
            Self::Version(found) => {
                write!(f, "it begins with {found:#06x}, a frame of this version with {VERSION:#06x}")
            }
            Self::Cut { says, is } => write!(f, "the header says {says} bytes, {is} are there"),
            Self::Source(source) => write!(f, "{source} cannot be answered"),
        }
    }
}

impl std::error::Error for RawError {}

impl Header {
    /// The bytes of the header.
    #[must_use]
    pub fn emit(&self) -> [u8; HEADER_LENGTH] {
        let mut bytes = [0; HEADER_LENGTH];
        bytes[..2].copy_from_slice(&VERSION.to_be_bytes());
        bytes[2..4].copy_from_slice(&self.length.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.source.port().to_be_bytes());
        bytes[6..8].copy_from_slice(&self.destination.port().to_be_bytes());
        bytes[8..12].copy_from_slice(&self.source.ip().octets());
        bytes[12..].copy_from_slice(&self.destination.ip().octets());
        bytes
    }

    /// The header at the start of what Ethernet carries, and the datagram behind it, without what only fills the frame.
    ///
    /// # Errors
    /// There is no datagram.
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), RawError> {
        let (head, rest) = bytes.split_first_chunk::<HEADER_LENGTH>().ok_or(RawError::Short(bytes.len()))?;
        let number = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
        let end = |port: usize, ip: usize| {
            SocketAddrV4::new(Ipv4Addr::new(head[ip], head[ip + 1], head[ip + 2], head[ip + 3]), number(port))
        };
        if number(0) != VERSION {
            return Err(RawError::Version(number(0)));
        }
        let header = Self { source: end(4, 8), destination: end(6, 12), length: number(2) };
        let (source, length) = (header.source, header.length);
        let is_nobody = source.ip().is_unspecified() || source.ip().is_multicast() || source.ip().is_broadcast();
        if source.port() == 0 || is_nobody {
            return Err(RawError::Source(source));
        }
        let datagram = rest.get(..usize::from(length)).ok_or(RawError::Cut { says: length, is: rest.len() })?;
        Ok((header, datagram))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn header(length: u16) -> Header {
        Header { source: "10.0.0.77:4791".parse().unwrap(), destination: "10.0.0.78:258".parse().unwrap(), length }
    }

    #[test]
    fn the_bytes_are_those_of_the_document() {
        let bytes = header(3).emit();
        assert_eq!(bytes, [1, 0x57, 0, 3, 0x12, 0xb7, 1, 2, 10, 0, 0, 77, 10, 0, 0, 78]);
        assert_eq!(bytes[DESTINATION_PORT_AT..][..2], [1, 2]);
        assert_eq!(bytes[DESTINATION_AT..], [10, 0, 0, 78]);
    }

    #[test]
    fn what_fills_a_frame_is_not_of_the_datagram() {
        let mut frame = header(3).emit().to_vec();
        frame.extend_from_slice(b"abc\0\0\0\0");
        assert_eq!(Header::parse(&frame), Ok((header(3), &b"abc"[..])));
        assert_eq!(Header::parse(&frame[..19]), Ok((header(3), &b"abc"[..])));
        assert_eq!(Header::parse(&frame[..18]), Err(RawError::Cut { says: 3, is: 2 }));
        assert_eq!(Header::parse(&frame[..15]), Err(RawError::Short(15)));
        assert_eq!(Header::parse(&header(0).emit()), Ok((header(0), &[][..])));
    }

    #[test]
    fn who_cannot_be_answered_is_not_heard() {
        for source in ["10.0.0.1:0", "0.0.0.0:1", "224.0.0.1:1", "255.255.255.255:1"] {
            let source: SocketAddrV4 = source.parse().unwrap();
            let bytes = Header { source, ..header(0) }.emit();
            assert_eq!(Header::parse(&bytes), Err(RawError::Source(source)));
        }
        let mut other = header(0).emit();
        other[0] = 2;
        assert_eq!(Header::parse(&other), Err(RawError::Version(0x0257)));
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(source: (u32, u16), to: (u32, u16), body: Vec<u8>, padding in 0usize..60) {
            let end = |(ip, port)| SocketAddrV4::new(Ipv4Addr::from_bits(ip), port);
            let written = Header { source: end(source), destination: end(to), length: body.len() as u16 };
            let mut frame = written.emit().to_vec();
            frame.extend_from_slice(&body);
            frame.resize(frame.len() + padding, 0);
            match Header::parse(&frame) {
                Ok(read) => prop_assert_eq!(read, (written, &body[..])),
                Err(error) => prop_assert_eq!(error, RawError::Source(end(source))),
            }
        }

        #[test]
        fn whatever_comes_is_read_or_refused(bytes: Vec<u8>) {
            if let Ok((header, datagram)) = Header::parse(&bytes) {
                prop_assert_eq!(usize::from(header.length), datagram.len());
                prop_assert_eq!(&header.emit()[..], &bytes[..HEADER_LENGTH]);
            }
        }
    }
}
