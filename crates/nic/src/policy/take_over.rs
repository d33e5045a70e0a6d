//! How long callers may be away before the NIC's thread takes over, and when its watchdog checks on them.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use core::time::Duration;

use super::constants::{AWAY_OVERSUBSCRIBED, BUSY_INTERVALS, BUSY_PART, NO_PAUSE, SHORTEST_AWAY};

/// What the NIC's thread has learned of the callers of one engine. Times are in nanoseconds.
#[derive(Debug)]
pub(crate) struct TakeOver {
    /// How long callers may be away.
    away_ns: AtomicU32,
    longest_away_ns: u32,
    /// Time to the watchdog's next check while callers come without a pause, and the longest that may become at first.
    interval_ns: AtomicU32,
    longest_interval_ns: AtomicU32,
    /// For how long callers have come without a pause, by the watchdog's checks.
    busy_ns: AtomicU32,
    is_oversubscribed: AtomicBool,
    is_adaptive: bool,
}

/// A time in nanoseconds, at most some 4 seconds.
fn nanos(duration: Duration) -> u32 {
    u32::try_from(duration.as_nanos()).unwrap_or(u32::MAX)
}

impl TakeOver {
    /// `away`: how long callers may be away at most; zero when they never run the engine. Without `is_adaptive` it is
    /// always that.
    pub(crate) fn new(away: Duration, is_adaptive: bool) -> Self {
        let away_ns = nanos(away);
        Self {
            away_ns: AtomicU32::new(away_ns),
            longest_away_ns: away_ns,
            interval_ns: AtomicU32::new(away_ns),
            longest_interval_ns: AtomicU32::new(away_ns),
            busy_ns: AtomicU32::new(0),
            is_oversubscribed: AtomicBool::new(false),
            is_adaptive,
        }
    }

    /// Whether it learns.
    pub(crate) fn is_adaptive(&self) -> bool {
        self.is_adaptive
    }

    /// The longest time between two checks while callers have come without a pause for a short time; never less than
    /// they may be away.
    pub(crate) fn set_longest_interval(&self, longest: Duration) {
        if self.is_adaptive {
            self.longest_interval_ns.store(nanos(longest).max(self.longest_away_ns), Ordering::Relaxed);
        }
    }

    /// Whether the processors are oversubscribed, as the thread has read last.
    pub(crate) fn set_oversubscribed(&self, is_oversubscribed: bool) {
        self.is_oversubscribed.store(is_oversubscribed, Ordering::Relaxed);
    }

    /// The same. A caller that yields does not hand over there: the wake-up does harm, and no thread computes.
    pub(crate) fn is_oversubscribed(&self) -> bool {
        self.is_oversubscribed.load(Ordering::Relaxed)
    }

    /// Whether callers run the engine at all.
    pub(crate) fn callers_run(&self) -> bool {
        self.longest_away_ns > 0
    }

    /// How long callers may be away now.
    pub(crate) fn away(&self) -> Duration {
        Duration::from_nanos(self.away_ns.load(Ordering::Relaxed).into())
    }

    /// When to check again, while callers are `present` and the last visit was `quiet` ago. `None` when they have been
    /// away for too long.
    pub(crate) fn next_check(&self, present: bool, quiet: Duration) -> Option<Duration> {
        let away = self.away();
        if present && quiet < AWAY_OVERSUBSCRIBED && self.is_oversubscribed() {
            return Some(AWAY_OVERSUBSCRIBED - quiet);
        }
        if !present || quiet >= away {
            self.interval_ns.store(nanos(away), Ordering::Relaxed);
            self.busy_ns.store(0, Ordering::Relaxed);
            return None;
        }
        if quiet > NO_PAUSE {
            // A pause, or the check was late.
            return Some(away - quiet);
        }
        let (last, longest) =
            (self.interval_ns.load(Ordering::Relaxed), self.longest_interval_ns.load(Ordering::Relaxed));
        let busy = self.busy_ns.load(Ordering::Relaxed).saturating_add(last);
        self.busy_ns.store(busy, Ordering::Relaxed);
        let longest = (busy / BUSY_PART).clamp(longest, longest.saturating_mul(BUSY_INTERVALS));
        let next = last.saturating_mul(2).min(longest);
        self.interval_ns.store(next, Ordering::Relaxed);
        Some(Duration::from_nanos(next.into()))
    }

