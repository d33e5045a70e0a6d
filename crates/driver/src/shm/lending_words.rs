//! Shared words that two processes use for lending.

use core::sync::atomic::AtomicU64;

/// Next to the ring of runs of one direction. All zero: neither side has written to it.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub(super) struct LendingWords {
    /// The address of the lender's identity number, and the number.
    pub(super) address: AtomicU64,
    pub(super) number: AtomicU64,
    /// Not 0: lent memory must not be read any more.
    pub(super) revoked: AtomicU64,
    /// The borrower's state, written by it alone: [`BORROWS`], [`TAKES_COPIES`], or 0.
    pub(super) borrows: AtomicU64,
}

/// It has found the number, and reads.
pub(super) const BORROWS: u64 = 1;

/// It cannot read any more: nothing is to be lent, and copies of lent runs are to be passed ([`super::passed`]).
pub(super) const TAKES_COPIES: u64 = 2;
