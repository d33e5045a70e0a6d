//! Tasks that wait for the events of a source.

use core::future::poll_fn;
use core::sync::atomic::{AtomicU64, Ordering};
use core::task::{Poll, Waker};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::verbs::{Context, EventChannel};

/// What a reactor and all that is made from it share.
pub(super) struct Shared {
    pub(super) context: Context,
    pub(super) channel: EventChannel,
    pub(super) slots: Slots,
}

impl Shared {
    pub(super) fn new(context: Context, channel: EventChannel) -> Self {
        Self { context, channel, slots: Slots::default() }
    }
}

/// Tasks that wait, by the tokens of the event channel.
#[derive(Default)]
pub(super) struct Slots {
    next: AtomicU64,
    slots: Mutex<HashMap<u64, Arc<Slot>>>,
}

impl Slots {
    fn add(&self) -> (u64, Arc<Slot>) {
        let token = self.next.fetch_add(1, Ordering::Relaxed);
        let slot = Arc::new(Slot::default());
        lock(&self.slots).insert(token, Arc::clone(&slot));
        (token, slot)
    }

    /// Wakes the tasks that wait for this source.
    pub(super) fn wake(&self, token: u64) {
        let slot = lock(&self.slots).get(&token).cloned();
        if let Some(slot) = slot {
            slot.wake();
        }
    }
}

/// Tasks that wait for one source: one for each [`Waiting`].
#[derive(Default)]
struct Slot {
    wakers: Mutex<Wakers>,
}

#[derive(Default)]
struct Wakers {
    next: u64,
    waiting: Vec<(u64, Waker)>,
}

impl Slot {
    fn wake(&self) {
        // Not under the lock: a waker is code of the runtime.
        let waiting = core::mem::take(&mut lock(&self.wakers).waiting);
        waiting.into_iter().for_each(|(_, waker)| waker.wake());
    }
}

/// A source of events that tasks wait for.
pub(super) struct Source {
    shared: Arc<Shared>,
    token: u64,
    slot: Arc<Slot>,
}

impl Source {
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        let (token, slot) = shared.slots.add();
        Self { shared: Arc::clone(shared), token, slot }
    }

    pub(super) fn token(&self) -> u64 {
        self.token
    }

    /// A place for one task that waits.
    pub(super) fn waiting(&self) -> Waiting {
        let mut wakers = lock(&self.slot.wakers);
        let id = wakers.next;
        wakers.next += 1;
        Waiting { id, slot: Arc::clone(&self.slot) }
    }

    /// Waits until `ask` has an answer. It is called at once, and after each event of this source.
    pub(super) async fn until<R>(&self, mut ask: impl FnMut() -> Option<R>) -> R {
        let waiting = self.waiting();
        poll_fn(|task| {
            // An event that comes during the call wakes the task.
            waiting.set(task.waker());
            let Some(answer) = ask() else {
                // The runtime's thread may sleep next.
                self.shared.channel.arm();
                return Poll::Pending;
            };
            Poll::Ready(answer)
        })
        .await
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        lock(&self.shared.slots.slots).remove(&self.token);
    }
}

/// The place of a task that waits for a source, as long as its future lives.
pub(super) struct Waiting {
    id: u64,
    slot: Arc<Slot>,
}

impl Waiting {
    /// The task to wake at the next event.
    pub(super) fn set(&self, waker: &Waker) {
        let mut wakers = lock(&self.slot.wakers);
        match wakers.waiting.iter_mut().find(|(id, _)| *id == self.id) {
            Some((_, known)) => known.clone_from(waker),
            None => wakers.waiting.push((self.id, waker.clone())),
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        lock(&self.slot.wakers).waiting.retain(|(id, _)| *id != self.id);
    }
}

/// Nothing panics while one of these is locked, so it is always good.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::AtomicUsize;
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn place(slot: &Arc<Slot>, id: u64) -> Waiting {
        Waiting { id, slot: Arc::clone(slot) }
    }

    #[test]
    fn each_task_is_woken_once_for_each_time_that_it_waits_and_not_when_its_future_is_gone() {
        let slots = Slots::default();
        let (token, slot) = slots.add();
        let counts: [Arc<Count>; 3] = Default::default();
        let wakers = counts.clone().map(Waker::from);
        let places = [0, 1, 2].map(|id| place(&slot, id));
        for (place, waker) in places.iter().zip(&wakers) {
            place.set(waker);
            place.set(waker);
        }
        let [_, gone, _] = &counts;
        let [one, two, three] = places;
        drop(two);
        slots.wake(token);
        slots.wake(token);
        let woken = || counts.each_ref().map(|count| count.0.load(Ordering::Relaxed));
        assert_eq!(woken(), [1, 0, 1]);
        one.set(&wakers[0]);
        slots.wake(token + 1);
        assert_eq!(woken(), [1, 0, 1], "of another source");
        slots.wake(token);
        assert_eq!(woken(), [2, 0, 1]);
        assert_eq!(Arc::strong_count(gone), 2, "here and in `wakers`: the slot has forgotten it");
        drop((one, three));
    }
}
