//! Whether a region is still valid: for its owner, for peers, and for work in flight.

use core::sync::atomic::Ordering;

use super::sync::{AtomicBool, AtomicU64};

/// These flags change under the table's write lock and hold for a thread that has the table's read lock, or has come
/// through the gate after reading them under it. So they need no ordering of their own.
pub(crate) struct Standing {
    /// Slices in flight. Counted under the table's read lock.
    pins: AtomicU64,
    /// Whether the owner's handle still exists.
    owned: AtomicBool,
    /// Whether remote access has not been ended.
    remote: AtomicBool,
}

impl Standing {
    /// Owned, open for peers, and used by nothing.
    pub(crate) fn new() -> Self {
        Self { pins: AtomicU64::new(0), owned: AtomicBool::new(true), remote: AtomicBool::new(true) }
    }

    #[inline]
    pub(crate) fn is_owned(&self) -> bool {
        self.owned.load(Ordering::Relaxed)
    }

    /// Whether peers get in, as far as the owner goes; rights come on top.
    #[inline]
    pub(crate) fn is_remote_open(&self) -> bool {
        self.remote.load(Ordering::Relaxed) && self.is_owned()
    }

    pub(crate) fn pins(&self) -> u64 {
        self.pins.load(Ordering::Relaxed)
    }

    /// Whether neither its owner nor work in flight needs it. Only under the table's write lock.
    pub(crate) fn is_over(&self) -> bool {
        !self.is_owned() && self.pins() == 0
    }

    /// Work in flight uses a slice of it.
    #[inline]
    pub(crate) fn pin(&self) {
        self.pins.fetch_add(1, Ordering::Relaxed);
    }

    /// Ends one [`Standing::pin`]. Returns whether the region is to be swept now; an error if there was no pin.
    #[inline]
    pub(crate) fn unpin(&self) -> Result<bool, ()> {
        let before = self.pins.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |pins| pins.checked_sub(1));
        before.map(|pins| pins == 1 && !self.is_owned()).map_err(|_| ())
    }

    /// The owner's handle goes. Only under the table's write lock.
    pub(crate) fn disown(&self) {
        self.owned.store(false, Ordering::Relaxed);
    }

    /// Peers lose access. Only under the table's write lock.
    pub(crate) fn close_remote(&self) {
        self.remote.store(false, Ordering::Relaxed);
    }
}
