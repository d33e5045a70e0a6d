//! The engine's datagram ports: many connections share one, and each datagram is brought to the one it names.

use core::any::Any;
use core::hash::{BuildHasherDefault, Hasher};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use slotmap::{DefaultKey, SlotMap};
use weft_base::{
    DatagramBatch, DatagramLimits, DatagramOptions, DatagramPort, DatagramSent, Hint, HostAddress, HostId, Interest,
    LocalAddress, Piece, PortError, Random, ReceivedDatagrams,
};

use super::codes::{code, host_key, reset_key};
use super::doorbell::Doorbell;
use super::known_calls::KnownCalls;
use super::served_port::{Brought, PortServer, ServedPort, ServingEnd};
use super::unread::Unread;
use crate::key::JobKey;
use crate::lower::{
    AcceptorOf, Carrier, ConnectionIds, DatagramKey, DatagramPorts, Datagrams as _, Destination, InboxEntry, RailPort,
    RailPorts, ServedPorts, TxBatch, TxBatchOf,
};
use crate::policy::arming::{DisarmPolicy, arms_port, polls_port};
use crate::policy::constants::ASK_PORTS_EVERY_TURNS;
use crate::settings::Rails;

/// Bytes of buffers to ask the operating system for; it gives what it may.
const BUFFER_BYTES: u32 = 8 << 20;
/// A peer may have this many bytes under way at least, however many share the port.
const LEAST_CREDIT: u32 = 16 << 10;

/// One port.
pub(super) struct Member<N: Carrier> {
    port: PortOf<N>,
    /// Where it is bound.
    local: Option<SocketAddr>,
    acceptor: Option<AcceptorOf<N>>,
    /// What listens at it.
    pub(super) listener: Option<DefaultKey>,
    /// Its key among all ports that the network may tell of.
    pub(super) token: DefaultKey,
    /// Where calls come from.
    calls_from: Option<IpAddr>,
    /// Connections that use it.
    connections: u32,
    pub(super) is_polled: bool,
    /// The operating system tells when something comes.
    is_watched: bool,
    /// Whether it does so while the port is polled.
    disarm: DisarmPolicy,
    empty_polls: u32,
    /// The names of connections that wait for room.
    pub(super) waiting: Vec<u64>,
    limits: DatagramLimits,
    /// Rails leave from it: any connection may use it.
    is_rail: bool,
}

/// Which engine serves a port.
enum PortOf<N: Carrier> {
    /// This engine.
    Own(N::Datagram),
    /// Another one.
    Served(Arc<ServedPort<TxBatchOf<N>>>),
}

/// ConnectionIds that are random, and our own: nothing is to be gained by hashing them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NameHasher(u64);

impl Hasher for NameHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, name: u64) {
        self.0 = name;
    }
}

/// All ports, the connections that use them, and the room that datagrams are received into.
pub(super) struct Datagrams<N: Carrier> {
    pub(super) members: SlotMap<DefaultKey, Member<N>>,
    /// Ports among these that other engines serve; and such as were left before all transmit batches had.
    served: usize,
    left: Vec<(DefaultKey, Arc<ServedPort<TxBatchOf<N>>>)>,
    rails: Vec<RailPort>,
    /// From which the rails were made, and how often they have changed.
    addresses: Vec<HostAddress>,
    rails_serial: u32,
    /// Where connections are that have left the port that they began at, by their names.
    moved: HashMap<u64, DatagramKey>,
    /// All of the host's, for their names.
    host_addresses: Vec<HostAddress>,
    own: HashMap<u64, DefaultKey, BuildHasherDefault<NameHasher>>,
    peers: HashMap<(SocketAddr, u64), DefaultKey>,
    /// By what peers call them alone. A peer that takes the name of another's connection gains nothing: only a peer
    /// that has the token ends one.
    forgotten: HashMap<u64, DefaultKey>,
    known_calls: KnownCalls,
    /// Room for what is received, made with the first port. `None` while what is in it is delivered.
    pub(super) room: Option<Box<Room>>,
    /// Ports that are polled in this turn.
    pub(super) polled_ports: Vec<DefaultKey>,
    pub(super) unread: Unread,
    secret: [u8; 32],
    host: [u8; 32],
    /// The job\'s key.
    key: Option<JobKey>,
    drawn: u64,
}

