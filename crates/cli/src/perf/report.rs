//! What a measurement says: a table for people, JSON for figures.

use std::path::Path;
use std::{fs, thread};

use nix::sys::utsname::uname;
use serde::Serialize;
use serde_json::{Value, json};

use super::campaign::{Plan, Results};
use super::measure::median;
use super::plan::{Job, Operation, Test};
use super::session::Run;
use super::size::Size;
use crate::failure::Failure;
use crate::table::{Align, Table};

/// A measurement with all that is needed to judge it.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    host: String,
    kernel: String,
    cores: usize,
    congestion_control: String,
    version: &'static str,
    commit: &'static str,
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
    metric: &'static str,
    unit: &'static str,
    median: Option<f64>,
    p99: Option<f64>,
    runs: usize,
    peer: Option<String>,
    peer_median: Option<f64>,
    ratio: Option<f64>,
}

/// A figure that is taken from each run.
struct Metric {
    name: &'static str,
    unit: &'static str,
    value: fn(&Run) -> Option<f64>,
    p99: fn(&Run) -> Option<f64>,
}

const SENDER_CPU: Metric = Metric { name: "sender_cpu", unit: "s/GB", value: |run| run.sender_cpu, p99: |_| None };
const RECEIVER_CPU: Metric =
    Metric { name: "receiver_cpu", unit: "s/GB", value: |run| run.receiver_cpu, p99: |_| None };

const SENDER_COPIES: Metric =
    Metric { name: "sender_copies", unit: "copies/B", value: |run| run.sender_copies, p99: |_| None };
const RECEIVER_COPIES: Metric =
    Metric { name: "receiver_copies", unit: "copies/B", value: |run| run.receiver_copies, p99: |_| None };

/// The figures of a test, the one that it is about first.
fn metrics(job: &Job) -> Vec<Metric> {
    let main = |name, unit| Metric { name, unit, value: |run| Some(run.value), p99: |run| run.p99 };
    match job.test {
        Test::Latency if job.operation == Some(Operation::Read) => vec![main("round_trip", "us")],
        Test::Latency => vec![main("half_round_trip", "us")],
        Test::Bandwidth => {
            vec![main("throughput", "GB/s"), SENDER_CPU, RECEIVER_CPU, SENDER_COPIES, RECEIVER_COPIES]
        }
        Test::Rate => vec![main("message_rate", "1/s")],
    }
}

impl Report {
    /// The report of these results.
    pub(crate) fn new(plan: &Plan, results: &Results) -> Self {
        let system = uname().ok();
        let text = |value: Option<&std::ffi::OsStr>| value.unwrap_or_default().to_string_lossy().into_owned();
        Self {
            host: text(system.as_ref().map(|system| system.nodename())),
            kernel: text(system.as_ref().map(|system| system.release())),
            cores: thread::available_parallelism().map_or(0, usize::from),
            congestion_control: fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control")
                .map_or_else(|_| "unknown".into(), |text| text.trim().to_owned()),
            version: env!("CARGO_PKG_VERSION"),
            commit: env!("WEFT_COMMIT"),
            settings: settings(plan),
            not_measured: not_measured(results),
            rows: rows(plan, results),
        }
    }

    /// Prints the table, and writes the JSON where it is wanted.
    pub(crate) fn publish(&self, plan: &Plan, results: &Results, json: Option<&Path>) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(self).expect("plain values become JSON");
        match json {
            Some(path) if path == Path::new("-") => {
                eprint!("{}", self.table(plan, results));
                println!("{text}");
            }
            Some(path) => {
                print!("{}", self.table(plan, results));
                fs::write(path, text + "\n").map_err(Failure::while_doing(path.display()))?;
            }
            None => print!("{}", self.table(plan, results)),
        }
        Ok(())
    }

    fn table(&self, plan: &Plan, results: &Results) -> String {
        let transport = &plan.entries[0];
        let (what, test) = (title(&plan.template), plan.template.test);
        let ratio = format!("{transport} / it");
        let mut columns =
            vec![("size", Align::Right), ("", Align::Left), ("median", Align::Right), ("p99", Align::Right)];
        if test == Test::Bandwidth {
            columns.extend([("send s/GB", Align::Right), ("receive s/GB", Align::Right)]);
        }
        if plan.copies {
            columns.extend([("send copies/B", Align::Right), ("receive copies/B", Align::Right)]);
        }
        columns.push((&ratio, Align::Right));
        let mut table = Table::new(&columns);
        for size in &plan.sizes {
            for entry in 0..plan.entries.len() {
                table_row(&mut table, plan, results, entry, *size);
            }
        }
        let mut text = format!(
            "{what}; medians of {} runs; {}, Linux {}, {} cores, {}\n\n{table}",
            plan.runs, self.host, self.kernel, self.cores, self.congestion_control
        );
        for missing in &results.missing {
            text.push_str(&format!("\nnot measured: {}: {}", missing.name, missing.reason));
        }
        if !results.missing.is_empty() {
            text.push('\n');
        }
        text
    }
}

