//! A window that Weft serves, for the calls of several threads and for the thread that serves it in the background.

use core::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weft::endpoint::EventQueue;

use crate::bell::{BELL, Calls};
use crate::report::COUNTS;
use crate::served::Served;

/// Completions that are taken in the background before calls of the program get their turn.
const MOST: usize = 256;

/// A window that may be used by one thread after another.
struct Movable(Served);

// SAFETY: What is shared in it (the team, by its windows) is shared within it alone: nothing of it is ever given out,
// so that the lock around it keeps all of it to one thread at a time. It has nothing that belongs to a thread.
unsafe impl Send for Movable {}

/// A window, until it is freed. Calls of several threads take turns; none waits for other ranks' calls in its turn.
pub(crate) struct Slot {
    window: Mutex<Option<Movable>>,
    /// Where its completions come.
    events: EventQueue,
    calls: Arc<Calls>,
}

impl Slot {
    pub(crate) fn new(served: Served) -> Self {
        let (events, calls) = (served.team.events().clone(), Arc::<Calls>::default());
        events.on_completion(Arc::clone(&calls) as _);
        Self { window: Mutex::new(Some(Movable(served))), events, calls }
    }

    /// A call of the program, as long as this is there.
    pub(crate) fn call(&self) -> Call<'_> {
        self.calls.enter();
        Call(self)
    }

    /// Takes the window out, to end it.
    pub(crate) fn take(&self) -> Option<Served> {
        self.lock().take().map(|window| window.0)
    }

    /// Whether there are completions that no thread has taken. Not where a thread has failed in a call: the next call
    /// tells the program.
    pub(crate) fn has_unread(&self) -> bool {
        !self.window.is_poisoned() && !self.events.is_empty()
    }

    /// How many calls have begun so far.
    pub(crate) fn calls(&self) -> u64 {
        self.calls.begun()
    }

    /// Processes messages that arrived, unless the program has begun a call since there were `calls`. Returns whether
    /// nothing is left to be done.
    pub(crate) fn serve(&self, calls: u64) -> bool {
        while self.has_unread() {
            if self.calls() != calls {
                return false;
            }
            let Ok(mut window) = self.window.try_lock() else { return false };
            let Some(window) = window.as_mut() else { return true };
            COUNTS.in_background.fetch_add(1, Relaxed);
            if !window.0.team.progress_in_background(MOST) {
                return true;
            }
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, Option<Movable>> {
        self.window.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call of the program for a window.
pub(crate) struct Call<'a>(&'a Slot);

impl Call<'_> {
    /// Does something with the window, in turn with other threads. `None`: it was freed.
    pub(crate) fn with<R>(&self, act: impl FnOnce(&mut Served) -> R) -> Option<R> {
        self.0.lock().as_mut().map(|window| act(&mut window.0))
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.0.calls.leave();
        // Messages that arrived during the call rang no bell.
        if BELL.is_armed() && self.0.has_unread() {
            BELL.ring();
        }
    }
}
