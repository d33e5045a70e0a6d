//! Completion queues: where finished work requests are reported, in order, exactly once.

use core::ops::Deref;
use core::sync::atomic::Ordering;
use std::collections::VecDeque;
use std::sync::Arc;

use weft_base::Waker;
use weft_rdmap::{Completion, Status};

use super::event_count::EventCount;
use super::sync::{AtomicU8, AtomicUsize, Mutex, Rank, fence, fence_behind_lock};

/// The number of a queue pair, unique within its NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueuePairNumber(pub u32);

/// A finished work request, and whose it was.
#[derive(Clone, Copy, Debug)]
pub struct WorkCompletion {
    /// The queue pair that it was posted to (for a shared receive queue: that it was used for).
    pub queue_pair: QueuePairNumber,
    /// What became of it.
    pub completion: Completion,
}

impl Deref for WorkCompletion {
    type Target = Completion;

    fn deref(&self) -> &Completion {
        &self.completion
    }
}

/// Which completions wake the thread that has armed the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Arm {
    /// Any.
    Any = 1,
    /// Receives whose sender requested a solicited event, and failures.
    Solicited = 2,
}

/// Takes finished work requests as they end, in place of a queue that is polled: for a layer above that has queues of
/// its own.
pub trait CompletionSink: Send + Sync {
    /// A work request has ended. Called by whoever runs the NIC, under its locks: nothing but to note it, and to wake
    /// a thread that does the rest. It can't use the NIC.
    fn complete(&self, completion: WorkCompletion);

    /// The connection of a queue pair is over, and all of its send requests have completed. As before, it can only
    /// note it.
    fn connection_ended(&self, queue_pair: QueuePairNumber);
}

const NOT_ARMED: u8 = 0;
/// Completions that a growing queue has room for at first.
const GROWING: usize = 256;

/// A queue of completions with room for a fixed number of them.
///
/// The room is reserved when a work request is posted that will complete here, so a completion queue can't overflow:
/// posting fails instead, with an error that says to poll. A send request that is not signaled has a completion only if
/// it fails, and no room reserved: those come on top, as many at most as send requests were under way.
pub struct CompletionQueue {
    capacity: usize,
    /// Places that were taken, for work requests that will end here, and not given back without an entry.
    reserved: AtomicUsize,
    /// Of those, as many as entries were taken out. Changes under the lock alone.
    freed: AtomicUsize,
    /// How many entries there are. Changes under the lock alone.
    available: AtomicUsize,
    entries: Mutex<VecDeque<WorkCompletion>>,
    armed: AtomicU8,
    event: Mutex<Option<Arc<dyn Waker>>>,
    event_count: Arc<EventCount>,
    /// Takes all completions, of which none is kept here then.
    sink: Option<Arc<dyn CompletionSink>>,
}

impl CompletionQueue {
    pub(crate) fn new(capacity: usize, event_count: Arc<EventCount>) -> Self {
        Self::with_room(capacity, capacity, event_count)
    }

    /// One whose memory grows with what is in it.
    pub(crate) fn growing(capacity: usize, event_count: Arc<EventCount>) -> Self {
        Self::with_room(capacity, GROWING, event_count)
    }

    /// One that keeps nothing: what would be in it goes to `sink`. It always has room.
    pub(crate) fn into_sink(sink: Arc<dyn CompletionSink>, event_count: Arc<EventCount>) -> Self {
        Self { sink: Some(sink), ..Self::with_room(usize::MAX, 0, event_count) }
    }

    fn with_room(capacity: usize, room: usize, event_count: Arc<EventCount>) -> Self {
        Self {
            capacity,
            reserved: AtomicUsize::new(0),
            freed: AtomicUsize::new(0),
            available: AtomicUsize::new(0),
            entries: Mutex::new(Rank::CompletionEntries, VecDeque::with_capacity(room)),
            armed: AtomicU8::new(NOT_ARMED),
            event: Mutex::new(Rank::CompletionEvent, None),
            event_count,
            sink: None,
        }
    }

