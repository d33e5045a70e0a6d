//! Which stage runs where: the designs of out-of-order iWARP (Balaji et al., SC 2007) beside each other.

use crate::experiments::design::{Basis, Design};
use crate::model::case::Case;
use crate::model::job::{Cache, Kind};
use crate::model::stack::Markers;
use crate::runner::plan::{Plan, Results};
use weft_command::output;
use weft_command::table::{Align, Table};

pub(crate) struct Split;

const DESIGNS: [&str; 6] = [
    "split=host:progress=hybrid",
    "split=host:progress=caller",
    "split=host:progress=thread",
    "split=coupled",
    "split=decoupled",
    "split=assist",
];

impl Design for Split {
    fn contestants(&self) -> Vec<String> {
        DESIGNS.map(|design| format!("iwarp:{design}")).to_vec()
    }

    fn cases(&self, basis: &Basis<'_>) -> Vec<Case> {
        let [short, inside, outside] = if basis.quick() { ["1", "16K", "256K"] } else { ["1,2K", "16K,256K", "256K"] };
        let mut cases = Vec::new();
        for (kind, cache, sizes) in [
            (Kind::Latency, Cache::In, short),
            (Kind::Bandwidth, Cache::In, inside),
            (Kind::Bandwidth, Cache::Out, outside),
        ] {
            for size in basis.sizes(sizes) {
                for (markers, word) in [(Markers::Off, "off"), (Markers::On, "on")] {
                    let case = basis.case(kind, size, 0.15);
                    let case = case.with(|job| (job.cache, job.stack.markers) = (cache, markers));
                    let cache = if cache == Cache::In { "in" } else { "out" };
                    cases.push(case.label_with("cache", cache).label_with("markers", word));
                }
            }
        }
        cases
    }

    fn afterword(&self, plan: &Plan, results: &Results) -> String {
        format!("\nWhere each wins\n\n{}\nWhat markers cost\n\n{}", winners(plan, results), costs(plan, results))
    }
}

/// A design in short: `split=host:progress=caller` is "host caller".
fn name(plan: &Plan, entry: usize) -> String {
    let entry = &plan.entries[entry];
    let whole = entry.to_string();
    let settings = entry.variant.as_ref().unwrap_or(&whole);
    settings.replace("split=", "").replace("progress=", "").replace(':', " ")
}

/// What is compared: the cases' kinds in words.
fn what(case: &Case) -> &'static str {
    if case.job.kind == Kind::Latency { "latency" } else { "bandwidth" }
}

/// How good a figure is: more is better.
fn merit(case: &Case, figure: f64) -> f64 {
    if case.job.kind == Kind::Latency { 1.0 / figure } else { figure }
}

/// Each case's best, and by how much it is ahead of the second. Where chance may have set their launches apart none is.
fn winners(plan: &Plan, results: &Results) -> Table {
    let mut table = Table::new(&[
        ("", Align::Left),
        ("size", Align::Right),
        ("cache", Align::Left),
        ("markers", Align::Left),
        ("best", Align::Left),
        ("ahead", Align::Right),
        ("of", Align::Left),
    ]);
    for (at, case) in plan.cases.iter().enumerate() {
        let merits = |entry| Some((entry, merit(case, results.main(plan, entry, at)?)));
        let mut found: Vec<(usize, f64)> = (0..plan.entries.len()).filter_map(merits).collect();
        found.sort_by(|one, other| other.1.total_cmp(&one.1));
        let [(best, first), (next, second), ..] = found[..] else { continue };
        let label = |name| case.label(name).unwrap_or_default();
        let is_ahead = results.differ(plan, [best, next], at);
        table.row([
            what(case).into(),
            case.size().to_string(),
            label("cache"),
            label("markers"),
            if is_ahead { name(plan, best) } else { "none".into() },
            if is_ahead { format!("{:.0} %", 100.0 * (first / second - 1.0)) } else { "-".into() },
            if is_ahead { name(plan, next) } else { format!("{}, {}", name(plan, best), name(plan, next)) },
        ]);
    }
    table
}

/// How much each design loses by markers, in each case.
fn costs(plan: &Plan, results: &Results) -> Table {
    let names: Vec<String> = (0..plan.entries.len()).map(|entry| name(plan, entry)).collect();
    let mut columns = vec![("", Align::Left), ("size", Align::Right), ("cache", Align::Left)];
    columns.extend(names.iter().map(|name| (name.as_str(), Align::Right)));
    let mut table = Table::new(&columns).fold(3, output::columns());
    for (at, case) in plan.cases.iter().enumerate().filter(|(_, case)| case.label("markers").as_deref() == Some("off"))
    {
        let twin = |(_, other): &(usize, &Case)| {
            (other.job.kind, other.job.size, other.label("cache"))
                == (case.job.kind, case.job.size, case.label("cache"))
                && other.label("markers").as_deref() == Some("on")
        };
        let Some((with, _)) = plan.cases.iter().enumerate().find(twin) else { continue };
        let cost = |entry| {
            let [off, on] = [at, with].map(|at| results.main(plan, entry, at).map(|figure| merit(case, figure)));
            Some(format!("{:.1} %", 100.0 * (1.0 - on? / off?)))
        };
        let label = case.label("cache").unwrap_or_default();
        let costs = (0..plan.entries.len()).map(|entry| cost(entry).unwrap_or_else(|| "-".into()));
        table.row([what(case).to_owned(), case.size().to_string(), label].into_iter().chain(costs));
    }
    table
}
