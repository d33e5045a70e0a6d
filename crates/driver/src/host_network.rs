//! The network of a host: TCP and UDP sockets, and shared memory between processes.

use core::fmt;
use core::time::Duration;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Once};

use weft_base::{
    Backlog, DatagramOptions, HostAddress, Interest, Listener, Network, PortError, PortOptions, Readiness, Token,
    Waker, Watch,
};
use weft_memory::Registry;

use crate::address_watch::AddressWatch;
use crate::listener::has_descriptors;
use crate::notice::say_once;
use crate::shm::{self, ShmListener, ShmPort};
use crate::{TcpListener, TcpNetwork, TcpPort, UdpPort};

/// The number of ports that may be ready when they are armed, between two waits, without an allocation.
const READY: usize = 64;

/// The kernel's TCP and UDP; and shared memory between two processes of one user on the same host and in the same
/// network namespace, where both request it ([`PortOptions::shared_memory`]).
pub struct HostNetwork {
    tcp: TcpNetwork,
    registry: Registry,
    /// Ports that were ready when they were armed. The waker is signalled then, so that the next wait does not sleep.
    ready: Vec<Token>,
    addresses: Option<AddressWatch>,
}

impl HostNetwork {
    /// A network for the memory of one NIC.
    ///
    /// # Errors
    /// The operating system has no descriptors left.
    pub fn new(registry: Registry) -> Result<Self, PortError> {
        let (tcp, ready) = (TcpNetwork::new(registry.clone())?, Vec::with_capacity(READY));
        Ok(Self { tcp, registry, ready, addresses: None })
    }

    /// A descriptor that is readable when [`Network::wait`] would return at once.
    #[must_use]
    pub fn poll_fd(&self) -> BorrowedFd<'_> {
        self.tcp.poll_fd()
    }

    /// As [`TcpNetwork::keep_watching`].
    ///
    /// # Errors
    /// The same.
    pub fn keep_watching(&self, fd: BorrowedFd<'_>, token: Token) -> Result<(), PortError> {
        self.tcp.keep_watching(fd, token)
    }

    /// As [`TcpNetwork::arm_descriptor`].
    ///
    /// # Errors
    /// The same.
    pub fn arm_descriptor(&self, fd: BorrowedFd<'_>, token: Token, interest: Interest) -> Result<(), PortError> {
        self.tcp.arm_descriptor(fd, token, interest)
    }

    fn arm_shared(&mut self, port: &mut ShmPort, token: Token, interest: Interest) -> Result<(), PortError> {
        let waits = port.sleep(interest);
        let fd = port.descriptor()?;
        if !interest.readable && !interest.writable {
            return self.tcp.disarm(fd);
        }
        if waits {
            return self.tcp.arm_for_either(fd, token);
        }
        self.tcp.disarm(fd)?;
        self.ready.push(token);
        self.tcp.waker().wake();
        Ok(())
    }
}

impl Network for HostNetwork {
    type Port = HostPort;
    type Listener = HostListener;
    type Datagram = UdpPort;
    type Stack = <TcpNetwork as Network>::Stack;

    fn connect(&mut self, remote: SocketAddr, options: PortOptions) -> Result<HostPort, PortError> {
        if options.shared_memory {
            return shm::connect(remote, options.local, &self.registry).map(HostPort::Shared);
        }
        self.tcp.connect(remote, options).map(HostPort::Tcp)
    }

    fn listen(&mut self, local: SocketAddr, backlog: Backlog, options: PortOptions) -> Result<HostListener, PortError> {
        let tcp = self.tcp.listen(local, backlog, options)?;
        let shared = options.shared_memory.then(|| listen_shared(tcp.local_address(), backlog, &self.registry));
        Ok(HostListener { tcp, shared: shared.flatten() })
    }

    fn bind(&mut self, local: SocketAddr, options: DatagramOptions) -> Result<UdpPort, PortError> {
        self.tcp.bind(local, options)
    }

    fn arm_port(&mut self, port: &mut HostPort, token: Token, interest: Interest) -> Result<(), PortError> {
        match port {
            HostPort::Tcp(port) => self.tcp.arm_port(port, token, interest),
            HostPort::Shared(port) => self.arm_shared(port, token, interest),
        }
    }

