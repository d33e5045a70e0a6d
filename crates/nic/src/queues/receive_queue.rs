//! Receive queues: a queue pair's own, or one that several share.

use core::sync::atomic::{AtomicBool, Ordering};
use std::collections::VecDeque;
use std::sync::Arc;

use weft_base::{DomainId, Gather};
use weft_lock::{Mutex, Rank};
use weft_memory::{LocalRight, Registry};
use weft_rdmap::{ReceiveRequest, ReceiveSource};

use crate::error::PostError;
use crate::queues::FIRST_PLACES;
use crate::queues::completion_queue::CompletionQueue;
use crate::queues::event_channel::{EventKind, EventSource};

/// Posted receive requests, oldest first.
#[derive(Debug)]
struct Waiting {
    requests: VecDeque<ReceiveRequest>,
    open: bool,
    /// How many of the requests were promised to peers of streams.
    promised: usize,
    /// Fewer than these cause one low-water event; 0: not armed.
    low_water: usize,
    events: Option<Arc<EventSource>>,
}

impl Waiting {
    fn unpromised(&self) -> usize {
        self.requests.len().saturating_sub(self.promised)
    }

    fn pop(&mut self) -> Option<ReceiveRequest> {
        let taken = self.requests.pop_front();
        if self.requests.len() < self.low_water {
            self.report_low();
        }
        taken
    }

    /// Tells that few are left, once for each time that the mark is set.
    fn report_low(&mut self) {
        let low_water = core::mem::take(&mut self.low_water);
        if let Some(source) = &self.events {
            source.tell(EventKind::ReceivesLow { low_water });
        }
    }
}

/// A queue of receive requests. Each message that arrives takes the oldest one.
#[derive(Debug)]
pub struct ReceiveQueue {
    domain: DomainId,
    depth: usize,
    completions: Arc<CompletionQueue>,
    /// One connection at a time takes messages from its peer.
    serves_one: AtomicBool,
    waiting: Mutex<Waiting>,
}

impl ReceiveQueue {
    pub(crate) fn new(domain: DomainId, depth: usize, completions: Arc<CompletionQueue>) -> Self {
        let requests = VecDeque::with_capacity(depth.min(FIRST_PLACES));
        let waiting = Waiting { requests, open: true, promised: 0, low_water: 0, events: None };
        let serves_one = AtomicBool::new(false);
        Self { domain, depth, completions, serves_one, waiting: Mutex::new(Rank::ReceiveQueue, waiting) }
    }

    /// Says that no more than one of the connections that take from it at a time gets messages. Where receipts were
    /// agreed ([`weft_mpa::Extensions::receipts`]) all receives are promised to its peer then, as soon as they are
    /// posted. Else a peer is promised no more than it has messages to send, and each of them waits until the peer was
    /// asked.
    pub fn set_serves_one(&self) {
        self.serves_one.store(true, Ordering::Relaxed);
    }

    /// The protection domain.
    #[must_use]
    pub fn domain(&self) -> DomainId {
        self.domain
    }

    /// Where receives from this queue complete, but for queue pairs that receive on another one.
    #[must_use]
    pub fn completions(&self) -> &Arc<CompletionQueue> {
        &self.completions
    }

