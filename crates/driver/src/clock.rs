//! The machine's monotonic clock.

use weft_base::{Clock, Time};

/// Nanoseconds since this clock was made. Copies share the start.
#[derive(Clone, Copy, Debug)]
pub struct MonotonicClock {
    /// What the machine's clock said when this one was made.
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

/// Nanoseconds of CLOCK_MONOTONIC: one read of the shared clock page, no system call. Every visit of the engine asks,
/// so it is asked without the detour over `std::time`.
fn machine_nanos() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: The pointer is good for one write of this type. That this clock is missing can't be.
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
