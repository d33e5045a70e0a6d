//! The selective interrupt ([`Laboratory::selective_interrupt`]): the NIC's thread calls for the application when
//! something has waited for too long, and does no more. MPI-BIPng (Prylli, Geoffray, Tourancheau, Westrelin) weighed it
//! against matching on the NIC.

use core::time::Duration;

use weft_base::{Clock, Watch};

use crate::engine::EngineClient;
use crate::lower::Carrier;
use crate::policy::Pressure;
use crate::progress::handover::{EngineGuard, EngineSlot, Event, Flag, Handover};
use crate::progress::worker::{Worker, WorkerGuard};
#[cfg(doc)]
use crate::settings::laboratory::Laboratory;

/// The engine as a thread sees it that only calls.
pub(in crate::progress) trait CallingSlot: EngineSlot {
    /// Has the operating system watch everything. When it wakes the thread the application is called, for which the
    /// low-water mark is no reason.
    fn arm_all(hold: &mut Self::Guard<'_>);

    /// How long nothing has to be done while no packet arrives. `None`: for ever; zero: something has to be done.
    fn until_due(hold: &mut Self::Guard<'_>) -> Option<Duration>;

    /// Lets go of the engine, and calls for the application.
    fn call(&self, hold: Self::Guard<'_>);
}

impl<F: Flag> Handover<F> {
    /// The life of a worker's thread that only calls for the callers: when something has waited for longer than they
    /// may be away. Callers that hand over wake it too, and so do timers that they set too late.
    pub(in crate::progress) fn serve_by_calling<S: CallingSlot>(&self, slot: &S, watch: &dyn Watch) {
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
            self.present.swap(false);
            S::arm_all(&mut hold);
            if let Some(guarded) = self.guard_by_calling::<S>(&mut hold, watch) {
                longest = guarded;
                continue;
            }
            drop(hold);
            // Something is there.
            watch.set_packets(false);
            watch.sleep(Some(self.policy().away()));
            // The holder of the engine recalls this thread.
            let Some(mut hold) = self.try_take(slot) else { continue };
            hold.note(Event::Woken);
            match self.guard_by_calling::<S>(&mut hold, watch) {
                // A caller has come, and has left nothing.
                Some(guarded) => longest = guarded,
                None if !self.is_visited() => {
                    watch.set_packets(false);
                    slot.call(hold);
                }
                // A caller is here. These sleeps may have used up the timer that it leaves behind: another one follows.
                None => longest = Some(self.policy().away()),
            }
        }
    }

    /// [`Handover::guard_armed`] for a thread that calls: it must not take for work what has only woken it.
    fn guard_by_calling<S: CallingSlot>(&self, hold: &mut S::Guard<'_>, watch: &dyn Watch) -> Option<Option<Duration>> {
        watch.set_packets(true);
        let packets = watch.sleep(Some(Duration::ZERO));
        let rings = hold.may_sleep().is_err();
        let due = S::until_due(hold);
        // A caller that comes from here on switches packets off itself.
        (!packets && !rings && due != Some(Duration::ZERO) && !self.present.get()).then_some(due)
    }
}

impl<N: Carrier, C: Clock, U: EngineClient> CallingSlot for Worker<N, C, U> {
    fn arm_all(hold: &mut WorkerGuard<'_, N, C, U>) {
        hold.engine().arm_all();
    }

    fn until_due(hold: &mut WorkerGuard<'_, N, C, U>) -> Option<Duration> {
        hold.engine().until_due()
    }

    fn call(&self, mut hold: WorkerGuard<'_, N, C, U>) {
        hold.engine().counters.summons += 1;
        drop(hold);
        self.common.summons.call();
    }
}

#[cfg(test)]
mod tests;
