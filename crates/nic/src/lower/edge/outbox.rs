//! Datagrams on their way from a connection to a port: payload is copied and summed up in one pass, and those that
//! may go as one are sent by one call.

use std::collections::VecDeque;
use std::net::SocketAddr;

use weft_base::{DatagramBatch, DatagramLimits, DatagramSent, Ecn, LocalAddress, Piece, PortError};
use weft_edge::Batch;
use weft_memory::{MemoryError, Registry};
use weft_wire::Crc32c;

use crate::lower::{DatagramKey, DatagramPorts};

/// Datagrams of one turn of a connection's sending.
const DATAGRAMS: usize = 64;
/// Bytes of these.
const BYTES: usize = 256 * 1024;

/// Room for the datagrams of one connection at a time. Made when the first one is sent.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    pub(super) batch: Option<Box<Batch>>,
    pub(super) wire: Vec<u8>,
}

/// Datagrams that are sent by one call.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) bytes: core::ops::Range<usize>,
    pub(super) segment: u32,
    pub(super) to: SocketAddr,
    pub(super) ecn: u8,
    last: u32,
}

/// Datagrams for which a port had no room.
#[derive(Debug, Default)]
pub(super) struct Waiting(VecDeque<(Vec<u8>, u32, SocketAddr, u8)>);

/// What sending has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// A datagram of this many bytes is larger than the link carries, which is that many, if that is known.
    TooLarge(u32, Option<u32>),
    /// No way is known.
    Unreachable(PortError),
}

impl Outbox {
    /// The batch that a connection writes to, with room for as many datagrams of this size as fill calls.
    pub(super) fn batch(&mut self, limits: &DatagramLimits, size: usize) -> &mut Batch {
        let batch = self.batch.get_or_insert_with(|| Box::new(Batch::new(DATAGRAMS, BYTES)));
        batch.clear();
        let of_a_call = (limits.batch_bytes as usize / size.max(1)).clamp(1, limits.batch_datagrams.max(1) as usize);
        batch.set_most(DATAGRAMS - DATAGRAMS % of_a_call.min(DATAGRAMS));
        batch
    }

    /// Lays out the batch's datagrams one behind the other, and says which of them can go as one. Returns the bytes.
    ///
    /// # Errors
    /// Memory that is to be gathered is gone.
    pub(super) fn lay_out(&mut self, registry: &Registry, runs: &mut Vec<Run>) -> Result<(), MemoryError> {
        runs.clear();
        self.wire.clear();
        let Some(batch) = &self.batch else { return Ok(()) };
        for datagram in &batch.datagrams {
            let start = self.wire.len();
            for piece in &batch.pieces[datagram.pieces.clone()] {
                put(&mut self.wire, piece, &batch.bytes, registry)?;
            }
            let length = (self.wire.len() - start) as u32;
            debug_assert_eq!(length as usize, datagram.length);
            add(runs, start, length, datagram.to, datagram.ecn);
        }
        Ok(())
    }
}

fn put(wire: &mut Vec<u8>, piece: &weft_edge::Piece, bytes: &[u8], registry: &Registry) -> Result<(), MemoryError> {
    match piece {
        weft_edge::Piece::Bytes { start, length } => {
            wire.extend_from_slice(&bytes[*start as usize..(*start + *length) as usize]);
        }
        weft_edge::Piece::Payload { start, length, gather } => {
            let mut crc = Crc32c::new();
            let inline = &bytes[*start as usize..(*start + *length) as usize];
            weft_base::Digest::update(&mut crc, inline);
            wire.extend_from_slice(inline);
            let at = wire.len();
            wire.resize(at + gather.length() as usize, 0);
            registry.copy_out_gather(gather, 0, &mut wire[at..], &mut crc)?;
            wire.extend_from_slice(&crc.value().to_be_bytes());
        }
    }
    Ok(())
}

/// Adds a datagram to the run before it, if all of that have its size.
fn add(runs: &mut Vec<Run>, start: usize, length: u32, to: SocketAddr, ecn: u8) {
    if let Some(run) = runs.last_mut()
        && (run.to, run.ecn) == (to, ecn)
        && run.last == run.segment
        && length <= run.segment
    {
        run.bytes.end += length as usize;
        run.last = length;
        return;
    }
    runs.push(Run { bytes: start..start + length as usize, segment: length, to, ecn, last: length });
}

/// Sends runs, as far as the port takes them; the rest waits. Returns how many bytes were sent.
pub(super) fn send(
    (port, from): (DatagramKey, Option<LocalAddress>),
    (wire, runs): (&[u8], &[Run]),
    waiting: &mut Waiting,
    ports: &mut dyn DatagramPorts,
    mut tell: impl FnMut(Told),
) -> (usize, u64) {
    let (mut sent, mut calls) = (0, 0);
    for run in runs {
        let mut rest = &wire[run.bytes.clone()];
        let segment = run.segment;
        while !rest.is_empty() {
            if !waiting.0.is_empty() {
                waiting.0.push_back((rest.to_vec(), segment, run.to, run.ecn));
                break;
            }
            calls += 1;
            let taken = send_once((port, from), rest, segment, run.to, run.ecn, ports, &mut tell);
            let Some(taken) = taken else {
                waiting.0.push_back((rest.to_vec(), segment, run.to, run.ecn));
                break;
            };
            sent += taken;
            rest = &rest[taken..];
        }
    }
    (sent, calls)
}

/// One call. `None`: there is no room now. Otherwise the bytes that are done with.
fn send_once(
    (port, from): (DatagramKey, Option<LocalAddress>),
    bytes: &[u8],
    segment: u32,
    to: SocketAddr,
    ecn: u8,
    ports: &mut dyn DatagramPorts,
    tell: &mut impl FnMut(Told),
) -> Option<usize> {
    let limits = ports.limits(port);
    let most = (limits.batch_bytes / segment.max(1)).clamp(1, limits.batch_datagrams.max(1));
    let bytes = &bytes[..bytes.len().min((most * segment) as usize)];
    let batch = DatagramBatch { to: to.into(), from, segment_size: segment.max(1), ecn: Ecn::from_bits(ecn) };
    match ports.send(port, &batch, &[Piece::Bytes(bytes)]) {
        Ok(DatagramSent::Taken(0)) => None,
        Ok(DatagramSent::Taken(count)) => Some(bytes.len().min(count as usize * segment as usize)),
        Ok(DatagramSent::TooLarge(limit)) => {
            tell(Told::TooLarge(segment, limit));
            Some(bytes.len().min(segment as usize))
        }
        Err(error) => {
            // As if it had been lost on the way.
            tell(Told::Unreachable(error));
            Some(bytes.len())
        }
    }
}

impl Waiting {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Sends what waits. Returns whether anything left.
    pub(super) fn flush(
        &mut self,
        place: (DatagramKey, Option<LocalAddress>),
        ports: &mut dyn DatagramPorts,
        mut tell: impl FnMut(Told),
    ) -> bool {
        let mut any = false;
        while let Some((bytes, segment, to, ecn)) = self.0.front_mut() {
            let Some(taken) = send_once(place, bytes, *segment, *to, *ecn, ports, &mut tell) else { break };
            any = true;
            if taken >= bytes.len() {
                self.0.pop_front();
            } else {
                bytes.drain(..taken);
            }
        }
        any
    }
}
