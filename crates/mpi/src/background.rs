//! Windows are served while the program computes.
//!
//! The NIC's own thread places what other ranks write, and answers what they read, while no thread of the program is in
//! a call. But messages of a window (small puts in epochs of fences) are for the window's own machine, which runs in
//! calls. So that a rank which makes none is served as well, a thread runs it when the NIC has completions for a window
//! that no call takes. It makes no call of MPI's.
//!
//! A program that makes calls takes its completions itself, a moment later. So the thread waits before it acts, and
//! longer while there are calls.

use core::mem::MaybeUninit;
use core::time::Duration;
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError, Weak};
use std::thread;

use crate::bell::BELL;
use crate::report;
use crate::slot::Slot;

/// How long completions may wait for a call of the program, at least and at most.
const SHORTEST: Duration = Duration::from_micros(500);
const LONGEST: Duration = Duration::from_millis(8);

/// The windows.
static SLOTS: Mutex<Vec<Weak<Slot>>> = Mutex::new(Vec::new());

fn slots() -> MutexGuard<'static, Vec<Weak<Slot>>> {
    SLOTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Serves a window until it is freed.
pub(crate) fn serve(slot: &Arc<Slot>) {
    static STARTED: Once = Once::new();
    slots().push(Arc::downgrade(slot));
    STARTED.call_once(|| {
        let started = thread::Builder::new().name("weft-windows".into()).spawn(run);
        if let Err(error) = started {
            report::say(&format!("no thread to serve windows while the program computes: {error}"));
        }
    });
}

fn run() {
    block_signals();
    loop {
        BELL.sleep_unless(has_unread);
        let mut patience = SHORTEST;
        while !serve_all(patience) {
            patience = (2 * patience).min(LONGEST);
        }
    }
}

fn has_unread() -> bool {
    let mut slots = slots();
    slots.retain(|slot| slot.strong_count() > 0);
    slots.iter().filter_map(Weak::upgrade).any(|slot| slot.has_unread())
}

/// Waits so long for calls of the program, and serves the windows that had none. Returns whether nothing is left to be
/// done.
fn serve_all(patience: Duration) -> bool {
    let known: Vec<_> = slots().iter().filter_map(|slot| Some((slot.clone(), slot.upgrade()?.calls()))).collect();
    thread::sleep(patience);
    let serve = |(slot, calls): &(Weak<Slot>, u64)| slot.upgrade().is_none_or(|slot| slot.serve(*calls));
    known.iter().filter(|one| !serve(one)).count() == 0
}

/// Handlers of the program run on its own threads: this one gets no signals but those of faults.
fn block_signals() {
    let mut all = MaybeUninit::uninit();
    // SAFETY: The set can be written, and is before it is read; the numbers are signals.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        for fault in [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGABRT] {
            libc::sigdelset(all.as_mut_ptr(), fault);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), core::ptr::null_mut());
    }
}
