//! One rail: a flow of datagrams between two addresses.

use core::time::Duration;
use std::net::SocketAddr;

use weft_base::Time;
use weft_congestion::{EcnValidation, Pacer, share};

use crate::congestion::Window;
use crate::mtu::Mtu;
use crate::rail_state::Out;
use crate::received::Received;
use crate::round_trip::{RoundTrip, nanos};
use crate::sent::Sent;
use crate::settings::Settings;
use crate::silence::{Event, Silence};
use crate::skipped::Skipped;

/// In bulk one packet in this many requests an immediate acknowledgement: minimum and maximum. Of 1472 bytes, 44 are
/// one system call (64 KiB), and 132 are three.
const FEWEST_ASKED: u64 = 8;
const MOST_ASKED: u64 = 132;

/// The peer's acknowledgements, which it may delay, come later than that by this much now and then: its timers are late
/// when it has other work.
const LATE: Duration = Duration::from_millis(2);

/// How long a peer may stop receiving before its socket overflows: of a longer round trip only this much is charged to
/// its credit.
const PAUSE: Duration = Duration::from_millis(4);

/// A new address of the peer is challenged this many times.
const MAX_CHALLENGES: u8 = 5;

/// An address that has not answered gets at most this many bytes for each that came from there (RFC 9000 section 8.1).
const AMPLIFICATION: u64 = 3;

/// The two addresses of a rail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PathAddress {
    /// The local address.
    pub(crate) local: u8,
    /// The peer's address.
    pub(crate) to: SocketAddr,
}

/// An address at which the peer was seen, or which it has announced, not validated yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub(crate) place: PathAddress,
    /// The expected response.
    pub(crate) challenge: [u8; 8],
    /// When the challenge is to be sent (again).
    pub(crate) due: Time,
    pub(crate) left: u8,
    /// When it was last sent.
    pub(crate) asked: Option<Time>,
    /// The least time until it is sent again: a probe timeout of the round trip that is assumed before one was
    /// measured. The new path may be longer than the one that was.
    least_wait: Duration,
    /// The address is proved, and the challenge is as large as the least datagram: does the path carry that?
    pub(crate) is_full: bool,
    /// Bytes that may still be sent there, where the address is known from packets alone, whose source may be false.
    allowed: Option<u64>,
}

impl Candidate {
    pub(crate) fn new(place: PathAddress, challenge: [u8; 8], initial_round_trip: Duration, now: Time) -> Self {
        let least_wait = RoundTrip::new(initial_round_trip).probe_timeout();
        let (left, asked, is_full, allowed) = (MAX_CHALLENGES, None, false, None);
        Self { place, challenge, due: now, left, asked, least_wait, is_full, allowed }
    }

    /// It may be sent nothing but what packets from there allow.
    pub(crate) const fn limit(&mut self) {
        self.allowed = Some(0);
    }

    /// A packet has come from an address.
    pub(crate) fn on_packet(&mut self, from: PathAddress, bytes: usize) {
        if let Some(allowed) = self.allowed.as_mut().filter(|_| self.place == from) {
            *allowed += AMPLIFICATION * bytes as u64;
        }
    }

    /// Sends the challenge, again after a probe timeout, and then after two each: of the rail's round trip, or the one
    /// assumed at first, whichever is longer (RFC 9000 sections 8.2.1, 8.2.4 and 9.4). Returns false when it has been
    /// sent often enough.
    pub(crate) fn ask(&mut self, probe_timeout: Duration, now: Time) -> bool {
        let is_first = self.left == MAX_CHALLENGES;
        self.asked = is_first.then_some(now);
        self.due = now + probe_timeout.max(self.least_wait) * if is_first { 1 } else { 2 };
        let asks = self.left > 0;
        self.left = self.left.saturating_sub(1);
        asks
    }

    /// Whether it may make way for another address: its first challenge was not answered in time.
    pub(crate) const fn is_overdue(&self) -> bool {
        self.left + 1 < MAX_CHALLENGES
    }
}

/// When the peer last answered on a rail, and the variation of its round trip in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answered {
    pub(crate) at: Time,
    pub(crate) variation: u64,
}

/// When packets request an immediate acknowledgement: see [`Rail::asks`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Requests {
    /// After this many bytes without a request.
    pub(crate) after: u64,
    /// And each packet that fills the window.
    pub(crate) when_full: bool,
}

impl Requests {
    /// Whether a packet requests one, with which `unasked` bytes were sent without a request. `fills`: it fills the
    /// window.
    pub(crate) const fn are_due(self, unasked: u64, fills: bool) -> bool {
        unasked >= self.after || fills && self.when_full
    }

