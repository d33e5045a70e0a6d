//! What arrives at the engine's datagram ports, and which connection it goes to.

use core::mem::take;
use core::time::Duration;
use std::net::SocketAddr;

use slotmap::DefaultKey;
use weft_base::{Clock, DatagramBatch, Ecn, HostAddress, Piece, PortError};

use super::datagrams::Room;
use super::listening::MOST_UNCONFIRMED;
use super::served::HINTS_OF_A_TURN;
use super::served_port::{RX_BATCHES, ServedPort};
use super::{Engine, EngineClient, Entry, Member};
use crate::connection::{Connection, within_limits};
use crate::error::{ConnectionError, RefusedStart};
use crate::lower::{
    CallOutcome, Carrier, Datagram, DatagramKey, DatagramPorts, Datagrams as _, Inbox, InboxEntry, Io, Route,
    TxBatchOf, Unmatched,
};
use crate::offer::Offer;
use crate::settings::Rails;

/// Once this many of a listener's places are taken, by callers that wait for the application or that have not
/// confirmed, a caller has to prove its address.
const CROWDED: usize = 2;
/// How often the engine checks whether the host's addresses have changed.
const ADDRESSES_EVERY: Duration = Duration::from_millis(250);
/// This many ports are polled in a turn: all rails, and those that calls go out from and come to.
pub(super) const MOST_POLLED: usize = 64;

impl<N: Carrier, C: Clock, U: EngineClient> Engine<N, C, U> {
    /// Binds a datagram port. One that has been left, but for connections that are ending, is taken again.
    pub(super) fn bind_datagrams(&mut self, at: SocketAddr) -> Result<(DefaultKey, SocketAddr), PortError> {
        if let Some(key) = self.datagrams.left_at(at) {
            return Ok((key, at));
        }
        let bound = self.bind_new(at)?;
        self.prepare_rails();
        Ok(bound)
    }

    fn bind_new(&mut self, at: SocketAddr) -> Result<(DefaultKey, SocketAddr), PortError> {
        let token = self.ports.add_datagram();
        match self.datagrams.bind(&mut self.network, at, token) {
            Ok(key) => {
                self.ports.set_datagram(token, key);
                let bound = self.datagrams.bound(key).unwrap_or(at);
                Ok((key, bound))
            }
            Err(error) => {
                self.ports.remove(&[token]);
                Err(error)
            }
        }
    }

    /// Looks from time to time whether the host has other addresses than before. No thread wakes up for it.
    fn check_addresses(&mut self) {
        if self.now.since(self.addresses_looked_at) < ADDRESSES_EVERY {
            return;
        }
        self.addresses_looked_at = self.now;
        if self.network.may_have_other_addresses() {
            self.prepare_rails();
            self.prepare_to_move();
        }
    }

    /// Makes a port by which connections can go on whose own is at an address that the host has no more. One that can't
    /// be made is tried again when the host's addresses change.
    fn prepare_to_move(&mut self) {
        for any in self.datagrams.lost_families() {
            let _ = self.calling_port(Route { remote: SocketAddr::new(any, 0), local: None });
        }
    }

    /// The addresses of this host as they are now.
    pub(crate) fn host_addresses(&mut self) -> Vec<HostAddress> {
        self.network.host_addresses()
    }

    /// Binds a port at each address that rails may leave by, where there is more than one.
    fn prepare_rails(&mut self) {
        let mut addresses = self.network.host_addresses();
        self.datagrams.set_host_addresses(&addresses);
        if self.settings.rails == Rails::One {
            return;
        }
        addresses.retain(|address| self.settings.rails.has(&address.interface));
        addresses.truncate(Rails::MOST);
        let flows_of = |address: &HostAddress| self.settings.rails.flows(&address.interface);
        if addresses.iter().map(|address| usize::from(flows_of(address))).sum::<usize>() < 2 {
            addresses.clear();
        }
        if !self.datagrams.has_other_addresses(&addresses) {
            return;
        }
        for key in self.datagrams.remove_rails(&addresses) {
            self.drop_if_unused(key);
        }
        // The first flow over each, then the second: what is too much is left out everywhere.
        for flow in 0..Rails::MOST as u8 {
            for HostAddress { address, interface, .. } in &addresses {
                let is_wanted = flow < self.settings.rails.flows(interface) && !self.datagrams.is_full_of_rails();
                // One that is gone meanwhile is none.
                if is_wanted
                    && !self.datagrams.has_rail(*address, flow)
                    && let Ok((key, _)) = self.bind_new(SocketAddr::new(address.ip, 0))
                {
                    let (number, engines) = (self.datagrams.rail_count(), self.settings.rail_engines);
                    if let Some(port_server) = self.serving.server_of(number, engines) {
                        self.datagrams.give_away(key, &self.doorbell, port_server);
                    }
                    self.datagrams.add_rail(&mut self.network, key, *address, flow);
                }
            }
        }
        self.datagrams.set_addresses(addresses);
    }

