//! `libweft-fi.so`: a provider for libfabric, so that MPI libraries and other users of libfabric run over Weft
//! unchanged.
//!
//! libfabric finds the library through `FI_PROVIDER_PATH`, calls `fi_prov_ini`, and then uses tables of functions. A
//! function of such a table only converts: it checks what C cannot promise, and calls inward (`border`).
//!
//! libfabric itself is never linked: its symbols have other versions in each MPI library's copy.

mod addresses;
mod border;
mod domain;
mod endpoint;
mod entry;
mod errno;
mod fabric;
pub mod for_preload;
mod info;
mod interfaces;
mod libfabric;
pub mod loaded;
mod memory;
mod parameters;
mod process;
mod queue;
mod registration;
mod remote;
mod stderr;
mod version;

pub use entry::fi_prov_ini;
