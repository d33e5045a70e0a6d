//! `weft rping`: the test of rdmacm-utils, compatible on the wire, in both roles.
//!
//! Each ping: the client names a buffer, the server reads it by RDMA; the client names another, the server writes the
//! data there. Messages of 16 bytes advertise both ([`ping::Advert`]); the server's answers are messages of the same
//! length whose content does not matter.

mod arguments;
mod client;
mod ping;
mod server;

use std::net::Ipv4Addr;

use weft_command::connection::Depths;
use weft_command::failure::Failure;
use weft_command::interrupt::Interrupt;

pub(crate) use arguments::Arguments;

/// One read is in flight at a time, in each direction, as rping has it.
const DEPTHS: Depths = Depths { ird: 1, ord: 1 };

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let interrupt = Interrupt::watch()?;
    let mut options = arguments.stream.clone();
    arguments.address.iter().try_for_each(|target| target.apply(&mut options))?;
    let endpoint = weft_command::connection::Endpoint::open(&options, DEPTHS, &interrupt)?;
    let resolved = arguments.address.as_ref().map(|target| target.resolve(arguments.port)).transpose()?;
    match resolved {
        Some(address) if arguments.client => client::run(arguments, address, &endpoint, &interrupt),
        address => server::run(arguments, address.unwrap_or((Ipv4Addr::UNSPECIFIED, arguments.port).into()), &endpoint),
    }
}