/// What is received, and what it is for.
#[derive(Default)]
pub(super) struct Room {
    pub(super) bytes: Vec<u8>,
    pub(super) received: Vec<ReceivedDatagrams>,
    pub(super) entries: Vec<InboxEntry>,
    pub(super) answer: Vec<u8>,
}

/// Has the engine that serves a port send bytes that the caller has.
fn send_to<P: TxBatch>(
    served_port: &ServedPort<P>,
    batch: &DatagramBatch,
    pieces: &[Piece<'_>],
) -> Result<DatagramSent, PortError> {
    let [Piece::Bytes(bytes)] = pieces else { return Err(PortError::NotPermitted) };
    if served_port.is_gone() {
        return Err(PortError::Reset);
    }
    let count = bytes.len().div_ceil(batch.segment_size.max(1) as usize) as u32;
    let taken = served_port.post(|tx_batch| tx_batch.fill(batch, bytes));
    Ok(DatagramSent::Taken(if taken { count } else { 0 }))
}

impl<N: Carrier> Datagrams<N> {
    pub(super) fn new(random: &mut Random, host: Option<HostId>, key: Option<JobKey>) -> Self {
        let mut secret = [0; 32];
        random.fill(&mut secret);
        let host = host_key(host, &secret);
        Self {
            members: SlotMap::new(),
            served: 0,
            left: Vec::new(),
            rails: Vec::new(),
            addresses: Vec::new(),
            rails_serial: 0,
            moved: HashMap::new(),
            host_addresses: Vec::new(),
            own: HashMap::default(),
            peers: HashMap::new(),
            forgotten: HashMap::new(),
            known_calls: KnownCalls::default(),
            room: None,
            polled_ports: Vec::new(),
            unread: Unread::default(),
            secret,
            host,
            key,
            drawn: 0,
        }
    }

    /// Whether the operating system is to be asked in this turn about those that it watches, and that connections use.
    /// Where others are polled, not in each: at those nothing has come for long, and a system call in each poll
    /// would put off what arrives at the others.
    pub(super) fn is_poll_due(&self, turn: u32) -> bool {
        let is_used = |member: &Member<N>| member.connections > 0 || member.is_rail && !self.own.is_empty();
        let (mut any_polled, mut any_armed) = (false, false);
        for member in self.members.values().filter(|member| is_used(member)) {
            any_polled |= member.is_polled;
            any_armed |= !member.is_polled;
        }
        any_armed && (!any_polled || turn.is_multiple_of(ASK_PORTS_EVERY_TURNS))
    }

    /// Makes a port.
    pub(super) fn bind(&mut self, network: &mut N, at: SocketAddr, token: DefaultKey) -> Result<DefaultKey, PortError> {
        let port = network.bind(at, DatagramOptions { buffer_bytes: Some(BUFFER_BYTES), offload: true })?;
        let limits = port.limits();
        // Ports of other kinds may need more.
        let room = self.room.get_or_insert_default();
        let bytes = room.bytes.len().max(limits.receive_bytes as usize * limits.received as usize);
        room.bytes.resize(bytes, 0);
        let local = port.local_address().ip();
        let reset_key = reset_key(&self.host, local);
        let acceptor = N::Lower::acceptor(reset_key, code(&self.secret, &[b"cookies"]), self.key.as_ref());
        let member = Member {
            port: PortOf::Own(port),
            local,
            acceptor: Some(acceptor),
            listener: None,
            token,
            calls_from: None,
            connections: 0,
            is_polled: false,
            is_watched: false,
            disarm: DisarmPolicy::default(),
            empty_polls: 0,
            waiting: Vec::new(),
            limits,
            is_rail: false,
        };
        Ok(self.members.insert(member))
    }

    /// The port from which calls to `remote` are made.
    pub(super) fn caller(
        &mut self,
        network: &mut N,
        remote: SocketAddr,
        local: Option<SocketAddr>,
        token: impl FnOnce() -> DefaultKey,
    ) -> Result<DefaultKey, PortError> {
        let any = if remote.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let said = local.map(|local| local.ip()).filter(|ip| !ip.is_unspecified());
        let ip = said.or_else(|| network.source_to(remote.ip())).unwrap_or(any);
        let number = local.map_or(0, |local| local.port());
        let found = self.members.iter().find(|(_, member)| number == 0 && member.calls_from == Some(ip));
        if let Some((key, _)) = found {
            return Ok(key);
        }
        let key = self.bind(network, SocketAddr::new(ip, number), token())?;
        self.members[key].calls_from = Some(ip);
        Ok(key)
    }

    /// Whether the host's addresses, or their carriers, are others than before.
    pub(super) fn has_other_addresses(&self, addresses: &[HostAddress]) -> bool {
        self.addresses != addresses
    }

    /// These are all of the host's addresses from now on, whether rails leave by them or not.
    pub(super) fn set_host_addresses(&mut self, addresses: &[HostAddress]) {
        if self.host_addresses != addresses {
            self.host_addresses = addresses.to_vec();
        }
    }

    /// These are the addresses that rails leave by from now on.
    pub(super) fn set_addresses(&mut self, addresses: Vec<HostAddress>) {
        self.addresses = addresses;
        self.rails_serial += 1;
    }

    /// Whether this flow leaves from an address.
    pub(super) fn has_rail(&self, from: LocalAddress, flow: u8) -> bool {
        self.rails.iter().any(|rail| rail.from == from && rail.flow == flow)
    }

    /// How many leave.
    pub(super) fn rail_count(&self) -> usize {
        self.rails.len()
    }

    /// Where a port is bound.
    pub(super) fn bound(&self, key: DefaultKey) -> Option<SocketAddr> {
        self.members.get(key)?.local
    }

    /// Whether there are as many as a connection can have.
    pub(super) fn is_full_of_rails(&self) -> bool {
        self.rails.len() >= Rails::MOST
    }

    /// Rails leave from the others no more. Returns the ports.
    pub(super) fn remove_rails(&mut self, left: &[HostAddress]) -> Vec<DefaultKey> {
        let stays = |rail: &RailPort| left.iter().any(|address| address.address == rail.from);
        let (stay, gone): (Vec<_>, Vec<_>) = self.rails.drain(..).partition(stays);
        self.rails = stay;
        for rail in &gone {
            if let Some(member) = self.members.get_mut(rail.port.0) {
                member.is_rail = false;
            }
        }
        gone.into_iter().map(|rail| rail.port.0).collect()
    }

    /// Rails leave from a port from now on.
    pub(super) fn add_rail(&mut self, network: &mut N, key: DefaultKey, from: LocalAddress, flow: u8) {
        let Some(member) = self.members.get_mut(key) else { return };
        let Some(address) = member.local else { return };
        member.is_rail = true;
        member.arm(network);
        self.rails.push(RailPort { port: DatagramKey(key), from, flow, address });
    }

    /// The port at this address at which no program listens.
    pub(super) fn left_at(&self, at: SocketAddr) -> Option<DefaultKey> {
        let is_left = |member: &Member<N>| {
            let is_left = member.listener.is_none() && member.calls_from.is_none() && !member.is_rail;
            is_left && member.local == Some(at)
        };
        self.members.iter().find(|(_, member)| is_left(member)).map(|(key, _)| key)
    }

    /// Whether nothing needs a port any more.
    pub(super) fn is_unused(&self, key: DefaultKey) -> bool {
        let is_unused = |member: &Member<N>| {
            member.listener.is_none() && member.calls_from.is_none() && member.connections == 0 && !member.is_rail
        };
        self.members.get(key).is_some_and(is_unused)
    }

    /// The families of the ports at one address that this host has no more, and that connections use: one of each.
    pub(super) fn lost_families(&self) -> impl Iterator<Item = IpAddr> + use<N> {
        let is_lost = |member: &&Member<N>| {
            let ip = member.local.map(|local| local.ip()).filter(|ip| !ip.is_unspecified() && !ip.is_loopback());
            member.connections > 0 && ip.is_some_and(|ip| self.host_addresses.iter().all(|host| host.address.ip != ip))
        };
        let lost: Vec<_> = self.members.values().filter(is_lost).filter_map(|member| member.local).collect();
        let families = [IpAddr::from(Ipv4Addr::UNSPECIFIED), IpAddr::from(Ipv6Addr::UNSPECIFIED)];
        families.into_iter().filter(move |any| lost.iter().any(|local| local.is_ipv4() == any.is_ipv4()))
    }

    /// The acceptor of a port, until it is put back.
    pub(super) fn take_acceptor(&mut self, key: DefaultKey) -> Option<AcceptorOf<N>> {
        self.members.get_mut(key)?.acceptor.take()
    }

    /// Puts it back.
    pub(super) fn put_acceptor(&mut self, key: DefaultKey, acceptor: AcceptorOf<N>) {
        if let Some(member) = self.members.get_mut(key) {
            member.acceptor = Some(acceptor);
        }
    }

    // --- which connection a datagram is for

    pub(super) fn add(&mut self, port: DatagramKey, names: &ConnectionIds, connection: DefaultKey) {
        self.own.insert(names.own, connection);
        self.add_peer(names, connection);
        if let Some(member) = self.members.get_mut(port.0) {
            member.connections += 1;
        }
    }

    pub(super) fn add_peer(&mut self, names: &ConnectionIds, connection: DefaultKey) {
        if let Some(peer) = names.peer {
            self.peers.insert(peer, connection);
            self.forgotten.insert(peer.1, connection);
        }
    }

    pub(super) fn remove(&mut self, port: DatagramKey, names: &ConnectionIds) {
        let connection = self.own.remove(&names.own);
        let port = self.moved.remove(&names.own).unwrap_or(port);
        if let Some(peer) = names.peer {
            if self.peers.get(&peer).copied() == connection {
                self.peers.remove(&peer);
            }
            if self.forgotten.get(&peer.1).copied() == connection {
                self.forgotten.remove(&peer.1);
            }
        }
        if let Some(member) = self.members.get_mut(port.0) {
            member.connections -= 1;
        }
    }

    /// The connection that a datagram is for.
    pub(super) fn find(&self, destination: Destination, from: SocketAddr) -> Option<DefaultKey> {
        match destination {
            Destination::Own(name) => self.own.get(&name).copied(),
            Destination::Peer(name) => self.peers.get(&(from, name)).copied(),
            Destination::Forgotten(name) => self.forgotten.get(&name).copied(),
            Destination::Nobody => None,
        }
    }

    pub(super) fn find_own(&self, name: u64) -> Option<DefaultKey> {
        self.own.get(&name).copied()
    }

    // --- looking

    /// Has the operating system watch all that are polled.
    pub(super) fn watch_all(&mut self, network: &mut N) {
        for member in self.members.values_mut().filter(|member| member.is_polled) {
            member.stop_polling(network);
        }
    }

    /// Has the operating system watch those of these ports at which nothing has come for long: all that are polled.
    pub(super) fn watch_idle(&mut self, network: &mut N, polled: &[DefaultKey]) {
        for key in polled {
            if let Some(member) =
                self.members.get_mut(*key).filter(|member| arms_port(member.empty_polls, polled.len()))
            {
                member.stop_polling(network);
            }
        }
    }

    /// Whether one is polled.
    pub(super) fn any_polled(&self) -> bool {
        self.members.values().any(|member| member.is_polled)
    }

    /// How many are polled.
    fn polled(&self) -> usize {
        self.members.values().filter(|member| member.is_polled).count()
    }

    /// Receives at a port, into the room. Returns whether anything has come.
    pub(super) fn receive(&mut self, network: &mut N, key: DefaultKey) -> bool {
        let Self { members, room, .. } = self;
        let (Some(member), Some(room)) = (members.get_mut(key), room) else { return false };
        room.received.clear();
        let PortOf::Own(port) = &mut member.port else { return false };
        // A broken port is one at which nothing comes.
        let count = port.receive(&mut room.bytes, &mut room.received).unwrap_or(0);
        if count == 0 {
            member.empty_polls = member.empty_polls.saturating_add(1);
            return false;
        }
        member.empty_polls = 0;
        // epoll reports room only while it is watched.
        if member.is_polled && member.waiting.is_empty() && member.disarm.found() {
            // Where it fails, it stays armed.
            let _ = network.arm_datagram(port, super::ports::token(member.token), Interest::NOTHING);
        }
        true
    }

    // --- ports that other engines serve

    /// Has another engine serve a port that no connection has used yet.
    pub(super) fn give_away(&mut self, key: DefaultKey, own: &Arc<Doorbell>, to: &PortServer<N>) {
        let Some(member) = self.members.get_mut(key) else { return };
        let served_port = Arc::new(ServedPort::new(own, &to.doorbell));
        if let PortOf::Own(port) = core::mem::replace(&mut member.port, PortOf::Served(Arc::clone(&served_port))) {
            self.served += 1;
            to.bring(Brought { port, served_port: ServingEnd(served_port) });
        }
    }

    /// The served port of a port that another engine serves.
    pub(super) fn served_port(&self, key: DefaultKey) -> Option<&Arc<ServedPort<TxBatchOf<N>>>> {
        if self.served == 0 {
            return None;
        }
        match &self.members.get(key)?.port {
            PortOf::Own(_) => None,
            PortOf::Served(served_port) => Some(served_port),
        }
    }

    /// Those of which their servers have something to tell.
    pub(super) fn with_news(&self) -> impl Iterator<Item = DefaultKey> {
        let has_news =
            |member: &Member<N>| matches!(&member.port, PortOf::Served(served_port) if served_port.has_news());
        self.members.iter().filter(move |(_, member)| has_news(member)).map(|(key, _)| key)
    }

    /// Takes a port away.
    pub(super) fn remove_member(&mut self, key: DefaultKey) -> Option<DefaultKey> {
        let member = self.members.remove(key)?;
        if let PortOf::Served(served_port) = member.port {
            self.served -= 1;
            served_port.leave();
            self.left.retain(|(_, served_port)| served_port.posted().is_some());
            self.left.push((key, served_port));
        }
        Some(member.token)
    }
}

impl<N: Carrier> Member<N> {
    pub(super) fn arm(&mut self, network: &mut N) {
        // The engine that serves it rings.
        let PortOf::Own(port) = &mut self.port else { return };
        let interest = Interest { readable: true, writable: !self.waiting.is_empty(), least: 1 };
        self.disarm.armed();
        self.is_watched = network.arm_datagram(port, super::ports::token(self.token), interest).is_ok();
        // What can't be armed is polled instead.
        self.is_polled |= !self.is_watched;
    }

    /// It is armed, and not polled.
    fn stop_polling(&mut self, network: &mut N) {
        self.is_polled = false;
        self.arm(network);
    }

    /// What a host on the path says.
    pub(super) fn poll_hint(&mut self) -> Option<Hint> {
        match &mut self.port {
            PortOf::Own(port) => port.poll_hint(),
            PortOf::Served(served_port) => served_port.take_hint(),
        }
    }

    pub(super) fn start_polling(&mut self) {
        (self.is_polled, self.is_watched) = (true, false);
        self.empty_polls = 0;
    }
}

impl<N: Carrier> DatagramPorts for Datagrams<N> {
    fn send(
        &mut self,
        port: DatagramKey,
        batch: &DatagramBatch,
        pieces: &[Piece<'_>],
    ) -> Result<DatagramSent, PortError> {
        let is_watched = self.members.get(port.0).ok_or(PortError::Reset)?.is_watched;
        let polls = !is_watched || polls_port(self.members.len(), self.polled());
        let member = &mut self.members[port.0];
        // An answer is likely.
        if polls {
            member.start_polling();
        }
        match &mut member.port {
            PortOf::Own(port) => port.send(batch, pieces),
            PortOf::Served(served_port) => send_to(served_port, batch, pieces),
        }
    }

    fn limits(&self, port: DatagramKey) -> DatagramLimits {
        let nothing = DatagramLimits {
            batch_datagrams: 1,
            batch_bytes: 1200,
            batch_pieces: 1,
            receive_bytes: 0,
            received: 0,
            send_buffer_bytes: 0,
            receive_buffer_bytes: 0,
        };
        self.members.get(port.0).map_or(nothing, |member| member.limits)
    }

    fn local_address(&self, port: DatagramKey) -> Option<SocketAddr> {
        self.members.get(port.0).and_then(|member| member.local)
    }

    fn credit(&self, port: DatagramKey) -> u32 {
        let Some(member) = self.members.get(port.0) else { return LEAST_CREDIT };
        // The operating system counts what it needs beside the bytes as well.
        let users = if member.is_rail { self.own.len() as u32 } else { member.connections };
        let share = member.limits.receive_buffer_bytes / 2 / users.max(1);
        share.max(LEAST_CREDIT)
    }

    fn overflowed(&self, port: DatagramKey) -> u64 {
        self.members.get(port.0).map_or(0, |member| match &member.port {
            PortOf::Own(port) => port.counters().overflowed,
            PortOf::Served(served_port) => served_port.overflowed(),
        })
    }

    fn wait_for_room(&mut self, port: DatagramKey, name: u64) {
        if let Some(member) = self.members.get_mut(port.0)
            && !member.waiting.contains(&name)
        {
            member.waiting.push(name);
            // It is armed for room as well before a thread sleeps.
            member.start_polling();
        }
        if let Some(served_port) = self.served_port(port.0) {
            served_port.want_room();
        }
    }

    fn note_call(&mut self, name: u128) -> bool {
        self.known_calls.note(name)
    }

    fn forget_call(&mut self, name: u128) {
        self.known_calls.forget(name);
    }

    fn secret_bytes(&mut self) -> [u8; 64] {
        self.drawn += 1;
        let number = self.drawn.to_be_bytes();
        let (one, two) = (code(&self.secret, &[b"1", &number]), code(&self.secret, &[b"2", &number]));
        core::array::from_fn(|at| if at < 32 { one[at] } else { two[at - 32] })
    }

    fn reset_key(&self, port: DatagramKey) -> [u8; 32] {
        reset_key(&self.host, self.bound(port.0))
    }
}

impl<N: Carrier> RailPorts for Datagrams<N> {
    fn rails(&self) -> &[RailPort] {
        &self.rails
    }

    fn interface_of(&self, ip: IpAddr) -> Option<&str> {
        let found = self.host_addresses.iter().find(|host| host.address.ip == ip);
        found.map(|host| host.interface.as_str())
    }

    fn beside(&self, own: IpAddr, peer: IpAddr) -> Option<LocalAddress> {
        let is_own = |host: &&HostAddress| host.address.ip == own && host.is_beside(peer);
        self.host_addresses.iter().find(is_own).map(|host| host.address)
    }

    fn move_to_any(&mut self, port: DatagramKey, name: u64) -> Option<DatagramKey> {
        let is_ipv4 = self.members.get(port.0)?.local?.is_ipv4();
        let is_any =
            |member: &Member<N>| member.calls_from.is_some_and(|ip| ip.is_unspecified() && ip.is_ipv4() == is_ipv4);
        let any = self.members.iter().find(|(_, member)| is_any(member)).map(|(key, _)| key)?;
        self.members[port.0].connections -= 1;
        self.members[any].connections += 1;
        self.moved.insert(name, DatagramKey(any));
        Some(DatagramKey(any))
    }

    fn rails_serial(&self) -> u32 {
        self.rails_serial
    }
}

impl<N: Carrier> ServedPorts for Datagrams<N> {
    fn any_served(&self) -> bool {
        self.served > 0 || !self.left.is_empty()
    }

    fn post(&mut self, port: DatagramKey, fill: &mut dyn FnMut(&mut dyn Any)) -> bool {
        let Some(member) = self.members.get_mut(port.0) else { return false };
        let PortOf::Served(served_port) = &member.port else { return false };
        let posted = served_port.post(|tx_batch| fill(tx_batch));
        // An answer is likely.
        member.start_polling();
        posted
    }

    fn posted(&self, port: DatagramKey) -> Option<u64> {
        let left = || self.left.iter().find(|(key, _)| *key == port.0).map(|(_, served_port)| served_port);
        self.served_port(port.0).or_else(left)?.posted()
    }

    fn have_left(&mut self, port: DatagramKey, mark: u64, name: u64) -> bool {
        if let Some((_, served_port)) = self.left.iter().find(|(key, _)| *key == port.0) {
            return served_port.have_left(mark, name);
        }
        let Some(member) = self.members.get_mut(port.0) else { return true };
        let PortOf::Served(served_port) = &member.port else { return true };
        let have_left = served_port.have_left(mark, name);
        if !have_left && !member.waiting.contains(&name) {
            member.waiting.push(name);
        }
        have_left
    }

    fn take_back(&mut self, port: DatagramKey, name: u64) {
        if let Some(served_port) = self.served_port(port.0) {
            served_port.take_back(name);
        }
    }
}
