//! By which of this host's addresses a connection's rails leave, and come in.

use arrayvec::ArrayString;
use weft_base::{LocalAddress, Time};
use weft_edge::{Connection, RailInfo};

use super::outbox::{Outbox, Path};
use super::state::{Edge, Phase};
use crate::lower::{DatagramPorts, Io, RailPort};
use crate::rail_report::{Out, RailReport, RailState};

impl Edge {
    /// Gives the machine the addresses that this host has beside the address that the connection was set up on. Two
    /// programs of one host have nothing to gain.
    pub(super) fn offer_rails(&mut self, io: &Io<'_, impl AsMut<Outbox>>) {
        self.rails.serial = io.datagrams.rails_serial();
        let Some(own) = self.local.filter(|own| !own.ip().is_unspecified()) else { return };
        let all = io.datagrams.rails();
        let peer = self.remote.ip();
        let is_here = peer.is_loopback() || peer == own.ip() || all.iter().any(|rail| rail.from.ip == peer);
        let Phase::Running(running) = &mut self.phase else { return };
        if is_here {
            return;
        }
        // The others leave by interfaces of their own: so must this one, or two would leave by one.
        self.from = io.datagrams.beside(own.ip(), peer).or(self.from);
        let had_any = self.rails.places.iter().any(Option::is_some);
        // The first flow from the address of rail 0 is rail 0.
        let is_other = |rail: &&RailPort| rail.from.ip != own.ip() || rail.flow > 0;
        self.rails.renew(all.iter().filter(is_other).filter(|rail| rail.from.ip.is_ipv4() == own.is_ipv4()));
        let addresses = self.rails.addresses(own);
        if addresses.len() > 1 || had_any {
            running.connection.offer(&addresses, io.now);
        }
    }

    /// The address that rail 0 left from is not this host's any more. Where there is no other rail, it leaves from
    /// wherever the routes say: the peer sees packets from another address, and proves that (RFC 9000 section 9.3).
    /// Nothing is done as long as there is no port that can: it is tried again with the next probe.
    pub(super) fn move_on(&mut self, io: &mut Io<'_, impl AsMut<Outbox>>) {
        self.is_displaced = false;
        let Phase::Running(running) = &mut self.phase else { return };
        if self.rails.places.iter().any(Option::is_some) {
            return;
        }
        let is_bound = io.datagrams.local_address(self.port).is_some_and(|bound| !bound.ip().is_unspecified());
        if is_bound {
            // From a port at one address nothing can leave any more.
            let Some(port) = io.datagrams.move_to_any(self.port, running.connection.id().0) else { return };
            self.port = port;
        }
        (self.from, self.local) = (None, io.datagrams.local_address(self.port));
        self.has_moved = true;
        running.connection.begin_path();
    }

    /// Something has come to this address, after rail 0 has moved: it is found there.
    pub(super) fn see_move(&mut self, to: Option<LocalAddress>, io: &Io<'_, impl AsMut<Outbox>>) {
        self.see_local(to, io);
        self.has_moved = false;
        // What rails there are beside this address is to be offered anew.
        self.rails.serial = self.rails.serial.wrapping_sub(1);
    }

    /// The host's addresses, or their carriers, are others than before.
    pub(super) fn offer_new_rails(&mut self, io: &Io<'_, impl AsMut<Outbox>>) {
        if self.has_other_rails(io) {
            self.offer_rails(io);
        }
    }

    pub(super) fn has_other_rails(&self, io: &Io<'_, impl AsMut<Outbox>>) -> bool {
        self.rails.serial != io.datagrams.rails_serial()
    }

    /// Reports the state of the rails.
    pub(super) fn report(
        &self,
        connection: &Connection,
        ports: &dyn DatagramPorts,
        now: Time,
        reports: &mut Vec<RailReport>,
    ) {
        for info in connection.rails() {
            let place = |local: u8| self.rails.places.get(usize::from(local) - 1)?.map(|rail| rail.address);
            let local = match info.place {
                Some((0, _)) => self.local.filter(|local| !local.ip().is_unspecified()),
                Some((local, _)) => place(local),
                None => None,
            };
            let name = local.and_then(|local| ports.interface_of(local.ip()));
            let interface = name.and_then(|name| ArrayString::from(name).ok()).unwrap_or_default();
            let silent_for = info.silent_since.map(|since| now.since(since));
            reports.push(RailReport { interface, local, silent_for, ..report(connection.id().0, &info) });
        }
    }
}

/// Passes to the machine how much the socket behind an address has dropped, and how much it takes: the next
/// acknowledgement carries both to the peer. The count wraps.
pub(super) fn tell_socket(connection: &mut Connection, local: u8, (port, _): Path, io: &Io<'_, impl AsMut<Outbox>>) {
    connection.set_rail_socket(local, io.datagrams.overflowed(port) as u32, io.datagrams.credit(port));
}

/// What the machine knows.
fn report(connection: u64, info: &RailInfo) -> RailReport {
    RailReport {
        connection,
        rail: info.id,
        interface: ArrayString::new(),
        local: None,
        remote: info.place.map(|(_, to)| to),
        state: match info.state {
            weft_edge::RailState::Closed => RailState::Closed,
            weft_edge::RailState::Proving => RailState::Proving,
            weft_edge::RailState::Live => RailState::Live,
            weft_edge::RailState::Silent => RailState::Silent,
        },
        out: info.out.map(|out| match out {
            weft_edge::Out::Asked => Out::Asked,
            weft_edge::Out::Silent => Out::Silent,
            weft_edge::Out::PeerSilent => Out::PeerSilent,
            weft_edge::Out::Unanswered => Out::Unanswered,
            weft_edge::Out::Withdrawn => Out::Withdrawn,
        }),
        silent_for: None,
        rate: info.rate,
        round_trip: info.round_trip,
        window: info.window,
        in_flight: info.in_flight,
        datagram_bytes: u16::try_from(info.datagram_size).unwrap_or(u16::MAX),
        sent_datagrams: info.sent_packets,
        sent_bytes: info.sent_bytes,
        lost_datagrams: info.lost_packets,
        received_datagrams: info.received_packets,
        received_bytes: info.received_bytes,
    }
}
