//! Completion queues.

use core::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering, fence};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use crate::abi::{IBV_EVENT_CQ_ERR, ibv_wc};
use crate::border::{Counted, Users, lock};
use crate::completion::channel::Channel;
use crate::errno::Errno;
use crate::events::{Acknowledgments, AsyncEvents};
use crate::nic::Nic;

const NOT_ARMED: u8 = 0;
const ANY: u8 = 1;
const SOLICITED: u8 = 2;

/// A completion queue.
pub(crate) struct CompletionQueue {
    entries: Mutex<Entries>,
    /// How many entries there are. Changes under the lock alone.
    available: AtomicUsize,
    armed: AtomicU8,
    /// It was armed, and no poll has found it empty since: the next one leaves the NIC to its own thread.
    was_armed: AtomicBool,
    /// C's address of it.
    address: AtomicUsize,
    channel: Option<Arc<Channel>>,
    /// Events of the channel that the program owes.
    pub(crate) channel_events: Acknowledgments,
    /// Asynchronous events that the program owes.
    pub(crate) async_events: Acknowledgments,
    events: Arc<AsyncEvents>,
    nic: Arc<Nic>,
    users: Users,
}

struct Entries {
    waiting: VecDeque<ibv_wc>,
    capacity: usize,
    is_overrun: bool,
}

impl Counted for CompletionQueue {
    fn users(&self) -> &Users {
        &self.users
    }
}

impl CompletionQueue {
    pub(crate) fn new(
        nic: &Arc<Nic>,
        events: &Arc<AsyncEvents>,
        channel: Option<Arc<Channel>>,
        capacity: usize,
    ) -> Self {
        Self {
            entries: Mutex::new(Entries { waiting: VecDeque::new(), capacity, is_overrun: false }),
            available: AtomicUsize::new(0),
            armed: AtomicU8::new(NOT_ARMED),
            was_armed: AtomicBool::new(false),
            address: AtomicUsize::new(0),
            channel,
            channel_events: Acknowledgments::default(),
            async_events: Acknowledgments::default(),
            events: Arc::clone(events),
            nic: Arc::clone(nic),
            users: Users::default(),
        }
    }

    /// C knows it by this address from now on.
    pub(crate) fn set_address(&self, address: usize) {
        self.address.store(address, Ordering::Release);
    }

    /// C's address of it.
    pub(crate) fn address(&self) -> usize {
        self.address.load(Ordering::Acquire)
    }

    /// Room for this many entries from now on.
    ///
    /// # Errors
    /// More wait already.
    pub(crate) fn resize(&self, capacity: usize) -> Result<(), Errno> {
        let mut entries = lock(&self.entries);
        if entries.waiting.len() > capacity {
            return Err(Errno::INVALID);
        }
        entries.capacity = capacity;
        Ok(())
    }

    /// Adds a completion. `wakes`: it is one for those who want to know of solicited events alone. Twice as many as
    /// there is room for are kept; then the queue is overrun, which an event tells.
    pub(crate) fn push(&self, completion: ibv_wc, wakes: bool) {
        let mut entries = lock(&self.entries);
        if entries.waiting.len() >= entries.capacity.saturating_mul(2) {
            let is_first = !core::mem::replace(&mut entries.is_overrun, true);
            drop(entries);
            if is_first {
                self.events.push(IBV_EVENT_CQ_ERR, self.address());
            }
            return;
        }
        entries.waiting.push_back(completion);
        self.available.store(entries.waiting.len(), Ordering::Release);
        drop(entries);
        let Some(channel) = &self.channel else { return };
        // Either who arms sees the completion when it polls again, or this sees that it is armed.
        fence(Ordering::SeqCst);
        let armed = self.armed.load(Ordering::Relaxed);
        let is_wanted = armed == ANY || (armed == SOLICITED && wakes);
        if is_wanted && self.armed.swap(NOT_ARMED, Ordering::AcqRel) != NOT_ARMED {
            channel.push(self.address());
        }
    }

    /// One event at the next completion, or at the next that is solicited or has failed.
    pub(crate) fn arm(&self, solicited_only: bool) {
        if solicited_only {
            let _ = self.armed.compare_exchange(NOT_ARMED, SOLICITED, Ordering::AcqRel, Ordering::Relaxed);
        } else {
            self.armed.store(ANY, Ordering::Relaxed);
        }
        fence(Ordering::SeqCst);
        self.was_armed.store(true, Ordering::Relaxed);
        // The caller is about to sleep on the channel's descriptor.
        self.nic.context.watch();
    }

    /// Takes the oldest completions, as many as fit, and runs the NIC for a turn if there is none. Returns how many.
    #[inline]
    pub(crate) fn poll(&self, to: &mut [ibv_wc]) -> usize {
        let taken = self.take(to);
        if taken > 0 || to.is_empty() {
            return taken;
        }
        if self.was_armed.load(Ordering::Relaxed) && self.was_armed.swap(false, Ordering::Relaxed) {
            return 0;
        }
        self.nic.progress();
        self.take(to)
    }

    #[inline]
    fn take(&self, to: &mut [ibv_wc]) -> usize {
        if self.available.load(Ordering::Acquire) == 0 {
            return 0;
        }
        let mut entries = lock(&self.entries);
        let count = entries.waiting.len().min(to.len());
        for (place, completion) in to.iter_mut().zip(entries.waiting.drain(..count)) {
            *place = completion;
        }
        self.available.store(entries.waiting.len(), Ordering::Release);
        count
    }

    /// Drops the completions of a queue pair, which is reset or destroyed.
    pub(crate) fn forget(&self, queue_pair: u32) {
        let mut entries = lock(&self.entries);
        entries.waiting.retain(|completion| completion.qp_num != queue_pair);
        self.available.store(entries.waiting.len(), Ordering::Release);
    }

    /// It goes: waits until the program has acknowledged the events that it got, and withdraws those that it did not.
    pub(crate) fn end(&self) {
        self.armed.store(NOT_ARMED, Ordering::Release);
        let mut entries = lock(&self.entries);
        // What still comes is dropped.
        *entries = Entries { waiting: VecDeque::new(), capacity: 0, is_overrun: true };
        self.available.store(0, Ordering::Release);
        drop(entries);
        self.events.withdraw(self.address());
        if let Some(channel) = &self.channel {
            channel.withdraw(self.address());
        }
        self.channel_events.wait();
        self.async_events.wait();
    }
}
