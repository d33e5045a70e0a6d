//! The queues of verbs: queue pairs with their work requests, receive queues, completion queues, event channels, and
//! what wakes threads that wait for them.

pub(crate) mod completion_queue;
pub(crate) mod event_channel;
pub(crate) mod event_count;
pub(crate) mod lifecycle;
pub(crate) mod queue_pair;
pub(crate) mod receive_queue;

/// Places of a queue of requests when it is made. It grows to its depth as requests wait: most wait for a moment
/// only, and a process may have thousands of queues.
const FIRST_PLACES: usize = 16;

/// What queues are made of. The model checker has others under these names.
mod sync {
    pub(super) use core::sync::atomic::{AtomicU8, AtomicUsize, fence};
    pub(super) use std::sync::{Condvar, Mutex as PlainMutex, MutexGuard as PlainGuard};

    pub(super) use weft_lock::{Entered, Mutex, Rank, fence_behind_lock};
}

#[cfg(all(test, not(miri)))]
mod model;