    fn arm_datagram(&mut self, port: &mut UdpPort, token: Token, interest: Interest) -> Result<(), PortError> {
        self.tcp.arm_datagram(port, token, interest)
    }

    fn host_addresses(&mut self) -> Vec<HostAddress> {
        // Changes from here on are reported.
        self.addresses = AddressWatch::new();
        crate::host_addresses()
    }

    fn may_have_other_addresses(&mut self) -> bool {
        self.addresses.as_ref().is_none_or(AddressWatch::has_changed)
    }

    fn shares_memory(&self) -> bool {
        true
    }

    fn checks_peers(&self) -> bool {
        self.tcp.checks_peers()
    }

    fn arm_listener(&mut self, listener: &HostListener, token: Token) -> Result<(), PortError> {
        if let Some(shared) = &listener.shared {
            self.tcp.arm_for_either(shared.as_fd(), token)?;
        }
        self.tcp.arm_listener(&listener.tcp, token)
    }

    fn wait(&mut self, timeout: Option<Duration>, ready: &mut Vec<Readiness>) -> Result<(), PortError> {
        let timeout = if self.ready.is_empty() { timeout } else { Some(Duration::ZERO) };
        let either = |token| Readiness { token, readable: true, writable: true };
        ready.extend(self.ready.drain(..).map(either));
        self.tcp.wait(timeout, ready)
    }

    fn waker(&self) -> Arc<dyn Waker> {
        self.tcp.waker()
    }

    fn watch(&self) -> Result<Arc<dyn Watch>, PortError> {
        self.tcp.watch()
    }
}

/// If another process has the name, connections through shared memory are refused, and peers fall back to TCP.
fn listen_shared(local: SocketAddr, backlog: Backlog, registry: &Registry) -> Option<ShmListener> {
    static SAID: Once = Once::new();
    let listener = ShmListener::new(local, backlog, registry.clone());
    listener
        .inspect_err(|error| {
            let name = shm::shown_name(local);
            match error {
                PortError::AddressInUse => say_once(
                    &SAID,
                    format_args!(
                        "another process has the Unix socket {name}, so nobody comes to {local} through shared memory, \
                         but by the network: `ss -xlp` shows which process that is"
                    ),
                ),
                error => say_once(
                    &SAID,
                    format_args!(
                        "the Unix socket {name} can't be had ({error}), so nobody comes to {local} through shared \
                         memory, but by the network"
                    ),
                ),
            }
        })
        .ok()
}

impl fmt::Debug for HostNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostNetwork").finish_non_exhaustive()
    }
}

/// Accepts streams over TCP, and through shared memory.
#[derive(Debug)]
pub struct HostListener {
    /// Closed before the TCP socket: the next owner of that port finds the name free.
    shared: Option<ShmListener>,
    tcp: TcpListener,
}

impl Listener for HostListener {
    type Port = HostPort;

    fn accept(&mut self) -> Result<Option<HostPort>, PortError> {
        if !has_descriptors() {
            return Err(PortError::Exhausted);
        }
        if let Some(shared) = &self.shared
            && let Some(port) = shared.accept()?
        {
            return Ok(Some(HostPort::Shared(port)));
        }
        Ok(self.tcp.accept()?.map(HostPort::Tcp))
    }

    fn accept_to_refuse(&mut self) -> Result<Option<HostPort>, PortError> {
        let shared = &self.shared;
        self.tcp.with_spare(|tcp| {
            if let Some(shared) = shared
                && let Some(port) = shared.accept()?
            {
                return Ok(Some(HostPort::Shared(port)));
            }
            Ok(tcp.take()?.map(HostPort::Tcp))
        })
    }

    fn descriptor_limit(&self) -> Option<u64> {
        self.tcp.descriptor_limit()
    }

    fn local_address(&self) -> SocketAddr {
        self.tcp.local_address()
    }
}

/// A stream over TCP, or through shared memory.
#[derive(Debug)]
pub enum HostPort {
    /// Over TCP.
    Tcp(TcpPort),
    /// Through shared memory.
    Shared(ShmPort),
}

weft_base::either_port!(HostPort { Tcp, Shared });
