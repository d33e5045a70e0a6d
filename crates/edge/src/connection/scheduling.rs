//! Which rail the next datagram leaves on: the one over which it is likely to arrive first.

use core::time::Duration;

use weft_base::Time;

use super::Connection;
use crate::life::Phase;
use crate::rail::Rail;

/// Rails, as bits.
pub(crate) type RailSet = u16;

/// What leaves next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    pub(super) rail: usize,
    /// Segments may be in it. If not, there is something else to say on this rail.
    pub(super) segments: bool,
    /// Rails that are known to no harm. Acknowledgements of the others travel on one of these.
    pub(super) trusted: RailSet,
}

impl Turn {
    /// Whether an acknowledgement of the packets of `index` may be in it: on the rail itself, so that round trips are
    /// those of one rail, unless that may be lost.
    pub(super) fn acknowledges(&self, index: usize) -> bool {
        if has(self.trusted, index) { index == self.rail } else { has(self.trusted, self.rail) }
    }
}

pub(crate) const fn has(set: RailSet, index: usize) -> bool {
    set & 1 << index != 0
}

impl Connection {
    /// Live rails that answer, or all live ones if none does.
    pub(crate) fn trusted(&self) -> RailSet {
        let set = |may: fn(&Rail) -> bool| {
            self.rails.iter().enumerate().fold(0, |set, (index, rail)| set | RailSet::from(may(rail)) << index)
        };
        match set(Rail::answers) {
            0 => set(Rail::is_live),
            answering => answering,
        }
    }

    /// The next datagram.
    pub(super) fn turn(&mut self, now: Time) -> Turn {
        if self.rails.len() == 1 {
            return Turn { rail: 0, segments: self.may_send_segments(0, now), trusted: 1 };
        }
        let trusted = self.trusted();
        self.rails.iter_mut().for_each(|rail| rail.paced_until = None);
        let mut open = 0;
        for index in (0..self.rails.len()).filter(|index| has(trusted, *index)) {
            open |= RailSet::from(self.may_send_segments(index, now)) << index;
        }
        let best = self.soonest(open);
        let speaks = (0..self.rails.len()).find(|index| Some(*index) != best && self.speaks(*index, trusted, now));
        let rail = speaks.or(best).or(self.soonest(trusted)).unwrap_or(0);
        Turn { rail, segments: Some(rail) == best, trusted }
    }

    /// Whether something is to be said on this rail and no other.
    fn speaks(&self, index: usize, trusted: RailSet, now: Time) -> bool {
        let rail = &self.rails[index];
        let acknowledges = has(trusted, index) && self.is_ack_due(index, now);
        rail.is_live() && (rail.probes > 0 || acknowledges)
    }

    pub(super) fn is_ack_due(&self, index: usize, now: Time) -> bool {
        !self.holds_acks && self.rails[index].received.due().is_some_and(|due| due <= now)
    }

    /// The one of these rails over which a datagram arrives first.
    fn soonest(&self, rails: RailSet) -> Option<usize> {
        (0..self.rails.len()).filter(|index| has(rails, *index)).min_by_key(|index| self.rails[*index].arrival())
    }

    /// The source has nothing, or may give nothing: there is time to send again what is on its way over slower rails,
    /// as far as it would arrive sooner over this one. True when there is such a packet.
    pub(super) fn overtake(&mut self, index: usize, now: Time) -> bool {
        if self.rails.len() == 1 || self.phase != Phase::Open {
            return false;
        }
        let arrives = now + self.rails[index].arrival();
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

    /// Nothing is left to send: what the rails deliver from here on is less than they could.
    pub(super) fn on_nothing_to_send(&mut self) {
        for rail in self.rails.iter_mut().filter(|rail| rail.is_live() && rail.window_is_open()) {
            rail.window.on_app_limited(rail.sent.in_flight());
        }
    }
}

impl Rail {
    /// After how long a datagram arrives that leaves now: bytes under way by the rate, and half a round trip.
    pub(crate) fn arrival(&self) -> Duration {
        let trip = self.trip.smoothed().as_nanos();
        let queued = self.sent.in_flight() + self.mtu.current() as u64;
        let wait = trip.saturating_mul(u128::from(queued)) / u128::from(self.limit().max(1));
        Duration::from_nanos(u64::try_from(wait + trip / 2).unwrap_or(u64::MAX))
    }
}
