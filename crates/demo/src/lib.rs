//! `weft demo`: what Weft is for, in one command.
//!
//! Two processes connect. The active one writes a file into the other's memory by RDMA and reads it back
//! (`transfer`); each computes digests of what it has; then both measure beside plain TCP (`measure`). The passive
//! one (`passive`) is a second process of this machine (`process`), or runs on another one.
#![forbid(unsafe_code)]

mod measure;
mod passive;
mod process;
mod report;
mod size;
mod source;
mod talk;
mod transfer;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use self::process::Peer;
use self::report::Report;
use self::size::Bytes;
use self::source::Source;
use self::talk::Windows;
use weft_command::connection::{Depths, Endpoint, Link, StreamOptions, announce};
use weft_command::failure::Failure;
use weft_command::interrupt::Interrupt;
use weft_command::output::{print, print_line};
use weft_command::target::Target;
use weft_command::transport::Transport;
use weft_perf::Measurement;

pub use self::process::PEER_COMMAND;

const EXAMPLES: &str = "\
Examples:
  weft demo                                  two processes of this machine
  weft demo --file /boot/vmlinuz --json      which weft figures --from draws, too
  weft demo --listen 192.0.2.1               on one machine, and on the other:
  weft demo --connect 192.0.2.1 --size 1G
  weft demo --transport edge                 over Edge; both sides must say so
  weft demo --connect 'edge://192.0.2.1?rails=eth0,eth1'

The digests are SHA-256: `here` is the file as it was read, `there` what the other process found in its memory after
the RDMA writes, `read back` what came from there by RDMA reads.";

/// What it asks, as an experiment.
const QUESTION: &str = "Does a file come through unharmed, and how fast are the same processes beside plain TCP?";

const DEFAULT_PORT: u16 = 7470;
const DEPTHS: Depths = Depths { ird: 16, ord: 16 };

/// The arguments on the command line.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The file to move [default: made up]
    #[arg(long, value_name = "PATH", conflicts_with = "size")]
    file: Option<PathBuf>,
    /// Bytes to make up and move: 5000, 64M, 2G
    #[arg(long, value_name = "SIZE", default_value = "64M")]
    size: Bytes,
    /// How long each of the measurements takes, three times over
    #[arg(long, value_name = "SECONDS", default_value = "0.25", value_parser = measure::seconds)]
    seconds: Duration,
    /// Be the passive side, once, for another machine
    #[arg(long, value_name = "[SCHEME://]ADDRESS[:PORT][?rails=IF,...]")]
    #[arg(conflicts_with_all = ["file", "size", "connect", "json", "seconds"])]
    listen: Option<Target>,
    /// Be the active side to the machine that listens there
    #[arg(long, value_name = "[SCHEME://]HOST[:PORT][?rails=IF,...]")]
    connect: Option<Target>,
    /// What carries the connection, unless an address says so
    #[arg(long, value_enum, default_value_t = Transport::Iwarp)]
    transport: Transport,
    /// Engines of this side, which share the rails of an Edge connection
    #[arg(long, value_name = "N", default_value_t = 1)]
    engines: usize,
    /// Print the result as JSON, as weft perf writes it
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// What the other side or the connection refuses, a file that cannot be read, a digest that differs, Ctrl-C.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let interrupt = Interrupt::watch()?;
    let mut options =
        StreamOptions { transport: arguments.transport, engines: arguments.engines, ..StreamOptions::usual() };
    for target in arguments.listen.iter().chain(&arguments.connect) {
        target.apply(&mut options)?;
    }
    let endpoint = Endpoint::open(&options, DEPTHS, &interrupt)?;
    if let Some(target) = &arguments.listen {
        return passive::serve_one(&endpoint, target.resolve(DEFAULT_PORT)?, |listener| {
            announce(listener);
            Ok(())
        });
    }
    let measurement = Measurement::begin("demo", QUESTION);
    let mut source = Source::open(arguments.file.as_deref(), arguments.size.0)?;
    let report = match &arguments.connect {
        Some(target) => active(arguments, &endpoint, &mut source, target.resolve(DEFAULT_PORT)?, None)?,
        None => {
            let mut peer = Peer::start(arguments.transport)?;
            let report = active(arguments, &endpoint, &mut source, peer.address(), Some(peer.id()));
            // What the other process says explains more than that it has gone.
            match report {
                Ok(report) => {
                    peer.finish()?;
                    report
                }
                Err(failure) => return Err(peer.explain(failure)),
            }
        }
    };
    print(if arguments.json { report.document(measurement).write() } else { report.to_string() })?;
    report.verdict()
}

/// Runs the passive process of a demo on one machine.
///
/// # Errors
/// What the connection refuses, a parent that has ended.
pub fn run_peer(transport: Transport) -> Result<(), Failure> {
    process::end_with_parent()?;
    let interrupt = Interrupt::watch()?;
    let options = StreamOptions { transport, ..StreamOptions::usual() };
    let endpoint = Endpoint::open(&options, DEPTHS, &interrupt)?;
    passive::serve_one(&endpoint, process::LOOPBACK, |listener| print_line(listener.local_address()))
}

fn active(
    arguments: &Arguments,
    endpoint: &Endpoint,
    source: &mut Source,
    remote: SocketAddr,
    peer_id: Option<u32>,
) -> Result<Report, Failure> {
    let link = endpoint.connect(remote, None)?;
    let mut report = Report::new(source, &link, peer_id);
    let windows = Windows::open(&link, source.length())?;
    report.moved = Some(transfer::run(&link, &windows, source)?);
    report.measured = measure::run(&link, &windows, arguments.seconds)?;
    close(&link)?;
    Ok(report)
}

fn close(link: &Link) -> Result<(), Failure> {
    link.close().map_err(|error| error.during("cannot disconnect"))
}
