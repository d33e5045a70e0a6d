//! Many runs: cases one after the other, in each case the contestants in turns.

use std::thread::available_parallelism;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::contestant::Entry;
use super::designs::{Case, Test};
use super::distance;
use super::job::{Job, Kind, Switch};
use super::measure::median;
use super::metric::metrics;
use super::place::Place;
use super::session::{self, Run};
use super::spread::Spread;
use crate::failure::Failure;

/// All that is to be done.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) test: Test,
    /// The measured transport, then its peers.
    pub(crate) entries: Vec<Entry>,
    /// Whether the peers were asked for; otherwise they are those that the test has by itself.
    pub(crate) peers_are_named: bool,
    pub(crate) cases: Vec<Case>,
    pub(crate) runs: u32,
    /// How long a run may take.
    pub(crate) limit: Duration,
    pub(crate) pin: Switch,
    /// Whether the table shows copies.
    pub(crate) copies: bool,
    pub(crate) place: Place,
    /// Where the cases are that need a link slower than the processor; `None`: there as well.
    pub(crate) limited: Option<Place>,
    /// What is to be known about the place.
    pub(crate) note: Option<String>,
}

impl Plan {
    /// The job of a contestant in a case.
    pub(crate) fn job(&self, entry: &Entry, case: &Case) -> Job {
        Job { contestant: entry.contestant.name().into(), variant: entry.variant.clone(), ..case.job.clone() }
    }

