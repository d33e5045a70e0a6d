//! The emulator of networks against itself: by how much delays, rates and losses miss what was set.

use crate::contestants::emulator::Emulator;
use crate::experiments::design::{Basis, Design};
use crate::model::case::Case;
use crate::model::contestant::Entry;
use crate::model::job::Kind;
use crate::model::size::Size;
use crate::runner::plan::{Plan, Results};
use crate::runner::registry;

pub(crate) struct Emulation;

/// Cases of `weft wan check` that both carriers have, those of `--quick` first.
const CASES: [&str; 7] = ["delay", "rate", "loss", "far", "reordering", "jitter", "window"];
/// How many of them `--quick` measures.
const QUICK_CASES: usize = 3;

impl Design for Emulation {
    fn contestants(&self) -> Vec<String> {
        Emulator::CARRIERS.map(|carrier| format!("{}:{carrier}", Emulator::NAME)).into()
    }

    /// Every name is a carrier.
    fn entry(&self, name: &str) -> Result<Entry, String> {
        let is_whole = name.split(':').next() == Some(Emulator::NAME);
        registry::parse(&if is_whole { name.to_owned() } else { format!("{}:{name}", Emulator::NAME) })
    }

    fn cases(&self, basis: &Basis<'_>) -> Vec<Case> {
        let count = if basis.quick() { QUICK_CASES } else { CASES.len() };
        let case = |name: &&str| {
            let case = basis.case(Kind::Emulator, Size(1), 1.0).with(|job| {
                (job.ranks, job.check_case) = (1, Some((*name).to_owned()));
            });
            case.label_with("case", *name)
        };
        CASES[..count].iter().map(case).collect()
    }

    fn afterword(&self, _: &Plan, _: &Results) -> String {
        "\nmiss: the difference between what was set and what a stream got, as a share of what it may be: 50 us of a \
         median delay, 200 us of the 99th percentile, 1 % of a rate, 5 standard deviations of a share. Of several \
         figures of a case the worst one. late: when packets left, after they were due.\n\
         weft wan check has each figure and more cases.\n"
            .into()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::experiments::design::Choices;
    use crate::model::job::Job;
    use crate::model::job::tests::job;

    #[test]
    fn a_glance_has_fewer_cases() {
        let cases = |quick| {
            let template = Job { rank: 0, ..job() };
            let choices = Choices { quick, ..Choices::default() };
            let basis = Basis { template, choices: &choices, libraries: Vec::new(), round_trip: Duration::ZERO };
            Emulation.cases(&basis)
        };
        assert_eq!((cases(true).len(), cases(false).len()), (QUICK_CASES, CASES.len()));
        assert!(cases(false).iter().all(|case| case.job.check().is_ok() && case.job.check_case.is_some()));
        for name in Emulation.contestants() {
            assert_eq!(Emulation.entry(&name).unwrap().to_string(), name);
        }
    }
}
