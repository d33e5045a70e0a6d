//! The `weft` command.
#![forbid(unsafe_code)]

mod info;
mod interop;
mod lab;
mod link_helper;
mod man;
mod rping;
mod stat;
mod wan;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;

use weft_command::failure::Failure;
use weft_command::{environment, interrupt, output};
use weft_demo as demo;
use weft_perf as perf;
use weft_run as program;

/// RDMA over ordinary Ethernet, in user space.
#[derive(Parser)]
#[command(name = "weft", version, arg_required_else_help = true, after_help = EXIT_CODES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "\
Exit codes: 0 all went well, 1 something failed at run time, 2 the command line is wrong, 130 interrupted,
141 nobody reads what it says.";

#[derive(Subcommand)]
enum Command {
    /// See it work: move a file by RDMA between two processes, compare digests, measure beside TCP
    Demo(demo::Arguments),
    /// The other process of a demo, driven by the connection
    #[command(name = demo::PEER_COMMAND, hide = true)]
    DemoPeer {
        /// What carries the connection
        transport: weft_command::transport::Transport,
    },
    /// Say whether a program of this shell will use Weft, and why not
    Doctor(program::Doctor),
    /// Measure what the catalogue of experiments lists, and draw it: charts, and one page
    Figures(perf::Figures),
    /// Show what this machine has: interfaces, limits, and what it can do
    Info(info::Arguments),
    /// Make a network of virtual links on this machine, without root, and run programs in its hosts
    Lab(lab::Arguments),
    /// Open packet sockets for users without the right to, for their --link
    LinkHelper(link_helper::Arguments),
    /// Measure latency, bandwidth or message rate, beside others on the same machine
    Perf(Box<perf::Arguments>),
    /// Ping with RDMA: read and write back a buffer, as rping of rdmacm-utils does, and with it as the peer
    Rping(rping::Arguments),
    /// Run a program that uses RDMA by libibverbs, or MPI, unchanged, over Weft
    Run(program::Run),
    /// Show what the NICs of all processes of this user have done and are doing
    Stat(stat::Arguments),
    /// Put a long way between two networks: delay, loss, rate, by options or by a scenario, for any program
    Wan(Box<wan::Arguments>),
    /// Write the manual pages of weft and its subcommands, which `make install` installs
    #[command(hide = true)]
    Man(man::Arguments),
    /// Short exchanges that tests have with other implementations
    #[command(hide = true)]
    Interop(interop::Arguments),
    /// One side of one measurement, driven through standard input and output
    #[command(name = perf::PEER_COMMAND, hide = true)]
    PerfPeer,
    /// One side of a stream over several links, in a host of a lab
    #[command(name = perf::SIDE_COMMAND, hide = true)]
    PerfLinksSide(perf::Side),
    /// One side of a stream whose links are cut, in a host of a lab
    #[command(name = perf::CUTS_COMMAND, hide = true)]
    PerfCutsSide(perf::CutsSide),
    /// A stream to the kernel's TCP with segments that come late, in a host of a lab
    #[command(name = perf::DISORDER_COMMAND, hide = true)]
    PerfDisorderSide(perf::DisorderSide),
    /// Print a script that completes weft's command line
    #[command(after_help = "Example:\n  weft completions bash > /etc/bash_completion.d/weft")]
    Completions {
        /// The shell that will read it
        shell: Shell,
    },
}

/// The command line, with the environment in its help (`weft --help`, not `weft -h`).
fn command() -> clap::Command {
    Arguments::command().after_long_help(format!("{EXIT_CODES}\n\n{}", environment::help()))
}

fn main() -> ExitCode {
    let parsed = command().try_get_matches().and_then(|matches| Arguments::from_arg_matches(&matches));
    let arguments = match parsed {
        Ok(arguments) => arguments,
        Err(help) => return show(&help),
    };
    match arguments.command.check_environment().and_then(|()| run(arguments.command)) {
        Ok(()) => ExitCode::SUCCESS,
        // What went wrong after Ctrl-C did so because of it: the other process of a connection may have got it first.
        Err(Failure::Runtime(_)) if interrupt::has_come() => end(&Failure::Interrupted),
        Err(failure) => end(&failure),
    }
}

impl Command {
    /// Whether settings must be right for it: a user has started it, and not another process of the command, which was
    /// checked.
    fn is_users(&self) -> bool {
        match self {
            Self::Demo(_)
            | Self::Figures(_)
            | Self::Info(_)
            | Self::Lab(_)
            | Self::LinkHelper(_)
            | Self::Perf(_)
            | Self::Rping(_)
            | Self::Run(_)
            | Self::Stat(_)
            | Self::Wan(_) => true,
            // It says itself what is wrong with settings.
            Self::Doctor(_)
            | Self::DemoPeer { .. }
            | Self::Man(_)
            | Self::Interop(_)
            | Self::PerfPeer
            | Self::PerfLinksSide(_)
            | Self::PerfCutsSide(_)
            | Self::PerfDisorderSide(_)
            | Self::Completions { .. } => false,
        }
    }

    /// Refuses settings in the environment (`FI_WEFT_*`) that are wrong.
    fn check_environment(&self) -> Result<(), Failure> {
        if self.is_users() { environment::check() } else { Ok(()) }
    }
}

/// Help, a version, or what is wrong with the command line.
fn show(help: &clap::Error) -> ExitCode {
    match help.print() {
        Err(error) if !help.use_stderr() => end(&output::failed(error)),
        _ => ExitCode::from(u8::try_from(help.exit_code()).unwrap_or(2)),
    }
}

fn end(failure: &Failure) -> ExitCode {
    if !matches!(failure, Failure::Unread | Failure::Exited(_)) {
        output::complain(format_args!("weft: {failure}"));
    }
    failure.exit_code()
}

fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Demo(arguments) => demo::run(&arguments),
        Command::DemoPeer { transport } => demo::run_peer(transport),
        Command::Doctor(arguments) => program::run_doctor(&arguments),
        Command::Figures(arguments) => perf::run_figures(&arguments),
        Command::Info(arguments) => info::run(&arguments),
        Command::Lab(arguments) => lab::run(&arguments),
        Command::LinkHelper(arguments) => link_helper::run(&arguments),
        Command::Perf(arguments) => perf::run(&arguments),
        Command::PerfPeer => perf::run_peer(),
        Command::PerfLinksSide(side) => perf::run_side(&side),
        Command::PerfCutsSide(side) => perf::run_cuts_side(&side),
        Command::PerfDisorderSide(side) => perf::run_disorder_side(&side),
        Command::Rping(arguments) => rping::run(&arguments),
        Command::Run(arguments) => program::run(&arguments),
        Command::Stat(arguments) => stat::run(&arguments),
        Command::Wan(arguments) => wan::run(&arguments),
        Command::Interop(arguments) => interop::run(&arguments),
        Command::Man(arguments) => man::run(&arguments, Arguments::command()),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "weft", &mut script);
            output::print_bytes(&script)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_agree_with_each_other() {
        command().debug_assert();
    }
}
