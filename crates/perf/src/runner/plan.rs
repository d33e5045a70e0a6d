//! What is to be measured, and what came out.

use std::thread::available_parallelism;
use std::time::Duration;

use crate::host::distance;
use crate::model::case::Case;
use crate::model::contestant::Entry;
use crate::model::job::{Job, Kind};
use crate::model::metric::metrics;
use crate::model::reach::Reach;
use crate::model::run::Run;
use crate::model::test::Test;
use crate::mpi::nas::Suite;
use crate::runner::place::Place;
use crate::statistics;
use weft_command::switch::Switch;

/// All that is to be done.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) test: Test,
    /// The measured transport, then its peers.
    pub(crate) entries: Vec<Entry>,
    /// Whether the peers were named; otherwise they are those that the test has by itself.
    pub(crate) peers_are_named: bool,
    pub(crate) cases: Vec<Case>,
    /// How often the processes of each contestant start anew in each case.
    pub(crate) launches: u32,
    /// How long a launch may take.
    pub(crate) limit: Duration,
    pub(crate) pin: Switch,
    /// Whether the table shows copies.
    pub(crate) copies: bool,
    pub(crate) place: Place,
    /// Where the cases are that need a link slower than the processor; `None`: there as well.
    pub(crate) limited: Option<Place>,
    /// Where the cases are that say how far apart the two sides are: in clusters of the same network.
    pub(crate) reaches: Vec<(Reach, Place)>,
    /// What is to be known about the place.
    pub(crate) note: Option<String>,
    /// Programs of NAS benchmarks, which are there as long as this.
    #[expect(dead_code, reason = "it is held, for its folder goes with it")]
    pub(crate) suite: Option<Suite>,
}

impl Plan {
    /// The job of a contestant in a case. Cache traffic is that of a stream.
    pub(crate) fn job(&self, entry: &Entry, case: &Case) -> Job {
        let kind = if case.job.kind == Kind::CacheTraffic { Kind::Bandwidth } else { case.job.kind };
        Job { contestant: entry.contestant.name().into(), variant: entry.variant.clone(), kind, ..case.job.clone() }
    }

    /// Where a case is done.
    pub(crate) fn place_of(&self, case: &Case) -> &Place {
        if let Some((_, place)) = self.reaches.iter().find(|(reach, _)| Some(*reach) == case.job.reach) {
            return place;
        }
        match case.job.kind {
            kind if kind.is_of_many() => &Place::Here,
            Kind::Hiding => self.limited.as_ref().unwrap_or(&self.place),
            _ => &self.place,
        }
    }

    /// All places, as a person reads them.
    pub(crate) fn places(&self) -> String {
        let limited = self.limited.as_ref().map_or_else(String::new, |place| format!("; beside computation: {place}"));
        let has_many = self.cases.iter().any(|case| case.job.kind.is_of_many());
        let many = if has_many && self.place.is_lab() { "; many ranks: loopback" } else { "" };
        format!("{}{limited}{many}", self.place)
    }

    /// The cores of the passive and the active side, when they are pinned.
    pub(crate) fn cores(&self) -> Option<[usize; 2]> {
        let cores = available_parallelism().map_or(1, usize::from);
        (self.pin == Switch::On).then_some([0, 1 % cores])
    }
}

/// What came out.
#[derive(Debug, Default)]
pub(crate) struct Results {
    pub(crate) cells: Vec<Cell>,
    pub(crate) missing: Vec<Missing>,
    /// Runs that were repeated because they were made with cores much farther apart than others.
    pub(crate) repeated: usize,
    /// The measurement was interrupted.
    pub(crate) is_cut_short: bool,
}

/// The runs of one contestant in one case.
#[derive(Debug)]
pub(crate) struct Cell {
    /// Position in the plan's entries.
    pub(crate) entry: usize,
    /// Position in the plan's cases.
    pub(crate) case: usize,
    pub(crate) runs: Vec<Run>,
}

/// A contestant without a result, in all cases or in one.
#[derive(Debug)]
pub(crate) struct Missing {
    /// Position in the plan's entries.
    pub(crate) entry: usize,
    /// Position in the plan's cases; `None`: all of them.
    pub(crate) case: Option<usize>,
    pub(crate) name: String,
    pub(crate) reason: String,
    /// It should have worked: it is installed, and failed.
    pub(crate) broken: bool,
}

