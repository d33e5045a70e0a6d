//! Completion channels: which completion queues have an event, and the descriptor that tells.

use core::ffi::c_int;
use std::collections::VecDeque;
use std::sync::Mutex;

use crate::border::{Counted, Users, lock};
use crate::errno::Errno;
use crate::semaphore::Semaphore;

/// A completion channel.
pub(crate) struct Channel {
    semaphore: Semaphore,
    /// The addresses of C's completion queues, one for each event.
    waiting: Mutex<VecDeque<usize>>,
    users: Users,
}

impl Counted for Channel {
    fn users(&self) -> &Users {
        &self.users
    }
}

impl Channel {
    /// # Errors
    /// The operating system has no descriptors left.
    pub(crate) fn new() -> Result<Self, Errno> {
        Ok(Self { semaphore: Semaphore::new()?, waiting: Mutex::default(), users: Users::default() })
    }

    pub(crate) fn descriptor(&self) -> c_int {
        self.semaphore.number()
    }

    /// The queue with this address has an event.
    pub(crate) fn push(&self, queue: usize) {
        let mut waiting = lock(&self.waiting);
        waiting.push_back(queue);
        self.semaphore.raise();
    }

    /// Takes the oldest, after the descriptor was read, and has `count` note that its queue owes an acknowledgment: who
    /// destroys the queue withdraws the event, or waits for that. `None`: it was withdrawn meanwhile.
    pub(crate) fn take<R>(&self, count: impl FnOnce(usize) -> R) -> Option<R> {
        lock(&self.waiting).pop_front().map(count)
    }

    /// The queue goes: its events go too.
    pub(crate) fn withdraw(&self, queue: usize) {
        let mut waiting = lock(&self.waiting);
        let before = waiting.len();
        waiting.retain(|other| *other != queue);
        (waiting.len()..before).for_each(|_| self.semaphore.lower());
    }
}
