//! From a measurement to its document: what is the same whatever was measured.

use std::collections::BTreeMap;

use serde_json::Value;
use weft_command::{COMMIT, VERSION};

use crate::host::watch::Watch;
use crate::result::{Comparison, Document, Row};

/// A measurement in progress.
#[derive(Debug)]
pub struct Measurement {
    watch: Watch,
    test: String,
    question: String,
}

impl Measurement {
    /// Begins now: the machine's load and times are taken.
    #[must_use]
    pub fn begin(test: impl Into<String>, question: impl Into<String>) -> Self {
        Self { watch: Watch::start(), test: test.into(), question: question.into() }
    }

    /// Its document: the rows, and comparisons of each row of `contestant` with those of all others in the same case.
    /// Peers' versions, notes and contestants that are missing are for the caller to add.
    #[must_use]
    pub fn end(self, place: impl Into<String>, settings: Value, rows: Vec<Row>, contestant: &str) -> Document {
        let watched = self.watch.stop();
        let (schema, schema_version) = Document::schema();
        Document {
            schema,
            schema_version,
            test: self.test,
            question: self.question,
            place: place.into(),
            machine: watched.machine,
            version: VERSION.into(),
            commit: COMMIT.into(),
            peers: BTreeMap::new(),
            command: std::env::args().collect(),
            settings,
            began_unix_s: watched.began_unix_s,
            seconds: watched.seconds,
            notes: Vec::new(),
            is_cut_short: false,
            comparisons: comparisons(&rows, contestant),
            rows,
            not_measured: Vec::new(),
        }
    }
}

/// One contestant beside each other one, in each case and figure.
fn comparisons(rows: &[Row], contestant: &str) -> Vec<Comparison> {
    let own = rows.iter().filter(|row| row.contestant == contestant);
    own.flat_map(|row| {
        let others = rows.iter().filter(|other| other.contestant != contestant);
        others.filter_map(|other| Comparison::of(row, other))
    })
    .collect()
}