    /// The port from which a peer is called.
    pub(super) fn calling_port(&mut self, route: Route) -> Result<DatagramKey, PortError> {
        let ports = &mut self.ports;
        let mut token = None;
        let key =
            self.datagrams.caller(&mut self.network, route.remote, route.local, || *token.insert(ports.add_datagram()));
        match (key, token) {
            (Ok(key), Some(token)) => {
                self.ports.set_datagram(token, key);
                self.prepare_rails();
            }
            (Err(_), Some(token)) => self.ports.remove(&[token]),
            _ => {}
        }
        key.map(DatagramKey)
    }

    /// A listener listens at a datagram port.
    pub(super) fn open_datagrams(&mut self, port: DefaultKey, listener: DefaultKey) {
        if let Some(member) = self.datagrams.members.get_mut(port) {
            member.listener = Some(listener);
            member.arm(&mut self.network);
        }
    }

    /// No program listens at a datagram port any more. Connections that use it go on.
    pub(super) fn close_datagrams(&mut self, port: DefaultKey) {
        if let Some(member) = self.datagrams.members.get_mut(port) {
            member.listener = None;
        }
        self.drop_if_unused(port);
    }

    /// A port at which no program listens goes when the last connection has left it.
    pub(super) fn drop_if_unused(&mut self, port: DefaultKey) {
        if self.datagrams.is_unused(port)
            && let Some(token) = self.datagrams.remove_member(port)
        {
            self.ports.remove(&[token]);
        }
    }

    /// Looks at the ports that are not watched.
    pub(super) fn poll_datagrams(&mut self) -> bool {
        if self.datagrams.members.is_empty() {
            return false;
        }
        self.check_addresses();
        let mut progress = false;
        let mut polled = take(&mut self.datagrams.polled_ports);
        polled.clear();
        let members = self.datagrams.members.iter();
        polled.extend(members.filter(|(_, member)| member.is_polled).map(|(key, _)| key).take(MOST_POLLED));
        for key in &polled {
            progress |= self.receive_datagrams(*key);
        }
        self.datagrams.watch_idle(&mut self.network, &polled);
        self.datagrams.polled_ports = polled;
        progress
    }

    /// The operating system tells of a port.
    pub(super) fn attend_datagrams(&mut self, key: DefaultKey, has_room: bool) {
        let Some(member) = self.datagrams.members.get_mut(key) else { return };
        member.start_polling();
        if has_room {
            self.go_on_at(key);
        }
        self.receive_datagrams(key);
    }

    /// Drives those that have waited at a port.
    fn go_on_at(&mut self, key: DefaultKey) {
        let Some(member) = self.datagrams.members.get_mut(key) else { return };
        for name in take(&mut member.waiting) {
            if let Some(connection) = self.datagrams.find_own(name) {
                self.start_connection(connection);
            }
        }
    }

    /// Receives once at a port, and brings what has arrived to those it is for.
    pub(super) fn receive_datagrams(&mut self, key: DefaultKey) -> bool {
        if let Some(served_port) = self.datagrams.served_port(key).cloned() {
            return self.receive_served(key, &served_port);
        }
        let any = self.datagrams.receive(&mut self.network, key);
        if any {
            self.counters.receives += 1;
            // A thread that measures how long an answer takes is not to count how long we have looked elsewhere.
            self.read_clock();
            if let Some(mut room) = self.datagrams.room.take() {
                self.deliver(key, &mut room, &[]);
                self.datagrams.room = Some(room);
            }
        }
        self.take_hints(key);
        any
    }

