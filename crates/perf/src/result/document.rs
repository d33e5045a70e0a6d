//! A measurement as a whole, and how it is written and read.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::late::Late;
use super::row::{Comparison, Row};

/// The version of the schema that is written, and the only one that is read.
pub const VERSION: u32 = 2;

/// Others that take more than this share of the processors disturb what is measured.
const MUCH: f64 = 0.05;

/// What the first field of each document says.
const SCHEMA: &str = "weft-perf";

/// One measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// `weft-perf`.
    pub schema: String,
    /// [`VERSION`].
    pub schema_version: u32,
    /// The experiment: `latency`.
    pub test: String,
    /// What it asks.
    pub question: String,
    /// Where it was done: loopback, a lab with these links, two hosts.
    pub place: String,
    /// The machine.
    pub machine: Machine,
    /// Weft's version.
    pub version: String,
    /// And commit.
    pub commit: String,
    /// The versions of the peers, by contestant.
    #[serde(default)]
    pub peers: BTreeMap<String, String>,
    /// The command line.
    pub command: Vec<String>,
    /// And what that came to.
    pub settings: Value,
    /// When it began: seconds since 1970.
    pub began_unix_s: u64,
    /// How long it took.
    pub seconds: f64,
    /// What is to be known of it.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Whether something ended it before all launches were made.
    #[serde(default)]
    pub is_cut_short: bool,
    /// The figures.
    pub rows: Vec<Row>,
    /// What may be said of two of them.
    pub comparisons: Vec<Comparison>,
    /// Contestants without figures, and why.
    #[serde(default)]
    pub not_measured: Vec<Missing>,
}

/// The machine that measured, and what else it had to do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Its name.
    pub host: String,
    /// Its kernel.
    pub kernel: String,
    /// Processors that the measurement may use.
    pub cores: usize,
    /// Their model.
    pub cpu: Option<String>,
    /// What sets their frequency.
    pub governor: Option<String>,
    /// The congestion control of TCP.
    pub congestion_control: String,
    /// Processes that wanted to run, on the average of the last 1, 5 and 15 minutes.
    pub load_before: Option<[f64; 3]>,
    /// The same afterwards.
    pub load_after: Option<[f64; 3]>,
    /// Of the time of all processors, what others than this measurement used.
    pub others_share: Option<f64>,
    /// Of the time of all processors, what a virtual machine was not given though it wanted to run.
    pub steal_share: Option<f64>,
    /// A cache line's way from core to core and back, over all launches: the least, the median, the most.
    pub cores_apart_ns: Option<[f64; 3]>,
}

/// A contestant without figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Missing {
    /// The contestant's name.
    pub contestant: String,
    /// Why, and what to do about it.
    pub reason: String,
    /// It should have worked: it is installed, and failed.
    #[serde(default)]
    pub is_failure: bool,
}

/// Why a text is no document of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FormatError {
    /// It ends too early, or is no JSON at all.
    Json(String),
    /// It is another program's JSON.
    Foreign,
    /// It is of another version of this schema.
    Version(u64),
    /// A field is missing, or says what it can't.
    Field(String),
}

impl Machine {
    /// Whether other processes, or the host of a virtual machine, took more than 5 % of the processors' time.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        [self.others_share, self.steal_share].into_iter().flatten().any(|share| share > MUCH)
    }

    /// Lines for people: how busy the machine was, and a warning if that counts.
    #[must_use]
    pub fn describe(&self) -> String {
        let share = |share: Option<f64>| share.map_or_else(|| "?".into(), |share| format!("{:.0} %", 100.0 * share));
        let load = |load: Option<[f64; 3]>| load.map_or_else(|| "?".into(), |load| format!("{:.2}", load[0]));
        let mut text = format!(
            "load {} before, {} after; processor time of other processes {}, steal {}\n",
            load(self.load_before),
            load(self.load_after),
            share(self.others_share),
            share(self.steal_share)
        );
        if self.is_busy() {
            text.push_str("THE MACHINE WAS BUSY WITH OTHER THINGS: figures and ratios may be far off\n");
        }
        text
    }
}

