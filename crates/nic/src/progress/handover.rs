//! Which thread is the NIC right now: the hand-over of an engine between calling threads and the NIC's own thread.
//!
//! The thread that holds the engine's lock is the NIC. This file keeps one promise: **when something is to be done and
//! no calling thread is there, the NIC's thread is, at the latest [`Handover::away`] later**, but for two cases that
//! stand below. It does so without a wake-up while callers come and go:
//!
//! - A caller that comes back ([`Handover::arrive`]) says that it is there, and switches packets off for the thread's
//!   [`Watch`]. When it lets go of the engine ([`Handover::depart`]) it leaves a timer behind that ends the thread's
//!   sleep.
//! - From then on it costs a caller nothing: the thread looks now and then how long ago the last visit was
//!   ([`TakeOver::next_check`]).
//! - When that is too long ago, the thread ([`Handover::serve`]) takes the engine, runs it until there is nothing to
//!   do, switches packets on and sleeps **outside of the lock**. So a caller that comes back finds the engine free, or
//!   free within one turn.
//!
//! A look costs a timer and a wake-up, on the core that the caller was polling on: 40 us and more in a virtual machine,
//! where setting a timer leaves it. So while callers come without a pause, the looks become rarer, and further the
//! longer they have come so. The promise then is that long.
//!
//! Where the processors are oversubscribed ([`Pressure`]), a caller that is away may only wait for its turn; taking
//! over spends a time slice on work that it does itself when it runs again. So callers may be away for longer there,
//! and are not looked after more often: looks alone, every 5 ms, made 16 ranks on two processors several times slower
//! (`docs/architecture.md`). How long all of that is, is the business of [`crate::policy`].
//!
//! Before the thread takes the engine it goes where its callers were, if the machine is full ([`Watch::pin`]), and
//! looks again whether they are there then.
//!
//! The flags are sequentially consistent, and each change of one is followed by a read of the other side's: of two that
//! race, one sees what the other did. The engine's lock is none of them: a thread that is refused it has only read it,
//! and one that lets go of it only released it. So a fence stands between a flag and the lock, on either side
//! ([`Flag::fence`], [`Flag::fence_behind_lock`]); without it a machine of weak order, as ARM is, may lose a wake-up.
//! The tests let a model checker try the interleavings; it knows no weak order.

use core::sync::atomic::{AtomicBool, Ordering, fence};
use core::time::Duration;

use weft_base::{Time, Watch};

use crate::policy::constants::TURNS_AT_A_PLACE;
use crate::policy::{Linger, Pressure, TakeOver};

/// A sequentially consistent flag: an atomic, or a model checker's stand-in for one.
pub(crate) trait Flag {
    fn new(value: bool) -> Self;
    fn get(&self) -> bool;
    fn set(&self, value: bool);
    /// Sets it and returns what it was.
    fn swap(&self, value: bool) -> bool;

    /// What was set before is seen by the thread that lets go of a lock after this thread has found it taken.
    #[inline]
    fn fence() {
        fence(Ordering::SeqCst);
    }

    /// The same on the side of the thread that has just let go of the lock.
    #[inline]
    fn fence_behind_lock() {
        weft_lock::fence_behind_lock();
    }
}

impl Flag for AtomicBool {
    fn new(value: bool) -> Self {
        Self::new(value)
    }

    #[inline]
    fn get(&self) -> bool {
        self.load(Ordering::SeqCst)
    }

    #[inline]
    fn set(&self, value: bool) {
        self.store(value, Ordering::SeqCst);
    }

    #[inline]
    fn swap(&self, value: bool) -> bool {
        Self::swap(self, value, Ordering::SeqCst)
    }
}

/// The engine as its thread sees it.
pub(crate) trait EngineSlot {
    /// The engine, held. Dropping it lets go, and calls [`Handover::depart`] after that.
    type Guard<'a>: EngineGuard
    where
        Self: 'a;

