//! The options of fences on the command line, and how much is measured.

use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueEnum};
use weft::window::{Fence, Shape};
use weft_command::transport::Transport;
use weft_simulate::LogGp;

use crate::experiments::fence::load::{Load, Test};
use crate::model::installation::Library;
use crate::model::size::Sizes;

/// What is put beside computation, unless sizes are given.
const OVERLAP_BYTES: [u32; 5] = [16, 256, 4096, 65_536, 262_144];

/// What is varied.
#[derive(Args, Clone, Debug)]
pub(crate) struct Fences {
    /// How many ranks, each number a case of its own [default: 2,4,8; window-overlap: 2]
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) ranks: Vec<u16>,
    /// Which kinds of fence, or all
    #[arg(long, value_enum, value_name = "FENCE,...", value_delimiter = ',', default_value = "auto")]
    pub(crate) fence: Vec<Which>,
    /// How collective operations run among the ranks: in rounds, or up and down a tree in which a rank has at most N
    /// children [default: rounds; auto picks]
    #[arg(long, value_name = "rounds|tree:N", value_parser = shape)]
    pub(crate) shape: Option<Shape>,
    /// Measure, or simulate, all that `auto` may pick, and say what is best for each number of ranks and puts
    #[arg(long, conflicts_with_all = ["fence", "shape"])]
    pub(crate) auto_table: bool,
    /// How many puts before each fence
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "0,1,8",
          value_parser = clap::value_parser!(u16).range(0..=1024))]
    pub(crate) puts: Vec<u16>,
    /// Simulate this many ranks, each number a case, instead of measuring: in virtual time, all kinds of fence
    #[arg(long, value_name = "N,...", value_delimiter = ',', conflicts_with = "lab",
          value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(crate) simulate: Vec<u16>,
    /// What a message costs in a simulation: latency, overhead, and overhead of 1024 bytes, in us [default: as on the
    /// loopback]
    #[arg(long, value_name = "L,o,G", requires = "simulate")]
    pub(crate) loggp: Option<Costs>,
    /// Cells of a rank's block along each dimension, 8 bytes each
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) cells: u32,
    /// Cells along each side of the plate, all ranks together
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(8..=8192))]
    pub(crate) plate: u32,
    /// Steps of time until the solution, each with a fence
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) steps: u32,
    /// Faces of blocks of fewer bytes go packed; 0: none does [default: what windows do by themselves]
    #[arg(long, value_name = "BYTES")]
    pub(crate) pack_below: Option<u32>,
}

/// How much, of what, and beside which peers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale<'a> {
    pub(crate) test: Test,
    /// Sizes of the puts of [`Test::WindowOverlap`].
    pub(crate) sizes: Option<&'a Sizes>,
    pub(crate) transport: Transport,
    /// Whether ranks are to be on hosts of a network of their own.
    pub(crate) asks_for_lab: bool,
    pub(crate) peers: Option<&'a [String]>,
    /// How often ranks start anew in each case.
    pub(crate) launches: u32,
    /// Fences of each load and launch, at most.
    pub(crate) iterations: u64,
    /// How long those of one load may take together, but for a few; `None`: as many as `iterations` says.
    pub(crate) budget: Option<Duration>,
    pub(crate) is_quick: bool,
    pub(crate) is_brief: bool,
    /// Fences before those that count; `None`: a tenth as many.
    pub(crate) warmup: Option<u64>,
    pub(crate) limit_s: u64,
    pub(crate) libraries: &'a [Library],
    pub(crate) folders: &'a [std::path::PathBuf],
}

/// A kind of fence, or all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Which {
    /// Each of the others, but auto
    All,
    /// What the window picks
    Auto,
    /// Fence-2S: operations wait for the fence
    TwoSided,
    /// Fence-1S: finish and ready messages
    OneSided,
    /// Fence-1S-Barrier
    OneSidedBarrier,
    /// Fence-RI: notices, counts of all to all
    RemoteImmediate,
    /// Notices, each rank learns its own count
    Counted,
    /// Notices and counts between neighbours only
    Neighbour,
    /// Counts; small puts as messages that name their epoch
    Tagged,
}

