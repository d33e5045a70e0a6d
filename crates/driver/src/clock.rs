//! The machine's monotonic clock.

use std::time::Instant;

use weft_base::{Clock, Time};

/// Nanoseconds since this clock was made. Copies share the start.
#[derive(Clone, Copy, Debug)]
pub struct MonotonicClock {
    start: Instant,
}

impl MonotonicClock {
    /// A clock that starts now.
    #[must_use]
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }
}

impl Default for MonotonicClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for MonotonicClock {
    fn now(&self) -> Time {
        // One read of the shared clock page, no system call.
        let elapsed = self.start.elapsed();
        Time::from_nanos(elapsed.as_secs().wrapping_mul(1_000_000_000).wrapping_add(u64::from(elapsed.subsec_nanos())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_never_goes_back_and_copies_agree() {
        let clock = MonotonicClock::new();
        let copy = clock;
        let mut last = Time::ZERO;
        for _ in 0..1000 {
            let (first, second) = (clock.now(), copy.now());
            assert!(last <= first && first <= second);
            last = second;
        }
        assert!(last > Time::ZERO);
    }
}
