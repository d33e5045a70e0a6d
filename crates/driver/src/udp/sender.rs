//! Sending: GSO batches where the kernel accepts them (udp(7), UDP_SEGMENT), single datagrams where it does not.

use core::mem;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use weft_base::{DatagramBatch, DatagramSent, Ecn, Piece, PortError};

use super::address::Name;
use super::connected::SocketRole;
use super::control::{Control, Writer};
use super::hints::{is_of_icmp, is_of_icmp_alone};
use super::{BATCH_BYTES, BATCH_DATAGRAMS, PortSocket, UdpPort, socket};
use crate::error::{from_number, would_block};
use crate::vectors::{Vectors, send_bytes, send_message};

/// Pieces of one system call: a header and up to three runs of payload for each datagram of a full batch. The kernel's
/// limit is 1024.
pub(crate) const PIECES: usize = 256;
/// How often a call is retried that failed because of ICMP about an earlier one. Each try clears one such error.
const TRIES: u32 = 8;

/// The metadata of a batch's datagrams.
pub(crate) struct Head {
    /// `None` for a connected socket.
    name: Option<Name>,
    control: Control,
    length: usize,
    /// The requested source address. The kernel may refuse it.
    source: Option<IpAddr>,
}

impl Head {
    /// `usual`: the socket's default ECN mark.
    fn new(batch: &DatagramBatch, to: SocketAddr, is_ipv6_socket: bool, role: SocketRole, usual: Ecn) -> Self {
        let is_any = role == SocketRole::Any;
        let from = batch.from.filter(|_| is_any);
        let mut control = Control::EMPTY;
        let mut writer = Writer::new(&mut control);
        if batch.ecn != usual {
            writer.ecn(batch.ecn, to.is_ipv6() && to.ip().to_canonical().is_ipv6());
        }
        if let Some(from) = from {
            writer.from(from, is_ipv6_socket);
        }
        let length = writer.length();
        let name = is_any.then(|| Name::new(to, is_ipv6_socket));
        Self { name, control, length, source: from.map(|from| from.ip) }
    }

    /// The header of a message of these bytes, which is one datagram or is cut into many. Valid as long as none of them
    /// is moved.
    fn message(&mut self, list: &mut [libc::iovec], cut_into: Option<u16>) -> libc::msghdr {
        let mut length = self.length;
        if let Some(bytes) = cut_into {
            let mut writer = Writer::after(&mut self.control, self.length);
            writer.segment_size(bytes);
            length = writer.length();
        }
        // SAFETY: All zero is a message header with no name, no vectors and no control data.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        if let Some(name) = &mut self.name {
            message.msg_name = name.pointer();
            message.msg_namelen = name.length();
        }
        message.msg_iov = list.as_mut_ptr();
        message.msg_iovlen = list.len() as _;
        if length > 0 {
            message.msg_control = self.control.pointer();
            message.msg_controllen = length as _;
        }
        message
    }
}

/// The outcome of one system call.
enum Outcome {
    Sent,
    /// The interface's queue was full, and some datagrams are lost.
    Dropped,
    NoRoom,
    TooLarge(Option<u32>),
    Failed(i32),
}

impl UdpPort {
    /// One of the two sockets, the only one if there is no other.
    fn socket_of(&mut self, role: SocketRole) -> &mut PortSocket {
        match &mut self.connected {
            Some(connected) if role == SocketRole::Connected => &mut connected.socket,
            _ => &mut self.socket,
        }
    }

    pub(super) fn send_by(
        &mut self,
        role: SocketRole,
        batch: &DatagramBatch,
        to: SocketAddr,
        pieces: &[Piece<'_>],
    ) -> Result<DatagramSent, PortError> {
        let is_ipv6 = self.local.is_ipv6();
        let socket = self.socket_of(role);
        socket.receiver.sends();
        socket.usual_ecn.learn(batch.ecn, socket.held.as_fd(), is_ipv6);
        let usual = socket.usual_ecn.ecn;
        let segment = batch.segment_size.max(1) as usize;
        if let [Piece::Bytes(bytes)] = pieces
            && bytes.len() <= segment
        {
            return if role == SocketRole::Connected && batch.ecn == usual {
                let outcome = self.attempt(role, |socket| send_bytes(socket, bytes));
                self.one_sent(outcome, None)
            } else {
                self.send_one(role, &mut Head::new(batch, to, is_ipv6, role, usual), bytes)
            };
        }
        let mut head = Head::new(batch, to, is_ipv6, role, usual);
        let most = (segment * BATCH_DATAGRAMS as usize).min(BATCH_BYTES as usize).max(segment);
        let mut vectors: Vectors<'_, PIECES> = Vectors::new();
        vectors.gather_segments(&self.registry, pieces, segment, most)?;
        let count = vectors.bytes().div_ceil(segment);
        if count > 1 && self.takes_many {
            let message = head.message(vectors.list(), u16::try_from(segment).ok());
            match self.attempt_message(role, &message) {
                Outcome::Sent => return Ok(DatagramSent::Taken(count as u32)),
                Outcome::Dropped => {
                    self.counters.dropped += count as u64;
                    return Ok(DatagramSent::Taken(count as u32));
                }
                Outcome::NoRoom => return Ok(DatagramSent::Taken(0)),
                // In a batch it is the batch or a datagram that is too large, and the permitted size is not always
                // reported.
                Outcome::TooLarge(_) => return self.send_one_by_one(role, &vectors, head, segment),
                Outcome::Failed(libc::EINVAL | libc::EIO) => {
                    let sent = self.send_one_by_one(role, &vectors, head, segment)?;
                    // A single datagram passes, so the kernel refuses the batch.
                    self.takes_many &= !matches!(sent, DatagramSent::Taken(1..));
                    return Ok(sent);
                }
                Outcome::Failed(number) => return Err(self.failure(number, head.source)),
            }
        }
        self.send_one_by_one(role, &vectors, head, segment)
    }

    /// Sends one datagram that is in one piece.
    fn send_one(&mut self, role: SocketRole, head: &mut Head, bytes: &[u8]) -> Result<DatagramSent, PortError> {
        let mut list = [libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() }];
        let message = head.message(&mut list, None);
        let outcome = self.attempt_message(role, &message);
        self.one_sent(outcome, head.source)
    }

