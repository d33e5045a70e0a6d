//! Handling of received datagrams.

use core::time::Duration;

use arrayvec::ArrayVec;
use weft_base::Time;
use weft_congestion::EcnCounts;
use weft_wire::edge::BASE_DATAGRAM;
use weft_wire::edge::ack::Ack;
use weft_wire::edge::frame::{self, Close, Frame, NotReady, Segment};
use weft_wire::edge::packet::Packet as Bytes;

use super::confirmation::{Confirmation, confirms};
use super::{Connection, Meta, control};
use crate::phase::{Ending, Event, Phase};
use crate::rail::{PathAddress, Rail};
use crate::received::AckRequest;
use crate::round_trip::nanos;
use crate::sent::Packet;
use crate::{Options, Sink, Verdict};

/// `kPersistentCongestionThreshold` of RFC 9002 section 7.6.1, in probe timeouts without an acknowledgement.
const PERSISTENT_TIMEOUTS: u64 = 3;

/// The result of handling a packet's frames.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    eliciting: bool,
    /// All its segments are placed.
    good: bool,
}

impl Connection {
    /// Handles a datagram that [`weft_wire::edge::destination`] assigns to this connection. Invalid ones are counted
    /// and dropped.
    pub fn receive(&mut self, datagram: &[u8], meta: &Meta, sink: &mut impl Sink) {
        let Some(packet) = self.admit(datagram, meta.now) else { return };
        let number = packet.header.number;
        let now = meta.now;
        self.counters.packets_received += 1;
        self.last_received = now;
        let index = usize::from(packet.header.rail);
        let rail = &mut self.rails[index];
        let newest = number >= rail.received.expected();
        rail.received.see(number);
        rail.tally.received_packets += 1;
        rail.tally.received_bytes += datagram.len() as u64;
        let place = PathAddress { local: meta.local, to: meta.from };
        if rail.place != Some(place) {
            self.seen_elsewhere(index, place, (newest, datagram.len()), now);
        }
        let outcome = self.frames(&packet, meta, sink);
        let rail = &mut self.rails[index];
        if outcome.good {
            rail.received.take(number, meta.ecn, now);
        }
        if outcome.eliciting && outcome.good {
            // A sender that waits requests an acknowledgement. Otherwise an answer or more packets are likely to follow
            // soon.
            let delay = self.settings.max_ack_delay;
            let at_once = packet.header.ack_now || meta.ecn & 3 == 3;
            let every = self.ack_every(index, datagram.len());
            let rail = &mut self.rails[index];
            rail.received.request(number, AckRequest { at_once, every, delay }, now);
            self.taken.on_segments(packet.header.ack_now, now);
        }
    }

    /// The number of packets of `bytes` bytes each that are acknowledged at the latest: well before the peer has used
    /// up its credit, so that it does not stall.
    pub(super) fn ack_every(&self, index: usize, bytes: usize) -> u32 {
        let every = self.credit_of(index) / 4 / (bytes as u32).max(1);
        every.clamp(1, self.settings.ack_every)
    }

