//! The network, ports and listeners of a simulated world.

use core::marker::PhantomData;
use core::time::Duration;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use weft_base::{
    Backlog, DatagramOptions, HostAddress, Interest, Iwarp, Lending, Listener, LocalAddress, Network, NoDigest, Piece,
    Port, PortError, PortOptions, Random, Readiness, ReceivePiece, Received, Segmented, StreamPosition, Token, Waker,
    Watch,
};
use weft_memory::{MemoryError, Registry};
use weft_nic::lower::Stack;

use crate::datagram::SimulatedDatagramPort;
use crate::pipe::{Ended, Segments};
use crate::ring::{Line, RingPort};
use crate::shuffle::Disorder;
use crate::world::{Caller, Listening, World};

/// A tag that says which lower layer the streams of a simulated network have: [`Iwarp`], [`Shuffle`](crate::Shuffle),
/// or one's own.
pub trait Tag: Stack<SimulatedNetwork<Self>> + Sized {}

impl<T: Stack<SimulatedNetwork<T>>> Tag for T {}

/// The network of one simulated host, whose streams have the lower layer of this tag.
pub struct SimulatedNetwork<T = Iwarp> {
    world: World,
    registry: Registry,
    host: usize,
    armed: BTreeMap<Token, Watched>,
    tag: PhantomData<fn() -> T>,
}

enum Watched {
    Port { inbound: usize, outbound: usize, interest: Interest },
    Ring { line: Line, side: usize, has_work: bool },
    Listener(SocketAddr),
    Datagram { port: u64, interest: Interest },
}

impl<T> SimulatedNetwork<T> {
    /// The network of a host with these addresses; with none, it has any address that is requested.
    pub(crate) fn new(world: World, registry: Registry, addresses: &[IpAddr]) -> Self {
        let host = world.lock().packets.add_host(addresses);
        Self { world, registry, host, armed: BTreeMap::new(), tag: PhantomData }
    }

    /// Another network of the same host, for another engine of its NIC.
    pub(crate) fn beside(&self) -> Self {
        let (world, registry) = (self.world.clone(), self.registry.clone());
        Self { world, registry, host: self.host, armed: BTreeMap::new(), tag: PhantomData }
    }
}

struct NoWaker;

impl Waker for NoWaker {
    fn wake(&self) {}
}

/// No thread sleeps in virtual time.
struct NoWatch;

impl Watch for NoWatch {
    fn sleep(&self, _: Option<Duration>) -> bool {
        false
    }

    fn set_packets(&self, _: bool) {}

    fn set_timer(&self, _: Duration) {}

    fn wake(&self) {}
}

impl<T> Network for SimulatedNetwork<T> {
    type Port = SimulatedPort;
    type Listener = SimulatedListener;
    type Datagram = SimulatedDatagramPort;
    type Stack = T;

    fn connect(&mut self, remote: SocketAddr, options: PortOptions) -> Result<SimulatedPort, PortError> {
        let mut state = self.world.lock();
        let number = state.take_port_number();
        // All are on one host, and a stream to one of its addresses comes from there.
        let local = options.local.unwrap_or_else(|| SocketAddr::new(remote.ip(), number));
        if options.shared_memory
            && let Some(behaviour) = state.behaviour.ring
        {
            let line = state.add_line(behaviour);
            let listening = state.listeners.get_mut(&remote).filter(|listening| listening.shares_memory);
            let (world, registry, ends) = (self.world.clone(), self.registry.clone(), (local, remote));
            return Ok(SimulatedPort::Ring(match listening {
                Some(_) if let Some(after) = behaviour.declines_after => {
                    line.hang_up(1, state.now + after);
                    RingPort::new(world, registry, line, 0, ends)
                }
                Some(listening) if listening.waiting.len() < listening.backlog => {
                    listening.waiting.push_back((Caller::Ring(line.clone()), local));
                    RingPort::new(world, registry, line, 0, ends)
                }
                _ => RingPort::refused(world, registry, line, ends),
            }));
        }
        let (to_there, to_here) = state.add_pipes();
        let found = match state.listeners.get_mut(&remote) {
            Some(listening) if listening.waiting.len() < listening.backlog => {
                listening.waiting.push_back((Caller::Pipes(to_there, to_here), local));
                true
            }
            _ => false,
        };
        drop(state);
        Ok(SimulatedPort::Pipe(PipePort {
            world: self.world.clone(),
            registry: self.registry.clone(),
            inbound: to_here,
            outbound: to_there,
            local,
            remote,
            refused: !found,
        }))
    }

