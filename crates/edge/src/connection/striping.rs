//! Striping: chooses the rail for the next datagram, the one over which it is likely to arrive first; which rails are
//! trusted with data and acknowledgements; and what is retransmitted over a faster rail before it was lost.

use core::time::Duration;

use weft_base::Time;
use weft_congestion::share;

use super::Connection;
use crate::phase::Phase;
use crate::rail::Rail;
use crate::round_trip::nanos;

/// Rails, as bits.
pub(crate) type RailSet = u16;

/// What to send next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    pub(super) rail: usize,
    /// It may hold segments. If not, this rail has other frames to send.
    pub(super) segments: bool,
    /// Rails that are not suspect.
    pub(super) trusted: RailSet,
    /// Rails that carry the acknowledgements of their own packets. Those of the others are sent on a trusted one.
    pub(super) own_acks: RailSet,
}

/// Consecutive datagrams on one rail.
#[derive(Clone, Copy, Debug)]
pub(super) struct Burst {
    rail: usize,
    /// The longest arrival time that one of them may have.
    until: Duration,
}

impl Burst {
    pub(super) const fn until(&self) -> Duration {
        self.until
    }
}

impl Turn {
    /// Whether the packet may acknowledge packets of rail `index`: on the rail itself, so that round trips are those of
    /// one rail, unless that rail is suspect.
    pub(super) fn acknowledges(&self, index: usize) -> bool {
        if has(self.own_acks, index) { index == self.rail } else { has(self.trusted, self.rail) }
    }
}

pub(crate) const fn has(set: RailSet, index: usize) -> bool {
    set & 1 << index != 0
}

impl Connection {
    /// Live rails that answer. If none does: those that were the last to answer, or all live ones.
    pub(crate) fn trusted(&self) -> RailSet {
        // What is sent on a rail that has failed is retransmitted only with its next probe.
        let sets: [fn(&Rail) -> bool; 3] = [Rail::answers, |rail| rail.is_live() && !rail.has_failed(), Rail::is_live];
        sets.into_iter().map(|may| self.rails_that(may)).find(|set| *set != 0).unwrap_or(0)
    }

    /// Rails that carry the acknowledgements of their own packets: those that answer. If none does, all live ones: a
    /// packet that has come over a rail shows more than that the rail failed before the others.
    fn own_acks(&self) -> RailSet {
        let answering = self.rails_that(Rail::answers);
        if answering == 0 { self.rails_that(Rail::is_live) } else { answering }
    }

    fn rails_that(&self, may: fn(&Rail) -> bool) -> RailSet {
        self.rails.iter().enumerate().fold(0, |set, (index, rail)| set | RailSet::from(may(rail)) << index)
    }

    /// The next datagram. `burst`: the rail that consecutive datagrams are sent on.
    pub(super) fn turn(&mut self, burst: &mut Option<Burst>, now: Time) -> Turn {
        if self.rails.len() == 1 {
            return Turn { rail: 0, segments: self.may_send_segments(0, now), trusted: 1, own_acks: 1 };
        }
        let (trusted, own_acks) = (self.trusted(), self.own_acks());
        if let Some(Burst { rail, until }) = *burst {
            let speaks = |index| index != rail && self.speaks(index, (trusted, own_acks), now);
            let goes_on = has(trusted, rail) && self.rails[rail].arrival() <= until;
            if goes_on && !(0..self.rails.len()).any(speaks) && self.may_send_segments(rail, now) {
                return Turn { rail, segments: true, trusted, own_acks };
            }
        }
        *burst = None;
        self.rails.iter_mut().for_each(|rail| rail.paced_until = None);
        let mut open = 0;
        for index in (0..self.rails.len()).filter(|index| has(trusted, *index)) {
            open |= RailSet::from(self.may_send_segments(index, now)) << index;
        }
        let best = self.soonest(open);
        let speaks = |index: &usize| Some(*index) != best && self.speaks(*index, (trusted, own_acks), now);
        let speaks = (0..self.rails.len()).find(speaks);
        let rail = speaks.or(best).or_else(|| self.soonest(trusted)).unwrap_or(0);
        let segments = Some(rail) == best;
        *burst = segments.then(|| self.burst_on(rail, open));
        Turn { rail, segments, trusted, own_acks }
    }

