//! `weft perf fence`, `halo` and `window-overlap`: fences of windows, by kind, of processes that this one starts or that
//! a launcher has started, beside `MPI_Win_fence`.

mod halo;
mod limit;
mod load;
mod overlap;
mod peers;
mod ranks;
mod series;
mod simulated;

use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use serde_json::json;
use weft::group::Group;
use weft::window::{Fence, Shape};

use super::destination::Destination;
use super::machine::Watch;
use super::mpi::Library;
use super::place::Place;
use super::size::Sizes;
use super::stack::Transport;
use crate::failure::Failure;
use crate::output::{complain, print, print_line};
use crate::table::{Align, Table};
use load::Load;
pub(super) use load::Test;
use peers::Peers;
use simulated::Costs;

/// What is varied.
#[derive(Args, Clone, Debug)]
pub(super) struct Fences {
    /// fence, halo, window-overlap: how many ranks, each number a case of its own [default: 2,4,8; window-overlap: 2]
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=1024))]
    ranks: Vec<u16>,
    /// fence, halo, window-overlap: which kinds of fence, or all
    #[arg(long, value_enum, value_name = "FENCE,...", value_delimiter = ',', default_value = "auto")]
    fence: Vec<Which>,
    /// fence, halo, window-overlap: how what all ranks agree on runs among them: in rounds, or up and down a tree in
    /// which a rank has at most so many children [default: rounds; auto picks]
    #[arg(long, value_name = "rounds|tree:N", value_parser = shape)]
    shape: Option<Shape>,
    /// fence: measure, or simulate, all that `auto` may stand for, and say what is best for each number of ranks and
    /// puts
    #[arg(long, conflicts_with_all = ["fence", "shape"])]
    auto_table: bool,
    /// fence: how many puts before each fence
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "0,1,8",
          value_parser = clap::value_parser!(u16).range(0..=1024))]
    puts: Vec<u16>,
    /// fence: simulate so many ranks, each number a case, instead of measuring: in virtual time, all kinds of fence
    #[arg(long, value_name = "N,...", value_delimiter = ',', conflicts_with = "lab",
          value_parser = clap::value_parser!(u16).range(1..=4096))]
    simulate: Vec<u16>,
    /// fence: what a message costs in a simulation: latency, overhead, and overhead of 1024 bytes, in us [default: as on the loopback]
    #[arg(long, value_name = "L,o,G", requires = "simulate")]
    loggp: Option<Costs>,
    /// halo: cells of a rank's block along each dimension, 8 bytes each
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=256))]
    cells: u32,
    /// halo: faces of blocks of fewer bytes go packed; 0: none does [default: what windows do by themselves]
    #[arg(long, value_name = "BYTES")]
    pack_below: Option<u32>,
}

/// How much, of what, and beside whom.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale<'a> {
    pub(super) test: Test,
    /// Sizes of the puts of [`Test::WindowOverlap`].
    pub(super) sizes: Option<&'a Sizes>,
    pub(super) transport: Transport,
    /// Whether ranks are to be on hosts of a network of their own.
    pub(super) asks_for_lab: bool,
    pub(super) peers: Option<&'a [String]>,
    pub(super) runs: u32,
    /// Fences of each load and run, at most.
    pub(super) iterations: u64,
    /// How long those of one load may take together, but for a few; `None`: as many as `iterations` says.
    pub(super) budget: Option<Duration>,
    pub(super) is_quick: bool,
    /// Fences before those that count; `None`: a tenth as many.
    pub(super) warmup: Option<u64>,
    pub(super) limit_s: u64,
    pub(super) libraries: &'a [Library],
    pub(super) folders: &'a [std::path::PathBuf],
}

