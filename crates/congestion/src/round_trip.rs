//! How long a packet and its acknowledgement take (RFC 9002 section 5).

use core::time::Duration;

use weft_base::Time;

use crate::filter::WindowedMin;

/// A sample longer than this is a stopped machine or a broken clock, not a path, and is not used.
pub const MAX_SAMPLE: Duration = Duration::from_secs(60);

/// How long the least round trip is believed: paths change, and a minimum that is no longer true keeps windows small.
const MIN_WINDOW: Duration = Duration::from_secs(10);

/// What the path is taken for before it is known, and how late timers and acknowledgements may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundTripSettings {
    /// The round trip that is assumed before the first sample (RFC 9002 section 6.2.2 recommends 333 ms for the
    /// Internet).
    pub initial: Duration,
    /// The longest that the peer puts off an acknowledgement.
    pub max_ack_delay: Duration,
    /// How late a timer may fire; the least slack of a probe time-out (RFC 9002 section 6.1.2 recommends 1 ms).
    pub granularity: Duration,
}

impl Default for RoundTripSettings {
    fn default() -> Self {
        Self {
            initial: Duration::from_millis(100),
            max_ack_delay: Duration::from_millis(5),
            granularity: Duration::from_millis(1),
        }
    }
}

/// The estimate of one rail's round trip.
#[derive(Clone, Debug)]
pub struct RoundTrip {
    settings: RoundTripSettings,
    samples: u64,
    latest_ns: u64,
    smoothed_ns: u64,
    variation_ns: u64,
    least: WindowedMin,
    rejected: u64,
}

impl RoundTrip {
    /// No sample yet: everything follows from `settings.initial`.
    #[must_use]
    pub fn new(settings: RoundTripSettings) -> Self {
        let initial = nanos(settings.initial);
        Self {
            settings,
            samples: 0,
            latest_ns: initial,
            smoothed_ns: initial,
            variation_ns: initial / 2,
            least: WindowedMin::new(nanos(MIN_WINDOW)),
            rejected: 0,
        }
    }

    /// Takes a sample: the largest packet that is newly acknowledged was sent this long ago, and the peer says that it
    /// held the acknowledgement back for `ack_delay`. False when the sample cannot be one ([`MAX_SAMPLE`]) and was not
    /// used.
    ///
    /// What the peer says is believed up to its own `max_ack_delay`, and never below the least round trip, which is
    /// taken without it (RFC 9002 sections 5.2 and 5.3).
    pub fn update(&mut self, sample: Duration, ack_delay: Duration, now: Time) -> bool {
        if sample > MAX_SAMPLE {
            self.rejected += 1;
            return false;
        }
        // A clock that did not move between sending and the acknowledgement: a round trip is never nothing.
        let sample = nanos(sample).max(1);
        self.latest_ns = sample;
        self.least.update(now.as_nanos(), sample);
        let delay = nanos(ack_delay.min(self.settings.max_ack_delay));
        let adjusted = if sample >= self.least.get().saturating_add(delay) { sample - delay } else { sample };
        self.smooth(adjusted);
        self.samples += 1;
        true
    }

    fn smooth(&mut self, sample: u64) {
        if self.samples == 0 {
            self.smoothed_ns = sample;
            self.variation_ns = sample / 2;
            return;
        }
        let distance = self.smoothed_ns.abs_diff(sample);
        self.variation_ns = (3 * self.variation_ns + distance) / 4;
        self.smoothed_ns = (7 * self.smoothed_ns + sample) / 8;
    }

    /// Whether there was a sample.
    #[must_use]
    pub const fn is_known(&self) -> bool {
        self.samples > 0
    }

    /// The last sample, with the delay of its acknowledgement.
    #[must_use]
    pub const fn latest(&self) -> Duration {
        Duration::from_nanos(self.latest_ns)
    }

    /// The least sample of the last 10 s; the initial value before the first.
    #[must_use]
    pub const fn min(&self) -> Duration {
        Duration::from_nanos(if self.is_known() { self.least.get() } else { self.smoothed_ns })
    }

    /// The smoothed round trip.
    #[must_use]
    pub const fn smoothed(&self) -> Duration {
        Duration::from_nanos(self.smoothed_ns)
    }

    /// The mean deviation of samples.
    #[must_use]
    pub const fn variation(&self) -> Duration {
        Duration::from_nanos(self.variation_ns)
    }

    /// How many samples were rejected.
    #[must_use]
    pub const fn rejected(&self) -> u64 {
        self.rejected
    }

