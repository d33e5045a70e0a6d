//! Where threads sleep that wait for something another thread will do: a completion, a connection, a free engine.
//!
//! They sleep for long, so it is likely that some do when the process forks. The standard library's locks keep nothing
//! outside of themselves that would name those threads in the child, where they don't exist; `parking_lot`'s common
//! table of sleepers does, and a NIC that the child opens would fall over it.

use core::sync::atomic::Ordering;
use core::time::Duration;
use std::sync::PoisonError;

use super::sync::{AtomicUsize, Condvar, Entered, PlainGuard, PlainMutex, Rank, fence, fence_behind_lock};

/// Wakes all threads that wait each time it is turned, and costs a fence and a load when none does.
///
/// A thread that waits counts itself, and then checks whether what it waits for is there; one that changes something
/// publishes it in any way, and then checks whether any thread waits. A fence between the two, on either side, makes
/// sure that one of them sees the other (see [`weft_lock::Alarm`]).
#[derive(Debug, Default)]
pub(crate) struct EventCount {
    waiting: AtomicUsize,
    turns: PlainMutex<u64>,
    turned: Condvar,
}

impl EventCount {
    /// Something has changed.
    #[inline]
    pub(crate) fn turn(&self) {
        fence(Ordering::SeqCst);
        self.turn_after_fence();
    }

    /// The same for a thread that has just let go of a lock, of those that [`fence_behind_lock`] speaks of.
    #[inline]
    pub(crate) fn turn_behind_lock(&self) {
        fence_behind_lock();
        self.turn_after_fence();
    }

    /// The same for a thread that has had a fence between the change and this.
    #[inline]
    pub(crate) fn turn_after_fence(&self) {
        if self.waiting.load(Ordering::Relaxed) > 0 {
            self.wake_all();
        }
    }

    fn wake_all(&self) {
        *self.turns().1 += 1;
        self.turned.notify_all();
    }

    /// Sleeps until a turn, or for `timeout`, unless `ready` says that there is nothing to wait for. `ready` is called
    /// after this thread is counted as waiting, so a change between that call and the sleep is not missed.
    pub(crate) fn wait(&self, timeout: Duration, ready: impl FnOnce() -> bool) {
        let (entered, turns) = self.turns();
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let before = *turns;
        drop(turns);
        drop(entered);
        fence(Ordering::SeqCst);
        if !ready() {
            let (_entered, turns) = self.turns();
            if *turns == before {
                drop(self.turned.wait_timeout(turns, timeout));
            }
        }
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    /// Nothing can panic while it is locked, so it is always good.
    fn turns(&self) -> (Entered, PlainGuard<'_, u64>) {
        (Rank::EventCount.enter(), self.turns.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
