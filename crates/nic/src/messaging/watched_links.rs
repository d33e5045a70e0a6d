//! Links of which the endpoint waits for something: those that are being opened, and those that have yet to end. Events
//! of their queue pairs report what becomes of them, so that none is polled: what a turn costs does not depend on how
//! many there are.

use std::sync::Arc;

use super::link::Link;
use super::unique_queue::UniqueQueue;
use crate::ids::{LinkKey, State};
use crate::queues::event_channel::{EventChannel, EventSource, Signal};
use crate::queues::event_count::EventCount;

/// The endpoint is attended to in each turn: there is no thread to wake.
struct NoSignal;

impl Signal for NoSignal {
    fn set(&self) {}
    fn clear(&self) {}
}

/// Links that are watched.
pub(super) struct WatchedLinks {
    all: UniqueQueue<LinkKey>,
    /// The events of their queue pairs.
    events: Arc<EventChannel>,
    /// Those for which a packet has come, or that had been established or failed before they could report it.
    noted: UniqueQueue<LinkKey>,
}

impl WatchedLinks {
    pub(super) fn new(event_count: &Arc<EventCount>) -> Self {
        let events = Arc::new(EventChannel::new(Arc::new(NoSignal), Arc::clone(event_count)));
        Self { all: UniqueQueue::default(), events, noted: UniqueQueue::default() }
    }

    /// One more, which is being opened. Its events so far are reported.
    pub(super) fn add(&mut self, link: &Link) {
        self.watch(link);
        if !matches!(link.queue_pair.state(), State::Idle | State::Connecting) {
            self.noted.push(link.key);
        }
    }

    /// One more that is established, and of which a packet or its end is awaited.
    pub(super) fn keep(&mut self, link: &Link) {
        self.watch(link);
        if link.queue_pair.state().has_ended() {
            self.noted.push(link.key);
        }
    }

    fn watch(&mut self, link: &Link) {
        self.all.push(link.key);
        link.queue_pair.set_events(Some(Arc::new(EventSource::new(&self.events, u64::from(link.key.0)))));
    }

    /// It is watched no more.
    pub(super) fn remove(&mut self, key: LinkKey, link: Option<&Link>) {
        if self.all.remove(key)
            && let Some(link) = link
        {
            link.queue_pair.set_events(None);
        }
        self.noted.remove(key);
    }

    /// A packet has come, perhaps for one of them.
    pub(super) fn note_packet(&mut self, key: LinkKey) {
        if self.all.contains(key) {
            self.noted.push(key);
        }
    }

    /// One to be attended to, whether or not it has an event.
    pub(super) fn note(&mut self, key: LinkKey) {
        self.all.push(key);
        self.noted.push(key);
    }

    /// Whether something has become of one of them.
    pub(super) fn have_news(&self) -> bool {
        !self.all.is_empty() && (!self.noted.is_empty() || !self.events.is_empty())
    }

    /// One of which something has become.
    pub(super) fn take_news(&mut self) -> Option<LinkKey> {
        self.noted.pop().or_else(|| {
            // Links that were given up may still report their end.
            let key = || self.events.take().map(|event| LinkKey(event.token as u32));
            core::iter::from_fn(key).find(|key| self.all.contains(*key))
        })
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = LinkKey> {
        self.all.iter()
    }
}

#[cfg(test)]
mod tests {
    use weft_base::{DomainId, PeerId};
    use weft_memory::{Limits, Registry};
    use weft_message::Settings;

    use super::super::link::Parts;
    use super::super::phase::Phase;
    use super::*;
    use crate::queues::completion_queue::CompletionQueue;

    fn link(number: u32, event_count: &Arc<EventCount>, registry: &Registry, domain: DomainId) -> Link {
        let settings = Settings::default();
        let completions = Arc::new(CompletionQueue::growing(1 << 20, Arc::clone(event_count)));
        let parts = Parts {
            id: 1,
            endpoint: 0,
            registry,
            domain,
            completions: &completions,
            event_count,
            is_guarded: false,
            settings: &settings,
        };
        Link::new(PeerId(number), LinkKey(number), Phase::Opening(0), &parts).unwrap()
    }

    #[test]
    fn only_those_are_taken_of_which_something_has_become_whatever_number_there_is() {
        for count in [3, 300] {
            let event_count = Arc::new(EventCount::default());
            let registry = Registry::new(7, Limits::default());
            let domain = registry.allocate_domain().unwrap();
            let mut openings = WatchedLinks::new(&event_count);
            let links: Vec<_> = (0..count).map(|number| link(number, &event_count, &registry, domain)).collect();
            links.iter().for_each(|link| openings.add(link));
            assert!(!openings.have_news() && openings.take_news().is_none());
            // One has ended, one was given up before it ended, and one has a packet. An established one gets one as
            // well.
            links[1].queue_pair.finish(&registry, None);
            openings.remove(LinkKey(0), Some(&links[0]));
            links[0].queue_pair.finish(&registry, None);
            openings.note_packet(LinkKey(2));
            openings.note_packet(LinkKey(0));
            assert!(openings.have_news());
            let mut taken: Vec<_> = core::iter::from_fn(|| openings.take_news()).map(|key| key.0).collect();
            taken.sort_unstable();
            assert_eq!(taken, [1, 2], "of {count}");
            assert!(!openings.have_news());
            // Its events before it was added are not lost. One that waits for a packet has none yet.
            openings.remove(LinkKey(1), Some(&links[1]));
            openings.keep(&links[2]);
            assert_eq!(openings.take_news(), None);
            openings.add(&links[1]);
            assert_eq!(openings.take_news(), Some(LinkKey(1)));
        }
    }
    #[test]
    fn a_turn_takes_those_that_have_ended_whatever_number_has_not() {
        for count in [10, 1000] {
            let event_count = Arc::new(EventCount::default());
            let registry = Registry::new(7, Limits::default());
            let domain = registry.allocate_domain().unwrap();
            let mut ending = WatchedLinks::new(&event_count);
            let links: Vec<_> = (0..count).map(|number| link(number, &event_count, &registry, domain)).collect();
            links.iter().for_each(|link| ending.keep(link));
            links[7].queue_pair.finish(&registry, None);
            let (before, mut turns) = (ending.all.steps(), 0);
            while ending.have_news() {
                assert_eq!(ending.take_news(), Some(LinkKey(7)));
                ending.remove(LinkKey(7), Some(&links[7]));
                turns += 1;
            }
            let steps = ending.all.steps() - before;
            assert!(turns == 1 && steps <= 8, "{turns} turns, {steps} steps, {count} links");
        }
    }
}
