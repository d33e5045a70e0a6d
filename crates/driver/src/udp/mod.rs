//! A UDP port: one socket, and a second one for the peer that gets most datagrams.

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
use std::sync::Arc;

use weft_base::{
    DatagramBatch, DatagramCounters, DatagramLimits, DatagramOptions, DatagramPort, DatagramSent, Ecn, Hint, Interest,
    LocalAddress, Piece, PortAddress, PortError, ReceivedDatagrams,
};
use weft_memory::Registry;

use crate::epoll::Epoll;
use crate::error::port_error;
use crate::held::Held;
use crate::socket::plain_address;
use connected::{Connected, Path, SocketRole, Streak};
use hints::Hints;
use receiver::{RECEIVED, Receiver};
use sender::PIECES;

/// The maximum number of datagrams per GSO batch (`UDP_MAX_SEGMENTS`, 128 since Linux 6.9).
const BATCH_DATAGRAMS: u32 = 64;
/// The maximum bytes of a GSO batch: an IP packet (65 535) without the headers of IPv6 and UDP.
const BATCH_BYTES: u32 = 65_535 - 48;
/// The maximum bytes of a GRO batch.
const RECEIVE_BYTES: u32 = 65_536;

/// A UDP port. One on `[::]` carries IPv4 as well; such addresses are given, and shown, as IPv4.
pub struct UdpPort {
    socket: PortSocket,
    connected: Option<Box<Connected>>,
    streak: Streak,
    registry: Registry,
    local: SocketAddr,
    options: DatagramOptions,
    /// Whether the kernel accepts GSO batches. It may refuse them later when the interface cannot compute checksums.
    takes_many: bool,
    /// How both are armed, since the last change.
    watched: Option<(Arc<Epoll>, u64, Interest)>,
    limits: DatagramLimits,
    hints: Hints,
    counters: DatagramCounters,
}

/// A socket and its state.
struct PortSocket {
    held: Held,
    /// The only local address that it can receive at.
    only: Option<LocalAddress>,
    receiver: Receiver,
    usual_ecn: UsualEcn,
    /// Whether the last send found no room.
    is_full: bool,
}

impl PortSocket {
    fn new(held: Held, only: Option<LocalAddress>, peer: Option<SocketAddr>) -> Self {
        Self { held, only, receiver: Receiver::new(peer), usual_ecn: UsualEcn::default(), is_full: false }
    }

    /// Arms it once. For room only where there was none; `is_first`: or the other socket has none either.
    fn watch(&self, (epoll, key, interest): &(Arc<Epoll>, u64, Interest), is_first: bool) -> Result<(), PortError> {
        let writable = interest.writable && (is_first || self.is_full);
        epoll.watch_once(self.as_fd(), *key, Interest { writable, ..*interest })
    }
}

impl AsFd for PortSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.held.as_fd()
    }
}

/// The socket's default ECN mark. To set the mark of a datagram costs a quarter of a microsecond, so the default
/// follows the most frequent one.
#[derive(Default)]
struct UsualEcn {
    ecn: Ecn,
    /// Sends with this other mark, minus those with the default.
    other: (Ecn, u8),
}

/// After this many more sends with another mark that becomes the default.
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
        // Unspecified addresses stay unspecified, in their family.
        let local = address.as_socket().ok_or(PortError::System(libc::EAFNOSUPPORT))?;
        let local = if local.ip().is_unspecified() { Some(local) } else { plain_address(&address) }.unwrap_or(local);
        let limits = limits(&socket);
        let ip = local.ip();
        let only = (!ip.is_unspecified()).then_some(LocalAddress { ip, interface: 0 });
        Ok(Self {
            socket: PortSocket::new(socket, only, None),
            connected: None,
            streak: Streak::new(),
            registry,
            local,
            options: *options,
            takes_many: made.takes_many,
            watched: None,
            limits,
            hints: Hints::new(),
            counters: DatagramCounters::default(),
        })
    }

    /// Arms both sockets under `key`, once. Whichever is reported, both are polled next.
    pub(crate) fn watch(&mut self, epoll: &Arc<Epoll>, key: u64, interest: Interest) -> Result<(), PortError> {
        let watched = self.watched.insert((Arc::clone(epoll), key, interest));
        let Some(connected) = &mut self.connected else { return self.socket.watch(watched, true) };
        if interest != Interest::NOTHING {
            connected.poll_both();
        }
        connected.socket.watch(watched, false)?;
        self.socket.watch(watched, !connected.socket.is_full)
    }

    /// The socket that sends a datagram. Makes the second one when the first has sent enough on one path.
    fn role_for(&mut self, to: SocketAddr, from: Option<LocalAddress>) -> SocketRole {
        if let Some(connected) = &mut self.connected {
            return connected.role_of(to, from, self.local.ip());
        }
        let path = Path::of(to, from, self.local.ip());
        let Some(path) = path.filter(|path| self.streak.count(*path)) else { return SocketRole::Any };
        let Some(connected) = Connected::new(&self.socket.held, path, &self.options) else { return SocketRole::Any };
        // A thread may sleep until the port receives something: from now on it may be received here.
        if self.watched.as_ref().is_some_and(|watched| connected.socket.watch(watched, false).is_err()) {
            return SocketRole::Any;
        }
        self.connected = Some(Box::new(connected));
        SocketRole::Connected
    }
}

impl DatagramPort for UdpPort {
    fn send(&mut self, batch: &DatagramBatch, pieces: &[Piece<'_>]) -> Result<DatagramSent, PortError> {
        let to = batch.to.ip().ok_or(PortError::Unreachable)?;
        let role = self.role_for(to, batch.from);
        let sent = self.send_by(role, batch, to, pieces);
        match (sent, &mut self.connected) {
            (sent @ Err(PortError::Memory(_)), _) => sent,
            // The address may have been removed from this host, or its interface. The unconnected socket reports the
            // cause.
            (Err(_), Some(connected)) if role == SocketRole::Connected => {
                connected.is_left = true;
                self.send_by(SocketRole::Any, batch, to, pieces)
            }
            (sent, _) => sent,
        }
    }

    fn receive(&mut self, buffer: &mut [u8], received: &mut Vec<ReceivedDatagrams>) -> Result<usize, PortError> {
        let Some(connected) = &mut self.connected else { return self.receive_by(SocketRole::Any, buffer, received) };
        let (first, both) = connected.next_poll();
        let count = self.poll_one(first, buffer, received)?;
        if count > 0 || !both {
            return Ok(count);
        }
        self.poll_one(if first == SocketRole::Any { SocketRole::Connected } else { SocketRole::Any }, buffer, received)
    }

    fn poll_hint(&mut self) -> Option<Hint> {
        if self.hints.is_empty() {
            return None;
        }
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
