//! The network of two: this link's by Weft's own TCP, and the kernel's.

use core::fmt;
use core::time::Duration;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use weft_base::{
    Backlog, DatagramOptions, HostAddress, Interest, LocalAddress, Network, PortError, PortOptions, Readiness, Token,
    Waker, Watch,
};
use weft_driver::HostNetwork;
use weft_memory::Registry;

use crate::listener::{LinkListener, OwnListener};
use crate::port::{LinkPort, OwnPort};
use crate::raw::{LinkDatagram, RawPort};
use crate::settings::{LinkSettings, is_in_scope};
use crate::stack::{Shared, Stack};

/// What frames and the timer of the link are among the tokens; those of others are below.
const FRAMES: Token = Token(u64::MAX - 1);
const TIMER: Token = Token(u64::MAX - 2);

/// The kernel's network, and perhaps a link of one's own.
pub struct LinkNetwork {
    host: HostNetwork,
    own: Option<Shared>,
    settings: Option<LinkSettings>,
    /// Datagrams go by it, too.
    has_datagrams: bool,
    registry: Registry,
}

impl LinkNetwork {
    /// The kernel's network alone, for the memory of one NIC.
    ///
    /// # Errors
    /// The operating system has no descriptors left.
    pub fn new(registry: Registry) -> Result<Self, PortError> {
        Ok(Self {
            host: HostNetwork::new(registry.clone())?,
            own: None,
            settings: None,
            has_datagrams: false,
            registry,
        })
    }

    /// The kernel's network, and a link. It takes up to 8 MiB of the kernel's memory, and with addresses of IPv6 a
    /// second, for which it asks the network whether a host has them.
    ///
    /// # Errors
    /// There is no such interface, the right is missing, or an address is taken; the message says which.
    pub fn with_link(registry: Registry, settings: LinkSettings) -> io::Result<Self> {
        let mut network = Self::new(registry).map_err(io::Error::other)?;
        let settings = settings.with_addresses_of_host()?;
        let stack = Stack::new(settings.clone(), network.host.waker())?;
        for (fd, token) in [(stack.wire().as_fd(), FRAMES), (stack.timer().as_fd(), TIMER)] {
            network.host.keep_watching(fd, token).map_err(io::Error::other)?;
        }
        network.has_datagrams = stack.has_datagrams();
        (network.own, network.settings) = (Some(Shared::new(stack)), Some(settings));
        Ok(network)
    }

    /// A descriptor that is readable when [`Network::wait`] would return at once.
    #[must_use]
    pub fn poll_fd(&self) -> BorrowedFd<'_> {
        self.host.poll_fd()
    }

    /// The link by which a stream goes, if it is ours.
    fn link_to(&self, remote: SocketAddr, options: &PortOptions) -> Option<&Shared> {
        let settings = self.settings.as_ref()?;
        let source = self.source_of_stream(remote)?;
        let is_local = options.local.is_none_or(|local| {
            (local.ip().is_unspecified() || local.ip() == source) && settings.has_port(local.port())
        });
        self.own.as_ref().filter(|_| is_local && !options.shared_memory)
    }

    /// From which address of the link a stream goes there. What the host reaches without a gateway is not the link's
    /// gateway's.
    fn source_of_stream(&self, remote: SocketAddr) -> Option<IpAddr> {
        let settings = self.settings.as_ref().filter(|_| self.is_in_scope(remote))?;
        let by_gateway = || {
            let source = settings.source_by_gateway(remote.ip())?;
            let is_host_s = weft_driver::host_addresses().iter().any(|host| host.is_beside(remote.ip()));
            (!is_host_s).then_some(source)
        };
        settings.source_to(remote.ip()).or_else(by_gateway)
    }

    /// What is wrong with a call by the host's network, where the link could have been meant.
    fn reason(&self, error: PortError, remote: SocketAddr, options: &PortOptions) -> PortError {
        let is_from_link = options.local.is_some_and(|local| self.is_own(local));
        let is_no_way = error == PortError::Unreachable || is_from_link && error == PortError::AddressNotLocal;
        let lacks_gateway =
            self.settings.is_some() && !options.shared_memory && self.source_of_stream(remote).is_none();
        if is_no_way && lacks_gateway { PortError::NoGateway } else { error }
    }

    /// Whether an address can be one of the link.
    fn is_in_scope(&self, address: SocketAddr) -> bool {
        // It may be made anew, with another number.
        is_in_scope(address, self.own.as_ref().map_or(0, |own| own.lock().interface()))
    }

    /// Whether an address is the link's own.
    fn is_own(&self, address: SocketAddr) -> bool {
        self.settings.as_ref().is_some_and(|settings| settings.has(address.ip())) && self.is_in_scope(address)
    }

    fn drive(&self, ready: &mut Vec<Readiness>) {
        if let Some(own) = &self.own {
            let mut stack = own.lock();
            stack.drive();
            stack.take_ready(ready);
        }
    }
}

impl Network for LinkNetwork {
    type Port = LinkPort;
    type Listener = LinkListener;
    type Datagram = LinkDatagram;
    type Stack = <HostNetwork as Network>::Stack;

    fn connect(&mut self, remote: SocketAddr, options: PortOptions) -> Result<LinkPort, PortError> {
        let Some(own) = self.link_to(remote, &options) else {
            let called = self.host.connect(remote, options).map(LinkPort::Host);
            return called.map_err(|error| self.reason(error, remote, &options));
        };
        let port = options.local.map_or(0, |local| local.port());
        let key = own.lock().connect(remote, port, options.peer_timeout)?;
        OwnPort::new(own.clone(), key, self.registry.clone()).map(LinkPort::Own)
    }

