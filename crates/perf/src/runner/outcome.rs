//! What a measurement of contestants says: its document, and a table for people.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value, json};
use weft_command::output;
use weft_command::table::{Align, Table};

use crate::contestants::mpi::Mpi;
use crate::host::distance::describe;
use crate::model::case::{Case, text};
use crate::model::metric::{Column, Metric, main_metrics, metrics, title};
use crate::model::run::Run;
use crate::result::{self, Comparison, Document, Launch, Row, Verdict};
use crate::runner::bounds::bounds;
use crate::runner::measurement::Measurement;
use crate::runner::plan::{Plan, Results};
use crate::statistics::median;

/// The mark behind a figure that was taken through a link that was late.
const LATE: char = '!';
/// The longest name of a contestant that makes a heading.
const LONGEST_HEADING: usize = 16;

/// The document of a measurement that has ended.
pub(crate) fn document(plan: &Plan, results: &Results, measurement: Measurement) -> Document {
    let entry = plan.entries[0].to_string();
    let mut document = measurement.end(plan.places(), settings(plan), rows(plan, results), &entry);
    document.rows.extend(bounds(plan, results, key));
    document.machine.congestion_control = plan.place.congestion_control();
    document.machine.cores_apart_ns = cores_apart(results);
    document.peers = versions(plan, results);
    document.is_cut_short = results.is_cut_short;
    document.notes = plan.note.iter().cloned().collect();
    document.not_measured = results
        .missing
        .iter()
        .map(|missing| result::Missing {
            contestant: missing.name.clone(),
            reason: missing.reason.clone(),
            is_failure: missing.broken,
        })
        .collect();
    document
}

/// The versions of all that has results, as far as this machine knows them: by contestant, and of MPI by library.
fn versions(plan: &Plan, results: &Results) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for cell in &results.cells {
        let entry = &plan.entries[cell.entry];
        let job = plan.job(entry, &plan.cases[cell.case]);
        let library = job.mpi.as_ref().filter(|_| entry.contestant.name() == Mpi::NAME);
        let name = library.map_or_else(|| entry.to_string(), |mpi| mpi.library.to_string());
        found.entry(name).or_insert_with(|| entry.contestant.version(&job));
    }
    found.into_iter().filter_map(|(name, version)| Some((name, version?))).collect()
}

/// All figures: those of the measured transport first, in each case.
fn rows(plan: &Plan, results: &Results) -> Vec<Row> {
    let mut rows = Vec::new();
    for (at, case) in plan.cases.iter().enumerate() {
        for (rank, metric) in metrics(plan.test, &case.job).iter().enumerate() {
            for (entry, name) in plan.entries.iter().enumerate() {
                let launches = launches(results.runs(entry, at), metric);
                if launches.is_empty() {
                    continue;
                }
                let what = (metric.name, metric.unit, metric.better());
                let row = Row::new(name.to_string(), key(case), what, launches);
                rows.push(if rank < main_metrics(&case.job) { row.as_main() } else { row });
            }
        }
    }
    rows
}

/// What tells a case from others, for the document.
fn key(case: &Case) -> result::Case {
    let size = ("size_bytes".to_owned(), case.job.size.into());
    let labels = case.labels.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    labels.chain([size]).collect()
}

fn launches(runs: &[Run], metric: &Metric) -> Vec<Launch> {
    let launch = |(run, launch): (&Run, u32)| {
        let is_main = metric.column == Column::WithP99;
        Some(Launch {
            launch,
            value: (metric.value)(run)?,
            p99: (metric.p99)(run),
            worst: run.worst().filter(|_| is_main),
            histogram: run.histogram().filter(|_| is_main).cloned(),
            series: None,
            cores_apart_ns: run.cores_apart_ns,
            lateness: run.lateness,
        })
    };
    runs.iter().zip(0..).filter_map(launch).collect()
}

/// The table of a document, with what its test says below.
pub(crate) fn table(plan: &Plan, results: &Results, document: &Document, afterword: &str) -> String {
    let machine = &document.machine;
    let mut text = format!(
        "medians of {} launches; {}, Linux {}, {} cores, {}; {}\n",
        plan.launches, machine.host, machine.kernel, machine.cores, machine.congestion_control, document.place
    );
    text.push_str(&machine.describe());
    document.notes.iter().for_each(|note| text.push_str(&format!("{note}\n")));
    for section in sections(plan) {
        let table = section_table(plan, document, &section);
        text.push_str(&format!("\n{}\n\n{table}", title(&plan.cases[section[0]].job)));
    }
    if let Some(covered) = document.rows.iter().find_map(|row| row.interval) {
        text.push_str(&format!("\nan interval covers the median in {:.1} % of cases\n", 100.0 * covered.coverage));
    }
    if plan.entries.len() > 1 {
        text.push_str("~ not told from the first (rank-sum test, p >= 0.01)\n");
    }
    text.push_str(&document.lateness().map_or_else(String::new, |words| format!("{LATE} {words}\n")));
    text.push_str(afterword);
    if let Some(apart) = describe(results.cores_apart(), results.repeated) {
        text.push_str(&format!("\n{apart}\n"));
    }
    text.push_str(&complaints(plan, results));
    if !document.peers.is_empty() {
        let versions: Vec<_> = document.peers.iter().map(|(name, version)| format!("{name} {version}")).collect();
        text.push_str(&format!("\nversions: {}\n", versions.join(", ")));
    }
    text
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

/// The contestants without figures, each reason once.
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
        Column::Afar(_) => plan.place.round_trip() > Duration::ZERO,
        Column::None => false,
    }
}

