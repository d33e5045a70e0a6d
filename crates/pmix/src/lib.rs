//! PMIx, by which Open MPI's launchers (`mpirun`, `prterun`) and Slurm tell processes who they are: the part of its C
//! ABI that a process needs to learn its rank and to exchange bytes with the others ([`abi`]), and a client that loads
//! libpmix at run time ([`Client`]).
//!
//! Nothing links libpmix: a program that no launcher of this kind has started must start where there is none.
//!
//! Source: the PMIx standard, versions 3 to 5, chapters "Initialization and finalization" (`PMIx_Init`,
//! `PMIx_Finalize`), "Data access and sharing" (`PMIx_Put`, `PMIx_Commit`, `PMIx_Get`) and "Synchronization"
//! (`PMIx_Fence`).

pub mod abi;
mod client;
mod error;
mod library;

pub use client::Client;
pub use error::Error;
