//! What wakes the thread that serves windows while the program computes (`background`).

use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::OnceLock;
use std::thread::Thread;

use weft::verbs::Waker;

/// Where the thread sleeps.
pub(crate) static BELL: Bell = Bell { is_armed: AtomicBool::new(false), sleeper: OnceLock::new() };

/// Wakes one thread, at most once for each time that it sleeps.
///
/// All of its flags are sequentially consistent, and so is the count of [`Calls`]: the thread arms and then asks
/// whether there are completions, while others bring one, or leave one unread, and then ring.
pub(crate) struct Bell {
    is_armed: AtomicBool,
    sleeper: OnceLock<Thread>,
}

impl Bell {
    /// Sleeps until it rings; not at all if something is to be done after arming. One thread calls this.
    pub(crate) fn sleep_unless(&self, something_is_to_be_done: impl FnOnce() -> bool) {
        self.sleeper.get_or_init(std::thread::current);
        self.is_armed.store(true, SeqCst);
        if something_is_to_be_done() {
            self.is_armed.store(false, SeqCst);
        }
        while self.is_armed.load(SeqCst) {
            std::thread::park();
        }
    }

    /// Whether the thread sleeps.
    pub(crate) fn is_armed(&self) -> bool {
        self.is_armed.load(SeqCst)
    }

    /// Wakes the thread if it sleeps.
    pub(crate) fn ring(&self) {
        if self.is_armed()
            && self.is_armed.swap(false, SeqCst)
            && let Some(sleeper) = self.sleeper.get()
        {
            sleeper.unpark();
        }
    }
}

/// The program's calls for one window.
#[derive(Default)]
pub(crate) struct Calls {
    inside: AtomicUsize,
    begun: AtomicU64,
}

impl Calls {
    /// A call begins.
    pub(crate) fn enter(&self) {
        self.begun.fetch_add(1, SeqCst);
        self.inside.fetch_add(1, SeqCst);
    }

    /// A call ends.
    pub(crate) fn leave(&self) {
        self.inside.fetch_sub(1, SeqCst);
    }

    /// How many have begun so far.
    pub(crate) fn begun(&self) -> u64 {
        self.begun.load(SeqCst)
    }
}

impl Waker for Calls {
    /// A completion is there. A thread that is in a call takes it.
    fn wake(&self) {
        if self.inside.load(SeqCst) == 0 {
            BELL.ring();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    #[test]
    fn it_wakes_a_thread_that_sleeps_and_one_that_is_about_to() {
        let bell = &*Box::leak(Box::new(Bell { is_armed: AtomicBool::new(false), sleeper: OnceLock::new() }));
        // Nothing sleeps yet.
        bell.ring();
        let (tell, is_told) = mpsc::channel();
        let sleeper = thread::spawn(move || {
            bell.sleep_unless(|| true);
            bell.sleep_unless(|| {
                bell.ring();
                false
            });
            bell.sleep_unless(|| {
                tell.send(()).unwrap();
                false
            });
        });
        is_told.recv().unwrap();
        bell.ring();
        sleeper.join().unwrap();
    }

    #[test]
    fn a_call_takes_what_comes_meanwhile() {
        // No thread sleeps here, so that the bell stays as it is set.
        let (calls, ring) = (Calls::default(), |calls: &Calls| {
            BELL.is_armed.store(true, SeqCst);
            calls.wake();
            !BELL.is_armed.swap(false, SeqCst)
        });
        assert!(ring(&calls));
        calls.enter();
        assert!(!ring(&calls));
        calls.leave();
        assert!(ring(&calls));
        assert_eq!(calls.begun(), 1);
    }
}
