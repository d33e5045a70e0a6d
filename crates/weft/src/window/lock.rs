//! Locks by a word of 8 bytes in each rank's NIC, so that the target's application takes no part in them.
//!
//! ```text
//! | rank that has it alone, plus 1: upper half | ranks that share it: lower half |
//! ```
//! Alone: 0 is swapped for the rank. Shared: 1 is added, and taken back when a rank has it alone. A rank that finds it
//! taken tries again after a pause, which grows. A rank that wants it alone may wait while others share it in turns.

use core::time::Duration;

use weft_base::{PeerId, Time};
use weft_memory::{Combine, Element, IoBuffer};
use weft_nic::{AtomicPost, Level, RemotePlace};

use super::operation::{Context, Kind, Post};

/// The first pause before a lock is tried again, and the longest.
const PAUSE: Duration = Duration::from_micros(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(2);

/// What an attempt has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The lock is here.
    Free,
    /// It is taken; a shared attempt must be taken back.
    Taken {
        /// By one rank alone, if it is.
        by: Option<usize>,
    },
}

/// A lock that is tried until it is had.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attempt {
    pub(super) to: usize,
    pub(super) exclusive: bool,
    tries: u32,
    /// When to try again; `None`: an answer is awaited.
    pub(super) due: Option<Time>,
    /// The rank that had it alone when it was tried last.
    pub(super) holder: Option<usize>,
}

impl Attempt {
    pub(super) fn new(to: usize, exclusive: bool) -> Self {
        Self { to, exclusive, tries: 0, due: None, holder: None }
    }

    /// The attempt failed.
    pub(super) fn wait(&mut self, holder: Option<usize>, now: Time) {
        let pause = (PAUSE * (1 << self.tries.min(8))).min(LONGEST_PAUSE);
        self.tries += 1;
        (self.holder, self.due) = (holder, Some(now + pause));
    }
}

/// What the word was when it was tried.
pub(super) fn judge(word: u64, exclusive: bool) -> Found {
    let alone = (word >> 32) as usize;
    match exclusive {
        true if word == 0 => Found::Free,
        false if alone == 0 => Found::Free,
        _ => Found::Taken { by: alone.checked_sub(1) },
    }
}

fn atomic(peer: PeerId, place: RemotePlace, combine: Combine, operand: u64, context: Context) -> AtomicPost {
    let (operand, compare) = (operand.to_ne_bytes().to_vec(), Vec::new());
    let (level, context) = (Level::Delivered, context.number());
    let (element, operation, count, fence, op_flags) = (Element::U64, combine, 1, false, 0);
    let result = Some(IoBuffer::from(vec![0; 8]));
    AtomicPost { peer, place, element, operation, count, operand, compare, result, level, fence, context, op_flags }
}

/// Tries a lock for `rank`.
pub(super) fn attempt(rank: usize, peer: PeerId, place: RemotePlace, exclusive: bool, context: Context) -> Post {
    let alone = (rank as u64 + 1) << 32;
    let post = match exclusive {
        true => {
            let swap = atomic(peer, place, Combine::SwapIfEqual, alone, context);
            AtomicPost { compare: vec![0; 8], ..swap }
        }
        false => atomic(peer, place, Combine::Sum, 1, context),
    };
    Post::Atomic(Box::new(post))
}

/// Gives a lock of `rank` back, or takes a failed shared attempt back.
pub(super) fn release(rank: usize, peer: PeerId, place: RemotePlace, exclusive: bool, context: Context) -> Post {
    let held = if exclusive { (rank as u64 + 1) << 32 } else { 1 };
    Post::Atomic(Box::new(atomic(peer, place, Combine::Sum, held.wrapping_neg(), context)))
}

impl Context {
    /// Of a lock on the part of a rank.
    pub(super) fn of_lock(window: u16, part: u32, to: usize) -> Self {
        Self { part, index: to, ..Self::of(Kind::Lock, window) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_says_who_has_it() {
        let alone = |rank: u64| (rank + 1) << 32;
        for (word, exclusive, shared) in [
            (0, Found::Free, Found::Free),
            (3, Found::Taken { by: None }, Found::Free),
            (alone(0), Found::Taken { by: Some(0) }, Found::Taken { by: Some(0) }),
            (alone(6) + 2, Found::Taken { by: Some(6) }, Found::Taken { by: Some(6) }),
        ] {
            assert_eq!((judge(word, true), judge(word, false)), (exclusive, shared), "{word:#x}");
        }
    }

    #[test]
    fn pauses_grow_to_a_limit() {
        let mut attempt = Attempt::new(0, true);
        let mut pause = || {
            attempt.wait(None, Time::ZERO);
            attempt.due.map(Time::as_nanos).unwrap()
        };
        let pauses: Vec<u64> = (0..20).map(|_| pause()).collect();
        assert!(pauses.is_sorted() && pauses[0] == 20_000 && pauses[19] == 2_000_000, "{pauses:?}");
    }
}
