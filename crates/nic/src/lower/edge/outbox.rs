//! Datagrams on their way from a connection to a port: those that may go as one are sent by one call.

use std::collections::VecDeque;
use std::net::SocketAddr;

use arrayvec::ArrayVec;
use weft_base::{DatagramBatch, DatagramLimits, DatagramSent, Ecn, LocalAddress, Piece, PortError};
use weft_edge::{Batch, Datagram};
use weft_memory::{MemoryError, Registry};

use super::wire::{Parts, Wire, lay};
use crate::lower::{DatagramKey, DatagramPorts, RailPort, Scratch, SendFailure};

/// Datagrams of one turn of a connection's sending.
const DATAGRAMS: usize = 64;
/// Bytes of these, without what is gathered.
const BYTES: usize = 256 * 1024;
/// Bytes of full datagrams that are laid out before the first of them leaves: what is read again when it is sent is in
/// the processor's cache then, and the peer works on the first while the next ones are made.
const LAID_OUT: usize = 128 * 1024;

/// Room for the datagrams of one connection at a time. Made when the first one is sent.
#[derive(Debug, Default)]
pub struct Outbox {
    pub(super) batch: Option<Box<Batch>>,
    pub(super) wire: Wire,
}

/// A port, and from where it is left. By the index that the connection knows it by
/// ([`weft_edge::RailAddress::local`]).
pub(super) type Path = (DatagramKey, Option<LocalAddress>);

/// All paths of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Paths<'a> {
    pub(super) first: Path,
    pub(super) others: &'a [Option<RailPort>],
}

impl<'a> Paths<'a> {
    /// All of them.
    pub(super) fn all(self) -> impl Iterator<Item = Path> + use<'a> {
        (0..self.count() as u8).filter_map(move |local| self.get(local))
    }

    pub(super) const fn count(&self) -> usize {
        1 + self.others.len()
    }

    /// The path with this index. One that is no more loses what takes it.
    pub(super) fn get(&self, local: u8) -> Option<Path> {
        let Some(index) = usize::from(local).checked_sub(1) else { return Some(self.first) };
        self.others.get(index).map(|rail| rail.map_or(self.first, |rail| (rail.port, Some(rail.from))))
    }
}

/// Where datagrams go, and by which path. Those that have it in common may go as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TxKey {
    pub(super) to: SocketAddr,
    /// The index of the path.
    pub(super) local: u8,
    pub(super) rail: u8,
    pub(super) ecn: u8,
}

/// Datagrams that are sent by one call.
#[derive(Clone, Debug)]
pub(super) struct GsoBatch {
    /// Of those that are laid out.
    pub(super) bytes: core::ops::Range<usize>,
    /// Of the memory between these.
    pub(super) memory: core::ops::Range<usize>,
    pub(super) segment: u32,
    pub(super) tx_key: TxKey,
    pub(super) last: u32,
}

/// Datagrams for which a port had no room.
#[derive(Debug, Default)]
pub(super) struct Waiting(VecDeque<(Vec<u8>, u32, TxKey)>);

impl AsMut<Self> for Outbox {
    #[inline]
    fn as_mut(&mut self) -> &mut Self {
        self
    }
}

impl Scratch for Outbox {}

impl Outbox {
    /// The batch that a connection writes to, with room for as many datagrams of this size as fill calls, up to
    /// [`LAID_OUT`].
    pub(super) fn batch(&mut self, limits: &DatagramLimits, size: usize) -> &mut Batch {
        let batch = self.batch.get_or_insert_with(|| Box::new(Batch::new(DATAGRAMS, BYTES)));
        batch.clear();
        let of_a_call = (limits.batch_bytes as usize / size.max(1)).clamp(1, limits.batch_datagrams.max(1) as usize);
        let of_a_call = of_a_call.min(DATAGRAMS);
        let most = (LAID_OUT / size.max(1)).clamp(of_a_call, DATAGRAMS);
        batch.set_most(most - most % of_a_call);
        batch
    }

    /// A batch for one short datagram.
    pub(super) fn batch_of_one(&mut self) -> &mut Batch {
        let batch = self.batch.get_or_insert_with(|| Box::new(Batch::new(DATAGRAMS, BYTES)));
        batch.clear();
        batch.set_most(1);
        batch
    }

