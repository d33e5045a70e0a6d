//! What two processes say to each other of lending, in the memory that both map.

use core::sync::atomic::AtomicU64;

/// What is beside the ring of runs of one way. All zero: neither side has written to it.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub(super) struct Door {
    /// Where the lender has the number that proves its identity, and which number.
    pub(super) address: AtomicU64,
    pub(super) number: AtomicU64,
    /// Not 0: what was lent may not be read any more.
    pub(super) revoked: AtomicU64,
    /// What the other side, which alone writes this, does with what is lent: [`BORROWS`], [`TAKES_COPIES`], or nothing.
    pub(super) borrows: AtomicU64,
}

/// It has found the number, and reads.
pub(super) const BORROWS: u64 = 1;

/// It can't read any more: nothing is to be lent, and of what was lent copies are to be passed ([`super::passed`]).
pub(super) const TAKES_COPIES: u64 = 2;
