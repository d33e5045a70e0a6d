//! Receiving: several runs of datagrams with one system call (recvmmsg(2)), each a run of one sender's that the kernel
//! has merged (udp(7), UDP_GRO).

use core::mem;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use weft_base::{DatagramCounters, PortError, ReceivedDatagrams};

use super::address::Name;
use super::connected::SocketRole;
use super::control::{Arrival, Control};
use super::hints::is_of_icmp;
use super::{PortSocket, RECEIVE_BYTES, UdpPort};
use crate::error::{from_number, would_block};
use crate::vectors::uninterrupted;

/// The maximum number of runs per call.
pub(crate) const RECEIVED: usize = 16;
/// How often a call is retried that failed because of ICMP. Further errors are left for the next call.
const TRIES: u32 = 8;

/// Buffers for the metadata of each run.
pub(crate) struct Receiver {
    places: Box<[(Name, Control); RECEIVED]>,
    /// The metadata of the last runs.
    filled: Box<[Filled; RECEIVED]>,
    /// The socket's last count of dropped datagrams.
    overflowed: u32,
    /// Runs to request: as many as were received lately. A call for one costs less.
    wanted: usize,
    /// One run was received, and nothing was sent since: if the next call receives one too, more than one is requested.
    /// A side that answers each before the next arrives requests one only.
    one_came: bool,
    /// Whether the last poll was empty.
    is_dry: bool,
    /// The peer that a socket is connected to.
    peer: Option<SocketAddr>,
    /// Whether everything received before the socket was connected has been read: the rest is from the peer, and the
    /// source is not requested. (Datagrams that the kernel had queued for the socket when it was connected may still
    /// follow. The datagram itself names its destination; a call that is answered at a wrong address is like a lost
    /// one.)
    is_from_peer: bool,
}

/// The kernel's metadata of one run.
#[derive(Clone, Copy)]
struct Filled {
    bytes: usize,
    control: usize,
    is_cut: bool,
}

impl Receiver {
    pub(crate) fn new(peer: Option<SocketAddr>) -> Self {
        let places = Box::new([(Name::EMPTY, Control::EMPTY); RECEIVED]);
        let filled = Box::new([Filled { bytes: 0, control: 0, is_cut: false }; RECEIVED]);
        Self { places, filled, overflowed: 0, wanted: 1, one_came: false, is_dry: false, peer, is_from_peer: false }
    }

    /// Something was sent.
    pub(super) fn sends(&mut self) {
        self.one_came = false;
    }

