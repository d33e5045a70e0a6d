//! `weft rping`: the test of rdmacm-utils, compatible on the wire, in both roles.
//!
//! Each ping: the client names a buffer, the server reads it by RDMA; the client names another, the server writes the data there. Both
//! are told by messages of 16 bytes ([`ping::Advert`]); the server's answers are messages of the same length whose content is of no matter.

mod client;
mod ping;
mod server;

use std::fmt;
use std::net::Ipv4Addr;

use clap::{ArgGroup, Args};

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::link::{Depths, StreamOptions};
use crate::output::{complain, print_bytes};
use crate::target::Target;

const EXAMPLES: &str = "\
Examples:
  weft rping -s                                       on one machine, and on the other:
  weft rping -c -a 192.0.2.1 -C 10 -v -V
  rping -c -a 192.0.2.1 -C 10 -v -V                   or the rping of rdmacm-utils there
  weft rping -c -a 192.0.2.1 -C 1000 -S 65000 --crc off
  weft rping -c -a 'edge://192.0.2.1?rails=eth0,eth1' -C 10

A client ends after COUNT pings; a server when its client disconnects. It is an error if that happens before COUNT pings are done.";

/// One read is under way at a time, in each direction, as rping has it.
const DEPTHS: Depths = Depths { ird: 1, ord: 1 };

/// What can be said on the command line. The short options are those of rping(1).
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, group = ArgGroup::new("role").required(true).args(["server", "client"]))]
pub(crate) struct Arguments {
    /// Be the server
    #[arg(short)]
    server: bool,
    /// Be the client
    #[arg(short, requires = "address")]
    client: bool,
    /// The server's address; a server without it listens on all of this machine's
    #[arg(short, value_name = "[SCHEME://]ADDRESS[:PORT][?rails=IF,...]")]
    address: Option<Target>,
    /// The server's port, unless its address has one; 0 lets a server take a free one
    #[arg(short, value_name = "PORT", default_value_t = 7174)]
    port: u16,
    /// The address to connect from
    #[arg(short = 'I', value_name = "ADDRESS", conflicts_with = "server")]
    source: Option<String>,
    /// Pings; 0: until the other side, or Ctrl-C, ends it
    #[arg(short = 'C', value_name = "COUNT", default_value_t = 0)]
    count: u32,
    /// Bytes of each ping, chosen by the client
    #[arg(short = 'S', value_name = "SIZE", default_value_t = 64, value_parser = clap::value_parser!(u32).range(ping::SIZES))]
    size: u32,
    /// Compare what comes back with what was sent (a client)
    #[arg(short = 'V')]
    validate: bool,
    /// Print the data of each ping
    #[arg(short)]
    verbose: bool,
    /// Print each step to standard error
    #[arg(short)]
    debug: bool,
    /// Serve one client after the other, and several at a time, until Ctrl-C
    #[arg(short = 'P', conflicts_with = "client")]
    persistent: bool,
    #[command(flatten)]
    stream: StreamOptions,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let interrupt = Interrupt::watch()?;
    let mut options = arguments.stream.clone();
    arguments.address.iter().try_for_each(|target| target.apply(&mut options))?;
    let endpoint = crate::link::Endpoint::open(&options, DEPTHS, &interrupt)?;
    let resolved = arguments.address.as_ref().map(|target| target.resolve(arguments.port)).transpose()?;
    match resolved {
        Some(address) if arguments.client => client::run(arguments, address, &endpoint, &interrupt),
        address => server::run(arguments, address.unwrap_or((Ipv4Addr::UNSPECIFIED, arguments.port).into()), &endpoint),
    }
}

impl Arguments {
    fn trace(&self, step: impl fmt::Display) {
        if self.debug {
            complain(step);
        }
    }

    /// Prints a ping up to its NUL.
    fn show(&self, label: &str, data: &[u8]) -> Result<(), Failure> {
        if !self.verbose {
            return Ok(());
        }
        let text = data.split(|byte| *byte == 0).next().unwrap_or_default();
        print_bytes(&[label.as_bytes(), text, b"\n"].concat())
    }
}
