//! A listening TCP socket.

use core::time::Duration;
use std::fs::File;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

use weft_base::{Listener, PortError};
use weft_memory::Registry;

use crate::TcpPort;
use crate::error::{port_error, would_block};
use crate::held::Held;
use crate::socket::plain_address;

/// A listening TCP socket. One on `[::]` accepts IPv4 as well; the addresses of such connections are given as IPv4.
#[derive(Debug)]
pub struct TcpListener {
    socket: Held,
    registry: Registry,
    local: SocketAddr,
    peer_timeout: Option<Duration>,
}

/// A spare descriptor: closed, it frees one for a caller that is to be refused because there are no others. One is
/// enough for a process: if each listener had its own, others would take it when a caller has been closed.
static SPARE: Mutex<Option<File>> = Mutex::new(None);

/// Opens it again, if there is a descriptor for it.
fn keep_spare() {
    let mut spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
    if spare.is_none() {
        *spare = File::open("/dev/null").ok();
    }
}

/// Closes it. Returns whether it was open.
fn give_up_spare() -> bool {
    SPARE.lock().unwrap_or_else(PoisonError::into_inner).take().is_some()
}

impl TcpListener {
    pub(crate) fn new(socket: Held, registry: Registry, peer_timeout: Option<Duration>) -> Result<Self, PortError> {
        let address = socket.local_addr().map_err(|error| port_error(&error))?;
        let local = address.as_socket().ok_or(PortError::System(libc::EAFNOSUPPORT))?;
        keep_spare();
        Ok(Self { socket, registry, local, peer_timeout })
    }

    /// Accepts a stream, if need be on the spare descriptor, for callers that are to be refused. The spare is opened
    /// again as soon as there is a descriptor.
    pub(crate) fn with_spare<P>(
        &self,
        take: impl Fn(&Self) -> Result<Option<P>, PortError>,
    ) -> Result<Option<P>, PortError> {
        let mut taken = take(self);
        if matches!(taken, Err(PortError::Exhausted)) && give_up_spare() {
            taken = take(self);
            if !matches!(taken, Ok(Some(_))) {
                keep_spare();
            }
        }
        taken
    }

    /// The next waiting stream.
    pub(crate) fn take(&self) -> Result<Option<TcpPort>, PortError> {
        loop {
            match Held::make_with(|| self.socket.accept4(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC)) {
                Ok((socket, remote)) => {
                    let remote = plain_address(&remote).ok_or(PortError::System(libc::EAFNOSUPPORT))?;
                    return Ok(Some(TcpPort::accepted(socket, self.registry.clone(), remote, self.peer_timeout)));
                }
                Err(error) => match error.raw_os_error() {
                    Some(number) if would_block(number) => return Ok(None),
                    // One that was closed while it waited, or whose network failed (accept(2)), is skipped.
                    Some(
                        libc::EINTR
                        | libc::ECONNABORTED
                        | libc::EPROTO
                        | libc::ENETDOWN
                        | libc::ENETUNREACH
                        | libc::EHOSTDOWN
                        | libc::EHOSTUNREACH
                        | libc::ENONET,
                    ) => {}
                    _ => return Err(port_error(&error)),
                },
            }
        }
    }
}

impl Listener for TcpListener {
    type Port = TcpPort;

    fn accept(&mut self) -> Result<Option<TcpPort>, PortError> {
        keep_spare();
        if !has_descriptors() {
            return Err(PortError::Exhausted);
        }
        self.take()
    }

    fn accept_to_refuse(&mut self) -> Result<Option<TcpPort>, PortError> {
        self.with_spare(Self::take)
    }

    fn descriptor_limit(&self) -> Option<u64> {
        descriptor_limit()
    }

    fn local_address(&self) -> SocketAddr {
        self.local
    }
}

/// Descriptors that are reserved for the program, or an eighth of all where that is less.
const RESERVED_DESCRIPTORS: u64 = 64;

/// Whether another stream, over TCP or through shared memory, would leave enough descriptors to the program. The system
/// assigns the lowest free number.
pub(crate) fn has_descriptors() -> bool {
    let Some(most) = descriptor_limit() else { return true };
    let reserved = RESERVED_DESCRIPTORS.min(most / 8);
    // One that a forked child may hold without harm.
    // SAFETY: The call touches no memory.
    let next = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
    if next < 0 {
        return false;
    }
    // SAFETY: The descriptor was made above, and has no other owner.
    drop(unsafe { OwnedFd::from_raw_fd(next) });
    (next as u64) < most - reserved
}

/// The maximum number of open descriptors of this process (getrlimit(2), RLIMIT_NOFILE).
fn descriptor_limit() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: The structure is written during the call alone.
    let result = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    (result == 0).then_some(limit.rlim_cur)
}

impl AsFd for TcpListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
