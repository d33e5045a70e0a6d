//! A simulated datagram port.

use std::net::SocketAddr;

use weft_base::{
    DatagramBatch, DatagramCounters, DatagramLimits, DatagramOptions, DatagramPort, DatagramSent, Hint, LocalAddress,
    Piece, PortAddress, PortError, ReceivedDatagrams,
};
use weft_emulate::Packet;
use weft_memory::Registry;

use crate::network::gather;
use crate::packets::{Bound, Packets, Route};
use crate::world::World;

/// As much as Linux takes and brings as one.
const BATCH_DATAGRAMS: u32 = 64;
const BATCH_BYTES: u32 = 65_535 - 48;
const RECEIVE_BYTES: u32 = 65_536;
const RECEIVED: usize = 16;

/// A simulated datagram port. Its packets go over the world's links.
pub struct SimulatedDatagramPort {
    world: World,
    registry: Registry,
    host: usize,
    pub(crate) id: u64,
    local: SocketAddr,
    options: DatagramOptions,
    cut: u64,
}

impl SimulatedDatagramPort {
    pub(crate) fn bind(
        world: World,
        registry: Registry,
        host: usize,
        mut local: SocketAddr,
        options: DatagramOptions,
    ) -> Result<Self, PortError> {
        let id = {
            let mut state = world.lock();
            if local.port() == 0 {
                local.set_port(state.take_port_number());
            }
            state.packets.bind(host, local, options.buffer_bytes)?
        };
        Ok(Self { world, registry, host, id, local, options, cut: 0 })
    }

    fn route(&self, batch: &DatagramBatch, packets: &Packets) -> Result<Route, PortError> {
        let to = batch.to.ip().ok_or(PortError::Unreachable)?;
        let from = match batch.from {
            Some(from) if !packets.has(self.host, from.ip) => return Err(PortError::AddressNotLocal),
            Some(from) => from.ip,
            None if self.local.ip().is_unspecified() => packets.source(self.host, to.ip()),
            None if !packets.has(self.host, self.local.ip()) => return Err(PortError::AddressNotLocal),
            None => self.local.ip(),
        };
        let is_carried = self.local.ip().is_ipv4() == to.is_ipv4() || self.local.ip().is_unspecified();
        if from.is_ipv4() != to.is_ipv4() || !is_carried {
            return Err(PortError::Unreachable);
        }
        Ok(Route { host: self.host, from: SocketAddr::new(from, self.local.port()), to })
    }
}

impl DatagramPort for SimulatedDatagramPort {
    fn send(&mut self, batch: &DatagramBatch, pieces: &[Piece<'_>]) -> Result<DatagramSent, PortError> {
        let bytes = gather(&self.registry, pieces)?;
        let segment = batch.segment_size.max(1) as usize;
        let mut state = self.world.lock();
        let now = state.now;
        let packets = &mut state.packets;
        let route = self.route(batch, packets)?;
        let largest = packets.behaviour.interface_mtu.saturating_sub(if route.to.is_ipv4() { 28 } else { 48 });
        if bytes.len().min(segment) > largest as usize {
            return Ok(DatagramSent::TooLarge(Some(largest)));
        }
        let most = (BATCH_BYTES as usize / segment).clamp(1, BATCH_DATAGRAMS as usize);
        let mut count = bytes.len().div_ceil(segment).min(most);
        if count > 1 && packets.behaviour.takes_fewer.happens(&mut packets.random) {
            count = 1 + packets.random.below(count as u64) as usize;
        }
        for datagram in bytes.chunks(segment).take(count) {
            packets.send(datagram.to_vec(), batch.ecn, route, now);
        }
        Ok(DatagramSent::Taken(count as u32))
    }

    fn receive(&mut self, buffer: &mut [u8], received: &mut Vec<ReceivedDatagrams>) -> Result<usize, PortError> {
        let part = buffer.len().min(RECEIVE_BYTES as usize);
        let parts = buffer.len().checked_div(part).unwrap_or(0).min(RECEIVED);
        let mut state = self.world.lock();
        let now = state.now;
        state.packets.pump(now);
        let before = received.len();
        for index in 0..parts {
            let Some(first) = state.packets.port(self.id).next() else { break };
            let place = &mut buffer[index * part..(index + 1) * part];
            if first.bytes.len() > part {
                self.cut += 1;
                continue;
            }
            let mut run = Run::new(&first, place);
            while self.options.offload && state.packets.merges() {
                let port = state.packets.port(self.id);
                if !run.takes(port) {
                    break;
                }
                run.add(port);
            }
            received.push(run.end(index * part));
        }
        Ok(received.len() - before)
    }

    fn poll_hint(&mut self) -> Option<Hint> {
        let mut state = self.world.lock();
        let now = state.now;
        state.packets.pump(now);
        state.packets.port(self.id).hints.pop_front()
    }

    fn limits(&self) -> DatagramLimits {
        let room = self.world.lock().packets.room(self.id);
        DatagramLimits {
            batch_datagrams: BATCH_DATAGRAMS,
            batch_bytes: BATCH_BYTES,
            batch_pieces: u32::MAX,
            receive_bytes: RECEIVE_BYTES,
            received: RECEIVED as u32,
            send_buffer_bytes: room,
            receive_buffer_bytes: room,
        }
    }

    fn counters(&self) -> DatagramCounters {
        let overflowed = self.world.lock().packets.port(self.id).overflowed;
        DatagramCounters { overflowed, dropped: 0, cut: self.cut, malformed: 0 }
    }

    fn local_address(&self) -> PortAddress {
        self.local.into()
    }
}

impl Drop for SimulatedDatagramPort {
    fn drop(&mut self) {
        self.world.lock().packets.unbind(self.id);
    }
}

/// Datagrams that come as one: of one sender, with one mark, all of one size but the last.
struct Run<'a> {
    route: Route,
    ecn: weft_base::Ecn,
    segment: usize,
    last: usize,
    count: u32,
    filled: usize,
    place: &'a mut [u8],
}

impl<'a> Run<'a> {
    fn new(first: &Packet<Route>, place: &'a mut [u8]) -> Self {
        let length = first.bytes.len();
        place[..length].copy_from_slice(&first.bytes);
        Self { route: first.tag, ecn: first.ecn, segment: length, last: length, count: 1, filled: length, place }
    }

    /// Whether the port's next packet may go on it.
    fn takes(&self, port: &Bound) -> bool {
        port.arrived.front().is_some_and(|next| {
            (next.tag, next.ecn) == (self.route, self.ecn)
                && self.last == self.segment
                && (1..=self.segment).contains(&next.bytes.len())
                && self.count < BATCH_DATAGRAMS
                && self.filled + next.bytes.len() <= self.place.len()
        })
    }

    fn add(&mut self, port: &mut Bound) {
        let Some(packet) = port.next() else { return };
        self.last = packet.bytes.len();
        self.place[self.filled..self.filled + self.last].copy_from_slice(&packet.bytes);
        self.filled += self.last;
        self.count += 1;
    }

    fn end(self, start: usize) -> ReceivedDatagrams {
        ReceivedDatagrams {
            range: start..start + self.filled,
            segment_size: self.segment.max(1) as u32,
            from: self.route.from.into(),
            to: Some(LocalAddress { ip: self.route.to.ip(), interface: 0 }),
            ecn: self.ecn,
        }
    }
}
