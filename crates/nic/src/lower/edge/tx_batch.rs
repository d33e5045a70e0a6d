//! Datagrams that leave by a port that another engine serves: that engine copies their payload, sums it up and sends
//! them.

use core::time::Duration;
use std::collections::VecDeque;

use arrayvec::ArrayVec;
use weft_base::{DatagramBatch, DatagramLimits, DatagramPort, Ecn, LocalAddress, Piece, Time};
use weft_edge::Datagram;
use weft_memory::Registry;

use super::outbox::{GsoBatch, Outbox, Paths, outcome};
use super::wire::{COPY_ALL, Wire, lay};
use crate::lower::{DatagramKey, Leaving, SendFailure, ServedPorts, TxBatch};
use crate::settings::Rails;

/// What has waited for this long at a port that another engine serves is taken back: that engine is slow, or its thread
/// has ended.
const TAKE_BACK_AFTER: Duration = Duration::from_millis(20);

/// Datagrams of one connection that leave by one port.
#[derive(Debug, Default)]
pub struct EdgeTxBatch {
    /// What this end calls the connection. 0: of none.
    name: u64,
    from: Option<LocalAddress>,
    bytes: Vec<u8>,
    pieces: Vec<weft_edge::Piece>,
    datagrams: Vec<Datagram>,
}

impl EdgeTxBatch {
    fn begin(&mut self, name: u64, from: Option<LocalAddress>) {
        (self.name, self.from) = (name, from);
        self.bytes.clear();
        self.pieces.clear();
        self.datagrams.clear();
    }

    /// Takes the datagrams of a batch that leave by this path. Returns their bytes.
    fn pack(&mut self, batch: &weft_edge::Batch, local: u8) -> usize {
        let mut bytes = 0;
        for datagram in batch.datagrams.iter().filter(|datagram| datagram.local == local) {
            let first = self.pieces.len();
            for piece in &batch.pieces[datagram.pieces.clone()] {
                let (weft_edge::Piece::Bytes { start, length }
                | weft_edge::Piece::Payload { start, length, .. }
                | weft_edge::Piece::Row { start, length, .. }) = *piece;
                let at = self.bytes.len() as u32;
                self.bytes.extend_from_slice(&batch.bytes[start as usize..(start + length) as usize]);
                self.pieces.push(match *piece {
                    weft_edge::Piece::Bytes { .. } => weft_edge::Piece::Bytes { start: at, length },
                    weft_edge::Piece::Payload { gather, in_place, .. } => {
                        weft_edge::Piece::Payload { start: at, length, gather, in_place }
                    }
                    weft_edge::Piece::Row { head, gather, part, in_place, .. } => {
                        weft_edge::Piece::Row { start: at, length, head, gather, part, in_place }
                    }
                });
            }
            bytes += datagram.length * datagram.count as usize;
            self.datagrams.push(Datagram { pieces: first..self.pieces.len(), ..datagram.clone() });
        }
        bytes
    }
}

impl TxBatch for EdgeTxBatch {
    fn name(&self) -> u64 {
        self.name
    }

    fn fill(&mut self, batch: &DatagramBatch, bytes: &[u8]) {
        self.begin(0, batch.from);
        let Some(to) = batch.to.ip() else { return };
        for datagram in bytes.chunks(batch.segment_size.max(1) as usize) {
            let (first, start, length) = (self.pieces.len(), self.bytes.len() as u32, datagram.len() as u32);
            self.bytes.extend_from_slice(datagram);
            self.pieces.push(weft_edge::Piece::Bytes { start, length });
            let ecn = batch.ecn.bits();
            let pieces = first..self.pieces.len();
            self.datagrams.push(Datagram { to, local: 0, pieces, length: datagram.len(), count: 1, ecn, rail: 0 });
        }
    }
}

impl Outbox {
    /// Gives the batch's datagrams to the engines that serve the ports they leave by, where that is another one and it
    /// takes them now. Returns which paths that were, as bits, and the bytes.
    pub(super) fn post(&self, paths: Paths<'_>, name: u64, ports: &mut dyn ServedPorts) -> (u16, usize) {
        let (mut posted, mut bytes) = (0, 0);
        let Some(batch) = self.batch.as_ref().filter(|_| ports.any_served()) else { return (posted, bytes) };
        for local in self.locals() {
            let Some((port, from)) = paths.get(local) else { continue };
            let taken = ports.post(port, &mut |tx_batch| {
                let tx_batch: &mut EdgeTxBatch =
                    tx_batch.downcast_mut().expect("an engine's tx_batches are its lower layer's");
                tx_batch.begin(name, from);
                bytes += tx_batch.pack(batch, local);
            });
            posted |= u16::from(taken) << local;
        }
        (posted, bytes)
    }
}

