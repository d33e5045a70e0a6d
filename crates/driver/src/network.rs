//! Makes ports and listeners, and waits for them.

use core::fmt;
use core::time::Duration;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use weft_base::{Backlog, DatagramOptions, Interest, Network, PortError, PortOptions, Readiness, Token, Waker, Watch};
use weft_memory::Registry;

use crate::epoll::{Epoll, Events};
use crate::epoll_watch::EpollWatch;
use crate::waker::EpollWaker;
use crate::{TcpListener, TcpPort, UdpPort, socket};

/// The key of the waker among the tokens, which must be smaller.
const WAKER: u64 = u64::MAX;

/// The interest for a Unix socket that wakes the end of a ring: there may be bytes then, or room. For the kernel it is
/// the same as `EPOLLIN`, and it reports only the requested one.
const EITHER: i32 = libc::EPOLLRDNORM;

/// The kernel's TCP, and its UDP. Its ports resolve slices through one [`Registry`].
///
/// Tokens must be below `u64::MAX`, which means the waker.
pub struct TcpNetwork {
    registry: Registry,
    epoll: Arc<Epoll>,
    waker: Arc<EpollWaker>,
    events: Events,
}

impl TcpNetwork {
    /// A network for the memory of one NIC.
    ///
    /// # Errors
    /// The operating system has no descriptors left.
    pub fn new(registry: Registry) -> Result<Self, PortError> {
        let epoll = Arc::new(Epoll::new()?);
        let waker = Arc::new(EpollWaker::new()?);
        epoll.watch(waker.as_fd(), WAKER, libc::EPOLLIN as u32)?;
        Ok(Self { registry, epoll, waker, events: Events::new() })
    }

    /// A descriptor that is readable when [`Network::wait`] would return at once.
    #[must_use]
    pub fn poll_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// Reports `token` as long as the descriptor is readable, and until it is closed.
    ///
    /// # Errors
    /// It is of a kind that cannot be waited for, or a limit is reached.
    pub fn keep_watching(&self, fd: BorrowedFd<'_>, token: Token) -> Result<(), PortError> {
        self.epoll.watch(fd, token.0, libc::EPOLLIN as u32)
    }

    /// Arms the descriptor: `token` is reported once when it is ready for `interest`, whose minimum is ignored.
    /// Replaces its earlier interest.
    ///
    /// # Errors
    /// It is of a kind that cannot be waited for, or a limit is reached.
    pub fn arm_descriptor(&self, fd: BorrowedFd<'_>, token: Token, interest: Interest) -> Result<(), PortError> {
        self.arm(fd, token, interest)
    }

    /// Arms the descriptor: `token` is reported once when it is readable, as ready for either.
    pub(crate) fn arm_for_either(&self, fd: BorrowedFd<'_>, token: Token) -> Result<(), PortError> {
        self.epoll.watch(fd, token.0, (EITHER | libc::EPOLLONESHOT) as u32)
    }

    pub(crate) fn disarm(&self, fd: BorrowedFd<'_>) -> Result<(), PortError> {
        self.epoll.forget(fd)
    }

    fn arm(&self, fd: BorrowedFd<'_>, token: Token, interest: Interest) -> Result<(), PortError> {
        self.epoll.watch_once(fd, token.0, interest)
    }
}

impl Network for TcpNetwork {
    type Port = TcpPort;
    type Listener = TcpListener;
    type Datagram = UdpPort;
    type Stack = weft_base::IwarpOrEdge;

    fn connect(&mut self, remote: SocketAddr, options: PortOptions) -> Result<TcpPort, PortError> {
        let (socket, broken) = socket::connect(remote, &options)?;
        Ok(TcpPort::connecting(socket, self.registry.clone(), remote, options.peer_timeout, broken))
    }

    fn listen(&mut self, local: SocketAddr, backlog: Backlog, options: PortOptions) -> Result<TcpListener, PortError> {
        TcpListener::new(socket::listen(local, backlog, &options)?, self.registry.clone(), options.peer_timeout)
    }

    fn bind(&mut self, local: SocketAddr, options: DatagramOptions) -> Result<UdpPort, PortError> {
        UdpPort::bind(local, self.registry.clone(), &options)
    }

    fn arm_port(&mut self, port: &mut TcpPort, token: Token, interest: Interest) -> Result<(), PortError> {
        port.set_least(interest.least);
        self.arm(port.descriptor()?, token, interest)
    }

    fn arm_datagram(&mut self, port: &mut UdpPort, token: Token, interest: Interest) -> Result<(), PortError> {
        port.watch(&self.epoll, token.0, interest)
    }

    fn checks_peers(&self) -> bool {
        true
    }

    fn arm_listener(&mut self, listener: &TcpListener, token: Token) -> Result<(), PortError> {
        self.epoll.watch(listener.as_fd(), token.0, (libc::EPOLLIN | libc::EPOLLONESHOT) as u32)
    }

    fn wait(&mut self, timeout: Option<Duration>, ready: &mut Vec<Readiness>) -> Result<(), PortError> {
        self.epoll.wait(timeout, &mut self.events)?;
        for (key, bits) in self.events.iter() {
            if key == WAKER {
                self.waker.clear();
            } else {
                ready.push(readiness(Token(key), bits));
            }
        }
        Ok(())
    }

    fn waker(&self) -> Arc<dyn Waker> {
        Arc::clone(&self.waker) as Arc<dyn Waker>
    }

    fn watch(&self) -> Result<Arc<dyn Watch>, PortError> {
        Ok(Arc::new(EpollWatch::new(Arc::clone(&self.epoll))?))
    }
}

impl fmt::Debug for TcpNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpNetwork").finish_non_exhaustive()
    }
}

/// Hang-ups and errors are left for the next receive and send to find.
const fn readiness(token: Token, bits: u32) -> Readiness {
    let either = (libc::EPOLLHUP | libc::EPOLLERR | EITHER) as u32;
    Readiness {
        token,
        readable: bits & (libc::EPOLLIN as u32 | either) != 0,
        writable: bits & (libc::EPOLLOUT as u32 | either) != 0,
    }
}
