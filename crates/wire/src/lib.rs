//! Bytes to values and back: the headers of MPA (RFC 5044, RFC 6581), DDP (RFC 5041) and RDMAP (RFC 5040, RFC 7306),
//! those of Weft's messages and of Edge, with and without IP, and CRC-32C.
//!
//! Each header is a plain value with `parse` and `emit`. Parsing checks form only; whether a value is allowed where it
//! is, the machines in `weft-mpa` and `weft-rdmap` decide. All fields are big-endian, but for MPA's CRC.
#![forbid(unsafe_code)]

pub mod atomic_call;
mod bytes;
mod crc;
pub mod ddp;
pub mod edge;
pub mod lent;
pub mod message;
pub mod mpa;
pub mod raw;
pub mod rdmap;
pub mod terminate;
pub mod window;

pub use crc::Crc32c;
