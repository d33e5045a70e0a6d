//! Fetches from a server whose application computes: one after the other, until there are enough or the time is over.

use std::time::{Duration, Instant};

use crate::model::job::Job;
use crate::model::measure::{Measured, RoundTrips};

/// How long fetches that count continue, and those before them.
const BUDGET: Duration = Duration::from_millis(250);
const WARMUP: Duration = Duration::from_millis(50);
/// The fewest fetches that count, however long they take.
const LEAST: u64 = 8;

/// Times fetches, each of which `fetch` does from its begin to its end.
///
/// # Errors
///
/// What `fetch` fails with; it is not called again then.
pub(crate) fn measure<E>(job: &Job, mut fetch: impl FnMut() -> Result<(), E>) -> Result<Measured, E> {
    repeat(job.warmup, 1, WARMUP, &mut fetch)?;
    let mut trips = RoundTrips::new(0, job.iterations);
    repeat(job.iterations, LEAST, BUDGET, || {
        fetch()?;
        trips.lap();
        Ok(())
    })?;
    Ok(trips.finish(1.0))
}

/// Does it at most this often, and at least this often even when the time is over.
fn repeat<E>(most: u64, least: u64, time: Duration, mut act: impl FnMut() -> Result<(), E>) -> Result<(), E> {
    let start = Instant::now();
    for done in 0..most {
        if done >= least && start.elapsed() > time {
            break;
        }
        act()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::job::tests::job;

    #[test]
    fn fetches_end_when_there_are_enough_or_the_time_is_over() {
        let count = |most, time| {
            let mut count = 0;
            let counted = repeat(most, LEAST, time, || {
                count += 1;
                Ok::<_, ()>(())
            });
            counted.map(|()| count)
        };
        assert_eq!(count(1000, Duration::MAX), Ok(1000));
        assert_eq!(count(1000, Duration::ZERO), Ok(LEAST), "a few are made even then");
        assert_eq!(count(3, Duration::ZERO), Ok(3), "not more than there are to be");
    }

    #[test]
    fn those_that_count_follow_those_that_do_not() {
        let mut made = 0;
        let job = Job { warmup: 1, iterations: 5, ..job() };
        let measured = measure(&job, || {
            made += 1;
            Ok::<_, ()>(())
        });
        assert_eq!(made, 6);
        assert!(measured.unwrap().histogram.is_some());
        let failed = measure(&job, || Err("gone"));
        assert_eq!(failed, Err("gone"));
    }
}
