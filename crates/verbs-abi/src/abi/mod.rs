//! The C interface of libibverbs, declared by hand: names, layouts and numbers of `infiniband/verbs.h` (rdma-core 44 to
//! 65). `tests/layout.rs` compares them with the header that is installed.
#![allow(non_camel_case_types, non_snake_case, reason = "the names of the C interface")]
#![allow(missing_docs, reason = "the C header and its manual pages describe them")]

mod attributes;
mod context;
mod numbers;
mod objects;
mod work;

pub use attributes::*;
pub use context::*;
pub use numbers::*;
pub use objects::*;
pub use work::*;
