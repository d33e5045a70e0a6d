//! How connections and listeners come to an engine, and leave it.

use core::time::Duration;
use std::net::SocketAddr;
use std::sync::Arc;

use slotmap::DefaultKey;
use weft_base::{Clock, Interest, Listener, Network, Port as _, PortError, PortOptions, Time};

use super::ports::{PortKeys, token};
use super::timers::Queued;
use super::{ConnectTimeout, Engine, EngineClient, Entry, Member};
use crate::connection::{Connection, Context, Ending, Outcome, within_limits};
use crate::engine::listening::{Listening, PAUSE, RequestKey, Waiting, Yielding};
use crate::error::Error;
use crate::ids::ConnectionHandle;
use crate::lower::{
    Carrier, Datagrams as _, Inbox, Io, ListensAt, Pollable as _, Route, Scratch as _, Segments as _, Setup,
};
use crate::offer::{Offer, Transport};
use crate::queues::queue_pair::QueuePair;

/// How long the engine sleeps at a time while it waits for connections to end, and how many turns it makes while no
/// time passes.
const LAST_WORDS_INTERVAL: Duration = Duration::from_millis(1);
const TURNS_WITHOUT_TIME: u32 = 100;
/// A port is read this often when the NIC is closed: a full buffer of 8 MiB, and what comes meanwhile.
const LAST_READS: u32 = 64;
/// This many port numbers are tried until one is free for streams and for datagrams.
const NUMBERS_TRIED: u32 = 16;

/// A listener for streams, one for datagrams, and where they are.
type Listens<N> = (Option<<N as Network>::Listener>, Option<DefaultKey>, SocketAddr);

