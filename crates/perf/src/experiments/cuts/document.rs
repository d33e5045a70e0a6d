//! What was measured, as a document of the schema of results and as tables.

use std::collections::BTreeMap;

use crate::result::{Better, Case, Comparison, Document, Histogram, Launch, Missing, Row};
use crate::statistics::quantile;
use serde_json::{Value, json};
use weft_lab::Way;

use crate::experiments::cuts::contestant::Contestant;
use crate::experiments::cuts::sample::{Faults, Sample};
use crate::runner::measurement::Measurement;
use weft_command::output;
use weft_command::table::{Align, Table};

/// The question that the test answers.
pub(crate) const QUESTION: &str = "what does the failure of a link cost a stream over several?";
/// A stream that carries this much of its speed while a link is cut is not held back by its links.
const UNHINDERED: f64 = 0.95;

/// All that was measured.
#[derive(Debug)]
pub(crate) struct Results {
    pub(crate) links: usize,
    /// Bytes of a message.
    pub(crate) size: usize,
    pub(crate) contestants: Vec<Contestant>,
    pub(crate) ways: Vec<Way>,
    pub(crate) samples: Vec<Sample>,
    /// Of each launch that came to its end.
    pub(crate) faults: Vec<(Contestant, u32, Faults)>,
    pub(crate) missing: Vec<Missing>,
    pub(crate) notes: Vec<String>,
    pub(crate) is_cut_short: bool,
    pub(crate) place: String,
    pub(crate) congestion_control: String,
    pub(crate) settings: Value,
}

impl Results {
    fn of(&self, contestant: Contestant, way: Way, with_cut: bool) -> Vec<Sample> {
        let is_meant =
            |sample: &&Sample| (sample.contestant, sample.way, sample.with_cut) == (contestant, way, with_cut);
        self.samples.iter().filter(is_meant).copied().collect()
    }

    /// Each contestant with each way in which links of it were cut.
    fn cases(&self) -> Vec<(Contestant, Way)> {
        let all = self.contestants.iter().flat_map(|one| self.ways.iter().map(move |way| (*one, *way)));
        all.filter(|(one, way)| !self.of(*one, *way, true).is_empty()).collect()
    }

    fn all_faults(&self, contestant: Contestant) -> Option<Faults> {
        let of = self.faults.iter().filter(|(one, ..)| *one == contestant).map(|(.., faults)| *faults);
        of.reduce(|all, one| all.and(&one))
    }

    /// Contestants that lost, doubled or miscounted something.
    pub(crate) fn faulty(&self) -> Vec<String> {
        let faults = |one: &Contestant| Some((*one, self.all_faults(*one)?));
        let faulty = self.contestants.iter().filter_map(faults).filter(|(_, faults)| !faults.is_clean());
        faulty.map(|(one, faults)| format!("{one}: {faults:?}")).collect()
    }

    /// Contestants for whose speed the links make no difference, so that it says nothing of them.
    fn unhindered(&self) -> Vec<String> {
        let median = |one: Contestant| {
            let shares: Vec<f64> = self.cut_samples(one).map(|sample| sample.share).collect();
            quantile(&shares, 0.5)
        };
        let unhindered = |one: &&Contestant| median(**one).is_some_and(|share| share >= UNHINDERED);
        let words = |one: &Contestant| {
            format!(
                "{one} was no slower while a link was cut: the processor is its limit, not the links,\nand its \
                 recovery says little. Choose a lower --rate."
            )
        };
        self.contestants.iter().filter(unhindered).map(words).collect()
    }

    fn cut_samples(&self, contestant: Contestant) -> impl Iterator<Item = &Sample> {
        self.samples.iter().filter(move |sample| sample.contestant == contestant && sample.with_cut)
    }

    /// As the schema has it.
    pub(crate) fn document(&self, measurement: Measurement) -> Document {
        let mut document = measurement.end(self.place.clone(), self.settings.clone(), self.rows(), "");
        document.comparisons = self.comparisons(&document.rows);
        document.machine.congestion_control = self.congestion_control.clone();
        document.notes = self.all_notes();
        document.is_cut_short = self.is_cut_short;
        document.not_measured = self.missing.clone();
        document
    }

    fn all_notes(&self) -> Vec<String> {
        self.notes.iter().cloned().chain(self.unhindered()).collect()
    }

    fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for (contestant, way) in self.cases() {
            for with_cut in [true, false] {
                let samples = self.of(contestant, way, with_cut);
                let case: Case = [
                    ("links".into(), json!(self.links)),
                    ("way".into(), json!(way.to_string())),
                    ("with_cut".into(), json!(with_cut)),
                ]
                .into();
                let gigabytes = self.size as f64 / 1e9;
                type Figure<'a> = (&'a str, &'a str, Better, &'a dyn Fn(&Sample) -> f64);
                let figures: [Figure<'_>; 5] = [
                    ("longest_pause", "ms", Better::Less, &|sample| sample.pause_ms),
                    ("recovery_time", "ms", Better::Less, &|sample| sample.recovery_ms),
                    ("not_recovered", "cuts", Better::Less, &|sample| f64::from(!sample.has_recovered)),
                    ("speed_before", "GB/s", Better::More, &|sample| sample.before * gigabytes),
                    ("speed_in_window", "% of before", Better::More, &|sample| sample.share * 100.0),
                ];
                for (metric, unit, better, of) in figures {
                    let launches = launches(&samples, better, of);
                    let row = Row::new(contestant.to_string(), case.clone(), (metric, unit, better), launches);
                    rows.push(if metric == "longest_pause" { row.as_main() } else { row });
                }
            }
        }
        rows.extend(self.contestants.iter().flat_map(|one| self.fault_rows(*one)));
        rows
    }

    /// Each launch has all ways, so these are of all.
    fn fault_rows(&self, contestant: Contestant) -> Vec<Row> {
        let of = || self.faults.iter().filter(|(one, ..)| *one == contestant);
        let case: Case =
            [("links".into(), json!(self.links)), ("way".into(), json!("all")), ("with_cut".into(), json!(true))]
                .into();
        let bytes = self.size as u64;
        type Figure<'a> = (&'a str, &'a str, &'a dyn Fn(&Faults) -> Option<u64>);
        let figures: [Figure<'_>; 7] = [
            ("sent_bytes", "bytes", &|faults| Some(faults.messages * bytes)),
            ("lost_bytes", "bytes", &|faults| Some(faults.lost * bytes)),
            ("doubled_bytes", "bytes", &|faults| Some(faults.doubled * bytes)),
            ("out_of_order_bytes", "bytes", &|faults| Some(faults.out_of_order * bytes)),
            ("damaged_bytes", "bytes", &|faults| Some(faults.damaged * bytes)),
            ("operations", "operations", &|faults| Some(faults.operations?.0)),
            ("miscounted_operations", "operations", &|faults| Some(faults.operations?.1)),
        ];
        let mut rows = Vec::new();
        for (metric, unit, value) in figures {
            let better = if ["sent_bytes", "operations"].contains(&metric) { Better::Neither } else { Better::Less };
            let launches: Vec<_> =
                of().filter_map(|(_, launch, faults)| Some(plain(*launch, value(faults)? as f64))).collect();
            if !launches.is_empty() {
                rows.push(Row::new(contestant.to_string(), case.clone(), (metric, unit, better), launches));
            }
        }
        rows
    }

    /// The first contestant with each other one.
    fn comparisons(&self, rows: &[Row]) -> Vec<Comparison> {
        let Some(first) = self.contestants.first().map(ToString::to_string) else { return Vec::new() };
        let is_compared = |row: &&Row| ["longest_pause", "recovery_time"].contains(&row.metric.as_str());
        let with_others = |row: &Row| {
            let others = rows.iter().filter(|other| other.contestant != first).cloned().collect::<Vec<_>>();
            let row = row.clone();
            others.into_iter().filter_map(move |other| Comparison::of(&row, &other)).collect::<Vec<_>>()
        };
        rows.iter().filter(is_compared).filter(|row| row.contestant == first).flat_map(with_others).collect()
    }

    /// The same as tables.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        type Figure = (&'static str, &'static str, fn(&Sample) -> f64);
        let figures: [Figure; 2] = [
            (
                "The longest time between two deliveries in order, in ms: in the second after a cut, and in a second \
                 at\nas many instants without one",
                "pause",
                |sample| sample.pause_ms,
            ),
            ("The time from the mending (or the instant) to 95 % of the speed before, in ms", "recovery", |sample| {
                sample.recovery_ms
            }),
        ];
        for (title, _, of) in figures {
            text += &format!("{title}\n\n{}\n", self.table(of));
        }
        text += &format!("What arrived, in messages of {} bytes\n\n{}", self.size, self.fault_table());
        for Missing { contestant, reason, .. } in &self.missing {
            text += &format!("\n{contestant} was not measured to its end: {reason}\n");
        }
        for note in self.all_notes() {
            text += &format!("\n{note}\n");
        }
        text
    }

    fn table(&self, of: fn(&Sample) -> f64) -> Table {
        let right = Align::Right;
        let mut columns = vec![("", Align::Left), ("way", Align::Left), ("cuts", right)];
        columns.extend(["p50", "p90", "p99", "worst"].map(|heading| (heading, right)));
        columns.extend(["p50 none", "p90", "p99", "worst"].map(|heading| (heading, right)));
        let mut table = Table::new(&columns).fold(3, output::columns());
        for (contestant, way) in self.cases() {
            let values = |with_cut| self.of(contestant, way, with_cut).iter().map(of).collect::<Vec<_>>();
            let (with, without) = (values(true), values(false));
            let cells = |values: &[f64]| [0.5, 0.9, 0.99, 1.0].map(|share| short(quantile(values, share)));
            let head = [contestant.to_string(), way.to_string(), with.len().to_string()];
            table.row(head.into_iter().chain(cells(&with)).chain(cells(&without)));
        }
        table
    }

    fn fault_table(&self) -> Table {
        let right = Align::Right;
        let headings = ["sent", "lost", "doubled", "unordered", "damaged", "atomics", "miscounted"];
        let mut columns = vec![("", Align::Left)];
        columns.extend(headings.map(|heading| (heading, right)));
        let mut table = Table::new(&columns).fold(1, output::columns());
        for contestant in &self.contestants {
            let Some(faults) = self.all_faults(*contestant) else { continue };
            let of = |value: Option<u64>| value.map_or_else(|| "-".into(), |value| value.to_string());
            let Faults { messages, lost, doubled, out_of_order, damaged, operations } = faults;
            let mut cells = vec![contestant.to_string()];
            cells.extend([messages, lost, doubled, out_of_order, damaged].map(|count| count.to_string()));
            cells.extend([operations.map(|(all, _)| all), operations.map(|(_, wrong)| wrong)].map(of));
            table.row(cells);
        }
        table
    }
}