    /// How many packets of `length` bytes may be sent before the next request is due, if they don't fill the window.
    /// `unasked` bytes were sent since the last request.
    pub(crate) const fn spares(self, unasked: u64, length: u64) -> u64 {
        self.after.saturating_sub(unasked + 1) / length
    }
}

/// The state of a rail.
#[derive(Debug)]
pub(crate) struct Rail {
    pub(crate) id: u8,
    /// Its validated path. Without one only challenges and responses are sent.
    pub(crate) place: Option<PathAddress>,
    pub(crate) candidate: Option<Candidate>,
    /// A challenge to be answered, and its source.
    pub(crate) response: Option<([u8; 8], PathAddress)>,
    pub(crate) sent: Sent,
    pub(crate) skipped: Skipped,
    pub(crate) received: Received,
    pub(crate) trip: RoundTrip,
    pub(crate) window: Window,
    pub(crate) pacer: Pacer,
    pub(crate) mtu: Mtu,
    /// Bytes that the peer allows in flight.
    pub(crate) credit: u64,
    /// Probes since the peer last acknowledged anything.
    pub(crate) backoff: u32,
    /// Time of the last acknowledgement.
    pub(crate) heard_at: Time,
    /// Packets below this number were sent before the rail answered again after it had failed: how long their
    /// acknowledgements took is not a round trip. A probe may have waited for the address of the next hop.
    pub(crate) answers_from: u64,
    /// Whether it has failed, where there are others.
    pub(crate) silence: Silence,
    /// Packets that may be sent beyond the window: probes.
    pub(crate) probes: u32,
    /// The window, or the pacer that spreads it, was the limit since the last acknowledgement.
    pub(crate) was_full: bool,
    /// Bytes of packets sent since the last one that requested an immediate acknowledgement.
    pub(crate) unasked: u64,
    /// Until when the pacer delays packets.
    pub(crate) paced_until: Option<Time>,
    /// Whether packets are sent with ECT(0).
    pub(crate) ecn: EcnValidation,
    pub(crate) peer_largest: Option<u64>,
    pub(crate) peer_overflows: u32,
    pub(crate) tally: Tally,
    /// Packets below this number took an earlier path: they show nothing of this one.
    pub(crate) path_from: u64,
    /// Packets below this number were sent before a round trip was measured on the path.
    pub(crate) known_from: u64,
    /// Why it is closed, and its last or attempted path.
    pub(crate) closed: Option<(Out, PathAddress)>,
}

/// Counters of a rail.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) sent_packets: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) lost_packets: u64,
    pub(crate) received_packets: u64,
    pub(crate) received_bytes: u64,
}

impl Rail {
    /// A rail without a path.
    pub(crate) fn new(id: u8, limit: usize, credit: u32, settings: &Settings) -> Self {
        Self {
            id,
            place: None,
            candidate: None,
            response: None,
            sent: Sent::new(settings.sent_packets),
            skipped: Skipped::default(),
            received: Received::default(),
            trip: RoundTrip::new(settings.initial_round_trip),
            window: Window::new(settings.initial_window),
            pacer: Pacer::default(),
            mtu: Mtu::new(limit, settings.raise_after),
            credit: u64::from(credit),
            backoff: 0,
            heard_at: Time::ZERO,
            answers_from: 0,
            silence: Silence::default(),
            probes: 0,
            was_full: false,
            unasked: 0,
            paced_until: None,
            ecn: EcnValidation::default(),
            peer_largest: None,
            peer_overflows: 0,
            tally: Tally::default(),
            path_from: 0,
            known_from: 0,
            closed: None,
        }
    }

    /// Whether it has a path, or may soon have one.
    pub(crate) fn is_used(&self) -> bool {
        self.place.is_some() || self.candidate.is_some()
    }

    /// Whether a packet with a challenge or a response may be sent to an address: it is sent if so.
    pub(crate) fn allows(&mut self, to: PathAddress, bytes: usize) -> bool {
        let candidate = self.candidate.as_mut().filter(|candidate| candidate.place == to);
        let Some(allowed) = candidate.and_then(|candidate| candidate.allowed.as_mut()) else { return true };
        let rest = allowed.checked_sub(bytes as u64);
        *allowed = rest.unwrap_or(*allowed);
        rest.is_some()
    }

    /// Whether it may carry data.
    pub(crate) fn is_live(&self) -> bool {
        self.place.is_some()
    }

    /// Whether it may carry data, and is not silent.
    pub(crate) fn answers(&self) -> bool {
        self.is_live() && self.backoff == 0
    }