impl<N: Carrier, C: Clock, U: EngineClient> Engine<N, C, U> {
    /// Adds a connection that begins, with the start timeout of the settings if no other is given.
    pub(super) fn add_connection(
        &mut self,
        timeout: Option<Duration>,
        make: impl FnOnce(&mut N, &mut Io<'_, N::Scratch>, Time) -> Result<Connection<N>, Error>,
    ) -> Result<DefaultKey, Error> {
        let limit = self.settings.limits.connections;
        if self.connections >= limit as usize {
            return Err(Error::Limit { name: "connections", limit: u64::from(limit) });
        }
        // Where no thread has run the engine for long, the time that was read last is old.
        self.read_clock();
        let deadline = self.now + timeout.unwrap_or(self.settings.start_timeout);
        let mut io = io!(self, Inbox::default());
        let connection = make(&mut self.network, &mut io, deadline)?;
        Ok(self.insert(Box::new(connection)))
    }

    fn insert(&mut self, connection: Box<Connection<N>>) -> DefaultKey {
        let count = connection.lower.ports();
        let names = connection.lower.names();
        let (ports, queued) = (PortKeys::new(), Queued::default());
        let key = self.entries.insert(Entry { member: Member::Connection(connection), ports, queued, names });
        if let Some((port, names)) = &names {
            self.datagrams.add(*port, names, key);
        }
        let ports = self.ports.add_connection(key, count);
        if let Some(entry) = self.entries.get_mut(key) {
            entry.ports = ports;
        }
        self.connections += 1;
        self.scratch.prepare(self.connections);
        self.check_peer_later(key);
        self.queue(key);
        key
    }

    /// Begins to connect a queue pair, which was claimed for it or is of no other connection. Returns from where it
    /// connects, if that is known.
    pub(crate) fn connect(
        &mut self,
        queue_pair: &Arc<QueuePair>,
        route: Route,
        opening: <N::Lower as Setup<N, N::Scratch>>::Opening,
        patience: ConnectTimeout,
    ) -> Result<Option<SocketAddr>, Error> {
        let route = route.checked()?;
        let options = self.port_options(route.local);
        let mut local = None;
        let timeout = patience.timeout.unwrap_or(self.settings.start_timeout);
        let datagrams = N::Lower::calls_by_datagrams(&opening).then(|| self.calling_port(route)).transpose()?;
        let key = self.add_connection(Some(timeout), |network, io, deadline| {
            let lower = N::Lower::connect(network, route.remote, options, opening, datagrams, io)?;
            local = lower.local_address();
            let connection = Connection::initiate(lower, Arc::clone(queue_pair), deadline);
            Ok(if patience.for_program { connection.waiting_for_program(timeout) } else { connection })
        })?;
        queue_pair.begin(ConnectionHandle { worker: self.index, key });
        self.start_connection(key);
        Ok(local)
    }

    /// Accepts an incoming connection on a queue pair, which was claimed for it or is of no other connection.
    pub(crate) fn accept(
        &mut self,
        request: RequestKey,
        queue_pair: &Arc<QueuePair>,
        private_data: &[u8],
        depths: Option<(u16, u16)>,
    ) -> Result<(), Error> {
        let worker = self.index;
        self.decide(request.0, |connection, cx| {
            let begin = || queue_pair.begin(ConnectionHandle { worker, key: request.0 });
            connection.accept(queue_pair, private_data, depths, begin, cx)
        })
    }

    /// Rejects an incoming connection.
    pub(crate) fn reject(&mut self, request: RequestKey, private_data: &[u8]) -> Result<(), Error> {
        self.decide(request.0, |connection, cx| match connection.reject(private_data, cx) {
            Ok(outcome) => (Ok(()), outcome),
            Err(undecided) => connection.undecided(undecided, cx),
        })
    }

    /// Starts to poll a new connection, and drives it at once.
    pub(crate) fn start_connection(&mut self, key: DefaultKey) {
        self.start_polling(key);
        self.drive(key);
    }

    /// Gives away a connection, to another engine.
    pub(crate) fn detach(&mut self, key: DefaultKey) -> Option<Box<Connection<N>>> {
        self.connection(key)?;
        if self.connection(key)?.lower.names().is_some() {
            // Its port is this engine's.
            return None;
        }
        let Entry { member: Member::Connection(mut connection), ports, names, .. } = self.entries.remove(key)? else {
            return None;
        };
        for (index, port) in ports.iter().enumerate() {
            // Whatever is still reported for it has a token that means nothing any more.
            let _ = connection.lower.arm(&mut self.network, index, token(*port), Interest::NOTHING);
        }
        self.ports.remove(&ports);
        if let Some((port, names)) = names {
            // It was called by datagrams as well.
            self.datagrams.remove(port, &names);
        }
        self.polled.remove(key);
        self.at_low_water.remove(key);
        (connection.is_polled, connection.is_at_low_water) = (false, false);
        self.connections -= 1;
        Some(connection)
    }

    /// Takes a connection of another engine.
    pub(crate) fn adopt(&mut self, connection: Box<Connection<N>>) -> DefaultKey {
        self.insert(connection)
    }

    /// The peer of a guarded queue pair reaches its domain's memory from now on.
    pub(crate) fn admit(&mut self, key: DefaultKey) {
        if let Some(connection) = self.connection_mut(key) {
            connection.admit();
        }
    }

    /// Whether the peer of a connection knows that it is established; true where there is no such connection.
    pub(crate) fn is_confirmed(&self, key: DefaultKey) -> bool {
        self.connection(key).is_none_or(|connection| connection.lower.is_confirmed())
    }

    /// The transport by which the peer's host has taken a connection that is opened here, once it has.
    pub(crate) fn taken_by(&self, key: DefaultKey) -> Option<Transport> {
        let lower = &self.connection(key)?.lower;
        (!lower.is_connecting()).then(|| lower.transport())
    }

    /// The shortest round trip to the peer of a connection, where it is known.
    pub(crate) fn round_trip(&self, key: DefaultKey) -> Option<Duration> {
        self.connection(key)?.lower.round_trip()
    }

    /// The same, where the lower layer measures it as the connection is used.
    pub(crate) fn round_trip_by_now(&self, key: DefaultKey) -> Option<Duration> {
        self.connection(key)?.lower.round_trip_by_now()
    }

    /// What changes when bytes move towards the peer of a connection ([`Connection::sent_mark`]).
    pub(crate) fn sent_mark(&mut self, key: DefaultKey) -> (u64, usize) {
        self.connection_mut(key).map_or((0, 0), Connection::sent_mark)
    }

    pub(crate) fn end_connection(&mut self, key: DefaultKey, ending: Ending) {
        self.start_polling(key);
        self.with_connection(key, |connection, cx| connection.end(ending, cx));
    }

    pub(crate) fn port_options(&self, local: Option<SocketAddr>) -> PortOptions {
        PortOptions { local, peer_timeout: self.settings.peer_timeout, ..PortOptions::default() }
    }

    // --- listeners

    fn add_listener(
        &mut self,
        listener: Option<N::Listener>,
        datagrams: Option<DefaultKey>,
        offer: Offer,
        backlog: usize,
        waiting: Arc<Waiting>,
    ) -> DefaultKey {
        self.listeners += 1;
        let listening = Listening::new(listener, datagrams, offer, backlog, waiting);
        let member = Member::Listener(Box::new(listening));
        let (ports, queued) = (PortKeys::new(), Queued::default());
        let key = self.entries.insert(Entry { member, ports, queued, names: None });
        let port = self.ports.add_listener(key);
        if let Some(entry) = self.entries.get_mut(key) {
            entry.ports.push(port);
        }
        if let Some(datagrams) = datagrams {
            self.open_datagrams(datagrams, key);
        }
        self.arm(key, 1);
        key
    }

    pub(crate) fn connection_count(&self) -> usize {
        self.connections
    }

    pub(crate) fn remove_listener(&mut self, key: DefaultKey) {
        if self.listening(key).is_none() {
            return;
        }
        if let Some(Entry { member: Member::Listener(listening), ports, .. }) = self.entries.remove(key) {
            self.ports.remove(&ports);
            self.listeners -= 1;
            if let Some(datagrams) = listening.datagrams {
                self.close_datagrams(datagrams);
            }
            for pending in listening.close() {
                self.end_connection(pending, Ending::Abrupt);
            }
        }
    }

    /// Takes the streams that wait at a listener, as long as it has room for them. Where there is none, those that have
    /// connected and are silent make way.
    pub(super) fn accept_ports(&mut self, key: DefaultKey) {
        loop {
            let now = self.now;
            let Some(listening) = self.listening(key) else { return };
            listening.again_at = None;
            let port = if listening.has_room() { listening.accept() } else { Err(PortError::Exhausted) };
            let port = match port {
                Ok(Some(port)) => {
                    listening.end_shortage();
                    port
                }
                Ok(None) => break,
                Err(error @ PortError::InterfaceGone(_)) => return listening.fail(error),
                Err(error) => {
                    let (has_room, yielding) = (listening.has_room(), listening.yielding(now));
                    match yielding {
                        Yielding::Now(silent) if error == PortError::Exhausted => {
                            self.end_connection(silent, Ending::Abrupt);
                            continue;
                        }
                        // Out of resources the system would call again at once, and for nothing.
                        _ if has_room => {
                            // Silent ones make way soon.
                            if error == PortError::Exhausted && yielding == Yielding::Never {
                                self.refuse_some(key);
                            }
                            self.poll_again(key, now + PAUSE);
                        }
                        Yielding::At(at) => self.poll_again(key, at),
                        // A listener that has room again is armed again.
                        Yielding::Now(_) | Yielding::Never => {}
                    }
                    return;
                }
            };
            let remote = port.remote_address().ip();
            let offer = listening.offer;
            let offer = within_limits(&offer, &self.settings);
            let added = self.add_connection(None, |_, _, deadline| Ok(Connection::respond(port, key, offer, deadline)));
            let Ok(connection) = added else { return self.poll_again(key, now + PAUSE) };
            if let Some(listening) = self.listening(key) {
                listening.begin(connection, remote, now);
            }
            self.start_connection(connection);
        }
        self.arm(key, 1);
    }

    /// Polls a listener again then.
    pub(super) fn poll_again(&mut self, key: DefaultKey, at: Time) {
        if let Some(listening) = self.listening(key) {
            listening.again_at = Some(at);
            self.queue(key);
        }
    }

    /// A request has come in whole.
    pub(super) fn announce(&mut self, listener: DefaultKey, request: DefaultKey) {
        let Some(connection) = self.connection(request) else { return };
        let Some(info) = connection.lower.request() else { return };
        if self.is_to_be_refused(listener, request) {
            return self.refuse_for_shortage(listener, request);
        }
        match self.listening(listener) {
            Some(listening) => listening.announce(request, info),
            None => self.end_connection(request, Ending::Abrupt),
        }
    }

    /// Does something with a connection that waits for a decision. It is no longer the listener's afterwards.
    pub(crate) fn decide<R>(
        &mut self,
        key: DefaultKey,
        act: impl FnOnce(&mut Connection<N>, &mut Context<'_, N::Scratch>) -> (Result<R, Error>, Outcome),
    ) -> Result<R, Error> {
        let mut result = Err(Error::RequestGone);
        let mut listener = None;
        self.with_connection(key, |connection, cx| {
            let (decided, outcome) = act(connection, cx);
            result = decided;
            if result.is_ok() {
                listener = connection.listener.take();
            }
            outcome
        });
        if let Some(listener) = listener {
            self.forget_pending(listener, key);
            self.await_confirmation(listener, key);
        }
        if result.is_ok() {
            self.start_connection(key);
        }
        result
    }

    /// Listens, and has requests wait at `waiting`. Returns the listener, and where it is.
    pub(crate) fn listen_for(
        &mut self,
        address: SocketAddr,
        backlog: u32,
        offer: Offer,
        waiting: Arc<Waiting>,
    ) -> Result<(DefaultKey, SocketAddr), Error> {
        let limit = self.settings.limits.listeners;
        if self.listeners >= limit as usize {
            return Err(Error::Limit { name: "listeners", limit: u64::from(limit) });
        }
        let at = N::Lower::listens_at(&offer);
        let (listener, datagrams, address) = self.listen(address, backlog, at)?;
        Ok((self.add_listener(listener, datagrams, offer, backlog as usize, waiting), address))
    }

    /// Listens for streams, for datagrams, or for both at the same number.
    fn listen(&mut self, address: SocketAddr, backlog: u32, at: ListensAt) -> Result<Listens<N>, PortError> {
        if !at.streams {
            let (key, address) = self.bind_datagrams(address)?;
            return Ok((None, Some(key), address));
        }
        for attempt in 1.. {
            let options = PortOptions { shared_memory: at.shared_memory, ..self.port_options(None) };
            let listener = self.network.listen(address, weft_base::Backlog(backlog), options)?;
            let local = listener.local_address();
            if !at.datagrams {
                return Ok((Some(listener), None, local));
            }
            match self.bind_datagrams(local) {
                Ok((key, _)) => return Ok((Some(listener), Some(key), local)),
                // Another number may be free for both.
                Err(PortError::AddressInUse) if address.port() == 0 && attempt < NUMBERS_TRIED => {}
                // A caller by datagrams finds no program, and comes by a stream.
                Err(_) => return Ok((Some(listener), None, local)),
            }
        }
        Err(PortError::AddressInUse)
    }

    /// Completes what was closed and has not reached its peer yet. An operating system does this for streams of a
    /// program that has ended, but not for datagrams, nor for streams of a network in this process.
    fn send_last_words(&mut self) {
        let mut now = self.clock.now();
        let until = now + self.settings.close_timeout;
        let mut without_time = 0;
        while (self.entries.values().any(Entry::has_last_words) || self.network.owes())
            && now < until
            && without_time < TURNS_WITHOUT_TIME
        {
            if !self.turn() {
                self.arm_low_water();
                self.poll_armed(Some(LAST_WORDS_INTERVAL));
            }
            self.read_clock();
            // Nor does time pass where it is a simulated one.
            without_time = if self.now > now { 0 } else { without_time + 1 };
            now = self.now;
        }
    }

    /// Receives what is in the datagram ports, which may have been left unread, so that it is acknowledged before its
    /// connection is aborted: an operating system does this for streams.
    fn receive_last_datagrams(&mut self) {
        self.read_clock();
        let ports: Vec<DefaultKey> = self.datagrams.members.keys().collect();
        for port in ports {
            for _ in 0..LAST_READS {
                if !self.receive_datagrams(port) {
                    break;
                }
            }
        }
    }

    /// Takes everything down: the NIC is being closed.
    pub(crate) fn close(&mut self) {
        self.send_last_words();
        self.receive_last_datagrams();
        let all: Vec<DefaultKey> = self.entries.keys().collect();
        for key in all {
            self.end_connection(key, Ending::Abrupt);
        }
    }
}