    /// Keeps sending on one of the open rails while datagrams arrive not much later than over the next best: datagrams
    /// that leave on one rail together take one system call, and are one packet to both hosts' kernels.
    ///
    /// "Not much" is a pacer burst plus an eighth of a round trip: with empty queues a few datagrams, so that short
    /// messages are spread evenly.
    fn burst_on(&self, rail: usize, open: RailSet) -> Burst {
        let next = self.soonest(open & !(1 << rail)).map(|next| self.rails[next].arrival());
        let slack = (self.rails[rail].trip.smoothed() / 8).min(self.settings.batch_time / 2);
        Burst { rail, until: next.map_or(Duration::MAX, |next| next.saturating_add(slack)) }
    }

    /// Whether this rail has frames to send that no other can.
    ///
    /// Refusals precede acknowledgements, and go over trusted rails only.
    fn speaks(&self, index: usize, (trusted, own_acks): (RailSet, RailSet), now: Time) -> bool {
        let rail = &self.rails[index];
        let may_acknowledge = has(own_acks, index) && (self.refusals.is_empty() || has(trusted, index));
        let acknowledges = may_acknowledge && self.is_ack_due(index, now);
        rail.is_live() && (rail.probes > 0 || acknowledges)
    }

    pub(super) fn is_ack_due(&self, index: usize, now: Time) -> bool {
        !self.holds_acks && self.rails[index].received.due().is_some_and(|due| due <= now)
    }

    /// The one of these rails over which a datagram arrives first.
    fn soonest(&self, rails: RailSet) -> Option<usize> {
        (0..self.rails.len()).filter(|index| has(rails, *index)).min_by_key(|index| self.rails[*index].arrival())
    }

    /// The source has nothing, or may give nothing: retransmits what is in flight on slower rails, if it takes more
    /// than twice as long there as over this one. Returns true when there is such a packet.
    ///
    /// A source that waits for completions gives more a moment later, and the retransmission takes the place of that.
    /// So rails of similar speed send nothing twice: a packet is only ever given to the rail over which it arrives
    /// first, and all that can change is the length of the queues.
    pub(super) fn overtake(&mut self, index: usize, now: Time) -> bool {
        if self.rails.len() == 1 || self.phase != Phase::Open {
            return false;
        }
        let arrives = now + self.rails[index].arrival() * 2;
        for other in (0..self.rails.len()).filter(|other| *other != index) {
            while let Some(contents) = self.rails[other].sent.overtaken(arrives) {
                if self.outgoing.on_lost(&contents) {
                    self.counters.overtaken += 1;
                    return true;
                }
            }
        }
        false
    }

    /// Nothing is left to send: from here on the rails' delivery rates are app-limited.
    pub(super) fn on_nothing_to_send(&mut self) {
        for rail in self.rails.iter_mut().filter(|rail| rail.is_live() && rail.window_is_open()) {
            rail.window.on_app_limited(rail.sent.in_flight());
            rail.pacer.on_other_limit();
        }
    }
}

impl Rail {
    /// How long a datagram sent now takes to arrive: the bytes in flight at the rail's rate, and half a round trip.
    pub(crate) fn arrival(&self) -> Duration {
        let trip = self.trip.smoothed_ns();
        let queued = self.sent.in_flight() + self.mtu.current() as u64;
        let wait = share(trip, queued, self.limit().max(1));
        Duration::from_nanos(wait.saturating_add(trip / 2))
    }
    /// How long a datagram of `length` bytes takes at the rail's rate.
    pub(crate) fn takes(&self, length: usize) -> Duration {
        Duration::from_nanos(share(self.trip.smoothed_ns(), length as u64, self.limit().max(1)))
    }

    /// Bytes that may be sent now until a further datagram takes longer than `until` to arrive.
    pub(crate) fn bytes_until(&self, until: Duration) -> u64 {
        let trip = self.trip.smoothed_ns();
        let wait = nanos(until).saturating_sub(trip / 2);
        let bytes = if trip == 0 { u64::MAX } else { share(wait, self.limit().max(1), trip) };
        bytes.saturating_sub(self.sent.in_flight() + self.mtu.current() as u64)
    }
}
