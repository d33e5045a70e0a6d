//! `weft perf fence`, `halo`, `heat` and `window-overlap`: fences of windows, by kind, of processes that this one
//! starts or that a launcher has started, beside `MPI_Win_fence`.

pub(crate) mod figure;
mod halo;
mod heat;
mod limit;
pub(crate) mod load;
pub(crate) mod options;
mod overlap;
mod peers;
mod ranks;
mod series;
mod simulated;

use serde_json::json;
use weft::group::Group;
use weft_command::failure::Failure;
use weft_command::output::{self, print_line};
use weft_command::table::{Align, Table};

use crate::experiments::fence::figure::{Case, say};
use crate::experiments::fence::load::{Load, Test};
use crate::experiments::fence::options::{Fences, Scale};
use crate::experiments::fence::peers::Peers;
use crate::result::{self, Better, Document, Launch, Missing, Row, Verdict};
use crate::runner::measurement::Measurement;
use crate::runner::outputs::Outputs;
use crate::runner::place::Place;
use crate::statistics::median;

/// Where ranks are that a launcher has started.
const PLACED: &str = "where the launcher has put the ranks";

/// Runs the test in a `place`, or is one of its ranks.
pub(crate) fn run(
    arguments: &Fences,
    scale: &Scale<'_>,
    outputs: Outputs,
    place: impl FnOnce() -> Result<(Place, Option<String>), Failure>,
) -> Result<(), Failure> {
    if !arguments.simulate.is_empty() {
        let measurement = Measurement::begin(scale.test.name(), scale.test.question());
        let cases = simulated::measure(arguments, scale)?;
        return publish(arguments, scale, &cases, ("virtual time", &[]), (measurement, outputs));
    }
    let group = Group::from_environment().map_err(|error| Failure::Runtime(error.to_string()))?;
    let measurement = Measurement::begin(scale.test.name(), scale.test.question());
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
    publish(arguments, scale, &cases, (&place, &notes), (measurement, outputs))
}

/// Shows the figures.
fn publish(
    arguments: &Fences,
    scale: &Scale<'_>,
    cases: &[Case],
    (place, notes): (&str, &[String]),
    (measurement, outputs): (Measurement, Outputs),
) -> Result<(), Failure> {
    let settings = json!({
        "transport": scale.transport, "iterations": scale.iterations, "launches": scale.launches,
        "put_bytes": ranks::PUT_BYTES,
    });
    let rows = rows(arguments, scale, cases);
    let first = rows.first().map(|row| row.contestant.clone()).unwrap_or_default();
    let mut document = measurement.end(place, settings, rows, &first);
    document.not_measured = notes.iter().map(|note| missing(note)).collect();
    let table = table(arguments, scale, cases, &document);
    outputs.publish(&document, &table)
}

/// A note of the peers: `NAME: REASON`.
fn missing(note: &str) -> Missing {
    let (contestant, reason) = note.split_once(": ").unwrap_or(("", note));
    Missing { contestant: contestant.into(), reason: reason.into(), is_failure: false }
}

/// All numbers of ranks, all runs, Weft and its peers in turns.
fn measure_all(arguments: &Fences, scale: &Scale<'_>, place: &Place) -> Result<(Vec<Case>, Vec<String>), Failure> {
    let mut peers = Peers::find(scale, place)?;
    let mut cases = Vec::new();
    for &ranks in arguments.ranks(scale.test) {
        let mut case = Case { ranks: ranks.into(), figures: Vec::new() };
        for run in 0..scale.launches {
            say(format_args!("{ranks} ranks, launch {} of {}", run + 1, scale.launches));
            case.figures.extend(ranks::start(arguments, scale, place, ranks.into()).map_err(Failure::Runtime)?);
            case.figures.extend(peers.measure(&arguments.loads(scale), scale, ranks.into()));
        }
        cases.push(case);
    }
    Ok((cases, peers.notes))
}

