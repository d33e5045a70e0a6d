//! Building of runs: packets in a row with consecutive parts of one segment and nothing else. What is the same for all
//! of them is decided once: the rail, how many of them the window and the pacer let go, the header.

use core::ops::Range;
use core::time::Duration;

use weft_base::Time;
use weft_congestion::EcnState;
use weft_wire::edge::frame::{CRC_LENGTH, SEGMENT_OVERHEAD};
use weft_wire::edge::packet::HEADER_LENGTH;
use weft_wire::edge::run::{MOST_IN_RUN, RunWriter};

use super::striping::{Burst, Turn};
use super::{Confirmation, Connection};
use crate::batch::{Batch, Datagram, Piece};
use crate::outgoing::{Outgoing, Source};
use crate::rail::{PathAddress, Rail, Requests};
use crate::sent::{Contents, Leaving};
use crate::stored::part_header;

/// The source may give a segment for this many packets even if the batch has room for fewer.
const LEAST_TAKEN: usize = 8;

/// Full parts of a segment that are to be sent in a row.
#[derive(Clone, Copy, Debug)]
struct Parts {
    serial: u64,
    /// Bytes of payload in each packet.
    size: u32,
    first: u8,
    count: usize,
    /// Bytes of each packet above UDP, and those before the payload.
    length: usize,
    head: usize,
    /// Whether the payload is all to be gathered: then the packets are a row of the batch.
    is_gathered: bool,
}

/// When packets leave, from where to where, and whether with ECT.
#[derive(Clone, Copy, Debug)]
struct Departure {
    now: Time,
    place: PathAddress,
    marked: bool,
}

impl Connection {
    /// Writes packets that hold the next parts of a segment, as many as may leave now. Returns false when there are
    /// none: the next packet is to hold something else.
    pub(super) fn send_run(
        &mut self,
        turn: &Turn,
        burst: Option<&Burst>,
        source: &mut impl Source,
        now: Time,
        out: &mut Batch,
    ) -> bool {
        if !turn.segments || !self.is_run_due(turn, now) {
            return false;
        }
        let Some(parts) = self.next_parts(turn.rail, source, out) else { return false };
        let most = self.most_packets(turn.rail, burst, parts.length, now);
        let count = parts.count.min(most).min(out.room(if parts.is_gathered { parts.head } else { parts.length }));
        count > 0 && self.write_run(turn.rail, &Parts { count, ..parts }, now, out)
    }

    /// Whether segments alone are to be sent on a rail.
    fn is_run_due(&self, turn: &Turn, now: Time) -> bool {
        let rail = &self.rails[turn.rail];
        let is_silent = self.pending == 0 && !self.owes_close_ack && self.refusals.is_empty() && rail.probes == 0;
        let acknowledges = |index| turn.acknowledges(index) && self.is_ack_due(index, now);
        is_silent
            && matches!(self.confirmation, Confirmation::Done)
            && rail.place.is_some()
            // While marks are tested they are counted packet by packet.
            && rail.ecn.state() != EcnState::Testing
            && !self.takes_ack_along(turn.rail, now)
            && !(0..self.rails.len()).any(acknowledges)
    }

    /// The parts to be sent next, of a segment that is taken from the source if none is queued.
    fn next_parts(&mut self, index: usize, source: &mut impl Source, out: &Batch) -> Option<Parts> {
        self.see_order();
        let room = self.rails[index].mtu.current() - HEADER_LENGTH - SEGMENT_OVERHEAD;
        let (serial, _) = match self.outgoing.next_waiting(0) {
            Some(found) => found,
            None => {
                self.take_run(source, room as u32, out.room(room))?;
                self.outgoing.next_waiting(0)?
            }
        };
        let (size, first, count) = self.outgoing.waiting_run(serial)?;
        let ulpdu = self.outgoing.length(serial, Some(first));
        // What does not fit is cut into smaller parts elsewhere. The last part may be a short one.
        let is_short = |part: u32| self.outgoing.span(serial, part as u8).length < size;
        let count = count - u32::from(is_short(u32::from(first) + count - 1));
        if count == 0 || ulpdu > room {
            return None;
        }
        let length = HEADER_LENGTH + SEGMENT_OVERHEAD + ulpdu;
        let (head, count) = (length - CRC_LENGTH - size as usize, (count as usize).min(MOST_IN_RUN));
        let is_gathered = self.outgoing.inline_of(serial) == 0;
        Some(Parts { serial, size, first, count, length, head, is_gathered })
    }

    /// Takes a segment from the source for several packets with a ULPDU of at most `budget` bytes each. In the middle
    /// of a message it fills the batch, which has room for `room` more packets. Otherwise most batches would hold the
    /// end of one segment and the beginning of the next, which are two runs, and each run has a fixed cost.
    fn take_run(&mut self, source: &mut impl Source, budget: u32, room: usize) -> Option<()> {
        let most = self.outgoing.room_for_run(budget);
        if most < 2 || !source.may_have() {
            return None;
        }
        let (segment, part) = source.next_run(budget, most, room.max(LEAST_TAKEN) as u32)?;
        self.outgoing.push_run(&segment, part);
        Some(())
    }

