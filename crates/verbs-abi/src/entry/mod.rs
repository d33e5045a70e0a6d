//! The C functions. Each checks what C can't promise, and calls inward. Their names here begin with `weft_`: those that
//! programs know, with their versions, are put to them when the library is linked (`abi/names`, `abi/manager`).
#![allow(missing_docs, reason = "the manual pages of libibverbs describe them")]

mod building;
mod channels;
mod devices;
mod events;
mod extended_posts;
mod extended_queues;
mod manager;
mod memory;
mod objects;
mod queue_pairs;
mod queues;
mod refused;
mod shared_receives;
mod tables;
mod words;

pub use channels::*;
pub use devices::*;
pub use events::*;
pub use manager::*;
pub use memory::*;
pub use queue_pairs::*;
pub use queues::*;
pub use refused::*;
pub use shared_receives::*;
pub use words::*;
