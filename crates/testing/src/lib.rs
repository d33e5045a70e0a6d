//! What tests of several crates share: how long they wait, and what they allocate. Only tests use it.

mod allocations;
mod patience;

pub use allocations::CountingAllocator;
pub use patience::{PATIENCE, until};
