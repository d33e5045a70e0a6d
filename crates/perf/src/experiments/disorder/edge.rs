//! What late and lost packets cost Edge, beside itself without faults: whole NICs in virtual time.

use serde_json::json;
use weft_simulate::{EdgeReport, EdgeScenario};

use weft_command::failure::Failure;
use weft_command::output;
use weft_command::table::{Align, Table};

use crate::experiments::disorder::{Disorder, PLACE, QUESTION, micros, millionths};
use crate::experiments::links::network::Number;
use crate::result::{self, Better, Launch, Row};
use crate::runner::measurement::Measurement;
use crate::runner::outputs::Outputs;

/// What carries the stream.
const EDGE: &str = "edge";

/// One run.
struct Case {
    links: u8,
    late: f64,
    lost: f64,
    report: EdgeReport,
    /// Of the goodput of the same links without faults.
    of_itself: f64,
}

/// Runs the test.
pub(crate) fn run(arguments: &Disorder, links: &[Number], outputs: Outputs) -> Result<(), Failure> {
    if !arguments.policy.is_empty() || arguments.cut > 0.0 {
        return Err(Failure::Usage(
            "--policy and --cut are for iwarp: Edge places packets as they arrive, and no device cuts them".into(),
        ));
    }
    if links.iter().any(|number| number.rate.is_some()) {
        return Err(Failure::Usage("--links: in virtual time each link has 100 Mb/s, and no rate of its own".into()));
    }
    let measurement = Measurement::begin("disorder", QUESTION);
    let base = EdgeScenario::default();
    let cases = cases(arguments, links, &base)?;
    let settings = json!({
        "rate_bits_per_s": base.rate, "round_trip_us": micros(base.round_trip), "late_by_us": micros(base.late_by),
        "seconds": base.span.as_secs_f64(),
    });
    let document = measurement.end(PLACE, settings, cases.iter().flat_map(Case::rows).collect(), EDGE);
    outputs.publish(&document, &table(&base, &cases))
}

fn cases(arguments: &Disorder, links: &[Number], base: &EdgeScenario) -> Result<Vec<Case>, Failure> {
    let run = |scenario: EdgeScenario| scenario.run().map_err(Failure::Runtime);
    let mut cases = Vec::new();
    for &Number { links, .. } in links {
        let base = EdgeScenario { rails: links.into(), ..*base };
        let itself = run(base)?;
        for &lost in &arguments.lost {
            for &late in &arguments.late {
                let report = run(EdgeScenario { late: millionths(late), lost: millionths(lost), ..base })?;
                cases.push(Case { links, late, lost, report, of_itself: report.goodput() / itself.goodput() });
            }
        }
    }
    Ok(cases)
}

fn table(base: &EdgeScenario, cases: &[Case]) -> String {
    let mut table = Table::new(&[
        ("links", Align::Right),
        ("lost %", Align::Right),
        ("late %", Align::Right),
        ("Mb/s", Align::Right),
        ("of nominal %", Align::Right),
        ("of itself %", Align::Right),
        ("packets lost", Align::Right),
        ("sent again", Align::Right),
    ])
    .fold(3, output::columns());
    for Case { links, late, lost, report, of_itself } in cases {
        table.row([
            links.to_string(),
            lost.to_string(),
            late.to_string(),
            format!("{:.1}", report.goodput() / 1e6),
            format!("{:.1}", report.per_mille((*links).into(), base.rate) as f64 / 10.0),
            format!("{:.1}", of_itself * 100.0),
            report.lost.to_string(),
            report.resent.to_string(),
        ]);
    }
    format!(
        "in virtual time: one connection of Edge writes for {} s over links of {} Mb/s, {} ms there and back; late \
         packets are so by up to {} ms; of itself: beside the same links without faults\n\n{table}",
        base.span.as_secs(),
        base.rate / 1_000_000,
        base.round_trip.as_millis(),
        base.late_by.as_millis(),
    )
}

impl Case {
    /// Of one launch: virtual time is the same each time.
    fn rows(&self) -> Vec<Row> {
        let key: result::Case = [
            ("links".to_owned(), self.links.into()),
            ("late_percent".to_owned(), self.late.into()),
            ("lost_percent".to_owned(), self.lost.into()),
        ]
        .into();
        let row = |metric: &str, unit: &str, better, value: f64| {
            Row::new(EDGE, key.clone(), (metric, unit, better), vec![Launch::of(0, value)])
        };
        vec![
            row("goodput", "Gb/s", Better::More, self.report.goodput() / 1e9).as_main(),
            row("share_of_no_faults", "%", Better::More, 100.0 * self.of_itself),
            row("packets_lost", "packets", Better::Neither, self.report.lost as f64),
            row("sent_again", "segments", Better::Less, self.report.resent as f64),
        ]
    }
}