fn title(job: &Job) -> &'static str {
    match job.test {
        Test::Latency if job.operation == Some(Operation::Read) => "Round trip in us, less is better",
        Test::Latency => "Half round trip in us, less is better",
        Test::Bandwidth => "Throughput in GB/s, more is better",
        Test::Rate => "Messages per second in millions, more is better",
    }
}

fn table_row(table: &mut Table, plan: &Plan, results: &Results, entry: usize, size: Size) {
    let runs = results.runs(entry, size);
    if runs.is_empty() {
        return;
    }
    let test = plan.template.test;
    let scale = if test == Test::Rate { 1e-6 } else { 1.0 };
    let cell = |value: Option<f64>| value.map_or_else(|| "-".into(), |value| format!("{:.3}", value * scale));
    let main = &metrics(&plan.template)[0];
    let mut row = vec![
        size.to_string(),
        plan.entries[entry].to_string(),
        cell(median_of(runs, main.value)),
        cell(median_of(runs, main.p99)),
    ];
    if test == Test::Bandwidth {
        row.extend([SENDER_CPU, RECEIVER_CPU].map(|metric| cell(median_of(runs, metric.value))));
    }
    if plan.copies {
        row.extend([SENDER_COPIES, RECEIVER_COPIES].map(|metric| cell(median_of(runs, metric.value))));
    }
    let ratio = ratio(median_of(results.runs(0, size), main.value), median_of(runs, main.value));
    row.push(match ratio {
        Some(ratio) if entry > 0 => format!("{ratio:.2}"),
        _ => String::new(),
    });
    table.row(row);
}

fn rows(plan: &Plan, results: &Results) -> Vec<Row> {
    let mut rows = Vec::new();
    for size in &plan.sizes {
        for metric in metrics(&plan.template) {
            if median_of(results.runs(0, *size), metric.value).is_none() {
                continue;
            }
            let peers: Vec<_> = (1..plan.entries.len()).filter(|peer| !results.runs(*peer, *size).is_empty()).collect();
            if peers.is_empty() {
                rows.push(row(plan, results, *size, &metric, None));
            }
            rows.extend(peers.into_iter().map(|peer| row(plan, results, *size, &metric, Some(peer))));
        }
    }
    rows
}

fn row(plan: &Plan, results: &Results, size: Size, metric: &Metric, peer: Option<usize>) -> Row {
    let runs = results.runs(0, size);
    let median = median_of(runs, metric.value);
    let peer_median = peer.and_then(|peer| median_of(results.runs(peer, size), metric.value));
    Row {
        test: plan.template.test,
        transport: plan.entries[0].to_string(),
        size_bytes: size.0,
        metric: metric.name,
        unit: metric.unit,
        median,
        p99: median_of(runs, metric.p99),
        runs: runs.len(),
        peer: peer.map(|peer| plan.entries[peer].to_string()),
        peer_median,
        ratio: ratio(median, peer_median),
    }
}

fn ratio(median: Option<f64>, peer_median: Option<f64>) -> Option<f64> {
    let ratio = median? / peer_median?;
    ratio.is_finite().then_some(ratio)
}

fn median_of(runs: &[Run], value: fn(&Run) -> Option<f64>) -> Option<f64> {
    median(runs.iter().filter_map(value))
}

fn not_measured(results: &Results) -> Vec<Value> {
    results.missing.iter().map(|missing| json!({ "peer": missing.name, "reason": missing.reason })).collect()
}

fn settings(plan: &Plan) -> Value {
    let job = &plan.template;
    let counts: Vec<_> = plan.sizes.iter().map(|size| plan.job(&plan.entries[0], *size)).collect();
    let contestants: serde_json::Map<_, _> =
        plan.entries.iter().map(|entry| (entry.to_string(), entry.contestant.describe().into())).collect();
    json!({
        "runs": plan.runs,
        "messages": counts.iter().map(|job| json!({
            "size_bytes": job.size, "iterations": job.iterations, "warmup": job.warmup, "in_flight": job.buffers(),
        })).collect::<Vec<_>>(),
        "window": job.window,
        "operation": job.operation,
        "wait": job.wait,
        "crc": job.crc,
        "markers": job.markers,
        "verify": job.verify,
        "fpdu": job.fpdu,
        "progress": job.progress,
        "pin": plan.pin,
        "host": job.host,
        "processes": "one for each side, fresh in each run; contestants take turns",
        "contestants": contestants,
    })
}