    /// Whether others have answered since it is silent.
    pub(crate) fn has_failed(&self) -> bool {
        self.silence == Silence::Failed
    }

    /// Whether a packet was sent on the current path.
    pub(crate) const fn is_of_path(&self, number: u64) -> bool {
        number >= self.path_from
    }

    /// A round trip was measured, of which the peer has delayed the acknowledgement by `delay`.
    pub(crate) fn on_round_trip(&mut self, sample: Duration, delay: Duration) {
        if !self.trip.is_known() {
            self.known_from = self.sent.next_number();
        }
        self.trip.sample(sample, delay);
    }

    /// The path has changed: nothing is known of it but that it reaches the peer. Packet numbers continue.
    pub(crate) fn begin_anew(&mut self, limit: usize, settings: &Settings) {
        self.trip = RoundTrip::new(settings.initial_round_trip);
        self.path_from = self.sent.next_number();
        self.window.restart(settings.initial_window, self.path_from);
        self.pacer = Pacer::default();
        self.mtu = Mtu::new(limit, settings.raise_after);
        self.ecn.restart(self.path_from);
        (self.backoff, self.probes, self.was_full, self.paced_until) = (0, 0, false, None);
        self.silence = self.silence.on(Event::Answers);
        self.unasked = 0;
    }

    /// Segments are about to be sent: notifies the pacer if the path is quiet, since there was nothing to send, and
    /// nothing is in flight or has left for half a round trip.
    pub(crate) fn see_quiet(&mut self, now: Time) {
        let round_trip = self.trip.smoothed();
        let is_quiet = self.sent.in_flight() == 0 || self.sent.last_sent() + round_trip / 2 <= now;
        if is_quiet && self.trip.is_known() && self.window.is_app_limited() {
            self.pacer.on_quiet_path(self.limit(), round_trip);
        }
    }

    /// Passes the feedback of an acknowledgement or timer to the congestion controller. A window that is larger than
    /// the peer's credit is not the limit.
    pub(crate) fn settle(&mut self, now: Time) {
        let full = self.was_full && self.window.bytes() <= self.limit();
        self.window.settle(self.trip.least(), self.mtu.current() as u32, full, now);
    }

    /// Bytes that may be in flight. One datagram always may: a credit of 0 would never be renewed.
    ///
    /// The credit bounds what may wait in the peer's socket, so what a long path holds is not charged to it: of a
    /// window, the part of the round trip that is longer than [`PAUSE`].
    pub(crate) fn limit(&self) -> u64 {
        let (window, datagram) = (self.window.bytes(), self.mtu.current() as u64);
        if window <= self.credit {
            return window.max(datagram);
        }
        let least = self.trip.least().map_or(0, |least| nanos(least.saturating_sub(PAUSE)));
        let on_the_path = share(window, least, self.trip.smoothed_ns().max(1));
        window.min(self.credit + on_the_path).max(datagram)
    }

    /// The pacer's longest burst; `usual` is that of a slow path. In slow start it is no longer than that: the rate is
    /// up to twice what the path carries.
    pub(crate) fn burst(&self, usual: Duration) -> Duration {
        let is_known = !self.window.is_slow_start();
        if is_known { Pacer::burst_of(usual, self.limit(), self.trip.smoothed()) } else { usual }
    }

    /// Bytes of a full window that are under way at a time and wait in no queue: its rate by the least round trip.
    pub(crate) fn held(&self) -> u64 {
        let (window, round_trip) = (self.limit(), self.trip.smoothed_ns().max(1));
        self.trip.least().map_or(0, |least| share(window, nanos(least).min(round_trip), round_trip))
    }

    /// Whether the window has room for a datagram with segments.
    pub(crate) fn window_is_open(&self) -> bool {
        self.probes > 0 || self.sent.in_flight() + self.mtu.current() as u64 <= self.limit()
    }

    /// Whether the bytes in flight would fill the window if nothing were paced. The pacer spreads a short burst as
    /// well, and a window that no burst fills must not grow.
    ///
    /// In slow start, where the bytes in flight lag behind a window that doubles: if half of it is in flight (Linux has
    /// the same bound, `tcp_is_cwnd_limited`), or there has been more to send for a round trip. Later: if three
    /// quarters are, since at 5/4 of the window in a round trip the pacer is soon not the limit.
    pub(crate) fn is_well_used(&self) -> bool {
        let (in_flight, window) = (self.sent.in_flight(), self.limit());
        if self.window.is_slow_start() {
            return in_flight >= window / 2 || !self.window.is_app_limited();
        }
        in_flight >= window / 4 * 3
    }

