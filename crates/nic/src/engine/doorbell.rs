//! How other threads notify the event loop of work: the doorbell of a hardware NIC.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;

use slotmap::DefaultKey;
use weft_base::Waker;
use weft_lock::{Mutex, Rank};

/// The doorbell of an engine.
pub(crate) struct Doorbell {
    rung: Mutex<Vec<DefaultKey>>,
    any: AtomicBool,
    /// The engine sleeps, or is about to: a thread that rings must wake it.
    parked: AtomicBool,
    /// Threads that wait for the engine's lock to give it a command.
    commanders: AtomicUsize,
    waker: Arc<dyn Waker>,
}

impl Doorbell {
    pub(crate) fn new(waker: Arc<dyn Waker>) -> Self {
        Self {
            rung: Mutex::new(Rank::Doorbell, Vec::with_capacity(64)),
            any: AtomicBool::new(false),
            parked: AtomicBool::new(false),
            commanders: AtomicUsize::new(0),
            waker,
        }
    }

    /// A queue pair of this connection has new work.
    pub(crate) fn ring(&self, connection: DefaultKey) {
        self.rung.lock().push(connection);
        self.any.store(true, Ordering::SeqCst);
    }

    /// Whether a thread has rung since the last [`Doorbell::answer`].
    pub(crate) fn has_rung(&self) -> bool {
        self.any.load(Ordering::SeqCst)
    }

    /// Moves the keys that have rung to `out`, which must be empty.
    pub(crate) fn answer(&self, out: &mut Vec<DefaultKey>) {
        debug_assert!(out.is_empty());
        let mut rung = self.rung.lock();
        self.any.store(false, Ordering::SeqCst);
        core::mem::swap(&mut *rung, out);
    }

    /// Wakes the engine if it sleeps. Returns whether it did.
    pub(crate) fn wake(&self) -> bool {
        let sleeps = self.parked.load(Ordering::SeqCst);
        if sleeps {
            self.waker.wake();
        }
        sleeps
    }

    /// The engine is about to sleep. Returns whether it may: none has rung and no thread wants its lock.
    pub(crate) fn park(&self) -> bool {
        self.parked.store(true, Ordering::SeqCst);
        !self.has_rung() && self.commanders.load(Ordering::SeqCst) == 0
    }

    /// The engine is awake.
    pub(crate) fn unpark(&self) {
        self.parked.store(false, Ordering::SeqCst);
    }

    /// Counts the calling thread as one that wants the engine's lock, and wakes the engine for it.
    pub(crate) fn command(&self) -> Commander<'_> {
        self.commanders.fetch_add(1, Ordering::SeqCst);
        self.wake();
        Commander(self)
    }

    /// Whether a thread wants the engine's lock.
    pub(crate) fn is_wanted(&self) -> bool {
        self.commanders.load(Ordering::SeqCst) > 0
    }
}

/// A thread that wants the engine's lock, or has it.
pub(crate) struct Commander<'a>(&'a Doorbell);

impl Drop for Commander<'_> {
    fn drop(&mut self) {
        self.0.commanders.fetch_sub(1, Ordering::SeqCst);
    }
}
