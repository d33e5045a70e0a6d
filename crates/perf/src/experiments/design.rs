//! How a test is done: what runs it consists of, beside which peers, and what else is to be said of the results.

use std::time::Duration;

use crate::model::case::Case;
use crate::model::contestant::Entry;
use crate::model::installation::Installation;
use crate::model::job::{Job, Kind, Target};
use crate::model::size::{Size, Sizes};
use crate::model::test::Part;
use crate::mpi::nas::Built;
use crate::runner::plan::{Plan, Results};
use crate::runner::registry;

/// How a test is done.
pub(crate) trait Design: Sync {
    /// The contestants when none is named; the first is what the ratios are of.
    fn contestants(&self) -> Vec<String>;

    /// Whether it says something only on links slower than the processor, so that it asks for a network of its own by
    /// default.
    fn wants_lab(&self) -> bool {
        false
    }

    /// Whether it is about packets as a wire carries them, so that it always has a network of its own, without a limit
    /// and without packets that are longer than the link's.
    fn needs_real_packets(&self) -> bool {
        false
    }

    /// Whether it needs a network of two clusters, and how many hosts each of them has then.
    fn hosts_in_clusters(&self) -> Option<usize> {
        None
    }

    /// A contestant by its name on the command line.
    fn entry(&self, name: &str) -> Result<Entry, String> {
        registry::parse(name)
    }

    /// The runs it consists of, for each contestant.
    fn cases(&self, basis: &Basis<'_>) -> Vec<Case>;

    /// The text below the tables.
    fn afterword(&self, _plan: &Plan, _results: &Results) -> String {
        String::new()
    }
}

/// What the command line says, for the designs.
pub(crate) struct Basis<'a> {
    /// The job with all that is the same in all cases.
    pub(crate) template: Job,
    pub(crate) choices: &'a Choices,
    /// The MPI libraries to measure, in tests of such.
    pub(crate) libraries: Vec<Installation>,
    /// What the network adds to each round trip.
    pub(crate) round_trip: Duration,
}

impl Basis<'_> {
    /// The sizes that were requested, or these.
    pub(crate) fn sizes(&self, otherwise: &str) -> Vec<Size> {
        self.choices.size.clone().unwrap_or_else(|| otherwise.parse::<Sizes>().expect("the defaults are well formed")).0
    }

    /// The numbers of processes that were requested, or these.
    pub(crate) fn processes(&self, otherwise: &[usize]) -> Vec<usize> {
        let asked = &self.choices.processes;
        if asked.is_empty() { otherwise } else { asked }.to_vec()
    }

    /// Whether `--quick` is given.
    pub(crate) fn quick(&self) -> bool {
        self.choices.quick
    }

    /// A case that takes this share of what a run of its kind takes by default, which is a second or less.
    pub(crate) fn case(&self, kind: Kind, size: Size, share: f64) -> Case {
        let share = match (self.quick(), self.choices.brief) {
            (true, _) => share / 10.0,
            (_, true) => share / 4.0,
            _ => share,
        };
        let usual = (Job::default_iterations(kind, size.0) as f64 * share) as u64;
        self.case_of(kind, size, usual.min(self.most_in_time(kind, share)).max(10))
    }

    /// As many messages as the round trips of this share of a second are enough for.
    fn most_in_time(&self, kind: Kind, share: f64) -> u64 {
        if self.round_trip.is_zero() {
            return u64::MAX;
        }
        let round_trips = (share / self.round_trip.as_secs_f64()).ceil() as u64;
        round_trips * if kind == Kind::Latency { 1 } else { self.template.window as u64 }
    }

    /// A case of this many messages, unless the options say otherwise.
    pub(crate) fn case_of(&self, kind: Kind, size: Size, messages: u64) -> Case {
        let iterations = self.choices.iterations.unwrap_or(messages).max(1);
        let warmup = self.choices.warmup.unwrap_or((iterations / 10).max(1));
        Case { job: Job { kind, size: size.0, iterations, warmup, ..self.template.clone() }, labels: Vec::new() }
    }
}

/// What the command line says of the cases. Empty lists and `None` leave it to the test.
#[derive(Clone, Debug, Default)]
pub(crate) struct Choices {
    pub(crate) size: Option<Sizes>,
    pub(crate) processes: Vec<usize>,
    /// Whether `--quick` is given.
    pub(crate) quick: bool,
    /// A quarter of the messages is enough.
    pub(crate) brief: bool,
    pub(crate) iterations: Option<u64>,
    pub(crate) warmup: Option<u64>,
    /// What the passive side does meanwhile.
    pub(crate) target: Vec<Target>,
    /// Computation after each message, in microseconds.
    pub(crate) computation: Vec<u32>,
    /// How long the application of a server computes before it answers.
    pub(crate) lateness: Vec<Duration>,
    /// Connections that are kept quiet.
    pub(crate) connections: usize,
    /// Streams beside a computation.
    pub(crate) streams: usize,
    /// What they carry together, in bits per second.
    pub(crate) load_bits_per_s: u64,
    /// For how long nothing happens.
    pub(crate) seconds: Option<f64>,
    /// Among how many others a receive or message is matched.
    pub(crate) others: Vec<u32>,
    /// Points on a side of a field that is rendered.
    pub(crate) sides: Vec<usize>,
    /// NAS benchmarks that were built.
    pub(crate) benchmarks: Vec<Built>,
    /// What is measured of MPI libraries.
    pub(crate) part: Vec<Part>,
}
