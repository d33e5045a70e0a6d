//! When a caller that looks in vain gives its core away: what it waits for may come from a thread that waits for that
//! very core.
//!
//! Two ranks that send to each other and wait: the kernel likes to wake the receiver on the sender's core. While the
//! sender looks for the answer, the receiver stands behind it, though the other core is idle; when the sender has
//! looked for long enough it sleeps, and the receiver, which wakes it there, looks in vain in its turn. So each
//! exchange takes as long as somebody looks in vain, and it stays so, because neither is ever seen waiting for long.
//! Who yields soon ends that: the other has its turn at once, and both are ready to run, so the kernel takes one to an
//! idle core.
//!
//! How soon is learned. A yield that takes no time shows that nobody waits for the core: the next may come later.
//! One that takes as long as others need to run shows that somebody does.
//!
//! One that takes milliseconds shows processes that compute and use their time slices up. Who yields to them after each
//! second look has some ten looks in a second, and whatever is a chain of short messages takes a thousand times as long
//! as its share of the core would allow. So a caller then looks for a small part of the time that it was away before it
//! yields again: that costs the others this part and no more.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use core::time::Duration;

use weft_base::Time;

/// Looks in vain before a yield: at first, where others always wait for the core, and where nobody ever does.
const FIRST: u32 = 8;
const SOONEST: u32 = 2;
const LATEST: u32 = 32;
/// A yield that took so long let somebody else run: two changes of threads take longer, and the call alone does not.
const TAKEN: Duration = Duration::from_micros(2);
/// A yield that took so long let somebody use a time slice up. Callers that look in vain too are done sooner.
const SLICE: Duration = Duration::from_millis(2);
/// What a look in vain takes, more or less.
const LOOK: Duration = Duration::from_nanos(500);
/// After a yield that took a time slice a caller looks for this part of the time...
const PART: u32 = 256;
/// ... but not more often than this.
const MOST: u32 = 1000;

/// How often callers of a NIC that look in vain give their core away.
///
/// Threads that look at the same time may spoil each other's counts, which does no harm.
#[derive(Debug)]
pub(crate) struct GiveWay {
    vain: AtomicU32,
    every: AtomicU32,
    /// Before this a caller does not yield to a thread that it has woken, as [`Time`] in nanoseconds.
    stay_until: AtomicU64,
}

impl Default for GiveWay {
    fn default() -> Self {
        Self { vain: AtomicU32::new(0), every: AtomicU32::new(FIRST), stay_until: AtomicU64::new(0) }
    }
}

impl GiveWay {
    /// A look that was not in vain.
    #[inline]
    pub(crate) fn found(&self) {
        if self.vain.load(Ordering::Relaxed) != 0 {
            self.vain.store(0, Ordering::Relaxed);
        }
    }

    /// A look in vain. Returns whether to yield now.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        let vain = self.vain.load(Ordering::Relaxed) + 1;
        let is_due = vain >= self.every.load(Ordering::Relaxed);
        self.vain.store(if is_due { 0 } else { vain }, Ordering::Relaxed);
        is_due
    }

    /// A thread was woken that does what is to be done next, and the caller need not look for it. Returns whether to
    /// yield, which gives it the core if it was woken on this one. Beside processes that compute, which would have the
    /// core first, no more than half the time goes by so.
    pub(crate) fn is_due_to_woken(&self, now: Time) -> bool {
        now.as_nanos() >= self.stay_until.load(Ordering::Relaxed)
    }

    /// A yield has taken so long, and has just ended.
    pub(crate) fn yielded(&self, took: Duration, now: Time) {
        let every = self.every.load(Ordering::Relaxed);
        let next = if took >= SLICE {
            self.stay_until.store((now + took).as_nanos(), Ordering::Relaxed);
            let looks = (took / PART).as_nanos() / LOOK.as_nanos();
            u32::try_from(looks).unwrap_or(MOST).clamp(LATEST, MOST)
        } else if took >= TAKEN {
            (every / 2).clamp(SOONEST, LATEST)
        } else {
            (every * 2).clamp(SOONEST, LATEST)
        };
        self.every.store(next, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_nanos(1_000_000_000);

    /// Looks in vain until a yield is due.
    fn looks(give_way: &GiveWay) -> u32 {
        (1..).find(|_| give_way.is_due()).unwrap()
    }

    #[test]
    fn it_comes_sooner_where_others_wait_and_later_where_nobody_does() {
        let give_way = GiveWay::default();
        assert_eq!(looks(&give_way), FIRST);
        for expected in [4, 2, 2] {
            give_way.yielded(TAKEN, NOW);
            assert_eq!(looks(&give_way), expected);
        }
        for expected in [4, 8, 16, 32, 32] {
            give_way.yielded(TAKEN - Duration::from_nanos(1), NOW);
            assert_eq!(looks(&give_way), expected);
        }
    }

    #[test]
    fn who_was_away_for_a_time_slice_looks_for_a_part_of_it() {
        let give_way = GiveWay::default();
        give_way.yielded(SLICE - Duration::from_nanos(1), NOW);
        assert_eq!(looks(&give_way), FIRST / 2);
        for (away, expected) in [(16, 125), (40, 312), (200, MOST), (100_000, MOST)] {
            give_way.yielded(Duration::from_millis(away), NOW);
            assert_eq!(looks(&give_way), expected, "{away} ms");
        }
        give_way.yielded(TAKEN, NOW);
        assert_eq!(looks(&give_way), LATEST, "those that compute are gone");
    }

    #[test]
    fn who_was_away_for_a_time_slice_yields_to_nobody_for_as_long() {
        let give_way = GiveWay::default();
        give_way.yielded(SLICE - Duration::from_nanos(1), NOW);
        assert!(give_way.is_due_to_woken(NOW));
        give_way.yielded(SLICE, NOW);
        assert!(!give_way.is_due_to_woken(NOW + (SLICE - Duration::from_nanos(1))));
        assert!(give_way.is_due_to_woken(NOW + SLICE));
    }

    #[test]
    fn who_finds_something_begins_to_count_again() {
        let give_way = GiveWay::default();
        for _ in 0..10 {
            assert!((1..FIRST).all(|_| !give_way.is_due()));
            give_way.found();
        }
        assert_eq!(looks(&give_way), FIRST);
    }
}
