//! Completion queues.

use core::fmt;
use core::time::Duration;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use weft_driver::{EventFd, WaitSet};
#[cfg(doc)]
use weft_nic::Progress;
use weft_nic::{Arm, CompletionQueue as NicCompletionQueue, Error, EventSource, WorkCompletion};
use weft_rdmap::Status;

use super::event_channel::EventChannel;
use super::opened::{HandedOver, Opened};

/// Where finished work requests are reported, in order. Clones are the same queue.
///
/// [`CompletionQueue::poll`] polls; [`CompletionQueue::wait`] waits; [`CompletionQueue::as_fd`](AsFd::as_fd) with
/// [`CompletionQueue::arm`] waits beside other descriptors, in a poll loop of the application's own.
#[derive(Clone)]
pub struct CompletionQueue {
    queue: Arc<NicCompletionQueue>,
    event: Option<Arc<EventFd>>,
    /// Its events, and the network where no thread of the NIC sees to it.
    descriptor: Arc<WaitSet>,
    /// Dropped with the last clone.
    _on_channel: Option<Arc<OnChannel>>,
    handed_over: Arc<HandedOver>,
    opened: Arc<Opened>,
}

/// The place of a queue in a channel, as long as a clone of it is there.
struct OnChannel {
    source: Arc<EventSource>,
    opened: Arc<Opened>,
}

impl Drop for OnChannel {
    fn drop(&mut self) {
        if self.opened.nic.is_owner_process() {
            self.source.withdraw();
        }
    }
}

impl CompletionQueue {
    pub(super) fn new(opened: Arc<Opened>, queue: Arc<NicCompletionQueue>) -> Result<Self, Error> {
        let event = Arc::new(EventFd::new()?);
        queue.set_event(Arc::clone(&event) as Arc<dyn weft_base::Waker>);
        let descriptor = WaitSet::new()?;
        descriptor.add(&*event, 0)?;
        if !opened.nic.settings().progress.is_automatic() {
            descriptor.add(&opened.network, 1)?;
        }
        let (descriptor, handed_over) = (Arc::new(descriptor), Arc::default());
        Ok(Self { queue, event: Some(event), _on_channel: None, descriptor, handed_over, opened })
    }

    /// One whose events are read from a channel.
    pub(super) fn on(
        opened: Arc<Opened>,
        queue: Arc<NicCompletionQueue>,
        channel: &EventChannel,
        token: u64,
    ) -> Result<Self, Error> {
        let source = channel.source(&opened, token)?;
        queue.set_event(Arc::clone(&source) as Arc<dyn weft_base::Waker>);
        let _on_channel = Some(Arc::new(OnChannel { source, opened: Arc::clone(&opened) }));
        let (descriptor, handed_over) = (channel.descriptor(), channel.handed_over());
        Ok(Self { queue, event: None, _on_channel, descriptor, handed_over, opened })
    }

    /// One that keeps nothing, and has no events.
    pub(super) fn sink(opened: Arc<Opened>, queue: Arc<NicCompletionQueue>) -> Result<Self, Error> {
        let descriptor = opened.no_events()?;
        Ok(Self { queue, event: None, _on_channel: None, descriptor, handed_over: Arc::default(), opened })
    }

    pub(super) fn shared(&self) -> Arc<NicCompletionQueue> {
        Arc::clone(&self.queue)
    }