    /// How many completions and work requests under way it has room for.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Whether a completion can be taken.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.available.load(Ordering::Acquire) == 0
    }

    /// Takes the oldest completion.
    #[inline]
    pub fn take(&self) -> Option<WorkCompletion> {
        if self.is_empty() { None } else { self.take_entry() }
    }

    fn take_entry(&self) -> Option<WorkCompletion> {
        let mut entries = self.entries.lock();
        let entry = entries.pop_front()?;
        self.count_taken(1, entries.len());
        Some(entry)
    }

    /// Takes up to `most` of the oldest completions and appends them to `out`. Returns how many.
    pub fn take_into(&self, out: &mut Vec<WorkCompletion>, most: usize) -> usize {
        if self.is_empty() {
            return 0;
        }
        let mut entries = self.entries.lock();
        let count = entries.len().min(most);
        out.extend(entries.drain(..count));
        self.count_taken(count, entries.len());
        count
    }

    /// This many entries were taken out, and `left` are left. Under the lock, so that plain stores do.
    #[inline]
    fn count_taken(&self, count: usize, left: usize) {
        self.available.store(left, Ordering::Release);
        self.freed.store(self.freed.load(Ordering::Relaxed).wrapping_add(count), Ordering::Release);
    }

    /// Sets what to wake when the queue is armed and a completion comes.
    pub fn set_event(&self, event: Arc<dyn Waker>) {
        *self.event.lock() = Some(event);
    }

    /// Asks for one wake-up at the next completion of this kind. Completions that are there already wake no thread:
    /// poll once more after arming.
    pub fn arm(&self, arm: Arm) {
        self.armed.store(arm as u8, Ordering::Relaxed);
        // Either the poll sees the completion, or the thread that brings it sees this.
        fence(Ordering::SeqCst);
    }

    /// Whether it has places at all: a sink keeps nothing, and has none.
    pub(crate) fn has_places(&self) -> bool {
        self.sink.is_none()
    }

    pub(crate) fn reserve(&self, count: usize) -> bool {
        if self.sink.is_some() {
            return true;
        }
        self.reserved
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |reserved| {
                // As many are taken at most, for what was freed only grows. Where more was freed than was reserved
                // here, `reserved` is of old, and will not be exchanged.
                let taken = (reserved.wrapping_sub(self.freed.load(Ordering::Acquire)) as isize).max(0) as usize;
                let fits = taken.checked_add(count).is_some_and(|taken| taken <= self.capacity);
                fits.then(|| reserved.wrapping_add(count))
            })
            .is_ok()
    }

    /// Takes a place, if there is room or not: a work request has failed that was not to complete.
    pub(crate) fn reserve_beyond(&self) {
        if self.sink.is_none() {
            self.reserved.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Gives back places of work requests that end without a completion.
    pub(crate) fn release(&self, count: usize) {
        if self.sink.is_some() {
            return;
        }
        let before = self.reserved.fetch_sub(count, Ordering::AcqRel);
        debug_assert!(
            before.wrapping_sub(self.freed.load(Ordering::Acquire)) >= count,
            "a completion queue gave back more places than it had"
        );
    }

    /// The connection of a queue pair that completes here is over.
    pub(crate) fn connection_ended(&self, queue_pair: QueuePairNumber) {
        if let Some(sink) = &self.sink {
            sink.connection_ended(queue_pair);
        }
    }

    pub(crate) fn push(&self, entry: WorkCompletion) {
        if let Some(sink) = &self.sink {
            sink.complete(entry);
            return self.event_count.turn();
        }
        let wakes = entry.solicited || entry.status != Status::Success;
        let mut entries = self.entries.lock();
        debug_assert!(
            entries.len() < self.reserved.load(Ordering::Acquire).wrapping_sub(self.freed.load(Ordering::Acquire)),
            "a completion came without a reserved place"
        );
        entries.push_back(entry);
        self.available.store(entries.len(), Ordering::Release);
        drop(entries);
        // Between this and the check whether a thread waits for it.
        fence_behind_lock();
        let armed = self.armed.load(Ordering::Relaxed);
        if armed == Arm::Any as u8 || (armed == Arm::Solicited as u8 && wakes) {
            self.armed.store(NOT_ARMED, Ordering::Relaxed);
            // Its lock is let go of before: an event channel has one of its own.
            let event = self.event.lock().clone();
            if let Some(event) = event {
                event.wake();
            }
        }
        self.event_count.turn_after_fence();
    }
}

impl core::fmt::Debug for CompletionQueue {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("CompletionQueue")
            .field("capacity", &self.capacity)
            .field("reserved", &self.reserved)
            .field("freed", &self.freed)
            .field("available", &self.available)
            .finish_non_exhaustive()
    }
}