    /// Takes what the engine that serves a port has brought.
    fn receive_served(&mut self, key: DefaultKey, served_port: &ServedPort<TxBatchOf<N>>) -> bool {
        if !served_port.take_news() {
            return false;
        }
        let mut room = self.datagrams.room.take().unwrap_or_default();
        for _ in 0..RX_BATCHES {
            let Some(mut rx_batch) = served_port.take_rx_batch() else { break };
            self.read_clock();
            core::mem::swap(&mut room.bytes, &mut rx_batch.bytes);
            core::mem::swap(&mut room.received, &mut rx_batch.received);
            self.deliver(key, &mut room, &rx_batch.are_good);
            core::mem::swap(&mut room.bytes, &mut rx_batch.bytes);
            core::mem::swap(&mut room.received, &mut rx_batch.received);
            served_port.give_back(rx_batch);
        }
        self.datagrams.room = Some(room);
        served_port.poll_again();
        while let Some((name, failure)) = served_port.take_failures() {
            let now = self.now;
            if let Some(connection) = self.datagrams.find_own(name)
                && let Some(there) = self.connection_mut(connection)
            {
                there.lower.take_failures(&failure, now);
                self.start_connection(connection);
            }
        }
        if served_port.take_moved() {
            self.go_on_at(key);
        }
        self.take_hints(key);
        true
    }

    /// Brings datagrams to those they are for. Of those behind the end of `are_good` none was checked whether they
    /// are.
    fn deliver(&mut self, port: DefaultKey, room: &mut Room, are_good: &[bool]) {
        let Room { bytes, received, entries, answer, .. } = room;
        let (mut present, mut are_good) = (None, are_good);
        entries.clear();
        for run in received.iter() {
            let size = run.segment_size.max(1) as usize;
            let Some(from) = run.from.ip() else {
                are_good = are_good.get(run.range.len().div_ceil(size)..).unwrap_or_default();
                continue;
            };
            let (mut at, end) = (run.range.start, run.range.end);
            while at < end {
                let found = self.datagrams.find(N::Lower::destination(&bytes[at..end.min(at + size)]), from);
                let same = found.map_or(1, |_| N::Lower::same_destination(&bytes[at..end], size));
                let (count, is_checked) = checked_alike(&mut are_good, same);
                let range = at..end.min(at + count * size);
                at = range.end;
                let entry = InboxEntry { range, size, from, to: run.to, ecn: run.ecn, is_checked };
                if found != present || found.is_none() {
                    self.hand_over(present.take(), port, bytes, entries);
                    present = found;
                }
                match found {
                    Some(_) => entries.push(entry),
                    None => self.on_unmatched(port, bytes, &entry, answer),
                }
            }
        }
        self.hand_over(present, port, bytes, entries);
    }

    /// Has a connection take its datagrams.
    fn hand_over(&mut self, key: Option<DefaultKey>, port: DefaultKey, bytes: &[u8], entries: &mut Vec<InboxEntry>) {
        if let Some(key) = key {
            self.start_polling(key);
            self.drive_with(key, Inbox::new(DatagramKey(port), bytes, entries));
            self.learn_peer(key);
        }
        entries.clear();
    }

    /// The peer's name of a connection becomes known in the course of its set-up.
    fn learn_peer(&mut self, key: DefaultKey) {
        let Some(Entry { member: Member::Connection(connection), names: Some((port, known)), .. }) =
            self.entries.get_mut(key)
        else {
            return;
        };
        if known.peer.is_some() {
            return;
        }
        if let Some((_, names)) = connection.lower.names() {
            *known = names;
            self.datagrams.add_peer(&names, key);
        } else {
            // The other way was faster.
            let (port, names) = (*port, *known);
            if let Some(entry) = self.entries.get_mut(key) {
                entry.names = None;
            }
            self.datagrams.remove(port, &names);
        }
    }

    /// A peer calls, or names what is not known.
    fn on_unmatched(&mut self, port: DefaultKey, bytes: &[u8], entry: &InboxEntry, answer: &mut Vec<u8>) {
        self.datagrams.unread.note(None, self.now);
        let Some(member) = self.datagrams.members.get(port) else { return };
        let listener = member.listener;
        let called = listener.filter(|_| N::Lower::destination(&bytes[entry.range.clone()]).is_call());
        let unconfirmed = called.map_or(0, |listener| self.unconfirmed(listener));
        let (offer, is_crowded) = called.map_or((None, false), |listener| self.offer_to_caller(listener, unconfirmed));
        let InboxEntry { from, to, ecn, is_checked, .. } = *entry;
        let datagram = Datagram { bytes: &bytes[entry.range.clone()], from, to, ecn, is_checked };
        let unmatched = Unmatched { datagram, port: DatagramKey(port), offer, is_crowded };
        answer.clear();
        let outcome = match (self.ask_acceptor(port, &unmatched, answer), listener) {
            // Before the caller gets an answer.
            (CallOutcome::Refused(error), Some(listener)) => {
                self.refuse_call(listener, entry.from, error);
                CallOutcome::Nothing
            }
            (outcome, _) => outcome,
        };
        if !answer.is_empty() {
            let from = entry.to.map(|to| weft_base::LocalAddress { interface: 0, ..to });
            let batch =
                DatagramBatch { to: entry.from.into(), from, segment_size: answer.len() as u32, ecn: Ecn::NotCapable };
            // A lost reply is requested again.
            let _ = self.datagrams.send(DatagramKey(port), &batch, &[Piece::Bytes(answer)]);
        }
        if let (CallOutcome::Call(lower), Some(listener)) = (outcome, listener) {
            self.make_way(listener, unconfirmed);
            self.begin_call(listener, lower, entry.from);
        }
    }