    /// How many requests wait for a message.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.lock().requests.len()
    }

    /// Whether no request waits for a message.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The queue that gets its events from now on, if any. Those that are in the old queue and were not taken are
    /// dropped.
    pub fn set_events(&self, source: Option<Arc<EventSource>>) {
        let before = core::mem::replace(&mut self.waiting.lock().events, source);
        if let Some(before) = before {
            before.withdraw();
        }
    }

    /// How many requests wait that were promised to no peer.
    pub(crate) fn unpromised(&self) -> usize {
        self.waiting.lock().unpromised()
    }

    /// Promises that a stream has not used and does not need any more.
    pub(crate) fn take_back(&self, promised: u32, elsewhere: Option<&CompletionQueue>) {
        if promised == 0 {
            return;
        }
        let promised = promised as usize;
        let mut waiting = self.waiting.lock();
        waiting.promised = waiting.promised.saturating_sub(promised);
        if let Some(elsewhere) = elsewhere {
            elsewhere.release(promised);
        }
    }

    /// Tells [`EventKind::ReceivesLow`] when fewer than `low_water` requests are left, once: at once if it is so
    /// already. 0: not any more.
    pub fn set_low_water(&self, low_water: usize) {
        let mut waiting = self.waiting.lock();
        waiting.low_water = low_water;
        if waiting.requests.len() < low_water {
            waiting.report_low();
        }
    }

    /// Adds a request.
    ///
    /// # Errors
    /// The queue or its completion queue is full, the memory is not usable, or the queue pair has ended.
    pub(crate) fn post(&self, registry: &Registry, request: ReceiveRequest) -> Result<(), PostError> {
        let mut waiting = self.waiting.lock();
        if !waiting.open {
            return Err(PostError::Ended);
        }
        if waiting.requests.len() >= self.depth {
            return Err(PostError::QueueFull { depth: self.depth });
        }
        if !self.completions.reserve(1) {
            return Err(PostError::CompletionQueueFull { capacity: self.completions.capacity() });
        }
        if let Err(error) = registry.pin_all(self.domain, request.sink.slices(), LocalRight::Write) {
            self.completions.release(1);
            return Err(PostError::Memory(error));
        }
        waiting.requests.push_back(request);
        Ok(())
    }

    /// Takes no more requests, and hands out those that wait: they are the caller's to complete.
    pub(crate) fn close(&self) -> VecDeque<ReceiveRequest> {
        let mut waiting = self.waiting.lock();
        waiting.open = false;
        waiting.promised = 0;
        core::mem::take(&mut waiting.requests)
    }

    /// Gives back the places of requests that will not complete.
    pub(crate) fn release(&self, count: usize) {
        self.completions.release(count);
    }

    /// For one frame: the oldest requests, as the stream needs them; none if `is_over`. They complete `elsewhere`, if
    /// that is given.
    pub(crate) fn source<'a>(&'a self, elsewhere: Option<&'a CompletionQueue>, is_over: bool) -> Source<'a> {
        Source { queue: self, elsewhere, is_over }
    }
}

/// A [`ReceiveSource`] over a queue that application threads post to meanwhile.
pub(crate) struct Source<'a> {
    queue: &'a ReceiveQueue,
    /// Where what is taken completes, if not where the queue says. Its place moves there, if there is room: without,
    /// it is as if no receive were posted.
    elsewhere: Option<&'a CompletionQueue>,
    /// The queue pair is retired: no receive is taken.
    is_over: bool,
}

impl ReceiveSource for Source<'_> {
    fn take(&mut self) -> Option<ReceiveRequest> {
        let mut waiting = self.queue.waiting.lock();
        if self.is_over || waiting.unpromised() == 0 {
            return None;
        }
        if let Some(elsewhere) = self.elsewhere {
            if !elsewhere.reserve(1) {
                return None;
            }
            self.queue.completions.release(1);
        }
        waiting.pop()
    }

    fn fill_next(&mut self, length: u32, is_promised: bool, fill: impl FnOnce(&Gather) -> bool) -> Option<u64> {
        let mut waiting = self.queue.waiting.lock();
        if self.is_over || self.elsewhere.is_some() || !is_promised && waiting.unpromised() == 0 {
            return None;
        }
        let request = waiting.requests.front()?;
        if length > request.sink.length() || !fill(&request.sink) {
            return None;
        }
        let id = request.id;
        waiting.pop();
        if is_promised {
            waiting.promised = waiting.promised.saturating_sub(1);
        }
        Some(id)
    }

    fn promise(&mut self, wanted: u32) -> u32 {
        let mut waiting = self.queue.waiting.lock();
        let mut count = if self.is_over { 0 } else { waiting.unpromised() };
        if !self.is_generous() {
            count = count.min(wanted as usize);
        }
        if let Some(elsewhere) = self.elsewhere {
            // What is promised has its place there already.
            count = (0..count).take_while(|_| elsewhere.reserve(1)).count();
        }
        waiting.promised += count;
        count as u32
    }

    fn is_generous(&self) -> bool {
        self.queue.serves_one.load(Ordering::Relaxed)
    }

    fn take_promised(&mut self) -> Option<ReceiveRequest> {
        if self.is_over {
            return None;
        }
        let mut waiting = self.queue.waiting.lock();
        let taken = waiting.pop()?;
        waiting.promised = waiting.promised.saturating_sub(1);
        if self.elsewhere.is_some() {
            self.queue.completions.release(1);
        }
        Some(taken)
    }
}