    fn listen(
        &mut self,
        mut local: SocketAddr,
        backlog: Backlog,
        options: PortOptions,
    ) -> Result<SimulatedListener, PortError> {
        let mut state = self.world.lock();
        if local.port() == 0 {
            local.set_port(state.take_port_number());
        }
        if state.listeners.contains_key(&local) {
            return Err(PortError::AddressInUse);
        }
        let shares_memory = options.shared_memory && state.behaviour.ring.is_some();
        let listening = Listening { backlog: backlog.0 as usize, shares_memory, ..Listening::default() };
        state.listeners.insert(local, listening);
        drop(state);
        Ok(SimulatedListener { world: self.world.clone(), registry: self.registry.clone(), local })
    }

    fn arm_port(&mut self, port: &mut SimulatedPort, token: Token, interest: Interest) -> Result<(), PortError> {
        let watched = match port {
            SimulatedPort::Pipe(port) => Watched::Port { inbound: port.inbound, outbound: port.outbound, interest },
            SimulatedPort::Ring(port) if interest.readable || interest.writable => {
                let has_work = !port.sleep(interest);
                Watched::Ring { line: port.line.clone(), side: port.side, has_work }
            }
            SimulatedPort::Ring(port) => {
                port.sleep(interest);
                self.armed.remove(&token);
                return Ok(());
            }
        };
        self.armed.insert(token, watched);
        Ok(())
    }

    fn host_addresses(&mut self) -> Vec<HostAddress> {
        let state = self.world.lock();
        let addresses = state.packets.addresses(self.host).iter().enumerate();
        let named = addresses.map(|(number, ip)| HostAddress {
            interface: format!("rail{number}"),
            address: LocalAddress { ip: *ip, interface: number as u32 + 1 },
            prefix: if ip.is_ipv4() { 24 } else { 64 },
            is_running: true,
        });
        named.collect()
    }

    fn bind(&mut self, local: SocketAddr, options: DatagramOptions) -> Result<SimulatedDatagramPort, PortError> {
        SimulatedDatagramPort::bind(self.world.clone(), self.registry.clone(), self.host, local, options)
    }

    fn arm_datagram(
        &mut self,
        port: &mut SimulatedDatagramPort,
        token: Token,
        interest: Interest,
    ) -> Result<(), PortError> {
        self.armed.insert(token, Watched::Datagram { port: port.id, interest });
        Ok(())
    }

    fn arm_listener(&mut self, listener: &SimulatedListener, token: Token) -> Result<(), PortError> {
        self.armed.insert(token, Watched::Listener(listener.local));
        Ok(())
    }

    fn shares_memory(&self) -> bool {
        self.world.lock().behaviour.ring.is_some()
    }

    /// Never waits: time passes in [`World::run`] only.
    fn wait(&mut self, _: Option<Duration>, ready: &mut Vec<Readiness>) -> Result<(), PortError> {
        let mut state = self.world.lock();
        let state = &mut *state;
        state.packets.pump(state.now);
        self.armed.retain(|token, watched| {
            let (readable, writable) = match watched {
                Watched::Port { inbound, outbound, interest } => (
                    interest.readable && state.pipes[*inbound].is_readable(interest.least, state.now, &state.behaviour),
                    interest.writable && state.pipes[*outbound].has_room(&state.behaviour),
                ),
                Watched::Ring { line, side, has_work } => {
                    let is_woken = *has_work || line.is_woken(*side, state.now);
                    (is_woken, is_woken)
                }
                Watched::Datagram { port, interest } => {
                    (interest.readable && state.packets.is_readable(*port), interest.writable)
                }
                Watched::Listener(local) => {
                    (state.listeners.get(local).is_some_and(|listening| !listening.waiting.is_empty()), false)
                }
            };
            if readable || writable {
                ready.push(Readiness { token: *token, readable, writable });
            }
            !(readable || writable)
        });
        Ok(())
    }

