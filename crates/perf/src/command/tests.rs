//! The tests of `weft perf` by name, and which options each of them uses.

use clap::ValueEnum;

use crate::experiments::fence::load::Test as WindowTest;
use crate::model::test::Test;

/// A test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// Runs of contestants on this machine's clock.
    Measured(Test),
    /// A stream in virtual time.
    Streams,
    /// Windows of many ranks.
    Windows(WindowTest),
    /// A stream over several links.
    Links,
}

impl Default for What {
    fn default() -> Self {
        Self::Measured(Test::Latency)
    }
}

/// Options of every test.
const ALL: &[&str] = &["transport", "quick", "json", "csv", "timeout", "iterations"];
/// Of tests that start processes.
const STARTED: &[&str] = &["vs", "launches", "warmup"];
/// Of tests with about a second of messages in each run.
const LONG_RUNS: &[&str] = &["brief"];
/// Of tests in a network that is made for them.
const NETWORK: &[&str] = &["lab", "congestion", "mtu", "no_offload", "delay", "jitter", "loss", "carrier"];
/// Of tests of two sides.
const SIDES: &[&str] = &[
    "size", "crc", "markers", "verify", "fpdu", "progress", "split", "away", "short", "raw", "order", "engines",
    "wait", "pin", "connect", "link",
];
/// Of tests of two sides in a network of clusters.
const IN_CLUSTERS: &[&str] =
    &["size", "verify", "progress", "split", "away", "engines", "wait", "pin", "operation", "window"];
/// Of windows.
const WINDOWS: &[&str] = &["ranks", "fence", "shape", "library", "mpi"];

impl What {
    /// All of them.
    pub(crate) fn all() -> Vec<Self> {
        let measured = Test::value_variants().iter().map(|test| Self::Measured(*test));
        let windows =
            [WindowTest::Fence, WindowTest::Halo, WindowTest::Heat, WindowTest::WindowOverlap].map(Self::Windows);
        measured.chain([Self::Streams]).chain(windows).chain([Self::Links]).collect()
    }

