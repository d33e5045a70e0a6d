//! The shared words as they lie in memory.

use core::sync::atomic::{AtomicU64, Ordering, fence};

use crate::{Word, Words};

/// Bytes of a [`Block`].
pub const BLOCK_BYTES: usize = size_of::<Block>();

/// A word that shares its cache line, and the one that processors fetch with it, with no other.
#[repr(C, align(128))]
#[derive(Debug, Default)]
struct Line(AtomicU64);

/// The shared words of one ring, as they lie in memory. All zero is an empty ring whose ends are awake.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Block {
    produced: Line,
    consumed: Line,
    consumer_awaits: Line,
    producer_awaits: Line,
}

impl Block {
    #[inline]
    fn line(&self, word: Word) -> &AtomicU64 {
        match word {
            Word::Produced => &self.produced.0,
            Word::Consumed => &self.consumed.0,
            Word::ConsumerAwaits => &self.consumer_awaits.0,
            Word::ProducerAwaits => &self.producer_awaits.0,
        }
    }
}

impl Words for Block {
    #[inline]
    fn load(&self, word: Word) -> u64 {
        self.line(word).load(Ordering::Acquire)
    }

    #[inline]
    fn store(&self, word: Word, value: u64) {
        self.line(word).store(value, Ordering::Release);
    }

    #[inline]
    fn fence(&self) {
        fence(Ordering::SeqCst);
    }
}