/// A transmit batch on its way out, at the engine that serves the port.
#[derive(Debug, Default)]
pub struct EdgeLeaving {
    name: u64,
    from: Option<LocalAddress>,
    wire: Wire,
    runs: VecDeque<GsoBatch>,
    laid: Vec<GsoBatch>,
}

impl Leaving for EdgeLeaving {
    type TxBatch = EdgeTxBatch;

    fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    fn load(&mut self, tx_batch: &EdgeTxBatch, registry: &Registry) {
        (self.name, self.from) = (tx_batch.name, tx_batch.from);
        self.wire.clear();
        self.laid.clear();
        for datagram in &tx_batch.datagrams {
            let before = self.wire.length();
            let pieces = &tx_batch.pieces[datagram.pieces.clone()];
            let pieces = (pieces, &tx_batch.bytes[..]);
            if lay(&mut self.wire, &mut self.laid, datagram, pieces, registry, COPY_ALL).is_err() {
                self.wire.truncate(before);
            }
        }
        self.runs.extend(self.laid.drain(..));
    }

    fn send(
        &mut self,
        port: &mut impl DatagramPort,
        limits: &DatagramLimits,
        mut tell: impl FnMut(u64, SendFailure),
    ) -> (usize, u64) {
        let (mut sent, mut calls) = (0, 0);
        while let Some(run) = self.runs.front_mut() {
            let segment = run.segment.max(1);
            let most = (limits.batch_bytes / segment).clamp(1, limits.batch_datagrams.max(1)) * segment;
            let bytes = &self.wire.bytes()[run.bytes.clone()];
            let bytes = &bytes[..bytes.len().min(most as usize)];
            let (to, ecn) = (run.tx_key.to.into(), Ecn::from_bits(run.tx_key.ecn));
            let batch = DatagramBatch { to, from: self.from, segment_size: segment, ecn };
            calls += 1;
            let result = port.send(&batch, &[Piece::Bytes(bytes)]);
            let Some(taken) =
                outcome(&result, bytes.len(), segment, run.tx_key, &mut |failure| tell(self.name, failure))
            else {
                break;
            };
            sent += taken;
            run.bytes.start += taken;
            if run.bytes.is_empty() {
                self.runs.pop_front();
            }
        }
        (sent, calls)
    }
}

/// Whether all payload of a datagram is as it was sent. It need not be checked again then; what else is in it is for
/// the connection to check, which knows its packet numbers.
pub(super) fn has_good_payload(datagram: &[u8]) -> bool {
    let Ok(packet) = weft_wire::edge::packet::Packet::parse(datagram) else { return false };
    packet.frames().all(|frame| match frame {
        weft_wire::edge::frame::Frame::Segment(segment) => weft_wire::Crc32c::of(segment.payload()) == segment.crc,
        _ => true,
    })
}

/// Up to where work requests may complete. What the peer has acknowledged is sent no more, but a transmit batch that
/// was posted before may wait at its port yet, and then reads the memory of a request: that has not completed before.
#[derive(Debug, Default)]
pub(super) struct Release {
    released: u64,
    next: Option<Held>,
}

/// What waits until transmit batches have left.
#[derive(Debug)]
struct Held {
    upto: u64,
    /// For each port the first transmit batch that does not count.
    marks: ArrayVec<(DatagramKey, u64), { Rails::MOST }>,
    since: Time,
}

impl Release {
    /// All segments up to here may complete, of those that the peer has acknowledged.
    pub(super) fn ask(
        &mut self,
        acknowledged: u64,
        paths: Paths<'_>,
        name: u64,
        ports: &mut dyn ServedPorts,
        now: Time,
    ) -> u64 {
        if !ports.any_served() {
            (self.released, self.next) = (acknowledged, None);
        }
        while self.released < acknowledged {
            let held = self.next.get_or_insert_with(|| {
                let marks = paths.all().filter_map(|(port, _)| Some((port, ports.posted(port)?))).collect();
                Held { upto: acknowledged, marks, since: now }
            });
            held.marks.retain(|(port, mark)| !ports.have_left(*port, *mark, name));
            if !held.marks.is_empty() {
                if held.since + TAKE_BACK_AFTER <= now {
                    // The engine that serves the port is slow or has ended: the peer has got it otherwise.
                    held.marks.iter().for_each(|(port, _)| ports.take_back(*port, name));
                    held.since = now;
                }
                break;
            }
            self.released = held.upto;
            self.next = None;
        }
        self.released
    }

    /// Whether something that is acknowledged may not complete yet.
    pub(super) const fn is_held(&self) -> bool {
        self.next.is_some()
    }

    /// When transmit batches are taken back that have not left.
    pub(super) fn next_timeout(&self) -> Option<Time> {
        self.next.as_ref().map(|held| held.since + TAKE_BACK_AFTER)
    }

    /// Nothing waits any more.
    pub(super) fn forget(&mut self) {
        self.next = None;
    }
}

