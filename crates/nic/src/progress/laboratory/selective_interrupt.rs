//! The selective interrupt ([`Laboratory::selective_interrupt`]): the NIC's thread calls for the application when
//! something has waited for too long, and does no more. MPI-BIPng (Prylli, Geoffray, Tourancheau, Westrelin) weighed it
//! against matching on the NIC.

use core::sync::atomic::Ordering;
use core::time::Duration;

use weft_base::Clock;

use crate::engine::EngineClient;
use crate::lower::Carrier;
use crate::policy::Pressure;
use crate::progress::handover::{EngineGuard, EngineSlot, Event};
use crate::progress::worker::Worker;
#[cfg(doc)]
use crate::settings::laboratory::Laboratory;

impl<N: Carrier, C: Clock, U: EngineClient> Worker<N, C, U> {
    /// The life of a worker's thread that only calls for the callers: when something has waited for longer than they
    /// may be away.
    pub(in crate::progress) fn serve_by_calling(&self) {
        let (handover, watch) = (&self.handover, &*self.watch);
        // Nothing waits before the first caller comes, which leaves a timer behind.
        let (mut longest, mut pressure) = (None, Pressure::default());
        while !self.stopped() {
            let packets = watch.sleep(longest);
            longest = handover.watchdog(self, watch, &mut pressure);
            if longest.is_some() {
                watch.set_packets(false);
                continue;
            }
            let Some(mut hold) = handover.try_take(self) else {
                watch.set_packets(false);
                continue;
            };
            hold.note(Event::Woken);
            // A caller that leaves wakes this thread too, and so does a timer that a caller has set too late.
            let is_due = packets || hold.engine().until_due(self.now()) == Some(Duration::ZERO);
            if handover.present.swap(false, Ordering::SeqCst) || !is_due {
                // When it wakes without a packet it calls the application, for which the low-water mark is no reason.
                hold.engine().arm_all();
                if handover.guard_armed(&mut hold, watch).is_some() {
                    longest = hold.engine().until_due(self.now());
                    continue;
                }
            }
            drop(hold);
            // Something is there.
            watch.set_packets(false);
            watch.sleep(Some(handover.policy().away()));
            match handover.try_take(self) {
                Some(mut hold) if !handover.is_visited() => {
                    hold.engine().counters.summons += 1;
                    drop(hold);
                    self.common.summons.call();
                }
                // A caller is here. This sleep may have used up the timer that it leaves behind: another one follows.
                _ => longest = Some(handover.policy().away()),
            }
        }
    }
}
