//! What the streams that a server carries take from its application (papers.md 2, experiment 4).
//!
//! The client writes into the server's memory by RDMA, or a thread of the server's application reads the streams from
//! sockets. The client paces what it sends, so that the load is the same for each contestant. Each side stays on a core
//! of its own, so that all that the server does for its streams is taken from its computation.

use crate::experiments::design::{Basis, Design};
use crate::model::case::Case;
use crate::model::job::{Job, Kind, Wait};
use crate::model::size::Size;
use crate::runner::plan::{Plan, Results};

/// An application beside streams.
pub(crate) struct Slowdown;

/// The computation that is timed, in microseconds: alone, and beside the streams.
const COMPUTATION_US: u32 = 20_000;
/// The same with `--quick`.
const QUICK_US: u32 = 10_000;

impl Design for Slowdown {
    fn contestants(&self) -> Vec<String> {
        ["iwarp", "edge", "sockets"].map(str::to_owned).to_vec()
    }

    fn cases(&self, basis: &Basis<'_>) -> Vec<Case> {
        let sizes = basis.sizes(if basis.quick() { "4K" } else { "1K,4K,16K" });
        let case = |size: Size| {
            let rounds = Job::default_iterations(Kind::Carry, size.0);
            basis.case_of(Kind::Carry, size, rounds).with(|job| {
                job.computation_us = if basis.quick() { QUICK_US } else { COMPUTATION_US };
                (job.connections, job.load_bits_per_s) = (basis.choices.streams, basis.choices.load_bits_per_s);
                job.wait = Wait::Block;
            })
        };
        sizes.into_iter().map(case).collect()
    }

    fn afterword(&self, plan: &Plan, _: &Results) -> String {
        let job = &plan.cases[0].job;
        format!(
            "\n{} streams offer {} Mb/s together; Mb/s: what they carried\nslower: by how much a computation of {} ms \
             takes longer beside them than alone, on a core for the whole server\nstreams' CPU: processor time of the \
             server beyond that of the computation, in each second; without what the kernel does in its own name\n",
            job.connections,
            job.load_bits_per_s / 1_000_000,
            job.computation_us / 1000
        )
    }
}
