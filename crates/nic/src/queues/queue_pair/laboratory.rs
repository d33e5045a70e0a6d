//! What a calling thread does when it posts, with [`Split::Assist`](crate::laboratory::Split::Assist): its stage of the
//! way out.

use std::sync::Arc;

use weft_lock::{Mutex, Rank};
use weft_memory::Registry;

use super::QueuePair;

/// The stage that a calling thread does when it posts.
pub(crate) trait CallerStage: Send + Sync {
    /// Does as much as there is room for. Returns whether the NIC's thread must be told.
    fn work(&self, queue_pair: &QueuePair, registry: &Registry) -> bool;
    /// Whether a calling thread that has time should go on.
    fn is_unfinished(&self) -> bool;
}

/// The caller's stage, where the caller has one.
pub(super) struct CallerSide(Mutex<Option<Arc<dyn CallerStage>>>);

impl Default for CallerSide {
    fn default() -> Self {
        Self(Mutex::new(Rank::QueuePairLife, None))
    }
}

impl CallerSide {
    /// The connection is over.
    pub(super) fn end(&self) {
        *self.0.lock() = None;
    }
}

impl QueuePair {
    /// The caller has this stage from now on.
    pub(crate) fn set_caller_stage(&self, stage: Arc<dyn CallerStage>) {
        *self.laboratory.0.lock() = Some(stage);
    }

    /// Lets the calling thread do its stage. Returns whether the NIC's thread must be told.
    pub(crate) fn assist(&self, registry: &Registry) -> bool {
        let stage = self.laboratory.0.lock().clone();
        stage.is_some_and(|stage| stage.work(self, registry))
    }

    /// Whether the calling thread has more of its stage to do.
    pub(crate) fn wants_assistance(&self) -> bool {
        self.laboratory.0.lock().as_ref().is_some_and(|stage| stage.is_unfinished())
    }
}
