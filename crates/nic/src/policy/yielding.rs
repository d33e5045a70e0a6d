//! When to yield after an empty poll: what a caller waits for may come from a thread that waits for this very core.
//!
//! Two ranks send to each other and wait, and the kernel likes to wake the receiver on the sender's core. While the
//! sender polls for the answer, the receiver waits behind it, though the other core is idle; when the sender has polled
//! for long enough it sleeps, and the receiver, which wakes it there, makes empty polls in its turn. So each exchange
//! takes as long as one of them polls, and it stays so, because neither ever waits for long. A yield after a few polls
//! ends that: the other has its turn at once, and both are ready to run, so the kernel takes one to an idle core.
//!
//! How soon is learned. A yield that takes no time shows that no thread waits for the core: the next may come later.
//! One that takes as long as others need to run shows that one does.
//!
//! One that takes milliseconds shows threads that compute and use their time slices up. A caller that yields to them
//! after each second poll has some ten polls in a second, and whatever is a chain of short messages takes a thousand
//! times as long as its share of the core would allow. So a caller then polls for a small part of the time that it was
//! away before it yields again: that costs the others this part and no more. And what arrives meanwhile would wait for
//! a time slice: acknowledgements over Edge too, for which iWARP has the kernel. So the caller hands over to the NIC's
//! thread before it yields. That thread runs for a short time when a packet wakes it, and need not wait for the slice
//! to end ([`weft_base::Watch::be_prompt`]).

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use core::time::Duration;

use weft_base::Time;

use super::constants::{
    EMPTY_POLL, YIELD_FIRST, YIELD_LATEST, YIELD_MOST, YIELD_PART, YIELD_SLICE, YIELD_SOONEST, YIELD_TAKEN,
};

/// How often callers of a NIC yield.
///
/// Threads that poll at the same time may spoil each other's counts, which does no harm.
#[derive(Debug)]
pub(crate) struct YieldPolicy {
    /// Empty polls in a row.
    empty: AtomicU32,
    /// After this many of them comes a yield.
    every: AtomicU32,
    /// Before this a caller does not yield to a thread that it has woken, as [`Time`] in nanoseconds.
    stay_until: AtomicU64,
    /// The last yield took a time slice.
    beside_busy: AtomicBool,
    is_adaptive: bool,
}

impl YieldPolicy {
    /// Without `is_adaptive` callers never yield.
    pub(crate) fn new(is_adaptive: bool) -> Self {
        let (every, stay_until) = if is_adaptive { (YIELD_FIRST, 0) } else { (u32::MAX, u64::MAX) };
        Self {
            empty: AtomicU32::new(0),
            every: AtomicU32::new(every),
            stay_until: AtomicU64::new(stay_until),
            beside_busy: AtomicBool::new(false),
            is_adaptive,
        }
    }

    /// A poll that found something.
    #[inline]
    pub(crate) fn found(&self) {
        if self.empty.load(Ordering::Relaxed) != 0 {
            self.empty.store(0, Ordering::Relaxed);
        }
    }

