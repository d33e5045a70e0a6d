//! The machine's monotonic clock.

use weft_base::{Clock, Time};

/// Nanoseconds since this clock was made. Copies share the start.
#[derive(Clone, Copy, Debug)]
pub struct MonotonicClock {
    /// The machine's clock when this one was made.
    start: u64,
}

impl MonotonicClock {
    /// A clock that starts now.
    #[must_use]
    pub fn new() -> Self {
        Self { start: machine_nanos() }
    }
}

impl Default for MonotonicClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for MonotonicClock {
    fn now(&self) -> Time {
        Time::from_nanos(machine_nanos().wrapping_sub(self.start))
    }
}

/// Nanoseconds of CLOCK_MONOTONIC: one read of the vDSO, no system call. Every turn of the engine reads it, so it
/// avoids the detour through `std::time`.
fn machine_nanos() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: The pointer is valid for one write of this type. This clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    (now.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec as u64)
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
