//! What arrives for a connection, and what that hands up: segments, each in its place before it is acknowledged.

use weft_base::NoDigest;
use weft_edge::{Meta, Options, Run, Sink, Verdict};
use weft_memory::MemoryError;
use weft_rdmap::{Arrival, HEAD_LENGTH, Later, OrderConstraint, Placement, Verdict as Judgement, Violation};
use weft_wire::Crc32c;
use weft_wire::ddp::Header;
use weft_wire::edge::Destination as For;
use weft_wire::edge::frame::ddp_header_length;
use weft_wire::edge::setup::reset_token;

use super::laboratory::InOrder;
use super::outbox::Outbox;
use super::rails;
use super::state::{Edge, Handed, Intake, Phase, Running};
use crate::lower::{DatagramRun, Io, ReceiveError, StreamSink};

/// Hands segments up to a stream.
pub(super) struct SegmentSink<'a, 'b, A, S> {
    pub(super) above: &'a mut A,
    pub(super) io: &'a mut Io<'b, S>,
    pub(super) handed: &'a mut Handed,
    /// The engine that serves the port has seen that the payload is good.
    pub(super) is_checked: bool,
}

impl Edge {
    /// Takes what has arrived for an established connection. Returns what became of its segments, if anything had.
    pub(super) fn take<A: StreamSink>(
        &mut self,
        mut above: Option<&mut A>,
        io: &mut Io<'_, impl AsMut<Outbox>>,
    ) -> Option<Handed> {
        let mut inbox = core::mem::take(&mut io.inbox);
        if inbox.is_empty() {
            return None;
        }
        let port = inbox.port();
        let mut handed = Handed::default();
        let rails = &self.rails;
        let paths = rails.paths((self.port, self.from));
        let Phase::Running(running) = &mut self.phase else { return None };
        let Running { connection, intake, took, .. } = &mut **running;
        *took = true;
        let (mut present, mut came_to) = (None, None);
        while let Some(DatagramRun { all, size }) = inbox.next_run() {
            let local = rails.local_of(port, all.to);
            came_to = all.to;
            if present.replace(local) != Some(local) {
                paths.get(local).into_iter().for_each(|way| rails::tell_socket(connection, local, way, io));
            }
            io.counters.received_wire_bytes += all.bytes.len() as u64;
            let meta = Meta { from: all.from, local, ecn: all.ecn.bits(), now: io.now };
            let mut rest = all.bytes;
            while !rest.is_empty() {
                let (packets, others) = rest.split_at(packets_of(rest, size));
                let is_checked = all.is_checked;
                match (&mut *intake, above.as_deref_mut()) {
                    (Intake::Place, Some(above)) => {
                        let mut sink = SegmentSink { above, io, handed: &mut handed, is_checked };
                        connection.receive_all(packets, size, &meta, &mut sink);
                    }
                    (Intake::Discard, _) | (_, None) => connection.receive_all(packets, size, &meta, &mut Discard),
                    (Intake::Laboratory(kept), Some(above)) => {
                        let sink = SegmentSink { above, io, handed: &mut handed, is_checked };
                        connection.receive_all(packets, size, &meta, &mut InOrder { sink, kept });
                    }
                }
                let (other, after) = others.split_at(size.min(others.len()));
                // A hello that comes again is late.
                if let Ok(token) = reset_token(other) {
                    connection.receive_reset(&token, io.now);
                }
                rest = after;
            }
        }
        if self.has_moved {
            self.see_move(came_to, io);
        }
        self.settle(handed, io.now);
        self.count(io.counters);
        Some(handed)
    }

    /// Whether nothing follows from datagrams of which the stream has taken whole messages and nothing else, and
    /// nothing is to be done in this turn: as [`Edge::handle_times`], [`Edge::report_sent`] and [`Edge::is_due`] would
    /// find.
    pub(super) fn rests_behind_messages(&mut self, io: &Io<'_, impl AsMut<Outbox>>) -> bool {
        let is_due = self.is_due(io);
        let Phase::Running(running) = &mut self.phase else { return false };
        let acknowledged = running.connection.acknowledged();
        let is_told = running.held.is_none() && running.ends.front().is_none_or(|end| *end > acknowledged);
        let rests = running.takes_messages() && !is_due && is_told && io.now < running.idle_until.get();
        // No acknowledgement is due that an answer could take along.
        running.took &= !rests;
        rests
    }

