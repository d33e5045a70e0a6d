//! Calling threads that do a stage of the way out themselves ([`Split::Assist`]), or are called for
//! ([`Laboratory::selective_interrupt`]).

use std::sync::Arc;

use weft_base::{Clock, Waker};

use super::Unfinished;
use crate::lower::Carrier;
use crate::nic::Nic;
use crate::queues::queue_pair::QueuePair;
#[cfg(doc)]
use crate::settings::laboratory::{Laboratory, Split};

impl<N: Carrier, C: Clock + Clone> Nic<N, C> {
    /// Sets what to wake when something has waited too long, with [`Laboratory::selective_interrupt`].
    pub fn set_summons(&self, summons: Arc<dyn Waker>) {
        if self.is_owner_process() {
            self.shared.common.summons.set(summons);
        }
    }

    /// Lets the calling thread do its stage, and rings for the NIC's.
    #[cold]
    pub(in crate::nic) fn assist(&self, queue_pair: &Arc<QueuePair>, unfinished: &Unfinished) {
        let Some(place) = queue_pair.connection() else { return };
        // Before the connection stands there is nothing to assist, and the thread takes what was posted.
        if queue_pair.assist(&self.shared.registry) || queue_pair.has_posted() {
            self.worker(place).start_on(place.key, false);
        }
        if queue_pair.wants_assistance() {
            unfinished.add(queue_pair);
        }
    }

    /// Continues where a post had left some of the caller's stage. Returns whether it had.
    #[cold]
    pub(in crate::nic) fn finish_one(&self, unfinished: &Unfinished) -> bool {
        let Some(queue_pair) = unfinished.pop() else { return false };
        self.assist(&queue_pair, unfinished);
        true
    }
}