    /// As it is typed.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Measured(test) => test.name(),
            Self::Streams => "disorder",
            Self::Windows(test) => test.name(),
            Self::Links => "links",
        }
    }

    /// What it does, in a line.
    pub(crate) fn about(self) -> String {
        match self {
            Self::Measured(test) => {
                test.to_possible_value().and_then(|value| value.get_help().map(ToString::to_string)).unwrap_or_default()
            }
            Self::Streams => {
                "What late and lost segments cost iWARP over Weft's own TCP, by what the receiver does with \
                              what comes early, or Edge over one link or several; in virtual time"
                    .into()
            }
            Self::Windows(WindowTest::Halo) => "Faces of a stencil in 1, 2 and 3 dimensions, contiguous and strided, \
                                                put to all neighbours and fenced, beside MPI_Win_fence"
                .into(),
            Self::Windows(WindowTest::Heat) => {
                "An application: heat on a plate by time to its solution, over ranks and kinds of fence, beside \
                 MPI_Win_fence"
                    .into()
            }
            Self::Windows(WindowTest::WindowOverlap) => {
                "How much computation a put hides before its fence, by size, beside MPI_Win_fence".into()
            }
            Self::Windows(WindowTest::Fence) => "Fences of one-sided windows after no, one and eight puts, of many \
                                                 ranks, beside MPI_Win_fence of the MPI libraries that are there"
                .into(),
            Self::Links => {
                "What several links carry together, and what becomes of a stream when one of them is cut".into()
            }
        }
    }

    /// Whether it always has a network of clusters.
    pub(crate) fn is_in_clusters(self) -> bool {
        matches!(self, Self::Measured(Test::Clusters | Test::MpiClusters))
    }

    /// Lists of the options that it uses, by the names of their fields.
    fn lists(self) -> Vec<&'static [&'static str]> {
        let measured: &[&str] = match self {
            Self::Measured(Test::Connect) => {
                return vec![ALL, STARTED, NETWORK, &["crc", "progress", "away", "engines", "wait", "pin"]];
            }
            Self::Measured(Test::MpiClusters) => {
                return vec![ALL, STARTED, NETWORK, &["size", "library", "mpi"]];
            }
            Self::Measured(Test::Emulator) => return vec![ALL, STARTED, LONG_RUNS],
            Self::Measured(Test::Reordering) => {
                return vec![ALL, STARTED, SIDES, &["lab", "congestion", "mtu", "late", "lost", "window"]];
            }
            Self::Measured(Test::Nas) => {
                return vec![ALL, STARTED, &["processes", "library", "mpi", "npb", "benchmarks", "class"]];
            }
            Self::Measured(Test::Clusters) => return vec![ALL, STARTED, LONG_RUNS, NETWORK, IN_CLUSTERS],
            Self::Measured(Test::Latency) => &["operation", "window"],
            Self::Measured(Test::Bandwidth | Test::PingPing | Test::Split | Test::Markers | Test::InOrderTax) => {
                &["operation", "window", "copies"]
            }
            Self::Measured(Test::Rate) => &["operation", "window"],
            Self::Measured(Test::LogP | Test::NotifiedPut | Test::Verbs | Test::CacheTraffic) => &["window"],
            Self::Measured(Test::Isosurface) => &["window", "sides", "picture"],
            Self::Measured(Test::Overlap) => &["operation", "window", "target", "computation"],
            Self::Measured(Test::OverlapRatio) => &["operation", "target", "computation"],
            Self::Measured(Test::Progress) => &["lateness"],
            Self::Measured(Test::Slowdown) => &["streams", "load"],
            Self::Measured(Test::Idle) => &["connections", "seconds", "window"],
            Self::Measured(Test::AllToAll) => &["processes", "window"],
            Self::Measured(Test::Match) => &["others"],
            Self::Measured(Test::Mpi) => &["processes", "window", "library", "part", "mpi"],
            Self::Streams => {
                return vec![&["transport", "json", "iterations", "late", "lost", "cut", "policy", "links"]];
            }
            Self::Windows(WindowTest::Fence) => &["auto_table", "puts", "simulate", "loggp"],
            Self::Windows(WindowTest::Halo) => &["cells", "pack_below"],
            Self::Windows(WindowTest::Heat) => &["plate", "steps"],
            Self::Windows(WindowTest::WindowOverlap) => &["size"],
            Self::Links => {
                return vec![&[
                    "transport",
                    "vs",
                    "launches",
                    "quick",
                    "json",
                    "seconds",
                    "engines",
                    "links",
                    "rate",
                    "cut_link",
                    "pattern",
                    "size",
                    "flows",
                    "wake",
                    "receive",
                    "emulate",
                    "beside",
                    "beside_delay",
                    "begins",
                    "omit",
                    "watch",
                ]];
            }
        };
        match self {
            Self::Windows(_) => vec![ALL, STARTED, LONG_RUNS, NETWORK, WINDOWS, measured],
            Self::Measured(Test::Idle | Test::Slowdown | Test::AllToAll) => {
                vec![ALL, STARTED, NETWORK, SIDES, measured]
            }
            _ => vec![ALL, STARTED, LONG_RUNS, NETWORK, SIDES, measured],
        }
    }

    /// The options that it uses, by the names of their fields.
    pub(crate) fn options(self) -> impl Iterator<Item = &'static str> {
        self.lists().into_iter().flatten().copied()
    }

    /// Whether an option is of this test.
    pub(crate) fn uses(self, option: &str) -> bool {
        self.options().any(|used| used == option)
    }
}

/// The tests that an option is of, by name.
pub(crate) fn users(option: &str) -> Vec<&'static str> {
    What::all().into_iter().filter(|test| test.uses(option)).map(What::name).collect()
}
