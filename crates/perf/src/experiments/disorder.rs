//! `weft perf disorder`: what late and lost segments cost a stream of iWARP over Weft's own TCP, or of Edge ([`edge`]),
//! in virtual time: the same figures on every machine. Beside iWARP the kernel's TCP, which is not to be had in virtual
//! time.

use clap::{Args, ValueEnum};
use serde::Serialize;
use serde_json::json;
use weft_simulate::{ReceivePolicy, StreamReport, StreamScenario};

use kernel::{Kernels, SLOWER};
use weft_command::failure::Failure;
use weft_command::output;
use weft_command::table::{Align, Table};

use crate::result::{self, Better, Launch, Row};
use crate::runner::measurement::Measurement;
use crate::runner::outputs::Outputs;

pub(crate) mod edge;
pub(crate) mod kernel;

/// What it asks.
pub(crate) const QUESTION: &str =
    "What do late and lost segments cost, by what the receiver does with what comes early?";

/// Where it is measured, but for what the kernel's TCP does.
pub(crate) const PLACE: &str = "virtual time";

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
    /// What the receiver does with segments that come before others [default: place, buffer, go-back, drop]
    #[arg(long, value_enum, value_name = "POLICY,...", value_delimiter = ',')]
    policy: Vec<Policy>,
}

impl Disorder {
    /// How many of a hundred come late, and how many are lost.
    pub(crate) fn shares(&self) -> (&[f64], &[f64]) {
        (&self.late, &self.lost)
    }
}

/// What the receiver does with segments that come before others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Policy {
    /// Their FPDUs are found by markers, and placed at once
    Place,
    /// They are kept until what is missing has come, as the kernel's TCP does
    Buffer,
    /// They are dropped, and a NAK has the sender go back to what is missing, as InfiniBand does
    GoBack,
    /// They are dropped, and come again when TCP finds that they are lost
    Drop,
    /// The kernel's TCP receives, which can only keep them: in real time, slowed down
    Kernel,
}

impl Policy {
    /// Those in virtual time.
    const SIMULATED: [Self; 4] = [Self::Place, Self::Buffer, Self::GoBack, Self::Drop];

    /// The policies that are measured when none is named. What a middlebox cuts is a segment of TCP.
    fn usual(cut: f64) -> Vec<Self> {
        Self::SIMULATED.into_iter().filter(|policy| *policy != Self::GoBack || cut == 0.0).collect()
    }

