//! Many runs: sizes one after the other, at each size the contestants in turns.

use std::thread::available_parallelism;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::contestant::Entry;
use super::plan::{Job, Switch};
use super::remote::Place;
use super::session::{self, Run};
use super::size::Size;
use crate::failure::Failure;

/// All that is to be done.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The measured transport, then its peers.
    pub(crate) entries: Vec<Entry>,
    pub(crate) sizes: Vec<Size>,
    pub(crate) runs: u32,
    /// Messages in a run, when not the default for test and size.
    pub(crate) iterations: Option<u64>,
    pub(crate) warmup: Option<u64>,
    /// How long a run may take.
    pub(crate) limit: Duration,
    pub(crate) pin: Switch,
    /// Whether the table shows copies.
    pub(crate) copies: bool,
    pub(crate) place: Place,
    /// The job without contestant, role, size and counts.
    pub(crate) template: Job,
}

impl Plan {
    /// The job of a contestant at a size.
    pub(crate) fn job(&self, entry: &Entry, size: Size) -> Job {
        let iterations = self.iterations.unwrap_or_else(|| Job::default_iterations(self.template.test, size.0));
        Job {
            contestant: entry.contestant.name().into(),
            variant: entry.variant.clone(),
            size: size.0,
            iterations,
            warmup: self.warmup.unwrap_or((iterations / 10).max(1)),
            ..self.template.clone()
        }
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
}

/// The runs of one contestant at one size.
#[derive(Debug)]
pub(crate) struct Cell {
    /// Position in the plan's entries.
    pub(crate) entry: usize,
    pub(crate) size: Size,
    pub(crate) runs: Vec<Run>,
}

/// A contestant that was not measured to the end.
#[derive(Debug)]
pub(crate) struct Missing {
    /// Position in the plan's entries.
    pub(crate) entry: usize,
    pub(crate) name: String,
    pub(crate) reason: String,
    /// It should have worked: it is installed, and failed.
    pub(crate) broken: bool,
}

impl Results {
    /// The runs of a contestant at a size, when there are any.
    pub(crate) fn runs(&self, entry: usize, size: Size) -> &[Run] {
        self.cells.iter().find(|cell| cell.entry == entry && cell.size == size).map_or(&[], |cell| &cell.runs)
    }

    /// Why the measurement as a whole counts as failed, if it does.
    pub(crate) fn broken(&self) -> Option<String> {
        let broken = self.missing.iter().find(|missing| missing.broken)?;
        Some(format!("{} failed: {}", broken.name, broken.reason))
    }

    fn is_missing(&self, entry: usize) -> bool {
        self.missing.iter().any(|missing| missing.entry == entry)
    }

    fn miss(&mut self, plan: &Plan, entry: usize, reason: String, broken: bool) {
        let name = plan.entries[entry].to_string();
        self.missing.push(Missing { entry, name, reason, broken });
    }

    fn add(&mut self, entry: usize, size: Size, run: Run) {
        match self.cells.iter_mut().find(|cell| cell.entry == entry && cell.size == size) {
            Some(cell) => cell.runs.push(run),
            None => self.cells.push(Cell { entry, size, runs: vec![run] }),
        }
    }
}

/// Measures. Fails only when the transport itself can't be measured; a peer that can't is noted.
pub(crate) fn run(plan: &Plan) -> Result<Results, Failure> {
    let mut results = Results::default();
    find_out_who_can(plan, &mut results)?;
    let progress = progress(plan);
    for size in &plan.sizes {
        for turn in 0..plan.runs as usize {
            for offset in 0..plan.entries.len() {
                // Another one starts each time, so that nobody always runs after the same neighbour.
                let entry = (turn + offset) % plan.entries.len();
                if !results.is_missing(entry) {
                    progress.set_message(format!("{} {size}", plan.entries[entry]));
                    one(plan, entry, *size, &mut results)?;
                }
                progress.inc(1);
            }
        }
    }
    progress.finish_and_clear();
    Ok(results)
}

fn find_out_who_can(plan: &Plan, results: &mut Results) -> Result<(), Failure> {
    for (index, entry) in plan.entries.iter().enumerate() {
        for size in &plan.sizes {
            let job = plan.job(entry, *size);
            job.check().map_err(Failure::Usage)?;
            entry.contestant.supports(&job).map_err(|reason| Failure::Usage(format!("{entry}: {reason}")))?;
        }
        match entry.available() {
            Ok(()) => {}
            Err(reason) if index == 0 => return Err(Failure::Runtime(format!("{entry}: {reason}"))),
            Err(reason) => results.miss(plan, index, reason, false),
        }
    }
    Ok(())
}

fn one(plan: &Plan, entry: usize, size: Size, results: &mut Results) -> Result<(), Failure> {
    match session::run(&plan.job(&plan.entries[entry], size), &plan.place, plan.cores(), plan.limit) {
        Ok(run) => results.add(entry, size, run),
        Err(reason) if entry == 0 => return Err(Failure::Runtime(format!("{}: {reason}", plan.entries[0]))),
        Err(reason) => results.miss(plan, entry, reason, true),
    }
    Ok(())
}

/// A bar on standard error, when that is a terminal. It is drawn between runs only, never during one.
fn progress(plan: &Plan) -> ProgressBar {
    let bar = ProgressBar::new((plan.sizes.len() * plan.entries.len()) as u64 * u64::from(plan.runs));
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len}  {msg}").expect("the template is well formed");
    bar.with_style(style)
}
