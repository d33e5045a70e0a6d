//! Counts of completed operations.

use core::sync::atomic::{AtomicU64, Ordering};

/// Numbers of succeeded and failed operations.
#[derive(Default)]
pub(crate) struct Count {
    successes: AtomicU64,
    failures: AtomicU64,
}

/// Both numbers at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) successes: u64,
    pub(crate) failures: u64,
}

/// The result of [`Count::reached`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reached {
    Threshold,
    /// Not yet, and an operation has failed since the wait began.
    Failure,
    NotYet,
}

impl Count {
    /// An operation has completed.
    #[inline]
    pub(crate) fn complete(&self, succeeded: bool) {
        if succeeded { self.add(1) } else { self.add_failures(1) }
    }

    pub(crate) fn get(&self) -> Counted {
        Counted { successes: self.successes.load(Ordering::Acquire), failures: self.failures.load(Ordering::Acquire) }
    }

    /// Wraps, as counters do.
    pub(crate) fn add(&self, value: u64) {
        self.successes.fetch_add(value, Ordering::AcqRel);
    }

    pub(crate) fn add_failures(&self, value: u64) {
        self.failures.fetch_add(value, Ordering::AcqRel);
    }

    pub(crate) fn set(&self, value: u64) {
        self.successes.store(value, Ordering::Release);
    }

    pub(crate) fn set_failures(&self, value: u64) {
        self.failures.store(value, Ordering::Release);
    }

    /// Whether a wait for `threshold` that began at `begin` is over.
    pub(crate) fn reached(&self, threshold: u64, begin: Counted) -> Reached {
        let now = self.get();
        if now.successes >= threshold {
            Reached::Threshold
        } else if now.failures != begin.failures {
            Reached::Failure
        } else {
            Reached::NotYet
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_both_apart() {
        let count = Count::default();
        count.complete(true);
        count.complete(false);
        count.add(4);
        count.add_failures(2);
        assert_eq!(count.get(), Counted { successes: 5, failures: 3 });
        count.set(1);
        count.set_failures(0);
        assert_eq!(count.get(), Counted { successes: 1, failures: 0 });
        count.add(u64::MAX);
        assert_eq!(count.get().successes, 0);
    }

    #[test]
    fn a_wait_ends_at_the_threshold_or_a_failure() {
        let count = Count::default();
        count.add_failures(1);
        let begin = count.get();
        assert_eq!(count.reached(2, begin), Reached::NotYet);
        assert_eq!(count.reached(0, begin), Reached::Threshold);
        count.complete(false);
        assert_eq!(count.reached(2, begin), Reached::Failure);
        count.add(2);
        assert_eq!(count.reached(2, begin), Reached::Threshold);
    }
}
