//! The plain streams of an engine.

use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use slotmap::{DefaultKey, SlotMap};
use weft_base::{Interest, Network};

/// What users of a stream or a listener wait for, outside of the engine.
#[derive(Debug, Default)]
pub(crate) struct Signals {
    pub(super) readable: AtomicBool,
    pub(super) writable: AtomicBool,
}

impl Signals {
    /// Whether something may have come since a receive found nothing: bytes, an end, an error, or a caller.
    pub(crate) fn is_readable(&self) -> bool {
        self.readable.load(Ordering::Acquire)
    }

    /// Whether a send may find room, or the connect is over.
    pub(crate) fn is_writable(&self) -> bool {
        self.writable.load(Ordering::Acquire)
    }
}

/// A port or a listener, and what is waited for at it.
pub(super) struct Watched<P> {
    pub(super) port: P,
    pub(super) token: DefaultKey,
    pub(super) wanted: Interest,
    pub(super) signals: Arc<Signals>,
}

/// All streams of an engine.
pub(super) struct Streams<N: Network> {
    pub(super) open: SlotMap<DefaultKey, Watched<N::Port>>,
    pub(super) listening: SlotMap<DefaultKey, Watched<N::Listener>>,
}

impl<N: Network> Default for Streams<N> {
    fn default() -> Self {
        Self { open: SlotMap::new(), listening: SlotMap::new() }
    }
}

impl<N: Network> Streams<N> {
    /// Whether there are any that the network may report on. Listeners are polled less often.
    pub(super) fn are_open(&self) -> bool {
        !self.open.is_empty()
    }
}
