//! Programs of others over Weft: `weft run` starts them, `weft doctor` says whether they would use it.
//!
//! | here | what it is |
//! |---|---|
//! | `elf` | what a program says of the libraries that it wants |
//! | `places` | where Weft's libraries are, and programs |
//! | `files` | files of Weft's devices, where programs read those of adapters |
//! | `mpi` | which MPI library a program belongs to, and the variables of each |
//! | `check` | whether a program would get Weft's libibverbs |
//! | `report` | what the NICs of a launch have done |
//! | `launch` | `weft run` |
//! | `doctor` | `weft doctor` |
#![forbid(unsafe_code)]

mod check;
mod doctor;
mod elf;
mod files;
mod launch;
mod mpi;
mod places;
mod report;

pub use doctor::{Arguments as Doctor, run as run_doctor};
pub use launch::{Arguments as Run, run};
