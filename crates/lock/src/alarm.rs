//! How a thread that is about to sleep is not forgotten.

use core::sync::atomic::{AtomicBool, Ordering, fence};

/// A bell that a thread arms before it sleeps, and that a thread that brings something rings.
///
/// The sleeper [arms](Alarm::arm) it, *then* checks whether something has come, and sleeps if not. A thread that brings
/// something publishes it (in any way that the check finds), *then* [takes](Alarm::take) the alarm, and wakes the
/// sleeper if it was armed. Each writes one thing and then reads the other's; a fence between the two, on either side,
/// makes sure that one of them sees the other, however weak the machine's order is. Without it both may miss: the store
/// may still be in flight when the load is done.
pub struct Alarm<F: AlarmFlag = AtomicBool> {
    is_armed: F,
}

/// The flag of an [`Alarm`]: of the processor, or of a model checker.
pub trait AlarmFlag {
    /// Its value.
    fn load(&self, order: Ordering) -> bool;
    /// Changes it.
    fn store(&self, value: bool, order: Ordering);
    /// Changes it, and says what it was.
    fn swap(&self, value: bool, order: Ordering) -> bool;
    /// What comes before in this thread is before what comes after it, for all threads that pass such a fence.
    fn fence(order: Ordering);
}

impl AlarmFlag for AtomicBool {
    #[inline]
    fn load(&self, order: Ordering) -> bool {
        self.load(order)
    }

    #[inline]
    fn store(&self, value: bool, order: Ordering) {
        self.store(value, order);
    }

    #[inline]
    fn swap(&self, value: bool, order: Ordering) -> bool {
        Self::swap(self, value, order)
    }

    #[inline]
    fn fence(order: Ordering) {
        fence(order);
    }
}

impl<F: AlarmFlag> Alarm<F> {
    /// One with this flag.
    pub const fn new(is_armed: F) -> Self {
        Self { is_armed }
    }

    /// Asks to be woken by what comes next. Look afterwards whether it has come already.
    pub fn arm(&self) {
        self.is_armed.store(true, Ordering::Relaxed);
        F::fence(Ordering::SeqCst);
    }

    /// Whether a thread is to be woken now that something was published. True once for each arming.
    #[inline]
    #[must_use = "who has armed it sleeps until it is woken"]
    pub fn take(&self) -> bool {
        F::fence(Ordering::SeqCst);
        self.is_armed.load(Ordering::Relaxed) && self.is_armed.swap(false, Ordering::AcqRel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_rings_once_for_each_arming() {
        let alarm = Alarm::new(AtomicBool::new(false));
        assert!(!alarm.take());
        alarm.arm();
        assert!(alarm.take() && !alarm.take());
        alarm.arm();
        alarm.arm();
        assert!(alarm.take() && !alarm.take());
    }
}