    fn listen(&mut self, local: SocketAddr, backlog: Backlog, options: PortOptions) -> Result<LinkListener, PortError> {
        let has_port = self.settings.as_ref().is_some_and(|settings| settings.has_port(local.port()));
        let Some(own) = self.own.as_ref().filter(|_| has_port && self.is_own(local)) else {
            return self.host.listen(local, backlog, options).map(LinkListener::Host);
        };
        let at = own.lock().listen(local, backlog.0 as usize, options.peer_timeout)?;
        Ok(LinkListener::Own(OwnListener::new(own.clone(), self.registry.clone(), at)))
    }

    fn bind(&mut self, local: SocketAddr, options: DatagramOptions) -> Result<LinkDatagram, PortError> {
        let (Some(own), Some(settings)) =
            (&self.own, self.settings.as_ref().filter(|_| self.is_own(local) && self.has_datagrams))
        else {
            return self.host.bind(local, options).map(LinkDatagram::Host);
        };
        RawPort::open(own.clone(), self.registry.clone(), settings, local, &options).map(LinkDatagram::Raw)
    }

    fn arm_port(&mut self, port: &mut LinkPort, token: Token, interest: Interest) -> Result<(), PortError> {
        match (port, &self.own) {
            (LinkPort::Host(port), _) => self.host.arm_port(port, token, interest),
            (LinkPort::Own(port), Some(own)) => {
                own.lock().arm(port.key(), token, interest);
                Ok(())
            }
            (LinkPort::Own(_), None) => Err(PortError::Reset),
        }
    }

    fn arm_listener(&mut self, listener: &LinkListener, token: Token) -> Result<(), PortError> {
        match (listener, &self.own) {
            (LinkListener::Host(listener), _) => self.host.arm_listener(listener, token),
            (LinkListener::Own(listener), Some(own)) => {
                own.lock().arm_listener(listener.at(), token);
                Ok(())
            }
            (LinkListener::Own(_), None) => Err(PortError::Reset),
        }
    }

    fn arm_datagram(&mut self, port: &mut LinkDatagram, token: Token, interest: Interest) -> Result<(), PortError> {
        match port {
            LinkDatagram::Host(port) => self.host.arm_datagram(port, token, interest),
            LinkDatagram::Raw(port) => self.host.arm_descriptor(port.descriptor(token), token, interest),
        }
    }

    /// Frames without IP go no further than the link: to others datagrams go by the kernel.
    fn source_to(&self, peer: IpAddr) -> Option<IpAddr> {
        self.settings.as_ref()?.source_to(peer).filter(|_| self.has_datagrams)
    }

    /// On the interface of the link, the first of the link's addresses replaces those that the kernel has there: two
    /// rails by one wire gain nothing. A link-local address is left out: others do not know it.
    fn host_addresses(&mut self) -> Vec<HostAddress> {
        let mut addresses = self.host.host_addresses();
        let Some(settings) = &self.settings else { return addresses };
        let Some(own) = settings.first_known().filter(|_| self.has_datagrams) else { return addresses };
        let is_own = |address: &HostAddress| address.interface == settings.interface;
        let first = addresses.iter().position(is_own);
        let known = first.map(|at| (addresses[at].address.interface, addresses[at].is_running));
        let (number, is_running) = known.unwrap_or((0, true));
        addresses.retain(|address| !is_own(address));
        let address = LocalAddress { ip: own.ip, interface: number };
        let own = HostAddress { interface: settings.interface.clone(), address, prefix: own.prefix, is_running };
        addresses.insert(first.unwrap_or(addresses.len()), own);
        addresses
    }

    fn may_have_other_addresses(&mut self) -> bool {
        self.host.may_have_other_addresses()
    }

    fn checks_peers(&self) -> bool {
        self.host.checks_peers()
    }

    fn owes(&self) -> bool {
        self.own.as_ref().is_some_and(|own| own.lock().owes())
    }

    fn shares_memory(&self) -> bool {
        self.host.shares_memory()
    }

    fn wait(&mut self, timeout: Option<Duration>, ready: &mut Vec<Readiness>) -> Result<(), PortError> {
        let before = ready.len();
        self.drive(ready);
        let timeout = if ready.len() > before { Some(Duration::ZERO) } else { timeout };
        self.host.wait(timeout, ready)?;
        let told = ready.len();
        let mut has_frames = false;
        ready.retain(|one| {
            has_frames |= one.token == FRAMES;
            one.token != FRAMES && one.token != TIMER
        });
        match &self.own {
            Some(own) if ready.len() < told => {
                if has_frames {
                    own.lock().handle_readable();
                }
                self.drive(ready);
            }
            // Ports that become ready from now on are returned by the next wait; the waker reported those before.
            Some(own) => own.lock().take_ready(ready),
            None => {}
        }
        Ok(())
    }

    fn waker(&self) -> Arc<dyn Waker> {
        self.host.waker()
    }

    fn watch(&self) -> Result<Arc<dyn Watch>, PortError> {
        self.host.watch()
    }
}

impl fmt::Debug for LinkNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LinkNetwork").field("link", &self.settings).finish_non_exhaustive()
    }
}