    /// An empty poll. Returns whether to yield now.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        let empty = self.empty.load(Ordering::Relaxed).wrapping_add(1);
        let is_due = empty >= self.every.load(Ordering::Relaxed);
        self.empty.store(if is_due { 0 } else { empty }, Ordering::Relaxed);
        is_due
    }

    /// A thread was woken that does what is to be done next, and the caller need not poll for it. Returns whether to
    /// yield, which gives it the core if it was woken on this one. Beside threads that compute, which would have the
    /// core first, no more than half the time goes by so.
    pub(crate) fn is_due_to_woken(&self, now: Time) -> bool {
        now.as_nanos() >= self.stay_until.load(Ordering::Relaxed)
    }

    /// Whether the engine is handed over before the yield that is due: the last one took a time slice.
    pub(crate) fn hands_over(&self) -> bool {
        self.beside_busy.load(Ordering::Relaxed)
    }

    /// A yield has taken this long, and has just ended.
    pub(crate) fn yielded(&self, took: Duration, now: Time) {
        if !self.is_adaptive {
            return;
        }
        let every = self.every.load(Ordering::Relaxed);
        let is_slice = took >= YIELD_SLICE;
        self.beside_busy.store(is_slice, Ordering::Relaxed);
        let next = if is_slice {
            self.stay_until.store((now + took).as_nanos(), Ordering::Relaxed);
            let polls = (took / YIELD_PART).as_nanos() / EMPTY_POLL.as_nanos();
            u32::try_from(polls).unwrap_or(YIELD_MOST).clamp(YIELD_LATEST, YIELD_MOST)
        } else if took >= YIELD_TAKEN {
            (every / 2).clamp(YIELD_SOONEST, YIELD_LATEST)
        } else {
            (every * 2).clamp(YIELD_SOONEST, YIELD_LATEST)
        };
        self.every.store(next, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_nanos(1_000_000_000);
    const NOTHING: Duration = Duration::from_nanos(YIELD_TAKEN.as_nanos() as u64 - 1);

    /// Empty polls until a yield is due.
    fn polls(policy: &YieldPolicy) -> u32 {
        (1..).find(|_| policy.is_due()).unwrap()
    }

    /// What follows from yields that took this long, one after the other: empty polls before the next one, and whether
    /// the engine is handed over before it.
    #[test]
    fn the_table_of_yields() {
        let slice = |polls| (polls, true);
        let brief = |polls| (polls, false);
        let ms = Duration::from_millis;
        let rows: [(&str, &[Duration], (u32, bool)); 11] = [
            ("none yet", &[], brief(YIELD_FIRST)),
            ("others wait", &[YIELD_TAKEN], brief(4)),
            ("others always wait", &[YIELD_TAKEN; 3], brief(YIELD_SOONEST)),
            ("no thread waits", &[NOTHING], brief(16)),
            ("no thread ever waits", &[NOTHING; 8], brief(YIELD_LATEST)),
            ("one that polls was done before its slice", &[ms(1)], brief(4)),
            ("a thread computes, for its slice", &[YIELD_SLICE], slice(YIELD_LATEST)),
            ("for longer", &[ms(16)], slice(125)),
            ("for longer still", &[ms(40)], slice(312)),
            ("for ever", &[Duration::from_secs(100)], slice(YIELD_MOST)),
            ("it is gone", &[ms(16), YIELD_TAKEN], brief(YIELD_LATEST)),
        ];
        for (name, yields, (expected, hands_over)) in rows {
            let policy = YieldPolicy::new(true);
            yields.iter().for_each(|took| policy.yielded(*took, NOW));
            assert_eq!((polls(&policy), policy.hands_over()), (expected, hands_over), "{name}");
        }
    }

    #[test]
    fn beside_a_thread_that_computes_no_yield_is_made_to_a_woken_thread_for_as_long() {
        let policy = YieldPolicy::new(true);
        policy.yielded(YIELD_SLICE - Duration::from_nanos(1), NOW);
        assert!(policy.is_due_to_woken(NOW));
        policy.yielded(YIELD_SLICE, NOW);
        assert!(!policy.is_due_to_woken(NOW + (YIELD_SLICE - Duration::from_nanos(1))));
        assert!(policy.is_due_to_woken(NOW + YIELD_SLICE));
    }

    #[test]
    fn a_poll_that_finds_something_begins_the_count_again() {
        let policy = YieldPolicy::new(true);
        for _ in 0..10 {
            assert!((1..YIELD_FIRST).all(|_| !policy.is_due()));
            policy.found();
        }
        assert_eq!(polls(&policy), YIELD_FIRST);
    }

    #[test]
    fn switched_off_it_never_yields() {
        let policy = YieldPolicy::new(false);
        for took in [NOTHING, YIELD_TAKEN, YIELD_SLICE] {
            policy.yielded(took, NOW);
            assert!((0..2 * YIELD_MOST).all(|_| !policy.is_due()));
            assert!(!policy.hands_over() && !policy.is_due_to_woken(NOW));
        }
    }
}
