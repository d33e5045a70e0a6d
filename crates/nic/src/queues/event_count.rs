//! Where threads sleep that wait for something another thread will do: a completion, a connection, a free engine.
//!
//! They sleep for long, so it is likely that some do when the process forks. The standard library's locks keep nothing outside of themselves
//! that would name those threads in the child, where they don't exist; `parking_lot`'s common table of sleepers does, and a NIC
//! that the child opens would fall over it.

use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use weft_lock::{Entered, Rank};

/// Wakes everybody who waits each time it is turned, and costs one load when nobody does.
#[derive(Debug, Default)]
pub(crate) struct EventCount {
    waiting: AtomicUsize,
    turns: Mutex<u64>,
    turned: Condvar,
}

impl EventCount {
    /// Something has changed.
    pub(crate) fn turn(&self) {
        if self.waiting.load(Ordering::SeqCst) == 0 {
            return;
        }
        *self.turns().1 += 1;
        self.turned.notify_all();
    }

    /// Sleeps until a turn, or for `timeout`, unless `ready` says that there is nothing to wait for. `ready` is asked after this thread
    /// is counted as waiting, so a change between the question and the sleep is not missed.
    pub(crate) fn wait(&self, timeout: Duration, ready: impl FnOnce() -> bool) {
        let (entered, turns) = self.turns();
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let before = *turns;
        drop(turns);
        drop(entered);
        if !ready() {
            let (_entered, turns) = self.turns();
            if *turns == before {
                drop(self.turned.wait_timeout(turns, timeout));
            }
        }
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }

    /// Nothing can panic while it is locked, so it is always good.
    fn turns(&self) -> (Entered, MutexGuard<'_, u64>) {
        (Rank::EventCount.enter(), self.turns.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