/// Three digits that count.
fn short(value: Option<f64>) -> String {
    match value {
        None => "-".into(),
        Some(value) if value < 10.0 => format!("{value:.2}"),
        Some(value) if value < 100.0 => format!("{value:.1}"),
        Some(value) => format!("{value:.0}"),
    }
}

fn plain(launch: u32, value: f64) -> Launch {
    Launch::of(launch, value)
}

/// What each launch has seen of a figure.
fn launches(samples: &[Sample], better: Better, of: &dyn Fn(&Sample) -> f64) -> Vec<Launch> {
    let mut by_launch: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for sample in samples {
        by_launch.entry(sample.launch).or_default().push(of(sample));
    }
    let one = |(launch, values): (u32, Vec<f64>)| {
        let (high, bad) = if better == Better::More { (0.01, 0.0) } else { (0.99, 1.0) };
        Launch {
            p99: quantile(&values, high),
            worst: quantile(&values, bad),
            histogram: Some(Histogram::of(&values)),
            ..plain(launch, quantile(&values, 0.5).unwrap_or_default())
        }
    };
    by_launch.into_iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results() -> Results {
        let sample = |contestant, launch, with_cut, pause_ms| Sample {
            contestant,
            launch,
            way: Way::Silent,
            with_cut,
            pause_ms,
            recovery_ms: 1234.5,
            has_recovered: true,
            before: 1e5,
            share: if contestant == Contestant::Edge { 0.75 } else { 1.0 },
        };
        let both = |contestant, launch, pause_ms| {
            [sample(contestant, launch, true, pause_ms), sample(contestant, launch, false, 1.5)]
        };
        let samples = (0..6).flat_map(|launch| {
            let edge = both(Contestant::Edge, launch, 9.0 + f64::from(launch));
            edge.into_iter().chain(both(Contestant::Mptcp, launch, 200.0 + f64::from(launch)))
        });
        let clean = Faults { messages: 1_000_000_000, operations: Some((10_000_000, 0)), ..Faults::default() };
        Results {
            links: 4,
            size: 4096,
            contestants: vec![Contestant::Edge, Contestant::Mptcp],
            ways: vec![Way::Carrier, Way::Silent],
            samples: samples.collect(),
            faults: vec![(Contestant::Edge, 0, clean), (Contestant::Mptcp, 0, Faults { lost: 2, ..clean })],
            missing: Vec::new(),
            notes: Vec::new(),
            is_cut_short: false,
            place: "lab".into(),
            congestion_control: "cubic".into(),
            settings: Value::Null,
        }
    }

    #[test]
    fn each_figure_is_a_row_with_its_distribution() {
        let document = results().document(Measurement::begin("cuts", QUESTION));
        assert_eq!(Document::read(&document.write()).unwrap(), document);
        let is_pause = |row: &&Row| row.metric == "longest_pause" && row.contestant == "edge";
        let pauses: Vec<_> = document.rows.iter().filter(is_pause).collect();
        assert_eq!(pauses.len(), 2, "with a cut and without, of the way that was measured");
        assert_eq!((&pauses[0].case["with_cut"], pauses[0].median), (&json!(true), Some(11.5)));
        assert_eq!((&pauses[1].case["with_cut"], pauses[1].median), (&json!(false), Some(1.5)));
        assert_eq!(pauses[0].histogram().unwrap().counts.iter().sum::<u64>(), 6);
        let lost = document.rows.iter().find(|row| row.metric == "lost_bytes" && row.contestant == "mptcp").unwrap();
        assert_eq!(lost.values(), [8192.0]);
        let first = &document.comparisons[0];
        assert_eq!((first.peer.as_str(), first.verdict), ("mptcp", crate::result::Verdict::Ahead));
        assert!(document.notes.iter().any(|note| note.starts_with("mptcp was no slower")), "{:?}", document.notes);
        assert_eq!(results().faulty().len(), 1);
    }

    #[test]
    fn the_tables_fit_80_columns() {
        let text = results().text();
        assert!(text.contains("silent") && !text.contains("carrier"), "{text}");
        let widest = text.lines().filter(|line| line.starts_with("  ")).map(|line| line.chars().count()).max();
        assert!(widest <= Some(80), "{widest:?}\n{text}");
    }
}
