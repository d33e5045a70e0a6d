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

use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;

/// Looks in vain before a yield: at first, where others always wait for the core, and where nobody ever does.
const FIRST: u32 = 8;
const SOONEST: u32 = 2;
const LATEST: u32 = 32;
/// A yield that took so long let somebody else run: two changes of threads take longer, and the call alone does not.
const TAKEN: Duration = Duration::from_micros(2);

/// How often callers of a NIC that look in vain give their core away.
///
/// Threads that look at the same time may spoil each other's counts, which does no harm.
#[derive(Debug)]
pub(crate) struct GiveWay {
    vain: AtomicU32,
    every: AtomicU32,
}

impl Default for GiveWay {
    fn default() -> Self {
        Self { vain: AtomicU32::new(0), every: AtomicU32::new(FIRST) }
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

    /// A yield has taken so long.
    pub(crate) fn yielded(&self, took: Duration) {
        let every = self.every.load(Ordering::Relaxed);
        let next = if took >= TAKEN { every / 2 } else { every * 2 };
        self.every.store(next.clamp(SOONEST, LATEST), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks in vain until a yield is due.
    fn looks(give_way: &GiveWay) -> u32 {
        (1..).find(|_| give_way.is_due()).unwrap()
    }

    #[test]
    fn it_comes_sooner_where_others_wait_and_later_where_nobody_does() {
        let give_way = GiveWay::default();
        assert_eq!(looks(&give_way), FIRST);
        for expected in [4, 2, 2] {
            give_way.yielded(TAKEN);
            assert_eq!(looks(&give_way), expected);
        }
        for expected in [4, 8, 16, 32, 32] {
            give_way.yielded(TAKEN - Duration::from_nanos(1));
            assert_eq!(looks(&give_way), expected);
        }
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
