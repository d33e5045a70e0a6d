//! The structures, constants and function types of libfabric's headers, one module for each header.
//!
//! Names, fields and their order are those of the C headers, so that `man fi_getinfo` and its kin document them.
//! Structures have the layout of libfabric 2.6. All growth since 1.17 was appended, and the fields that 1.17 lacks say
//! so: code that reads a structure of another allocator touches only the fields of the version that was negotiated,
//! through raw pointers. C's enumerations are integers here: a value from a newer library must not be undefined
//! behaviour.
#![expect(non_camel_case_types, reason = "the names are those of the C headers")]
#![expect(clippy::type_complexity, reason = "they are the functions of the C headers, argument by argument")]
#![expect(missing_docs, reason = "the manual pages of libfabric document each field under the same name")]

pub mod atomic;
pub mod collective;
pub mod domain;
pub mod endpoint;
pub mod eq;
pub mod errno;
pub mod fabric;
pub mod prov;
pub mod rma;

pub use atomic::*;
pub use collective::*;
pub use domain::*;
pub use endpoint::*;
pub use eq::*;
pub use fabric::*;
pub use prov::*;
pub use rma::*;
