//! Calls to peers, and the ports that they come from.

use core::ops::RangeInclusive;
use core::time::Duration;
use std::net::SocketAddr;

use slotmap::DefaultKey;
use weft_base::{PortError, Time};
use weft_tcp::{Connection, Flow};

use super::{FIRST_DYNAMIC, INVALID, MOST_STREAMS, Stack, Stream};
use crate::settings::without_scope;

impl Stack {
    /// Calls a peer.
    pub(crate) fn connect(
        &mut self,
        remote: SocketAddr,
        port: u16,
        peer_timeout: Option<Duration>,
    ) -> Result<DefaultKey, PortError> {
        self.check_interface()?;
        if self.streams.len() >= MOST_STREAMS {
            return Err(PortError::Exhausted);
        }
        let flow = self.free_flow(without_scope(remote), port)?;
        let now = self.now();
        let initial = self.numbers.of(&flow, now);
        let connection = Connection::connect(flow, self.tcp(remote.ip(), peer_timeout), initial, now)
            .map_err(|_| PortError::System(INVALID))?;
        let key = self.insert(Box::new(connection), now);
        self.touch(key);
        self.drive();
        Ok(key)
    }

    pub(super) fn insert(&mut self, connection: Box<Connection>, now: Time) -> DefaultKey {
        let flow = *connection.flow();
        let window = self.tcp.receive_window;
        self.wire.refresh_limits(now);
        let mut stream = Stream::new(connection, window, now);
        if let Some(since) = self.paths.avoided_since(flow.remote.ip()) {
            stream.avoid_trains(since);
        }
        let key = self.streams.insert(stream);
        self.by_flow.insert(flow, key);
        key
    }

    /// Port numbers of which any may be taken.
    pub(super) fn ports_for_callers(&self) -> RangeInclusive<u16> {
        self.settings.ports.map_or(FIRST_DYNAMIC..=u16::MAX, |ports| ports.first..=ports.last)
    }

    pub(super) fn free_flow(&mut self, remote: SocketAddr, port: u16) -> Result<Flow, PortError> {
        let own = self.settings.source_of_stream(remote.ip()).ok_or(PortError::NoGateway)?;
        let local = |port| Flow { local: SocketAddr::new(own, port), remote };
        if port != 0 {
            let flow = local(port);
            return if self.is_taken(&flow) { Err(PortError::AddressInUse) } else { Ok(flow) };
        }
        let ports = self.ports_for_callers();
        // Never all that there are.
        let count = ports.end() - ports.start() + 1;
        let search = self.ports.search(own, remote);
        for step in 0..count {
            let flow = local(ports.start() + self.ports.candidate(&search, step, count));
            if !self.is_taken(&flow) && self.listeners.iter().all(|listening| listening.local != flow.local) {
                self.ports.take(&search, step);
                return Ok(flow);
            }
        }
        Err(PortError::Exhausted)
    }

    fn is_taken(&self, flow: &Flow) -> bool {
        self.by_flow.contains_key(flow) || self.waits.contains(flow)
    }
}
