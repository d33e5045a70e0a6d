//! A descriptor that counts events: readable while there is one, so a program may poll it beside others.

use core::ffi::{c_int, c_void};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::errno::Errno;

/// An eventfd(2) that each read lowers by one.
#[derive(Debug)]
pub(crate) struct Semaphore(OwnedFd);

unsafe extern "C-unwind" {
    /// POSIX. Declared so that a thread which is canceled in it can unwind: cancellation is an exception of the C
    /// library, and programs end threads that wait for events by it.
    fn read(fd: c_int, to: *mut c_void, length: usize) -> isize;
}

impl Semaphore {
    /// # Errors
    /// The operating system has no descriptors left.
    pub(crate) fn new() -> Result<Self, Errno> {
        // SAFETY: Takes numbers, returns a descriptor or -1.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_SEMAPHORE) };
        if fd < 0 {
            return Err(Errno::last());
        }
        // SAFETY: A new descriptor that has no other owner.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    pub(crate) fn number(&self) -> c_int {
        self.0.as_raw_fd()
    }

    /// One more event.
    pub(crate) fn raise(&self) {
        let one = 1u64;
        // SAFETY: Eight bytes are read from `one` during the call. It blocks only at 2^64 events.
        unsafe { libc::write(self.number(), (&raw const one).cast(), size_of::<u64>()) };
    }

    /// One event fewer, if there is one. Used for events that are withdrawn.
    pub(crate) fn lower(&self) {
        let mut ready = libc::pollfd { fd: self.number(), events: libc::POLLIN, revents: 0 };
        // SAFETY: One entry that can be written.
        if unsafe { libc::poll(&raw mut ready, 1, 0) } == 1 {
            let mut count = 0u64;
            // SAFETY: Eight bytes are written to `count` during the call.
            unsafe { libc::read(self.number(), (&raw mut count).cast(), size_of::<u64>()) };
        }
    }
}

/// Waits until there is an event, and takes it from the descriptor. Returns whether it did; else errno says why
/// (`EAGAIN` where the program has set `O_NONBLOCK`, `EINTR`). Nothing that has to be dropped may be held: the thread
/// can be canceled here.
pub(crate) fn wait(fd: c_int) -> bool {
    let mut count = 0u64;
    // SAFETY: Eight bytes are written to `count` during the call.
    unsafe { read(fd, (&raw mut count).cast(), size_of::<u64>()) == size_of::<u64>().cast_signed() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_event_is_taken_once() {
        let semaphore = Semaphore::new().unwrap();
        // SAFETY: An own descriptor.
        unsafe { libc::fcntl(semaphore.number(), libc::F_SETFL, libc::O_NONBLOCK) };
        assert!(!wait(semaphore.number()) && Errno::last() == Errno(libc::EAGAIN));
        semaphore.raise();
        semaphore.raise();
        semaphore.lower();
        assert!(wait(semaphore.number()));
        semaphore.lower();
        assert!(!wait(semaphore.number()));
    }
}
