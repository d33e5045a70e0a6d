//! How late packets were that an emulator has put out.

use std::fmt;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// The longest lateness that is distinguished from longer ones.
const LONGEST: Duration = Duration::from_secs(60);
/// Digits of a lateness that are kept.
const DIGITS: u8 = 3;

/// How late packets were, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lateness {
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

/// How late each of them was, in bounded memory.
#[derive(Debug)]
pub struct LatenessLog(Histogram<u64>);

impl LatenessLog {
    /// Of no packet yet.
    #[must_use]
    pub fn new() -> Self {
        let longest = LONGEST.as_nanos() as u64;
        Self(Histogram::new_with_bounds(1, longest, DIGITS).expect("the bounds and the digits are in their limits"))
    }

    /// One more, which was forwarded this much later than it should have been.
    pub fn record(&mut self, late: Duration) {
        self.0.saturating_record(u64::try_from(late.as_nanos()).unwrap_or(u64::MAX));
    }

    /// What is known by now. Of no packet: 0.
    #[must_use]
    pub fn lateness(&self) -> Lateness {
        let at = |share| self.0.value_at_quantile(share);
        Lateness { p50_ns: at(0.5), p90_ns: at(0.9), p99_ns: at(0.99), p999_ns: at(0.999), max_ns: self.0.max() }
    }

    /// The same, and begins anew. `None`: there was no packet.
    pub fn take(&mut self) -> Option<Lateness> {
        let lateness = (!self.0.is_empty()).then(|| self.lateness());
        self.0.reset();
        lateness
    }
}

impl Default for LatenessLog {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Display for Lateness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = |nanos: u64| nanos as f64 / 1000.0;
        write!(
            f,
            "p50 {:.1} us, p90 {:.1} us, p99 {:.1} us, p99.9 {:.1} us, max {:.1} us",
            us(self.p50_ns),
            us(self.p90_ns),
            us(self.p99_ns),
            us(self.p999_ns),
            us(self.max_ns)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lateness_has_its_quantiles_and_begins_anew() {
        let mut log = LatenessLog::new();
        (1..=1000).for_each(|us| log.record(Duration::from_micros(us)));
        log.record(Duration::from_secs(100));
        let lateness = log.lateness();
        assert!((500_000..502_000).contains(&lateness.p50_ns), "{lateness}");
        assert!((990_000..993_000).contains(&lateness.p99_ns), "{lateness}");
        assert!(lateness.max_ns >= 59_000_000_000, "{lateness}");
        assert_eq!((log.take(), log.take()), (Some(lateness), None));
        log.record(Duration::from_micros(7));
        assert!(log.take().is_some_and(|lateness| lateness.max_ns < 8000));
    }
}
