//! Where threads sleep that wait for something another thread will do: a completion, a connection, a free engine.

use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;

use parking_lot::{Condvar, Mutex};

/// Wakes everybody who waits each time it is turned, and costs one load when nobody does.
#[derive(Debug, Default)]
pub(crate) struct Turnstile {
    waiting: AtomicUsize,
    turns: Mutex<u64>,
    turned: Condvar,
}

impl Turnstile {
    /// Something has changed.
    pub(crate) fn turn(&self) {
        if self.waiting.load(Ordering::SeqCst) == 0 {
            return;
        }
        *self.turns.lock() += 1;
        self.turned.notify_all();
    }

    /// Sleeps until a turn, or for `timeout`, unless `ready` says that there is nothing to wait for. `ready` is asked after this thread
    /// is counted as waiting, so a change between the question and the sleep is not missed.
    pub(crate) fn wait(&self, timeout: Duration, ready: impl FnOnce() -> bool) {
        let mut turns = self.turns.lock();
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let before = *turns;
        drop(turns);
        if !ready() {
            turns = self.turns.lock();
            if *turns == before {
                self.turned.wait_for(&mut turns, timeout);
            }
            drop(turns);
        }
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}
