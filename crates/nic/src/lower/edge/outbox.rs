//! Datagrams on their way from a connection to a port: payload is copied and summed up in one pass, and those that
//! may go as one are sent by one call.

use std::collections::VecDeque;
use std::net::SocketAddr;

use weft_base::{DatagramBatch, DatagramLimits, DatagramSent, Ecn, LocalAddress, Piece, PortError};
use weft_edge::{Batch, Datagram};
use weft_memory::{MemoryError, Registry};
use weft_wire::Crc32c;

use crate::lower::{DatagramKey, DatagramPorts, RailPort};

/// Datagrams of one turn of a connection's sending.
const DATAGRAMS: usize = 64;
/// Bytes of these.
const BYTES: usize = 256 * 1024;

/// Room for the datagrams of one connection at a time. Made when the first one is sent.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    pub(super) batch: Option<Box<Batch>>,
    pub(super) wire: Wire,
}

/// Bytes as they go over the wire. What was laid out before is written over: nothing is set to zero first.
#[derive(Debug, Default)]
pub(super) struct Wire {
    bytes: Vec<u8>,
    used: usize,
}

impl Wire {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.used]
    }

    /// So many bytes more, to be written over.
    fn room(&mut self, length: usize) -> &mut [u8] {
        let start = self.used;
        self.used += length;
        if self.bytes.len() < self.used {
            self.bytes.resize(self.used, 0);
        }
        &mut self.bytes[start..self.used]
    }

    pub(super) fn clear(&mut self) {
        self.used = 0;
    }

    pub(super) const fn length(&self) -> usize {
        self.used
    }

    /// Leaves out what was laid out behind this.
    pub(super) fn truncate(&mut self, length: usize) {
        self.used = length;
    }

    fn put(&mut self, bytes: &[u8]) {
        self.room(bytes.len()).copy_from_slice(bytes);
    }
}

/// A port, and from where it is left. By the index that the connection knows it by
/// ([`weft_edge::RailAddress::local`]).
pub(super) type Way = (DatagramKey, Option<LocalAddress>);

/// All ways of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ways<'a> {
    pub(super) first: Way,
    pub(super) others: &'a [Option<RailPort>],
}

impl<'a> Ways<'a> {
    /// All of them.
    pub(super) fn all(self) -> impl Iterator<Item = Way> + use<'a> {
        (0..self.count() as u8).filter_map(move |local| self.get(local))
    }

    pub(super) const fn count(&self) -> usize {
        1 + self.others.len()
    }

    /// The way with this index. One that is no more loses what takes it.
    pub(super) fn get(&self, local: u8) -> Option<Way> {
        let Some(index) = usize::from(local).checked_sub(1) else { return Some(self.first) };
        self.others.get(index).map(|rail| rail.map_or(self.first, |rail| (rail.port, Some(rail.from))))
    }
}

/// Where datagrams go, and by which way. Those that have it in common may go as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Course {
    pub(super) to: SocketAddr,
    /// The index of the way.
    local: u8,
    rail: u8,
    pub(super) ecn: u8,
}

/// Datagrams that are sent by one call.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) bytes: core::ops::Range<usize>,
    pub(super) segment: u32,
    pub(super) course: Course,
    last: u32,
}

/// Datagrams for which a port had no room.
#[derive(Debug, Default)]
pub(super) struct Waiting(VecDeque<(Vec<u8>, u32, Course)>);

/// What sending has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// A datagram on this rail, of this many bytes, is larger than the link carries, which is that many, if that is
    /// known.
    TooLarge(u8, u32, Option<u32>),
    /// The interface of this rail takes nothing.
    Unreachable(u8),
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

    /// The one datagram of a batch that is in one piece is laid out already: as a run, and its bytes.
    pub(super) fn whole(&self) -> Option<(&[u8], Run)> {
        let batch = self.batch.as_deref()?;
        let [Datagram { to, local, rail, ecn, length, .. }] = batch.datagrams[..] else { return None };
        debug_assert_eq!(batch.bytes.len(), length, "nothing is gathered");
        let (length, course) = (length as u32, Course { to, local, rail, ecn });
        Some((&batch.bytes, Run { bytes: 0..batch.bytes.len(), segment: length, course, last: length }))
    }

    /// Lays out the batch's datagrams, those of one way behind each other, and says which of them can go as one. Those
    /// of the ways in `posted` are left out.
    ///
    /// # Errors
    /// Memory that is to be gathered is gone.
    pub(super) fn lay_out(&mut self, posted: u16, registry: &Registry, runs: &mut Vec<Run>) -> Result<(), MemoryError> {
        runs.clear();
        self.wire.clear();
        let locals = self.locals();
        let Some(batch) = &self.batch else { return Ok(()) };
        for local in locals.filter(|local| posted & 1 << local == 0) {
            for datagram in batch.datagrams.iter().filter(|datagram| datagram.local == local) {
                let pieces = &batch.pieces[datagram.pieces.clone()];
                lay(&mut self.wire, runs, datagram, (pieces, &batch.bytes), registry)?;
            }
        }
        Ok(())
    }

    /// The ways that the batch's datagrams leave by.
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

