//! Several descriptors as one.

use core::fmt;
use core::time::Duration;
use std::os::fd::{AsFd, BorrowedFd};

use weft_base::PortError;

use crate::epoll::{Epoll, Events};

/// Descriptors to wait for together. It is a descriptor itself, readable as long as one of them is, so that an
/// application can put it into an event loop of its own.
pub struct WaitSet {
    epoll: Epoll,
}

impl WaitSet {
    /// An empty set.
    ///
    /// # Errors
    /// The operating system has no descriptors left.
    pub fn new() -> Result<Self, PortError> {
        Ok(Self { epoll: Epoll::new()? })
    }

    /// Adds a descriptor that is reported as `key` whenever it is readable. One that is already in the set gets the new
    /// key.
    ///
    /// # Errors
    /// It is of a kind that cannot be waited for (a file on a disk), or a limit is reached.
    pub fn add(&self, fd: &impl AsFd, key: u64) -> Result<(), PortError> {
        self.epoll.watch(fd.as_fd(), key, libc::EPOLLIN as u32)
    }

    /// Removes a descriptor. A closed one is removed automatically.
    ///
    /// # Errors
    /// It is of a kind that cannot be in a set.
    pub fn remove(&self, fd: &impl AsFd) -> Result<(), PortError> {
        self.epoll.forget(fd.as_fd())
    }

    /// Waits until one is readable or `timeout` has passed (`None`: forever; zero: polls). Appends their keys.
    ///
    /// # Errors
    /// The operating system refused.
    pub fn wait(&self, timeout: Option<Duration>, keys: &mut Vec<u64>) -> Result<(), PortError> {
        let mut events = Events::new();
        self.epoll.wait(timeout, &mut events)?;
        keys.extend(events.iter().map(|(key, _)| key));
        Ok(())
    }
}

impl AsFd for WaitSet {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

impl fmt::Debug for WaitSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitSet").finish_non_exhaustive()
    }
}
