//! Communication progress: fetches from a server whose application computes (papers.md 2, experiment 3).
//!
//! On plain sockets the application answers, after its computation; by RDMA the client reads the server's memory, and
//! nothing but the server's NIC takes part. Both sides sleep while they wait: two that poll would leave no processor to
//! the computation.

use std::time::Duration;

use serde_json::Value;

use crate::experiments::design::{Basis, Design};
use crate::model::case::Case;
use crate::model::job::{Kind, Wait};
use crate::runner::plan::{Plan, Results};

/// Servers that answer late.
pub(crate) struct Lateness;

/// How long a server computes before it answers, in milliseconds.
const LATENESS_MS: [u64; 5] = [0, 1, 4, 16, 64];
/// The same with `--quick`.
const QUICK_MS: [u64; 2] = [0, 16];

impl Design for Lateness {
    fn contestants(&self) -> Vec<String> {
        ["iwarp", "edge", "sockets"].map(str::to_owned).to_vec()
    }

    fn cases(&self, basis: &Basis<'_>) -> Vec<Case> {
        let mut cases = Vec::new();
        for size in basis.sizes("1K") {
            for lateness in lateness(basis) {
                let case = basis.case(Kind::Fetch, size, 1.0).with(|job| {
                    (job.computation_us, job.wait) = (lateness.as_micros() as u32, Wait::Block);
                });
                cases.push(case.label_with("late_ms", milliseconds(lateness)));
            }
        }
        cases
    }

    fn afterword(&self, _: &Plan, _: &Results) -> String {
        "\nlate: how long the server's application computes before it answers on a socket. By RDMA it computes all the \
         time, and calls in only where its NIC has no thread of its own.\n"
            .into()
    }
}

/// Without a fraction where there is none.
fn milliseconds(time: Duration) -> Value {
    let micros = time.as_micros() as u64;
    if micros.is_multiple_of(1000) { (micros / 1000).into() } else { (micros as f64 / 1e3).into() }
}

fn lateness(basis: &Basis<'_>) -> Vec<Duration> {
    let given = &basis.choices.lateness;
    if !given.is_empty() {
        return given.clone();
    }
    let usual = if basis.quick() { &QUICK_MS[..] } else { &LATENESS_MS };
    usual.iter().copied().map(Duration::from_millis).collect()
}
