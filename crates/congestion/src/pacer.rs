//! When the next packet may leave, so that a window is spread over its round trip (RFC 9002 section 7.7).

use core::time::Duration;

use weft_base::Time;

use crate::round_trip::share;

/// What one packet can put the next one off by, at most: a round trip that was measured wrongly stops nobody for long.
pub const MAX_WAIT: Duration = Duration::from_secs(1);

/// Lets packets go at an even rate, some of them together. It is the time at which all that has left would have left,
/// had it gone evenly; so it costs nothing while nothing is sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pacer {
    due: Time,
}

impl Pacer {
    /// The time from which on something may leave, if what `burst` makes up for may leave together.
    #[must_use]
    pub fn free_at(&self, burst: Duration) -> Time {
        let burst = u64::try_from(burst.as_nanos()).unwrap_or(u64::MAX);
        Time::from_nanos(self.due.as_nanos().saturating_sub(burst))
    }

    /// `bytes` leave now, of `window` bytes per `round_trip`. They go at 5/4 of that rate, so that pacing is not what
    /// limits (RFC 9002 section 7.7).
    pub fn on_sent(&mut self, bytes: u64, window: u64, round_trip: Duration, now: Time) {
        let round_trip = u64::try_from(round_trip.as_nanos()).unwrap_or(u64::MAX);
        let takes = share(round_trip / 5 * 4 + round_trip % 5 * 4 / 5, bytes, window.max(1));
        self.due = self.due.max(now) + Duration::from_nanos(takes).min(MAX_WAIT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn a_burst_then_an_even_rate() {
        let mut pacer = Pacer::default();
        let burst = Duration::from_millis(1);
        assert_eq!(pacer.free_at(burst), Time::ZERO);
        (0..10).for_each(|_| pacer.on_sent(1000, 10_000, Duration::from_millis(10), at(100)));
        assert_eq!(pacer.free_at(burst), at(107));
        pacer.on_sent(1000, 10_000, Duration::from_millis(10), at(900));
        assert_eq!(pacer.free_at(Duration::ZERO), Time::from_nanos(900_800_000), "quiet saves nothing up");
    }

    #[test]
    fn nothing_overflows_and_nobody_waits_for_ever() {
        let mut pacer = Pacer::default();
        pacer.on_sent(u64::MAX, 0, Duration::MAX, at(1));
        assert_eq!(pacer.free_at(Duration::ZERO), at(1001));
        assert_eq!(pacer.free_at(Duration::MAX), Time::ZERO);
        pacer.on_sent(1, 1, Duration::ZERO, Time::from_nanos(u64::MAX));
    }
}
