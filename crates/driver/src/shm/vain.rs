//! Polling in vain, where the other side may need this very core.

use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;
use std::thread;

/// So many looks in vain, one after the other, before the core is lent: longer than an answer takes from a side that
/// runs.
const LEND_AFTER: u32 = 64;

/// Looks of all ports of a network that found nothing since one found something. The kernel runs both ends of a TCP
/// stream whoever holds the core; between the ends of a ring nothing moves while one waits for the other's core and
/// the other spins on it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Vain(Arc<AtomicU32>);

impl Vain {
    /// Something was found.
    #[inline]
    pub(super) fn end(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Nothing was found. Lends the core now and then, which costs a system call where nobody wants it.
    #[inline]
    pub(super) fn count(&self) {
        // One thread at a time uses the ports of a network; what gets lost otherwise is no harm.
        let looks = self.0.load(Ordering::Relaxed).wrapping_add(1);
        self.0.store(looks, Ordering::Relaxed);
        if looks.is_multiple_of(LEND_AFTER) {
            thread::yield_now();
        }
    }
}
