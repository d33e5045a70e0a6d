//! Queue pairs whose callers have more of their stage to do.

use std::sync::Arc;

use weft_lock::{Mutex, Rank};

use crate::queues::queue_pair::QueuePair;
use crate::settings::Settings;
use crate::settings::laboratory::Split;

/// A list of them, each once.
pub(crate) struct Unfinished(Mutex<Vec<Arc<QueuePair>>>);

impl Unfinished {
    /// An empty list, if callers have a stage of their own.
    pub(in crate::nic) fn of(settings: &Settings) -> Option<Self> {
        let assists = settings.laboratory.split == Split::Assist;
        assists.then(|| Self(Mutex::new(Rank::Unfinished, Vec::new())))
    }

    pub(super) fn add(&self, queue_pair: &Arc<QueuePair>) {
        let mut list = self.0.lock();
        if !list.iter().any(|listed| Arc::ptr_eq(listed, queue_pair)) {
            list.push(Arc::clone(queue_pair));
        }
    }

    pub(super) fn pop(&self) -> Option<Arc<QueuePair>> {
        self.0.lock().pop()
    }
}
