//! The command line of `weft perf`: as typed, and then as needed.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::campaign::Plan;
use super::contestant::{self, Entry};
use super::plan::{Fpdu, Job, LARGEST_WINDOW, MOST_MESSAGES, Operation, Progress, Role, Switch, Test, Verify, Wait};
use super::remote::Place;
use super::size::Sizes;
use crate::failure::Failure;

const EXAMPLES: &str = "\
Examples:
  weft perf latency                                   8 bytes, beside every peer that is installed
  weft perf latency --size 8..4K --runs 9             several sizes, more runs
  weft perf bandwidth --vs sockets,sockets:256K       beside plain TCP, same write size and 256 KiB writes
  weft perf rate --vs sockets:batched,libfabric:tcp   8-byte messages, beside a batching program and libfabric
  weft perf bandwidth --vs iwarp:markers=on,iwarp:crc=off   beside itself with other settings
  weft perf bandwidth --json result.json              for figures and scripts
  weft perf --listen 192.0.2.1:7471                   on one machine, and on the other:
  weft perf latency --connect 192.0.2.1

Contestants: iwarp (variants: settings, such as crc=off:markers=on, of crc, markers, verify, fpdu, progress), sockets and
mptcp (variants: batched, or a write size), libfabric (variant: the provider), ucx.
Ratios are the measured transport's median over the peer's: below 1 is ahead in latency, above 1 in bandwidth and rate.
The two-machine mode asks for no password: whoever reaches the port can make this machine run measurements.";

/// What can be said on the command line.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// What to measure
    #[arg(value_enum, required_unless_present = "listen")]
    test: Option<Test>,
    /// What is measured, and stands above the line in every ratio
    #[arg(long, value_name = "NAME", value_parser = Entry::parse, default_value = contestant::all()[0].name())]
    transport: Entry,
    /// The peers to measure beside it, or `none` [default: all others, those that are not installed are named]
    #[arg(long, value_name = "NAME[:VARIANT],...", value_delimiter = ',')]
    vs: Option<Vec<String>>,
    /// Message sizes: 8, 64K, a range in powers of two (8..4K), a list with commas [default: 8; bandwidth: 64K..1M]
    #[arg(long, value_name = "SIZES")]
    size: Option<Sizes>,
    /// Runs of each contestant at each size, in turns
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Messages in each run [default: about a second of them]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MOST_MESSAGES))]
    iterations: Option<u64>,
    /// Messages before those that count [default: a tenth]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MOST_MESSAGES))]
    warmup: Option<u64>,
    /// Messages in flight, in bandwidth and rate
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=LARGEST_WINDOW as i64))]
    window: u16,
    /// The operation that carries the data, where a contestant has several [default: send; iwarp writes in bandwidth]
    #[arg(long, value_enum)]
    operation: Option<Operation>,
    /// The checksum over each frame, where a contestant has one
    #[arg(long, value_enum, default_value_t = Switch::On)]
    crc: Switch,
    /// Markers in the stream, where a contestant has them
    #[arg(long, value_enum, default_value_t = Switch::Off)]
    markers: Switch,
    /// When iwarp places what has come
    #[arg(long, value_enum, default_value_t = Verify::LargeInPlace)]
    verify: Verify,
    /// How long frames of iwarp may be
    #[arg(long, value_enum, default_value_t = Fpdu::Large)]
    fpdu: Fpdu,
    /// Who runs iwarp's event loop
    #[arg(long, value_enum, default_value_t = Progress::Caller)]
    progress: Progress,
    /// Show also how often each side copied each byte of the payload, where a contestant tells
    #[arg(long)]
    pub(super) copies: bool,
    /// How sockets and iwarp wait
    #[arg(long, value_enum, default_value_t = Wait::Spin)]
    wait: Wait,
    /// Keep the two sides on a core each (the passive side on the first, the active one on the second)
    #[arg(long, value_enum, default_value_t = Switch::Off)]
    pin: Switch,
    /// Give up on a run after this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
    /// Write the result as JSON to this file; `-` is standard output, and the table goes to standard error
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    /// Serve the passive side of measurements that another machine asks for, at this address
    #[arg(long, value_name = "ADDRESS[:PORT]", conflicts_with_all = ["test", "connect"])]
    pub(super) listen: Option<String>,
    /// Measure to the machine that listens there, instead of on this one alone
    #[arg(long, value_name = "HOST[:PORT]")]
    connect: Option<String>,
}

impl Arguments {
    /// What is to be done.
    pub(super) fn plan(&self) -> Result<Plan, Failure> {
        let Some(test) = self.test else { return Err(Failure::Usage("name a test".into())) };
        let place = match &self.connect {
            None => Place::Here,
            Some(host) => Place::There(host.parse().map_err(Failure::Usage)?),
        };
        Ok(Plan {
            entries: self.entries()?,
            sizes: self.size.clone().unwrap_or_else(|| default_sizes(test)).0,
            runs: self.runs,
            iterations: self.iterations,
            warmup: self.warmup,
            limit: Duration::from_secs(self.timeout),
            pin: self.pin,
            copies: self.copies,
            template: self.job(test, &place),
            place,
        })
    }

    /// The transport, then its peers.
    fn entries(&self) -> Result<Vec<Entry>, Failure> {
        let mut entries = vec![self.transport.clone()];
        match &self.vs {
            None => entries.extend(others(&self.transport)),
            Some(names) if names.iter().any(|name| name == "none") => {}
            Some(names) => {
                for name in names {
                    entries.push(Entry::parse(name).map_err(Failure::Usage)?);
                }
            }
        }
        Ok(entries)
    }

    /// The job without what changes from run to run.
    fn job(&self, test: Test, place: &Place) -> Job {
        Job {
            version: env!("CARGO_PKG_VERSION").into(),
            contestant: String::new(),
            variant: None,
            role: Role::Active,
            test,
            operation: self.operation,
            size: 1,
            iterations: 1,
            warmup: 1,
            window: usize::from(self.window),
            wait: self.wait,
            crc: self.crc,
            markers: self.markers,
            verify: self.verify,
            fpdu: self.fpdu,
            progress: self.progress,
            local: place.local(),
            host: place.host().into(),
            core: None,
        }
    }
}

fn others(transport: &Entry) -> impl Iterator<Item = Entry> {
    let entries = contestant::all().iter().map(|contestant| Entry { contestant: *contestant, variant: None });
    let name = transport.contestant.name();
    entries.filter(move |entry| entry.contestant.name() != name)
}

fn default_sizes(test: Test) -> Sizes {
    let text = if test == Test::Bandwidth { "64K..1M" } else { "8" };
    text.parse().expect("the defaults are well formed")
}
