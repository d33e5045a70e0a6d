//! `weft perf disorder`: what late and lost segments cost a stream of iWARP over Weft's own TCP, or of Edge ([`edge`]),
//! in virtual time: the same figures on every machine. Beside iWARP the kernel's TCP, which is not to be had in virtual
//! time.

use clap::{Args, ValueEnum};
use serde::Serialize;
use serde_json::json;
use weft_simulate::{ReceivePolicy, StreamReport, StreamScenario};

use kernel::{Kernels, SLOWER};

use weft_command::destination::Destination;
use weft_command::failure::Failure;
use weft_command::output::{complain, print};
use weft_command::table::{Align, Table};

pub(crate) mod edge;
pub(crate) mod kernel;

/// What is varied.
#[derive(Args, Debug)]
pub(crate) struct Disorder {
    /// How many segments in a hundred come late, by up to 200 us, each a case of its own
    #[arg(long, value_name = "PERCENT,...", value_delimiter = ',', default_value = "0,1,5,10", value_parser = percent)]
    late: Vec<f64>,
    /// How many segments in a hundred are lost, each a case of its own
    #[arg(long, value_name = "PERCENT,...", value_delimiter = ',', default_value = "0,1", value_parser = percent)]
    lost: Vec<f64>,
    /// How many segments in a hundred a middlebox cuts in two
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, value_parser = percent)]
    cut: f64,
    /// What the receiver does with segments that come before others [default: place, buffer, drop]
    #[arg(long, value_enum, value_name = "POLICY,...", value_delimiter = ',')]
    policy: Vec<Policy>,
}

/// What the receiver does with segments that come before others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum Policy {
    /// Their FPDUs are found by markers, and placed at once
    Place,
    /// They are kept until what is missing has come, as the kernel's TCP does
    Buffer,
    /// They are dropped, and come again
    Drop,
    /// The kernel's TCP receives, which can only keep them: in real time, slowed down
    Kernel,
}

impl Policy {
    /// Those of Weft's own TCP.
    const OWN: [Self; 3] = [Self::Place, Self::Buffer, Self::Drop];

    /// `None`: the kernel's.
    const fn receive(self) -> Option<ReceivePolicy> {
        match self {
            Self::Place => Some(ReceivePolicy::Place),
            Self::Buffer => Some(ReceivePolicy::Buffer),
            Self::Drop => Some(ReceivePolicy::Drop),
            Self::Kernel => None,
        }
    }
}

/// What is said of the kernel's.
fn of_kernel() -> String {
    format!(
        "kernel: the kernel's TCP receives behind the same link, in real time, which goes by {SLOWER} times slower for \
         the link;\nbuffered is its memory, as it counts that\n"
    )
}

/// One run.
struct Case {
    late: f64,
    lost: f64,
    policy: Policy,
    report: StreamReport,
}

fn percent(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(percent) if (0.0..=50.0).contains(&percent) => Ok(percent),
        _ => Err("a number of percent from 0 to 50".into()),
    }
}

const fn millionths(percent: f64) -> u32 {
    (percent * 10_000.0) as u32
}

/// Runs the test.
pub(crate) fn run(arguments: &Disorder, fpdus: Option<u64>, json: Option<Destination>) -> Result<(), Failure> {
    let base = StreamScenario { cut: millionths(arguments.cut), ..StreamScenario::default() };
    let fpdus = match fpdus.map(u32::try_from) {
        None => base.fpdus,
        Some(Ok(fpdus)) => fpdus,
        Some(Err(_)) => return Err(Failure::Usage(format!("--iterations: at most {} FPDUs", u32::MAX))),
    };
    let base = StreamScenario { fpdus, ..base };
    let cases = cases(arguments, &base)?;
    publish(&table(&base, &cases), &values(&base, &cases), json)
}

