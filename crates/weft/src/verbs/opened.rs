//! What keeps a NIC open, and which thread runs it while one sleeps.

use core::sync::atomic::{AtomicBool, Ordering};
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use weft_base::PortError;
use weft_driver::{MonotonicClock, WaitSet};
use weft_link::LinkNetwork;
use weft_nic::{Error, Nic, in_callback};

pub(super) type SystemNic = Nic<LinkNetwork, MonotonicClock>;

/// Keeps the NIC open as long as anything made from it is there.
pub(crate) struct Opened {
    pub(crate) nic: SystemNic,
    /// Readable when a watched connection has something to do.
    pub(crate) network: OwnedFd,
    no_events: OnceLock<Arc<WaitSet>>,
}

/// Whether a queue was armed, so that the NIC's own thread runs the NIC, and was not polled since.
#[derive(Debug, Default)]
pub(crate) struct HandedOver(AtomicBool);

impl HandedOver {
    /// Whether it was, which it is no longer. A poll that finds nothing right after arming leaves the NIC to its
    /// thread: running it would take it back from there, and then no thread runs it until that one finds the caller
    /// away.
    #[inline]
    pub(crate) fn take(&self) -> bool {
        self.0.load(Ordering::Relaxed) && self.0.swap(false, Ordering::Relaxed)
    }
}

impl Opened {
    pub(super) fn new(nic: SystemNic, network: OwnedFd) -> Self {
        Self { nic, network, no_events: OnceLock::new() }
    }

    /// A descriptor that never becomes readable, the same at each call.
    ///
    /// # Errors
    /// No more descriptors.
    pub(super) fn no_events(&self) -> Result<Arc<WaitSet>, PortError> {
        if let Some(made) = self.no_events.get() {
            return Ok(Arc::clone(made));
        }
        let new = Arc::new(WaitSet::new()?);
        Ok(Arc::clone(self.no_events.get_or_init(|| new)))
    }

    /// The calling thread is about to sleep on a queue's descriptor.
    pub(crate) fn hand_over(&self, handed_over: &HandedOver) {
        let progress = self.nic.settings().progress;
        if !progress.caller_runs() {
            return;
        }
        self.nic.watch();
        // Where there is no thread that takes over, polling has to run the NIC.
        handed_over.0.store(progress.is_automatic(), Ordering::Relaxed);
    }

    /// A poll has found nothing. Whether it is the first since the NIC was handed over, and leaves it there: the
    /// calling thread sleeps next. Hands it over again if a request that was posted meanwhile has taken it back, for
    /// nothing would run it until the caller counts as away.
    pub(crate) fn stays_handed_over(&self, handed_over: &HandedOver) -> bool {
        let is_first = handed_over.take();
        if is_first {
            self.nic.watch_again();
        }
        is_first
    }

    /// Waits until something can be taken, at most for `timeout` (`None`: for ever). Does not wait in a callback.
    pub(crate) fn wait_for<T>(&self, timeout: Option<Duration>, take: impl Fn() -> Option<T>) -> Option<T> {
        let mut taken = take();
        if taken.is_none() {
            self.nic.wait_until(timeout, || {
                taken = take();
                taken.is_some()
            });
        }
        taken
    }

    /// Whether this process may use it.
    pub(crate) fn here(&self) -> Result<(), Error> {
        if self.nic.is_owner_process() { Ok(()) } else { Err(Error::Forked) }
    }

    /// Whether this thread may wait for it.
    pub(crate) fn may_wait(&self) -> Result<(), Error> {
        self.here()?;
        if in_callback() { Err(Error::InCallback) } else { Ok(()) }
    }

    /// Ends something of the NIC that is being dropped: in a callback on another thread, as this one can't use the NIC.
    pub(crate) fn end(self: &Arc<Self>, end: impl FnOnce(&SystemNic) + Send + 'static) {
        if !in_callback() || !self.nic.is_owner_process() {
            return end(&self.nic);
        }
        let opened = Arc::clone(self);
        later(move || end(&opened.nic));
    }
}

/// Does something on a thread of its own. Where there is no thread to be had it is not done: the process ends it.
fn later(act: impl FnOnce() + Send + 'static) {
    let _ = std::thread::Builder::new().name("weft-end".into()).spawn(act);
}

impl Drop for Opened {
    fn drop(&mut self) {
        if self.nic.is_owner_process() {
            if in_callback() {
                let nic = self.nic.clone();
                later(move || nic.shut_down());
            } else {
                self.nic.shut_down();
            }
        } else {
            // A child by fork: connections and descriptors are its parent's, and so are the threads that may have held
            // locks then. What is never dropped touches nothing.
            core::mem::forget(self.nic.clone());
        }
    }
}
