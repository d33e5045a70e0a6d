//! How far two cores are apart. In a virtual machine that changes while it runs: its processors may share a cache now
//! and none a second later, and then all that one core writes and the other reads takes several times as long, for
//! every contestant.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use crate::statistics::median;

/// Round trips that are timed together.
const TRIPS: u32 = 100;
/// This many times; the median counts.
const BATCHES: u32 = 21;
/// No two cores take this long for all of them, unless others want them too.
const LIMIT: Duration = Duration::from_millis(50);
/// Empty polls after which the clock is read.
const POLLS_PER_CHECK: u32 = 10_000;

/// A number alone on its cache line, and on the one that is fetched with it.
#[repr(align(128))]
struct Line(AtomicU32);

impl Line {
    /// Waits until the number is this one. Returns whether it came in time.
    fn wait_for(&self, number: u32, end: Instant) -> bool {
        let mut polls = 0;
        while self.0.load(Ordering::Acquire) != number {
            polls += 1;
            if polls % POLLS_PER_CHECK == 0 && Instant::now() > end {
                return false;
            }
            spin_loop();
        }
        true
    }
}

/// Two processors that this process may use: always the same, for what changes is to be the machine and not the choice.
pub(crate) fn a_pair() -> Option<[usize; 2]> {
    let allowed = sched_getaffinity(Pid::from_raw(0)).ok()?;
    let mut places = (0..CpuSet::count()).filter(|place| allowed.is_set(*place).unwrap_or(false));
    Some([places.next()?, places.next()?])
}

/// Nanoseconds that a cache line takes from one of these cores to the other and back. `None` when that can't be found
/// out.
pub(crate) fn between(cores: [usize; 2]) -> Option<f64> {
    if cores[0] == cores[1] {
        return None;
    }
    let (line, end) = (Line(AtomicU32::new(0)), Instant::now() + LIMIT);
    let (line, [here, there]) = (&line, cores);
    let ask = move || {
        stay_on(here).ok()?;
        let trip = |number: u32| {
            line.0.store(number, Ordering::Release);
            line.wait_for(number + 1, end)
        };
        let batches: Option<Vec<f64>> = (0..BATCHES)
            .map(|batch| {
                let begun = Instant::now();
                let first = 2 * TRIPS * batch + 1;
                let over = (first..first + 2 * TRIPS).step_by(2).all(trip);
                over.then(|| begun.elapsed().as_nanos() as f64 / f64::from(TRIPS))
            })
            .collect();
        median(&batches?)
    };
    let answer = move || {
        if stay_on(there).is_err() {
            return;
        }
        for number in (1..2 * TRIPS * BATCHES).step_by(2) {
            if !line.wait_for(number, end) {
                return;
            }
            line.0.store(number + 1, Ordering::Release);
        }
    };
    // Threads of their own, which may be pinned.
    thread::scope(|scope| {
        scope.spawn(answer);
        scope.spawn(ask).join().ok()?
    })
}

/// Whether cores were so much farther apart than others that figures can't be compared. Less is noise.
pub(crate) fn is_far(apart: f64, least: f64) -> bool {
    apart > 3.0 * least
}

/// What the runs found, in one line for people; `repeated` of them were made again because of it.
pub(crate) fn describe(apart: impl Iterator<Item = f64>, repeated: usize) -> Option<String> {
    let (least, most) = apart.fold((f64::MAX, 0.0_f64), |(least, most), ns| (least.min(ns), most.max(ns)));
    if most == 0.0 {
        return None;
    }
    let mut text = format!("a cache line takes {least:.0} to {most:.0} ns from core to core and back");
    if repeated > 0 {
        text.push_str(&format!("; runs made again, for it took much longer meanwhile: {repeated}"));
    }
    if is_far(most, least) {
        text.push_str("; still not all runs are alike");
    }
    Some(text)
}

/// The calling thread stays on this core.
pub(crate) fn stay_on(core: usize) -> Result<(), String> {
    let mut set = CpuSet::new();
    set.set(core)
        .and_then(|()| sched_setaffinity(Pid::from_raw(0), &set))
        .map_err(|error| format!("cannot stay on core {core}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_some_way_apart() {
        // On a machine with one core there is nothing to see.
        if let Some(ns) = a_pair().and_then(between) {
            assert!(ns > 1.0 && ns < LIMIT.as_nanos() as f64, "{ns}");
        }
    }

    #[test]
    fn a_change_is_reported() {
        let say = |apart: &[f64], repeated| describe(apart.iter().copied(), repeated);
        assert_eq!(say(&[], 0), None);
        assert_eq!(say(&[57.2, 64.0], 0).unwrap(), "a cache line takes 57 to 64 ns from core to core and back");
        assert!(say(&[57.0], 3).unwrap().ends_with("back; runs made again, for it took much longer meanwhile: 3"));
        assert!(say(&[57.0, 320.0, 58.0], 1).unwrap().contains("meanwhile: 1; still not all runs are alike"));
    }
}
