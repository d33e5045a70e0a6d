//! The emulator of networks, checked against itself: what was set, and what a stream through it got.
//!
//! `weft wan check` makes a lab, sends the stream and judges it, in a process of its own.

use std::process::{Command, Stdio};

use serde::Deserialize;

use crate::host::versions::own;
use crate::model::contestant::{Contestant, Side};
use crate::model::job::{Job, Kind};
use crate::model::measure::{Figure, Measured};

pub(crate) struct Emulator;

impl Emulator {
    pub(crate) const NAME: &str = "emulator";
    /// By what it carries packets.
    pub(crate) const CARRIERS: [&str; 2] = ["queue", "rings"];
}

/// The fewest packets of a stream from which a 99th percentile is read.
const FEWEST_PACKETS: u64 = 1000;

impl Contestant for Emulator {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn describe(&self) -> &'static str {
        "weft wan, by the kernel's packet queues (queue) or by packet rings (rings)"
    }

    fn available(&self, _: Option<&str>) -> Result<(), String> {
        Ok(())
    }

    fn version(&self, _: &Job) -> Option<String> {
        own()
    }

    fn supports(&self, job: &Job) -> Result<(), String> {
        let carriers = Self::CARRIERS.join(" and ");
        match (job.kind, job.variant.as_deref()) {
            (Kind::Emulator, Some(carrier)) if Self::CARRIERS.contains(&carrier) => Ok(()),
            (Kind::Emulator, variant) => {
                let named = variant.unwrap_or("none");
                Err(format!("the carrier is {named}; name one of {carriers}, as emulator:queue"))
            }
            _ => Err("it is measured by: weft perf emulator".into()),
        }
    }

    fn open(&self, job: &Job) -> Result<Box<dyn Side>, String> {
        self.supports(job).map(|()| Box::new(Check) as Box<dyn Side>)
    }
}

struct Check;

impl Side for Check {
    fn address(&self) -> String {
        String::new()
    }

    fn run(&mut self, job: &Job, _: &[String]) -> Result<Measured, String> {
        let this = std::env::current_exe().map_err(|error| format!("the path of this program: {error}"))?;
        let case = job.check_case.as_deref().ok_or("no case of weft wan check is named")?;
        let packets = job.iterations.max(FEWEST_PACKETS).to_string();
        let carrier = job.variant.as_deref().unwrap_or_default();
        let mut command = Command::new(this);
        command.args([
            "wan",
            "check",
            "--json",
            "--quick",
            "--only",
            case,
            "--carrier",
            carrier,
            "--packets",
            &packets,
        ]);
        let output = command.stdin(Stdio::null()).output().map_err(|error| format!("weft wan check: {error}"))?;
        // It exits with 1 too when a figure is out of its tolerance: then there is a report.
        read(&output.stdout).ok_or_else(|| {
            let words = String::from_utf8_lossy(&output.stderr);
            format!("weft wan check --only {case} --carrier {carrier}: {}", words.trim())
        })
    }
}

#[derive(Deserialize)]
struct Report {
    cases: Vec<Checked>,
}

#[derive(Deserialize)]
struct Checked {
    rows: Vec<Row>,
    report: Emulated,
}

#[derive(Deserialize)]
struct Row {
    asked: Option<f64>,
    got: Option<f64>,
    tolerance: Option<f64>,
}

#[derive(Deserialize)]
struct Emulated {
    forward: Direction,
}

#[derive(Deserialize)]
struct Direction {
    lateness: Lateness,
}

#[derive(Deserialize)]
struct Lateness {
    p50_ns: f64,
    p99_ns: f64,
}

impl Row {
    /// By how much it missed, as a share of what it may. `None`: it is reported alone.
    fn miss(&self) -> Option<f64> {
        let miss = (self.got? - self.asked?).abs();
        // Where nothing may be missed, what is right is 0 and all else far out.
        Some(if miss == 0.0 { 0.0 } else { miss / self.tolerance?.max(miss / 100.0) })
    }
}

/// What a report has of its one case.
fn read(json: &[u8]) -> Option<Measured> {
    let report: Report = serde_json::from_slice(json).ok()?;
    let [Checked { rows, report }] = &report.cases[..] else { return None };
    let worst = rows.iter().filter_map(Row::miss).reduce(f64::max)?;
    let Lateness { p50_ns, p99_ns } = report.forward.lateness;
    let figures = [(Figure::LateP50Us, p50_ns / 1e3), (Figure::LateP99Us, p99_ns / 1e3)].into();
    Some(Measured { value: Some(100.0 * worst), figures, ..Measured::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::job::tests::job;

    fn report(rows: &str) -> Option<Measured> {
        let lateness = r#"{"p50_ns": 41791, "p99_ns": 2662399}"#;
        let json =
            format!(r#"{{"cases": [{{"rows": [{rows}], "report": {{"forward": {{"lateness": {lateness}}}}}}}]}}"#);
        read(json.as_bytes())
    }

    #[test]
    fn the_worst_row_counts_as_a_share_of_its_tolerance() {
        let rows = r#"{"what": "delay, p50", "asked": 4.0, "got": 4.04, "tolerance": 0.05},
            {"what": "delay, p99", "asked": 4.0, "got": 4.3, "tolerance": 0.2},
            {"what": "rate", "asked": null, "got": 10.0, "tolerance": null}"#;
        let measured = report(rows).expect("it is whole");
        assert!((measured.value.unwrap() - 150.0).abs() < 1e-6);
        assert_eq!(measured.figures[&Figure::LateP50Us], 41.791);
        let lost = report(r#"{"asked": 0.0, "got": 3.0, "tolerance": 0.0}"#).unwrap();
        assert!(lost.value.unwrap() > 1000.0);
        assert_eq!(report(r#"{"asked": 0.0, "got": 0.0, "tolerance": 0.0}"#).unwrap().value, Some(0.0));
    }

    #[test]
    fn what_is_no_report_gives_nothing() {
        assert!(read(b"").is_none() && read(b"{\"cases\": []}").is_none());
        assert!(report(r#"{"asked": null, "got": 10.0, "tolerance": null}"#).is_none(), "nothing is judged");
    }

    #[test]
    fn a_carrier_is_named() {
        let job = |variant: Option<&str>| Job { kind: Kind::Emulator, variant: variant.map(Into::into), ..job() };
        assert_eq!(Emulator.supports(&job(Some("queue"))), Ok(()));
        assert!(Emulator.supports(&job(None)).unwrap_err().contains("queue and rings"));
        assert!(Emulator.supports(&job(Some("pigeon"))).unwrap_err().contains("pigeon"));
    }
}
