//! How late the emulator of a link was.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use weft_lab::Lateness;

/// What is late: a part of the delay.
const PART: u64 = 10;

/// How much later than they should have an emulated link forwarded the frames of a launch, in nanoseconds.
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
    /// Of a link that delays packets by this much.
    pub(crate) fn of(lateness: Lateness, delay: Duration) -> Self {
        let Lateness { p50_ns, p90_ns, p99_ns, p999_ns, max_ns } = lateness;
        let delay_ns = u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX);
        Self { delay_ns, p50_ns, p90_ns, p99_ns, p999_ns, max_ns }
    }

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
        let lateness = Lateness { p99_ns: 100_001, max_ns: 7, ..Lateness::default() };
        let late = Late::of(lateness, Duration::from_millis(1));
        assert!(late.is_late() && late.max_ns == 7);
    }
}
