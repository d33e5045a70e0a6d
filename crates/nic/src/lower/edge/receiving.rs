//! What comes for a connection, and what that hands up: segments, each in its place before it is acknowledged.

use weft_base::NoDigest;
use weft_edge::{Meta, Options, Sink, Verdict};
use weft_memory::MemoryError;
use weft_rdmap::{Arrival, Demand, HEAD_LENGTH, Later, Placement, Verdict as Judgement, Violation};
use weft_wire::Crc32c;
use weft_wire::ddp::Header;
use weft_wire::edge::Destination as For;
use weft_wire::edge::frame::ddp_header_length;
use weft_wire::edge::setup::reset_token;

use super::kept::Kept;
use super::outbox::Outbox;
use super::rails;
use super::state::{Edge, Handed, Phase, Running};
use crate::lower::{Above, Io, ReceiveError};

/// Hands segments up to a stream.
struct Uphill<'a, 'b, A, S> {
    above: &'a mut A,
    io: &'a mut Io<'b, S>,
    handed: &'a mut Handed,
    /// The engine that serves the port has seen that the payload is good.
    is_checked: bool,
    /// What comes before its turn is kept here, if it is not to be placed.
    kept: Option<&'a mut Kept>,
}

impl Edge {
    /// Takes what has come for an established connection. Returns whether anything had.
    pub(super) fn take<A: Above>(&mut self, mut above: Option<&mut A>, io: &mut Io<'_, impl AsMut<Outbox>>) -> bool {
        self.try_kept(above.as_deref_mut(), io);
        let inbox = core::mem::take(&mut io.inbox);
        if inbox.is_empty() {
            return false;
        }
        let port = inbox.port();
        let mut handed = Handed::default();
        let rails = &self.rails;
        let ways = rails.ways((self.port, self.from));
        let Phase::Running(running) = &mut self.phase else { return false };
        let Running { connection, discards, took, kept, .. } = &mut **running;
        *took = true;
        let (mut present, mut came_to) = (None, None);
        for datagram in inbox {
            let local = rails.local_of(port, datagram.to);
            came_to = datagram.to;
            if present.replace(local) != Some(local) {
                ways.get(local).into_iter().for_each(|way| rails::tell_socket(connection, local, way, io));
            }
            io.counters.received_wire_bytes += datagram.bytes.len() as u64;
            match weft_wire::edge::destination(datagram.bytes) {
                Ok(For::Connection(_)) => {
                    let meta = Meta { from: datagram.from, local, ecn: datagram.ecn.bits(), now: io.now };
                    match above.as_deref_mut() {
                        Some(above) if !*discards => {
                            let is_checked = datagram.is_checked;
                            let kept = kept.as_deref_mut();
                            let mut uphill = Uphill { above, io, handed: &mut handed, is_checked, kept };
                            connection.receive(datagram.bytes, &meta, &mut uphill);
                        }
                        _ => connection.receive(datagram.bytes, &meta, &mut Discard),
                    }
                }
                Ok(For::Reset { .. }) => {
                    if let Ok(token) = reset_token(datagram.bytes) {
                        connection.receive_reset(&token, io.now);
                    }
                }
                // A hello that comes again is late.
                Ok(For::Setup { .. }) | Err(_) => {}
            }
        }
        if self.has_moved {
            self.see_move(came_to, io);
        }
        self.settle(handed, io.now);
        self.count(io.counters);
        true
    }

    /// Tries the first of the kept segments again, if its turn had come and it could not be taken.
    fn try_kept<A: Above>(&mut self, above: Option<&mut A>, io: &mut Io<'_, impl AsMut<Outbox>>) {
        let Phase::Running(running) = &mut self.phase else { return };
        let Some(kept) = running.kept.as_deref_mut().filter(|kept| kept.is_stuck && !running.discards) else { return };
        let Some(above) = above else { return };
        kept.is_stuck = false;
        let (mut handed, now) = (Handed::default(), io.now);
        Uphill { above, io, handed: &mut handed, is_checked: true, kept: Some(kept) }.hand_up_kept();
        self.settle(handed, now);
    }
}

/// Takes segments of which nobody wants to know any more.
struct Discard;

impl Sink for Discard {
    fn segment(&mut self, _: u64, _: &[u8], _: u32, _: Options) -> Verdict {
        Verdict::Duplicate
    }
}

