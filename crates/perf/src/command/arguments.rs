//! The command line of `weft perf`: a subcommand for each test.

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use weft::verbs::LinkSettings;

use crate::command::options::Options;
use crate::command::tests::{What, users};
use crate::experiments::cuts::Cuts;

/// A command, and what it is for; each is in the help of its test.
const EXAMPLES: &str = "\
  weft perf latency                                   8 bytes, beside every peer that is installed
  weft perf latency --size 8..4K --launches 10        several sizes, more launches
  weft perf bandwidth --vs sockets,sockets:256K       beside plain TCP, same write size and 256 KiB writes
  weft perf bandwidth --size 1M --vs sockets:crc      beside plain TCP that checks its data at both ends
  weft perf rate --vs sockets:batched,libfabric:tcp   8-byte messages, beside a batching program and libfabric
  weft perf bandwidth --vs iwarp:markers=on,iwarp:crc=off   beside itself with other settings
  weft perf latency --transport iwarp:short=inline --vs iwarp:short=descriptor --size 8..128
  weft perf latency --transport shm --vs ring,iwarp,sockets   through shared memory, beside the rings alone
  weft perf latency --transport shm --vs iceoryx2,ucx:cma   and beside shared memory of others
  weft perf bandwidth --transport edge --vs quinn     streams over UDP
  weft perf ping-ping                                 both sides send at once
  weft perf overlap --target silent --size 64K,256K   computation hidden beside transfers
  weft perf overlap --operation read --computation 1,100,2000
  weft perf overlap-ratio --lab 1G --delay 0us,4ms --computation 242   which part of a transfer's time is computed
  weft perf progress                                  fetches from a server whose application computes
  weft perf progress --lab 1G --delay 1ms --lateness 0ms,64ms --vs sockets
  weft perf slowdown                                  what 40 streams take from the server's application
  weft perf slowdown --lab 1G --load 400M --size 1K,16K --vs sockets
  weft perf split --json split.json                   which stage runs where, and where each wins
  weft perf bandwidth --lab 1G                        between two hosts of a test network, made for this
  weft perf latency --lab none --transport edge:raw=on --vs sockets   in Ethernet frames of its own, without IP
  weft perf clusters --delay 1ms,4ms                  to the same host, the same cluster and another, by one endpoint
  weft perf clusters --size 4..16K --transport iwarp:transport=shm+edge --vs sockets
  weft perf connect --lab 1G --delay 1ms,8ms          set-up of queue pairs, endpoints, Edge, TCP, in round trips
  weft perf logp --size 8..64K                        overheads, gap, latency, gap per byte (LogP)
  weft perf notified-put --size 8,64K                 until the target of a put knows of it, beside a message
  weft perf cache-traffic --size 64K                  what a byte of payload moves between caches and memory
  weft perf cache-traffic --lab none --transport iwarp:raw=on:markers=on --vs sockets
  weft perf verbs                                     Debian's perftest over libibverbs.so.1, beside Weft's own client
  weft perf verbs --transport iwarp --vs perftest:iwarp
  weft perf nas --npb NPB3.4.3 --class A               NAS benchmarks that you have unpacked there
  weft perf nas --npb NPB3.4.3 --benchmark is --library mpich,intel --processes 4
  weft perf isosurface --picture surface.png          an application that renders what it is sent, by design
  weft perf isosurface --side 1024,2048 --lab 1G --markers on --wait block
  weft perf markers                                   what markers cost, by their spacing
  weft perf in-order-tax --mtu 9000                   what being ready for disorder costs when all is in order
  weft perf idle --connections 1000 --seconds 10      what quiet connections cost
  weft perf all-to-all --processes 8,64               many processes on this machine
  weft perf disorder --late 0,5 --lost 0,1            late segments placed, kept, dropped, gone back to; in virtual time
  weft perf disorder --transport edge --links 1,4     the same faults under Edge, over one link and over four
  weft perf reordering --late 0,5 --lost 0,1          the same on real packets of a link, beside the kernel's TCP
  weft perf fence --ranks 4,8 --fence all             fences of windows, beside MPI_Win_fence
  mpiexec -n 8 weft perf fence                        the same over the ranks that Hydra or Slurm has started
  weft perf fence --simulate 64,256,1024              the same in virtual time, where there are no such machines
  weft perf halo --ranks 8 --cells 32 --fence all     faces of a stencil, contiguous and strided
  weft perf heat --ranks 2,4,8 --fence all            an application: heat on a plate, by time to solution
  weft perf window-overlap --size 16..256K            computation hidden between a put and its fence
  weft perf emulator                                  what the emulator of networks misses of what was set
  weft perf match --others 100000                     what it costs to match a message among many
  weft perf mpi --library mpich --test latency,rate   an MPI library over Weft, libfabric's tcp, and UCX
  weft perf mpi --test latency --vs libfabric-tcp,sockets   and what TCP takes on the same way without MPI
  weft perf mpi-clusters --library mpich --delay 0us,8ms,50ms   MPI ranks in two clusters, by their distance
  weft perf rate --transport messages --vs libfabric:tcp,ucx
  weft perf bandwidth --transport libfabric:weft --vs libfabric:tcp,ucx
  weft perf links --links 4 --cut-link silent --watch   four links in a lab, of which one is cut in mid-transfer
  weft perf links --links 1,2,4,1x10G,2x5G --vs tcp   links of other rates in the same run
  weft perf links --links 1 --rate 200M --emulate delay=50ms --vs tcp:bbr --seconds 30 --omit 3
  weft perf links --links 1 --rate 200M --emulate delay=25ms --beside same --beside-delay 5ms
  weft perf links --pattern ping-pong,two-way --size 4..1M   there and back, and both ways at once, by size
  weft perf links --engines 1,2 --wake interrupt --vs tcp   rails served by one core and by two, and nobody polls
  weft perf cuts --ways silent --quick                many links cut and mended: weft perf cuts --help
  weft perf bandwidth --json result.json              for figures and scripts
  weft perf --listen 192.0.2.1:7471                   on one machine, and on the other:
  weft perf latency --connect 192.0.2.1
  weft perf bandwidth --connect edge://192.0.2.1?rails=eth0,eth1";

