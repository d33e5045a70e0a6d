//! A listening TCP socket.

use core::time::Duration;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

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

impl TcpListener {
    pub(crate) fn new(socket: Held, registry: Registry, peer_timeout: Option<Duration>) -> Result<Self, PortError> {
        let address = socket.local_addr().map_err(|error| port_error(&error))?;
        let local = address.as_socket().ok_or(PortError::System(libc::EAFNOSUPPORT))?;
        Ok(Self { socket, registry, local, peer_timeout })
    }
}

impl Listener for TcpListener {
    type Port = TcpPort;

    fn accept(&mut self) -> Result<Option<TcpPort>, PortError> {
        loop {
            match Held::make_with(|| self.socket.accept4(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC)) {
                Ok((socket, remote)) => {
                    let remote = plain_address(&remote).ok_or(PortError::System(libc::EAFNOSUPPORT))?;
                    return Ok(Some(TcpPort::accepted(socket, self.registry.clone(), remote, self.peer_timeout)));
                }
                Err(error) => match error.raw_os_error() {
                    Some(number) if would_block(number) => return Ok(None),
                    // One that went away again while it waited, or whose network did (accept(2)): on to the next.
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

    fn local_address(&self) -> SocketAddr {
        self.local
    }
}

impl AsFd for TcpListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
