//! Protection domains, memory regions, STags, rights and bounds: the one place that turns a [`Slice`](weft_base::Slice)
//! into bytes.
//!
//! A [`Registry`] is the memory table of one NIC. Protocol code asks it what a peer may touch
//! ([`Registry::check_remote`]), keeps memory alive while work is in flight ([`Registry::pin`]) and has it copy
//! ([`Registry::copy_in`], [`Registry::copy_out`]). The application holds a [`Region`] for each buffer that it
//! registered.
//!
//! # Bytes that a peer may write
//! They change at any moment, as memory under a DMA engine does. So nothing here gives out a reference to them: they
//! are copied through raw pointers, or read and written as atomics. A copy that runs against a write from a peer holds
//! old bytes, new bytes or a mixture. One thing is promised on top: a write of 1, 2, 4 or 8 bytes to an address that is
//! a multiple of its size is seen whole, and a thread that sees it with
//! [`Ordering::Acquire`](core::sync::atomic::Ordering::Acquire) sees all that was placed before. [`Region::view`] and
//! [`Region::edit`] do give references, for regions that no peer may touch and nothing in flight uses.
//!
//! # Locks
//! Every touch of bytes happens either under the read lock of the table (short ones) or under the region's gate (long
//! ones, and system calls). A thread that ends an access (invalidate, deregister, drop, view, edit) first changes the
//! table under its write lock, so that no new touch starts, and then passes through the gate, so that none is left.
//!
//! In the order of locks ([`weft_lock::Rank`]) the gate comes before the table: a thread that has entered a region's
//! gate may look up another one. A touch enters the gate under the table's read lock, against the order. That can't
//! block: a thread that passes the gate alone holds no lock that comes after it, waits for nothing there, and lets in
//! the threads that are inside already.

mod access;
mod atomic;
mod borrows;
mod buffer;
mod bytes;
mod combine;
mod error;
mod guard;
mod hold;
mod io_buffer;
mod list;
mod memory;
mod region;
mod registry;
mod slice_list;
mod stag;
mod standing;
mod table;

/// What the model checker has others for, under these names.
mod sync {
    pub(crate) use core::sync::atomic::{AtomicBool, AtomicU64};
}

#[cfg(all(test, not(miri)))]
mod model;

pub use access::{Access, LocalRight, RemoteRight};
pub use atomic::AtomicOperation;
pub use buffer::Buffer;
pub use combine::{Combine, Element};
pub use error::{MemoryError, RemoteFault};
pub use guard::{Fault, touch_foreign, watch_faults};
pub use hold::RawSlice;
pub use io_buffer::IoBuffer;
pub use memory::{RegionAttributes, Watch};
pub use region::Region;
pub use registry::Registry;
pub use slice_list::SliceList;
pub use stag::{Seed, unguessable_seed};
pub use table::Limits;