impl Results {
    /// The runs of a contestant in a case, when there are any.
    pub(crate) fn runs(&self, entry: usize, case: usize) -> &[Run] {
        self.cells.iter().find(|cell| cell.entry == entry && cell.case == case).map_or(&[], |cell| &cell.runs)
    }

    /// The median of what a case is about.
    pub(crate) fn main(&self, plan: &Plan, entry: usize, case: usize) -> Option<f64> {
        statistics::median(&self.main_values(plan, entry, case))
    }

    /// What a case is about, of each launch.
    pub(crate) fn main_values(&self, plan: &Plan, entry: usize, case: usize) -> Vec<f64> {
        let metrics = metrics(plan.test, &plan.cases[case].job);
        let main = metrics.first();
        main.map_or_else(Vec::new, |metric| self.runs(entry, case).iter().filter_map(metric.value).collect())
    }

    /// Whether what a case is about differs between two contestants by more than chance.
    pub(crate) fn differ(&self, plan: &Plan, [one, other]: [usize; 2], case: usize) -> bool {
        let values = |entry| self.main_values(plan, entry, case);
        statistics::rank_sum_test(&values(one), &values(other)).is_some_and(|p| p < statistics::SIGNIFICANT)
    }

    /// Why the measurement as a whole counts as failed, if it does.
    pub(crate) fn broken(&self) -> Option<String> {
        let broken = self.missing.iter().find(|missing| missing.broken)?;
        Some(format!("{} failed: {}", broken.name, broken.reason))
    }

    /// How far cores were apart, in each run.
    pub(crate) fn cores_apart(&self) -> impl Iterator<Item = f64> {
        self.cells.iter().flat_map(|cell| &cell.runs).filter_map(|run| run.cores_apart_ns)
    }

    /// Which runs of a contestant in a case were made with cores much farther apart than the `least` of all.
    pub(crate) fn unlike(&self, entry: usize, case: usize, least: f64) -> Vec<usize> {
        let is_far = |run: &Run| run.cores_apart_ns.is_some_and(|apart| distance::is_far(apart, least));
        let runs = self.runs(entry, case);
        (0..runs.len()).filter(|place| is_far(&runs[*place])).collect()
    }

    /// The newest run of a contestant in a case takes the place of this one, unless it has failed since.
    pub(crate) fn replace(&mut self, entry: usize, case: usize, place: usize) {
        if self.is_missing(entry, case) {
            return;
        }
        if let Some(cell) = self.cells.iter_mut().find(|cell| cell.entry == entry && cell.case == case) {
            cell.runs.swap_remove(place);
            self.repeated += 1;
        }
    }

    pub(crate) fn is_missing(&self, entry: usize, case: usize) -> bool {
        self.missing.iter().any(|missing| missing.entry == entry && missing.case.is_none_or(|missing| missing == case))
    }

    pub(crate) fn miss(&mut self, plan: &Plan, entry: usize, case: Option<usize>, reason: String, broken: bool) {
        let name = plan.entries[entry].to_string();
        self.missing.push(Missing { entry, case, name, reason, broken });
    }

    pub(crate) fn add(&mut self, entry: usize, case: usize, run: Run) {
        match self.cells.iter_mut().find(|cell| cell.entry == entry && cell.case == case) {
            Some(cell) => cell.runs.push(run),
            None => self.cells.push(Cell { entry, case, runs: vec![run] }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_with_cores_far_apart_are_not_kept_beside_others() {
        let run = |apart| Run { cores_apart_ns: apart, ..Run::default() };
        let mut results = Results::default();
        let kept =
            |results: &Results, entry| results.runs(entry, 0).iter().map(|run| run.cores_apart_ns).collect::<Vec<_>>();
        for apart in [Some(320.0), None, Some(330.0)] {
            results.add(0, 0, run(apart));
        }
        assert!(results.unlike(0, 0, 320.0).is_empty(), "all are as far");
        for apart in [300.0, 57.0, 64.0] {
            results.add(1, 0, run(Some(apart)));
        }
        assert_eq!([0, 1, 2].map(|entry| results.unlike(entry, 0, 57.0)), [vec![0, 2], vec![0], vec![]]);
        results.add(1, 0, run(Some(58.0)));
        results.replace(1, 0, 0);
        assert_eq!((kept(&results, 1), results.repeated), (vec![Some(58.0), Some(57.0), Some(64.0)], 1));
    }
}