impl Document {
    /// What [`Document::schema`] and [`Document::schema_version`] have to be.
    #[must_use]
    pub fn schema() -> (String, u32) {
        (SCHEMA.to_owned(), VERSION)
    }

    /// As JSON, with an end of line.
    #[must_use]
    pub fn write(&self) -> String {
        serde_json::to_string_pretty(self).expect("plain values become JSON") + "\n"
    }

    /// Reads what [`write`](Self::write) has written.
    ///
    /// # Errors
    ///
    /// The text is cut short, foreign, or of another version.
    pub fn read(text: &str) -> Result<Self, FormatError> {
        let value: Value = serde_json::from_str(text).map_err(|error| FormatError::Json(error.to_string()))?;
        if value["schema"] != SCHEMA {
            return Err(FormatError::Foreign);
        }
        match value["schema_version"].as_u64() {
            Some(version) if version == u64::from(VERSION) => {}
            version => return Err(FormatError::Version(version.unwrap_or(0))),
        }
        serde_json::from_value(value).map_err(|error| FormatError::Field(error.to_string()))
    }

    /// The same, with this in the case of each figure.
    #[must_use]
    pub fn with_key(mut self, key: &str, value: &Value) -> Self {
        let cases = self.rows.iter_mut().map(|row| &mut row.case);
        let cases = cases.chain(self.comparisons.iter_mut().map(|comparison| &mut comparison.case));
        cases.for_each(|case| drop(case.insert(key.to_owned(), value.clone())));
        self
    }

    /// Both as one: the figures of the other behind those of this one. They are of the same test, command and machine,
    /// and the other one followed.
    #[must_use]
    pub fn join(mut self, other: Self) -> Self {
        self.rows.extend(other.rows);
        self.comparisons.extend(other.comparisons);
        self.peers.extend(other.peers);
        extend(&mut self.notes, other.notes);
        extend(&mut self.not_measured, other.not_measured);
        if self.place != other.place {
            self.place = format!("{}; {}", self.place, other.place);
        }
        self.machine.load_after = other.machine.load_after;
        let busier = |one: Option<f64>, other: Option<f64>| one.into_iter().chain(other).reduce(f64::max);
        self.machine.others_share = busier(self.machine.others_share, other.machine.others_share);
        self.machine.steal_share = busier(self.machine.steal_share, other.machine.steal_share);
        self.seconds += other.seconds;
        self.is_cut_short |= other.is_cut_short;
        self
    }

    /// That figures were taken through a link whose emulator was too late, and how many; `None`: none was.
    #[must_use]
    pub fn lateness(&self) -> Option<String> {
        let late = self.rows.iter().filter(|row| row.late_launches() > 0);
        let launches = late.clone().map(Row::late_launches).max()?;
        let worst = late.clone().flat_map(|row| row.launches.iter().filter_map(|launch| launch.lateness));
        let worst = worst.filter(Late::is_late).max_by_key(|late| late.p99_ns * 1000 / late.delay_ns)?;
        Some(format!(
            "taken through a link that was late, in up to {launches} launches: the p99 of its lateness was above a \
             tenth of its delay (the worst {:.0} us, for {:.0} us); these {} figures say less",
            worst.p99_ns as f64 / 1e3,
            worst.delay_ns as f64 / 1e3,
            late.count()
        ))
    }

    /// Each contestant once, in the order of the rows.
    #[must_use]
    pub fn contestants(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for row in &self.rows {
            if !names.contains(&row.contestant.as_str()) {
                names.push(&row.contestant);
            }
        }
        names
    }
}

/// Adds those that are not there yet.
fn extend<T: PartialEq>(all: &mut Vec<T>, more: Vec<T>) {
    for one in more {
        if !all.contains(&one) {
            all.push(one);
        }
    }
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(error) => write!(f, "no whole JSON ({error}): measure again, or give another file"),
            Self::Foreign => write!(f, "no result of weft perf: its field \"schema\" is not {SCHEMA:?}"),
            Self::Version(version) => {
                write!(f, "results of schema version {version}, this weft reads version {VERSION}: measure again")
            }
            Self::Field(error) => write!(f, "results with a wrong field: {error}"),
        }
    }
}