/// A kind of fence, or all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Which {
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
    fn fence(self) -> Fence {
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

    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

impl Fences {
    /// How many ranks, each number a case.
    fn ranks(&self, test: Test) -> &[u16] {
        match (self.ranks.is_empty(), test) {
            (false, _) => &self.ranks,
            (true, Test::WindowOverlap) => &[2],
            (true, Test::Fence | Test::Halo) => &[2, 4, 8],
        }
    }

    /// What is measured, each a column.
    fn loads(&self, scale: &Scale<'_>) -> Vec<Load> {
        match scale.test {
            Test::Fence => self.puts.iter().map(|puts| Load::Puts(*puts)).collect(),
            Test::Halo => Load::halos(self.cells),
            Test::WindowOverlap => match scale.sizes {
                None => OVERLAP_BYTES.map(Load::Overlap).to_vec(),
                Some(sizes) => sizes.0.iter().map(|size| Load::Overlap(size.0 as u32)).collect(),
            },
        }
    }

    /// Fences and shapes that are measured, and what each is called.
    fn candidates(&self) -> Vec<(Which, Shape, String)> {
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

    fn kinds(&self) -> Vec<Which> {
        if !self.fence.contains(&Which::All) {
            return self.fence.clone();
        }
        let all = Which::value_variants().iter().copied();
        all.filter(|which| !matches!(which, Which::All | Which::Auto)).collect()
    }
}

/// What [`Fence::Auto`] may stand for, and what stands near it.
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

/// Where ranks are that a launcher has started.
const PLACED: &str = "where the launcher has put the ranks";

/// What is put beside computation, unless sizes are given.
const OVERLAP_BYTES: [u32; 5] = [16, 256, 4096, 65_536, 262_144];

/// A figure of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Figure {
    who: String,
    load: String,
    value: f64,
    /// How many fences it is of.
    fences: u64,
}

/// The figures of all runs with so many ranks.
struct Case {
    ranks: usize,
    figures: Vec<Figure>,
}

impl Case {
    /// Who was measured, in the order in which they came.
    fn who(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for figure in &self.figures {
            if !names.contains(&&*figure.who) {
                names.push(&figure.who);
            }
        }
        names
    }

    fn values(&self, who: &str, load: Load) -> Vec<f64> {
        self.of(who, load).map(|figure| figure.value).collect()
    }

    fn of(&self, who: &str, load: Load) -> impl Iterator<Item = &Figure> {
        let load = load.to_string();
        self.figures.iter().filter(move |figure| figure.who == who && figure.load == load)
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        length if length % 2 == 0 => Some((values[middle - 1] + values[middle]) / 2.0),
        _ => Some(values[middle]),
    }
}

/// Runs the test in a `place`, or is one of its ranks.
pub(super) fn run(
    arguments: &Fences,
    scale: &Scale<'_>,
    json: Option<Destination>,
    place: impl FnOnce() -> Result<(Place, Option<String>), Failure>,
) -> Result<(), Failure> {
    if !arguments.simulate.is_empty() {
        let watch = Watch::start();
        let cases = simulated::measure(arguments, scale)?;
        return publish(arguments, scale, &cases, ("virtual time", &[]), (watch, json));
    }
    let group = Group::from_environment().map_err(|error| Failure::Runtime(error.to_string()))?;
    let watch = Watch::start();
    let (cases, place, notes) = match group {
        Some(_) if scale.asks_for_lab => {
            let words = "--lab: the ranks are where the launcher has put them: leave it out, or start weft without one";
            return Err(Failure::Usage(words.into()));
        }
        Some(mut group) => {
            let (rank, ranks) = (group.rank(), group.size());
            let figures = ranks::measure(arguments, scale, &mut group).map_err(Failure::Runtime)?;
            if rank > 0 {
                return Ok(());
            }
            if std::env::var_os(ranks::RAW).is_some() {
                return print_line(serde_json::to_string(&figures).expect("plain values become JSON"));
            }
            (vec![Case { ranks, figures }], PLACED.to_owned(), Vec::new())
        }
        None => {
            let (place, note) = place()?;
            let (cases, notes) = measure_all(arguments, scale, &place)?;
            (cases, place.to_string(), note.into_iter().chain(notes).collect())
        }
    };
    publish(arguments, scale, &cases, (&place, &notes), (watch, json))
}

/// Shows the figures.
fn publish(
    arguments: &Fences,
    scale: &Scale<'_>,
    cases: &[Case],
    (place, notes): (&str, &[String]),
    (watch, json): (Watch, Option<Destination>),
) -> Result<(), Failure> {
    let machine = watch.stop();
    let table = table(arguments, scale, cases, (place, notes));
    let Some(json) = json else { return print(table) };
    let rows = rows(arguments, scale, cases);
    let values = json!({
        "test": scale.test.name(), "transport": scale.transport, "iterations": scale.iterations, "runs": scale.runs,
        "place": place, "put_bytes": ranks::PUT_BYTES, "cases": rows, "not_measured": notes, "machine": machine,
    });
    let text = serde_json::to_string_pretty(&values).expect("plain values become JSON") + "\n";
    match json {
        Destination::StandardOutput => {
            complain(table.trim_end());
            json.write(&text)
        }
        Destination::File(_) => json.write(&text).and(print(table)),
    }
}

/// All numbers of ranks, all runs, Weft and its peers in turns.
fn measure_all(arguments: &Fences, scale: &Scale<'_>, place: &Place) -> Result<(Vec<Case>, Vec<String>), Failure> {
    let mut peers = Peers::find(scale, place)?;
    let mut cases = Vec::new();
    for &ranks in arguments.ranks(scale.test) {
        let mut case = Case { ranks: ranks.into(), figures: Vec::new() };
        for run in 0..scale.runs {
            say(format_args!("{ranks} ranks, run {} of {}", run + 1, scale.runs));
            case.figures.extend(ranks::start(arguments, scale, place, ranks.into()).map_err(Failure::Runtime)?);
            case.figures.extend(peers.measure(&arguments.loads(scale), scale, ranks.into()));
        }
        cases.push(case);
    }
    Ok((cases, peers.notes))
}

/// Says how far it is, to who sits there.
fn say(text: impl std::fmt::Display) {
    use std::io::IsTerminal as _;
    if std::io::stderr().is_terminal() {
        complain(text);
    }
}

fn table(arguments: &Fences, scale: &Scale<'_>, cases: &[Case], (place, notes): (&str, &[String])) -> String {
    let loads = arguments.loads(scale);
    let headings: Vec<String> = loads.iter().map(|load| load.heading()).collect();
    let mut columns = vec![("ranks", Align::Right), ("who", Align::Left)];
    columns.extend(headings.iter().map(|heading| (heading.as_str(), Align::Right)));
    let mut table = Table::new(&columns);
    for case in cases {
        for who in case.who() {
            let cell = |load: &Load| median(case.values(who, *load)).map_or_else(String::new, |it| format!("{it:.1}"));
            let cells = loads.iter().map(cell);
            table.row([case.ranks.to_string(), who.to_owned()].into_iter().chain(cells));
        }
    }
    let best = if arguments.auto_table { best(cases, &loads) } else { String::new() };
    let notes: String = notes.iter().map(|note| format!("\nnot measured: {note}")).collect();
    let end = if notes.is_empty() { "" } else { "\n" };
    if !arguments.simulate.is_empty() {
        return format!("{}\n\n{table}{best}", arguments.explain_simulation());
    }
    let fences = match scale.budget {
        None => format!("{} fences", scale.iterations),
        Some(budget) => format!("as many fences as take {budget:?}, at most {}", scale.iterations),
    };
    let explanation = scale.test.explain();
    format!("{explanation}, median of {fences}, of {} runs; {place}\n\n{table}{best}{notes}{end}", scale.runs)
}

/// What is best for each number of ranks and load, and how far auto is from it.
fn best(cases: &[Case], loads: &[Load]) -> String {
    let mut table = Table::new(&[
        ("ranks", Align::Right),
        ("load", Align::Left),
        ("best", Align::Left),
        ("us", Align::Right),
        ("auto us", Align::Right),
    ]);
    for case in cases {
        for load in loads {
            let of = |who: &str| median(case.values(who, *load));
            let all = case.who().into_iter().filter(|who| *who != "weft auto");
            let all = all.filter_map(|who| Some((who, of(who)?)));
            let Some((who, least)) = all.min_by(|one, other| one.1.total_cmp(&other.1)) else { continue };
            let auto = of("weft auto").map_or_else(String::new, |auto| format!("{auto:.1}"));
            table.row([case.ranks.to_string(), load.to_string(), who.to_owned(), format!("{least:.1}"), auto]);
        }
    }
    format!("\n{table}")
}

fn rows(arguments: &Fences, scale: &Scale<'_>, cases: &[Case]) -> Vec<serde_json::Value> {
    let mut rows = Vec::new();
    for case in cases {
        for who in case.who() {
            for load in arguments.loads(scale) {
                let values = case.values(who, load);
                let Some(median) = median(values.clone()) else { continue };
                let mut row = json!({
                    "ranks": case.ranks, "who": who, "metric": scale.test.metric(), "unit": scale.test.unit(),
                    "median": median, "values": values, "fences": case.of(who, load).map(|figure| figure.fences).min(),
                });
                for (name, value) in load.describe().as_object().into_iter().flatten() {
                    row[name] = value.clone();
                }
                rows.push(row);
            }
        }
    }
    rows
}
