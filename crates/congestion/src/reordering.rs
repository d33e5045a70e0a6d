//! How much disorder the path is allowed before a packet counts as lost: learnt from what came late, forgotten in
//! quiet.

use core::time::Duration;

use weft_base::Time;

use crate::round_trip::{RoundTrip, nanos};

/// A packet is lost when one that was sent this many packets later is acknowledged (RFC 9002 section 6.1.1), on a path
/// that has shown no more disorder than this.
pub const PACKET_THRESHOLD: u64 = 3;

/// The most that [`PACKET_THRESHOLD`] grows to; time decides beyond it.
pub const MAX_PACKET_THRESHOLD: u64 = 1024;

/// Eighths of a round trip that a packet may be later than one: 1 by RFC 9002 section 6.1.2, and at most one more round
/// trip.
const EIGHTHS: u64 = 1;
const MAX_EIGHTHS: u64 = 8;

/// After this many round trips without great disorder the thresholds are halved (RFC 8985 section 6.2 keeps its window
/// for 16 recoveries).
const QUIET_ROUNDS: u32 = 16;

/// The thresholds of one rail, in the manner of RACK (RFC 8985 section 6.2): both grow to what was seen, within bounds.
#[derive(Clone, Debug)]
pub(crate) struct Reordering {
    packets: u64,
    eighths: u64,
    quiet_rounds: u32,
}

impl Reordering {
    pub(crate) const fn new() -> Self {
        Self { packets: PACKET_THRESHOLD, eighths: EIGHTHS, quiet_rounds: 0 }
    }

    /// A packet is lost when a packet this many numbers later is acknowledged.
    pub(crate) const fn packets(&self) -> u64 {
        self.packets
    }

    /// A packet is lost when a later one is acknowledged and it was sent this long ago.
    pub(crate) fn time(&self, rtt: &RoundTrip) -> Duration {
        let round = nanos(rtt.smoothed().max(rtt.latest()));
        Duration::from_nanos(round + round / 8 * self.eighths).max(rtt.granularity())
    }

    /// A packet that had been given up is acknowledged: `distance` packets after it had been acknowledged before, and
    /// it took `elapsed`. Thresholds become such that it would not have been given up.
    pub(crate) fn on_late(&mut self, distance: u64, elapsed: Duration, rtt: &RoundTrip) {
        self.quiet_rounds = 0;
        self.packets = self.packets.max((distance + 1).min(MAX_PACKET_THRESHOLD));
        let round = nanos(rtt.smoothed().max(rtt.latest())).max(8);
        let needed = nanos(elapsed).saturating_sub(round) / (round / 8) + 1;
        self.eighths = self.eighths.max(needed.min(MAX_EIGHTHS));
    }

    /// A packet came after `distance` later ones, in time not to be given up: the thresholds are still needed.
    pub(crate) const fn on_disorder(&mut self, distance: u64) {
        if distance >= PACKET_THRESHOLD {
            self.quiet_rounds = 0;
        }
    }

    /// A round trip has passed.
    pub(crate) fn on_round(&mut self) {
        if self.packets == PACKET_THRESHOLD && self.eighths == EIGHTHS {
            return;
        }
        self.quiet_rounds += 1;
        if self.quiet_rounds >= QUIET_ROUNDS {
            self.quiet_rounds = 0;
            self.packets = (self.packets / 2).max(PACKET_THRESHOLD);
            self.eighths = (self.eighths / 2).max(EIGHTHS);
        }
    }
}

/// The losses since one reaction to congestion: packets sent before it belong to the same episode (RFC 9002
/// section 7.3.2).
#[derive(Clone, Debug, Default)]
pub(crate) struct Episode {
    /// The first number that was sent after this episode began.
    pub(crate) end: u64,
    /// The first number that belongs to it.
    start: u64,
    /// Packets of it that are given up and were not acknowledged since.
    missing: u64,
    /// Whether the cut is taken back when nothing is missing. Not when a router's mark caused it.
    can_undo: bool,
}

impl Episode {
    /// Packet `number` is given up, `next` being the next number that will be sent. True when a new episode begins.
    pub(crate) const fn on_lost(&mut self, number: u64, next: u64) -> bool {
        let begins = number >= self.end;
        if begins {
            *self = Self { start: self.end, end: next, missing: 0, can_undo: true };
        }
        self.missing += 1;
        begins
    }

    /// A router has marked packets up to `number`. True when a new episode begins.
    pub(crate) const fn on_marked(&mut self, number: u64, next: u64) -> bool {
        let begins = number >= self.end;
        if begins {
            *self = Self { start: self.end, end: next, missing: 0, can_undo: false };
        }
        self.can_undo = false;
        begins
    }

    /// Packet `number`, which was given up, is acknowledged. True when with it the whole episode proves to be no loss;
    /// so it may again, when more of it is given up later.
    pub(crate) const fn on_late(&mut self, number: u64) -> bool {
        if number < self.start || self.missing == 0 {
            return false;
        }
        self.missing -= 1;
        self.missing == 0 && self.can_undo
    }
}

/// When a record of a lost packet may go: an acknowledgement that is still to come would have come.
pub(crate) fn remembered_until(sent_at: Time, rtt: &RoundTrip) -> Time {
    sent_at + 3 * rtt.probe_timeout(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::round_trip::RoundTripSettings;

    const MS: Duration = Duration::from_millis(1);

    fn rtt() -> RoundTrip {
        let mut rtt = RoundTrip::new(RoundTripSettings::default());
        rtt.update(8 * MS, Duration::ZERO, Time::ZERO);
        rtt
    }

    #[test]
    fn thresholds_grow_to_what_was_seen_within_bounds() {
        let (rtt, mut reordering) = (rtt(), Reordering::new());
        assert_eq!((reordering.packets(), reordering.time(&rtt)), (3, 9 * MS));
        reordering.on_late(10, 10 * MS, &rtt);
        assert_eq!((reordering.packets(), reordering.time(&rtt)), (11, 11 * MS));
        reordering.on_late(u64::MAX - 1, Duration::MAX, &rtt);
        assert_eq!((reordering.packets(), reordering.time(&rtt)), (MAX_PACKET_THRESHOLD, 16 * MS));
    }

    #[test]
    fn quiet_round_trips_bring_them_back_and_disorder_keeps_them() {
        let (rtt, mut reordering) = (rtt(), Reordering::new());
        reordering.on_late(39, 16 * MS, &rtt);
        for _ in 0..100 {
            reordering.on_round();
            reordering.on_disorder(5);
        }
        assert_eq!(reordering.packets(), 40);
        for _ in 0..QUIET_ROUNDS {
            reordering.on_round();
        }
        assert_eq!((reordering.packets(), reordering.time(&rtt)), (20, 12 * MS));
        for _ in 0..4 * QUIET_ROUNDS {
            reordering.on_round();
        }
        assert_eq!((reordering.packets(), reordering.time(&rtt)), (3, 9 * MS));
    }

    #[test]
    fn an_episode_is_undone_by_its_own_last_missing_packet_only() {
        let mut episode = Episode::default();
        assert!(episode.on_lost(5, 20));
        assert!(!episode.on_lost(6, 22), "sent before the episode began");
        assert!(!episode.on_late(5));
        assert!(episode.on_late(6));
        assert!(episode.on_lost(25, 40), "sent after it");
        assert!(!episode.on_late(7), "of the episode before");
        assert!(!episode.on_marked(30, 41), "the same congestion");
        assert!(!episode.on_late(25), "a mark is not undone");
    }
}