    /// The result of sending one datagram, from this address if one was requested.
    fn one_sent(&mut self, outcome: Outcome, source: Option<IpAddr>) -> Result<DatagramSent, PortError> {
        match outcome {
            Outcome::Sent => Ok(DatagramSent::Taken(1)),
            Outcome::Dropped => {
                self.counters.dropped += 1;
                Ok(DatagramSent::Taken(1))
            }
            Outcome::NoRoom => Ok(DatagramSent::Taken(0)),
            Outcome::TooLarge(bytes) => Ok(DatagramSent::TooLarge(bytes)),
            Outcome::Failed(number) => Err(self.failure(number, source)),
        }
    }

    fn send_one_by_one(
        &mut self,
        role: SocketRole,
        vectors: &Vectors<'_, PIECES>,
        mut head: Head,
        segment: usize,
    ) -> Result<DatagramSent, PortError> {
        let mut taken = 0;
        for start in (0..vectors.bytes()).step_by(segment) {
            let mut list = vectors.part(start, segment);
            let message = head.message(&mut list, None);
            match self.attempt_message(role, &message) {
                Outcome::Sent => {}
                Outcome::Dropped => self.counters.dropped += 1,
                Outcome::NoRoom => break,
                // The next call reports either.
                Outcome::TooLarge(_) | Outcome::Failed(_) if taken > 0 => break,
                Outcome::TooLarge(bytes) => return Ok(DatagramSent::TooLarge(bytes)),
                Outcome::Failed(number) => return Err(self.failure(number, head.source)),
            }
            taken += 1;
        }
        Ok(DatagramSent::Taken(taken))
    }

    /// Sends a message whose header refers to memory that is valid for reads during the call.
    fn attempt_message(&mut self, role: SocketRole, message: &libc::msghdr) -> Outcome {
        // SAFETY: The header refers to a name, control data and vectors that live as long as it is borrowed.
        self.attempt(role, |socket| unsafe { send_message(socket.as_raw_fd(), message) })
    }

    /// Has a system call send. ICMP about earlier datagrams never fails it: any host can send that, as fast as the
    /// kernel is called. In the worst case the message is lost.
    #[inline]
    fn attempt(&mut self, role: SocketRole, call: impl Fn(BorrowedFd<'_>) -> Result<usize, i32>) -> Outcome {
        let (mut number, mut is_explained) = (0, false);
        for _ in 0..TRIES {
            number = match call(self.socket_of(role).held.as_fd()) {
                Ok(_) => {
                    self.socket_of(role).is_full = false;
                    return Outcome::Sent;
                }
                Err(number) if would_block(number) => {
                    self.socket_of(role).is_full = true;
                    return Outcome::NoRoom;
                }
                // Reported only with the error queue enabled (udp(7)).
                Err(libc::ENOBUFS) => return Outcome::Dropped,
                Err(number) => number,
            };
            let Self { hints, socket, connected, .. } = self;
            let socket =
                connected.as_ref().filter(|_| role == SocketRole::Connected).map_or(&*socket, |there| &there.socket);
            let drained = hints.drain(socket.as_fd());
            match drained.link_carries {
                Some(largest) if number == libc::EMSGSIZE => return Outcome::TooLarge(Some(largest)),
                _ if is_of_icmp(number) => is_explained = drained.any_icmp,
                _ => return Outcome::Failed(number),
            }
        }
        match number {
            _ if is_explained || is_of_icmp_alone(number) => Outcome::Dropped,
            libc::EMSGSIZE => Outcome::TooLarge(None),
            number => Outcome::Failed(number),
        }
    }

    fn failure(&self, number: i32, source: Option<IpAddr>) -> PortError {
        // For a source that is not of this host, requested or bound to, some kernels return EINVAL, and some
        // ENETUNREACH.
        let is_doubted = matches!(number, libc::EINVAL | libc::ENETUNREACH);
        if is_doubted && socket::is_foreign(source.unwrap_or(self.local.ip())) {
            return PortError::AddressNotLocal;
        }
        from_number(number)
    }
}