    /// The same where an acknowledgement is due, which is held for an answer of the application from now on if that
    /// pays, and where the peer has acknowledged segments, which is reported to the stream. Returns false where more is
    /// to be done.
    pub(super) fn holds_ack_of_messages<A: StreamSink>(
        &mut self,
        above: &mut A,
        io: &mut Io<'_, impl AsMut<Outbox>>,
    ) -> bool {
        let Phase::Running(running) = &mut self.phase else { return false };
        let may_hold = running.held.is_none() && running.takes_messages() && running.connection.owes_ack(io.now);
        if !may_hold || io.now >= running.idle_until.get() {
            return false;
        }
        running.connection.hold_acks(true);
        let is_due = self.is_due(io);
        let Phase::Running(running) = &mut self.phase else { return false };
        let holds = !is_due && running.may_wait(io);
        running.connection.hold_acks(holds);
        // The policy decides once for the messages of this turn.
        running.took &= is_due;
        if holds {
            running.held = Some((io.now, io.turn));
            self.report_sent(above, io);
        }
        holds
    }
}

/// Takes segments that no layer wants any more, and drops them.
struct Discard;

impl Sink for Discard {
    fn segment(&mut self, _: u64, _: &[u8], _: u32, _: Options) -> Verdict {
        Verdict::Duplicate
    }
}

/// Bytes of the datagrams at the front that are packets of an established connection.
fn packets_of(datagrams: &[u8], size: usize) -> usize {
    let is_packet = |datagram: &&[u8]| matches!(weft_wire::edge::destination(datagram), Ok(For::Connection(_)));
    datagrams.chunks(size).take_while(is_packet).map(<[u8]>::len).sum()
}

impl<A: StreamSink, S> SegmentSink<'_, '_, A, S> {
    /// The place of a segment in the order of its connection, and what its peer requests of that.
    ///
    /// # Errors
    /// It is not wanted any more, or damaged.
    #[inline]
    pub(super) fn check(
        &self,
        position: u64,
        ulpdu: &[u8],
        crc: u32,
        options: Options,
    ) -> Result<(Arrival, OrderConstraint), Verdict> {
        if self.handed.is_over || self.handed.error.is_some() {
            return Err(Verdict::Duplicate);
        }
        // What can't be read is the stream's to judge, when its turn comes: so it takes one position at least. Its
        // header was checked with the packet's, so it is as the peer has written it.
        let header = Header::parse(ulpdu).map(|header| (header.length(), header.last));
        let (header_length, last) = header.unwrap_or((ddp_header_length(ulpdu[0]), true));
        let payload = &ulpdu[header_length..];
        if !self.is_checked && Crc32c::of(payload) != crc {
            return Err(Verdict::BadPayload);
        }
        let arrival = Arrival { start: position, end: position + payload.len() as u64 + u64::from(last) };
        Ok((arrival, OrderConstraint { unordered: options.unordered, after: options.after }))
    }
}

impl<A: StreamSink, S> Sink for SegmentSink<'_, '_, A, S> {
    fn segment(&mut self, position: u64, ulpdu: &[u8], crc: u32, options: Options) -> Verdict {
        match self.check(position, ulpdu, crc, options) {
            Ok((arrival, constraint)) => self.hand_up(arrival, constraint, ulpdu),
            Err(verdict) => verdict,
        }
    }

    /// One long segment, but for its payload, which lies in the packets. All of that is checked before any is placed.
    fn run(&mut self, position: u64, run: &Run<'_>, options: Options) -> Verdict {
        if self.handed.is_over || self.handed.error.is_some() {
            return Verdict::Later;
        }
        if !self.is_checked && !run.parts().all(|(payload, crc)| Crc32c::of(payload) == crc) {
            return Verdict::BadPayload;
        }
        let end = position + run.payload_length() as u64 + u64::from(run.is_last());
        let constraint = OrderConstraint { unordered: options.unordered, after: options.after };
        let mut head = [0; HEAD_LENGTH];
        let Some(length) = head_of(run, &mut head) else { return Verdict::Later };
        let ulpdu = Ulpdu { head: &head[..length], header_length: run.ddp_header().len(), payload: Payload::Run(run) };
        self.place(Arrival { start: position, end }, constraint, &ulpdu)
    }
}

/// A segment as it came.
struct Ulpdu<'a> {
    /// Its first bytes: [`HEAD_LENGTH`] of them, or all.
    head: &'a [u8],
    header_length: usize,
    payload: Payload<'a>,
}

/// What follows the DDP header.
enum Payload<'a> {
    One(&'a [u8]),
    Run(&'a Run<'a>),
}

impl Ulpdu<'_> {
    fn length(&self) -> usize {
        let payload = match self.payload {
            Payload::One(payload) => payload.len(),
            Payload::Run(run) => run.payload_length(),
        };
        self.header_length + payload
    }

    /// The number of segments that it was sent as.
    fn frames(&self) -> u64 {
        match self.payload {
            Payload::One(_) => 1,
            Payload::Run(run) => run.count() as u64,
        }
    }
}

/// What is left of the payloads of a run.
struct Payloads<'a, I> {
    /// Of the first one, and behind that.
    first: &'a [u8],
    others: I,
}