    fn waker(&self) -> Arc<dyn Waker> {
        Arc::new(NoWaker)
    }

    fn watch(&self) -> Result<Arc<dyn Watch>, PortError> {
        Ok(Arc::new(NoWatch))
    }
}

/// A simulated listener.
pub struct SimulatedListener {
    world: World,
    registry: Registry,
    local: SocketAddr,
}

impl Listener for SimulatedListener {
    type Port = SimulatedPort;

    fn accept(&mut self) -> Result<Option<SimulatedPort>, PortError> {
        if self.world.lock().behaviour.no_descriptors {
            return Err(PortError::Exhausted);
        }
        self.accept_to_refuse()
    }

    fn accept_to_refuse(&mut self) -> Result<Option<SimulatedPort>, PortError> {
        let mut state = self.world.lock();
        let next = state.listeners.get_mut(&self.local).and_then(|listening| listening.waiting.pop_front());
        drop(state);
        Ok(next.map(|(caller, remote)| {
            let (world, registry, local) = (self.world.clone(), self.registry.clone(), self.local);
            match caller {
                Caller::Pipes(inbound, outbound) => {
                    SimulatedPort::Pipe(PipePort { world, registry, inbound, outbound, local, remote, refused: false })
                }
                Caller::Ring(line) => SimulatedPort::Ring(RingPort::new(world, registry, line, 1, (local, remote))),
            }
        }))
    }

    fn local_address(&self) -> SocketAddr {
        self.local
    }
}

impl Drop for SimulatedListener {
    fn drop(&mut self) {
        let mut state = self.world.lock();
        let now = state.now;
        if let Some(listening) = state.listeners.remove(&self.local) {
            for (caller, _) in listening.waiting {
                match caller {
                    Caller::Pipes(inbound, outbound) => {
                        state.pipes[inbound].end(now, Ended::Reset);
                        state.pipes[outbound].end(now, Ended::Reset);
                    }
                    Caller::Ring(line) => line.hang_up(1, now),
                }
            }
        }
    }
}

/// A simulated stream.
#[expect(clippy::large_enum_variant, reason = "there are few of them, and each is moved once")]
pub enum SimulatedPort {
    /// Over a network.
    Pipe(PipePort),
    /// Through shared memory.
    Ring(RingPort),
}

weft_base::either_port!(SimulatedPort { Pipe, Ring });

impl SimulatedPort {
    /// Sends bytes of that position in the stream, whatever else is sent there. Not through shared memory.
    pub(crate) fn send_at(&self, position: u64, bytes: &[u8]) {
        if let Self::Pipe(port) = self {
            port.send_at(position, bytes);
        }
    }

    /// How much disorder a lower layer makes that has any, and its dice.
    pub(crate) fn disorder(&self) -> (Disorder, Random) {
        let (Self::Pipe(PipePort { world, .. }) | Self::Ring(RingPort { world, .. })) = self;
        let mut state = world.lock();
        (state.disorder, state.disorder_random.fork())
    }
}

/// A simulated stream over a network.
pub struct PipePort {
    world: World,
    registry: Registry,
    inbound: usize,
    outbound: usize,
    local: SocketAddr,
    remote: SocketAddr,
    refused: bool,
}

impl PipePort {
    fn send_at(&self, position: u64, bytes: &[u8]) {
        self.world.lock().pipes[self.outbound].send_at(position, bytes);
    }
}