    /// How late a timer may fire.
    #[must_use]
    pub const fn granularity(&self) -> Duration {
        self.settings.granularity
    }

    /// Changes the longest acknowledgement delay: the peer has said another one.
    pub const fn set_max_ack_delay(&mut self, delay: Duration) {
        self.settings.max_ack_delay = delay;
    }

    /// How long to wait for an acknowledgement before a probe is sent, `backoff` probes being unanswered: doubled
    /// for each (RFC 9002 section 6.2.1). Saturates.
    #[must_use]
    pub fn probe_timeout(&self, backoff: u32) -> Duration {
        let slack = (4 * self.variation_ns).max(nanos(self.settings.granularity));
        let once = self.smoothed_ns.saturating_add(slack).saturating_add(nanos(self.settings.max_ack_delay));
        Duration::from_nanos(once.saturating_mul(1 << backoff.min(32)))
    }
}

/// `amount` times `times` by `parts`; what does not fit is as much as fits.
///
/// # Panics
/// When `parts` is 0.
#[must_use]
pub fn share(amount: u64, times: u64, parts: u64) -> u64 {
    match amount.checked_mul(times) {
        Some(product) => product / parts,
        // Rarely: a division of 128 bits is a loop.
        None => u64::try_from(u128::from(amount) * u128::from(times) / u128::from(parts)).unwrap_or(u64::MAX),
    }
}

/// Nanoseconds of a duration; what does not fit is as good as for ever.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn the_first_sample_replaces_what_was_assumed() {
        let mut rtt = RoundTrip::new(RoundTripSettings::default());
        assert_eq!((rtt.smoothed(), rtt.min()), (100 * MS, 100 * MS));
        assert!(rtt.update(8 * MS, Duration::ZERO, at(8)));
        assert_eq!((rtt.smoothed(), rtt.variation(), rtt.min()), (8 * MS, 4 * MS, 8 * MS));
    }

    #[test]
    fn smoothing_is_that_of_the_standard() {
        let mut rtt = RoundTrip::new(RoundTripSettings::default());
        rtt.update(8 * MS, Duration::ZERO, at(8));
        rtt.update(16 * MS, Duration::ZERO, at(24));
        assert_eq!(rtt.variation(), 5 * MS); // (3 * 4 + 8) / 4
        assert_eq!(rtt.smoothed(), 9 * MS); // (7 * 8 + 16) / 8
    }

    #[test]
    fn a_delay_is_taken_off_up_to_what_was_agreed_and_not_below_the_least() {
        let mut rtt = RoundTrip::new(RoundTripSettings::default());
        rtt.update(8 * MS, 3 * MS, at(8));
        assert_eq!(rtt.min(), 8 * MS, "the least is taken without the delay");
        rtt.update(24 * MS, 100 * MS, at(32));
        assert_eq!(rtt.smoothed(), (7 * 8 * MS + 19 * MS) / 8, "at most 5 ms are believed");
        let before = rtt.smoothed();
        rtt.update(9 * MS, 5 * MS, at(41));
        assert_eq!(rtt.smoothed(), (7 * before + 9 * MS) / 8, "9 - 5 would be less than the least");
    }

    #[test]
    fn what_cannot_be_a_round_trip_is_rejected() {
        let mut rtt = RoundTrip::new(RoundTripSettings::default());
        assert!(!rtt.update(MAX_SAMPLE + MS, Duration::ZERO, at(90_000)));
        assert_eq!((rtt.is_known(), rtt.rejected(), rtt.smoothed()), (false, 1, 100 * MS));
        assert!(rtt.update(Duration::ZERO, Duration::ZERO, at(1)));
        assert_eq!(rtt.smoothed(), Duration::from_nanos(1));
    }

    #[test]
    fn the_least_is_forgotten_after_ten_seconds() {
        let mut rtt = RoundTrip::new(RoundTripSettings::default());
        rtt.update(2 * MS, Duration::ZERO, at(0));
        for second in 1..=12 {
            rtt.update(6 * MS, Duration::ZERO, at(second * 1000));
        }
        assert_eq!(rtt.min(), 6 * MS);
    }

    #[test]
    fn the_probe_time_out_doubles_and_never_overflows() {
        let mut rtt = RoundTrip::new(RoundTripSettings::default());
        rtt.update(8 * MS, Duration::ZERO, at(8));
        assert_eq!(rtt.probe_timeout(0), 8 * MS + 16 * MS + 5 * MS);
        assert_eq!(rtt.probe_timeout(2), 4 * 29 * MS);
        assert!(rtt.probe_timeout(u32::MAX) > rtt.probe_timeout(20));
    }
}
