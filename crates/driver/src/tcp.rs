//! TCP streams and listeners.

use core::cell::Cell;
use core::mem::MaybeUninit;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsRawFd, RawFd};

use socket2::Socket;
use weft_base::{Listener, MAX_GATHER, Piece, Port, PortError, PortOptions, ReceivePiece, Received};
use weft_memory::{MemoryError, RawSlice, Registry};

use crate::errno::{moved, port_error};
use crate::socket;

/// Entries of one system call's list; what does not fit goes with the next call.
const ENTRIES: usize = 64;
/// The payload of a packet when the path is not known yet: that of IPv6's least MTU.
const LEAST_SEGMENT: u32 = 1220;

/// A TCP stream.
pub struct TcpPort {
    socket: Socket,
    remote: SocketAddr,
    registry: Registry,
    connected: bool,
    watched: Cell<bool>,
    send_closed: bool,
}

impl TcpPort {
    pub(crate) fn connecting(socket: Socket, remote: SocketAddr, registry: Registry) -> Self {
        Self { socket, remote, registry, connected: false, watched: Cell::new(false), send_closed: false }
    }

    /// Notes that epoll knows this socket. Returns whether it did before.
    pub(crate) fn mark_watched(&self) -> bool {
        self.watched.replace(true)
    }

    fn send_one(&self, bytes: *const u8, length: usize) -> Result<usize, PortError> {
        // SAFETY: `bytes` to `length` is readable: a borrowed slice, or memory that a RawSlice of the caller keeps alive. See send(2).
        let sent = unsafe {
            libc::send(self.as_raw_fd(), bytes.cast(), length, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT)
        };
        moved(sent).map(Option::unwrap_or_default)
    }

    fn receive_one(&self, room: *mut u8, length: usize) -> Result<Received, PortError> {
        // SAFETY: `room` to `length` is writable: a borrowed slice, or memory that a RawSlice of the caller keeps alive. See recv(2).
        let received = unsafe { libc::recv(self.as_raw_fd(), room.cast(), length, libc::MSG_DONTWAIT) };
        moved(received).map(what_came)
    }
}