    /// How many completions it has room for.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.queue.capacity()
    }

    /// Whether there is no completion to be polled. Does no work of the NIC.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Takes the oldest completion, if there is one, and runs the NIC for a turn if there is none, unless
    /// [`CompletionQueue::arm`] has just handed it over.
    pub fn poll(&self) -> Option<WorkCompletion> {
        if let Some(completion) = self.take() {
            return Some(completion);
        }
        if !self.opened.stays_handed_over(&self.handed_over) {
            self.progress();
        }
        self.take()
    }

    /// Takes up to `most` of the oldest completions and appends them to `out`, and runs the NIC as
    /// [`CompletionQueue::poll`] does. Returns how many.
    pub fn poll_into(&self, out: &mut Vec<WorkCompletion>, most: usize) -> usize {
        if !self.opened.nic.is_owner_process() {
            return 0;
        }
        let count = self.queue.take_into(out, most);
        if count > 0 {
            return count;
        }
        if !self.opened.stays_handed_over(&self.handed_over) {
            self.progress();
        }
        self.queue.take_into(out, most)
    }

    /// Waits for the next completion, at most for `timeout` (`None`: for ever). Does not wait in a callback.
    pub fn wait(&self, timeout: Option<Duration>) -> Option<WorkCompletion> {
        self.opened.wait_for(timeout, || self.take())
    }

    /// Takes completions until one is `wanted`, and returns that one. The others are dropped; the first that failed
    /// ends the wait.
    ///
    /// # Errors
    /// A completion failed, or the wanted one did not come within `timeout` (`None`: for ever).
    pub fn wait_for(
        &self,
        mut wanted: impl FnMut(&WorkCompletion) -> bool,
        timeout: Option<Duration>,
    ) -> Result<WorkCompletion, WaitError> {
        loop {
            let completion = self.wait(timeout).ok_or(WaitError::TimedOut(timeout.unwrap_or_default()))?;
            if completion.status != Status::Success {
                return Err(WaitError::Failed(completion));
            }
            if wanted(&completion) {
                return Ok(completion);
            }
        }
    }

    /// Asks that the descriptor becomes readable at the next completion of this kind. Completions that are there
    /// already don't count: poll until nothing is left after arming, then wait for the descriptor, then call
    /// [`CompletionQueue::acknowledge`], poll until nothing is left, and arm again.
    ///
    /// The event of a queue on a channel is [`EventKind::Completions`](super::EventKind::Completions) there.
    ///
    /// With [`Progress::Hybrid`] arming hands the NIC over to its own thread. The first poll after that which finds
    /// nothing leaves it there, or hands it over again if a post has taken it back; the next one takes it back, for a
    /// thread that polls again does not sleep.
    ///
    /// With [`Progress::Caller`] no thread runs the NIC while its only thread sleeps, so the descriptor also becomes
    /// readable when any connection of the NIC has something to do: polling then may find nothing. Time-outs of the NIC
    /// count only while it is run.
    pub fn arm(&self, arm: Arm) {
        self.queue.arm(arm);
        self.opened.hand_over(&self.handed_over);
    }

    /// Makes the descriptor unreadable until the next event. Does nothing for a queue on a channel, whose descriptor is
    /// that of the channel: take its event from there.
    pub fn acknowledge(&self) {
        if let Some(event) = self.event.as_ref().filter(|_| self.opened.nic.is_owner_process()) {
            event.drain();
        }
    }

    /// The oldest completion. Nothing in a child by fork: the queue is its parent's, and a thread that is not here may
    /// hold its lock.
    fn take(&self) -> Option<WorkCompletion> {
        if self.opened.nic.is_owner_process() { self.queue.take() } else { None }
    }

    fn progress(&self) {
        self.opened.nic.progress_as_caller();
    }
}

impl AsFd for CompletionQueue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl fmt::Debug for CompletionQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.queue.fmt(f)
    }
}

/// Why [`CompletionQueue::wait_for`] did not find what was wanted.
#[derive(Clone, Debug)]
pub enum WaitError {
    /// It did not come in time.
    TimedOut(Duration),
    /// A work request failed.
    Failed(WorkCompletion),
}

impl fmt::Display for WaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TimedOut(after) => write!(f, "no completion within {after:?}"),
            Self::Failed(completion) => {
                write!(f, "work request {} ({:?}) failed: {}", completion.id, completion.kind, completion.status)
            }
        }
    }
}

impl std::error::Error for WaitError {}
