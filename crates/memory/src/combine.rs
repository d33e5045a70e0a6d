//! Atomic operations on elements of many types: what libfabric (fi_atomic(3)) and MPI define beyond the 64-bit ones of
//! RFC 7306.

mod alone;
mod extended;
mod kind;
mod operands;
mod part;
mod update;
mod value;
mod wide;

pub use kind::{Combine, Element};
pub(crate) use operands::Operands;
pub(crate) use update::combine_all;

#[cfg(test)]
mod tests;