/// Below the list of tests.
const NOTES: &str = "\
Examples:
  weft perf latency
  weft perf bandwidth --size 64K..1M --vs sockets,libfabric:tcp --json a.json
  weft perf links --links 1,2,4
  weft perf --listen 192.0.2.1:7471       on one machine, and on the other:
  weft perf latency --connect 192.0.2.1

The help of each test (weft perf TEST --help) has its options and examples.

Contestants: iwarp, edge, shm (variants: settings, such as crc=off:markers=1K, of transport, crc, markers, verify,
fpdu, progress, split, engines, away, short, raw, order, key), ring (shared memory without a NIC), sockets, mptcp,
own-tcp, smoltcp and quinn (variants: batched, a write size, crc; of sockets and mptcp also buffers=4M), libfabric
(variant: the provider), ucx (variants: tcp, posix, cma, shm; found in $WEFT_UCX, .cache/ucx here or above, or PATH),
iceoryx2 (variant: copy); messages (endpoints, over iwarp unless transport=edge or such says otherwise; variants: those
that are not of a connection).
Ratios are the measured transport's median over the peer's: below 1 is ahead in times, above 1 in bandwidth and rate.
The two-machine mode asks for no password: whoever reaches the port can make this machine run measurements.
Exit codes: 0 measured, 1 a contestant that is installed failed, 2 the command line is wrong.";

/// The arguments on the command line.
#[derive(Debug)]
pub struct Arguments {
    /// Where to serve the passive side of measurements, and the raw link for them.
    pub(crate) listen: Option<(String, Option<LinkSettings>)>,
    /// A test, and its options.
    pub(crate) options: Option<Box<Options>>,
    /// The test of cuts, which has options of its own.
    pub(crate) cuts: Option<Box<Cuts>>,
}

/// The arguments where no test is named.
#[derive(Args, Debug)]
struct Listen {
    /// Serve the passive side of measurements that another machine asks for, at this address
    #[arg(long, value_name = "ADDRESS[:PORT]")]
    listen: Option<String>,
    /// An interface of this machine, and free addresses there, for contestants with raw=on (needs CAP_NET_RAW)
    #[arg(long, value_name = "INTERFACE=ADDRESS/BITS,..[@/HELPER]", requires = "listen")]
    link: Option<LinkSettings>,
}

/// The test with options of its own.
const CUTS: &str = "cuts";

