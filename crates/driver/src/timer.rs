//! timerfd_create(2).

use core::ptr;
use core::time::Duration;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use weft_base::PortError;

use crate::error::{from_number, last_error};

/// Seconds in place of a time that is too long for the kernel: 68 years. They fit the type of every C library.
pub(crate) const FOR_EVER_S: i32 = i32::MAX;

/// A descriptor that is readable from the expiry of its timer until [`TimerFd::drain`]. Exact: unlike a system call's
/// timeout, it is not delayed by the thread's timer slack (50 us by default).
#[derive(Debug)]
pub struct TimerFd {
    fd: OwnedFd,
}

impl TimerFd {
    /// A stopped timer.
    ///
    /// # Errors
    /// The operating system has no descriptors left.
    pub fn new() -> Result<Self, PortError> {
        // SAFETY: Takes numbers, returns a descriptor or -1.
        let fd = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC | libc::TFD_NONBLOCK) };
        if fd < 0 {
            return Err(from_number(last_error()));
        }
        // SAFETY: A new descriptor that has no other owner.
        Ok(Self { fd: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    /// Expires `after` from now, once. Not readable until then, whatever its state was.
    pub fn set(&self, after: Duration) {
        // Zero would stop it.
        self.start(after.max(Duration::from_nanos(1)));
    }

    /// Not readable until it is set again, whatever its state was.
    pub fn stop(&self) {
        self.start(Duration::ZERO);
    }

    fn start(&self, after: Duration) {
        let once = libc::itimerspec {
            it_interval: libc::timespec { tv_sec: 0, tv_nsec: 0 },
            it_value: libc::timespec {
                tv_sec: after.as_secs().try_into().unwrap_or(FOR_EVER_S.into()),
                tv_nsec: after.subsec_nanos().into(),
            },
        };
        // SAFETY: `once` is read during the call alone; the old setting is not requested.
        let done = unsafe { libc::timerfd_settime(self.fd.as_raw_fd(), 0, &raw const once, ptr::null_mut()) };
        debug_assert_eq!(done, 0, "the descriptor is a timer's and the time is valid");
    }

    /// Makes it unreadable.
    pub fn drain(&self) {
        let mut count = 0u64;
        // SAFETY: Eight bytes are written to `count` during the call.
        while unsafe { libc::read(self.fd.as_raw_fd(), (&raw mut count).cast(), size_of::<u64>()) } < 0
            && last_error() == libc::EINTR
        {}
    }
}

impl AsFd for TimerFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