impl AsRawFd for TcpPort {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

impl Port for TcpPort {
    fn send(&mut self, pieces: &[Piece<'_>]) -> Result<usize, PortError> {
        if let [Piece::Bytes(bytes)] = pieces {
            return self.send_one(bytes.as_ptr(), bytes.len());
        }
        let mut list = List::new();
        for piece in pieces.iter().take(ENTRIES) {
            match piece {
                Piece::Bytes(bytes) => list.add(bytes.as_ptr().cast_mut(), bytes.len()),
                Piece::Memory(slice) => list.add_memory(self.registry.resolve(slice).map_err(gone(slice.region))?),
            }
        }
        let header = list.header();
        // SAFETY: The header and its entries live across the call; the entries describe borrowed slices and memory that the list keeps
        // alive, and the kernel only reads them. See sendmsg(2).
        let sent = unsafe {
            libc::sendmsg(self.as_raw_fd(), &raw const header, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT)
        };
        moved(sent).map(Option::unwrap_or_default)
    }

    fn receive(&mut self, pieces: &mut [ReceivePiece<'_>]) -> Result<Received, PortError> {
        if let [ReceivePiece::Staging(staging)] = pieces {
            return self.receive_one(staging.as_mut_ptr(), staging.len());
        }
        let mut list = List::new();
        for piece in pieces.iter_mut().take(ENTRIES) {
            match piece {
                ReceivePiece::Staging(staging) => list.add(staging.as_mut_ptr(), staging.len()),
                ReceivePiece::Memory(slice) => {
                    list.add_memory(self.registry.resolve(slice).map_err(gone(slice.region))?);
                }
            }
        }
        let mut header = list.header();
        // SAFETY: The header and its entries live across the call; the entries describe mutably borrowed slices and memory that the list
        // keeps alive and that no Rust reference points into. See recvmsg(2).
        let received = unsafe { libc::recvmsg(self.as_raw_fd(), &raw mut header, libc::MSG_DONTWAIT) };
        moved(received).map(what_came)
    }

    fn poll_connected(&mut self) -> Result<bool, PortError> {
        if self.connected {
            return Ok(true);
        }
        if let Some(error) = self.socket.take_error().map_err(|error| port_error(&error))? {
            return Err(port_error(&error));
        }
        self.connected = self.socket.peer_addr().is_ok();
        Ok(self.connected)
    }

    fn segment_size(&self) -> u32 {
        self.socket.tcp_mss().map_or(LEAST_SEGMENT, |bytes| bytes.max(LEAST_SEGMENT / 2))
    }

    fn local_address(&self) -> Result<SocketAddr, PortError> {
        let address = self.socket.local_addr().map_err(|error| port_error(&error))?;
        Ok(address.as_socket().unwrap_or_else(unspecified))
    }

    fn remote_address(&self) -> SocketAddr {
        self.remote
    }

    fn close_send(&mut self) {
        if !self.send_closed {
            self.send_closed = true;
            // When it fails, the stream is broken already, and the next call says so.
            let _ = self.socket.shutdown(std::net::Shutdown::Write);
        }
    }

    fn abort(&mut self) {
        // With a linger time of zero, closing sends a reset (socket(7)). Disconnecting by AF_UNSPEC does so at once, with the descriptor still
        // open (connect(2)).
        let _ = self.socket.set_linger(Some(core::time::Duration::ZERO));
        let nowhere = libc::sockaddr { sa_family: libc::AF_UNSPEC as u16, sa_data: [0; 14] };
        // SAFETY: `nowhere` lives across the call and is as long as stated.
        unsafe {
            libc::connect(self.as_raw_fd(), &raw const nowhere, size_of::<libc::sockaddr>() as libc::socklen_t);
        }
    }
}

/// Accepts TCP streams.
pub struct TcpListener {
    socket: Socket,
    options: PortOptions,
    registry: Registry,
    local: SocketAddr,
    watched: Cell<bool>,
}

impl TcpListener {
    pub(crate) fn new(socket: Socket, options: PortOptions, registry: Registry) -> Result<Self, PortError> {
        let local = socket.local_addr().map_err(|error| port_error(&error))?;
        let local = local.as_socket().unwrap_or_else(unspecified);
        Ok(Self { socket, options, registry, local, watched: Cell::new(false) })
    }

    /// Notes that epoll knows this socket. Returns whether it did before.
    pub(crate) fn mark_watched(&self) -> bool {
        self.watched.replace(true)
    }
}

impl AsRawFd for TcpListener {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

impl Listener for TcpListener {
    type Port = TcpPort;

    fn accept(&mut self) -> Result<Option<TcpPort>, PortError> {
        // accept4 with SOCK_CLOEXEC | SOCK_NONBLOCK would save a call; socket2 sets close-on-exec and we the rest.
        let (socket, remote) = match self.socket.accept() {
            Ok(accepted) => accepted,
            Err(error) if is_transient(&error) => return Ok(None),
            Err(error) => return Err(port_error(&error)),
        };
        let prepare = || {
            socket.set_nonblocking(true)?;
            socket::configure(&socket, &self.options)
        };
        prepare().map_err(|error| port_error(&error))?;
        let remote = remote.as_socket().unwrap_or_else(unspecified);
        let mut port = TcpPort::connecting(socket, remote, self.registry.clone());
        port.connected = true;
        Ok(Some(port))
    }

    fn local_address(&self) -> SocketAddr {
        self.local
    }
}

/// Nobody waits, or whoever waited has gone: accept(2) lists the latter as errors that belong to the new connection.
fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
        || matches!(
            error.raw_os_error(),
            Some(libc::ECONNABORTED | libc::EPROTO | libc::ENETDOWN | libc::EHOSTUNREACH | libc::ENETUNREACH)
        )
}

fn unspecified() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0))
}

fn gone(region: weft_base::RegionId) -> impl Fn(MemoryError) -> PortError {
    move |_| PortError::Memory(region)
}

/// What the count of a receive call says; nothing at all means that it would have had to wait.
fn what_came(count: Option<usize>) -> Received {
    match count {
        None => Received::Nothing,
        Some(0) => Received::End,
        Some(count) => Received::Bytes(count),
    }
}

/// The scatter or gather list of one system call, on the stack, and the holds on registered memory that it names.
struct List {
    entries: [MaybeUninit<libc::iovec>; ENTRIES],
    count: usize,
    holds: Holds,
}

/// Released when the list goes, after the call.
type Holds = arrayvec::ArrayVec<RawSlice, ENTRIES>;

// A frame being received scatters to at most that many slices and staging.
const _: () = assert!(MAX_GATHER < ENTRIES);

impl List {
    fn new() -> Self {
        Self { entries: [const { MaybeUninit::uninit() }; ENTRIES], count: 0, holds: Holds::new() }
    }

    fn add(&mut self, base: *mut u8, length: usize) {
        self.entries[self.count].write(libc::iovec { iov_base: base.cast(), iov_len: length });
        self.count += 1;
    }

    fn add_memory(&mut self, memory: RawSlice) {
        self.add(memory.pointer().as_ptr(), memory.length());
        self.holds.push(memory);
    }

    fn header(&mut self) -> libc::msghdr {
        // SAFETY: All of msghdr's fields may be zero: no address, no control data, no flags.
        let mut header: libc::msghdr = unsafe { core::mem::zeroed() };
        header.msg_iov = self.entries.as_mut_ptr().cast();
        header.msg_iovlen = self.count;
        header
    }
}