    /// Whether the packet of `bytes` that is being sent requests an immediate acknowledgement. `fills`: it fills the
    /// window.
    ///
    /// Of a small window each packet that fills it does, for nothing else can be sent before it is acknowledged. Of a
    /// larger one it is enough that the peer acknowledges an eighth at a time, which makes room for as much: so an
    /// acknowledgement covers at least 8 packets, as far as the window allows that, and at most 132.
    ///
    /// Where more than that waits in queues of the path, half of what waits is acknowledged at a time: the other half
    /// keeps the path busy until the acknowledgement is here.
    pub(crate) fn asks(&mut self, bytes: u64, fills: bool) -> bool {
        self.unasked += bytes;
        let may_ask = fills || self.unasked >= FEWEST_ASKED * self.mtu.current() as u64;
        may_ask && self.requests().are_due(self.unasked, fills)
    }

    /// When packets request an immediate acknowledgement, as the window is now.
    pub(crate) fn requests(&self) -> Requests {
        let (window, datagram) = (self.limit(), self.mtu.current() as u64);
        let (least, most) = (FEWEST_ASKED * datagram, MOST_ASKED * datagram);
        let (part, half_queue) = ((window / 8).clamp(least, most), self.queued(window) / 2);
        Requests { after: part.max(half_queue.min(most)), when_full: window < 4 * least && half_queue <= part }
    }

    /// Of a full window the bytes that wait in queues of the path: those beyond what it holds in its least round trip.
    /// None in slow start, in which round trips have to be sampled often (RFC 9406 section 4.3).
    fn queued(&self, window: u64) -> u64 {
        let Some(least) = self.trip.least().filter(|_| !self.window.is_slow_start()) else { return 0 };
        let round_trip = self.trip.smoothed_ns().max(1);
        share(window, round_trip.saturating_sub(nanos(least)), round_trip)
    }

    /// When the peer is probed for lack of an acknowledgement. `peer_delay`: how long the peer may delay one. Not while
    /// a packet waits to be declared lost by time: that a younger one has arrived shows that the peer answers (RFC 9002
    /// section 6.2.1).
    ///
    /// `freshest`: the rail with the latest acknowledgement. If that is later than this rail's last packet, the peer is
    /// not silent, and the variation of that rail counts: this one's may come from a pause that is over, and a rail
    /// that is cut gets no more samples.
    pub(crate) fn probe_at(&self, peer_delay: Duration, most: Duration, freshest: Option<Answered>) -> Option<Time> {
        if !self.sent.is_flying() || self.sent.loss_at().is_some() {
            return None;
        }
        let after = |wait: u64| Time::from_nanos(self.sent.last_sent().as_nanos().saturating_add(wait));
        let wait = self.trip.probe_timeout_ns().saturating_add(nanos(peer_delay));
        let usual = after(wait.saturating_mul(1 << self.backoff.min(20)).min(nanos(most).max(wait)));
        let overtaken = freshest.filter(|_| self.backoff == 0).and_then(|answered| {
            let wait = self.trip.smoothed_ns() + self.trip.probe_timeout_of(answered.variation) + nanos(peer_delay);
            (answered.at > self.sent.last_sent()).then(|| after(wait))
        });
        [overtaken, Some(usual)].into_iter().flatten().min()
    }

