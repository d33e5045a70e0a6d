//! Asynchronous events of an open device, and how many of an object's events the program has not acknowledged.

use core::ffi::{c_int, c_void};
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};

use crate::abi::ibv_async_event;
use crate::border::lock;
use crate::errno::Errno;
use crate::semaphore::Semaphore;

/// Most events that wait to be read. Further ones are dropped, as adapters do.
const MOST: usize = 4096;

/// An event, with the address of the C object that it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) kind: c_int,
    pub(crate) object: usize,
}

/// Events that wait to be read.
pub(crate) struct AsyncEvents {
    semaphore: Semaphore,
    waiting: Mutex<VecDeque<Event>>,
}

impl AsyncEvents {
    pub(crate) fn new() -> Result<Self, Errno> {
        Ok(Self { semaphore: Semaphore::new()?, waiting: Mutex::default() })
    }

    /// The descriptor that a program polls.
    pub(crate) fn descriptor(&self) -> c_int {
        self.semaphore.number()
    }

    /// An event about the C object at this address.
    pub(crate) fn push(&self, kind: c_int, object: usize) {
        let mut waiting = lock(&self.waiting);
        if waiting.len() < MOST {
            waiting.push_back(Event { kind, object });
            self.semaphore.raise();
        }
    }

    /// Takes the oldest, after the descriptor was read, and has `count` note that its object owes an acknowledgment:
    /// who destroys the object withdraws the event, or waits for that. `None`: it was withdrawn meanwhile.
    pub(crate) fn take(&self, count: impl FnOnce(Event)) -> Option<Event> {
        let mut waiting = lock(&self.waiting);
        let event = waiting.pop_front()?;
        count(event);
        Some(event)
    }

    /// The object goes: its events that were not read go too.
    pub(crate) fn withdraw(&self, object: usize) {
        let mut waiting = lock(&self.waiting);
        let before = waiting.len();
        waiting.retain(|event| event.object != object);
        (waiting.len()..before).for_each(|_| self.semaphore.lower());
    }
}

impl Event {
    /// As C has it.
    pub(crate) fn to_c(self) -> ibv_async_event {
        ibv_async_event {
            element: core::ptr::with_exposed_provenance_mut::<c_void>(self.object),
            event_type: self.kind,
        }
    }
}

/// Events of an object that the program has got and not acknowledged.
#[derive(Debug, Default)]
pub(crate) struct Acknowledgments {
    /// Got, less acknowledged. A program may acknowledge more than it got.
    owed: Mutex<i64>,
    fewer: Condvar,
}

impl Acknowledgments {
    /// The program gets one.
    pub(crate) fn got(&self) {
        *lock(&self.owed) += 1;
    }

    /// The program acknowledges some.
    pub(crate) fn acknowledge(&self, count: u32) {
        *lock(&self.owed) -= i64::from(count);
        self.fewer.notify_all();
    }

    /// Waits until the program has acknowledged all that it has got.
    pub(crate) fn wait(&self) {
        let mut owed = lock(&self.owed);
        while *owed > 0 {
            owed = self.fewer.wait(owed).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_an_object_that_goes_are_withdrawn() {
        let events = AsyncEvents::new().unwrap();
        for (kind, object) in [(1, 10), (2, 20), (3, 10)] {
            events.push(kind, object);
        }
        events.withdraw(10);
        assert!(crate::semaphore::wait(events.descriptor()));
        let mut counted = None;
        assert_eq!(events.take(|event| counted = Some(event)), Some(Event { kind: 2, object: 20 }));
        assert_eq!(counted, Some(Event { kind: 2, object: 20 }));
        assert_eq!(events.take(|_| ()), None);
        // SAFETY: An own descriptor.
        unsafe { libc::fcntl(events.descriptor(), libc::F_SETFL, libc::O_NONBLOCK) };
        assert!(!crate::semaphore::wait(events.descriptor()), "the descriptor is readable without an event");
    }

    #[test]
    fn more_acknowledgments_than_events_hold_nothing_up() {
        let acknowledgments = Acknowledgments::default();
        acknowledgments.got();
        acknowledgments.acknowledge(5);
        acknowledgments.wait();
    }
}
