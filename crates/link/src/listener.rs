//! Listeners for streams.

use core::fmt;
use std::net::SocketAddr;

use weft_base::{Listener, PortError};
use weft_driver::HostListener;
use weft_memory::Registry;

use crate::port::{LinkPort, OwnPort};
use crate::settings::with_scope;
use crate::stack::Shared;

/// Accepts streams.
#[derive(Debug)]
pub enum LinkListener {
    /// By the kernel, or through shared memory.
    Host(HostListener),
    /// By Weft's own TCP.
    Own(OwnListener),
}

/// Accepts streams by Weft's own TCP.
pub struct OwnListener {
    stack: Shared,
    registry: Registry,
    /// As the stack knows it, and as others do.
    at: SocketAddr,
    local: SocketAddr,
}

impl OwnListener {
    pub(crate) fn new(stack: Shared, registry: Registry, at: SocketAddr) -> Self {
        let local = with_scope(at, stack.lock().interface());
        Self { stack, registry, at, local }
    }

    pub(crate) const fn at(&self) -> SocketAddr {
        self.at
    }

    fn accept(&self) -> Result<Option<OwnPort>, PortError> {
        let key = {
            let mut stack = self.stack.lock();
            stack.drive();
            stack.accept(self.at)?
        };
        key.map(|key| OwnPort::new(self.stack.clone(), key, self.registry.clone())).transpose()
    }
}

impl Listener for LinkListener {
    type Port = LinkPort;

    fn accept(&mut self) -> Result<Option<LinkPort>, PortError> {
        Ok(match self {
            Self::Host(listener) => listener.accept()?.map(LinkPort::Host),
            Self::Own(listener) => listener.accept()?.map(LinkPort::Own),
        })
    }

    fn accept_to_refuse(&mut self) -> Result<Option<LinkPort>, PortError> {
        match self {
            Self::Host(listener) => Ok(listener.accept_to_refuse()?.map(LinkPort::Host)),
            // Its streams need no descriptors.
            Self::Own(_) => Err(PortError::Exhausted),
        }
    }

    fn descriptor_limit(&self) -> Option<u64> {
        match self {
            Self::Host(listener) => listener.descriptor_limit(),
            Self::Own(_) => None,
        }
    }

    fn local_address(&self) -> SocketAddr {
        match self {
            Self::Host(listener) => listener.local_address(),
            Self::Own(listener) => listener.local,
        }
    }
}

impl Drop for OwnListener {
    fn drop(&mut self) {
        self.stack.lock().close_listener(self.at);
    }
}

impl fmt::Debug for OwnListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnListener").field("local", &self.local).finish_non_exhaustive()
    }
}
