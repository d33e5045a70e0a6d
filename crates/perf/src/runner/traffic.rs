//! Cache traffic of a stream: what its memory moves, at each side, for each byte of payload.
//!
//! The tools count a process from its start to its end. So a stream runs twice, the second time with twice as many
//! messages, and the difference is that of the messages alone.

use std::time::Duration;

use weft_command::provider::Provider;

use crate::model::job::Job;
use crate::model::measure::Figure;
use crate::model::run::Run;
use crate::runner::counting::{Counting, Tool};
use crate::runner::place::Place;
use crate::runner::session;

/// Does the run of a job twice, and gives the second with what was counted.
pub(crate) fn run(
    job: &Job,
    place: &Place,
    cores: Option<[usize; 2]>,
    limit: Duration,
    provider: Option<&Provider>,
) -> Result<Run, String> {
    let tool = Tool::of_this_machine()?;
    let counted = |job: &Job| {
        let counting = Counting::by(tool)?;
        let run = session::run(job, place, cores, limit, provider, Some(&counting))?;
        let bytes = (0..job.ranks).map(|rank| counting.bytes(rank)).collect::<Result<Vec<_>, _>>()?;
        Ok::<_, String>((run, bytes))
    };
    let (_, once) = counted(job)?;
    let (mut run, twice) = counted(&Job { iterations: 2 * job.iterations, ..job.clone() })?;
    for (side, (once, twice)) in run.sides.iter_mut().zip(once.into_iter().zip(twice)) {
        side.figures.insert(Figure::CacheTraffic, per_byte(once, twice, job.bytes()));
    }
    Ok(run)
}

/// What each byte more has moved. Not below nothing: what a process does beside its messages differs from run to run.
fn per_byte(once: u64, twice: u64, payload: u64) -> f64 {
    twice.saturating_sub(once) as f64 / payload.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_the_same_in_both_runs_does_not_count() {
        assert_eq!(per_byte(1000, 3000, 1000), 2.0);
        assert_eq!(per_byte(1000, 900, 1000), 0.0);
    }
}
