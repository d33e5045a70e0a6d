//! Code of the application that the NIC calls, and what it can't do there.
//!
//! The thread that runs an engine holds its lock while it calls [`crate::Completions::complete`], and while it checks
//! whether a wait is over ([`crate::Nic::wait_until`]). Such code must not wait for an engine: its own thread holds the
//! one, and the callback of another NIC may hold the other and wait for the first. So a flag of the thread says that it
//! is in a callback, of whichever NIC, and every call that takes an engine reads the flag first.

use core::cell::Cell;

thread_local! {
    static RUNS: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling thread is in a callback: in [`crate::Completions::complete`] of any NIC, or in the condition of
/// a waiting call. Calls that need the NIC fail there, or do nothing.
#[must_use]
pub fn in_callback() -> bool {
    RUNS.get()
}

/// Runs code of the application.
pub(crate) fn run<R>(code: impl FnOnce() -> R) -> R {
    let _running = Running { before: RUNS.replace(true) };
    code()
}

/// Puts the flag back, also when the code panics.
struct Running {
    before: bool,
}

impl Drop for Running {
    fn drop(&mut self) {
        RUNS.set(self.before);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    #[test]
    fn a_callback_in_a_callback_and_one_that_panics_leave_the_flag_as_it_was() {
        assert!(!in_callback());
        run(|| {
            run(|| assert!(in_callback()));
            assert!(catch_unwind(|| run(|| panic!("of the application"))).is_err());
            assert!(in_callback());
            assert!(!std::thread::spawn(in_callback).join().unwrap(), "it is the thread's own");
        });
        assert!(!in_callback());
    }
}