fn cases(arguments: &Disorder, base: &StreamScenario) -> Result<Vec<Case>, Failure> {
    let policies = if arguments.policy.is_empty() { &Policy::OWN[..] } else { &arguments.policy };
    let kernels = policies.contains(&Policy::Kernel).then(Kernels::new).transpose()?;
    let mut cases = Vec::new();
    for lost in &arguments.lost {
        for late in &arguments.late {
            for policy in policies {
                let scenario = StreamScenario { late: millionths(*late), lost: millionths(*lost), ..*base };
                let report = match (policy.receive(), &kernels) {
                    (None, Some(kernels)) => kernels.run(&scenario)?,
                    (policy, _) => simulate(&StreamScenario { policy: policy.unwrap_or_default(), ..scenario })?,
                };
                cases.push(Case { late: *late, lost: *lost, policy: *policy, report });
            }
        }
    }
    Ok(cases)
}

fn simulate(scenario: &StreamScenario) -> Result<StreamReport, Failure> {
    scenario.run().map_err(|error| Failure::Runtime(format!("{scenario:?}: {error}")))
}

fn table(base: &StreamScenario, cases: &[Case]) -> String {
    let mut table = Table::new(&[
        ("lost %", Align::Right),
        ("late %", Align::Right),
        ("policy", Align::Left),
        ("Gb/s", Align::Right),
        ("in place after us", Align::Right),
        ("p99", Align::Right),
        ("placed early", Align::Right),
        ("buffered at most", Align::Right),
        ("sent again", Align::Right),
    ]);
    for Case { late, lost, policy, report } in cases {
        let name = policy.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
        table.row([
            lost.to_string(),
            late.to_string(),
            name,
            format!("{:.3}", report.goodput() / 1e9),
            report.median.as_micros().to_string(),
            report.p99.as_micros().to_string(),
            report.early.to_string(),
            report.most_buffered.to_string(),
            report.resent.to_string(),
        ]);
    }
    let kernel = cases.iter().any(|case| case.policy == Policy::Kernel);
    let kernel = if kernel { of_kernel() } else { String::new() };
    format!(
        "in virtual time: {} FPDUs with markers and CRC, one in a segment, over Weft's own TCP; a link of {} Gb/s,\n\
         {} us each way; who is late is so by up to {} us; a middlebox cuts {} % of the segments in \
         two\n{kernel}\n{table}",
        base.fpdus,
        base.rate as f64 / 1e9,
        base.delay.as_micros(),
        base.late_by.as_micros(),
        f64::from(base.cut) / 10_000.0,
    )
}

fn values(base: &StreamScenario, cases: &[Case]) -> serde_json::Value {
    let rows = cases.iter().map(|Case { late, lost, policy, report }| {
        json!({
            "late_percent": late,
            "lost_percent": lost,
            "policy": policy,
            "virtual_time": *policy != Policy::Kernel,
            "goodput_bits_per_s": report.goodput(),
            "in_place_us": { "median": micros(report.median), "p99": micros(report.p99) },
            "placed_early": report.early,
            "most_buffered_bytes": report.most_buffered,
            "segments_sent_again": report.resent,
        })
    });
    json!({
        "test": "disorder",
        "fpdus": base.fpdus,
        "rate_bits_per_s": base.rate,
        "delay_us": micros(base.delay),
        "late_by_us": micros(base.late_by),
        "cut_percent": f64::from(base.cut) / 10_000.0,
        "cases": rows.collect::<Vec<_>>(),
    })
}

/// Prints a table, and writes values as JSON where that is wanted.
fn publish(table: &str, values: &serde_json::Value, json: Option<Destination>) -> Result<(), Failure> {
    let Some(json) = json else { return print(table) };
    let text = serde_json::to_string_pretty(values).expect("plain values become JSON") + "\n";
    match json {
        Destination::StandardOutput => {
            complain(table.trim_end());
            json.write(&text)
        }
        Destination::File(_) => json.write(&text).and(print(table)),
    }
}

fn micros(time: core::time::Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
