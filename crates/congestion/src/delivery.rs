//! How fast the path delivers (draft-cheng-iccrg-delivery-rate-estimation).

use core::time::Duration;

use weft_base::Time;

use crate::round_trip::{nanos, share};

/// The rate at which one flight of packets was delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateSample {
    /// Bytes per second.
    pub bytes_per_s: u64,
    /// Bytes that were delivered in `interval`.
    pub delivered: u64,
    /// The longer of the time in which they were sent and that in which they were acknowledged.
    pub interval: Duration,
    /// The sender had nothing more to send at the time: the path may be faster than this.
    pub app_limited: bool,
}

/// What each packet remembers of the state of delivery when it was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    delivered: u64,
    delivered_at: Time,
    first_sent_at: Time,
    app_limited: bool,
}

/// The most recently sent packet of those that one acknowledgement acknowledges.
#[derive(Clone, Copy, Debug)]
struct Newest {
    stamp: Stamp,
    sent_at: Time,
}

/// Counts deliveries of one rail. [`SentPackets`](crate::SentPackets) has one; it is for whoever keeps packets himself.
#[derive(Clone, Debug, Default)]
pub struct Delivery {
    delivered: u64,
    delivered_at: Time,
    first_sent_at: Time,
    /// Samples are limited by the application until this much is delivered; zero when they are not.
    app_limited_until: u64,
    /// A round trip ends when a packet is acknowledged that was sent after this much had been delivered.
    round_ends_at: u64,
    newest: Option<Newest>,
}

impl Delivery {
    /// Bytes that were acknowledged since the start.
    #[must_use]
    pub const fn delivered(&self) -> u64 {
        self.delivered
    }

    /// A packet leaves, with `in_flight` bytes under way before it. It keeps the stamp.
    #[must_use]
    pub const fn on_sent(&mut self, in_flight: u64, now: Time) -> Stamp {
        if in_flight == 0 {
            self.first_sent_at = now;
            self.delivered_at = now;
        }
        Stamp {
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            app_limited: self.app_limited_until != 0,
        }
    }

    /// The sender has nothing more to send, with this much under way.
    pub const fn on_app_limited(&mut self, in_flight: u64) {
        let until = self.delivered + in_flight;
        self.app_limited_until = if until == 0 { 1 } else { until };
    }

    /// Whether the sender had nothing more to send at some time in the last round trip.
    #[must_use]
    pub const fn is_app_limited(&self) -> bool {
        self.app_limited_until != 0
    }

    /// A packet of `bytes` with this stamp, sent at `sent_at`, is acknowledged.
    pub fn on_acked(&mut self, stamp: Stamp, bytes: u64, sent_at: Time, now: Time) {
        self.delivered += bytes;
        self.delivered_at = now;
        if self.newest.is_none_or(|newest| (stamp.delivered, sent_at) >= (newest.stamp.delivered, newest.sent_at)) {
            self.newest = Some(Newest { stamp, sent_at });
        }
    }

    /// After all packets of one acknowledgement: the rate, and whether a round trip has ended. A sample over less than
    /// the least round trip is none: acknowledgements came in a heap.
    pub fn finish(&mut self, min_rtt: Duration) -> (Option<RateSample>, bool) {
        let Some(Newest { stamp, sent_at }) = self.newest.take() else { return (None, false) };
        if self.app_limited_until != 0 && self.delivered > self.app_limited_until {
            self.app_limited_until = 0;
        }
        let round = stamp.delivered >= self.round_ends_at;
        if round {
            self.round_ends_at = self.delivered;
        }
        self.first_sent_at = sent_at;
        let interval = sent_at.since(stamp.first_sent_at).max(self.delivered_at.since(stamp.delivered_at));
        if interval < min_rtt || interval.is_zero() {
            return (None, round);
        }
        let delivered = self.delivered - stamp.delivered;
        let bytes_per_s = share(delivered, 1_000_000_000, nanos(interval));
        (Some(RateSample { bytes_per_s, delivered, interval, app_limited: stamp.app_limited }), round)
    }
}
