//! How many fences are measured of each load: a fixed number, or as many as take a while, which all ranks agree on.

use std::fmt::Display;

use weft::group::Group;

use crate::experiments::fence::options::Scale;
use crate::model::measure::Watch;
use crate::statistics::median;

/// Fences before anything is known: the first open connections.
const PROBES: u64 = 3;

/// The fewest that are measured.
const FEWEST: u64 = 5;

/// What turns took at this rank.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Series {
    /// The median of their times, in microseconds.
    pub(crate) median_us: f64,
    /// How many those were.
    pub(crate) fences: u64,
    /// Processor time of all threads of this process for each of them, in microseconds.
    pub(crate) cpu_us: f64,
}

impl Series {
    /// Measures turns, which are counted from 0: each returns its time in microseconds.
    pub(crate) fn measure<E: Display>(
        scale: &Scale<'_>,
        group: &mut Group,
        mut turn: impl FnMut(u64) -> Result<f64, E>,
    ) -> Result<Self, String> {
        let mut at = 0;
        let mut next = || {
            at += 1;
            turn(at - 1).map_err(|error| error.to_string())
        };
        let mut fences = scale.iterations;
        if let Some(budget) = scale.budget {
            let probes = (0..PROBES).map(|_| next()).collect::<Result<Vec<f64>, String>>()?;
            let each = slowest(group, probes.into_iter().fold(f64::INFINITY, f64::min))?;
            fences = fitting(budget.as_secs_f64() * 1e6, each, scale.iterations);
        }
        (0..scale.warmup.unwrap_or(fences.div_ceil(10))).try_for_each(|_| next().map(|_| ()))?;
        let watch = Watch::start();
        let times = (0..fences).map(|_| next()).collect::<Result<Vec<f64>, String>>()?;
        let cpu_us = watch.cpu().as_secs_f64() * 1e6 / fences.max(1) as f64;
        Ok(Self { median_us: median(&times).unwrap_or(0.0), fences, cpu_us })
    }
}

/// How many of `each_us` fit, at most `most`.
fn fitting(budget_us: f64, each_us: f64, most: u64) -> u64 {
    most.min((budget_us / each_us.max(1e-3)) as u64).max(FEWEST)
}

/// The largest of the values of all ranks.
pub(crate) fn slowest(group: &mut Group, mine: f64) -> Result<f64, String> {
    let all = group.all_gather(&mine.to_be_bytes()).map_err(|error| error.to_string())?;
    let all = all.iter().filter_map(|bytes| bytes.as_slice().try_into().ok()).map(f64::from_be_bytes);
    Ok(all.fold(0.0, f64::max))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use weft_command::transport::Transport;

    use crate::experiments::fence::load::Test;

    #[test]
    fn slow_fences_are_fewer_but_not_too_few() {
        assert_eq!(fitting(1e6, 100.0, 500), 500);
        assert_eq!(fitting(1e6, 10_000.0, 500), 100);
        assert_eq!(fitting(1e6, 400_000.0, 500), FEWEST);
        assert_eq!(fitting(1e6, 0.0, 500), 500);
    }

    fn scale(iterations: u64, budget: Option<Duration>) -> Scale<'static> {
        Scale {
            test: Test::Halo,
            sizes: None,
            transport: Transport::Shm,
            asks_for_lab: false,
            peers: None,
            launches: 1,
            iterations,
            budget,
            is_quick: false,
            is_brief: false,
            warmup: None,
            limit_s: 1,
            libraries: &[],
            folders: &[],
        }
    }

    /// A halo beside a slow library had 550 fences of each load, whatever they took: at 0.4 s each the command did not
    /// end for an hour.
    #[test]
    fn all_ranks_measure_as_many_as_the_slowest_has_time_for() {
        let ranks = Group::threads(2).unwrap().into_iter().map(|mut group| {
            std::thread::spawn(move || {
                let each = [10.0, 400_000.0][group.rank()];
                let (mut turns, scale) = (0, scale(500, Some(Duration::from_secs(1))));
                let turn = |at| {
                    assert_eq!(at, turns);
                    turns += 1;
                    // The first opens connections.
                    Ok::<f64, String>(if at == 0 { 1e9 } else { each })
                };
                let series = Series::measure(&scale, &mut group, turn).unwrap();
                (series.fences, series.median_us, turns)
            })
        });
        let found: Vec<_> = ranks.collect::<Vec<_>>().into_iter().map(|rank| rank.join().unwrap()).collect();
        assert_eq!(found, [(FEWEST, 10.0, 9), (FEWEST, 400_000.0, 9)]);
    }

    #[test]
    fn as_many_as_were_asked_for_are_measured_whatever_they_take() {
        let mut group = Group::threads(1).unwrap().remove(0);
        let series = Series::measure(&scale(7, None), &mut group, |_| Ok::<f64, String>(1e9)).unwrap();
        assert_eq!(series.fences, 7);
    }
}