    /// The thread that found work takes over sooner the next time, the one that found none later.
    pub(crate) fn adapt(&self, worked: bool) {
        if !self.is_adaptive {
            return;
        }
        let now = self.away_ns.load(Ordering::Relaxed);
        let shortest = nanos(SHORTEST_AWAY).min(self.longest_away_ns);
        let next = if worked { now - now / 4 } else { now.saturating_mul(2) };
        self.away_ns.store(next.clamp(shortest, self.longest_away_ns), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn us(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    fn take_over() -> TakeOver {
        TakeOver::new(us(200), true)
    }

    /// Callers present, how long ago their last visit was, oversubscribed: when to check again.
    #[test]
    fn the_table_of_checks() {
        let rows = [
            ("no caller has come", false, us(1), false, None),
            ("one polls", true, us(1), false, Some(us(200))),
            ("one makes pauses", true, us(150), false, Some(us(50))),
            ("one is away", true, us(200), false, None),
            ("oversubscribed, and no caller has come", false, us(1), true, None),
            ("oversubscribed, and one polls", true, us(0), true, Some(AWAY_OVERSUBSCRIBED)),
            ("it may only wait for its turn", true, us(3000), true, Some(AWAY_OVERSUBSCRIBED - us(3000))),
            ("even so it is away", true, AWAY_OVERSUBSCRIBED, true, None),
        ];
        for (name, present, quiet, is_oversubscribed, expected) in rows {
            let take_over = take_over();
            take_over.set_oversubscribed(is_oversubscribed);
            assert_eq!(take_over.next_check(present, quiet), expected, "{name}");
        }
    }

    #[test]
    fn checks_become_rarer_while_callers_come_without_a_pause() {
        let take_over = take_over();
        let next_check = |quiet| take_over.next_check(true, us(quiet));
        assert_eq!(next_check(1), Some(us(200)), "polls cost nothing worth mentioning");
        take_over.set_longest_interval(us(900));
        assert_eq!([1, 5, 60].map(next_check), [Some(us(400)), Some(us(800)), Some(us(900))]);
        assert_eq!(next_check(150), Some(us(50)), "a pause, but not too long");
        assert_eq!(next_check(1), Some(us(900)));
        assert_eq!(next_check(200), None);
        assert_eq!(next_check(1), Some(us(400)), "a long pause: everything begins anew");
    }

    #[test]
    fn checks_become_rarer_still_when_callers_have_come_for_long() {
        let take_over = take_over();
        take_over.set_longest_interval(us(1000));
        let mut passed = Duration::ZERO;
        let mut before = Duration::ZERO;
        for _ in 0..200 {
            let next = take_over.next_check(true, us(1)).expect("callers are here");
            assert!(next >= before && next <= us(1000).max(passed / 16 + us(200)), "{next:?} after {passed:?}");
            (passed, before) = (passed + next, next);
        }
        assert_eq!(before, us(8000));
        assert_eq!(take_over.next_check(true, us(200)), None);
        assert_eq!(take_over.next_check(true, us(1)), Some(us(400)));
    }

    #[test]
    fn work_found_brings_the_thread_sooner_and_work_not_found_later() {
        let take_over = take_over();
        for _ in 0..10 {
            take_over.adapt(true);
        }
        assert_eq!(take_over.away(), SHORTEST_AWAY);
        for _ in 0..10 {
            take_over.adapt(false);
        }
        assert_eq!(take_over.away(), us(200));
        let always = TakeOver::new(Duration::ZERO, true);
        always.adapt(false);
        assert_eq!(always.away(), Duration::ZERO);
        assert!(!always.callers_run());
    }

    #[test]
    fn switched_off_it_looks_when_callers_may_be_away_for_too_long_and_no_later() {
        let take_over = TakeOver::new(us(200), false);
        take_over.set_longest_interval(us(1000));
        for worked in [true, true, false] {
            take_over.adapt(worked);
            assert_eq!(take_over.away(), us(200));
            assert_eq!(take_over.next_check(true, us(1)), Some(us(200)));
        }
    }
}