    /// As it is typed.
    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// What is to be known of it beside the rest.
    fn note(self) -> String {
        match self {
            Self::GoBack => {
                "go-back: InfiniBand's reliable connection in place of TCP, a packet for each FPDU; it has \
                             no congestion control, and sends at the rate of the link whatever is lost\n"
                    .to_owned()
            }
            Self::Kernel => format!(
                "kernel: the kernel's TCP receives behind the same link, in real time, which goes by {SLOWER} times \
                 slower for the link;\nbuffered is its memory, as it counts that\n"
            ),
            Self::Place | Self::Buffer | Self::Drop => String::new(),
        }
    }
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
pub(crate) fn run(arguments: &Disorder, fpdus: Option<u64>, outputs: Outputs) -> Result<(), Failure> {
    let measurement = Measurement::begin("disorder", QUESTION);
    let base = StreamScenario { cut: millionths(arguments.cut), ..StreamScenario::default() };
    let fpdus = match fpdus.map(u32::try_from) {
        None => base.fpdus,
        Some(Ok(fpdus)) => fpdus,
        Some(Err(_)) => return Err(Failure::Usage(format!("--iterations: at most {} FPDUs", u32::MAX))),
    };
    let base = StreamScenario { fpdus, ..base };
    let cases = cases(arguments, &base)?;
    let settings = json!({
        "fpdus": base.fpdus, "rate_bits_per_s": base.rate, "delay_us": micros(base.delay),
        "late_by_us": micros(base.late_by), "cut_percent": f64::from(base.cut) / 10_000.0,
    });
    let first = cases.first().map(|case| case.policy.name()).unwrap_or_default();
    let document = measurement.end(PLACE, settings, cases.iter().flat_map(Case::rows).collect(), &first);
    outputs.publish(&document, &table(&base, &cases))
}

fn cases(arguments: &Disorder, base: &StreamScenario) -> Result<Vec<Case>, Failure> {
    let policies = if arguments.policy.is_empty() { Policy::usual(arguments.cut) } else { arguments.policy.clone() };
    if arguments.cut > 0.0 && policies.contains(&Policy::GoBack) {
        return Err(Failure::Usage(format!(
            "--cut {} cuts segments of TCP, and go-back has none: leave out --cut or --policy go-back",
            arguments.cut
        )));
    }
    let kernels = policies.contains(&Policy::Kernel).then(Kernels::new).transpose()?;
    let mut cases = Vec::new();
    for lost in &arguments.lost {
        for late in &arguments.late {
            for policy in &policies {
                let scenario = StreamScenario { late: millionths(*late), lost: millionths(*lost), ..*base };
                let report = run_one(*policy, &scenario, kernels.as_ref())?;
                cases.push(Case { late: *late, lost: *lost, policy: *policy, report });
            }
        }
    }
    Ok(cases)
}

fn run_one(policy: Policy, scenario: &StreamScenario, kernels: Option<&Kernels>) -> Result<StreamReport, Failure> {
    let of_tcp = |policy| StreamScenario { policy, ..*scenario }.run();
    let report = match (policy, kernels) {
        (Policy::Kernel, Some(kernels)) => return kernels.run(scenario),
        (Policy::Kernel, None) => Err("there is no test network for the kernel's TCP".into()),
        (Policy::GoBack, _) => scenario.run_going_back(),
        (Policy::Place, _) => of_tcp(ReceivePolicy::Place),
        (Policy::Buffer, _) => of_tcp(ReceivePolicy::Buffer),
        (Policy::Drop, _) => of_tcp(ReceivePolicy::Drop),
    };
    report.map_err(|error| Failure::Runtime(format!("{scenario:?}: {error}")))
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
    ])
    .fold(3, output::columns());
    for Case { late, lost, policy, report } in cases {
        table.row([
            lost.to_string(),
            late.to_string(),
            policy.name(),
            format!("{:.3}", report.goodput() / 1e9),
            report.median.as_micros().to_string(),
            report.p99.as_micros().to_string(),
            report.early.to_string(),
            report.most_buffered.to_string(),
            report.resent.to_string(),
        ]);
    }
    let noted = [Policy::GoBack, Policy::Kernel].into_iter();
    let notes: String =
        noted.filter(|policy| cases.iter().any(|case| case.policy == *policy)).map(Policy::note).collect();
    format!(
        "in virtual time: {} FPDUs with markers and CRC, one in a segment, over Weft's own TCP; a link of {} Gb/s, \
         {} us each way; late segments are so by up to {} us; a middlebox cuts {} % of the segments in \
         two\n{notes}\n{table}",
        base.fpdus,
        base.rate as f64 / 1e9,
        base.delay.as_micros(),
        base.late_by.as_micros(),
        f64::from(base.cut) / 10_000.0,
    )
}

impl Case {
    /// Of one launch: virtual time is the same each time, and of the kernel's there is one too.
    fn rows(&self) -> Vec<Row> {
        let report = &self.report;
        let key: result::Case = [("late_percent", self.late), ("lost_percent", self.lost)]
            .map(|(name, percent)| (name.to_owned(), percent.into()))
            .into();
        let row = |metric: &str, unit: &str, better, value: f64| {
            Row::new(self.policy.name(), key.clone(), (metric, unit, better), vec![Launch::of(0, value)])
        };
        let in_place = Launch { p99: Some(micros(report.p99)), ..Launch::of(0, micros(report.median)) };
        vec![
            row("goodput", "Gb/s", Better::More, report.goodput() / 1e9).as_main(),
            Row::new(self.policy.name(), key.clone(), ("in_place_after", "us", Better::Less), vec![in_place]),
            row("placed_early", "segments", Better::Neither, report.early as f64),
            row("most_buffered", "B", Better::Less, report.most_buffered as f64),
            row("sent_again", "segments", Better::Less, report.resent as f64),
        ]
    }
}

fn micros(time: core::time::Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