    /// What a listener offers to a caller, if it takes another call, and whether there are so many calls already that
    /// an address is to be proved first.
    fn offer_to_caller(&mut self, listener: DefaultKey, unconfirmed: usize) -> (Option<Offer>, bool) {
        let takes_call = self.takes_call(listener, unconfirmed);
        let Some(listening) = self.listening(listener) else { return (None, false) };
        let offer = Some(listening.offer).filter(|_| takes_call && listening.has_room());
        let is_crowded = (listening.pending() + unconfirmed) * CROWDED >= listening.backlog()
            || unconfirmed * CROWDED >= MOST_UNCONFIRMED;
        (offer.map(|offer| within_limits(&offer, &self.settings)), is_crowded)
    }

    fn ask_acceptor(
        &mut self,
        port: DefaultKey,
        unmatched: &Unmatched<'_>,
        answer: &mut Vec<u8>,
    ) -> CallOutcome<N::Lower> {
        // The acceptor is at a port, and what goes through it uses all ports.
        let Some(mut acceptor) = self.datagrams.take_acceptor(port) else { return CallOutcome::Nothing };
        let mut io = io!(self, Inbox::default());
        let lower = N::Lower::on_unmatched(&mut acceptor, unmatched, &mut io, answer);
        self.datagrams.put_acceptor(port, acceptor);
        lower
    }

    fn begin_call(&mut self, listener: DefaultKey, lower: N::Lower, from: SocketAddr) {
        let now = self.now;
        let added = self.add_connection(None, |_, _, deadline| Ok(Connection::called(lower, listener, deadline)));
        let Ok(connection) = added else { return };
        if let Some(listening) = self.listening(listener) {
            listening.begin(connection, from.ip(), now);
        }
        self.start_connection(connection);
    }

    fn refuse_call(&mut self, listener: DefaultKey, remote: SocketAddr, error: ConnectionError) {
        self.counters.failed_starts += 1;
        if let Some(listening) = self.listening(listener) {
            listening.refuse(RefusedStart { remote, error });
        }
    }

    /// What a host on the path says goes to the one whose datagram it quotes. What quotes none is nobody's: anybody
    /// can send it.
    fn take_hints(&mut self, port: DefaultKey) {
        for _ in 0..HINTS_OF_A_TURN {
            let Some(member) = self.datagrams.members.get_mut(port) else { return };
            let Some(hint) = member.poll_hint() else { return };
            let Some(to) = hint.to.ip() else { continue };
            let now = self.now;
            let Some(key) = self.datagrams.find(N::Lower::quoted(hint.quote.bytes()), to) else { continue };
            if let Some(connection) = self.connection_mut(key) {
                connection.lower.take_hint(&hint, now);
                self.start_connection(key);
            }
        }
    }
}

/// Of the next datagrams, `most` of which belong together, takes those that were all found good, or all not: how many
/// they are, and which of it. Those behind the end of `are_good` were not checked.
fn checked_alike(are_good: &mut &[bool], most: usize) -> (usize, bool) {
    let Some(first) = are_good.first().copied() else { return (most, false) };
    let count = are_good.iter().take(most).take_while(|good| **good == first).count();
    *are_good = &are_good[count..];
    (count, first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_datagrams_that_were_checked_alike_stay_together() {
        let mut are_good = &[true, true, false, true][..];
        // What was not found good is checked by the connection, whatever came together with it.
        assert_eq!(checked_alike(&mut are_good, 4), (2, true));
        assert_eq!(checked_alike(&mut are_good, 1), (1, false));
        assert_eq!(checked_alike(&mut are_good, 3), (1, true));
        assert_eq!(checked_alike(&mut are_good, 3), (3, false));
    }
}