    /// Parses and checks a packet: intact, of this connection, new, and from a confirmed peer.
    fn admit<'a>(&mut self, datagram: &'a [u8], now: Time) -> Option<Bytes<'a>> {
        let Ok(packet) = Bytes::parse(datagram) else {
            self.counters.unreadable += 1;
            return None;
        };
        let index = usize::from(packet.header.rail);
        if packet.header.destination != self.local || index >= self.most_rails {
            self.counters.astray += 1;
            return None;
        }
        let rail = self.rails.get(index);
        let Ok(packet) = packet.verify(rail.map_or(0, |rail| rail.received.expected())) else {
            self.counters.unreadable += 1;
            return None;
        };
        if rail.is_none() && !self.is_opened_by(&packet) {
            self.counters.astray += 1;
            return None;
        }
        if self.rails[index].received.is_repeat(packet.header.number) {
            self.counters.repeated += 1;
            return None;
        }
        if self.phase == Phase::Over || !self.confirm(&packet, now) {
            self.counters.early += 1;
            return None;
        }
        Some(packet)
    }

    /// Whether the caller has confirmed, before or in this packet.
    fn confirm(&mut self, packet: &Bytes<'_>, now: Time) -> bool {
        let Confirmation::Expect(expected) = self.confirmation else { return true };
        let right = confirms(packet, &expected);
        if right {
            self.confirmation = Confirmation::Done;
            // This packet responds to the answer of set-up: an upper bound of the round trip.
            self.rails[0].trip.expect_at_most(now.since(self.begun));
            self.report(Event::Confirmed);
            self.queue_addresses();
        }
        right
    }

    fn frames(&mut self, packet: &Bytes<'_>, meta: &Meta, sink: &mut impl Sink) -> Outcome {
        let mut outcome = Outcome { eliciting: false, good: true };
        for frame in packet.frames() {
            outcome.eliciting |= frame.wants_ack();
            match frame {
                Frame::Segment(segment) => outcome.good &= self.segment(&segment, packet, sink),
                Frame::Ack(ack) => self.on_ack(&ack, meta.now),
                Frame::NotReady(refused) => self.on_not_ready(&refused, meta.now),
                Frame::GoOn { round } => self.on_go_on(round),
                Frame::Close(close) => self.on_close(&close, meta.now),
                Frame::CloseAck => self.on_close_ack(meta.now),
                Frame::Challenge(bytes) => {
                    let place = PathAddress { local: meta.local, to: meta.from };
                    self.rails[usize::from(packet.header.rail)].response = Some((bytes, place));
                }
                Frame::Response(bytes) => self.on_response(&bytes, usize::from(packet.header.rail), meta),
                Frame::Addresses(addresses) => self.on_addresses(&addresses, meta.now),
                Frame::Ping => self.release_memory(meta.now),
                Frame::Confirm(_) | Frame::Skipped(_) | Frame::Padding => {}
            }
        }
        outcome
    }

    /// Handles a segment. Returns true when it is placed.
    fn segment(&mut self, segment: &Segment<'_>, packet: &Bytes<'_>, sink: &mut impl Sink) -> bool {
        if self.phase != Phase::Open {
            return self.closing.peer_end.is_some();
        }
        let position = frame::expand_position(segment.position, self.peer_position);
        let takes = segment.payload().len() as u64 + u64::from(segment.ulpdu[0] & 0x40 != 0);
        if self.closing.peer_end.is_some_and(|end| position + takes > end) {
            self.counters.false_frames += 1;
            return false;
        }
        let options = Options::of(segment.options, position);
        let verdict = sink.segment(position, segment.ulpdu, segment.crc, options);
        match verdict {
            Verdict::Placed => {}
            Verdict::Duplicate => self.counters.duplicates += 1,
            Verdict::Later => self.counters.put_off += 1,
            Verdict::BadPayload => self.counters.bad_payloads += 1,
            Verdict::NotReady => self.refuse(position, packet.header.rail, packet.header.number),
            Verdict::Fatal => {}
        }
        let good = matches!(verdict, Verdict::Placed | Verdict::Duplicate);
        if good {
            self.peer_position = self.peer_position.max(position + takes);
        }
        good
    }

    fn refuse(&mut self, position: u64, rail: u8, number: u64) {
        self.counters.not_ready += 1;
        self.has_refused = true;
        let refused = NotReady { rail, number, position, round: self.round };
        // A refusal that does not fit is dropped: the peer retransmits the segment.
        let _ = self.refusals.try_push(refused);
    }

    fn on_ack(&mut self, ack: &Ack<'_>, now: Time) {
        let index = usize::from(ack.rail);
        let Some(rail) = self.rails.get_mut(index) else {
            self.counters.false_acks += 1;
            return;
        };
        if ack.ranges().any(|range| rail.skipped.has_any(&range)) {
            return self.on_misbehaviour(b"packets were acknowledged that were never sent");
        }
        let mut settled = core::mem::take(&mut self.scratch);
        settled.clear();
        if ack.ranges().all(|range| rail.sent.acknowledge(*range.start(), *range.end(), &mut settled)) {
            let is_newest = rail.peer_largest.is_none_or(|largest| ack.largest >= largest);
            self.on_acked(index, &settled, ack, now);
            if is_newest {
                self.on_receiver_state(index, ack, &settled, now);
            }
            self.scratch = settled;
            self.detect_loss(index, now);
            self.rails[index].was_full = false;
            self.end_if_closed(now);
        } else {
            self.counters.false_acks += 1;
            self.scratch = settled;
        }
    }

    /// The peer, or an attacker in its name, has claimed what cannot be true: no acknowledgement of it can be trusted
    /// (RFC 9000 section 21.4).
    fn on_misbehaviour(&mut self, what: &[u8]) {
        self.counters.false_acks += 1;
        if self.phase == Phase::Open {
            self.abort(what);
            self.report_end(Ending::Misbehaved);
        }
    }

    /// Handles newly acknowledged packets.
    fn on_acked(&mut self, index: usize, settled: &[Packet], ack: &Ack<'_>, now: Time) {
        let rail = &mut self.rails[index];
        if rail.has_failed() {
            rail.answers_from = rail.sent.next_number();
        }
        let from = rail.path_from.max(rail.answers_from);
        let is_newest = |packet: &&Packet| packet.number == ack.largest && packet.number >= from;
        if let Some(newest) = settled.first().filter(is_newest) {
            let delay = Duration::from_micros(u64::from(ack.delay_us)).min(self.peer_ack_delay);
            rail.on_round_trip(now.since(newest.sent), delay);
            rail.window.on_sample(now.since(newest.sent));
        }
        if let Some(newest) = settled.first() {
            self.on_answer(index, newest.sent, now);
        }
        for packet in settled {
            let rail = &mut self.rails[index];
            if rail.is_of_path(packet.number) {
                rail.window.on_acked(packet, now);
                rail.mtu.on_acked(packet.number, packet.bytes as usize, now);
            }
            if packet.was_lost {
                if rail.is_of_path(packet.number) {
                    rail.sent.on_spurious(packet.number);
                }
                // The loss of a probe did not reduce the window either.
                if !packet.contents.is_probe {
                    self.on_late(index, packet);
                }
            }
            self.on_arrived(packet);
        }
    }

    /// A packet that was declared lost has arrived. On another path than the present one that shows nothing of it (RFC
    /// 9000 section 9.4).
    fn on_late(&mut self, index: usize, packet: &Packet) {
        let rail = &mut self.rails[index];
        if rail.is_of_path(packet.number) {
            rail.window.on_spurious(packet.sent);
        }
        self.counters.spurious_losses += 1;
    }

    fn on_arrived(&mut self, packet: &Packet) {
        self.outgoing.on_acked(&packet.contents);
        let controls = packet.contents.controls;
        if controls & control::CONFIRM != 0 {
            self.confirmation = Confirmation::Done;
            self.pending &= !control::CONFIRM;
        }
        if controls & control::CLOSE != 0 {
            self.closing.is_acknowledged = true;
        }
    }

    /// Handles the receiver's state in an acknowledgement: credit, drops of its socket, congestion marks.
    fn on_receiver_state(&mut self, index: usize, ack: &Ack<'_>, settled: &[Packet], now: Time) {
        let rail = &mut self.rails[index];
        rail.peer_largest = Some(ack.largest);
        // Nothing is to be requested of what is acknowledged already.
        rail.unasked = rail.unasked.min(rail.sent.in_flight());
        // Of two with the same largest number, one that was overtaken has a lower count.
        let dropped = ack.overflows.wrapping_sub(rail.peer_overflows);
        if dropped <= u32::MAX / 2 {
            (rail.credit, rail.peer_overflows) = (u64::from(ack.credit), ack.overflows);
            self.counters.peer_overflows += u64::from(dropped);
        }
        // Without a newly acknowledged packet nothing shows when the marked ones were sent: the next acknowledgement of
        // one brings their count again (RFC 9002 section A.7).
        let Some(newest) = settled.first() else { return };
        let said = EcnCounts { ect0: ack.ecn.ect0, ect1: ack.ecn.ect1, ce: ack.ecn.ce };
        let marked = settled.iter().filter(|packet| packet.ect).map(Packet::numbers);
        let ce = rail.ecn.on_ack(ack.largest, said, marked);
        rail.ecn.on_answered(rail.sent.next_number());
        self.counters.congestion_marks += u64::from(ce);
        if ce > 0 && rail.is_of_path(newest.number) {
            rail.window.on_marked(ce, newest.sent, now);
        }
    }

    /// Declares packets lost by number or time, for retransmission.
    pub(crate) fn detect_loss(&mut self, index: usize, now: Time) {
        let mut lost = core::mem::take(&mut self.scratch);
        lost.clear();
        let rail = &mut self.rails[index];
        let delay = rail.trip.loss_delay(rail.sent.patience());
        rail.sent.detect(now, delay, &mut lost);
        for packet in &lost {
            self.on_lost(index, packet, now);
        }
        if self.is_persistent(index, &lost) {
            self.rails[index].window.collapse(now);
            self.rails[index].trip.restart_least();
        }
        self.rails[index].sent.pop_settled(now, delay * 4);
        self.scratch = lost;
        self.couple(index);
        self.rails[index].settle(now);
        self.bound_segments();
    }

    /// Allows four times the segments that the paths of all rails hold, queues apart: while one that was lost twice is
    /// retransmitted, those of three round trips after it wait for it. At least twice what the windows allow: segments
    /// that a fast rail has delivered wait for those in the queue of a slow one, and the fast rail must not wait too.
    fn bound_segments(&mut self) {
        let windows = self.rails.iter().map(Rail::limit).sum::<u64>();
        // Mostly the windows alone show that it is not more than what is always allowed.
        if windows.saturating_mul(4) <= self.settings.sent_segments as u64 * BASE_DATAGRAM as u64 {
            return self.outgoing.set_most(self.settings.sent_segments);
        }
        let held = self.rails.iter().map(Rail::held).sum::<u64>();
        let bytes = held.saturating_mul(4).max(windows.saturating_mul(2)).min(self.settings.in_flight_bytes);
        let datagram = self.rails.iter().map(|rail| rail.mtu.current()).max().unwrap_or(BASE_DATAGRAM);
        let most = bytes / datagram as u64;
        self.outgoing.set_most(self.settings.sent_segments.max(most as usize));
    }

    /// Persistent congestion (RFC 9002 section 7.6): whether all packets were lost over a time in which the rail was
    /// probed several times. Then the path has changed or is full, and nothing known of it holds. `lost` is sorted by
    /// number. A packet missing between them was acknowledged, unless it was not to be. Packets sent before a round
    /// trip was measured do not count: until then, the rail was probed after an assumed one.
    fn is_persistent(&self, index: usize, lost: &[Packet]) -> bool {
        let Rail { trip, sent, known_from, .. } = &self.rails[index];
        let lost = &lost[lost.partition_point(|packet| packet.number < *known_from)..];
        let timeout = trip.probe_timeout_ns().saturating_add(nanos(self.peer_ack_delay));
        let least = Duration::from_nanos(timeout.saturating_mul(PERSISTENT_TIMEOUTS));
        let is_next = |before: &Packet, packet: &Packet| {
            (before.number + 1..packet.number).all(|between| sent.was_unasked(between))
        };
        trip.is_known()
            && lost.chunk_by(is_next).any(|run| {
                // The loss of a probe shows no congestion (RFC 9000 section 14.4).
                let mut asked = run.iter().filter(|packet| !packet.contents.is_probe).map(|packet| packet.sent);
                let first = asked.next();
                first.zip(asked.next_back()).is_some_and(|(first, last)| last.since(first) > least)
            })
    }

    fn on_lost(&mut self, index: usize, packet: &Packet, now: Time) {
        let rail = &mut self.rails[index];
        let black_hole = rail.mtu.on_lost(packet.number, packet.bytes as usize, rail.trip.smoothed(), now);
        self.counters.black_holes += u64::from(black_hole);
        if black_hole {
            // The path has changed, or large datagrams have been lost on it for some time.
            rail.window.collapse(now);
        }
        if packet.contents.is_probe {
            // A lost MTU probe shows a size limit, not congestion (RFC 8899 section 3).
            return;
        }
        self.counters.packets_lost += 1;
        rail.tally.lost_packets += 1;
        if rail.window.on_lost(packet, now) {
            rail.sent.on_recovery();
        }
        if packet.ect {
            rail.ecn.on_lost(packet.number);
        }
        self.send_again(packet);
    }

    /// Queues what a packet held for retransmission, on whichever rail sends next.
    pub(crate) fn send_again(&mut self, packet: &Packet) {
        self.outgoing.on_lost(&packet.contents);
        if matches!(self.phase, Phase::Open | Phase::Aborting) {
            self.pending |= packet.contents.controls & !control::PING;
        }
    }

    /// The peer has no receive for a segment: it is held. The packet is neither lost nor acknowledged.
    fn on_not_ready(&mut self, refused: &NotReady, now: Time) {
        let index = usize::from(refused.rail);
        let Some(rail) = self.rails.get_mut(index) else {
            self.counters.false_frames += 1;
            return;
        };
        if refused.number >= rail.sent.next_number() || refused.position >= self.outgoing.end() {
            self.counters.false_frames += 1;
            return;
        }
        if rail.skipped.has_any(&(refused.number..=refused.number)) {
            return self.on_misbehaviour(b"a packet was refused that was never sent");
        }
        let packet = rail.sent.settle(refused.number);
        self.on_answer(index, packet.map_or(Time::ZERO, |packet| packet.sent), now);
        if let Some(packet) = packet {
            self.counters.held += 1;
            if packet.was_lost {
                self.on_late(index, &packet);
            }
            self.send_again(&packet);
        }
        // A newer "go on" has overtaken this refusal: what was refused before may be sent again.
        self.on_go_on(refused.round);
        // If the round is over, its "go on" has overtaken this refusal.
        if refused.round == self.peer_round {
            self.outgoing.hold(refused.position);
        }
    }

    fn on_go_on(&mut self, round: u32) {
        if round.wrapping_sub(self.peer_round).wrapping_sub(1) < u32::MAX / 2 {
            self.peer_round = round;
            self.outgoing.release();
        }
    }

    fn on_close(&mut self, close: &Close<'_>, now: Time) {
        self.owes_close_ack = true;
        if close.abortive {
            let reason = close.reason.iter().copied().collect::<ArrayVec<_, _>>();
            self.end(Ending::PeerAborted(reason), now);
        } else if self.closing.peer_end.is_none() && matches!(self.phase, Phase::Open | Phase::Aborting) {
            if close.end < self.peer_position {
                self.counters.false_frames += 1;
                return;
            }
            self.closing.peer_end = Some(close.end);
            self.report(Event::PeerClosed);
        }
        self.end_if_closed(now);
    }

    fn on_close_ack(&mut self, now: Time) {
        if self.closing.is_sent || self.phase == Phase::Aborting {
            self.closing.is_acknowledged = true;
            self.end_if_closed(now);
        } else if self.phase == Phase::Open {
            self.counters.false_frames += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use core::net::SocketAddr;

    use weft_wire::edge::ack;

    use super::*;
    use crate::connection::Established;
    use crate::sent::Leaving;
    use crate::settings::Settings;
    use crate::silence::Silence;

    /// Sends ten packets, of which only the last is acknowledged, a second later: the others are lost.
    fn lose(connection: &mut Connection, now: Time) {
        for _ in 0..10 {
            connection.rails[0].sent.push(&Leaving { now, bytes: 1200, ..Leaving::default() });
        }
        let last = connection.rails[0].sent.next_number() - 1;
        assert!(connection.rails[0].sent.acknowledge(last, last, &mut vec![]));
        connection.detect_loss(0, now + Duration::from_secs(1));
    }

    fn connection() -> Connection {
        let settings = Settings::default();
        let established = Established::unknown(SocketAddr::from(([10, 0, 0, 1], 4791)), 1, &settings);
        Connection::new(&established, &settings, Time::ZERO)
    }

    /// The first two were sent while the rail had failed.
    #[test]
    fn probes_of_a_failed_rail_give_no_round_trip() {
        let (ms, at) = (Duration::from_millis(1), |ms: u64| Time::from_nanos(ms * 1_000_000));
        let mut connection = connection();
        connection.rails[0].trip.sample(2 * ms, Duration::ZERO);
        connection.rails[0].silence = Silence::Failed;
        let cases = [(&[100, 200][..], 900, 2), (&[][..], 901, 2), (&[902][..], 912, 3)];
        for (number, (sent, acknowledged, expected)) in (0..).zip(cases) {
            for sent in sent {
                connection.rails[0].sent.push(&Leaving { now: at(*sent), bytes: 1200, ..Leaving::default() });
            }
            connection.on_ack(&ack(number), at(acknowledged));
            assert_eq!(connection.rails[0].trip.smoothed(), expected * ms, "packet {number}");
        }
    }

    fn ack(largest: u64) -> Ack<'static> {
        let (ecn, more) = (ack::EcnCounts { ect0: 0, ect1: 0, ce: 0 }, ack::MoreRanges::default());
        Ack { rail: 0, largest, first: 0, delay_us: 0, ecn, credit: 1 << 20, overflows: 0, more }
    }

    /// RFC 9002 sections A.7 and B.7. Packet 2 has only a response, whose sender waits for no acknowledgement.
    #[test]
    fn a_mark_that_comes_with_nothing_new_cuts_with_the_next_acknowledgement() {
        let at = |ms: u64| Time::from_nanos(ms * 1_000_000);
        let mut connection = connection();
        connection.rails[0].ecn.on_sent_run(3, Duration::from_millis(100), at(1));
        for bytes in [1200, 1200, 0, 1200] {
            connection.rails[0].sent.push(&Leaving { now: at(1), bytes, ect: true, ..Leaving::default() });
        }
        let before = connection.rails[0].window.bytes();
        let cases = [(1, 1, 0, false), (2, 1, 1, false), (3, 2, 1, true)];
        for (number, ect0, ce, is_cut) in cases {
            let ecn = ack::EcnCounts { ect0, ect1: 0, ce };
            connection.on_ack(&Ack { ecn, ..ack(number) }, at(2));
            assert_eq!(connection.rails[0].window.bytes() < before, is_cut, "packet {number}");
            assert_eq!(connection.counters.congestion_marks, u64::from(is_cut), "packet {number}");
        }
    }

    #[test]
    fn an_acknowledgement_that_was_overtaken_does_not_take_back_what_the_socket_has_dropped() {
        let mut connection = connection();
        connection.rails[0].sent.push(&Leaving { bytes: 1200, ..Leaving::default() });
        connection.rails[0].peer_overflows = u32::MAX - 1;
        for (overflows, credit, counted) in [(1, 2000, 3), (0, 9000, 3), (2, 3000, 4)] {
            connection.on_ack(&Ack { overflows, credit, ..ack(0) }, Time::ZERO);
            assert_eq!(connection.counters.peer_overflows, counted);
        }
        assert_eq!(connection.rails[0].credit, 3000);
    }

    #[test]
    fn patience_ends_with_the_sixteenth_recovery() {
        let mut connection = connection();
        let at = |seconds: u64| Time::ZERO + Duration::from_secs(seconds);
        lose(&mut connection, at(10));
        connection.rails[0].sent.on_spurious(0);
        for recovery in 1..16 {
            lose(&mut connection, at(10 + 10 * recovery));
            assert_eq!(connection.rails[0].sent.patience(), 1, "after {recovery} recoveries");
        }
        lose(&mut connection, at(1000));
        assert_eq!(connection.rails[0].sent.patience(), 0);
    }

    /// RFC 9002 section 7.6.2: the period of persistent congestion does not begin before a round trip was measured. And
    /// section 5.2: then the least round trip is forgotten.
    #[test]
    fn losses_before_the_first_round_trip_are_no_persistent_congestion() {
        let at = |ms: u64| Time::from_nanos(ms * 1_000_000);
        for is_known in [false, true] {
            let mut connection = connection();
            let round_trip = Duration::from_millis(2);
            if is_known {
                connection.rails[0].on_round_trip(round_trip / 2, Duration::ZERO);
            }
            for ms in [0, 300, 900, 1000] {
                connection.rails[0].sent.push(&Leaving { now: at(ms), bytes: 1200, ..Leaving::default() });
            }
            assert!(connection.rails[0].sent.acknowledge(3, 3, &mut vec![]));
            connection.rails[0].on_round_trip(round_trip, Duration::ZERO);
            connection.detect_loss(0, at(2000));
            let Rail { window, trip, sent, .. } = &connection.rails[0];
            assert_eq!(sent.in_flight(), 0, "the others are lost");
            assert_eq!(window.bytes() == 2 * 1200, is_known, "{}", window.bytes());
            assert_eq!(trip.least(), Some(round_trip), "the newest");
        }
    }

    /// What is not to be acknowledged lies between the two lost packets; in the second case, what was acknowledged.
    #[test]
    fn packets_that_are_not_to_be_acknowledged_do_not_end_persistent_congestion() {
        let at = |ms: u64| Time::from_nanos(ms * 1_000_000);
        for bytes in [0, 1200] {
            let mut connection = connection();
            connection.rails[0].on_round_trip(Duration::from_millis(2), Duration::ZERO);
            for (ms, bytes) in [(0, 1200), (100, bytes), (200, 1200), (1000, 1200)] {
                connection.rails[0].sent.push(&Leaving { now: at(ms), bytes, ..Leaving::default() });
            }
            for number in [1, 3] {
                assert!(connection.rails[0].sent.acknowledge(number, number, &mut vec![]));
            }
            connection.detect_loss(0, at(2000));
            assert_eq!(connection.rails[0].sent.in_flight(), 0, "the others are lost");
            let window = connection.rails[0].window.bytes();
            assert_eq!(window == 2 * 1200, bytes == 0, "{window}");
        }
    }

    /// RFC 9002 section 7.6.2: what the lost packets span has to be longer than three probe timeouts; and a probe of
    /// the MTU does not count.
    #[test]
    fn persistent_congestion_is_longer_than_three_probe_timeouts_and_no_matter_of_mtu_probes() {
        let mut connection = connection();
        connection.rails[0].on_round_trip(Duration::from_millis(2), Duration::ZERO);
        let timeout = connection.rails[0].trip.probe_timeout_ns() + nanos(connection.peer_ack_delay);
        let least = Duration::from_nanos(PERSISTENT_TIMEOUTS * timeout);
        let ns = Duration::from_nanos(1);
        let packet = |number, sent: Duration, is_probe| {
            let mut packet = Packet { sent: Time::ZERO + sent, ..sent_packet(number) };
            packet.contents.is_probe = is_probe;
            packet
        };
        let cases = [
            (vec![(ns, false), (least, false)], false),
            (vec![(ns, false), (least + ns, false)], false),
            (vec![(ns, false), (least + 2 * ns, false)], true),
            (vec![(ns, false), (least + 2 * ns, true)], false),
            (vec![(ns, true), (2 * ns, false), (least + 2 * ns, false)], false),
            (vec![(ns, false), (2 * ns, true), (least + 2 * ns, false)], true),
        ];
        for (lost, expected) in cases {
            let lost: Vec<_> = (0..).zip(&lost).map(|(number, (sent, probe))| packet(number, *sent, *probe)).collect();
            assert_eq!(connection.is_persistent(0, &lost), expected, "{lost:?}");
        }
    }

    /// RFC 9000 section 21.4: what is refused takes no part of the window any more, as what is acknowledged.
    #[test]
    fn a_refusal_of_a_number_that_was_skipped_ends_the_connection() {
        let mut connection = connection();
        connection.outgoing.push(&crate::Segment {
            header: &[0x41; 18],
            bytes: &[],
            gather: weft_base::Gather::empty(),
            is_steady: false,
            ack_now: false,
            options: Options::default(),
        });
        let skipped = loop {
            let Connection { rails, random, .. } = &mut connection;
            let number = rails[0].sent.next_number();
            if rails[0].skipped.skips(number, 0, random) {
                break number;
            }
            rails[0].sent.push(&Leaving { bytes: 1200, ..Leaving::default() });
        };
        connection.rails[0].sent.skip(Time::ZERO);
        for (number, phase) in [(skipped - 1, Phase::Open), (skipped, Phase::Aborting)] {
            connection.on_not_ready(&NotReady { rail: 0, number, position: 0, round: 0 }, Time::ZERO);
            assert_eq!(connection.phase, phase, "packet {number} of {skipped}");
        }
    }

    fn sent_packet(number: u64) -> Packet {
        let mut sent = crate::sent::Sent::new(32);
        sent.push(&Leaving { bytes: 1200, ..Leaving::default() });
        Packet { number, ..sent.oldest().expect("it was sent") }
    }

    /// RFC 9000 section 9.4: what was sent on the path before is late there, and no loss on this path was an error.
    #[test]
    fn a_late_packet_of_the_path_before_undoes_nothing() {
        let at = |ms: u64| Time::from_nanos(ms * 1_000_000);
        for changes in [false, true] {
            let mut connection = connection();
            let settings = connection.settings;
            connection.rails[0].on_round_trip(Duration::from_millis(2), Duration::ZERO);
            connection.rails[0].sent.push(&Leaving { now: at(10), bytes: 1200, ..Leaving::default() });
            if changes {
                connection.rails[0].begin_anew(1472, &settings);
                connection.rails[0].on_round_trip(Duration::from_millis(2), Duration::ZERO);
            }
            for _ in 0..10 {
                connection.rails[0].sent.push(&Leaving { now: at(11), bytes: 1200, ..Leaving::default() });
            }
            let before = connection.rails[0].window.bytes();
            // All but the last are lost, and the window is reduced.
            connection.on_ack(&ack(10), at(30));
            connection.detect_loss(0, at(40));
            let reduced = connection.rails[0].window.bytes();
            assert!(reduced < before, "{reduced} of {before}");
            // The first arrives after all, and then the others but one.
            for number in [0, 2, 3, 4, 5, 6, 7, 8, 9] {
                connection.on_ack(&ack(number), at(41));
            }
            assert_eq!(connection.counters.spurious_losses, 9);
            let now = connection.rails[0].window.bytes();
            assert_eq!(now, reduced, "one packet is missing");
            connection.on_ack(&ack(1), at(41));
            assert!(connection.rails[0].window.bytes() >= before);
        }
    }
}