impl<A: Above, S> Sink for Uphill<'_, '_, A, S> {
    fn segment(&mut self, position: u64, ulpdu: &[u8], crc: u32, options: Options) -> Verdict {
        if self.handed.is_over || self.handed.error.is_some() {
            return Verdict::Duplicate;
        }
        // What can't be read is the stream's to judge, when its turn comes: so it takes one position at least. Its
        // header was checked with the packet's, so it is as the peer has written it.
        let header = Header::parse(ulpdu).map(|header| (header.length(), header.last));
        let (header_length, last) = header.unwrap_or((ddp_header_length(ulpdu[0]), true));
        let payload = &ulpdu[header_length..];
        if !self.is_checked && Crc32c::of(payload) != crc {
            return Verdict::BadPayload;
        }
        let arrival = Arrival { start: position, end: position + payload.len() as u64 + u64::from(last) };
        let demand = Demand { unordered: options.unordered, after: options.after };
        if self.kept.is_some() { self.in_order(arrival, demand, ulpdu) } else { self.hand_up(arrival, demand, ulpdu) }
    }
}

impl<A: Above, S> Uphill<'_, '_, A, S> {
    fn fail(&mut self, error: ReceiveError) -> Verdict {
        self.handed.error = Some(error);
        Verdict::Fatal
    }

    /// A segment whose payload is good.
    fn hand_up(&mut self, arrival: Arrival, demand: Demand, ulpdu: &[u8]) -> Verdict {
        if self.above.packet(arrival, ulpdu, self.io.now, self.io.counters) {
            self.io.counters.received_frames += 1;
            return Verdict::Placed;
        }
        self.place(arrival, demand, ulpdu)
    }

    /// Hands a segment up if it is its turn, and then those that have waited for it. Otherwise it is kept, and
    /// acknowledged: the peer sends it no more. That all before a position is acknowledged still means that it is
    /// placed, for whatever came last has brought those behind it to their places.
    fn in_order(&mut self, arrival: Arrival, demand: Demand, ulpdu: &[u8]) -> Verdict {
        let next = self.above.stream().next_position();
        if let Some(kept) = self.kept.as_deref_mut().filter(|_| arrival.start > next) {
            return match kept.keep(arrival, demand, ulpdu) {
                None => Verdict::Later,
                Some(false) => Verdict::Duplicate,
                Some(true) => {
                    self.io.counters.kept_bytes += ulpdu.len() as u64;
                    Verdict::Placed
                }
            };
        }
        let verdict = self.hand_up(arrival, demand, ulpdu);
        if matches!(verdict, Verdict::Placed | Verdict::Duplicate) {
            self.hand_up_kept();
        }
        verdict
    }

    /// Hands up those kept segments whose turn has come.
    fn hand_up_kept(&mut self) {
        while !self.handed.is_over && self.handed.error.is_none() {
            let next = self.above.stream().next_position();
            let Some(segment) = self.kept.as_deref_mut().and_then(|kept| kept.take(next)) else { return };
            let verdict = self.hand_up(segment.arrival, segment.demand, &segment.ulpdu);
            let Some(kept) = self.kept.as_deref_mut() else { return };
            if matches!(verdict, Verdict::Later | Verdict::NotReady) {
                // It has been acknowledged, so nobody brings it again: it is looked at again.
                self.handed.is_starved = true;
                return kept.put_back(segment);
            }
            kept.recycle(segment);
        }
    }

    fn place(&mut self, arrival: Arrival, demand: Demand, ulpdu: &[u8]) -> Verdict {
        let head = &ulpdu[..ulpdu.len().min(HEAD_LENGTH)];
        loop {
            let verdict = self.above.locate(arrival, demand, ulpdu.len() as u32, head);
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
                    Ok(()) => self.fail(ReceiveError::Memory),
                    Err(None) => Verdict::Later,
                    Err(_) => self.fail(ReceiveError::Judged),
                };
            }
            let (length, is_partial) = (placement.sink.length(), placement.is_partial);
            let is_early = arrival.start > self.above.stream().next_position();
            let counters = &mut *self.io.counters;
            counters.early_frames += u64::from(is_early && !is_partial);
            counters.received_frames += u64::from(!is_partial);
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

    fn copy(&self, ulpdu: &[u8], placement: &Placement) -> Result<(), MemoryError> {
        // What was in place before is not touched again.
        let mut rest = &ulpdu[placement.header_length as usize..];
        for slice in placement.sink.slices() {
            let (now, later) = rest.split_at(slice.length as usize);
            self.io.registry.copy_in(slice, now, &mut NoDigest)?;
            rest = later;
        }
        Ok(())
    }
}
