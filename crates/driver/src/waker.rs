//! Coalesced wake-ups.

use core::sync::atomic::{AtomicBool, Ordering};
use std::os::fd::{AsFd, BorrowedFd};

use weft_base::{PortError, Waker};

use crate::EventFd;

/// An [`EventFd`] in an epoll, of which only the first of many signals costs a system call.
pub(crate) struct EpollWaker {
    event: EventFd,
    /// Whether it was signalled and no wait has seen it yet: then another wake costs nothing.
    pending: AtomicBool,
}

impl EpollWaker {
    pub(crate) fn new() -> Result<Self, PortError> {
        Ok(Self { event: EventFd::new()?, pending: AtomicBool::new(false) })
    }

    /// For the wait that saw its event. First the event, then the flag: a wake in between is not signalled, and need
    /// not be, for this wait ends anyway and what was done before that wake is visible after it. In the other order its
    /// signal would be lost and the flag would stay.
    pub(crate) fn clear(&self) {
        self.event.drain();
        self.pending.swap(false, Ordering::AcqRel);
    }
}

impl Waker for EpollWaker {
    fn wake(&self) {
        if !self.pending.swap(true, Ordering::AcqRel) {
            self.event.signal();
        }
    }
}

impl AsFd for EpollWaker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}
