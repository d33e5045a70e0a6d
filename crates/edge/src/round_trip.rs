//! The round trip of a rail (RFC 9002 section 5).

use core::time::Duration;

/// Granularity of timers.
const GRANULARITY: u64 = 100_000;

/// The time that set-up took is not used below this: the peer may have answered faster than it will later.
const LEAST_EXPECTED: Duration = Duration::from_millis(1);

/// Estimates of a rail's round trip, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RoundTrip {
    smoothed: u64,
    variation: u64,
    latest: u64,
    least: Option<u64>,
    /// The least sample without the delay that the peer reports to have added.
    shortest: Option<u64>,
}

/// The longest round trip, about 18 years: eight of them do not overflow.
const MOST: u64 = u64::MAX >> 5;

pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).map_or(MOST, |nanos| nanos.min(MOST))
}

impl RoundTrip {
    pub(crate) fn new(assumed: Duration) -> Self {
        let assumed = nanos(assumed);
        Self { smoothed: assumed, variation: assumed / 2, latest: assumed, least: None, shortest: None }
    }

    /// Caps the initial estimate before anything was measured.
    pub(crate) fn expect_at_most(&mut self, most: Duration) {
        if self.least.is_none() && most < self.smoothed() {
            *self = Self::new(most.max(LEAST_EXPECTED).min(self.smoothed()));
        }
    }

    /// A packet was acknowledged after `sample`, of which the peer has delayed the acknowledgement by `delay`.
    pub(crate) fn sample(&mut self, sample: Duration, delay: Duration) {
        let (sample, delay) = (nanos(sample), nanos(delay));
        let own = sample.saturating_sub(delay);
        let shortest = Some(self.shortest.map_or(own, |shortest| shortest.min(own)));
        let Some(least) = self.least else {
            *self = Self { smoothed: sample, variation: sample / 2, latest: sample, least: Some(sample), shortest };
            return;
        };
        (self.latest, self.shortest) = (sample, shortest);
        let least = least.min(sample);
        self.least = Some(least);
        // RFC 9002 section 5.3: the delay is subtracted unless the result would be less than the minimum.
        let adjusted = if sample >= least + delay { sample - delay } else { sample };
        self.variation = (self.variation * 3 + self.smoothed.abs_diff(adjusted)) / 4;
        self.smoothed = (self.smoothed * 7 + adjusted) / 8;
    }

    /// The path has changed, or is full: the minimum is that of the last sample (RFC 9002 section 5.2).
    pub(crate) fn restart_least(&mut self) {
        self.least = self.least.map(|_| self.latest);
    }

    /// Whether it was measured.
    pub(crate) fn is_known(&self) -> bool {
        self.least.is_some()
    }

    /// The measured minimum.
    pub(crate) fn least(&self) -> Option<Duration> {
        self.least.map(Duration::from_nanos)
    }

    /// The measured minimum, without what the peer has delayed its acknowledgements by. A peer may report too long a
    /// delay: for hints alone.
    pub(crate) fn shortest(&self) -> Option<Duration> {
        self.shortest.map(Duration::from_nanos)
    }

    pub(crate) fn smoothed(&self) -> Duration {
        Duration::from_nanos(self.smoothed)
    }

    /// As [`RoundTrip::smoothed`], in nanoseconds.
    pub(crate) fn smoothed_ns(&self) -> u64 {
        self.smoothed
    }

    /// How long to wait for an acknowledgement before the peer is probed, without its own delay (RFC 9002 section
    /// 6.2.1).
    pub(crate) fn probe_timeout(&self) -> Duration {
        Duration::from_nanos(self.probe_timeout_ns())
    }

    /// As [`RoundTrip::probe_timeout`], in nanoseconds.
    pub(crate) fn probe_timeout_ns(&self) -> u64 {
        self.probe_timeout_of(self.variation)
    }

    /// The probe timeout for another variation, in nanoseconds.
    pub(crate) fn probe_timeout_of(&self, variation: u64) -> u64 {
        self.smoothed + (variation * 4).max(GRANULARITY)
    }

    /// How much samples differ from the smoothed round trip, in nanoseconds.
    pub(crate) fn variation_ns(&self) -> u64 {
        self.variation
    }

    /// How much later than a younger one a packet may arrive before it is declared lost (RFC 9002 section 6.1.2).
    /// `patience`: additional eighths of a round trip.
    pub(crate) fn loss_delay(&self, patience: u32) -> Duration {
        let base = self.smoothed.max(self.latest);
        let delay = (base + base / 8).max(GRANULARITY);
        Duration::from_nanos(delay.saturating_add(self.smoothed.saturating_mul(u64::from(patience)) / 8))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn what_set_up_took_is_the_most_until_something_is_measured() {
        let mut trip = RoundTrip::new(MS * 100);
        trip.expect_at_most(MS * 500);
        assert_eq!(trip.smoothed(), MS * 100);
        trip.expect_at_most(MS * 4);
        assert_eq!((trip.smoothed(), trip.probe_timeout(), trip.is_known()), (MS * 4, MS * 12, false));
        trip.expect_at_most(MS / 50);
        assert_eq!(trip.smoothed(), MS);
        trip.sample(MS * 10, Duration::ZERO);
        trip.expect_at_most(MS * 2);
        assert_eq!(trip.smoothed(), MS * 10);
    }

    #[test]
    fn the_shortest_is_without_the_delay_of_the_peer() {
        let mut trip = RoundTrip::new(MS * 100);
        assert_eq!(trip.shortest(), None);
        trip.sample(MS * 3, MS);
        assert_eq!((trip.shortest(), trip.least()), (Some(MS * 2), Some(MS * 3)));
        trip.sample(MS * 4, MS);
        trip.restart_least();
        assert_eq!(trip.shortest(), Some(MS * 2), "a queue on the path is no distance");
        trip.sample(MS, MS * 2);
        assert_eq!(trip.shortest(), Some(Duration::ZERO));
    }

    #[test]
    fn it_settles_on_what_is_measured() {
        let mut trip = RoundTrip::new(MS * 100);
        trip.sample(MS * 10, Duration::ZERO);
        assert_eq!((trip.smoothed(), trip.probe_timeout()), (MS * 10, MS * 30));
        (0..100).for_each(|_| trip.sample(MS * 12, MS * 2));
        assert!(trip.smoothed().abs_diff(MS * 10) < MS / 10, "{trip:?}");
    }
}
