//! How much computation a transfer hides.
//!
//! Two kinds of runs. In the first, computation of growing length is put between posting and waiting, and the total
//! compared with that of the transfer alone. In the second, a computation of fixed length follows each message of a
//! stream, and the bandwidth that is left is reported.

use crate::experiments::design::{Basis, Design};
use crate::model::case::Case;
use crate::model::job::{Job, Kind, Operation, Target};
use crate::runner::plan::{Plan, Results};

pub(crate) struct Overlap;

/// One transfer at a time beside a computation of fixed length (papers.md 2, experiment 2).
pub(crate) struct Ratio;

/// Computation after each message, in microseconds, of the second kind.
const COMPUTATIONS_US: [u32; 6] = [1, 10, 100, 300, 1000, 2000];
/// Computation beside one transfer, in microseconds; the paper has 0 to 422.
const BESIDE_US: [u32; 4] = [62, 122, 242, 422];
/// The same with `--quick`.
const BESIDE_QUICK_US: [u32; 1] = [242];

impl Design for Overlap {
    fn contestants(&self) -> Vec<String> {
        ["iwarp", "iwarp:progress=thread", "iwarp:progress=caller", "sockets"].map(str::to_owned).to_vec()
    }

    fn wants_lab(&self) -> bool {
        true
    }

    fn cases(&self, basis: &Basis<'_>) -> Vec<Case> {
        let targets = match &basis.choices.target {
            targets if targets.is_empty() => vec![Target::Silent, Target::Computing, Target::Polling],
            targets => targets.clone(),
        };
        let mut cases = Vec::new();
        for target in &targets {
            let sizes = basis.sizes(if basis.quick() { "64K" } else { "64K,256K" });
            cases.extend(sizes.into_iter().map(|size| labelled(basis.case(Kind::Overlap, size, 1.0), *target)));
        }
        // A target that computes itself does not need another computation.
        let target = targets.iter().copied().find(|target| *target == Target::Polling).unwrap_or(targets[0]);
        for size in basis.sizes(if basis.quick() { "128K" } else { "4K,128K" }) {
            for computation_us in computations(basis) {
                let case = labelled(basis.case(Kind::Inserted, size, 1.0), target);
                let case = case.with(|job| job.computation_us = computation_us);
                cases.push(case.label_with("computation_us", computation_us));
            }
        }
        cases
    }

    fn afterword(&self, _: &Plan, results: &Results) -> String {
        if results.cells.iter().all(|cell| cell.runs.is_empty()) {
            return String::new();
        }
        "\nfits: the longest computation that lengthens post, compute, wait by at most 5 %, over the transfer alone (100: all of it)\n\
         hidden: of computation as long as the transfer alone, the share that does not lengthen the total\n\
         stretch: how long that computation takes then, of what it takes alone: interrupts and the network of the kernel use its core too\n\
         t1/t2: that computation over that total\n\
         A transfer is over when its bytes are in the target's memory: a one-byte read follows writes and sends, a reply those of sockets.\n"
            .into()
    }
}

impl Design for Ratio {
    fn contestants(&self) -> Vec<String> {
        ["iwarp", "edge", "sockets"].map(str::to_owned).to_vec()
    }

    fn wants_lab(&self) -> bool {
        true
    }

    fn cases(&self, basis: &Basis<'_>) -> Vec<Case> {
        let targets = match &basis.choices.target[..] {
            [] => &[Target::Polling],
            targets => targets,
        };
        let computations = match &basis.choices.computation[..] {
            [] if basis.quick() => &BESIDE_QUICK_US[..],
            [] => &BESIDE_US,
            given => given,
        };
        let mut cases = Vec::new();
        for size in basis.sizes("1K") {
            for (target, computation_us) in
                targets.iter().flat_map(|target| computations.iter().map(move |us| (target, us)))
            {
                let case = labelled(basis.case(Kind::Ratio, size, 1.0), *target);
                let case = case.with(|job| job.computation_us = *computation_us);
                cases.push(case.label_with("computation_us", *computation_us));
            }
        }
        cases
    }

    fn afterword(&self, _: &Plan, _: &Results) -> String {
        "\nt1: the computation; t2: from the post until that and the transfer are over\n".into()
    }
}

fn computations(basis: &Basis<'_>) -> Vec<u32> {
    match &basis.choices.computation {
        given if !given.is_empty() => given.clone(),
        _ if basis.quick() => vec![1, 300, 2000],
        _ => COMPUTATIONS_US.to_vec(),
    }
}

fn labelled(case: Case, target: Target) -> Case {
    let operation = case.job.operation.unwrap_or(Operation::Write);
    let set = |job: &mut Job| (job.target, job.operation) = (target, Some(operation));
    case.with(set).label_with("operation", operation.name()).label_with("target", target.name())
}