    /// Where a case is done.
    fn place_of(&self, case: &Case) -> &Place {
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

    /// The cores of the passive and the active side, when they are told to stay on some.
    fn cores(&self) -> Option<[usize; 2]> {
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
        median(self.spread(plan, entry, case).values)
    }

    /// What a case is about, of each run.
    pub(crate) fn spread(&self, plan: &Plan, entry: usize, case: usize) -> Spread {
        let metrics = metrics(plan.test, &plan.cases[case].job);
        let Some(metric) = metrics.first() else { return Spread::default() };
        Spread::of(self.runs(entry, case).iter().filter_map(metric.value))
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
    fn unlike(&self, entry: usize, case: usize, least: f64) -> Vec<usize> {
        let is_far = |run: &Run| run.cores_apart_ns.is_some_and(|apart| distance::is_far(apart, least));
        let runs = self.runs(entry, case);
        (0..runs.len()).filter(|place| is_far(&runs[*place])).collect()
    }

    /// The newest run of a contestant in a case takes the place of this one, unless it has failed since.
    fn replace(&mut self, entry: usize, case: usize, place: usize) {
        if self.is_missing(entry, case) {
            return;
        }
        if let Some(cell) = self.cells.iter_mut().find(|cell| cell.entry == entry && cell.case == case) {
            cell.runs.swap_remove(place);
            self.repeated += 1;
        }
    }

    fn is_missing(&self, entry: usize, case: usize) -> bool {
        self.missing.iter().any(|missing| missing.entry == entry && missing.case.is_none_or(|missing| missing == case))
    }

    fn miss(&mut self, plan: &Plan, entry: usize, case: Option<usize>, reason: String, broken: bool) {
        let name = plan.entries[entry].to_string();
        self.missing.push(Missing { entry, case, name, reason, broken });
    }

    fn add(&mut self, entry: usize, case: usize, run: Run) {
        match self.cells.iter_mut().find(|cell| cell.entry == entry && cell.case == case) {
            Some(cell) => cell.runs.push(run),
            None => self.cells.push(Cell { entry, case, runs: vec![run] }),
        }
    }
}

/// Measures. Fails only when the transport itself can't be measured; a peer that can't is noted.
pub(crate) fn run(plan: &Plan) -> Result<Results, Failure> {
    let mut results = Results::default();
    find_out_who_can(plan, &mut results)?;
    let progress = progress(plan);
    for (at, case) in plan.cases.iter().enumerate() {
        for turn in 0..plan.runs as usize {
            for offset in 0..plan.entries.len() {
                // Another one starts each time, so that nobody always runs after the same neighbour.
                let entry = (turn + offset) % plan.entries.len();
                if !results.is_missing(entry, at) {
                    progress.set_message(format!("{} {}", plan.entries[entry], case.size()));
                    one(plan, entry, at, &mut results)?;
                }
                progress.inc(1);
            }
        }
        repeat_unlike(plan, at, &progress, &mut results)?;
    }
    progress.finish_and_clear();
    Ok(results)
}

/// Repeats runs of a case that were made with cores much farther apart than others were, once each and in turns: else it would be chance which contestants had them. The repeated one
/// counts, whatever it was made with.
fn repeat_unlike(plan: &Plan, case: usize, progress: &ProgressBar, results: &mut Results) -> Result<(), Failure> {
    let Some(least) = results.cores_apart().reduce(f64::min) else { return Ok(()) };
    let mut unlike: Vec<_> = (0..plan.entries.len()).map(|entry| results.unlike(entry, case, least)).collect();
    progress.inc_length(unlike.iter().map(Vec::len).sum::<usize>() as u64);
    while unlike.iter().any(|places| !places.is_empty()) {
        for (entry, places) in unlike.iter_mut().enumerate() {
            let Some(place) = places.pop() else { continue };
            if !results.is_missing(entry, case) {
                progress.set_message(format!("{} {} again", plan.entries[entry], plan.cases[case].size()));
                one(plan, entry, case, results)?;
                results.replace(entry, case, place);
            }
            progress.inc(1);
        }
    }
    Ok(())
}

fn find_out_who_can(plan: &Plan, results: &mut Results) -> Result<(), Failure> {
    for (index, entry) in plan.entries.iter().enumerate() {
        let mut refused = Vec::new();
        for (at, case) in plan.cases.iter().enumerate() {
            let job = plan.job(entry, case);
            job.check().map_err(Failure::Usage)?;
            if let Err(reason) = entry.contestant.supports(&job) {
                refused.push((at, reason));
            }
        }
        // Who can do nothing of it was asked for by mistake.
        let named = index == 0 || plan.peers_are_named;
        if let (true, Some((_, reason))) = (named && refused.len() == plan.cases.len(), refused.first()) {
            return Err(Failure::Usage(format!("{entry}: {reason}")));
        }
        refused.into_iter().for_each(|(at, reason)| results.miss(plan, index, Some(at), reason, false));
        match entry.available() {
            Ok(()) => {}
            Err(reason) if index == 0 => return Err(Failure::Runtime(format!("{entry}: {reason}"))),
            Err(reason) => results.miss(plan, index, None, reason, false),
        }
    }
    Ok(())
}

fn one(plan: &Plan, entry: usize, case: usize, results: &mut Results) -> Result<(), Failure> {
    let (who, what) = (&plan.entries[entry], &plan.cases[case]);
    let run = who.contestant.provider(who.variant.as_deref()).and_then(|provider| {
        session::run(&plan.job(who, what), plan.place_of(what), plan.cores(), plan.limit, provider.as_ref())
    });
    match run {
        Ok(run) => results.add(entry, case, run),
        // What one MPI library can't do the next one may.
        Err(reason) if what.job.mpi.is_some() => results.miss(plan, entry, Some(case), reason, true),
        Err(reason) if entry == 0 => return Err(Failure::Runtime(format!("{}: {reason}", plan.entries[0]))),
        Err(reason) => results.miss(plan, entry, None, reason, true),
    }
    Ok(())
}

/// A bar on standard error, when that is a terminal. It is drawn between runs only, never during one.
fn progress(plan: &Plan) -> ProgressBar {
    let bar = ProgressBar::new((plan.cases.len() * plan.entries.len()) as u64 * u64::from(plan.runs));
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len}  {elapsed} of about {duration}  {msg}")
        .expect("the template is well formed");
    bar.with_style(style)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_with_cores_far_apart_are_not_kept_beside_others() {
        let run = |apart| Run { sides: Vec::new(), cores_apart_ns: apart };
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