    /// The one datagram of a batch is laid out already if nothing is gathered: its bytes, and where they go.
    pub(super) fn whole(&self) -> Option<(&[u8], TxKey)> {
        let batch = self.batch.as_deref()?;
        let [Datagram { to, local, rail, ecn, length, count: 1, ref pieces }] = batch.datagrams[..] else {
            return None;
        };
        let is_whole = batch.pieces[pieces.clone()].iter().all(|piece| matches!(piece, weft_edge::Piece::Bytes { .. }));
        if !is_whole || batch.bytes.len() != length {
            return None;
        }
        Some((&batch.bytes, TxKey { to, local, rail, ecn }))
    }

    /// Lays out the batch's datagrams, those of one path behind each other, and says which of them can go as one. Those
    /// of the paths in `posted` are left out. Payload of `threshold` bytes and more is sent from where it is, if it may
    /// be.
    ///
    /// # Errors
    /// Memory that is to be gathered is gone.
    pub(super) fn lay_out(
        &mut self,
        posted: u16,
        registry: &Registry,
        threshold: u32,
        runs: &mut Vec<GsoBatch>,
    ) -> Result<(), MemoryError> {
        runs.clear();
        self.wire.clear();
        let locals = self.locals();
        let Some(batch) = &self.batch else { return Ok(()) };
        for local in locals.filter(|local| posted & 1 << local == 0) {
            for datagram in batch.datagrams.iter().filter(|datagram| datagram.local == local) {
                let pieces = &batch.pieces[datagram.pieces.clone()];
                lay(&mut self.wire, runs, datagram, (pieces, &batch.bytes), registry, threshold)?;
            }
        }
        Ok(())
    }

    /// The paths that the batch's datagrams leave by.
    pub(super) fn locals(&self) -> impl Iterator<Item = u8> + use<> {
        let datagrams = self.batch.as_ref().map_or(&[][..], |batch| &batch.datagrams[..]);
        let mut locals = datagrams.iter().fold(0_u16, |locals, datagram| locals | 1 << datagram.local);
        core::iter::from_fn(move || {
            let local = (locals != 0).then(|| locals.trailing_zeros() as u8)?;
            locals &= locals - 1;
            Some(local)
        })
    }
}

