//! The selective interrupt ([`Progress::Summon`](crate::Progress::Summon)): the NIC's thread calls for the application
//! when something has waited for too long, and does no more. MPI-BIPng (Prylli, Geoffray, Tourancheau, Westrelin)
//! weighed it against matching on the NIC; it is here for measurements.
//!
//! All of it is in this file, but for an arm of [`Worker::serve`], one of the guard's `arm`, and the counter of
//! [`Event::Called`].

use std::sync::Arc;

use weft_base::{Clock, Waker, Watch};
use weft_lock::{Mutex, Rank};

use super::handover::{EngineGuard, EngineSlot, Event, Flag, Handover};
use super::worker::Worker;
use crate::engine::EngineClient;
use crate::lower::Carrier;
use crate::policy::Pressure;

/// What to call.
pub(crate) struct Summons(Mutex<Option<Arc<dyn Waker>>>);

impl Default for Summons {
    fn default() -> Self {
        Self(Mutex::new(Rank::Summons, None))
    }
}

impl Summons {
    pub(crate) fn set(&self, waker: Arc<dyn Waker>) {
        *self.0.lock() = Some(waker);
    }

    fn call(&self) {
        // Not under the lock: what it calls may set another one.
        let waker = self.0.lock().clone();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<N: Carrier, C: Clock, U: EngineClient> Worker<N, C, U> {
    /// The life of a worker's thread that only calls.
    pub(super) fn serve_by_calling(&self) {
        self.handover.call(self, &*self.watch, || self.common.summons.call());
    }
}

impl<F: Flag> Handover<F> {
    /// The life of a thread that only calls for the callers: with `call`, when something has waited for longer than
    /// they may be away.
    fn call<S: EngineSlot>(&self, slot: &S, watch: &dyn Watch, call: impl Fn()) {
        // Nothing waits before the first caller comes, which leaves a timer behind.
        let (mut longest, mut pressure) = (None, Pressure::default());
        while !slot.stopped() {
            watch.sleep(longest);
            longest = self.watchdog(slot, watch, &mut pressure);
            if longest.is_some() {
                watch.set_packets(false);
                continue;
            }
            let Some(mut hold) = self.try_take(slot) else {
                watch.set_packets(false);
                continue;
            };
            hold.note(Event::Woken);
            if self.present.swap(false)
                && let Some(guarded) = self.guard(&mut hold, watch)
            {
                longest = guarded;
                continue;
            }
            drop(hold);
            // Something is there.
            watch.set_packets(false);
            watch.sleep(Some(self.policy().away()));
            match self.try_take(slot) {
                Some(mut hold) if !self.present.get() => {
                    hold.note(Event::Called);
                    drop(hold);
                    call();
                }
                // A caller is here. This sleep may have used up the timer that it leaves behind: another one follows.
                _ => longest = Some(self.policy().away()),
            }
        }
    }
}
