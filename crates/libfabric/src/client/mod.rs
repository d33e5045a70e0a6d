//! A client of libfabric: one reliable-datagram endpoint, tagged messages, one completion queue that the caller spins
//! on.
//!
//! [`Fabric::open`] finds a provider and opens its domain; [`Fabric::endpoint`] makes the endpoint with its [`Slots`],
//! the buffers that messages are sent from and received into. The two sides exchange [`Endpoint::address`] by means of
//! their own and [`Endpoint::insert`] the other's.

mod endpoint;
mod error;
mod fabric;
mod library;
mod slots;

pub use endpoint::{Completion, Endpoint, PeerAddress, Posted};
pub use error::Error;
pub use fabric::{Fabric, Local};
pub use library::{Library, Provider};
pub use slots::{Operation, Slots};
