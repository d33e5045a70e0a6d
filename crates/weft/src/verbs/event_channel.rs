//! Event channels: one descriptor for connections, queues and listeners.

use core::fmt;
use core::time::Duration;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use weft_driver::{EventFd, WaitSet};
use weft_nic::{ChannelEvent, Error, EventChannel as NicEventChannel, EventSource, Signal};

use super::opened::{HandedOver, Opened};

/// Where events of listeners, queue pairs, shared receive queues and completion queues are read, in the order in which
/// they came. Clones are the same channel.
///
/// One thread can so accept and connect for thousands of queue pairs without a call that blocks:
/// [`Listener::set_events`](super::Listener::set_events), [`QueuePair::set_events`](super::QueuePair::set_events),
/// [`SharedReceiveQueue::set_events`](super::SharedReceiveQueue::set_events) and
/// [`Context::create_completion_queue_on`](super::Context::create_completion_queue_on) say where events go, and under
/// which number, the token, they are reported. What is dropped has no more events, those included that were not read.
///
/// The descriptor ([`AsFd`]) is readable as long as there is an event. The loop of a thread that sleeps on it:
/// [`EventChannel::arm`], [`EventChannel::poll`] until nothing is left, wait for the descriptor, and again.
///
/// # Memory
/// A channel keeps at most one event of a kind of each source, in places that are allocated when the source is
/// attached. So it can't overflow, and [`EventKind`](super::EventKind) says which events stand for several occurrences.
#[derive(Clone)]
pub struct EventChannel {
    channel: Arc<NicEventChannel>,
    /// The event, and the network where no thread of the NIC sees to it.
    descriptor: Arc<WaitSet>,
    handed_over: Arc<HandedOver>,
    opened: Arc<Opened>,
}

/// The descriptor of a channel.
struct Readable(EventFd);

impl Signal for Readable {
    fn set(&self) {
        self.0.signal();
    }

    fn clear(&self) {
        self.0.drain();
    }
}

impl EventChannel {
    pub(super) fn new(opened: Arc<Opened>) -> Result<Self, Error> {
        let readable = Arc::new(Readable(EventFd::new()?));
        let signal = Arc::clone(&readable) as Arc<dyn Signal>;
        Self::with_signal(opened, signal, &readable.0)
    }

    /// One that sets `signal` while it has an event, which makes a descriptor readable.
    pub(crate) fn with_signal(
        opened: Arc<Opened>,
        signal: Arc<dyn Signal>,
        readable: &impl AsFd,
    ) -> Result<Self, Error> {
        let descriptor = WaitSet::new()?;
        descriptor.add(readable, 0)?;
        if !opened.nic.settings().progress.is_automatic() {
            descriptor.add(&opened.network, 1)?;
        }
        let channel = opened.nic.create_event_channel(signal)?;
        Ok(Self { channel, descriptor: Arc::new(descriptor), handed_over: Arc::default(), opened })
    }

    /// A source of events of this NIC.
    pub(super) fn source(&self, opened: &Arc<Opened>, token: u64) -> Result<Arc<EventSource>, Error> {
        opened.here()?;
        if !Arc::ptr_eq(opened, &self.opened) {
            return Err(Error::OtherNic);
        }
        Ok(Arc::new(EventSource::new(&self.channel, token)))
    }

    pub(super) fn descriptor(&self) -> Arc<WaitSet> {
        Arc::clone(&self.descriptor)
    }

    pub(super) fn handed_over(&self) -> Arc<HandedOver> {
        Arc::clone(&self.handed_over)
    }

    /// Whether there is no event to be polled. Does no work of the NIC. Yes in a child by fork.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.opened.nic.is_owner_process() || self.channel.is_empty()
    }

    /// Takes the oldest event, if there is one, and runs the NIC for a turn if there is none, unless
    /// [`EventChannel::arm`] has just handed it over.
    #[must_use]
    pub fn poll(&self) -> Option<ChannelEvent> {
        if let Some(event) = self.take() {
            return Some(event);
        }
        if !self.opened.stays_handed_over(&self.handed_over) {
            self.opened.nic.progress_as_caller();
        }
        self.take()
    }

    /// Waits for the next event, at most for `timeout` (`None`: for ever). Does not wait in a callback.
    #[must_use]
    pub fn wait(&self, timeout: Option<Duration>) -> Option<ChannelEvent> {
        self.opened.wait_for(timeout, || self.take())
    }

    /// The calling thread is about to sleep on the descriptor: poll until nothing is left, then sleep.
    ///
    /// With [`Progress::Hybrid`](super::Progress::Hybrid) it hands the NIC over to its own thread. After that the
    /// first empty poll leaves the NIC to that thread (and hands it over again if a post has taken it back); the second
    /// empty poll takes it back, because a caller that polls again does not sleep.
    ///
    /// With [`Progress::Caller`](super::Progress::Caller) no thread runs the NIC meanwhile, so the descriptor also
    /// becomes readable when any connection of the NIC has something to do: polling then may find nothing. Time-outs of
    /// the NIC count only while it is run.
    pub fn arm(&self) {
        self.opened.hand_over(&self.handed_over);
    }

    /// The oldest event. Nothing in a child by fork: a thread that is not there may hold the lock.
    fn take(&self) -> Option<ChannelEvent> {
        if self.opened.nic.is_owner_process() { self.channel.take() } else { None }
    }
}

impl AsFd for EventChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl fmt::Debug for EventChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventChannel").finish_non_exhaustive()
    }
}