/// Sends runs, as far as the ports take them; the rest waits. Returns how many bytes were sent.
pub(super) fn send(
    paths: Paths<'_>,
    (wire, runs): (Parts<'_>, &[GsoBatch]),
    waiting: &mut Waiting,
    (ports, registry): (&mut dyn DatagramPorts, &Registry),
    mut tell: impl FnMut(SendFailure),
) -> (usize, u64) {
    let (mut sent, mut calls) = (0, 0);
    for run in runs {
        let mut rest = wire.of_run(run);
        let (segment, tx_key) = (run.segment, run.tx_key);
        while !rest.is_empty() {
            if waiting.has(tx_key.local) {
                waiting.add(rest, segment, tx_key, registry);
                break;
            }
            calls += 1;
            let Some(taken) = send_once(paths, rest, segment, tx_key, ports, &mut tell) else {
                waiting.add(rest, segment, tx_key, registry);
                break;
            };
            sent += taken;
            rest = rest.behind(taken);
        }
    }
    (sent, calls)
}

/// Sends one datagram, as [`send`] does.
pub(super) fn send_whole(
    paths: Paths<'_>,
    (bytes, tx_key): (&[u8], TxKey),
    waiting: &mut Waiting,
    (ports, registry): (&mut dyn DatagramPorts, &Registry),
    mut tell: impl FnMut(SendFailure),
) -> (usize, u64) {
    let mut calls = 0;
    let segment = bytes.len() as u32;
    if !waiting.has(tx_key.local) {
        let Some((port, from)) = paths.get(tx_key.local) else { return (bytes.len(), 0) };
        let batch =
            DatagramBatch { to: tx_key.to.into(), from, segment_size: segment, ecn: Ecn::from_bits(tx_key.ecn) };
        let sent = ports.send(port, &batch, &[Piece::Bytes(bytes)]);
        calls += 1;
        if let Some(taken) = outcome(&sent, bytes.len(), segment, tx_key, &mut tell) {
            return (taken, calls);
        }
    }
    waiting.add(Parts::of(bytes), segment, tx_key, registry);
    (0, calls)
}

/// One call. `None`: there is no room now. Otherwise the bytes that are done with.
fn send_once(
    paths: Paths<'_>,
    parts: Parts<'_>,
    segment: u32,
    tx_key: TxKey,
    ports: &mut dyn DatagramPorts,
    tell: &mut impl FnMut(SendFailure),
) -> Option<usize> {
    let Some((port, from)) = paths.get(tx_key.local) else { return Some(parts.length()) };
    let limits = ports.limits(port);
    let most = (limits.batch_bytes / segment.max(1)).clamp(1, limits.batch_datagrams.max(1));
    let most = (most * segment) as usize;
    let ecn = Ecn::from_bits(tx_key.ecn);
    let batch = DatagramBatch { to: tx_key.to.into(), from, segment_size: segment.max(1), ecn };
    if let Some(bytes) = parts.plain() {
        let bytes = &bytes[..bytes.len().min(most)];
        return outcome(&ports.send(port, &batch, &[Piece::Bytes(bytes)]), bytes.len(), segment, tx_key, tell);
    }
    let mut pieces = ArrayVec::new();
    let length = parts.pieces(most, &mut pieces);
    outcome(&ports.send(port, &batch, &pieces), length, segment, tx_key, tell)
}

/// The outcome of a call that was to send this many bytes. `None`: there is no room now. Otherwise the bytes that are
/// done with.
pub(super) fn outcome(
    result: &Result<DatagramSent, PortError>,
    bytes: usize,
    segment: u32,
    tx_key: TxKey,
    tell: &mut impl FnMut(SendFailure),
) -> Option<usize> {
    match result {
        Ok(DatagramSent::Taken(0)) => None,
        Ok(DatagramSent::Taken(count)) => Some(bytes.min(*count as usize * segment as usize)),
        Ok(DatagramSent::TooLarge(limit)) => {
            tell(SendFailure::TooLarge(tx_key.rail, segment, *limit));
            Some(bytes.min(segment as usize))
        }
        Err(PortError::AddressNotLocal) => {
            tell(SendFailure::SourceGone(tx_key.rail, tx_key.local));
            Some(bytes)
        }
        Err(_) => {
            // It counts as lost on the way.
            tell(SendFailure::Unreachable(tx_key.rail));
            Some(bytes)
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

    /// Takes what a port has no room for: copied, for its memory may go meanwhile. What has no memory any more counts
    /// as lost.
    fn add(&mut self, parts: Parts<'_>, segment: u32, tx_key: TxKey, registry: &Registry) {
        if let Ok(bytes) = parts.copied(registry) {
            self.0.push_back((bytes, segment, tx_key));
        }
    }

    fn has(&self, local: u8) -> bool {
        self.0.iter().any(|(_, _, tx_key)| tx_key.local == local)
    }

    /// The paths that have no room, by the bits of their indices.
    pub(super) fn blocked(&self) -> u16 {
        self.0.iter().fold(0, |blocked, (_, _, tx_key)| blocked | 1 << tx_key.local)
    }

    /// Sends what waits. Returns whether anything left.
    pub(super) fn flush(
        &mut self,
        paths: Paths<'_>,
        ports: &mut dyn DatagramPorts,
        mut tell: impl FnMut(SendFailure),
    ) -> bool {
        let (mut any, mut blocked) = (false, 0_u16);
        self.0.retain_mut(|(bytes, segment, tx_key)| {
            while blocked & 1 << tx_key.local == 0 && !bytes.is_empty() {
                match send_once(paths, Parts::of(bytes), *segment, *tx_key, ports, &mut tell) {
                    Some(taken) => drop(bytes.drain(..taken)),
                    None => blocked |= 1 << tx_key.local,
                }
                any |= blocked & 1 << tx_key.local == 0;
            }
            !bytes.is_empty()
        });
        any
    }
}