    /// How many packets of `length` bytes may leave on a rail now, one behind the other. At least one: its turn has
    /// come.
    fn most_packets(&self, index: usize, burst: Option<&Burst>, length: usize, now: Time) -> usize {
        let rail = &self.rails[index];
        let of_window = rail.limit().saturating_sub(rail.sent.in_flight()) / length as u64;
        let of_pacer = if rail.trip.is_known() && rail.probes == 0 {
            rail.pacer.room(
                rail.burst(self.settings.batch_time),
                length as u64,
                rail.limit(),
                rail.trip.smoothed(),
                now,
            )
        } else {
            u64::MAX
        };
        let of_burst = burst.map_or(u64::MAX, |burst| 1 + rail.bytes_until(burst.until()) / length as u64);
        let most = of_window.max(1).min(of_pacer).min(of_burst);
        rail.sent.room().min(usize::try_from(most).unwrap_or(usize::MAX))
    }

    /// Writes the packets. Returns false if they can't be a run, since their options differ.
    fn write_run(&mut self, index: usize, parts: &Parts, now: Time, out: &mut Batch) -> bool {
        let (stored, header) = (self.outgoing.get(parts.serial), self.header(index));
        let options = stored.options.at(stored.position);
        let writer = RunWriter::new(&header, stored.position, &options, &part_header(&stored.ddp, 0, false));
        let (Some(writer), Some(place)) = (writer, self.rails[index].place) else { return false };
        let marked = self.rails[index].ecn.marks(now);
        let (departure, start) = (Departure { now, place, marked }, out.bytes.len() as u32);
        self.write_packets(index, parts, &departure, writer, out);
        if parts.is_gathered {
            let (head, count) = (parts.head as u32, parts.count as u32);
            let (_, gather, in_place) = self.outgoing.payload(parts.serial, parts.first, count);
            let pieces = out.pieces.len()..out.pieces.len() + 1;
            out.pieces.push(Piece::Row { start, length: count * head, head, gather, part: parts.size, in_place });
            out.push_row(departure.datagram(&self.rails[index], pieces, parts.length, count));
        }
        self.on_run_sent(index, parts, &departure);
        true
    }

    /// Writes what stands before the payload of each packet, and payload that is not to be gathered; and records the
    /// packets: together, but where a number between them is skipped.
    fn write_packets(
        &mut self,
        index: usize,
        parts: &Parts,
        departure: &Departure,
        mut writer: RunWriter,
        out: &mut Batch,
    ) {
        let is_alone = self.rails.len() == 1;
        let Self { outgoing, rails, random, .. } = self;
        let (rail, stored) = (&mut rails[index], outgoing.get(parts.serial));
        let Departure { now, marked, .. } = *departure;
        let (ends_message, last_part, length) = (stored.ends_message(), stored.parts() - 1, parts.length as u64);
        let mut asking = Asking::new(rail, length);
        // No other rail can overtake the only one.
        let (arrives, apart) =
            if is_alone { (now, Duration::ZERO) } else { (now + rail.arrival(), rail.takes(parts.length)) };
        let (begin, end) = (u32::from(parts.first), u32::from(parts.first) + parts.count as u32);
        let record = |rail: &mut Rail, from: u32, to: u32| {
            let part = Some(stored.span(Some(from as u8)));
            let contents = Contents { first: parts.serial, count: 1, part, ..Contents::default() };
            let stamp = rail.window.on_sent(rail.sent.in_flight(), now);
            let arrives = arrives + apart * (from - begin);
            let leaving = Leaving { now, arrives, apart, bytes: parts.length as u32, contents, ect: marked, stamp };
            rail.sent.push_row(&leaving, to - from);
        };
        // The first part that is not recorded, and the number of the next packet.
        let (mut from, mut number) = (begin, rail.sent.next_number());
        let mut skipped = rail.skipped.next(number + 1, random);
        let mut part = begin;
        while part < end {
            let skip = u64::from(part * parts.size);
            let quiet = asking.quiet().min((end.min(last_part) - part).into()).min(skipped.saturating_sub(number));
            if parts.is_gathered && quiet > 0 {
                writer.write_row(&mut out.bytes, number..number + quiet, skip, parts.size.into());
                asking.pass(quiet);
                (part, number) = (part + quiet as u32, number + quiet);
            } else {
                let is_last = part == last_part;
                let asks = asking.next(is_last && stored.ack_now);
                writer.write(&mut out.bytes, number, skip, asks, is_last && ends_message);
                if !parts.is_gathered {
                    let first = out.pieces.len();
                    put_payload(outgoing, parts, part as u8, out);
                    out.datagrams.push(departure.datagram(rail, first..out.pieces.len(), parts.length, 1));
                }
                (part, number) = (part + 1, number + 1);
            }
            if number >= skipped && rail.skipped.skips(number, rail.sent.first(), random) {
                record(rail, from, part);
                rail.sent.skip(now);
                (from, number) = (part, rail.sent.next_number());
                skipped = rail.skipped.next(number + 1, random);
            }
        }
        (rail.unasked, rail.was_full) = (asking.unasked, rail.was_full || asking.was_full);
        if from < end {
            record(rail, from, end);
        }
    }

