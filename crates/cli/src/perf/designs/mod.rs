//! The tests of the command, one file each: what runs they consist of, beside whom, and what else is to be said of the results.

mod all_to_all;
mod basic;
mod idle;
mod in_order_tax;
mod markers;
mod matching;
mod mpi;
mod overlap;
mod ping_ping;
mod split;

use clap::ValueEnum;
use serde::Serialize;
use serde_json::Value;

use super::arguments::Arguments;
use super::campaign::{Plan, Results};
use super::contestant::Entry;
use super::job::{Job, Kind};
use super::mpi::Installation;
use super::size::{Size, Sizes};

pub(crate) use mpi::Part;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Test {
    /// Half of a round trip (of a read: all of it), in microseconds: less is better
    Latency,
    /// Payload per time in one direction, in GB/s (10^9 bytes)
    Bandwidth,
    /// Small messages per second in one direction
    Rate,
    /// Both sides send at the same time: time of an exchange, and bandwidth in both directions at once
    PingPing,
    /// How much computation a transfer hides, and bandwidth against inserted computation
    Overlap,
    /// Which stage runs where: host, offload (coupled, decoupled), assist; with and without markers, in and out of cache
    Split,
    /// What markers cost, by their spacing
    Markers,
    /// What it costs to be ready for disorder when there is none, on real packets: markers, and TCP in user space,
    /// beside the kernel's
    InOrderTax,
    /// What quiet connections cost: processor time, memory, wake-ups
    Idle,
    /// Many processes, each of which sends to each other one
    AllToAll,
    /// What it costs to match a message with its receive, among many of them
    Match,
    /// MPI programs over Weft, and over what else carries their messages: latency, bandwidth, message rate, overlap; of
    /// many ranks allreduce and start
    Mpi,
}

impl Test {
    /// How it is done.
    pub(crate) fn design(self) -> &'static dyn Design {
        match self {
            Self::Latency => &basic::LATENCY,
            Self::Bandwidth => &basic::BANDWIDTH,
            Self::Rate => &basic::RATE,
            Self::PingPing => &ping_ping::PingPing,
            Self::Overlap => &overlap::Overlap,
            Self::Split => &split::Split,
            Self::Markers => &markers::Markers,
            Self::InOrderTax => &in_order_tax::InOrderTax,
            Self::Idle => &idle::Idle,
            Self::AllToAll => &all_to_all::AllToAll,
            Self::Match => &matching::Matching,
            Self::Mpi => &mpi::MpiPrograms,
        }
    }
}

/// How a test is done.
pub(crate) trait Design: Sync {
    /// Who is measured when nobody is named; the first is what the ratios are of.
    fn contestants(&self) -> Vec<String>;

    /// Runs of each contestant in each case, when not told.
    fn runs(&self) -> u32 {
        3
    }

    /// Whether it says something only on links slower than the processor, so that it asks for a network of its own by default.
    fn wants_lab(&self) -> bool {
        false
    }

    /// Whether it is about packets as a wire carries them, so that it always has a network of its own, without a limit
    /// and without packets that are longer than the link's.
    fn needs_real_packets(&self) -> bool {
        false
    }

    /// A contestant by its name on the command line.
    fn entry(&self, name: &str) -> Result<Entry, String> {
        Entry::parse(name)
    }

    /// The runs it consists of, for each contestant.
    fn cases(&self, basis: &Basis<'_>) -> Vec<Case>;

    /// What is to be said below the tables.
    fn afterword(&self, _plan: &Plan, _results: &Results) -> String {
        String::new()
    }
}

/// Runs that are repeated, and compared between contestants.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    /// The job without contestant and rank.
    pub(crate) job: Job,
    /// What tells this case from others of its kind and size.
    pub(crate) labels: Vec<(&'static str, Value)>,
}

impl Case {
    /// The value of a label, as text.
    pub(crate) fn label(&self, name: &str) -> Option<String> {
        self.labels.iter().find(|(label, _)| *label == name).map(|(_, value)| text(value))
    }

    /// The size of its messages.
    pub(crate) fn size(&self) -> Size {
        Size(self.job.size)
    }
}

/// A label as a person reads it.
pub(crate) fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// What the command line says, for the designs.
pub(crate) struct Basis<'a> {
    /// The job with all that is the same in all cases.
    pub(crate) template: Job,
    pub(crate) arguments: &'a Arguments,
    /// The MPI libraries to measure, in tests of such.
    pub(crate) libraries: Vec<Installation>,
}

impl Basis<'_> {
    /// The sizes that were asked for, or these.
    fn sizes(&self, otherwise: &str) -> Vec<Size> {
        self.arguments
            .size
            .clone()
            .unwrap_or_else(|| otherwise.parse::<Sizes>().expect("the defaults are well formed"))
            .0
    }

    /// The numbers of processes that were asked for, or these.
    fn processes(&self, otherwise: &[usize]) -> Vec<usize> {
        let asked = &self.arguments.processes;
        if asked.is_empty() { otherwise } else { asked }.to_vec()
    }

    /// Whether only a glance is wanted.
    fn quick(&self) -> bool {
        self.arguments.quick
    }

    /// A case that takes this share of what a run of its kind takes by default, which is a second or less.
    fn case(&self, kind: Kind, size: Size, share: f64) -> Case {
        let share = if self.quick() { share / 10.0 } else { share };
        let usual = (Job::default_iterations(kind, size.0) as f64 * share) as u64;
        self.case_of(kind, size, usual.max(10))
    }

    /// A case of so many messages, unless told otherwise.
    fn case_of(&self, kind: Kind, size: Size, messages: u64) -> Case {
        let iterations = self.arguments.iterations.unwrap_or(messages).max(1);
        let warmup = self.arguments.warmup.unwrap_or((iterations / 10).max(1));
        Case { job: Job { kind, size: size.0, iterations, warmup, ..self.template.clone() }, labels: Vec::new() }
    }
}

impl Case {
    fn label_with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.labels.push((name, value.into()));
        self
    }

    fn with(mut self, change: impl FnOnce(&mut Job)) -> Self {
        change(&mut self.job);
        self
    }
}
