//! `weft wan`: a long way between two networks, for the traffic of any program.

mod attach;
mod board;
mod check;
mod options;
mod run;
mod shared;
mod stat;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use weft_scenario::Direction;
use weft_wan::Kind;

use shared::{CARRY_COMMAND, failure};
use weft_command::failure::Failure;
use weft_command::output::{print, print_line};
use weft_command::table::{Align, Table};

const EXAMPLES: &str = "\
Examples:
  weft wan run --delay 4ms -- ping -c 3 10.1.0.2
  weft wan run --scenario wan.toml -- iperf3 -c 10.1.0.2 --and -- iperf3 -s -1
  weft wan show wan.toml
  weft wan stat
  weft wan check --quick

A scenario has the same keys as the options, for both directions or for one, and changes them over time.";

/// The arguments on the command line.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run one or two programs in two hosts with a long way between them, without root
    Run(run::Arguments),
    /// Put a long way in front of an interface of this machine, or between two of them
    Attach(attach::Arguments),
    /// Show what those that run have carried, and how late they were
    Stat(stat::Arguments),
    /// Read a scenario, and show what it does when
    #[command(after_help = "Example:\n  weft wan show wan.toml")]
    Show {
        /// The file
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Check the emulator against itself: what was set, beside what streams of packets and TCP got
    Check(check::Arguments),
    /// The process that carries packets, driven through standard input and output
    #[command(name = CARRY_COMMAND, hide = true)]
    Carry,
    /// The process that sends or receives in a host of a check, driven through standard input and output
    #[command(name = check::PROBE_COMMAND, hide = true)]
    Probe,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.command {
        Command::Run(arguments) => run::run(arguments),
        Command::Attach(arguments) => attach::run(arguments),
        Command::Stat(arguments) => stat::run(arguments),
        Command::Show { file } => show(file),
        Command::Check(arguments) => check::run(arguments),
        Command::Carry => weft_wan::serve().map_err(failure),
        Command::Probe => weft_wan::serve_probe().map_err(failure),
    }
}

fn show(file: &Path) -> Result<(), Failure> {
    let source = options::read(file)?;
    let scenario = weft_wan::check(&source.text, &source.folder, Kind::Rings).map_err(|error| source.failure(error))?;
    let mut table = Table::new(&[("from", Align::Right), ("forward", Align::Left), ("reverse", Align::Left)]);
    let both = scenario.changes(Direction::Forward).zip(scenario.changes(Direction::Reverse));
    for ((at, forward), (_, reverse)) in both {
        table.row([format!("{at:?}"), forward.to_string(), reverse.to_string()]);
    }
    print_line(format_args!("Seed {}.\n", scenario.seed))?;
    print(table)
}
