//! Listening for shared memory next to a TCP socket, and connecting to it.

use core::sync::atomic::{AtomicU16, Ordering};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

use socket2::{Domain, SockAddr, Socket, Type};
use weft_base::{Backlog, PortError};
use weft_memory::Registry;

use super::ShmPort;
use super::name::{candidates, loopback, name_of};
use crate::error::{port_error, would_block};
use crate::held::Held;
use crate::passing::is_own_user;

/// The maximum number of foreign clients that are refused in one call.
const MOST_STRANGERS: usize = 64;
/// The first port number that no service has (RFC 6335 section 6).
const FIRST_EPHEMERAL: u16 = 49_152;

fn make() -> Result<Held, PortError> {
    let kind = Type::SEQPACKET.nonblocking().cloexec();
    Held::make(|| Socket::new_raw(Domain::UNIX, kind, None)).map_err(|error| port_error(&error))
}

fn address(of: SocketAddr) -> Result<SockAddr, PortError> {
    SockAddr::unix(name_of(of)).map_err(|error| port_error(&error))
}

/// Connects to the listener at `remote` on this host, of the same user. Where there is none, or another user's, the
/// port reports [`PortError::NotShared`].
///
/// # Errors
/// The operating system refused.
pub(crate) fn connect(
    remote: SocketAddr,
    local: Option<SocketAddr>,
    registry: &Registry,
) -> Result<ShmPort, PortError> {
    for candidate in candidates(remote) {
        let socket = make()?;
        match socket.connect(&address(candidate)?) {
            // Another user may have taken the name: it is sent nothing.
            Ok(()) if is_own_user(&socket) => {
                let local = local.filter(|local| !local.ip().is_unspecified());
                let own = if remote.ip().is_unspecified() { loopback(remote.ip()) } else { remote.ip() };
                let local = SocketAddr::new(local.map_or(own, |local| local.ip()), ephemeral());
                match ShmPort::connecting(socket, registry.clone(), local, remote) {
                    // The listener has closed meanwhile.
                    Err(PortError::Reset) => {}
                    port => return port,
                }
            }
            Ok(()) => {}
            // A full queue is reported so (unix(7)).
            Err(error) if error.raw_os_error().is_some_and(would_block) => return Err(PortError::Exhausted),
            Err(error) if port_error(&error) == PortError::Refused => {}
            Err(error) => return Err(port_error(&error)),
        }
    }
    Ok(ShmPort::refused(registry.clone(), remote))
}

/// A number for people: it distinguishes connections of one process.
fn ephemeral() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    FIRST_EPHEMERAL + NEXT.fetch_add(1, Ordering::Relaxed) % (u16::MAX - FIRST_EPHEMERAL)
}

/// Listens for processes of this user, on this host.
#[derive(Debug)]
pub(crate) struct ShmListener {
    socket: Held,
    registry: Registry,
    local: SocketAddr,
}

impl ShmListener {
    /// Next to the TCP listener at `local`, once its port number is known.
    ///
    /// # Errors
    /// [`PortError::AddressInUse`]: another process has the name. Or the operating system refused.
    pub(crate) fn new(local: SocketAddr, backlog: Backlog, registry: Registry) -> Result<Self, PortError> {
        let socket = make()?;
        let failed = |error: std::io::Error| port_error(&error);
        socket.bind(&address(local)?).map_err(failed)?;
        socket.listen(i32::try_from(backlog.0).unwrap_or(i32::MAX).max(1)).map_err(failed)?;
        Ok(Self { socket, registry, local })
    }

    /// The next waiting connection.
    pub(crate) fn accept(&self) -> Result<Option<ShmPort>, PortError> {
        for _ in 0..MOST_STRANGERS {
            match Held::make_with(|| self.socket.accept4(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC)) {
                Ok((socket, _)) if is_own_user(&socket) => {
                    return Ok(Some(ShmPort::accepted(socket, self.registry.clone(), self.local)));
                }
                // Another user's process. It is sent nothing.
                Ok(_) => {}
                Err(error) => match error.raw_os_error() {
                    Some(number) if would_block(number) => return Ok(None),
                    Some(libc::EINTR | libc::ECONNABORTED) => {}
                    _ => return Err(port_error(&error)),
                },
            }
        }
        Ok(None)
    }
}

impl AsFd for ShmListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
