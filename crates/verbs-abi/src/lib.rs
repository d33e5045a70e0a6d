//! `libibverbs.so.1`: programs that use RDMA by libibverbs run over Weft unchanged.
//!
//! | here | what it is |
//! |---|---|
//! | `entry` | the C functions: they check, convert and call inward |
//! | `abi` | the structures and numbers of the C interface, declared by hand |
//! | `border` | panics stop there; objects that C knows by their address |
//! | `per_process` | what a child by fork has anew |
//! | `process`, `nic` | the NIC of the process, which all open devices have together |
//! | `device` | which interfaces are devices, and what they say of themselves |
//! | `memory` | protection domains, regions: the program's memory where it lies |
//! | `completion`, `events`, `semaphore` | completion queues and channels, events, the descriptors of both |
//! | `queue_pair`, `shared_receive` | queue pairs: states, work, how connections end |
//! | `paths` | a third library: the files of devices where programs read those of adapters |
//! | `rendezvous` | how two queue pairs find each other that know only GID and number |
//!
//! `scripts/link-verbs` makes the library of the archive that this crate is built to, `librdmacm.so.1`, whose names say
//! that the connection manager is not built yet, and `libweft-paths.so` (`paths`). `docs/verbs.md` says what of
//! libibverbs is kept.

pub mod abi;
mod border;
mod completion;
mod device;
pub mod entry;
mod errno;
mod events;
mod limits;
mod log;
mod memory;
mod nic;
pub mod paths;
mod per_process;
mod process;
mod queue_pair;
mod rendezvous;
mod semaphore;
mod shared_receive;
mod slices;

pub use device::write_files;
