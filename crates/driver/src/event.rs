//! eventfd(2).

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use weft_base::{PortError, Waker};

use crate::error::{from_number, last_error};

/// A descriptor that is readable from [`EventFd::signal`] until [`EventFd::drain`]: the descriptor of a completion
/// channel.
#[derive(Debug)]
pub struct EventFd {
    fd: OwnedFd,
}

impl EventFd {
    /// A new one, not signalled.
    ///
    /// # Errors
    /// The operating system has no descriptors left.
    pub fn new() -> Result<Self, PortError> {
        // SAFETY: Takes numbers, returns a descriptor or -1.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(from_number(last_error()));
        }
        // SAFETY: A new descriptor that has no other owner.
        Ok(Self { fd: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    /// Makes it readable. From any thread.
    pub fn signal(&self) {
        let one = 1u64;
        loop {
            // SAFETY: Eight bytes are read from `one` during the call.
            let done = unsafe { libc::write(self.fd.as_raw_fd(), (&raw const one).cast(), size_of::<u64>()) };
            // A full counter (EAGAIN) is readable too.
            if done >= 0 || last_error() != libc::EINTR {
                return;
            }
        }
    }

    /// Makes it unreadable. Returns whether it was signalled.
    pub fn drain(&self) -> bool {
        let mut count = 0u64;
        loop {
            // SAFETY: Eight bytes are written to `count` during the call.
            let done = unsafe { libc::read(self.fd.as_raw_fd(), (&raw mut count).cast(), size_of::<u64>()) };
            if done >= 0 || last_error() != libc::EINTR {
                return done >= 0;
            }
        }
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Waker for EventFd {
    fn wake(&self) {
        self.signal();
    }
}
