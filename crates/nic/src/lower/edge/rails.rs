//! By which of this host's addresses a connection's rails leave, and come in.

use std::net::{IpAddr, SocketAddr};

use arrayvec::ArrayVec;
use weft_base::LocalAddress;
use weft_edge::{Connection, RailAddress};

use super::outbox::Way;
use super::{Edge, Phase};
use crate::lower::{Io, RailPort};
use crate::settings::Rails;

impl Edge {
    /// Tells the machine what this host has beside the address that the connection was set up on. Two programs of one
    /// host have nothing to gain.
    pub(super) fn offer_rails(&mut self, io: &Io<'_>) {
        let Some(own) = self.local.filter(|own| !own.ip().is_unspecified()) else { return };
        let all = io.datagrams.rails();
        let peer = self.remote.ip();
        let is_here = peer.is_loopback() || peer == own.ip() || all.iter().any(|rail| rail.from.ip == peer);
        let Phase::Running(running) = &mut self.phase else { return };
        if is_here {
            return;
        }
        let others = all.iter().filter(|rail| rail.from.ip != own.ip() && rail.from.ip.is_ipv4() == own.is_ipv4());
        self.rails = others.take(Rails::MOST - 1).copied().collect();
        if !self.rails.is_empty() {
            running.connection.offer(&addresses(own, &self.rails), io.now);
        }
    }

    /// By the index that the machine knows them by.
    pub(super) fn ways(&self) -> ArrayVec<Way, { Rails::MOST }> {
        let first = (self.port, self.from);
        core::iter::once(first).chain(self.rails.iter().map(|rail| (rail.port, Some(rail.from)))).collect()
    }
}

fn addresses(own: SocketAddr, rails: &[RailPort]) -> ArrayVec<RailAddress, { Rails::MOST }> {
    let others = (1..).zip(rails).map(|(local, rail)| RailAddress { local, address: rail.address });
    core::iter::once(RailAddress { local: 0, address: own }).chain(others).collect()
}

/// The index of the address that a datagram has come to.
pub(super) fn local_of(to: Option<LocalAddress>, rails: &[RailPort]) -> u8 {
    let is = |ip: IpAddr| to.is_some_and(|to| to.ip == ip);
    rails.iter().position(|rail| is(rail.from.ip)).map_or(0, |at| at as u8 + 1)
}

/// The machine learns what the socket behind an address has dropped, and takes: the peer is told with the next
/// acknowledgement. The count goes round.
pub(super) fn tell_socket(connection: &mut Connection, local: u8, (port, _): Way, io: &Io<'_>) {
    connection.set_rail_socket(local, io.datagrams.overflowed(port) as u32, io.datagrams.credit(port));
}