impl Args for Arguments {
    fn augment_args(command: Command) -> Command {
        let command = Listen::augment_args(command)
            .after_help(NOTES)
            .disable_help_subcommand(true)
            .args_conflicts_with_subcommands(true);
        let about = "What the failure of a link costs a stream over several: pauses and recoveries of many random cuts";
        let command = command.subcommand(Cuts::augment_args(Command::new(CUTS)).about(about).long_about(None));
        command.subcommand_value_name("TEST").subcommand_help_heading("Tests").subcommands(What::all().into_iter().map(
            |test| {
                let options = Options::augment_args(Command::new(test.name()));
                let options = options.about(test.about()).long_about(None).after_help(examples(test));
                options.mut_args(|option| {
                    let is_used = test.uses(option.get_id().as_str());
                    option.hide(!is_used)
                })
            },
        ))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Arguments {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let Some((name, said)) = matches.subcommand() else {
            let Listen { listen, link } = Listen::from_arg_matches(matches)?;
            return match listen {
                Some(address) => Ok(Self { listen: Some((address, link)), options: None, cuts: None }),
                None => {
                    let words = "name a test, or say --listen: weft perf --help\n";
                    Err(clap::Error::raw(ErrorKind::MissingSubcommand, words))
                }
            };
        };
        if name == CUTS {
            let cuts = Some(Box::new(Cuts::from_arg_matches(said)?));
            return Ok(Self { listen: None, options: None, cuts });
        }
        let test = What::all().into_iter().find(|test| test.name() == name).unwrap_or_default();
        refuse_foreign(test, said)?;
        refuse_without_network(test, said)?;
        let mut options = Options::from_arg_matches(said)?;
        options.test = test;
        Ok(Self { listen: None, options: Some(Box::new(options)), cuts: None })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Examples of a test: what each is for, and the command.
fn examples(test: What) -> String {
    let mut text = String::from("Examples:");
    for line in EXAMPLES.lines().map(str::trim) {
        let (command, purpose) = line.split_once("  ").unwrap_or((line, ""));
        let (_, words) = command.split_once("weft perf ").unwrap_or_default();
        if words.split(' ').next() == Some(test.name()) {
            text += &format!("\n  {command}");
            text += &if purpose.is_empty() { String::new() } else { format!("\n      {}", purpose.trim()) };
        }
    }
    text
}

/// An option that a test does not use would be ignored silently: it is an error that names the tests that use it.
fn refuse_foreign(test: What, said: &ArgMatches) -> Result<(), clap::Error> {
    let command = Options::augment_args(Command::new(test.name()));
    for option in command.get_arguments() {
        let id = option.get_id().as_str();
        if said.value_source(id) != Some(ValueSource::CommandLine) || test.uses(id) {
            continue;
        }
        let long = option.get_long().unwrap_or(id);
        let (name, owners) = (test.name(), users(id).join(", "));
        let words = format!("--{long} is not an option of weft perf {name}: it is one of {owners}\n");
        return Err(clap::Error::raw(ErrorKind::UnknownArgument, words));
    }
    Ok(())
}

/// Options for the link of a test network, where there will be none.
fn refuse_without_network(test: What, said: &ArgMatches) -> Result<(), clap::Error> {
    let is_said = |id: &str| said.value_source(id) == Some(ValueSource::CommandLine);
    if test.is_in_clusters() || is_said("lab") {
        return Ok(());
    }
    match ["delay", "jitter", "loss", "carrier"].into_iter().find(|id| is_said(id)) {
        Some(id) => {
            let words = format!("--{id} is of the link of a test network, so it needs --lab RATE\n");
            Err(clap::Error::raw(ErrorKind::MissingRequiredArgument, words))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<Arguments, clap::Error> {
        let command = Arguments::augment_args(Command::new("perf"));
        Arguments::from_arg_matches(&command.try_get_matches_from([&["perf"], words].concat())?)
    }

    #[test]
    fn each_option_is_of_a_test_and_each_name_is_an_option() {
        let command = Options::augment_args(Command::new("perf"));
        let ids: Vec<_> = command.get_arguments().map(|option| option.get_id().as_str().to_owned()).collect();
        let unused: Vec<_> = ids.iter().filter(|id| users(id).is_empty()).collect();
        assert!(unused.is_empty(), "no test uses {unused:?}");
        for test in What::all() {
            let unknown: Vec<_> = test.options().filter(|id| !ids.iter().any(|known| known == id)).collect();
            assert!(unknown.is_empty(), "{}: {unknown:?}", test.name());
        }
    }

    #[test]
    fn an_option_of_another_test_is_refused_with_its_owners() {
        let error = read(&["latency", "--emulate", "delay=5ms"]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnknownArgument);
        let words = error.to_string();
        assert!(words.contains("--emulate") && words.contains("perf latency") && words.contains("links"), "{words}");
        assert!(read(&["links", "--emulate", "delay=5ms"]).is_ok());
        for option in ["--delay=5ms", "--jitter=5ms", "--loss=1"] {
            let words = read(&["latency", option]).unwrap_err().to_string();
            assert!(words.contains("needs --lab") && words.contains(&option[..6]), "{words}");
        }
        assert!(read(&["clusters", "--delay", "5ms"]).is_ok(), "clusters are in a test network");
        assert!(read(&["latency", "--lab", "1G", "--delay", "5ms"]).is_ok());
    }

    #[test]
    fn the_examples_are_command_lines() {
        let lines = EXAMPLES.lines().filter_map(|line| line.split_once("weft perf ").map(|(_, rest)| rest));
        let commands: Vec<&str> = lines.map(|line| line.split("  ").next().unwrap_or(line)).collect();
        assert!(commands.len() > 30, "{commands:?}");
        for test in What::all() {
            let text = examples(test);
            assert!(text.contains("weft perf"), "{} has no example", test.name());
            assert!(text.lines().all(|line| line.len() <= 100), "{text}");
        }
        for command in commands {
            let words: Vec<&str> = command.split(' ').take_while(|word| *word != "and").collect();
            assert!(read(&words).is_ok(), "{command}: {}", read(&words).unwrap_err());
        }
    }

    #[test]
    fn a_test_or_an_address_is_named() {
        assert!(read(&[]).is_err() && read(&["speed"]).is_err());
        assert!(read(&["--listen", "127.0.0.1"]).unwrap().listen.is_some());
        assert!(read(&["--listen", "127.0.0.1", "latency"]).is_err());
    }
}
