//! The command line of `weft rping`.

use std::fmt;

use clap::{ArgGroup, Args};
use weft_command::connection::StreamOptions;
use weft_command::failure::Failure;
use weft_command::output::{complain, print_bytes};
use weft_command::target::Target;

use super::ping;

const EXAMPLES: &str = "\
Examples:
  weft rping -s                                       on one machine, and on the other:
  weft rping -c -a 192.0.2.1 -C 10 -v -V
  rping -c -a 192.0.2.1 -C 10 -v -V                   or the rping of rdmacm-utils there
  weft rping -c -a 192.0.2.1 -C 1000 -S 65000 --crc off
  weft rping -c -a 'edge://192.0.2.1?rails=eth0,eth1' -C 10

A client ends after COUNT pings; a server when its client disconnects. It is an error if that
happens before COUNT pings are done.";

/// The arguments on the command line. The short options are those of rping(1).
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, group = ArgGroup::new("role").required(true).args(["server", "client"]))]
pub(crate) struct Arguments {
    /// Be the server
    #[arg(short)]
    pub(super) server: bool,
    /// Be the client
    #[arg(short, requires = "address")]
    pub(super) client: bool,
    /// The server's address; a server without it listens on all of this machine's
    #[arg(short, value_name = "[SCHEME://]ADDRESS[:PORT][?rails=IF,...]")]
    pub(super) address: Option<Target>,
    /// The server's port, unless its address has one; 0 lets a server take a free one
    #[arg(short, value_name = "PORT", default_value_t = 7174)]
    pub(super) port: u16,
    /// The address to connect from
    #[arg(short = 'I', value_name = "ADDRESS", conflicts_with = "server")]
    pub(super) source: Option<String>,
    /// Pings; 0: until the other side, or Ctrl-C, ends it
    #[arg(short = 'C', value_name = "COUNT", default_value_t = 0)]
    pub(super) count: u32,
    /// Bytes of each ping, chosen by the client
    #[arg(short = 'S', value_name = "SIZE", default_value_t = 64, value_parser = clap::value_parser!(u32).range(ping::SIZES))]
    pub(super) size: u32,
    /// Compare what comes back with what was sent (a client)
    #[arg(short = 'V')]
    pub(super) validate: bool,
    /// Print the data of each ping
    #[arg(short)]
    pub(super) verbose: bool,
    /// Print each step to standard error
    #[arg(short)]
    pub(super) debug: bool,
    /// Serve one client after the other, and several at a time, until Ctrl-C
    #[arg(short = 'P', conflicts_with = "client")]
    pub(super) persistent: bool,
    #[command(flatten)]
    pub(super) stream: StreamOptions,
}

impl Arguments {
    pub(super) fn trace(&self, step: impl fmt::Display) {
        if self.debug {
            complain(step);
        }
    }

    /// Prints a ping up to its NUL.
    pub(super) fn show(&self, label: &str, data: &[u8]) -> Result<(), Failure> {
        if !self.verbose {
            return Ok(());
        }
        let text = data.split(|byte| *byte == 0).next().unwrap_or_default();
        print_bytes(&[label.as_bytes(), text, b"\n"].concat())
    }
}
