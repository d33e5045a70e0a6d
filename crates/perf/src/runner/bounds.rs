//! The bounds of a measurement's cases.

use crate::model::bound::{MEMORY_COPY, TCP_HEADERS, memory_copy, payload_rate, throughput};
use crate::model::case::Case;
use crate::model::job::Kind;
use crate::result::{self, HEADERS, Row};
use crate::runner::place::Place;
use crate::runner::plan::{Plan, Results};

/// Bounds of the cases that have a throughput, each under the key of its case: between hosts of a test network what the
/// headers leave of its link, on this machine what one processor copies.
pub(crate) fn bounds(plan: &Plan, results: &Results, key: impl Fn(&Case) -> result::Case) -> Vec<Row> {
    let has_runs = |at: usize| (0..plan.entries.len()).any(|entry| !results.runs(entry, at).is_empty());
    let cases = plan.cases.iter().enumerate().filter(|(at, _)| has_runs(*at));
    let mut rows: Vec<Row> = Vec::new();
    for (_, case) in cases.filter(|(_, case)| case.job.kind == Kind::Bandwidth) {
        match plan.place_of(case) {
            place @ Place::Lab(lab, _) => rows.extend(place.rate().map(|rate| {
                let value = payload_rate(rate, lab.plan().mtu, TCP_HEADERS) / 1e9;
                throughput(HEADERS, key(case), [value])
            })),
            Place::Here => {
                let copy = |_| memory_copy(case.job.size, case.job.buffers());
                rows.push(throughput(MEMORY_COPY, key(case), (0..plan.launches).map(copy)));
            }
            // What lies between is not known.
            Place::There(_) => {}
        }
    }
    rows
}
