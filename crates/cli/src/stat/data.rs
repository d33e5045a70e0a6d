//! The same, for programs.

use std::collections::BTreeMap;

use serde::Serialize;
use weft_driver::board::Skipped;

use super::rails;
use super::sample::{Change, Changes};

#[derive(Serialize)]
struct Page<'a> {
    /// Seconds since the reading before; null at the first one.
    seconds: Option<f64>,
    nics: Vec<Nic<'a>>,
    skipped: Vec<Passed>,
}

#[derive(Serialize)]
struct Nic<'a> {
    process: &'a str,
    pid: u32,
    nic: u32,
    title: &'a str,
    /// Sums over all engines.
    counters: BTreeMap<&'a str, u64>,
    /// What each has grown by per second since the reading before; null where there was none.
    per_second: Option<BTreeMap<&'a str, f64>>,
    engines: Vec<BTreeMap<&'a str, u64>>,
    /// Of connections over Edge.
    rails: Vec<rails::Data>,
}

#[derive(Serialize)]
struct Passed {
    path: String,
    reason: String,
}

/// On one line if it is one of many.
pub(super) fn page(changes: &Changes<'_>, one_of_many: bool) -> String {
    let page = Page {
        seconds: changes.time().map(|time| time.as_secs_f64()),
        nics: changes.nics().map(Nic::new).collect(),
        skipped: changes.skipped().iter().map(Passed::new).collect(),
    };
    let write = if one_of_many { serde_json::to_string } else { serde_json::to_string_pretty };
    write(&page).expect("plain values become JSON") + "\n"
}

impl<'a> Nic<'a> {
    fn new(change: Change<'a>) -> Self {
        let nic = change.nic;
        let names = || nic.names.iter().map(String::as_str);
        Self {
            process: &nic.process,
            pid: nic.pid,
            nic: nic.nic,
            title: &nic.title,
            counters: nic.totals().collect(),
            per_second: change
                .before
                .map(|_| names().filter_map(|name| Some((name, change.per_second(name)?))).collect()),
            rails: rails::data(change),
            engines: nic.engines.iter().map(|counts| names().zip(counts.iter().copied()).collect()).collect(),
        }
    }
}

impl Passed {
    fn new(skipped: &Skipped) -> Self {
        Self { path: skipped.path.display().to_string(), reason: skipped.reason.to_string() }
    }
}
