//! How many challenge acknowledgements are sent (RFC 5961 section 7).

use core::time::Duration;

use weft_base::Time;

const SECOND: Duration = Duration::from_secs(1);

/// At most this many in a second. Each connection counts its own: a count that all share reveals one to another
/// (CVE-2016-5696).
#[derive(Debug)]
pub(crate) struct Challenges {
    limit: u32,
    since: Time,
    sent: u32,
}

impl Challenges {
    pub(crate) const fn new(limit: u32) -> Self {
        Self { limit, since: Time::ZERO, sent: 0 }
    }

    /// Whether one more may be sent.
    pub(crate) fn take(&mut self, now: Time) -> bool {
        if now.since(self.since) >= SECOND {
            (self.since, self.sent) = (now, 0);
        }
        self.sent = self.sent.saturating_add(1);
        self.sent <= self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_so_many() {
        let mut challenges = Challenges::new(2);
        let at = |millis: u64| Time::from_nanos(millis * 1_000_000);
        let taken = [0, 1, 999, 1000, 1001, 1002].map(|millis| challenges.take(at(millis)));
        assert_eq!(taken, [true, true, false, true, true, false]);
    }
}