    /// Counts the packets, and tells the pacer.
    fn on_run_sent(&mut self, index: usize, parts: &Parts, departure: &Departure) {
        let Departure { now, marked, .. } = *departure;
        let (rail, count, length) = (&mut self.rails[index], parts.count as u32, parts.length as u64);
        if marked {
            rail.ecn.on_sent_run(count, rail.trip.probe_timeout() + self.peer_ack_delay, now);
        }
        if rail.trip.is_known() {
            rail.pacer.on_sent_row(count, length, rail.limit(), rail.trip.smoothed(), now);
        }
        rail.received.answer();
        rail.tally.sent_packets += u64::from(count);
        rail.tally.sent_bytes += u64::from(count) * length;
        self.counters.packets_sent += u64::from(count);
        self.counters.segments_sent += u64::from(count);
        let repeated = self.outgoing.on_sent_run(parts.serial, parts.first, count);
        self.counters.segments_repeated += u64::from(repeated);
        self.given.on_segments(false, now);
    }
}

/// Decides which packets of a run request an acknowledgement.
struct Asking {
    requests: Requests,
    /// Bytes of each packet.
    length: u64,
    /// How many the window lets go, and how many of these are in flight.
    limit: u64,
    in_flight: u64,
    /// Bytes that were sent since the last that asked.
    unasked: u64,
    /// Whether a packet has filled the window.
    was_full: bool,
}

impl Asking {
    fn new(rail: &Rail, length: u64) -> Self {
        let (requests, limit, in_flight) = (rail.requests(), rail.limit(), rail.sent.in_flight());
        Self { requests, length, limit, in_flight, unasked: rail.unasked, was_full: false }
    }

    /// The number of packets from here on that neither request an acknowledgement nor fill the window.
    fn quiet(&self) -> u64 {
        let room = self.limit.saturating_sub(self.in_flight) / self.length;
        room.saturating_sub(1).min(self.requests.spares(self.unasked, self.length))
    }

    /// Counts packets that are sent and request no acknowledgement.
    fn pass(&mut self, quiet: u64) {
        self.in_flight += quiet * self.length;
        self.unasked += quiet * self.length;
    }

    /// Counts a packet that is sent, and returns whether it requests an acknowledgement. `must`: it does in any case.
    fn next(&mut self, must: bool) -> bool {
        let fills = self.in_flight + 2 * self.length > self.limit;
        self.pass(1);
        let asks = self.requests.are_due(self.unasked, fills) || must;
        if asks {
            self.unasked = 0;
        }
        self.was_full |= fills;
        asks
    }
}

impl Departure {
    /// A datagram, or a row of `count` datagrams, with these pieces.
    fn datagram(&self, rail: &Rail, pieces: Range<usize>, length: usize, count: u32) -> Datagram {
        let PathAddress { local, to } = self.place;
        Datagram { to, local, pieces, length, count, ecn: if self.marked { 2 } else { 0 }, rail: rail.id }
    }
}

/// Writes the payload of a part, some of which is in the ring, behind its head.
fn put_payload(outgoing: &Outgoing, parts: &Parts, part: u8, out: &mut Batch) {
    let (inline, gather, in_place) = outgoing.payload(parts.serial, part, 1);
    let start = out.bytes.len() - parts.head;
    out.bytes.extend_from_slice(inline);
    if gather.is_empty() {
        out.bytes.extend_from_slice(&weft_wire::Crc32c::of(inline).to_be_bytes());
        out.pieces.push(Piece::Bytes { start: start as u32, length: parts.length as u32 });
    } else {
        let (start, head) = (start as u32, parts.head as u32);
        out.pieces.push(Piece::Bytes { start, length: head });
        out.pieces.push(Piece::Payload { start: start + head, length: inline.len() as u32, gather, in_place });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quiet_packets_are_those_that_neither_ask_nor_fill_the_window() {
        for (after, when_full) in [(1, true), (1000, false), (2600, true), (2601, false), (u64::MAX, true)] {
            for (limit, in_flight) in [(0, 0), (100, 300), (2000, 0), (2000, 1499), (100_000, 99_000)] {
                for unasked in [0, 99, 1000, 2600, 3000] {
                    let requests = Requests { after, when_full };
                    let asking = || Asking { requests, length: 100, limit, in_flight, unasked, was_full: false };
                    let (mut each, quiet) = (asking(), asking().quiet());
                    for _ in 0..quiet {
                        assert!(!each.next(false) && !each.was_full, "{after} {limit} {in_flight} {unasked}");
                    }
                    let mut together = asking();
                    together.pass(quiet);
                    assert_eq!((together.in_flight, together.unasked), (each.in_flight, each.unasked));
                    assert!(each.next(false) || each.was_full, "{quiet}: {after} {limit} {in_flight} {unasked}");
                    assert!(each.next(true) && each.unasked == 0);
                }
            }
        }
    }
}
