//! Many runs: cases one after the other, in each case the contestants in turns.

use indicatif::{ProgressBar, ProgressStyle};
use weft_command::failure::Failure;
use weft_command::interrupt::Interrupt;

use crate::model::job::Kind;
use crate::runner::plan::{Plan, Results};
use crate::runner::{session, traffic};

/// Measures. Fails only when the transport itself can't be measured; a peer that can't is noted. An interrupt ends it
/// with what there is by then.
pub(crate) fn run(plan: &Plan, interrupt: &Interrupt) -> Result<Results, Failure> {
    let mut results = Results::default();
    find_out_who_can(plan, &mut results)?;
    let progress = progress(plan);
    for (at, case) in plan.cases.iter().enumerate() {
        for turn in 0..plan.launches as usize {
            for offset in 0..plan.entries.len() {
                // Another one starts each time, so that none always runs after the same neighbour.
                let entry = (turn + offset) % plan.entries.len();
                if !results.is_missing(entry, at) {
                    progress.set_message(format!("{} {}", plan.entries[entry], case.size()));
                    one(plan, entry, at, interrupt, &mut results)?;
                }
                progress.inc(1);
            }
        }
        // A count does not depend on how far apart the cores are.
        if case.job.kind != Kind::CacheTraffic {
            repeat_unlike(plan, at, &progress, interrupt, &mut results)?;
        }
    }
    progress.finish_and_clear();
    Ok(results)
}

/// Repeats runs of a case that were made with cores much farther apart than others were, once each and in turns: else
/// it would be chance which contestants had them. The repeated one counts, whatever it was made with.
fn repeat_unlike(
    plan: &Plan,
    case: usize,
    progress: &ProgressBar,
    interrupt: &Interrupt,
    results: &mut Results,
) -> Result<(), Failure> {
    let Some(least) = results.cores_apart().reduce(f64::min) else { return Ok(()) };
    let mut unlike: Vec<_> = (0..plan.entries.len()).map(|entry| results.unlike(entry, case, least)).collect();
    progress.inc_length(unlike.iter().map(Vec::len).sum::<usize>() as u64);
    while unlike.iter().any(|places| !places.is_empty()) {
        for (entry, places) in unlike.iter_mut().enumerate() {
            let Some(place) = places.pop() else { continue };
            if !results.is_missing(entry, case) {
                progress.set_message(format!("{} {} again", plan.entries[entry], plan.cases[case].size()));
                one(plan, entry, case, interrupt, results)?;
                if !results.is_cut_short {
                    results.replace(entry, case, place);
                }
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
        // A contestant that supports no case was named by mistake.
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

/// One run; nothing once there was an interrupt, which may have ended the processes of a run.
fn one(plan: &Plan, entry: usize, case: usize, interrupt: &Interrupt, results: &mut Results) -> Result<(), Failure> {
    if results.is_cut_short {
        return Ok(());
    }
    let (who, what) = (&plan.entries[entry], &plan.cases[case]);
    let run = who.contestant.provider(who.variant.as_deref()).and_then(|provider| {
        let (job, place, provider) = (plan.job(who, what), plan.place_of(what), provider.as_ref());
        match what.job.kind {
            Kind::CacheTraffic => traffic::run(&job, place, plan.cores(), plan.limit, provider),
            _ => session::run(&job, place, plan.cores(), plan.limit, provider, None),
        }
    });
    match run {
        Ok(run) => results.add(entry, case, run),
        Err(_) if interrupt.has_come() => {}
        // What one MPI library can't do the next one may.
        Err(reason) if what.job.mpi.is_some() => results.miss(plan, entry, Some(case), reason, true),
        Err(reason) if entry == 0 => return Err(Failure::Runtime(format!("{}: {reason}", plan.entries[0]))),
        Err(reason) => results.miss(plan, entry, None, reason, true),
    }
    results.is_cut_short = interrupt.has_come();
    Ok(())
}

/// A bar on standard error, when that is a terminal. It is drawn between runs only, never during one.
fn progress(plan: &Plan) -> ProgressBar {
    let bar = ProgressBar::new((plan.cases.len() * plan.entries.len()) as u64 * u64::from(plan.launches));
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len}  {elapsed} of about {duration}  {msg}")
        .expect("the template is well formed");
    bar.with_style(style)
}
