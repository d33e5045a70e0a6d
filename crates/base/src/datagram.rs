//! Ports that carry datagrams, each by itself: UDP, or a simulation of it. Beside the stream ports of
//! [`network`](crate::network).

use core::fmt;
use core::ops::Range;
use std::net::{IpAddr, SocketAddr};

use crate::{Piece, PortError};

/// Where a datagram port, or a peer's, can be reached. More kinds may come (a name in shared memory): code that needs
/// IP requests it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum PortAddress {
    /// An IP address and a port number.
    Ip(SocketAddr),
}

impl PortAddress {
    /// The IP address and port number, if it is one.
    #[must_use]
    pub const fn ip(self) -> Option<SocketAddr> {
        match self {
            Self::Ip(address) => Some(address),
        }
    }
}

impl From<SocketAddr> for PortAddress {
    fn from(address: SocketAddr) -> Self {
        Self::Ip(address)
    }
}

impl fmt::Display for PortAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(f),
        }
    }
}

/// One of the addresses of this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LocalAddress {
    /// The address.
    pub ip: IpAddr,
    /// The number that the operating system gives the network interface. Received: the one a datagram came in by (0:
    /// unknown). To send: the one it must leave by; 0 lets the routes decide, and is what to answer with.
    pub interface: u32,
}

/// Explicit congestion notification: two bits of the IP header (RFC 3168 section 5, RFC 8311).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Ecn {
    /// Not-ECT: the network drops where it would mark.
    #[default]
    NotCapable,
    /// ECT(1).
    Capable1,
    /// ECT(0), what an ordinary sender marks its packets with.
    Capable0,
    /// CE: the network met congestion.
    Congested,
}

impl Ecn {
    /// From the two low bits of the traffic class; the others don't matter.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 0b11 {
            0b00 => Self::NotCapable,
            0b01 => Self::Capable1,
            0b10 => Self::Capable0,
            _ => Self::Congested,
        }
    }

    /// The two bits.
    #[must_use]
    pub const fn bits(self) -> u8 {
        match self {
            Self::NotCapable => 0b00,
            Self::Capable1 => 0b01,
            Self::Capable0 => 0b10,
            Self::Congested => 0b11,
        }
    }
}

/// Datagrams that are sent by one call. Their bytes are the pieces of the call, one behind the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramBatch {
    /// Where all of them go.
    pub to: PortAddress,
    /// Where they come from. `None`: the port's address, or what the routes say if that is unspecified.
    pub from: Option<LocalAddress>,
    /// Bytes of each but the last, which may have fewer. At least 1.
    pub segment_size: u32,
    /// The mark of all of them.
    pub ecn: Ecn,
}

/// What came of a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatagramSent {
    /// This many datagrams were taken, from the batch's first on. 0: there is no room now.
    Taken(u32),
    /// Nothing was taken: the batch's first datagram is larger than the first link on the path carries, which is this
    /// many bytes if that is known.
    TooLarge(Option<u32>),
}

/// Datagrams of equal size that came from one sender, one behind the other in the caller's buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedDatagrams {
    /// Where in the buffer. Never empty, but for an empty datagram.
    pub range: Range<usize>,
    /// Bytes of each but the last, which may have fewer. At least 1.
    pub segment_size: u32,
    /// Their sender, as far as the IP header says: any host may write anything there.
    pub from: PortAddress,
    /// Where they came to. `None`: unknown.
    pub to: Option<LocalAddress>,
    /// The mark of all of them.
    pub ecn: Ecn,
}

/// What a host or router on the path says about a datagram sent earlier (ICMP). It may be late, wrong or forged: a
/// reason to probe sooner, never a failure. Any host may send one, but to quote the datagram it must have seen it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hint {
    /// Where the datagram was to go.
    pub to: PortAddress,
    /// The host that says it, if that is known.
    pub by: Option<IpAddr>,
    /// What.
    pub what: HintKind,
    /// How the datagram began.
    pub quote: Quote,
}

/// The first bytes of a datagram that a [`Hint`] is about, as its sender quotes them: at most [`Quote::MOST`]. Routers
/// need quote no more than the UDP header (RFC 792), which leaves none of these; most quote 500 bytes or more (RFC 1812
/// section 4.3.2.3, RFC 4443 section 2.4).
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Quote {
    bytes: [u8; Self::MOST],
    length: u8,
}

impl Quote {
    /// Bytes that are kept. A protocol's header that names the connection and the packet fits in.
    pub const MOST: usize = 32;

    /// The first bytes of `datagram`.
    #[must_use]
    pub fn of(datagram: &[u8]) -> Self {
        let length = datagram.len().min(Self::MOST);
        let mut bytes = [0; Self::MOST];
        bytes[..length].copy_from_slice(&datagram[..length]);
        Self { bytes, length: length as u8 }
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

impl fmt::Debug for Quote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Quote").field(&self.bytes()).finish()
    }
}

