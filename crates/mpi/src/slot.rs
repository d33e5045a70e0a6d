//! A window that Weft serves, for the calls of several threads.

use core::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::report::COUNTS;
use crate::served::Served;

/// A window, until it is freed. Calls of several threads take turns; none waits for other ranks' calls in its turn.
pub(crate) struct Slot(Mutex<Option<Served>>);

impl Slot {
    pub(crate) fn new(served: Served) -> Self {
        Self(Mutex::new(Some(served)))
    }

    /// Takes the window out, to end it.
    pub(crate) fn take(&self) -> Option<Served> {
        let served = self.lock().take()?;
        COUNTS.in_background.fetch_add(served.team.served_in_background(), Relaxed);
        Some(served)
    }

    /// Does something with the window, in turn with other threads. `None`: it was freed.
    pub(crate) fn with<R>(&self, act: impl FnOnce(&mut Served) -> R) -> Option<R> {
        self.lock().as_mut().map(act)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Served>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
