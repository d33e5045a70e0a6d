//! Event channels: what happens to connections and queues, for a thread that waits for many of them at once.
//!
//! A channel keeps at most one event of a kind for each source, so its memory is bounded by what is attached to it,
//! whether it is read or not. That is why the kinds that may come often ([`EventKind::Requested`],
//! [`EventKind::Refused`], [`EventKind::Full`], [`EventKind::Completions`]) cover all that has happened until they are
//! taken.

use core::fmt;
use core::sync::atomic::{AtomicU16, Ordering};
use std::collections::VecDeque;
use std::sync::Arc;

use weft_base::Waker;
use weft_lock::{Mutex, Rank};

use crate::error::{ConnectionError, Error};
use crate::queues::event_count::EventCount;

/// An event, and which source it is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelEvent {
    /// The number under which the source was attached.
    pub token: u64,
    /// What has happened.
    pub kind: EventKind,
}

/// What has happened to a source of events.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventKind {
    /// Listener: connections wait to be accepted. One event covers all that wait when it is taken: accept until there
    /// is none.
    Requested,
    /// Listener: callers have failed, or were refused, before they were accepted. [`crate::Listener::take_refused`]
    /// returns them, with the reasons.
    Refused,
    /// Listener: it has taken its last place. Further callers wait in the operating system, or call again, until a
    /// connection is accepted or rejected. One that has sent nothing for a second makes way.
    Full {
        /// Connections that may begin or wait to be accepted.
        backlog: usize,
    },
    /// Listener: it has failed, and takes no more callers.
    ListenerFailed(Error),
    /// Queue pair: its connection is established, and requests may be posted.
    Established,
    /// Queue pair: no connection came about.
    NotConnected(ConnectionError),
    /// Queue pair: its connection was closed in order, by either side.
    Disconnected,
    /// Queue pair: it has entered the error state. What was posted is flushed.
    Failed(ConnectionError),
    /// Queue pair with a shared receive queue: it has ended, and takes no more receives from there. All completions of
    /// those that it took are in the completion queue.
    LastReceive,
    /// Shared receive queue: fewer receives are left than its low-water mark, which is reset by this event.
    ReceivesLow {
        /// The mark that was set.
        low_water: usize,
    },
    /// Completion queue: it was armed, and a completion of that kind has come.
    Completions,
}

impl EventKind {
    const fn bit(&self) -> u16 {
        let number = match self {
            Self::Requested => 0,
            Self::Refused => 1,
            Self::Full { .. } => 2,
            Self::ListenerFailed(_) => 3,
            Self::Established => 4,
            Self::NotConnected(_) => 5,
            Self::Disconnected => 6,
            Self::Failed(_) => 7,
            Self::LastReceive => 8,
            Self::ReceivesLow { .. } => 9,
            Self::Completions => 10,
        };
        1 << number
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Requested => f.write_str("a connection waits to be accepted"),
            Self::Refused => f.write_str("a caller was refused before it was accepted; the listener has the reason"),
            Self::Full { backlog } => {
                write!(f, "the listener is full: {backlog} connections begin or wait to be accepted; accept or reject")
            }
            Self::ListenerFailed(error) => write!(f, "the listener has failed: {error}"),
            Self::Established => f.write_str("the connection is established"),
            Self::NotConnected(error) => write!(f, "not connected: {error}"),
            Self::Disconnected => f.write_str("the connection was closed"),
            Self::Failed(error) => write!(f, "the connection has failed: {error}"),
            Self::LastReceive => f.write_str("the queue pair takes no more receives from its shared receive queue"),
            Self::ReceivesLow { low_water } => {
                write!(f, "fewer than {low_water} receives are left in the shared receive queue; post more")
            }
            Self::Completions => f.write_str("completions have come"),
        }
    }
}

/// What a thread sleeps on that waits for a channel: a descriptor that is readable while it is set.
///
/// Both are called under the lock of the channel, so that it is set exactly while there is an event: they only change
/// the descriptor.
pub trait Signal: Send + Sync {
    /// There is an event now.
    fn set(&self);
    /// There is none any more.
    fn clear(&self);
}

/// Where events of many sources are read, in the order in which they came.
pub struct EventChannel {
    waiting: Mutex<Waiting>,
    signal: Arc<dyn Signal>,
    event_count: Arc<EventCount>,
}

#[derive(Default)]
struct Waiting {
    entries: VecDeque<Entry>,
    /// Places for all that the sources may have waiting, so that no event allocates.
    places: usize,
}

struct Entry {
    told: Arc<AtomicU16>,
    event: ChannelEvent,
}

/// Kinds of events that a source may have waiting together: a listener has the most.
const PLACES: usize = 4;
/// The source is gone, and has no more events.
const GONE: u16 = 1 << 15;

impl EventChannel {
    pub(crate) fn new(signal: Arc<dyn Signal>, event_count: Arc<EventCount>) -> Self {
        Self { waiting: Mutex::new(Rank::NicEvents, Waiting::default()), signal, event_count }
    }

