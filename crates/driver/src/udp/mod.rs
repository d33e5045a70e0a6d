//! One UDP socket.

mod address;
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
    DatagramBatch, DatagramCounters, DatagramLimits, DatagramOptions, DatagramPort, DatagramSent, Ecn, Hint, Piece,
    PortAddress, PortError, ReceivedDatagrams,
};
use weft_memory::Registry;

use crate::error::port_error;
use crate::held::Held;
use crate::socket::plain_address;
use hints::Hints;
use receiver::{RECEIVED, Receiver};
use sender::{Head, PIECES};

/// Datagrams that the kernel takes as one (`UDP_MAX_SEGMENTS`, 128 since Linux 6.9).
const BATCH_DATAGRAMS: u32 = 64;
/// Bytes that it takes as one: an IP packet (65 535) without the headers of IPv6 and UDP.
const BATCH_BYTES: u32 = 65_535 - 48;
/// What it brings as one has no more bytes than this.
const RECEIVE_BYTES: u32 = 65_536;

/// One UDP socket. One on `[::]` carries IPv4 as well; such addresses are given, and shown, as IPv4.
pub struct UdpPort {
    socket: Held,
    registry: Registry,
    local: SocketAddr,
    /// Whether the kernel takes many datagrams as one. It may say so and refuse when the interface can't compute
    /// checksums.
    takes_many: bool,
    limits: DatagramLimits,
    hints: Hints,
    counters: DatagramCounters,
    receiver: Receiver,
    usual_ecn: UsualEcn,
}

/// The mark that the socket gives to datagrams of which nothing else is said. To say it with each costs a quarter of a
/// microsecond, so it follows what is sent mostly.
#[derive(Default)]
struct UsualEcn {
    ecn: Ecn,
    /// Sends in a row with this other mark.
    other: (Ecn, u8),
}

/// After so many sends in a row with another mark that becomes the usual one.
const SENDS_TO_LEARN: u8 = 8;

impl UsualEcn {
    fn learn(&mut self, ecn: Ecn, socket: BorrowedFd<'_>, is_ipv6: bool) {
        if ecn == self.ecn {
            self.other.1 = 0;
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
        Ok(Self {
            socket,
            registry,
            local,
            takes_many: made.takes_many,
            limits,
            hints: Hints::new(),
            counters: DatagramCounters::default(),
            receiver: Receiver::new(),
            usual_ecn: UsualEcn::default(),
        })
    }

    /// The descriptor, to ask the kernel things that this type does not.
    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn is_ipv6(&self) -> bool {
        self.local.is_ipv6()
    }
}

impl DatagramPort for UdpPort {
    fn send(&mut self, batch: &DatagramBatch, pieces: &[Piece<'_>]) -> Result<DatagramSent, PortError> {
        let to = batch.to.ip().ok_or(PortError::Unreachable)?;
        self.usual_ecn.learn(batch.ecn, self.socket.as_fd(), self.local.is_ipv6());
        let head = Head::new(batch, to, self.is_ipv6(), self.usual_ecn.ecn);
        self.send_pieces(batch, head, pieces)
    }

    fn receive(&mut self, buffer: &mut [u8], received: &mut Vec<ReceivedDatagrams>) -> Result<usize, PortError> {
        self.receive_into(buffer, received)
    }

    fn poll_hint(&mut self) -> Option<Hint> {
        self.hints.poll(self.socket.as_fd())
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