fn table(arguments: &Fences, scale: &Scale<'_>, cases: &[Case], document: &Document) -> String {
    let loads = arguments.loads(scale);
    let headings: Vec<String> = loads.iter().map(|load| load.heading()).collect();
    let mut columns = vec![("ranks", Align::Right), ("", Align::Left)];
    columns.extend(headings.iter().map(|heading| (heading.as_str(), Align::Right)));
    let mut table = Table::new(&columns).fold(2, output::columns());
    for case in cases {
        for who in case.who() {
            let key = |load: &Load| key(case.ranks, *load);
            let cell = |load: &Load| cell(document, who, &key(load)).unwrap_or_default();
            table.row([case.ranks.to_string(), who.to_owned()].into_iter().chain(loads.iter().map(cell)));
        }
    }
    let best = if arguments.auto_table { best(cases, &loads) } else { String::new() };
    let notes: String =
        document.not_measured.iter().map(|it| format!("\nnot measured: {}: {}", it.contestant, it.reason)).collect();
    let end = if notes.is_empty() { "" } else { "\n" };
    if !arguments.simulate.is_empty() {
        return format!("{}\n\n{table}{best}", arguments.explain_simulation());
    }
    let fences = match scale.budget {
        None => format!("{} fences", scale.iterations),
        Some(budget) => format!("as many fences as take {budget:?}, at most {}", scale.iterations),
    };
    let (explanation, launches, place) = (scale.test.explain(), scale.launches, &document.place);
    let cpu = if scale.test.has_cpu() { "; cpu: processor time of all ranks together" } else { "" };
    let busy = document.machine.describe();
    let intervals = match document.rows.iter().find_map(|row| row.interval) {
        Some(it) => format!("[least..most] cover the median in {:.1} % of cases; ", 100.0 * it.coverage),
        None => String::new(),
    };
    format!(
        "{explanation}, median of {fences}, of {launches} launches; {place}{cpu}\n{busy}\n{table}{best}\n{intervals}~ \
         not told from the first row of its ranks (rank-sum test, p >= 0.01)\n{notes}{end}"
    )
}

/// Processor time of all ranks beside a time.
const CPU: &str = "cpu";

/// Median, interval, processor time, and a mark where chance may explain the distance from the first contestant.
fn cell(document: &Document, who: &str, key: &result::Case) -> Option<String> {
    let row = document.rows.iter().find(|row| row.contestant == who && row.case == *key && row.metric != CPU)?;
    let interval = row.interval.map_or_else(String::new, |it| format!(" [{:.1}..{:.1}]", it.low, it.high));
    let comparison = document.comparisons.iter().find(|it| it.peer == who && it.case == *key && it.metric != CPU);
    let mark = if comparison.is_some_and(|it| it.verdict == Verdict::Equal) { " ~" } else { "" };
    let is_cpu = |other: &&Row| other.contestant == who && other.case == *key && other.metric == CPU;
    let cpu = document.rows.iter().find(is_cpu).and_then(|row| row.median);
    let cpu = cpu.map_or_else(String::new, |cpu| format!(", cpu {cpu:.1}"));
    Some(format!("{:.1}{interval}{mark}{cpu}", row.median?))
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
            let of = |who: &str| median(&case.values(who, *load));
            let all = case.who().into_iter().filter(|who| *who != "weft auto");
            let all = all.filter_map(|who| Some((who, of(who)?)));
            let Some((who, least)) = all.min_by(|one, other| one.1.total_cmp(&other.1)) else { continue };
            let auto = of("weft auto").map_or_else(String::new, |auto| format!("{auto:.1}"));
            table.row([case.ranks.to_string(), load.to_string(), who.to_owned(), format!("{least:.1}"), auto]);
        }
    }
    format!("\n{table}")
}

/// What tells a case from others.
fn key(ranks: usize, load: Load) -> result::Case {
    let described = load.describe();
    let fields = described.as_object().into_iter().flatten().map(|(name, value)| (name.clone(), value.clone()));
    fields.chain([("ranks".to_owned(), ranks.into())]).collect()
}

fn rows(arguments: &Fences, scale: &Scale<'_>, cases: &[Case]) -> Vec<Row> {
    let mut rows = Vec::new();
    for case in cases {
        for load in arguments.loads(scale) {
            for who in case.who() {
                let launches: Vec<Launch> =
                    case.of(who, load).zip(0..).map(|(it, at)| Launch::of(at, it.value)).collect();
                if launches.is_empty() {
                    continue;
                }
                let what = (scale.test.metric(), scale.test.unit(), scale.test.better());
                rows.push(Row::new(who, key(case.ranks, load), what, launches).as_main());
                let cpu = case.of(who, load).filter_map(|it| it.cpu).zip(0..);
                let launches: Vec<Launch> = cpu.map(|(cpu, at)| Launch::of(at, cpu)).collect();
                if !launches.is_empty() {
                    let unit = if scale.test == Test::Heat { "us/run" } else { "us/fence" };
                    rows.push(Row::new(who, key(case.ranks, load), (CPU, unit, Better::Less), launches));
                }
            }
        }
    }
    rows
}
