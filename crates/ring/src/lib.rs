//! A ring of bytes in memory that two processes share: one writes, one reads, and neither believes the other.
//!
//! [`Producer`] and [`Consumer`] are the two ends. They do arithmetic on positions and say which bytes of the ring are
//! theirs now ([`Spans`]); the holder of the memory copies. So there is no unsafe code here, and the same lines run
//! over mapped memory, in virtual time and under a model checker.
//!
//! **What the other side can do.** All shared words are the other side's to scribble on at any time. Each end keeps its
//! own position to itself and never reads it back. What the other side says is read once, copied and checked: a
//! position that goes back, or beyond what the ring holds, is a [`Violation`], after which the ring is to be given up.
//! The bytes between two good positions may still change while they are read; so they are copied out, and checked
//! there.
//!
//! **Sleep and wake.** An end that finds nothing to do says at which position it wants to be woken
//! ([`Consumer::sleep`], [`Producer::sleep`]), and checks once more; an end that moves a position checks whether it has
//! reached the other's mark. Between the store and the check is a full fence on both sides, so that one of the two sees
//! the other. An end that finds that it has to wake the other takes the mark away *before* it signals: a mark that is
//! set at the same time may be taken away with it, and then the signal comes after. Hence the rule for the holder of
//! the signal: old signals are drained before [`Consumer::sleep`], none between it and the wait.
#![forbid(unsafe_code)]

mod block;
mod consumer;
mod producer;
mod spans;
mod violation;

pub use block::{BLOCK_BYTES, Block};
pub use consumer::{Available, Consumer, Rest};
pub use producer::Producer;
pub use spans::{Capacity, Span, Spans};
pub use violation::Violation;

#[cfg(test)]
mod tests;

/// The words that both ends share, one writer each in good company.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// Up to where the producer has written. The two top bits are [`END`] and [`BROKEN`].
    Produced,
    /// Up to where the consumer has read.
    Consumed,
    /// The position at which the consumer wants to be woken; 0 when it is awake. The producer takes it away.
    ConsumerAwaits,
    /// The position at which the producer wants to be woken; 0 when it is awake. The consumer takes it away.
    ProducerAwaits,
}

impl Word {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Produced, Self::Consumed, Self::ConsumerAwaits, Self::ProducerAwaits];
}

/// In [`Word::Produced`]: nothing more will come.
pub const END: u64 = 1 << 63;
/// In [`Word::Produced`]: the producer has given up, and what was not read does not count.
pub const BROKEN: u64 = 1 << 62;
/// The rest of [`Word::Produced`]. No connection lives to see it exhausted: at 100 GB/s that takes a year.
const POSITION: u64 = BROKEN - 1;

/// Access to the shared words.
pub trait Words {
    /// Reads a word; what its writer did before is visible after (acquire).
    fn load(&self, word: Word) -> u64;

    /// Writes a word; what was done before is visible to a thread that reads it (release).
    fn store(&self, word: Word, value: u64);

    /// A full fence: what was stored before is visible to others before anything after is loaded (sequentially
    /// consistent).
    fn fence(&self);
}

impl<W: Words + ?Sized> Words for &W {
    #[inline]
    fn load(&self, word: Word) -> u64 {
        (**self).load(word)
    }

    #[inline]
    fn store(&self, word: Word, value: u64) {
        (**self).store(word, value);
    }

    #[inline]
    fn fence(&self) {
        (**self).fence();
    }
}
