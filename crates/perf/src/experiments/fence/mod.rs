//! `weft perf fence`, `halo` and `window-overlap`: fences of windows, by kind, of processes that this one starts or that
//! a launcher has started, beside `MPI_Win_fence`.

pub(crate) mod figure;
mod halo;
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
use weft_command::destination::Destination;
use weft_command::failure::Failure;
use weft_command::output::{complain, print, print_line};
use weft_command::table::{Align, Table};

use crate::experiments::fence::figure::{Case, median, say};
use crate::experiments::fence::load::Load;
use crate::experiments::fence::options::{Fences, Scale};
use crate::experiments::fence::peers::Peers;
use crate::host::watch::Watch;
use crate::runner::place::Place;

/// Where ranks are that a launcher has started.
const PLACED: &str = "where the launcher has put the ranks";

/// Runs the test in a `place`, or is one of its ranks.
pub(crate) fn run(
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