    /// The time.
    fn now(&self) -> Time;
    /// How long ago the last visit of a caller was.
    fn quiet_for(&self) -> Duration;
    /// On which processor that was.
    fn processor(&self) -> Option<u32>;
    /// Which thread that was.
    fn caller(&self) -> Option<u32>;
    /// The engine, unless another thread has it.
    fn try_take(&self) -> Option<Self::Guard<'_>>;
    /// The thread shall end.
    fn stopped(&self) -> bool;
    /// Runs what layers above have due ([`super::background`]); the engine is free. Returns how long the thread may
    /// sleep then, `None`: as long as it likes.
    fn serve_above(&self) -> Option<Duration> {
        None
    }
    /// Whether one of them was called for.
    fn is_above_due(&self) -> bool {
        false
    }
}

/// The engine, held by its thread.
pub(crate) trait EngineGuard {
    /// Does what there is to do. Returns whether to go on at once.
    fn turn(&mut self) -> bool;
    /// A thread waits for the engine's lock, and calls [`Handover::heartbeat`] when it has it.
    fn is_wanted(&self) -> bool;
    /// Has the operating system watch everything.
    fn arm(&mut self);
    /// After arming: whether there is something to do all the same; if not, how long the sleep may be.
    fn may_sleep(&mut self) -> Result<Option<Duration>, SomethingToDo>;
    /// The engine changes hands: for the counters.
    fn note(&mut self, event: Event);
}

/// Something is to be done, so no thread may sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SomethingToDo;

/// What the thread of a NIC does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// It was woken.
    Woken,
    /// It has taken over from callers.
    TakenOver,
}

/// The state of the hand-over of one engine.
pub(crate) struct Handover<F = AtomicBool> {
    /// A caller has been here since the thread took the engine last.
    pub(super) present: F,
    /// The thread that lets go of the engine next must see to it that the thread's sleep ends.
    recall: F,
    /// The timer is set, and has not ended a sleep of the thread yet.
    is_timed: F,
    /// How long callers may be away, and what the thread has learned of them.
    policy: TakeOver,
    /// How long the thread polls when it has found something.
    linger: Linger,
}

impl<F: Flag> Handover<F> {
    /// By this policy. The thread sleeps when nothing is left to do, and polls for `spin` before that.
    pub(crate) fn new(policy: TakeOver, spin: Duration) -> Self {
        Self {
            present: F::new(false),
            recall: F::new(false),
            is_timed: F::new(false),
            policy,
            linger: Linger::new(spin),
        }
    }

    /// How long callers may be away.
    pub(crate) fn policy(&self) -> &TakeOver {
        &self.policy
    }

    /// A caller comes, before it tries to take the engine.
    #[inline]
    pub(crate) fn arrive(&self, watch: &dyn Watch) {
        if !self.present.get() {
            self.arrive_first(watch);
        }
    }

    #[cold]
    fn arrive_first(&self, watch: &dyn Watch) {
        if !self.present.swap(true) {
            watch.set_packets(false);
            self.recall.set(true);
            // It tries to take the engine next.
            F::fence();
        }
    }

    /// The engine's holder wants the thread to check when it lets go.
    #[inline]
    pub(crate) fn heartbeat(&self) {
        self.recall.set(true);
    }

    /// The engine was let go of, by whomever.
    #[inline]
    pub(crate) fn depart(&self, watch: &dyn Watch) {
        F::fence_behind_lock();
        if self.recall.get() && self.recall.swap(false) {
            match self.policy.away() {
                Duration::ZERO => watch.wake(),
                away => {
                    self.is_timed.set(true);
                    watch.set_timer(away);
                }
            }
        }
    }

    /// The caller that holds the engine is about to sleep for long: stops the timer, which would wake the thread for
    /// nothing. The next thread that releases the engine sets it again.
    pub(crate) fn rest(&self, watch: &dyn Watch) {
        if self.is_timed.get() && self.is_timed.swap(false) {
            watch.stop_timer();
            self.recall.set(true);
        }
    }

    /// The caller goes away for long, and says so: the thread takes over at once.
    pub(crate) fn leave(&self, watch: &dyn Watch) {
        self.present.set(false);
        watch.wake();
    }

    /// The same for a caller that yields to a thread that computes: it comes back, but not before a time slice has
    /// passed. Where the processors are oversubscribed the wake-up would do harm.
    pub(crate) fn step_aside(&self, watch: &dyn Watch) {
        if self.present.get() && !self.policy.is_oversubscribed() {
            self.leave(watch);
        }
    }

    /// Whether a caller has been here since the thread took the engine last, or since the last one left.
    pub(crate) fn is_visited(&self) -> bool {
        self.present.get()
    }