impl<'a, I: Iterator<Item = &'a [u8]>> Payloads<'a, I> {
    /// Takes `length` bytes, or all that are left, in the parts in which they are.
    fn take(&mut self, length: usize) -> impl Iterator<Item = &'a [u8]> {
        let mut left = length;
        core::iter::from_fn(move || {
            if left > 0 && self.first.is_empty() {
                self.first = self.others.next()?;
            }
            let (part, rest) = self.first.split_at(left.min(self.first.len()));
            (self.first, left) = (rest, left - part.len());
            (!part.is_empty()).then_some(part)
        })
    }
}

/// Writes the beginning of the long segment that a run is. `None`: its first payload does not fill it.
fn head_of(run: &Run<'_>, head: &mut [u8; HEAD_LENGTH]) -> Option<usize> {
    let ulpdu = run.segment().ulpdu;
    let header = Header { last: run.is_last(), ..Header::parse(ulpdu).ok()? };
    let length = HEAD_LENGTH.min(header.length() + run.payload_length());
    head[..length].copy_from_slice(ulpdu.get(..length)?);
    header.emit(head);
    Some(length)
}

impl<A: StreamSink, S> SegmentSink<'_, '_, A, S> {
    fn fail(&mut self, error: ReceiveError) -> Verdict {
        self.handed.error = Some(error);
        Verdict::Fatal
    }

    /// A segment whose payload is good.
    pub(super) fn hand_up(&mut self, arrival: Arrival, constraint: OrderConstraint, ulpdu: &[u8]) -> Verdict {
        if self.above.packet(arrival, ulpdu, self.io.now, self.io.counters) {
            self.io.counters.received_frames += 1;
            return Verdict::Placed;
        }
        let (header_length, head) = (ddp_header_length(ulpdu[0]), &ulpdu[..ulpdu.len().min(HEAD_LENGTH)]);
        let payload = Payload::One(&ulpdu[header_length..]);
        self.place(arrival, constraint, &Ulpdu { head, header_length, payload })
    }

    fn place(&mut self, arrival: Arrival, constraint: OrderConstraint, ulpdu: &Ulpdu<'_>) -> Verdict {
        self.handed.has_others = true;
        loop {
            let verdict = self.above.locate(arrival, constraint, ulpdu.length() as u32, ulpdu.head);
            let placement = match &verdict {
                Judgement::Place(placement) => placement,
                Judgement::Drop => return Verdict::Duplicate,
                Judgement::Later(Later::NotReady) => {
                    self.handed.is_starved = true;
                    return Verdict::NotReady;
                }
                Judgement::Later(_) => return Verdict::Later,
                Judgement::Fatal(Violation::NotReceiving(_)) => {
                    self.handed.is_over = true;
                    return Verdict::Duplicate;
                }
                Judgement::Fatal(_) => return self.fail(ReceiveError::Judged),
            };
            if self.copy(ulpdu, placement).is_err() {
                let checked = self.above.stream().recheck(placement);
                return match checked {
                    Ok(()) => {
                        self.above.stream().fail_placement(placement);
                        self.fail(ReceiveError::Judged)
                    }
                    Err(None) => Verdict::Later,
                    Err(_) => self.fail(ReceiveError::Judged),
                };
            }
            let (length, is_partial) = (placement.sink.length(), placement.is_partial);
            let is_early = arrival.start > self.above.stream().next_position();
            let (counters, frames) = (&mut *self.io.counters, if is_partial { 0 } else { ulpdu.frames() });
            counters.early_frames += if is_early { frames } else { 0 };
            counters.received_frames += frames;
            counters.placed_copied += 1;
            counters.placed_copied_bytes += u64::from(length);
            if self.above.placed(placement, counters).is_err() {
                return self.fail(ReceiveError::Judged);
            }
            if !self.above.stream().state().receives() {
                self.handed.is_over = true;
                return Verdict::Placed;
            }
            if !is_partial {
                return Verdict::Placed;
            }
        }
    }

    fn copy(&self, ulpdu: &Ulpdu<'_>, placement: &Placement) -> Result<(), MemoryError> {
        // What was in place before is not touched again.
        let skip = placement.header_length as usize - ulpdu.header_length;
        let slices = placement.sink.slices();
        match ulpdu.payload {
            Payload::One(payload) => {
                let mut rest = payload.get(skip..).unwrap_or_default();
                for slice in slices {
                    let (now, later) = rest.split_at(slice.length as usize);
                    self.io.registry.copy_in(slice, now, &mut NoDigest)?;
                    rest = later;
                }
            }
            Payload::Run(run) => {
                let payloads = run.parts().map(|(payload, _)| payload);
                if let [slice] = slices
                    && slice.length as usize == run.payload_length()
                {
                    return self.io.registry.copy_in_parts(slice, payloads);
                }
                let mut rest = Payloads { first: &[], others: payloads };
                rest.take(skip).for_each(drop);
                for slice in slices {
                    self.io.registry.copy_in_parts(slice, rest.take(slice.length as usize))?;
                }
            }
        }
        Ok(())
    }
}
