//! How late the emulator of a link was.

use serde::{Deserialize, Serialize};

/// What is late: a part of the delay.
const PART: u64 = 10;

/// How much later than they should have the frames of a launch went on by an emulated link, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Late {
    /// The delay that was set, one way; 0: none was.
    pub delay_ns: u64,
    /// Half of them at most.
    pub p50_ns: u64,
    /// 90 of 100 at most.
    pub p90_ns: u64,
    /// 99 of 100 at most.
    pub p99_ns: u64,
    /// 999 of 1000 at most.
    pub p999_ns: u64,
    /// The latest.
    pub max_ns: u64,
}

impl Late {
    /// Whether 99 of 100 frames were later than a tenth of the delay: figures taken through the link say less.
    #[must_use]
    pub const fn is_late(&self) -> bool {
        self.delay_ns > 0 && self.p99_ns > self.delay_ns / PART
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_a_tenth_of_the_delay_is_late() {
        let late = |delay_ns, p99_ns| Late { delay_ns, p99_ns, ..Late::default() }.is_late();
        assert!(!late(1_000_000, 100_000) && late(1_000_000, 100_001));
        assert!(!late(0, 100_001), "without a delay nothing is late");
    }
}
