//! Many processes with a NIC each on one machine, each of which sends to each other one.

use crate::experiments::design::{Basis, Design};
use crate::model::case::Case;
use crate::model::job::{Kind, Wait};
use crate::runner::plan::{Plan, Results};

pub(crate) struct AllToAll;

/// Messages of a run, by all processes together.
const MESSAGES: u64 = 50_000;

impl Design for AllToAll {
    fn contestants(&self) -> Vec<String> {
        vec!["iwarp".into()]
    }

    fn cases(&self, basis: &Basis<'_>) -> Vec<Case> {
        let messages = if basis.quick() { MESSAGES / 10 } else { MESSAGES };
        let mut cases = Vec::new();
        for size in basis.sizes("4K") {
            for wait in [Wait::Block, Wait::Spin] {
                for ranks in basis.processes(&[8, 64]) {
                    let rounds = (messages / (ranks * (ranks - 1)) as u64).max(5);
                    let case = basis.case_of(Kind::AllToAll, size, rounds).with(|job| {
                        (job.ranks, job.wait, job.quiet_ms) = (ranks, wait, if basis.quick() { 300 } else { 1000 });
                    });
                    cases.push(case.label_with("wait", wait.name()).label_with("processes", ranks));
                }
            }
        }
        cases
    }

    fn afterword(&self, plan: &Plan, results: &Results) -> String {
        let mut text = String::new();
        for (entry, contestant) in plan.entries.iter().enumerate() {
            for wait in [Wait::Block.name(), Wait::Spin.name()] {
                let of_wait = |case: &Case| case.label("wait").as_deref() == Some(wait);
                let cases = plan.cases.iter().enumerate().filter(|(_, case)| of_wait(case));
                let found: Vec<_> =
                    cases.filter_map(|(at, case)| Some((case, results.main(plan, entry, at)?))).collect();
                for pair in found.windows(2).filter(|pair| pair[0].0.job.size == pair[1].0.job.size) {
                    let ([(few, before), (many, after)], size) = ([pair[0], pair[1]], pair[0].0.size());
                    text.push_str(&format!(
                        "\n{contestant}, {size}, {wait}: {} processes reach {:.0} % of what {} reach",
                        many.job.ranks,
                        100.0 * after / before,
                        few.job.ranks
                    ));
                }
            }
        }
        if text.is_empty() { text } else { text + "\n" }
    }
}
