//! A UDP port: one socket, and a second one for the peer that most goes to.

mod address;
mod connected;
mod control;
mod hints;
mod receiver;
mod sender;
mod socket;
#[cfg(test)]
mod tests;

use core::fmt;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

use weft_base::{
    DatagramBatch, DatagramCounters, DatagramLimits, DatagramOptions, DatagramPort, DatagramSent, Ecn, Hint, Interest,
    LocalAddress, Piece, PortAddress, PortError, ReceivedDatagrams,
};
use weft_memory::Registry;

use crate::error::port_error;
use crate::held::Held;
use crate::socket::plain_address;
use connected::{Connected, Course, Row, Way};
use hints::Hints;
use receiver::{RECEIVED, Receiver};
use sender::PIECES;

/// Datagrams that the kernel takes as one (`UDP_MAX_SEGMENTS`, 128 since Linux 6.9).
const BATCH_DATAGRAMS: u32 = 64;
/// Bytes that it takes as one: an IP packet (65 535) without the headers of IPv6 and UDP.
const BATCH_BYTES: u32 = 65_535 - 48;
/// What it brings as one has no more bytes than this.
const RECEIVE_BYTES: u32 = 65_536;

/// A UDP port. One on `[::]` carries IPv4 as well; such addresses are given, and shown, as IPv4.
pub struct UdpPort {
    socket: PortSocket,
    connected: Option<Connected>,
    row: Row,
    registry: Registry,
    local: SocketAddr,
    options: DatagramOptions,
    /// Whether the kernel takes many datagrams as one. It may say so and refuse when the interface can't compute
    /// checksums.
    takes_many: bool,
    /// Which socket had no room last.
    full: Way,
    limits: DatagramLimits,
    hints: Hints,
    counters: DatagramCounters,
}

/// A socket, and what is known of it.
struct PortSocket {
    held: Held,
    /// The only address that something comes to.
    only: Option<LocalAddress>,
    receiver: Receiver,
    usual_ecn: UsualEcn,
}

impl PortSocket {
    fn new(held: Held, only: Option<LocalAddress>) -> Self {
        Self { held, only, receiver: Receiver::new(), usual_ecn: UsualEcn::default() }
    }
}

impl AsFd for PortSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.held.as_fd()
    }
}

/// The mark that the socket gives to datagrams of which nothing else is said. To say it with each costs a quarter of a
/// microsecond, so it follows what is sent mostly.
#[derive(Default)]
struct UsualEcn {
    ecn: Ecn,
    /// Sends with this other mark, less those with the usual one.
    other: (Ecn, u8),
}

/// After so many more sends with another mark that becomes the usual one.
const SENDS_TO_LEARN: u8 = 8;

impl UsualEcn {
    fn learn(&mut self, ecn: Ecn, socket: BorrowedFd<'_>, is_ipv6: bool) {
        if ecn == self.ecn {
            self.other.1 = self.other.1.saturating_sub(1);
            return;
        }
        self.other = if self.other.0 == ecn { (ecn, self.other.1 + 1) } else { (ecn, 1) };
        if self.other.1 >= SENDS_TO_LEARN {
            self.other.1 = 0;
            if socket::set_ecn(socket, ecn, is_ipv6) {
                self.ecn = ecn;
            }
        }
    }
}

impl UdpPort {
    pub(crate) fn bind(local: SocketAddr, registry: Registry, options: &DatagramOptions) -> Result<Self, PortError> {
        let made = socket::bind(local, options)?;
        let socket = made.socket;
        let address = socket.local_addr().map_err(|error| port_error(&error))?;
        // What is unspecified stays unspecified, in its family.
        let local = address.as_socket().ok_or(PortError::System(libc::EAFNOSUPPORT))?;
        let local = if local.ip().is_unspecified() { Some(local) } else { plain_address(&address) }.unwrap_or(local);
        let limits = limits(&socket);
        let ip = local.ip();
        let only = (!ip.is_unspecified()).then_some(LocalAddress { ip, interface: 0 });
        Ok(Self {
            socket: PortSocket::new(socket, only),
            connected: None,
            row: Row::new(),
            registry,
            local,
            options: *options,
            takes_many: made.takes_many,
            full: Way::Any,
            limits,
            hints: Hints::new(),
            counters: DatagramCounters::default(),
        })
    }

    /// Its descriptors, with what each is to be watched for. Whatever is told of either, both are looked at next.
    pub(crate) fn watched(&mut self, interest: Interest) -> impl Iterator<Item = (BorrowedFd<'_>, Interest)> {
        let full = if self.connected.is_some() { self.full } else { Way::Any };
        if let Some(connected) = &mut self.connected {
            connected.look_at_both();
        }
        // The one that had room has it still.
        let of = move |way| Interest { writable: interest.writable && way == full, ..interest };
        let connected = self.connected.as_ref().map(|second| (second.socket.as_fd(), of(Way::Connected)));
        core::iter::once((self.socket.as_fd(), of(Way::Any))).chain(connected)
    }
}

impl DatagramPort for UdpPort {
    fn send(&mut self, batch: &DatagramBatch, pieces: &[Piece<'_>]) -> Result<DatagramSent, PortError> {
        let to = batch.to.ip().ok_or(PortError::Unreachable)?;
        let Self { socket, connected, row, options, local, .. } = self;
        let way = connected::way_of(connected, row, Course::of(to, batch.from, local.ip()), &socket.held, options);
        match self.send_by(way, batch, to, pieces) {
            // The address may have left this host, or its interface. Who takes any source says what is wrong.
            Err(_) if way == Way::Connected => {
                self.connected = None;
                self.send_by(Way::Any, batch, to, pieces)
            }
            sent => sent,
        }
    }

    fn receive(&mut self, buffer: &mut [u8], received: &mut Vec<ReceivedDatagrams>) -> Result<usize, PortError> {
        let Some(connected) = &mut self.connected else { return self.receive_by(Way::Any, buffer, received) };
        let (first, both) = connected.look();
        let count = self.look_by(first, buffer, received)?;
        if count > 0 || !both {
            return Ok(count);
        }
        self.look_by(if first == Way::Any { Way::Connected } else { Way::Any }, buffer, received)
    }

    fn poll_hint(&mut self) -> Option<Hint> {
        self.hints.poll(self.socket.as_fd()).or_else(|| self.hints.poll(self.connected.as_ref()?.socket.as_fd()))
    }

    fn limits(&self) -> DatagramLimits {
        self.limits
    }

    fn counters(&self) -> DatagramCounters {
        self.counters
    }

    fn local_address(&self) -> PortAddress {
        self.local.into()
    }
}

impl fmt::Debug for UdpPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UdpPort").field("local", &self.local).finish_non_exhaustive()
    }
}

fn limits(socket: &Held) -> DatagramLimits {
    let granted = |size: std::io::Result<usize>| size.map_or(0, |bytes| u32::try_from(bytes).unwrap_or(u32::MAX));
    DatagramLimits {
        batch_datagrams: BATCH_DATAGRAMS,
        batch_bytes: BATCH_BYTES,
        batch_pieces: PIECES as u32,
        receive_bytes: RECEIVE_BYTES,
        received: RECEIVED as u32,
        send_buffer_bytes: granted(socket.send_buffer_size()),
        receive_buffer_bytes: granted(socket.recv_buffer_size()),
    }
}
