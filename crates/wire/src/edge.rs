//! Edge: RDMA over datagrams. A datagram is one packet: of an established connection ([`packet`], [`frame`]) or of
//! its set-up ([`setup`]). `docs/wire.md` draws them. Packets in a row are read and written as one ([`run`]).
//!
//! The first byte distinguishes them: its two highest bits are `01` in the one and `11` in the other. Anything else
//! there is not Edge.

pub mod ack;
pub mod addresses;
pub mod frame;
pub mod packet;
mod reader;
pub mod run;
pub mod setup;
#[cfg(test)]
mod tests;

use core::fmt;

use crate::bytes::read_u64;

/// The version of Edge that this module speaks.
pub const VERSION: u32 = 1;
/// A datagram of this many bytes passes every path that Edge runs on, in bytes above UDP (RFC 9000 section 14).
pub const BASE_DATAGRAM: usize = 1200;
/// The most bytes above UDP that a datagram can have over IPv4.
pub const MAX_DATAGRAM: usize = 65_507;
/// Bytes of the token with which a restarted process says that it knows nothing of a connection.
pub const RESET_TOKEN_LENGTH: usize = 16;
/// Bytes of what confirms a set-up.
pub const PROOF_LENGTH: usize = 32;

/// What a receiver calls a connection. It is random, so that a host that has not seen it can't guess it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(pub u64);

/// Which kind of datagram this is, and its destination: what a NIC reads before anything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// Of an established connection, which the receiver calls this.
    Connection(ConnectionId),
    /// Part of a set-up. `destination` is zero in what begins one; `source` is what the sender calls it.
    Setup {
        /// What the receiver calls the connection.
        destination: ConnectionId,
        /// What the sender calls it.
        source: ConnectionId,
    },
    /// The sender knows nothing of the connection that it once called this.
    Reset {
        /// The sender's name of the connection.
        source: ConnectionId,
    },
}

/// Why a datagram, or a part of it, can't be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EdgeError {
    /// It ends before it is complete.
    Short,
    /// Its first byte is not of Edge.
    NotEdge,
    /// It speaks another version.
    Version(u32),
    /// Its header check does not fit: it was damaged in flight.
    Check,
    /// It holds a frame that this version does not have.
    Frame(u8),
    /// A value in it can't be.
    Value(&'static str),
}

impl fmt::Display for EdgeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short => f.write_str("the packet ends before it is complete"),
            Self::NotEdge => f.write_str("the first byte is not that of an Edge packet"),
            Self::Version(version) => write!(f, "version {version} of Edge is not spoken here, only {VERSION}"),
            Self::Check => f.write_str("the header check does not fit: the packet was damaged on the way"),
            Self::Frame(kind) => write!(f, "frame {kind:#04x} is not one of version {VERSION}"),
            Self::Value(what) => write!(f, "{what} has a value that can't be"),
        }
    }
}

impl core::error::Error for EdgeError {}

/// Reads the destination of a datagram, without checking the datagram.
///
/// # Errors
/// The first byte is not of Edge, or the datagram is shorter than the part that names its destination.
pub fn destination(datagram: &[u8]) -> Result<Destination, EdgeError> {
    let mut reader = reader::Reader(datagram);
    let first = reader.u8()?;
    match first & packet::FORM {
        packet::ESTABLISHED => {
            reader.take(1)?;
            Ok(Destination::Connection(ConnectionId(reader.u64()?)))
        }
        setup::FORM if first == setup::RESET => Ok(Destination::Reset { source: ConnectionId(reader.u64()?) }),
        setup::FORM => {
            reader.take(4)?;
            Ok(Destination::Setup { destination: ConnectionId(reader.u64()?), source: ConnectionId(reader.u64()?) })
        }
        _ => Err(EdgeError::NotEdge),
    }
}

/// How many of these datagrams, of `size` bytes each but the last, are packets of the established connection that the
/// first is for: none, if it is not for one. Nothing else is checked.
///
/// # Panics
/// When `size` is 0.
#[must_use]
pub fn packets_in_row(datagrams: &[u8], size: usize) -> usize {
    let head = |datagram: &[u8]| datagram.first_chunk::<{ packet::NUMBER }>().copied();
    let destination = |head: [u8; packet::NUMBER]| (head[0] & packet::FORM, read_u64(&head, 2));
    let Some(first @ (packet::ESTABLISHED, _)) = head(datagrams).map(destination) else { return 0 };
    datagrams.chunks(size).take_while(|datagram| head(datagram).map(destination) == Some(first)).count()
}