    /// Whether no event waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.lock().entries.is_empty()
    }

    /// Takes the oldest event.
    pub fn take(&self) -> Option<ChannelEvent> {
        let mut waiting = self.waiting.lock();
        let Entry { told, event } = waiting.entries.pop_front()?;
        told.fetch_and(!event.kind.bit(), Ordering::Relaxed);
        if waiting.entries.is_empty() {
            self.signal.clear();
        }
        Some(event)
    }

    fn push(&self, source: &EventSource, kind: EventKind) {
        let mut waiting = self.waiting.lock();
        let bit = kind.bit();
        // Under the lock alone, so that no order is needed.
        if source.told.fetch_or(bit, Ordering::Relaxed) & (bit | GONE) != 0 {
            return;
        }
        let event = ChannelEvent { token: source.token, kind };
        waiting.entries.push_back(Entry { told: Arc::clone(&source.told), event });
        if waiting.entries.len() == 1 {
            self.signal.set();
        }
        drop(waiting);
        self.event_count.turn();
    }

    fn withdraw(&self, source: &EventSource) {
        let mut waiting = self.waiting.lock();
        let before = source.told.swap(GONE, Ordering::Relaxed);
        if before & GONE != 0 {
            return;
        }
        waiting.places -= PLACES;
        if before == 0 {
            return;
        }
        waiting.entries.retain(|entry| !Arc::ptr_eq(&entry.told, &source.told));
        if waiting.entries.is_empty() {
            self.signal.clear();
        }
    }
}

impl fmt::Debug for EventChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventChannel").field("waiting", &self.waiting.lock().entries.len()).finish_non_exhaustive()
    }
}

/// Where a listener, a queue pair, a shared receive queue or a completion queue reports its events: a channel, under a
/// number. When woken, it reports [`EventKind::Completions`].
#[derive(Debug)]
pub struct EventSource {
    channel: Arc<EventChannel>,
    token: u64,
    /// The kinds that wait in the channel. Changes under the channel's lock alone.
    told: Arc<AtomicU16>,
}

impl EventSource {
    /// One whose events bear this number.
    #[must_use]
    pub fn new(channel: &Arc<EventChannel>, token: u64) -> Self {
        let mut waiting = channel.waiting.lock();
        waiting.places += PLACES;
        let missing = waiting.places - waiting.entries.len().min(waiting.places);
        waiting.entries.reserve(missing);
        drop(waiting);
        Self { channel: Arc::clone(channel), token, told: Arc::new(AtomicU16::new(0)) }
    }

    pub(crate) fn tell(&self, kind: EventKind) {
        self.channel.push(self, kind);
    }

    /// It has no more events, and those that were not taken are dropped.
    pub fn withdraw(&self) {
        self.channel.withdraw(self);
    }
}

impl Waker for EventSource {
    fn wake(&self) {
        self.tell(EventKind::Completions);
    }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::AtomicBool;

    use super::*;

    #[derive(Default)]
    struct Flag(AtomicBool);

    impl Signal for Flag {
        fn set(&self) {
            assert!(!self.0.swap(true, Ordering::Relaxed), "it is set when the first event comes");
        }

        fn clear(&self) {
            assert!(self.0.swap(false, Ordering::Relaxed), "it is cleared when the last event goes");
        }
    }

    fn channel() -> (Arc<EventChannel>, Arc<Flag>) {
        let flag = Arc::new(Flag::default());
        let signal = Arc::clone(&flag) as Arc<dyn Signal>;
        (Arc::new(EventChannel::new(signal, Arc::new(EventCount::default()))), flag)
    }

    fn event(token: u64, kind: EventKind) -> Option<ChannelEvent> {
        Some(ChannelEvent { token, kind })
    }

    #[test]
    fn it_is_set_exactly_while_there_is_an_event_and_keeps_one_of_a_kind() {
        let (channel, flag) = channel();
        let (one, two) = (EventSource::new(&channel, 1), EventSource::new(&channel, 2));
        assert!(channel.is_empty() && channel.take().is_none() && !flag.0.load(Ordering::Relaxed));
        one.tell(EventKind::Requested);
        two.wake();
        one.tell(EventKind::Requested);
        one.tell(EventKind::Full { backlog: 3 });
        assert!(flag.0.load(Ordering::Relaxed));
        assert_eq!(channel.take(), event(1, EventKind::Requested));
        // One that was taken comes again.
        one.tell(EventKind::Requested);
        assert_eq!(channel.take(), event(2, EventKind::Completions));
        assert_eq!(channel.take(), event(1, EventKind::Full { backlog: 3 }));
        assert!(flag.0.load(Ordering::Relaxed) && !channel.is_empty());
        assert_eq!(channel.take(), event(1, EventKind::Requested));
        assert_eq!(channel.take(), None);
        assert!(!flag.0.load(Ordering::Relaxed));
    }

    #[test]
    fn a_source_that_goes_takes_its_events_with_it_and_has_no_more() {
        let (channel, flag) = channel();
        let (one, two) = (EventSource::new(&channel, 1), EventSource::new(&channel, 2));
        one.tell(EventKind::Established);
        two.tell(EventKind::Established);
        one.tell(EventKind::Disconnected);
        one.withdraw();
        one.tell(EventKind::LastReceive);
        assert_eq!(channel.take(), event(2, EventKind::Established));
        assert_eq!(channel.take(), None);
        two.tell(EventKind::Disconnected);
        two.withdraw();
        two.withdraw();
        assert!(channel.is_empty() && !flag.0.load(Ordering::Relaxed));
        assert_eq!(channel.waiting.lock().places, 0);
    }

    #[test]
    fn events_find_their_places_reserved() {
        let (channel, _) = channel();
        let sources: Vec<_> = (0..100).map(|token| EventSource::new(&channel, token)).collect();
        let room = channel.waiting.lock().entries.capacity();
        assert!(room >= sources.len() * PLACES);
        for source in &sources {
            source.tell(EventKind::Requested);
            source.tell(EventKind::Refused);
            source.tell(EventKind::Full { backlog: 1 });
            source.tell(EventKind::ListenerFailed(Error::ListenerGone));
        }
        let waiting = channel.waiting.lock();
        assert_eq!((waiting.entries.len(), waiting.entries.capacity()), (sources.len() * PLACES, room));
    }
}