    /// recvmsg(2) into the buffer.
    fn call_for_one(&mut self, fd: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<Filled, i32> {
        let mut vector = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        let place = &mut self.places[0];
        // SAFETY: All zero is a valid, empty message header.
        let mut header: libc::msghdr = unsafe { mem::zeroed() };
        if !self.is_from_peer {
            (header.msg_name, header.msg_namelen) = (place.0.pointer(), Name::room());
        }
        header.msg_iov = &raw mut vector;
        header.msg_iovlen = 1;
        header.msg_control = place.1.pointer();
        header.msg_controllen = Control::room() as _;
        let (pointer, fd) = (&raw mut header, fd.as_raw_fd());
        // SAFETY: The header refers to a place and a buffer that are borrowed exclusively, with their lengths.
        let bytes = uninterrupted(|| unsafe { libc::syscall(libc::SYS_recvmsg, fd, pointer, libc::MSG_DONTWAIT) })?;
        let is_cut = header.msg_flags & libc::MSG_TRUNC != 0;
        Ok(Filled { bytes, control: header.msg_controllen as _, is_cut })
    }

    /// Receives as many runs as lately, into parts of the buffer. Returns how many were filled.
    pub(super) fn fill(
        &mut self,
        fd: BorrowedFd<'_>,
        buffer: &mut [u8],
        (part, parts): (usize, usize),
    ) -> Result<usize, i32> {
        let wanted = self.wanted.min(parts);
        let count = if wanted == 1 {
            self.call_for_one(fd, &mut buffer[..part]).map(|one| {
                self.filled[0] = one;
                1
            })
        } else {
            self.call(fd, buffer, (part, wanted))
        };
        let one_came = core::mem::replace(&mut self.one_came, count == Ok(1));
        self.wanted = match count {
            Ok(1) if wanted == 1 && !one_came => 1,
            Ok(count) if count == wanted => (2 * wanted).min(RECEIVED),
            Ok(count) => count.max(1),
            Err(_) => 1,
        };
        self.is_dry = count.is_err_and(would_block);
        self.is_from_peer |= self.is_dry && self.peer.is_some();
        count
    }

    /// recvmmsg(2) into parts of `part` bytes of the buffer, of which there are at least `parts`. Returns how many were
    /// filled.
    #[inline(never)]
    fn call(&mut self, fd: BorrowedFd<'_>, buffer: &mut [u8], (part, parts): (usize, usize)) -> Result<usize, i32> {
        // SAFETY: All zero is a valid, empty message header, or vector.
        let mut messages: [libc::mmsghdr; RECEIVED] = unsafe { mem::zeroed() };
        // SAFETY: As above.
        let mut vectors: [libc::iovec; RECEIVED] = unsafe { mem::zeroed() };
        let places = self.places.iter_mut().zip(buffer.chunks_mut(part));
        for (((message, vector), (place, bytes)), _) in messages.iter_mut().zip(&mut vectors).zip(places).zip(0..parts)
        {
            *vector = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
            let header = &mut message.msg_hdr;
            if !self.is_from_peer {
                (header.msg_name, header.msg_namelen) = (place.0.pointer(), Name::room());
            }
            header.msg_iov = vector;
            header.msg_iovlen = 1;
            header.msg_control = place.1.pointer();
            header.msg_controllen = Control::room() as _;
        }
        let (pointer, fd) = (messages.as_mut_ptr(), fd.as_raw_fd());
        let (flags, no_timeout) = (libc::MSG_DONTWAIT, core::ptr::null_mut::<libc::timespec>());
        // SAFETY: The first `parts` headers refer to places and parts of the buffer that are borrowed exclusively, with
        // their lengths.
        let count =
            uninterrupted(|| unsafe { libc::syscall(libc::SYS_recvmmsg, fd, pointer, parts, flags, no_timeout) })?;
        for (filled, message) in self.filled.iter_mut().zip(&messages[..count]) {
            *filled = Filled {
                bytes: message.msg_len as usize,
                control: message.msg_hdr.msg_controllen as _,
                is_cut: message.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
            };
        }
        Ok(count)
    }
}

impl UdpPort {
    /// Polls one of two sockets.
    pub(super) fn poll_one(
        &mut self,
        role: SocketRole,
        buffer: &mut [u8],
        received: &mut Vec<ReceivedDatagrams>,
    ) -> Result<usize, PortError> {
        let count = self.receive_by(role, buffer, received);
        if let Some(connected) = &mut self.connected {
            connected.note(role, count != Ok(0));
            // Datagrams that arrive before it is closed are lost, as in the network.
            if role == SocketRole::Connected && connected.is_left && connected.socket.receiver.is_dry {
                self.connected = None;
            }
        }
        count
    }

    pub(super) fn receive_by(
        &mut self,
        role: SocketRole,
        buffer: &mut [u8],
        received: &mut Vec<ReceivedDatagrams>,
    ) -> Result<usize, PortError> {
        let part = buffer.len().min(RECEIVE_BYTES as usize);
        let parts = buffer.len().checked_div(part).unwrap_or(0).min(RECEIVED);
        if parts == 0 {
            return Ok(0);
        }
        let Self { socket, connected, hints, counters, .. } = self;
        let socket = match connected {
            Some(connected) if role == SocketRole::Connected => &mut connected.socket,
            _ => socket,
        };
        for _ in 0..TRIES {
            match socket.receiver.fill(socket.held.as_fd(), buffer, (part, parts)) {
                Ok(count) => {
                    let before = received.len();
                    for index in 0..count {
                        received.extend(socket.read(counters, index, index * part));
                    }
                    return Ok(received.len() - before);
                }
                Err(number) if would_block(number) => return Ok(0),
                // Entries of the error queue take room from received datagrams.
                Err(number) if is_of_icmp(number) => {
                    hints.drain(socket.as_fd());
                }
                Err(number) => return Err(from_number(number)),
            }
        }
        Ok(0)
    }
}

impl PortSocket {
    pub(super) fn read(
        &mut self,
        counters: &mut DatagramCounters,
        index: usize,
        start: usize,
    ) -> Option<ReceivedDatagrams> {
        let filled = self.receiver.filled[index];
        let (name, control) = &self.receiver.places[index];
        let arrival = Arrival::read(control.messages(filled.control));
        if let Some(count) = arrival.overflowed {
            // The kernel's counter has 32 bits and wraps.
            counters.overflowed += u64::from(count.wrapping_sub(self.receiver.overflowed));
            self.receiver.overflowed = count;
        }
        if filled.is_cut {
            counters.cut += 1;
            return None;
        }
        Some(ReceivedDatagrams {
            range: start..start + filled.bytes,
            segment_size: arrival.segment_size.unwrap_or(filled.bytes as u32).max(1),
            from: if self.receiver.is_from_peer { self.receiver.peer } else { name.address() }?.into(),
            to: arrival.to.or(self.only),
            ecn: arrival.ecn,
        })
    }
}
