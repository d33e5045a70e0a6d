//! Collective operations among the ranks of a group: barrier, reduce-scatter-block, all-reduce, all-gather.
//!
//! Nothing here does I/O or asks a clock. Each rank has one [`Collective`] for each operation that it repeats; all of
//! them are one machine that follows a plan of rounds. By default a rank sends one message and takes one in in each
//! round, so an operation costs about `log2(ranks)` messages at each rank (an all-reduce twice that), whatever the
//! number of ranks:
//!
//! - barrier: dissemination (Hensgen, Finkel and Manber 1988);
//! - all-gather: Bruck's algorithm (Bruck and others 1997);
//! - reduce-scatter-block: Bruck's algorithm backwards, each copy an addition;
//! - all-reduce: a reduce-scatter-block, then an all-gather.
//!
//! As a [`Shape::Tree`] all of them go up a tree and down again, which takes fewer messages and more of them one after
//! the other.
//!
//! The carrier must bring each message once, whole and unharmed; it need not keep order. No rank ends an operation
//! before all have started it, so a peer is at most one operation ahead, and what comes early has room from the
//! beginning: nothing is allocated after [`Collective::new`].
#![forbid(unsafe_code)]

mod error;
mod machine;
mod plan;

pub use error::{PeerError, SetupError, StartError};
pub use machine::{Collective, Transmit};
pub use plan::{Kind, MAX_RANKS, MAX_VALUES, Operation, Shape};
