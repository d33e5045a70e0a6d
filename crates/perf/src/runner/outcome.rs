//! What a measurement says: a table for people, JSON for figures.

use std::thread;

use nix::sys::utsname::uname;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::host::distance::describe;
use crate::host::watch::Machine;
use crate::model::case::{Case, text};
use crate::model::measure::median;
use crate::model::metric::{Column, Metric, metrics, title};
use crate::model::run::Run;
use crate::model::spread::Spread;
use crate::model::test::Test;
use crate::runner::plan::{Plan, Results};
use weft_command::destination::Destination;
use weft_command::failure::Failure;
use weft_command::output::{complain, print};
use weft_command::table::{Align, Table};

/// The longest name of a contestant that makes a heading.
const LONGEST_HEADING: usize = 16;

/// A measurement with all that is needed to judge it.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    host: String,
    kernel: String,
    cores: usize,
    congestion_control: String,
    version: &'static str,
    commit: &'static str,
    /// A cache line's way from core to core and back, over all runs: the least, the median, the most.
    cores_apart_ns: Option<[f64; 3]>,
    /// Runs that were made again because cores were much farther apart than in others.
    repeated_runs: usize,
    /// The processor, and what else it had to do.
    machine: Machine,
    settings: Value,
    not_measured: Vec<Value>,
    rows: Vec<Row>,
}

/// One figure of the transport, beside that of one peer.
#[derive(Debug, PartialEq, Serialize)]
struct Row {
    test: Test,
    transport: String,
    size_bytes: usize,
    /// What else tells this case from others.
    #[serde(flatten)]
    labels: Map<String, Value>,
    metric: &'static str,
    unit: &'static str,
    median: Option<f64>,
    p99: Option<f64>,
    /// Of each run, and what becomes of them.
    values: Vec<f64>,
    min: Option<f64>,
    max: Option<f64>,
    mean: Option<f64>,
    runs: usize,
    /// The median over these runs.
    cores_apart_ns: Option<f64>,
    peer: Option<String>,
    peer_median: Option<f64>,
    peer_values: Vec<f64>,
    peer_min: Option<f64>,
    peer_max: Option<f64>,
    peer_mean: Option<f64>,
    peer_cores_apart_ns: Option<f64>,
    ratio: Option<f64>,
    /// Whether the runs of both do not overlap: only then is one ahead. `None`: there are too few to know, or no peer.
    apart: Option<bool>,
}

impl Report {
    /// The report of these results.
    pub(crate) fn new(plan: &Plan, results: &Results, machine: Machine) -> Self {
        let system = uname().ok();
        let text = |value: Option<&std::ffi::OsStr>| value.unwrap_or_default().to_string_lossy().into_owned();
        Self {
            host: text(system.as_ref().map(|system| system.nodename())),
            kernel: text(system.as_ref().map(|system| system.release())),
            cores: thread::available_parallelism().map_or(0, usize::from),
            congestion_control: plan.place.congestion_control(),
            version: env!("CARGO_PKG_VERSION"),
            commit: weft_command::COMMIT,
            cores_apart_ns: cores_apart(results),
            repeated_runs: results.repeated,
            machine,
            settings: settings(plan),
            not_measured: not_measured(results),
            rows: rows(plan, results),
        }
    }

    /// Writes the JSON where it is wanted, and prints the table.
    pub(crate) fn publish(
        &self,
        plan: &Plan,
        results: &Results,
        afterword: &str,
        json: Option<Destination>,
    ) -> Result<(), Failure> {
        let table = self.table(plan, results, afterword);
        let Some(json) = json else { return print(table) };
        let text = serde_json::to_string_pretty(self).expect("plain values become JSON") + "\n";
        match json {
            Destination::StandardOutput => {
                complain(table.trim_end());
                json.write(&text)
            }
            // Before the table, which nobody may read.
            Destination::File(_) => json.write(&text).and(print(table)),
        }
    }

    fn table(&self, plan: &Plan, results: &Results, afterword: &str) -> String {
        let mut text = format!(
            "medians of {} runs; {}, Linux {}, {} cores, {}; {}\n",
            plan.runs,
            self.host,
            self.kernel,
            self.cores,
            self.congestion_control,
            plan.places()
        );
        text.push_str(&self.machine.describe());
        if let Some(note) = &plan.note {
            text.push_str(&format!("{note}\n"));
        }
        for section in sections(plan) {
            text.push_str(&format!(
                "\n{}\n\n{}",
                title(&plan.cases[section[0]].job),
                section_table(plan, results, &section)
            ));
        }
        if plan.entries.len() > 1 {
            text.push_str("\n~ nobody is ahead: the runs of both overlap, or are fewer than three\n");
        }
        text.push_str(afterword);
        if let Some(apart) = describe(results.cores_apart(), results.repeated) {
            text.push_str(&format!("\n{apart}\n"));
        }
        text.push_str(&complaints(plan, results));
        text
    }
}

