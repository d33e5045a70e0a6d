//! When the next packet may leave, so that a window is spread over its round trip (RFC 9002 section 7.7).

use core::time::Duration;

use weft_base::Time;

use crate::round_trip::share;

/// What one packet can put the next one off by, at most: a round trip that was measured wrongly stops nobody for long.
pub const MAX_WAIT: Duration = Duration::from_secs(1);

/// Lets packets go at an even rate, some of them together. It is the time at which all that has left would have left,
/// had it gone evenly; so it costs nothing while nothing is sent.
///
/// Once it has stopped somebody it goes on stopping until half a burst is saved up: a timer, a system call and a
/// wake-up of the peer for each packet would cost more than the packet. The rate stays what it is, and so does the
/// longest burst (RFC 9002 section 7.7; the kernel's fq has a quantum for the same reason).
#[derive(Clone, Copy, Debug, Default)]
pub struct Pacer {
    due: Time,
    /// It has stopped somebody, and no half burst has been saved up since.
    rests: bool,
}

impl Pacer {
    /// The time from which on something may leave, if what `burst` makes up for may leave together.
    #[must_use]
    pub fn free_at(&self, burst: Duration) -> Time {
        let burst = u64::try_from(burst.as_nanos()).unwrap_or(u64::MAX);
        let saved = if self.rests { burst / 2 } else { burst };
        Time::from_nanos(self.due.as_nanos().saturating_sub(saved))
    }

    /// Somebody wants to send now: until when that is to wait, if at all.
    pub fn stops_until(&mut self, burst: Duration, now: Time) -> Option<Time> {
        self.rests = self.free_at(burst) > now;
        self.rests.then(|| self.free_at(burst))
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
    fn who_was_stopped_goes_on_with_half_a_burst() {
        let (mut pacer, burst) = (Pacer::default(), Duration::from_millis(2));
        let mut left = vec![];
        // A packet takes 0.1 ms, and somebody wants to send all the time.
        for micros in (0..10_000).step_by(10) {
            let now = Time::from_nanos(1_000_000_000 + micros * 1000);
            while pacer.stops_until(burst, now).is_none() {
                pacer.on_sent(1000, 8000, Duration::from_millis(1), now);
                left.push(micros);
            }
        }
        assert_eq!(left.iter().filter(|at| **at == 0).count(), 21, "a burst, and what would have left just now");
        left.dedup();
        // The one that goes beyond the burst is waited for as well.
        assert_eq!(left[..4], [0, 1100, 2200, 3300]);
        assert_eq!(pacer.free_at(burst) + burst / 2, pacer.due);
    }

    #[test]
    fn who_asks_late_has_a_whole_burst() {
        let (mut pacer, burst) = (Pacer::default(), Duration::from_millis(2));
        while pacer.stops_until(burst, at(100)).is_none() {
            pacer.on_sent(1000, 8000, Duration::from_millis(1), at(100));
        }
        let until = pacer.stops_until(burst, at(100));
        assert_eq!(pacer.stops_until(burst, at(101)), until, "a little later nothing is different");
        let count = |pacer: &mut Pacer, now| {
            let mut count = 0;
            while pacer.stops_until(burst, now).is_none() {
                pacer.on_sent(1000, 8000, Duration::from_millis(1), now);
                count += 1;
            }
            count
        };
        assert_eq!(count(&mut pacer, at(104)), 21);
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
