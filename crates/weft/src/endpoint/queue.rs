//! Where completions of endpoints are read.

use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use weft_base::Waker;
use weft_driver::{EventFd, WaitSet};
use weft_lock::{Entered, Rank};
use weft_nic::{Completions, EndpointFailure, Event};

use crate::verbs::{Context, Error, HandedOver, Opened};

/// A queue of completions, for one endpoint or several of one NIC. Clones are the same queue.
#[derive(Clone)]
pub struct EventQueue {
    inner: Arc<Inner>,
}

struct Inner {
    events: Mutex<VecDeque<Event>>,
    armed: AtomicBool,
    handed_over: HandedOver,
    event: EventFd,
    /// What is woken at each completion.
    waker: OnceLock<Arc<dyn Waker>>,
    /// The event, and the network where no thread of the NIC sees to it.
    descriptor: WaitSet,
    opened: Arc<Opened>,
}

impl EventQueue {
    /// Makes a queue for endpoints of this NIC.
    ///
    /// # Errors
    /// No more descriptors.
    pub fn new(context: &Context) -> Result<Self, Error> {
        let opened = Arc::clone(&context.opened);
        let event = EventFd::new()?;
        let descriptor = WaitSet::new()?;
        descriptor.add(&event, 0)?;
        if !opened.nic.settings().progress.is_automatic() {
            descriptor.add(&opened.network, 1)?;
        }
        let events = Mutex::new(VecDeque::with_capacity(64));
        let (armed, handed_over) = (AtomicBool::new(false), HandedOver::default());
        let waker = OnceLock::new();
        Ok(Self { inner: Arc::new(Inner { events, armed, handed_over, event, waker, descriptor, opened }) })
    }

    /// Whether there is no completion to be polled. Does no work of the NIC. Yes in a child by fork.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.inner.opened.nic.is_owner_process() || self.inner.events().1.is_empty()
    }

    /// Takes the oldest completion, if there is one, and runs the NIC for a turn if there is none, unless
    /// [`EventQueue::arm`] has just handed it over.
    #[must_use]
    pub fn poll(&self) -> Option<Event> {
        if let Some(event) = self.take() {
            return Some(event);
        }
        if !self.inner.opened.stays_handed_over(&self.inner.handed_over) {
            self.inner.opened.nic.progress_as_caller();
        }
        self.take()
    }

    /// Waits for the next completion, at most for `timeout` (`None`: for ever). In a callback
    /// ([`Completions::complete`]) it does not wait.
    #[must_use]
    pub fn wait(&self, timeout: Option<Duration>) -> Option<Event> {
        let mut taken = self.take();
        if taken.is_none() {
            self.inner.opened.nic.wait_until(timeout, || {
                taken = self.take();
                taken.is_some()
            });
        }
        taken
    }

    /// Takes completions until one is `wanted`, and returns that one. The others are dropped; the first that failed
    /// ends the wait.
    ///
    /// # Errors
    /// A request failed, or the wanted completion did not come within `timeout` (`None`: for ever).
    pub fn wait_for(
        &self,
        mut wanted: impl FnMut(&Event) -> bool,
        timeout: Option<Duration>,
    ) -> Result<Event, EventError> {
        loop {
            let event = self.wait(timeout).ok_or(EventError::TimedOut(timeout.unwrap_or_default()))?;
            if let Err(failure) = &event.outcome {
                return Err(EventError::Failed { context: event.context, failure: failure.clone() });
            }
            if wanted(&event) {
                return Ok(event);
            }
        }
    }

    /// Asks that the descriptor becomes readable at the next completion. Completions that are there already don't
    /// count: poll until nothing is left after arming, then wait for the descriptor, then call
    /// [`EventQueue::acknowledge`], poll until nothing is left, and arm again.
    ///
    /// Arming hands the NIC over to its own thread, where it has one. The first poll after that which finds nothing
    /// leaves it there, or hands it over again if a request has taken it back; the next one takes it back, for a thread
    /// that polls again does not sleep.
    pub fn arm(&self) {
        self.inner.armed.store(true, Ordering::SeqCst);
        self.inner.opened.hand_over(&self.inner.handed_over);
    }

    /// Has `waker` woken behind each completion, in a callback ([`Completions::complete`]) of the thread that runs the
    /// NIC. It can be set once: returns whether it was the first.
    pub fn on_completion(&self, waker: Arc<dyn Waker>) -> bool {
        self.inner.waker.set(waker).is_ok()
    }

    /// Makes the descriptor unreadable until the next event.
    pub fn acknowledge(&self) {
        if self.inner.opened.nic.is_owner_process() {
            self.inner.event.drain();
        }
    }

    /// The oldest completion. Nothing in a child by fork: a thread that is not there may hold the lock.
    pub(crate) fn take(&self) -> Option<Event> {
        if self.inner.opened.nic.is_owner_process() { self.inner.events().1.pop_front() } else { None }
    }
}

impl Inner {
    /// Nothing panics while it is locked, so it is always good.
    fn events(&self) -> (Entered, MutexGuard<'_, VecDeque<Event>>) {
        (Rank::EventQueue.enter(), self.events.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Completions for EventQueue {
    fn complete(&self, event: Event) {
        self.inner.events().1.push_back(event);
        if self.inner.armed.swap(false, Ordering::SeqCst) {
            self.inner.event.wake();
        }
        if let Some(waker) = self.inner.waker.get() {
            waker.wake();
        }
    }
}

impl AsFd for EventQueue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.descriptor.as_fd()
    }
}

impl fmt::Debug for EventQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventQueue").finish_non_exhaustive()
    }
}

/// Why [`EventQueue::wait_for`] did not find what was wanted.
#[derive(Clone, Debug)]
pub enum EventError {
    /// It did not come in time.
    TimedOut(Duration),
    /// A request failed.
    Failed {
        /// Its context.
        context: u64,
        /// Why.
        failure: EndpointFailure,
    },
}

impl fmt::Display for EventError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TimedOut(after) => write!(f, "no completion within {after:?}"),
            Self::Failed { context, failure } => write!(f, "request {context} failed: {failure}"),
        }
    }
}

impl core::error::Error for EventError {}
