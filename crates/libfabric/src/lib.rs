//! The C ABI of libfabric, declared by hand ([`abi`]), and a client that loads libfabric at run time and sends tagged
//! messages through any of its providers ([`Fabric`], [`Endpoint`]).
//!
//! Nothing links libfabric: symbol versions differ between the copies that distributions and MPI libraries bring along,
//! and a program that only wants to compare itself with libfabric must start where there is none.

pub mod abi;
mod client;

pub use client::{
    Completion, Endpoint, Error, Fabric, Library, Local, Operation, PeerAddress, Posted, Provider, Slots,
};