/// Writes a datagram behind what is there.
pub(super) fn lay(
    wire: &mut Wire,
    runs: &mut Vec<Run>,
    datagram: &Datagram,
    (pieces, bytes): (&[weft_edge::Piece], &[u8]),
    registry: &Registry,
) -> Result<(), MemoryError> {
    let start = wire.used;
    for piece in pieces {
        put(wire, piece, bytes, registry)?;
    }
    let length = (wire.used - start) as u32;
    debug_assert_eq!(length as usize, datagram.length);
    let Datagram { to, local, rail, ecn, .. } = *datagram;
    add(runs, start, length, Course { to, local, rail, ecn });
    Ok(())
}

fn put(wire: &mut Wire, piece: &weft_edge::Piece, bytes: &[u8], registry: &Registry) -> Result<(), MemoryError> {
    match piece {
        weft_edge::Piece::Bytes { start, length } => {
            wire.put(&bytes[*start as usize..(*start + *length) as usize]);
        }
        weft_edge::Piece::Payload { start, length, gather } => {
            let mut crc = Crc32c::new();
            let inline = &bytes[*start as usize..(*start + *length) as usize];
            weft_base::Digest::update(&mut crc, inline);
            wire.put(inline);
            registry.copy_out_gather(gather, 0, wire.room(gather.length() as usize), &mut crc)?;
            wire.put(&crc.value().to_be_bytes());
        }
    }
    Ok(())
}

/// Adds a datagram to the run before it, if all of that have its size.
fn add(runs: &mut Vec<Run>, start: usize, length: u32, course: Course) {
    if let Some(run) = runs.last_mut()
        && run.course == course
        && run.last == run.segment
        && length <= run.segment
    {
        run.bytes.end += length as usize;
        run.last = length;
        return;
    }
    runs.push(Run { bytes: start..start + length as usize, segment: length, course, last: length });
}

/// Sends runs, as far as the ports take them; the rest waits. Returns how many bytes were sent.
pub(super) fn send(
    ways: Ways<'_>,
    (wire, runs): (&[u8], &[Run]),
    waiting: &mut Waiting,
    ports: &mut dyn DatagramPorts,
    mut tell: impl FnMut(Told),
) -> (usize, u64) {
    let (mut sent, mut calls) = (0, 0);
    for run in runs {
        let mut rest = &wire[run.bytes.clone()];
        let (segment, course) = (run.segment, run.course);
        while !rest.is_empty() {
            if waiting.has(course.local) {
                waiting.0.push_back((rest.to_vec(), segment, course));
                break;
            }
            calls += 1;
            let Some(taken) = send_once(ways, rest, segment, course, ports, &mut tell) else {
                waiting.0.push_back((rest.to_vec(), segment, course));
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
    ways: Ways<'_>,
    bytes: &[u8],
    segment: u32,
    course: Course,
    ports: &mut dyn DatagramPorts,
    tell: &mut impl FnMut(Told),
) -> Option<usize> {
    let Some((port, from)) = ways.get(course.local) else { return Some(bytes.len()) };
    let limits = ports.limits(port);
    let most = (limits.batch_bytes / segment.max(1)).clamp(1, limits.batch_datagrams.max(1));
    let bytes = &bytes[..bytes.len().min((most * segment) as usize)];
    let ecn = Ecn::from_bits(course.ecn);
    let batch = DatagramBatch { to: course.to.into(), from, segment_size: segment.max(1), ecn };
    outcome(&ports.send(port, &batch, &[Piece::Bytes(bytes)]), bytes.len(), segment, course, tell)
}

/// What a call has come to that was to send so many bytes. `None`: there is no room now. Otherwise the bytes that are
/// done with.
pub(super) fn outcome(
    result: &Result<DatagramSent, PortError>,
    bytes: usize,
    segment: u32,
    course: Course,
    tell: &mut impl FnMut(Told),
) -> Option<usize> {
    match result {
        Ok(DatagramSent::Taken(0)) => None,
        Ok(DatagramSent::Taken(count)) => Some(bytes.min(*count as usize * segment as usize)),
        Ok(DatagramSent::TooLarge(limit)) => {
            tell(Told::TooLarge(course.rail, segment, *limit));
            Some(bytes.min(segment as usize))
        }
        Err(_) => {
            // As if it had been lost on the way.
            tell(Told::Unreachable(course.rail));
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

    fn has(&self, local: u8) -> bool {
        self.0.iter().any(|(_, _, course)| course.local == local)
    }

    /// The ways that have no room, by the bits of their indices.
    pub(super) fn blocked(&self) -> u16 {
        self.0.iter().fold(0, |blocked, (_, _, course)| blocked | 1 << course.local)
    }

    /// Sends what waits. Returns whether anything left.
    pub(super) fn flush(&mut self, ways: Ways<'_>, ports: &mut dyn DatagramPorts, mut tell: impl FnMut(Told)) -> bool {
        let (mut any, mut blocked) = (false, 0_u16);
        self.0.retain_mut(|(bytes, segment, course)| {
            while blocked & 1 << course.local == 0 && !bytes.is_empty() {
                match send_once(ways, bytes, *segment, *course, ports, &mut tell) {
                    Some(taken) => drop(bytes.drain(..taken)),
                    None => blocked |= 1 << course.local,
                }
                any |= blocked & 1 << course.local == 0;
            }
            !bytes.is_empty()
        });
        any
    }
}
