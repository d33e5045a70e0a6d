//! `weft lab`: networks of virtual links on this machine.
//!
//! A lab lives as long as its keeper, a process in the background ([`keeper`]) that `weft lab up` starts and that
//! writes down what there is ([`state`]). The other commands read that, and enter the namespaces of the lab's hosts by
//! themselves ([`enter`]).

mod cluster;
mod control;
mod enter;
mod graph;
mod keeper;
mod link;
mod list;
mod mpiexec;
mod rates;
mod shape;
mod state;
mod target;
mod topology;
mod up;

use std::ffi::OsString;

use clap::{Args, Subcommand};
use weft_lab::Way;

use state::{Lab, NewLab};
use target::Target;
use weft_command::failure::Failure;
use weft_command::shape::BRIDGE_COMMAND;

const EXAMPLES: &str = "\
Examples:
  weft lab up                               two hosts, one link of 1 Gb/s
  weft lab exec 0 -- ping -c 3 10.0.0.2
  weft lab exec 1 -- weft demo --listen 10.0.0.2 &
  weft lab exec 0 -- weft demo --connect 10.0.0.2
  weft lab down

A host is a network namespace. Programs in it see your files and have your rights over them, but user id 0. No command needs root.";

const UP_EXAMPLES: &str = "\
Examples:
  weft lab up --links 4                     two hosts, four links of 1 Gb/s between them
  weft lab up --hosts 8 --rate 2.5G         eight hosts at a switch
  weft lab up --rate none --no-offload      as fast as the processor, in real packets of 1500 bytes
  weft lab up --name slow --rate 10M        a second lab beside the first
  weft lab up --cluster 2x4 --wan 8ms,1G,loss=0.01
                                            hosts a0 to a3 and b0 to b3, 8 ms apart in each direction
  weft lab up --topology two.toml           what a file says
  weft lab up --foreground                  until Ctrl-C

Two hosts are joined directly, more by a switch for each of the links. The first link's interface is rail0. Host H has the addresses
10.L.0.H+1 and fd77:6566:7400:L::H+1 on link L, both counted from 0. In clusters, host H of cluster C has 10.L.C.H+1.";

const MPIEXEC_EXAMPLES: &str = "\
Examples:
  weft lab mpiexec -n 8 ./program           a rank in each host in turn, over Weft
  weft lab mpiexec -n 8 --ppn 4 --hosts a0,b0 --mpiexec /opt/mpich/bin/mpiexec ./program
  weft lab mpiexec -n 8 --over tcp ./program

The launcher runs in the first of the hosts, and no ssh is needed. Ranks see your files, as everything in a lab does.";

const EXEC_EXAMPLES: &str = "\
Examples:
  weft lab exec 0 -- ip address
  weft lab exec --name slow 1 -- iperf3 --server
  weft lab exec a0 -- ping -c 3 b0

Inside a host of a lab, that lab is meant.

The process becomes the command: its exit code and signals are the command's. What still runs when the lab goes down is killed.";

const SHAPE_EXAMPLES: &str = "\
Examples:
  weft lab shape rail0 --delay 10ms --rate 100M
  weft lab shape rail1 --loss 0.5 --burst 4 --reorder 2 --reorder-by 500us
  weft lab shape 1:rail0 --jitter 2ms       only host 1's cable, in both directions
  weft lab shape wan --delay 25ms           the links between clusters, in each direction
  weft lab shape rail0 --off

Each time says it all: what is not named is not done any more. Packets of
a shaped rail wait in the kernel's packet queues, or with --carrier rings a process carries each frame, which programs
that send frames of their own need.
Two hosts that are joined directly get a switch with the first shape, as if all their cables were plugged in anew.";

const CUT_EXAMPLES: &str = "\
Examples:
  weft lab cut rail1                        both hosts' link: no carrier
  weft lab cut rail1 --way silent           nothing passes, and the link stays up
  weft lab cut 0:rail1 --way send           what host 0 sends is lost, what it is sent arrives
  weft lab cut 2:rail0                      host 2's cable to the switch of rail 0
  weft lab cut wan --way silent             all links between clusters: a partition
  weft lab cut a-b --way send               what cluster a sends to cluster b is lost
  weft lab mend rail1

Where two hosts are joined directly, one of them sees no carrier and the other an interface that is down.";

