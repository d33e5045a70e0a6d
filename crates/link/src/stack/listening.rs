//! Listeners of the link's TCP.

use core::time::Duration;
use std::collections::VecDeque;
use std::net::SocketAddr;

use slotmap::DefaultKey;
use weft_base::{PortError, Readiness, Token};
use weft_tcp::{HALF_OPEN, Listener};

use super::{INVALID, MOST_STREAMS, Stack};

/// An address and port number that takes calls.
pub(super) struct Listening {
    pub(super) local: SocketAddr,
    pub(super) listener: Listener,
    /// Connections that wait to be accepted, at most.
    pub(super) backlog: usize,
    pub(super) accepted: VecDeque<DefaultKey>,
    pub(super) armed: Option<Token>,
    /// Why no peer can connect any more.
    failed: Option<PortError>,
}

impl Listening {
    /// No peer can connect any more. Returns where it is.
    pub(super) fn fail(&mut self, why: PortError) -> SocketAddr {
        self.failed.get_or_insert(why);
        self.local
    }

    /// Whether a peer may connect.
    pub(super) const fn is_open(&self) -> bool {
        self.failed.is_none()
    }
}

impl Stack {
    /// Takes calls at an address and port; port 0 takes a free one. Returns where.
    pub(crate) fn listen(
        &mut self,
        local: SocketAddr,
        backlog: usize,
        peer_timeout: Option<Duration>,
    ) -> Result<SocketAddr, PortError> {
        self.check_interface()?;
        let at = |port| SocketAddr::new(local.ip(), port);
        let is_taken = |port: u16| self.listeners.iter().any(|listening| listening.local == at(port));
        let free = match local.port() {
            0 => self.ports_for_callers().find(|port| !is_taken(*port)),
            port => Some(port).filter(|port| !is_taken(*port)),
        };
        let local = at(free.ok_or(PortError::AddressInUse)?);
        let backlog = backlog.clamp(1, MOST_STREAMS);
        let listener = Listener::new(self.tcp(local.ip(), peer_timeout), self.numbers.clone(), HALF_OPEN)
            .map_err(|_| PortError::System(INVALID))?;
        let accepted = VecDeque::new();
        self.listeners.push(Listening { local, listener, backlog, accepted, armed: None, failed: None });
        Ok(local)
    }

    /// No listener takes calls there any more; those that were not taken are reset.
    pub(crate) fn close_listener(&mut self, local: SocketAddr) {
        let Some(index) = self.listeners.iter().position(|listening| listening.local == local) else { return };
        let listening = self.listeners.swap_remove(index);
        for key in listening.accepted {
            self.abort(key);
            self.release(key);
        }
    }

    pub(crate) fn accept(&mut self, local: SocketAddr) -> Result<Option<DefaultKey>, PortError> {
        let Some(listening) = self.listening(local) else { return Ok(None) };
        listening.failed.map_or_else(|| Ok(listening.accepted.pop_front()), Err)
    }

    pub(super) fn listening(&mut self, local: SocketAddr) -> Option<&mut Listening> {
        self.listeners.iter_mut().find(|listening| listening.local == local)
    }

    pub(crate) fn arm_listener(&mut self, local: SocketAddr, token: Token) {
        if let Some(listening) = self.listening(local) {
            listening.armed = Some(token);
            self.notify_listener(local);
        }
    }

    pub(super) fn notify_listener(&mut self, local: SocketAddr) {
        let is_told = |listening: &&mut Listening| !listening.accepted.is_empty() || !listening.is_open();
        let Some(listening) = self.listening(local).filter(is_told) else { return };
        if let Some(token) = listening.armed.take() {
            self.ready.push(Readiness { token, readable: true, writable: false });
            self.waker.wake();
        }
    }
}