/// Positions of the cases of each kind, in the order of the plan.
fn sections(plan: &Plan) -> Vec<Vec<usize>> {
    let mut sections: Vec<Vec<usize>> = Vec::new();
    for (at, case) in plan.cases.iter().enumerate() {
        match sections.iter_mut().find(|section| plan.cases[section[0]].job.kind == case.job.kind) {
            Some(section) => section.push(at),
            None => sections.push(vec![at]),
        }
    }
    sections
}

/// Who is missing, each reason once.
fn complaints(plan: &Plan, results: &Results) -> String {
    let mut lines: Vec<String> = Vec::new();
    for missing in &results.missing {
        let scope = missing.case.map_or_else(String::new, |at| {
            let labels: Vec<_> =
                plan.cases[at].labels.iter().map(|(name, value)| format!("{name} {}", text(value))).collect();
            if labels.is_empty() { String::new() } else { format!(" ({})", labels.join(", ")) }
        });
        let line = format!("not measured: {}{scope}: {}", missing.name, missing.reason);
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
        .into_iter()
        .map(|line| format!("\n{line}"))
        .chain((!results.missing.is_empty()).then(|| "\n".into()))
        .collect()
}

fn is_shown(plan: &Plan, metric: &Metric) -> bool {
    match metric.column {
        Column::WithP99 | Column::Plain(_) => true,
        Column::Copies(_) => plan.copies,
        Column::None => false,
    }
}

fn section_table(plan: &Plan, results: &Results, section: &[usize]) -> Table {
    let example = &plan.cases[section[0]];
    let metrics: Vec<_> =
        metrics(plan.test, &example.job).into_iter().filter(|metric| is_shown(plan, metric)).collect();
    let mut columns = vec![("size", Align::Right)];
    columns.extend(
        example.labels.iter().map(|(name, value)| (*name, if value.is_number() { Align::Right } else { Align::Left })),
    );
    columns.push(("", Align::Left));
    for metric in &metrics {
        match metric.column {
            Column::WithP99 => columns.push(("median", Align::Right)),
            Column::Plain(heading) | Column::Copies(heading) => columns.push((heading, Align::Right)),
            Column::None => {}
        }
        if has_spread(metric) {
            columns.push(("min..max", Align::Right));
        }
        if metric.column == Column::WithP99 {
            columns.push(("p99", Align::Right));
        }
    }
    let first = plan.entries[0].to_string();
    let ratio = format!("{} / it", if first.len() > LONGEST_HEADING { "first" } else { &first });
    if plan.entries.len() > 1 {
        columns.push((&ratio, Align::Right));
    }
    let mut table = Table::new(&columns);
    for &at in section {
        for entry in 0..plan.entries.len() {
            table_row(&mut table, plan, results, (entry, at), &metrics);
        }
    }
    table
}

fn table_row(table: &mut Table, plan: &Plan, results: &Results, (entry, at): (usize, usize), metrics: &[Metric]) {
    let (runs, case) = (results.runs(entry, at), &plan.cases[at]);
    if runs.is_empty() {
        return;
    }
    let mut row = vec![case.size().to_string()];
    row.extend(case.labels.iter().map(|(_, value)| text(value)));
    row.push(plan.entries[entry].to_string());
    for metric in metrics {
        let cell =
            |value: Option<f64>| value.map_or_else(|| "-".into(), |value| format!("{:.3}", value * metric.scale()));
        row.push(cell(median_of(runs, metric.value)));
        if has_spread(metric) {
            let spread = spread_of(runs, metric.value);
            row.push(format!("{}..{}", cell(spread.min()), cell(spread.max())));
        }
        if metric.column == Column::WithP99 {
            row.push(cell(median_of(runs, metric.p99)));
        }
    }
    let ratio = ratio(results.main(plan, 0, at), results.main(plan, entry, at));
    let is_apart = results.spread(plan, 0, at).is_apart(&results.spread(plan, entry, at)) == Some(true);
    let mark = if is_apart { "" } else { " ~" };
    row.extend(ratio.filter(|_| entry > 0).map(|ratio| format!("{ratio:.2}{mark}")));
    table.row(row);
}

/// Whether the table shows how far the runs of this figure lie apart. The JSON has it of all.
fn has_spread(metric: &Metric) -> bool {
    matches!(metric.column, Column::WithP99 | Column::Plain(_))
}

fn rows(plan: &Plan, results: &Results) -> Vec<Row> {
    let mut rows = Vec::new();
    for (at, case) in plan.cases.iter().enumerate() {
        for metric in metrics(plan.test, &case.job) {
            let measured = |entry: usize| median_of(results.runs(entry, at), metric.value).is_some();
            let peers: Vec<_> = (1..plan.entries.len()).filter(|peer| !results.runs(*peer, at).is_empty()).collect();
            if !measured(0) {
                // A case that only peers can do still has figures.
                let alone = peers.into_iter().filter(|peer| measured(*peer));
                rows.extend(alone.map(|peer| row(plan, results, (peer, at), &metric, None)));
                continue;
            }
            if peers.is_empty() {
                rows.push(row(plan, results, (0, at), &metric, None));
            }
            rows.extend(peers.into_iter().map(|peer| row(plan, results, (0, at), &metric, Some(peer))));
        }
    }
    rows
}

fn row(plan: &Plan, results: &Results, (entry, at): (usize, usize), metric: &Metric, peer: Option<usize>) -> Row {
    let (runs, case) = (results.runs(entry, at), &plan.cases[at]);
    let median = median_of(runs, metric.value);
    let peer_median = peer.and_then(|peer| median_of(results.runs(peer, at), metric.value));
    let spread = spread_of(runs, metric.value);
    let peer_spread = peer.map(|peer| spread_of(results.runs(peer, at), metric.value)).unwrap_or_default();
    Row {
        test: plan.test,
        transport: plan.entries[entry].to_string(),
        size_bytes: case.job.size,
        labels: case.labels.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect(),
        metric: metric.name,
        unit: metric.unit,
        median,
        p99: median_of(runs, metric.p99),
        min: spread.min(),
        max: spread.max(),
        mean: spread.mean(),
        runs: runs.len(),
        cores_apart_ns: median_of(runs, |run| run.cores_apart_ns),
        peer: peer.map(|peer| plan.entries[peer].to_string()),
        peer_median,
        peer_min: peer_spread.min(),
        peer_max: peer_spread.max(),
        peer_mean: peer_spread.mean(),
        peer_cores_apart_ns: peer.and_then(|peer| median_of(results.runs(peer, at), |run| run.cores_apart_ns)),
        ratio: ratio(median, peer_median),
        apart: spread.is_apart(&peer_spread),
        values: spread.values,
        peer_values: peer_spread.values,
    }
}

fn ratio(median: Option<f64>, peer_median: Option<f64>) -> Option<f64> {
    let ratio = median? / peer_median?;
    ratio.is_finite().then_some(ratio)
}

fn cores_apart(results: &Results) -> Option<[f64; 3]> {
    let apart = || results.cores_apart();
    Some([apart().reduce(f64::min)?, median(apart())?, apart().reduce(f64::max)?])
}

fn median_of(runs: &[Run], value: fn(&Run) -> Option<f64>) -> Option<f64> {
    median(runs.iter().filter_map(value))
}

fn spread_of(runs: &[Run], value: fn(&Run) -> Option<f64>) -> Spread {
    Spread::of(runs.iter().filter_map(value))
}

fn not_measured(results: &Results) -> Vec<Value> {
    results.missing.iter().map(|missing| json!({ "peer": missing.name, "reason": missing.reason })).collect()
}

fn settings(plan: &Plan) -> Value {
    let job = &plan.cases[0].job;
    let contestants: Map<_, _> =
        plan.entries.iter().map(|entry| (entry.to_string(), entry.contestant.describe().into())).collect();
    json!({
        "runs": plan.runs,
        "messages": plan.cases.iter().map(messages).collect::<Vec<_>>(),
        "window": job.window,
        "operation": job.operation,
        "wait": job.wait,
        "stack": job.stack,
        "pin": plan.pin,
        "place": plan.places(),
        "note": plan.note,
        "processes": "fresh in each run; contestants take turns",
        "contestants": contestants,
    })
}

fn messages(case: &Case) -> Value {
    let job = &case.job;
    json!({
        "kind": job.kind, "size_bytes": job.size, "iterations": job.iterations, "warmup": job.warmup, "in_flight": job.buffers(),
    })
}