fn section_table(plan: &Plan, document: &Document, section: &[usize]) -> Table {
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
            Column::Plain(heading) | Column::Copies(heading) | Column::Afar(heading) => {
                columns.push((heading, Align::Right));
            }
            Column::None => {}
        }
        if has_interval(document, metric) {
            columns.push(("interval", Align::Right));
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
    let mut table = Table::new(&columns).fold(example.labels.len() + 2, output::columns());
    for &at in section {
        for entry in 0..plan.entries.len() {
            table_row(&mut table, plan, document, (entry, at), &metrics);
        }
    }
    table
}

fn table_row(table: &mut Table, plan: &Plan, document: &Document, (entry, at): (usize, usize), metrics: &[Metric]) {
    let (name, case) = (plan.entries[entry].to_string(), &plan.cases[at]);
    let key = key(case);
    let of = |metric: &Metric| {
        document.rows.iter().find(|row| row.contestant == name && row.case == key && row.metric == metric.name)
    };
    if metrics.iter().all(|metric| of(metric).is_none()) {
        return;
    }
    let mut cells = vec![case.size().to_string()];
    cells.extend(case.labels.iter().map(|(_, value)| text(value)));
    cells.push(name.clone());
    for metric in metrics {
        let (row, cell) = (of(metric), |value: f64| format!("{:.3}", value * metric.scale()));
        let dash = || "-".to_owned();
        let mark = if row.is_some_and(|row| row.late_launches() > 0) { format!(" {LATE}") } else { String::new() };
        cells.push(row.and_then(|row| row.median).map_or_else(dash, cell) + &mark);
        if has_interval(document, metric) {
            let interval = row.and_then(|row| row.interval);
            cells.push(interval.map_or_else(dash, |it| format!("{}..{}", cell(it.low), cell(it.high))));
        }
        if metric.column == Column::WithP99 {
            cells.push(row.and_then(|row| row.p99).map_or_else(dash, cell));
        }
    }
    let main = metrics.first().map_or("", |metric| metric.name);
    let is_this =
        |comparison: &&Comparison| comparison.peer == name && comparison.case == key && comparison.metric == main;
    let comparison = document.comparisons.iter().find(is_this);
    cells.extend(
        comparison
            .and_then(|it| Some((it.ratio?, it.verdict)))
            .map(|(ratio, verdict)| format!("{ratio:.2}{}", if verdict == Verdict::Equal { " ~" } else { "" })),
    );
    table.row(cells);
}

/// Whether the table shows the interval of this figure: a few launches have none. The document has it of all figures.
fn has_interval(document: &Document, metric: &Metric) -> bool {
    let is_shown = matches!(metric.column, Column::WithP99 | Column::Plain(_));
    is_shown && document.rows.iter().any(|row| row.metric == metric.name && row.interval.is_some())
}

fn cores_apart(results: &Results) -> Option<[f64; 3]> {
    let apart: Vec<f64> = results.cores_apart().collect();
    Some([apart.iter().copied().reduce(f64::min)?, median(&apart)?, apart.iter().copied().reduce(f64::max)?])
}

fn settings(plan: &Plan) -> Value {
    let job = &plan.cases[0].job;
    let contestants: Map<_, _> =
        plan.entries.iter().map(|entry| (entry.to_string(), entry.contestant.describe().into())).collect();
    json!({
        "launches": plan.launches,
        "messages": plan.cases.iter().map(messages).collect::<Vec<_>>(),
        "window": job.window,
        "operation": job.operation,
        "wait": job.wait,
        "stack": job.stack,
        "pin": plan.pin,
        "place": plan.places(),
        "note": plan.note,
        "processes": "fresh in each launch; contestants take turns",
        "contestants": contestants,
    })
}

fn messages(case: &Case) -> Value {
    let job = &case.job;
    json!({
        "kind": job.kind, "size_bytes": job.size, "iterations": job.iterations, "warmup": job.warmup,
        "in_flight": job.buffers(),
    })
}
