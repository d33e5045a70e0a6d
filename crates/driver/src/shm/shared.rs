//! The words of a ring in memory that two processes map.

use std::sync::Arc;

use weft_ring::{Block, Word, Words};

use super::memory::{Direction, Mapping};

/// The shared words of one ring, and their mapping.
#[derive(Debug)]
pub(super) struct Shared {
    mapping: Arc<Mapping>,
    direction: Direction,
    /// Whether it is a ring of lent runs.
    is_runs: bool,
}

impl Shared {
    pub(super) fn bytes(mapping: &Arc<Mapping>, direction: Direction) -> Self {
        Self { mapping: Arc::clone(mapping), direction, is_runs: false }
    }

    /// Those of the lent runs.
    pub(super) fn runs(mapping: &Arc<Mapping>, direction: Direction) -> Self {
        Self { mapping: Arc::clone(mapping), direction, is_runs: true }
    }

    #[inline]
    fn block(&self) -> &Block {
        if self.is_runs { self.mapping.runs(self.direction) } else { self.mapping.block(self.direction) }
    }
}

impl Words for Shared {
    #[inline]
    fn load(&self, word: Word) -> u64 {
        self.block().load(word)
    }

    #[inline]
    fn store(&self, word: Word, value: u64) {
        self.block().store(word, value);
    }

    #[inline]
    fn fence(&self) {
        self.block().fence();
    }
}