#[cfg(test)]
mod tests {
    use core::any::Any;
    use std::net::IpAddr;

    use slotmap::SlotMap;

    use super::*;
    use crate::lower::RailPort;

    const NAME: u64 = 7;

    /// Ports with transmit batches numbered from 1 on, and of each port the number of those that were sent.
    struct Ports {
        keys: Vec<DatagramKey>,
        posted: Vec<u64>,
        left: Vec<u64>,
        taken_back: Vec<DatagramKey>,
    }

    impl Ports {
        fn new(posted: &[u64]) -> Self {
            let mut keys = SlotMap::new();
            let keys = posted.iter().map(|_| DatagramKey(keys.insert(()))).collect();
            Self { keys, posted: posted.to_vec(), left: vec![0; posted.len()], taken_back: Vec::new() }
        }

        fn rails(&self) -> Vec<Option<RailPort>> {
            let ip = IpAddr::from([10, 0, 0, 1]);
            let (from, address) = (LocalAddress { ip, interface: 0 }, (ip, 7).into());
            self.keys[1..].iter().map(|port| Some(RailPort { port: *port, from, flow: 0, address })).collect()
        }

        fn at(&self, port: DatagramKey) -> usize {
            self.keys.iter().position(|key| *key == port).unwrap()
        }
    }

    impl ServedPorts for Ports {
        fn any_served(&self) -> bool {
            true
        }

        fn post(&mut self, _: DatagramKey, _: &mut dyn FnMut(&mut dyn Any)) -> bool {
            false
        }

        fn posted(&self, port: DatagramKey) -> Option<u64> {
            let at = self.at(port);
            (self.left[at] < self.posted[at]).then_some(self.posted[at] + 1)
        }

        fn have_left(&mut self, port: DatagramKey, mark: u64, name: u64) -> bool {
            assert_eq!(name, NAME);
            self.left[self.at(port)] + 1 >= mark
        }

        fn take_back(&mut self, port: DatagramKey, _: u64) {
            let at = self.at(port);
            self.left[at] = self.posted[at];
            self.taken_back.push(port);
        }
    }

    const START: Time = Time::from_nanos(1_000_000);

    #[test]
    fn what_no_other_engine_serves_completes_at_once() {
        let mut ports = Ports::new(&[0, 0]);
        let rails = ports.rails();
        let paths = Paths { first: (ports.keys[0], None), others: &rails };
        let mut release = Release::default();
        for acknowledged in [0, 10, 25] {
            assert_eq!(release.ask(acknowledged, paths, NAME, &mut ports, START), acknowledged);
        }
        assert!(!release.is_held() && release.next_timeout().is_none());
    }

    #[test]
    fn nothing_completes_before_the_tx_batches_have_left_that_were_posted_before_it_was_acknowledged() {
        let mut ports = Ports::new(&[0, 3, 2]);
        let rails = ports.rails();
        let paths = Paths { first: (ports.keys[0], None), others: &rails };
        let mut release = Release::default();
        assert_eq!(release.ask(10, paths, NAME, &mut ports, START), 0);
        assert!(release.is_held());
        // More is acknowledged, and posted: it waits for its own turn.
        ports.posted = vec![0, 9, 2];
        assert_eq!(release.ask(20, paths, NAME, &mut ports, START), 0);
        ports.left = vec![0, 3, 1];
        assert_eq!(release.ask(20, paths, NAME, &mut ports, START), 0, "one of them has not");
        ports.left = vec![0, 3, 2];
        assert_eq!(release.ask(20, paths, NAME, &mut ports, START), 10);
        ports.left = vec![0, 8, 2];
        assert_eq!(release.ask(20, paths, NAME, &mut ports, START), 10);
        ports.left = vec![0, 9, 2];
        assert_eq!(release.ask(20, paths, NAME, &mut ports, START), 20);
        assert!(!release.is_held() && ports.taken_back.is_empty());
    }

    #[test]
    fn what_does_not_leave_is_taken_back() {
        let mut ports = Ports::new(&[1, 1]);
        let rails = ports.rails();
        let paths = Paths { first: (ports.keys[0], None), others: &rails };
        let mut release = Release::default();
        assert_eq!(release.ask(10, paths, NAME, &mut ports, START), 0);
        let due = release.next_timeout().unwrap();
        assert_eq!(due, START + TAKE_BACK_AFTER);
        ports.left[0] = 1;
        assert_eq!(release.ask(10, paths, NAME, &mut ports, Time::from_nanos(due.as_nanos() - 1)), 0);
        assert!(ports.taken_back.is_empty());
        release.ask(10, paths, NAME, &mut ports, due);
        assert_eq!(ports.taken_back, [ports.keys[1]], "the other one has sent its own");
        assert_eq!(release.ask(10, paths, NAME, &mut ports, due), 10);
    }
}