    /// The life of the NIC's thread.
    pub(crate) fn serve<S: EngineSlot>(&self, slot: &S, watch: &dyn Watch) {
        let mut pressure = Pressure::default();
        let mut longest = Some(Duration::ZERO);
        while !slot.stopped() {
            watch.sleep(longest);
            longest = self.take_over(slot, watch, &mut pressure);
            if let Some(soon) = slot.serve_above() {
                longest = Some(longest.map_or(soon, |longest| longest.min(soon)));
            }
        }
    }

    /// When to look again, while callers are here. `None` when they have been away for too long.
    pub(super) fn watchdog<S: EngineSlot>(
        &self,
        slot: &S,
        watch: &dyn Watch,
        pressure: &mut Pressure,
    ) -> Option<Duration> {
        if self.policy.is_adaptive() && self.policy.callers_run() {
            pressure.update(slot.now(), slot.caller(), watch);
            self.policy.set_oversubscribed(pressure.is_oversubscribed());
        }
        self.policy.next_check(self.present.get(), slot.quiet_for())
    }

    /// The thread was woken. Returns how long it may sleep next.
    fn take_over<S: EngineSlot>(&self, slot: &S, watch: &dyn Watch, pressure: &mut Pressure) -> Option<Duration> {
        self.is_timed.set(false);
        let mut next = self.watchdog(slot, watch, pressure);
        if next.is_none() && watch.pin(slot.processor().filter(|_| pressure.is_full())) {
            // To go there may have taken long.
            next = self.watchdog(slot, watch, pressure);
        }
        if next.is_some() {
            watch.set_packets(false);
            return next;
        }
        let Some(mut hold) = self.try_take(slot) else {
            // The holder of the engine sees to the packets, and recalls the thread.
            watch.set_packets(false);
            return None;
        };
        hold.note(Event::Woken);
        if self.present.swap(false) {
            hold.note(Event::TakenOver);
        }
        let mut worked = false;
        let mut turns = 0;
        loop {
            if hold.turn() {
                worked = true;
                turns += 1;
                self.linger.found(slot.now());
            } else if self.linger.polls_on(slot.now(), pressure.has_room()) {
                core::hint::spin_loop();
            } else if let Some(longest) = self.guard(&mut hold, watch) {
                self.policy.adapt(worked);
                return longest;
            }
            if slot.is_above_due() {
                // It posts, so the engine must be free. The next sleep does not last.
                self.policy.adapt(worked);
                return Some(Duration::ZERO);
            }
            if self.present.get() {
                // A caller is back. It may go again at once, so the timer stays behind.
                watch.set_packets(false);
                self.policy.adapt(worked);
                self.recall.set(true);
                return None;
            }
            if hold.is_wanted() || slot.stopped() {
                // A thread that wants the engine, or stops it, recalls this one. Until then it would only be in their
                // way.
                return None;
            }
            if turns == TURNS_AT_A_PLACE && self.policy.callers_run() {
                // There is more to do, perhaps on another processor.
                return Some(Duration::ZERO);
            }
        }
    }

    pub(super) fn try_take<'a, S: EngineSlot>(&self, slot: &'a S) -> Option<S::Guard<'a>> {
        slot.try_take().or_else(|| {
            self.recall.set(true);
            F::fence();
            // The holder may have let go before it could see that.
            slot.try_take()
        })
    }

    /// There is nothing to do: packets shall end the sleep that follows. `None` when there is something all the same.
    pub(super) fn guard<H: EngineGuard>(&self, hold: &mut H, watch: &dyn Watch) -> Option<Option<Duration>> {
        hold.arm();
        self.guard_armed(hold, watch)
    }

    /// The same where everything is armed.
    pub(super) fn guard_armed<H: EngineGuard>(&self, hold: &mut H, watch: &dyn Watch) -> Option<Option<Duration>> {
        watch.set_packets(true);
        let longest = hold.may_sleep();
        // A caller that comes from here on switches them off itself.
        if self.present.get() { None } else { longest.ok() }
    }
}

#[cfg(test)]
mod lingering;
#[cfg(test)]
mod shared_core;
#[cfg(test)]
mod test_guard;
#[cfg(test)]
pub(in crate::progress) mod tests;