impl Port for PipePort {
    fn send(&mut self, pieces: &[Piece<'_>]) -> Result<usize, PortError> {
        let bytes = gather(&self.registry, pieces)?;
        let mut state = self.world.lock();
        let state = &mut *state;
        let pipe = &mut state.pipes[self.outbound];
        if pipe.is_reset() {
            return Err(PortError::Reset);
        }
        Ok(pipe.send(&bytes, state.now, &state.behaviour, &mut state.random))
    }

    fn receive(&mut self, pieces: &mut [ReceivePiece<'_>]) -> Result<Received, PortError> {
        let room = pieces.iter().map(ReceivePiece::length).sum();
        let bytes = {
            let mut state = self.world.lock();
            let state = &mut *state;
            let pipe = &mut state.pipes[self.inbound];
            match pipe.ended(state.now) {
                Some(Ended::Reset) => return Err(PortError::Reset),
                Some(Ended::Closed) => return Ok(Received::End),
                None => pipe.receive(room, state.now, &state.behaviour, &mut state.random),
            }
        };
        if bytes.is_empty() {
            return Ok(Received::Nothing);
        }
        let mut rest = &bytes[..];
        for piece in pieces {
            let (now, later) = rest.split_at(rest.len().min(piece.length()));
            match piece {
                ReceivePiece::Staging(staging) => staging[..now.len()].copy_from_slice(now),
                ReceivePiece::Memory(slice) => {
                    let place = slice.part(0, now.len() as u32);
                    self.registry.copy_in(&place, now, &mut NoDigest).map_err(gone(slice.region))?;
                }
            }
            rest = later;
        }
        Ok(Received::Bytes(bytes.len()))
    }

    fn poll_connected(&mut self) -> Result<bool, PortError> {
        if self.refused { Err(PortError::Refused) } else { Ok(true) }
    }

    fn segment_size(&self) -> u32 {
        self.world.lock().behaviour.segment_size
    }

    fn local_address(&self) -> Result<SocketAddr, PortError> {
        Ok(self.local)
    }

    fn remote_address(&self) -> SocketAddr {
        self.remote
    }

    fn close_send(&mut self) {
        let mut state = self.world.lock();
        let now = state.now;
        state.pipes[self.outbound].end(now, Ended::Closed);
    }

    fn round_trip(&self) -> Option<Duration> {
        // Each way takes half of the longest delay on average.
        Some(self.world.lock().behaviour.delay)
    }

    fn abort(&mut self) {
        let mut state = self.world.lock();
        let now = state.now;
        state.pipes[self.outbound].end(now, Ended::Reset);
        state.pipes[self.inbound].end(now, Ended::Reset);
    }
}

impl Segmented for PipePort {
    fn shows_segments(&self) -> bool {
        self.world.lock().behaviour.segments != Segments::InOrder
    }

    fn begin_segments(&mut self) -> Option<StreamPosition> {
        let state = self.world.lock();
        let shows = state.behaviour.segments != Segments::InOrder;
        shows.then(|| StreamPosition(state.pipes[self.inbound].position()))
    }

    fn receive_segments(&mut self, take: &mut dyn FnMut(StreamPosition, &[u8]) -> bool) -> Result<Received, PortError> {
        let (position, bytes) = {
            let mut state = self.world.lock();
            let state = &mut *state;
            let pipe = &mut state.pipes[self.inbound];
            match pipe.ended(state.now) {
                Some(Ended::Reset) => return Err(PortError::Reset),
                Some(Ended::Closed) => return Ok(Received::End),
                None => match pipe.receive_anywhere(state.now, &state.behaviour, &mut state.disorder_random) {
                    Some(found) => found,
                    None => return Ok(Received::Nothing),
                },
            }
        };
        let length = bytes.len();
        if !take(StreamPosition(position), &bytes) {
            let mut state = self.world.lock();
            let now = state.now;
            state.pipes[self.inbound].put_back(position, bytes, now);
        }
        Ok(Received::Bytes(length))
    }
}

impl Lending for PipePort {}

impl Drop for PipePort {
    fn drop(&mut self) {
        self.close_send();
    }
}

/// The bytes of all pieces.
pub(crate) fn gather(registry: &Registry, pieces: &[Piece<'_>]) -> Result<Vec<u8>, PortError> {
    let mut bytes = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Bytes(piece) => bytes.extend_from_slice(piece),
            Piece::Memory(slice) => {
                let start = bytes.len();
                bytes.resize(start + slice.length as usize, 0);
                registry.copy_out(slice, &mut bytes[start..], &mut NoDigest).map_err(gone(slice.region))?;
            }
        }
    }
    Ok(bytes)
}

pub(crate) fn gone(region: weft_base::RegionId) -> impl Fn(MemoryError) -> PortError {
    move |_| PortError::Memory(region)
}