/// The arguments on the command line.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a lab, which stays until `weft lab down`
    #[command(after_help = UP_EXAMPLES)]
    Up(Box<up::Arguments>),
    /// Run a command in a host of a lab
    #[command(after_help = EXEC_EXAMPLES)]
    Exec {
        #[command(flatten)]
        lab: Lab,
        /// The host: its name, or its number from 0
        #[arg(value_name = "HOST")]
        host: String,
        /// The command and its arguments
        #[arg(value_name = "CMD", required = true, trailing_var_arg = true)]
        command: Vec<OsString>,
    },
    /// Run an MPI program in the hosts of a lab, by the launcher of MPICH, Intel MPI or Open MPI
    #[command(after_help = MPIEXEC_EXAMPLES)]
    Mpiexec(mpiexec::Arguments),
    /// Open a shell in a host of a lab
    #[command(after_help = "Example:\n  weft lab shell 1                          $SHELL, or else /bin/sh")]
    Shell {
        #[command(flatten)]
        lab: Lab,
        /// The host: its name, or its number from 0
        #[arg(value_name = "HOST")]
        host: String,
    },
    /// Show the labs that are up
    #[command(after_help = "Examples:\n  weft lab list\n  weft lab list --json | jq '.[].hosts[].rails'")]
    List {
        /// Print JSON, for programs
        #[arg(long)]
        json: bool,
    },
    /// Cut a link of a lab that is up, in one of several ways
    #[command(after_help = CUT_EXAMPLES)]
    Cut {
        #[command(flatten)]
        lab: Lab,
        /// The link: railL, or H:railL for host H's cable to it; wan for all links between clusters, or a-b for that
        /// between clusters a and b
        #[arg(value_name = "LINK")]
        link: Target,
        /// How it fails: carrier, silent, or send or receive for one direction of one host's cable, or of a link
        /// between clusters as the first one sees it
        #[arg(long, value_name = "WAY", default_value = "carrier")]
        way: Way,
    },
    /// Mend a link that was cut, in whatever way
    #[command(
        after_help = "Examples:\n  weft lab mend rail1\n  weft lab mend 2:rail0\n  weft lab mend wan\n  weft lab mend --all"
    )]
    Mend {
        #[command(flatten)]
        lab: Lab,
        /// The link: railL, or H:railL for host H's cable to it; wan for all links between clusters, or a-b for that
        /// between clusters a and b
        #[arg(value_name = "LINK", required_unless_present = "all")]
        link: Option<Target>,
        /// Mend all of them
        #[arg(long, conflicts_with = "link")]
        all: bool,
    },
    /// Have a link delay, lose, reorder, repeat or damage what is sent over it
    #[command(after_help = SHAPE_EXAMPLES)]
    Shape(shape::Arguments),
    /// Show the links of a lab: how they are cut, how shaped
    #[command(after_help = "Examples:\n  weft lab links\n  weft lab links --json | jq '.[] | select(.cut != [])'")]
    Links {
        #[command(flatten)]
        lab: Lab,
        /// Print JSON, for programs
        #[arg(long)]
        json: bool,
    },
    /// Draw a lab as SVG: hosts, addresses, clusters and links
    #[command(after_help = "Example:\n  weft lab graph > lab.svg")]
    Graph {
        #[command(flatten)]
        lab: Lab,
    },
    /// End a lab, and kill what still runs in it
    #[command(after_help = "Examples:\n  weft lab down\n  weft lab down --name slow\n  weft lab down --all")]
    Down {
        #[command(flatten)]
        lab: Lab,
        /// End all of them
        #[arg(long, conflicts_with = "name")]
        all: bool,
    },
    /// The process that carries the frames of shaped links, driven through standard input and output
    #[command(name = BRIDGE_COMMAND, hide = true)]
    Bridge,
    /// What MPI's launchers take for rsh and ssh
    #[command(hide = true)]
    Rsh {
        #[command(flatten)]
        lab: Lab,
        /// Options that are ignored, the host, and a command line
        #[arg(value_name = "WORD", trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<OsString>,
    },
    /// The process behind `up`, driven through standard input and output
    #[command(hide = true)]
    Keep {
        #[command(flatten)]
        lab: NewLab,
    },
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.command {
        Command::Up(arguments) => up::run(arguments),
        Command::Exec { lab, host, command } => enter::exec(&lab.name(), host, command),
        Command::Mpiexec(arguments) => mpiexec::run(arguments),
        Command::Shell { lab, host } => enter::shell(&lab.name(), host),
        Command::List { json } => list::run(*json),
        Command::Cut { lab, link, way } => link::cut(&lab.name(), link, *way),
        Command::Mend { lab, link, .. } => link::mend(&lab.name(), link.as_ref()),
        Command::Shape(arguments) => shape::run(arguments),
        Command::Bridge => weft_lab::serve_bridge().map_err(Failure::while_doing("bridge")),
        Command::Graph { lab } => graph::run(&lab.name()),
        Command::Links { lab, json } => link::list(&lab.name(), *json),
        Command::Down { all: true, .. } => keeper::end_all(),
        Command::Down { lab, .. } => keeper::end(&lab.name()),
        Command::Rsh { lab, words } => enter::rsh(&lab.name(), words),
        Command::Keep { lab } => keeper::run(&lab.name),
    }
}
