//! What tests of several crates share: how long they wait, what they allocate, and which numbers of a document are
//! measured. Only tests use it.

mod allocations;
mod numbers;
mod patience;

pub use allocations::CountingAllocator;
pub use numbers::{Number, numbers};
pub use patience::{PATIENCE, until};