impl std::error::Error for FormatError {}

#[cfg(test)]
mod tests {
    use super::super::row::{Better, Case, Launch};
    use super::*;

    fn document() -> Document {
        let launch = |launch| Launch { p99: Some(9.0), ..Launch::of(launch, 3.5) };
        let case: Case = [("size_bytes".to_owned(), Value::from(8))].into();
        let row = Row::new("iwarp", case, ("half_round_trip", "us", Better::Less), (0..6).map(launch).collect());
        let (schema, schema_version) = Document::schema();
        Document {
            schema,
            schema_version,
            test: "latency".into(),
            question: "how long is half a round trip?".into(),
            place: "loopback".into(),
            machine: Machine::default(),
            version: "0.1.0".into(),
            commit: "c0ffee".into(),
            peers: BTreeMap::new(),
            command: vec!["weft".into(), "perf".into()],
            settings: Value::Null,
            began_unix_s: 1,
            seconds: 2.0,
            notes: Vec::new(),
            is_cut_short: false,
            rows: vec![row.as_main()],
            comparisons: Vec::new(),
            not_measured: Vec::new(),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        assert_eq!(Document::read(&document().write()), Ok(document()));
        assert_eq!(document().contestants(), ["iwarp"]);
    }

    #[test]
    fn documents_of_several_places_become_one() {
        let [near, far] = [(1, 0.01), (8, 0.2)].map(|(delay, share)| {
            let machine = Machine { others_share: Some(share), ..Machine::default() };
            let place = format!("{delay} ms away");
            let note = vec!["as it is".to_owned()];
            Document { machine, place, notes: note, ..document() }.with_key("round_trip_ms", &delay.into())
        });
        let both = near.join(Document { is_cut_short: true, ..far });
        assert_eq!(both.rows.iter().map(|row| row.case["round_trip_ms"].clone()).collect::<Vec<_>>(), [1, 8]);
        assert_eq!((both.place.as_str(), both.seconds), ("1 ms away; 8 ms away", 4.0));
        assert!(both.is_cut_short && both.machine.is_busy() && both.notes.len() == 1);
    }

    #[test]
    fn a_busy_machine_is_reported() {
        let quiet = Machine { others_share: Some(0.01), steal_share: Some(0.02), ..Machine::default() };
        assert!(!quiet.describe().contains("BUSY"), "{}", quiet.describe());
        for busy in [
            Machine { others_share: Some(0.4), ..quiet.clone() },
            Machine { steal_share: Some(0.2), others_share: None, ..quiet },
        ] {
            assert!(busy.describe().contains("BUSY"), "{}", busy.describe());
        }
    }

    #[test]
    fn a_late_link_is_reported() {
        let mut document = document();
        assert_eq!(document.lateness(), None);
        let late = |p99_ns| Some(Late { delay_ns: 500_000, p99_ns, ..Late::default() });
        document.rows[0].launches[0].lateness = late(50_000);
        assert_eq!(document.lateness(), None);
        document.rows[0].launches[1].lateness = late(90_000);
        document.rows[0].launches[2].lateness = late(123_000);
        let words = document.lateness().unwrap();
        assert!(words.contains("up to 2 launches") && words.contains("123 us, for 500 us"), "{words}");
        assert_eq!(Document::read(&document.write()), Ok(document));
    }

    #[test]
    fn what_is_not_ours_is_refused_in_words() {
        let text = document().write();
        let complaint = |text: &str| Document::read(text).unwrap_err().to_string();
        assert!(complaint(&text[..text.len() / 2]).contains("no whole JSON"));
        assert!(complaint("{}").contains("no result of weft perf"));
        assert!(complaint(&text.replace("\"schema_version\": 2", "\"schema_version\": 1")).contains("version 1"));
        assert!(complaint(&text.replace("\"rows\"", "\"lines\"")).contains("rows"));
    }
}
