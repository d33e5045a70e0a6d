//! What the selective interrupt calls.

use std::sync::Arc;

use weft_base::Waker;
use weft_lock::{Mutex, Rank};

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

    pub(super) fn call(&self) {
        // Not under the lock: what it calls may set another one.
        let waker = self.0.lock().clone();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}
