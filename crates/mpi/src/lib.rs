//! `libweft-mpi.so`: one-sided windows of unmodified MPI programs, over Weft's windows and fences.
//!
//! It is preloaded (`LD_PRELOAD`), and takes the calls of MPI's one-sided communication by MPI's profiling interface
//! (MPI 4.1 chapter 15): what is `MPI_Put` for the program is this library's, and the MPI library's own is `PMPI_Put`.
//!
//! | here | what it is |
//! |---|---|
//! | `entry` | the C functions: they convert and call inward |
//! | `windows` | which windows there are, and what serves each: chosen by all ranks when it is made |
//! | `served` | a window that Weft serves |
//! | `slot` | one call after another uses it; while the program computes the NIC's thread serves it |
//! | `layout`, `datatype` | where the bytes of MPI's datatypes are |
//! | `abi`, `standard` | what differs among MPI libraries: the constants, and the width of handles |
//! | `library` | the functions of the MPI library, found at run time: none is linked |
//!
//! Every window has one of the MPI library beneath it, for its handle, group and attributes. A window is served by Weft
//! or by the library, all of it, for as long as it is there.
//!
//! A window has two of Weft's over the same memory: one whose epochs are fences, and one for locks and for post, start,
//! complete and wait. So a program may lock after a fence that did not say that nothing follows: for Weft its epoch is
//! still open.

mod abi;
mod datatype;
pub mod entry;
mod fault;
mod layout;
mod library;
mod operation;
mod report;
mod served;
mod setup;
mod slot;
mod standard;
mod windows;
