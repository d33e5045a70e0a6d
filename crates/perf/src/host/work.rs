//! Computation of a known length, to be put beside a transfer.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// Units of work between two reads of the clock while calibrating: some 30 us.
const BATCH: u64 = 20_000;
/// How often it is read. The fastest batch counts: the others were disturbed.
const BATCHES: u32 = 200;

/// Work that is counted in units, not in time: a thread that is preempted, or shares its core, takes longer for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    units_per_us: f64,
}

impl Work {
    /// Finds out how much this core does in a microsecond. Takes a few milliseconds.
    pub(crate) fn calibrate() -> Self {
        units(black_box(BATCH));
        let fastest = (0..BATCHES)
            .map(|_| {
                let start = Instant::now();
                units(black_box(BATCH));
                start.elapsed()
            })
            .min()
            .unwrap_or(Duration::ZERO);
        Self { units_per_us: BATCH as f64 / (fastest.as_secs_f64() * 1e6).max(1e-3) }
    }

    /// Computes for this long, if nothing disturbs it; every microsecond of that, `between` is called.
    pub(crate) fn compute(&self, microseconds: f64, mut between: impl FnMut()) {
        let quantum = self.units_per_us.ceil().max(1.0) as u64;
        let mut left = (microseconds * self.units_per_us) as u64;
        while left > 0 {
            let now = left.min(quantum);
            units(now);
            left -= now;
            between();
        }
    }
}

/// Does some units of real work: steps of a generator of random numbers, each of which needs the one before.
///
/// Not inlined: for a count that it knows the compiler makes other code than for one that it does not, and what was
/// calibrated would not be what is done.
#[inline(never)]
fn units(count: u64) {
    let mut state = black_box(0x9e37_79b9_7f4a_7c15_u64);
    for _ in 0..count {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
    }
    black_box(state);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_done_in_quanta() {
        let work = Work { units_per_us: 100.0 };
        let mut quanta = 0;
        work.compute(10.5, || quanta += 1);
        assert_eq!(quanta, 11, "ten whole ones and a half");
        work.compute(0.0, || unreachable!("no work, no quantum"));
    }

    #[test]
    fn a_calibration_finds_a_speed() {
        assert!(Work::calibrate().units_per_us > 1.0);
    }
}