/// `rounds`, or `tree:8`.
fn shape(text: &str) -> Result<Shape, String> {
    match text.split_once(':') {
        None if text == "rounds" => Ok(Shape::Rounds),
        Some(("tree", fan)) => match fan.parse() {
            Ok(fan @ 1..=65_535) => Ok(Shape::Tree { fan }),
            _ => Err(format!("{fan:?} children: give a number from 1 to 65535")),
        },
        _ => Err("give rounds, or tree:N with a rank's most children".into()),
    }
}

impl Which {
    pub(crate) fn fence(self) -> Fence {
        match self {
            Self::All | Self::Auto => Fence::Auto,
            Self::TwoSided => Fence::TwoSided,
            Self::OneSided => Fence::OneSided,
            Self::OneSidedBarrier => Fence::OneSidedBarrier,
            Self::RemoteImmediate => Fence::RemoteImmediate,
            Self::Counted => Fence::Counted,
            Self::Neighbour => Fence::Neighbour,
            Self::Tagged => Fence::Tagged,
        }
    }

    pub(crate) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

impl Fences {
    /// How many ranks, each number a case.
    pub(crate) fn ranks(&self, test: Test) -> &[u16] {
        match (self.ranks.is_empty(), test) {
            (false, _) => &self.ranks,
            (true, Test::WindowOverlap) => &[2],
            (true, Test::Fence | Test::Halo | Test::Heat) => &[2, 4, 8],
        }
    }

    /// What is measured, each a column.
    pub(crate) fn loads(&self, scale: &Scale<'_>) -> Vec<Load> {
        match scale.test {
            Test::Fence => self.puts.iter().map(|puts| Load::Puts(*puts)).collect(),
            Test::Halo => Load::halos(self.cells),
            Test::Heat => vec![Load::Heat { cells: self.plate, steps: self.steps }],
            Test::WindowOverlap => match scale.sizes {
                None => OVERLAP_BYTES.map(Load::Overlap).to_vec(),
                Some(sizes) => sizes.0.iter().map(|size| Load::Overlap(size.0 as u32)).collect(),
            },
        }
    }

    /// Fences and shapes that are measured, and what each is called.
    pub(crate) fn candidates(&self) -> Vec<(Which, Shape, String)> {
        if !self.auto_table {
            let shape = self.shape.unwrap_or_default();
            return self.kinds().into_iter().map(|which| (which, shape, format!("weft {}", which.name()))).collect();
        }
        let auto = (Which::Auto, Shape::Rounds, "weft auto".to_owned());
        let all = CANDIDATES.into_iter().map(|(which, shape)| {
            let shape_name = match shape {
                Shape::Rounds => "rounds".to_owned(),
                Shape::Tree { fan } => format!("tree:{fan}"),
            };
            (which, shape, format!("weft {} {shape_name}", which.name()))
        });
        all.chain([auto]).collect()
    }

    pub(crate) fn kinds(&self) -> Vec<Which> {
        if !self.fence.contains(&Which::All) {
            return self.fence.clone();
        }
        let all = Which::value_variants().iter().copied();
        all.filter(|which| !matches!(which, Which::All | Which::Auto)).collect()
    }
}

/// What [`Fence::Auto`] may pick, and what is near it.
const CANDIDATES: [(Which, Shape); 8] = [
    (Which::TwoSided, Shape::Rounds),
    (Which::Counted, Shape::Rounds),
    (Which::Counted, Shape::Tree { fan: 16 }),
    (Which::Neighbour, Shape::Rounds),
    (Which::Tagged, Shape::Rounds),
    (Which::Tagged, Shape::Tree { fan: 4 }),
    (Which::Tagged, Shape::Tree { fan: 16 }),
    (Which::Tagged, Shape::Tree { fan: 64 }),
];

/// Costs of messages as people type them: latency and overhead in microseconds, and the overhead of 1024 bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Costs(pub(crate) LogGp);

impl FromStr for Costs {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers: Result<Vec<f64>, _> = text.split(',').map(|part| part.trim().parse()).collect();
        match numbers.as_deref() {
            Ok(&[latency, overhead, per_kib])
                if [latency, overhead, per_kib].iter().all(|us| (0.0..=1e6).contains(us)) =>
            {
                let time = |us: f64| Duration::from_nanos((us * 1e3) as u64);
                Ok(Self(LogGp { latency: time(latency), overhead: time(overhead), per_kib: time(per_kib) }))
            }
            _ => Err(format!("{text:?}: give three numbers of microseconds up to 1e6, as 3.2,1.65,0.5")),
        }
    }
}