/// The kinds of [`Hint`]s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HintKind {
    /// The host is there, and no process has that port.
    Refused,
    /// There is no route to it.
    Unreachable,
    /// A datagram of more bytes than this does not pass.
    TooLarge(u32),
}

/// Settings of a new datagram port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramOptions {
    /// Bytes of the send and of the receive buffer to ask for; [`DatagramLimits`] says what was granted. `None`: the
    /// operating system chooses.
    pub buffer_bytes: Option<u32>,
    /// Whether many datagrams may cross the operating system as one, both ways. Without it each is a call of its own to
    /// send.
    pub offload: bool,
}

impl Default for DatagramOptions {
    fn default() -> Self {
        Self { buffer_bytes: None, offload: true }
    }
}

/// What a datagram port takes and brings at most. All but the buffers may shrink while it lives, when the operating
/// system turns out to refuse something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramLimits {
    /// Datagrams of one send. More are not taken.
    pub batch_datagrams: u32,
    /// Bytes of one send. More are not taken.
    pub batch_bytes: u32,
    /// Pieces of one send, which must be enough for one datagram. More are not taken.
    pub batch_pieces: u32,
    /// Bytes of buffer for each [`ReceivedDatagrams`] that a receive may bring.
    pub receive_bytes: u32,
    /// [`ReceivedDatagrams`] that a receive brings at most.
    pub received: u32,
    /// Bytes of the operating system's send buffer, as it counts them: with what it needs beside the payload.
    pub send_buffer_bytes: u32,
    /// Bytes of the operating system's receive buffer, as it counts them. What does not fit is dropped.
    pub receive_buffer_bytes: u32,
}

/// What a datagram port has lost by itself since it was made, apart from what the network loses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DatagramCounters {
    /// Datagrams (or runs of them, where the operating system merges) that found the receive buffer full. Known with
    /// the next datagram that comes.
    pub overflowed: u64,
    /// Datagrams of batches of which the operating system dropped some after it took them: the interface's queue was
    /// full.
    pub dropped: u64,
    /// Entries of a receive that did not fit into their part of the buffer, and were thrown away.
    pub cut: u64,
    /// Frames that say they have a datagram and have none, where the port reads frames itself.
    pub malformed: u64,
}

/// Sends and receives datagrams: each comes whole or not at all, in any order, perhaps twice. No call blocks; none
/// fails for what one peer or the way to it does. Datagrams are never fragmented: the IP header's "don't fragment" is
/// set (RFC 8899 section 3).
pub trait DatagramPort {
    /// Sends the batch's datagrams, as many as are taken now.
    ///
    /// # Errors
    /// Nothing was sent; the port stays open. There is no route to `to`, or it is forbidden; `from` is not of this host
    /// ([`PortError::AddressNotLocal`], where that can be distinguished); a piece names memory that is gone.
    fn send(&mut self, batch: &DatagramBatch, pieces: &[Piece<'_>]) -> Result<DatagramSent, PortError>;

    /// Receives what is there now: appends to `received`, and returns how many entries. `buffer` is cut into parts of
    /// [`DatagramLimits::receive_bytes`] (one smaller part, if it has fewer), each for one entry.
    ///
    /// # Errors
    /// The port is broken.
    fn receive(&mut self, buffer: &mut [u8], received: &mut Vec<ReceivedDatagrams>) -> Result<usize, PortError>;

    /// The next [`Hint`]. Costs nothing while none has been noticed, which receiving and sending do.
    fn poll_hint(&mut self) -> Option<Hint>;

    /// What it takes and brings at most.
    fn limits(&self) -> DatagramLimits;

    /// What it has lost.
    fn counters(&self) -> DatagramCounters;

    /// Where it is bound, with the port number that was chosen when 0 was requested.
    fn local_address(&self) -> PortAddress;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quote_is_the_beginning_of_a_datagram() {
        assert_eq!(Quote::default().bytes(), b"");
        assert_eq!(Quote::of(b"short").bytes(), b"short");
        assert_eq!(Quote::of(&[7; 100]).bytes(), [7; Quote::MOST]);
    }

    #[test]
    fn ecn_bits() {
        for bits in 0..=0xff_u8 {
            assert_eq!(Ecn::from_bits(bits).bits(), bits & 3);
        }
        assert_eq!(Ecn::from_bits(0b10), Ecn::Capable0);
    }

    #[test]
    fn an_address_reads_as_what_it_is() {
        let address: SocketAddr = "[fe80::1%3]:7".parse().unwrap();
        assert_eq!(PortAddress::from(address).ip(), Some(address));
        assert_eq!(PortAddress::from(address).to_string(), "[fe80::1%3]:7");
    }
}
