//! Whether this process is a forked child.
//!
//! A child made by fork(2) has the memory and the descriptors of its parent, but none of its threads. It must neither
//! use nor end what the parent holds: every holder remembers [`generation`] and compares.
//!
//! Sockets are closed in a child: the kernel ends a stream when its last holder closes it, so a child would keep the
//! peers of a dead parent waiting (`held`).

#[cfg(test)]
use core::ffi::c_int;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::held;

/// The number of forks in this process's ancestry since the first call of [`generation`], plus one; 0 before that call.
static GENERATION: AtomicU64 = AtomicU64::new(0);

/// A number that never changes in this process, and differs in each child that fork(2) makes from it after the first
/// call.
///
/// Costs one relaxed load after the first call. May be called in a child of a process with many threads. Children made
/// without the C library (a bare clone(2)) are not detected.
#[inline]
#[must_use]
pub fn generation() -> u64 {
    match GENERATION.load(Ordering::Relaxed) {
        0 => watch_forks(),
        generation => generation,
    }
}

/// Registers the fork handlers, if this is the first call, and returns [`generation`].
///
/// No lock is held meanwhile: a child made during the call would find it held forever. Two threads may register twice,
/// then a child counts two.
#[cold]
fn watch_forks() -> u64 {
    // SAFETY: `count` changes atomics and makes calls that are safe after a fork, whatever the parent's other threads
    // held (signal-safety(7)); those of the parent wait for its other threads for a short time at most. They live as
    // long as the library that contains them, and the C library forgets them when that is unloaded.
    let outcome = unsafe { libc::pthread_atfork(Some(held::before_fork), Some(held::after_fork), Some(count)) };
    if outcome != 0 {
        // No memory for the handler. Forks are not detected yet, and the next call tries again.
        return 0;
    }
    // A child that was made since then has counted from 0 to 1 already: there was no holder then, so 1 is right for it
    // too.
    let _ = GENERATION.compare_exchange(0, 1, Ordering::Relaxed, Ordering::Relaxed);
    GENERATION.load(Ordering::Relaxed)
}

extern "C" fn count() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    held::leave_to_parent();
}

/// Makes a child that exits with the result of `f` (101: it panicked), waits for it and returns the status.
///
/// Other threads of the process may have held locks, the allocator's too: `f` must not need any.
#[cfg(test)]
pub(crate) fn in_child(f: impl FnOnce() -> c_int) -> c_int {
    status_of(start_child(f))
}

/// The same, without waiting for it.
#[cfg(test)]
pub(crate) fn start_child(f: impl FnOnce() -> c_int) -> libc::pid_t {
    // SAFETY: The child runs `f`, which does only what is allowed after a fork, and then exits without running anything
    // else.
    match unsafe { libc::fork() } {
        -1 => panic!("fork: {}", std::io::Error::last_os_error()),
        0 => {
            // The child must not return into the caller, such as a harness with a report of its own.
            let status = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).unwrap_or(101);
            // SAFETY: Ends the child.
            unsafe { libc::_exit(status) }
        }
        child => child,
    }
}

/// The exit status of a child, once it has ended.
#[cfg(test)]
pub(crate) fn status_of(child: libc::pid_t) -> c_int {
    let mut status = 0;
    // SAFETY: `status` is written during the call; `child` is ours and has not been waited for.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert!(libc::WIFEXITED(status), "the child came to status {status:#x}");
    libc::WEXITSTATUS(status)
}

/// A child that only sleeps, until this is dropped.
#[cfg(test)]
pub(crate) struct Sleeper(libc::pid_t);

#[cfg(test)]
impl Sleeper {
    pub(crate) const fn number(&self) -> libc::pid_t {
        self.0
    }

    pub(crate) fn new() -> Self {
        // SAFETY: The child does nothing but what is allowed after a fork, until it is killed.
        match unsafe { libc::fork() } {
            -1 => panic!("fork: {}", std::io::Error::last_os_error()),
            0 => loop {
                // SAFETY: Sleeps.
                unsafe { libc::pause() };
            },
            child => Self(child),
        }
    }
}

#[cfg(test)]
impl Drop for Sleeper {
    fn drop(&mut self) {
        // SAFETY: The child is ours, and has not been waited for.
        unsafe {
            libc::kill(self.0, libc::SIGKILL);
            libc::waitpid(self.0, core::ptr::null_mut(), 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_differs_and_its_parent_does_not_change() {
        let before = generation();
        assert_ne!(before, 0);
        assert_eq!(in_child(|| c_int::from(generation() != before)), 1);
        assert_eq!(generation(), before);
    }

    #[test]
    fn a_child_of_a_child_differs_from_both() {
        let before = generation();
        let outcome = in_child(|| {
            let child = generation();
            // SAFETY: The grandchild asks and exits; the child waits for it.
            match unsafe { libc::fork() } {
                -1 => 9,
                // SAFETY: Ends the grandchild.
                0 => unsafe { libc::_exit(c_int::from(generation() != child && generation() != before)) },
                grandchild => {
                    let mut status = 0;
                    // SAFETY: `status` is written during the call; the grandchild is ours.
                    unsafe { libc::waitpid(grandchild, &raw mut status, 0) };
                    libc::WEXITSTATUS(status) + c_int::from(generation() != child)
                }
            }
        });
        assert_eq!(outcome, 1);
    }
}