    /// When the rail is overdue, where another may decide whether it has failed: a probe timeout of at least [`LATE`]
    /// beyond a round trip after the oldest packet in flight was sent, and not before half a round trip and the same
    /// margin have passed without any acknowledgement. A sender of bulk gets eight in a round trip.
    ///
    /// The probe timeout of RFC 9002 counts from the last packet, and begins again with each: with one path, nothing
    /// else shows whether the peer is there. Here the question is that of RACK (RFC 8985 section 6.2) across rails: a
    /// packet is missing, and later ones have arrived.
    pub(crate) fn overdue_at(&self, peer_delay: Duration) -> Option<Time> {
        if self.backoff > 0 || self.sent.loss_at().is_some() {
            return None;
        }
        let oldest = self.sent.oldest_content()?.sent;
        let round_trip = self.trip.smoothed_ns();
        let margin = (4 * self.trip.variation_ns()).max(nanos(LATE)).saturating_add(nanos(peer_delay));
        let after = |time: Time, wait: u64| Time::from_nanos(time.as_nanos().saturating_add(wait));
        let (sent, heard) = (round_trip.saturating_add(margin), (round_trip / 2).saturating_add(margin));
        Some(after(oldest, sent).max(after(self.heard_at, heard)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sent::Leaving;

    /// Packets of 1200 bytes until one requests an immediate acknowledgement.
    fn until_asked(rail: &mut Rail) -> usize {
        let count = 1 + (1..200).take_while(|_| !rail.asks(1200, false)).count();
        rail.unasked = 0;
        count
    }

    #[test]
    fn acknowledgements_are_asked_for_by_the_window() {
        for (datagrams, every) in [(10, 8), (64, 8), (128, 16), (256, 32), (3000, 132)] {
            let settings = Settings { initial_window: datagrams, ..Settings::default() };
            let mut rail = Rail::new(0, 1472, 16 << 20, &settings);
            assert_eq!([until_asked(&mut rail), until_asked(&mut rail)], [every, every], "of {datagrams}");
        }
    }

    #[test]
    fn where_a_queue_stands_half_of_it_is_acknowledged_at_a_time() {
        // Losses leave 14, 35, 70, 280, 2100 datagrams of the window. Four fifths of it wait in a queue.
        let ms = Duration::from_millis(1);
        for (datagrams, before, after) in [(20, 8, 8), (50, 8, 14), (100, 13, 28), (400, 50, 112), (3000, 132, 132)] {
            let settings = Settings { initial_window: datagrams, ..Settings::default() };
            let mut rail = Rail::new(0, 1472, 16 << 20, &settings);
            rail.on_round_trip(ms, Duration::ZERO);
            (0..100).for_each(|_| rail.on_round_trip(5 * ms, Duration::ZERO));
            assert_eq!(until_asked(&mut rail), before, "of {datagrams}, in slow start");
            rail.sent.push(&Leaving { now: Time::from_nanos(1), bytes: 1200, ..Leaving::default() });
            let packet = rail.sent.oldest().unwrap();
            let now = Time::from_nanos(2);
            for _ in 0..40 {
                rail.window.on_lost(&packet, now);
            }
            rail.window.settle(Some(ms), 1200, false, now);
            assert_eq!(rail.limit(), u64::from(datagrams) * 1200 / 10 * 7);
            assert_eq!([until_asked(&mut rail), until_asked(&mut rail)], [after, after], "of {datagrams}");
        }
    }

    #[test]
    fn the_credit_bounds_what_may_wait_in_a_socket_and_not_what_a_path_holds() {
        let (ms, settings) = (Duration::from_millis(1), Settings { initial_window: 1000, ..Settings::default() });
        // Window of 1.2 MB, credit of 100 kB.
        for (round_trip_ms, least_ms, limit) in
            [(1, 1, 100_000), (4, 4, 100_000), (40, 40, 1_180_000), (80, 40, 640_000)]
        {
            let mut rail = Rail::new(0, 1472, 100_000, &settings);
            assert_eq!(rail.limit(), 100_000, "no round trip is known");
            rail.on_round_trip(least_ms * ms, Duration::ZERO);
            (0..200).for_each(|_| rail.on_round_trip(round_trip_ms * ms, Duration::ZERO));
            let got = rail.limit();
            assert!(got.abs_diff(limit) <= limit / 100, "{round_trip_ms} ms, at least {least_ms}: {got}, not {limit}");
        }
    }

    #[test]
    fn no_probe_while_a_packet_waits_to_be_lost_by_time() {
        let (ms, at) = (Duration::from_millis(1), |ms: u64| Time::from_nanos(ms * 1_000_000));
        let mut rail = Rail::new(0, 1472, 16 << 20, &Settings::default());
        rail.on_round_trip(10 * ms, Duration::ZERO);
        for number in 0..2 {
            rail.sent.push(&Leaving { now: at(number), bytes: 1200, ..Leaving::default() });
        }
        let times = |rail: &Rail| (rail.probe_at(ms, Duration::MAX, None), rail.overdue_at(ms));
        assert_eq!(times(&rail), (Some(at(32)), Some(at(31))), "10 + 4 * 5 + 1 after the last, or the first");
        assert!(rail.sent.acknowledge(1, 1, &mut vec![]));
        rail.sent.detect(at(11), 20 * ms, &mut vec![]);
        assert_eq!((rail.sent.loss_at(), times(&rail)), (Some(at(20)), (None, None)));
    }

    #[test]
    fn what_fills_a_small_window_is_acknowledged_at_once_and_of_a_large_one_now_and_then() {
        let small = Settings::default();
        let mut rail = Rail::new(0, 1472, 16 << 20, &small);
        assert!(rail.asks(1200, true));
        let large = Settings { initial_window: 512, ..small };
        let mut rail = Rail::new(0, 1472, 16 << 20, &large);
        let asked = (0..64).filter(|_| rail.asks(1200, true)).count();
        assert_eq!(asked, 1, "the last");
    }
}
