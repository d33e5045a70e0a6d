//! The processor that a NIC's thread runs on.

use core::mem::zeroed;
use core::time::Duration;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use libc::{CPU_EQUAL, cpu_set_t, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// The load of the machine is read no more often than this.
const EVERY: Duration = Duration::from_millis(1);

/// The processor on which the calling thread runs.
pub(crate) fn processor() -> Option<u32> {
    // SAFETY: Takes nothing, returns a number.
    u32::try_from(unsafe { sched_getcpu() }).ok()
}

/// The processors on which the calling thread may run, in order. Empty where that cannot be read.
#[must_use]
pub fn allowed_processors() -> Vec<u32> {
    let Some(all) = allowed() else { return Vec::new() };
    (0..libc::CPU_SETSIZE as u32).filter(|place| only(*place, &all).is_some()).collect()
}

/// The affinity of a thread: the system's, or one processor for a time.
#[derive(Default)]
pub(crate) struct CpuAffinity(Mutex<State>);

#[derive(Default)]
struct State {
    tie: Option<Tie>,
    /// When the machine's load was last read, whether it was full, and whether it was full before.
    measured: Option<(Instant, bool, bool)>,
}

/// A thread that is pinned to one processor.
struct Tie {
    one: cpu_set_t,
    /// Its affinity otherwise.
    all: cpu_set_t,
}

impl CpuAffinity {
    /// While the machine is full, pins the calling thread to this processor, if it is allowed; otherwise restores its
    /// affinity. Returns whether that has changed.
    pub(crate) fn follow(&self, wanted: Option<u32>, is_full: impl FnOnce() -> bool) -> bool {
        let state = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = wanted.filter(|_| state.is_full(is_full));
        if wanted.is_none() && state.tie.is_none() {
            return false;
        }
        let Some(now) = allowed() else { return false };
        // Another program may have changed its affinity.
        let tie = state.tie.take().filter(|tie| equal(&tie.one, &now));
        let all = tie.as_ref().map_or(now, |tie| tie.all);
        match wanted.and_then(|wanted| only(wanted, &all)) {
            Some(one) if equal(&one, &now) => {
                state.tie = tie;
                false
            }
            Some(one) if allow(&one) => {
                state.tie = Some(Tie { one, all });
                true
            }
            _ => tie.is_some() && allow(&all),
        }
    }
}

impl State {
    /// Whether the machine is full; the state changes after two readings that agree.
    fn is_full(&mut self, ask: impl FnOnce() -> bool) -> bool {
        let now = Instant::now();
        match self.measured {
            Some((at, _, answer)) if now.duration_since(at) < EVERY => answer,
            Some((_, last, answer)) => {
                let seen = ask();
                let answer = if seen == last { seen } else { answer };
                self.measured = Some((now, seen, answer));
                answer
            }
            None => {
                self.measured = Some((now, ask(), false));
                false
            }
        }
    }
}

/// The affinity of the calling thread. `None` if it cannot be read: on machines with more processors than the set
/// holds.
fn allowed() -> Option<cpu_set_t> {
    // SAFETY: A set of numbers of which zero is the empty one; the call writes to it alone.
    unsafe {
        let mut set = zeroed();
        (sched_getaffinity(0, size_of::<cpu_set_t>(), &raw mut set) == 0).then_some(set)
    }
}

/// Sets the affinity. Returns whether that succeeded.
fn allow(set: &cpu_set_t) -> bool {
    // SAFETY: Reads the set during the call alone.
    unsafe { sched_setaffinity(0, size_of::<cpu_set_t>(), set) == 0 }
}

fn equal(one: &cpu_set_t, other: &cpu_set_t) -> bool {
    // SAFETY: Compares numbers.
    unsafe { CPU_EQUAL(one, other) }
}

/// This one processor, if it is in `all`.
fn only(processor: u32, all: &cpu_set_t) -> Option<cpu_set_t> {
    let place = processor as usize;
    if place >= 8 * size_of::<cpu_set_t>() {
        return None;
    }
    // SAFETY: A set of numbers of which zero is the empty one, and a number within its range.
    unsafe {
        let mut one: cpu_set_t = zeroed();
        libc::CPU_SET(place, &mut one);
        libc::CPU_ISSET(place, all).then_some(one)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn places(set: &cpu_set_t) -> Vec<u32> {
        (0..libc::CPU_SETSIZE as u32).filter(|place| only(*place, set).is_some()).collect()
    }

    fn here() -> Vec<u32> {
        places(&allowed().unwrap())
    }

    /// On a machine that has been this full for long.
    fn follow(cpu_affinity: &CpuAffinity, wanted: Option<u32>, is_full: bool) -> bool {
        let seen = Instant::now().checked_sub(EVERY).unwrap();
        cpu_affinity.0.lock().unwrap().measured = Some((seen, is_full, is_full));
        cpu_affinity.follow(wanted, || is_full)
    }

    /// Runs this on a new thread, since it changes the calling thread's affinity.
    fn apart(act: impl FnOnce() + Send) {
        thread::scope(|scope| scope.spawn(act).join().unwrap());
    }

    #[test]
    fn a_thread_goes_where_it_is_told_and_may_go_anywhere_again() {
        apart(|| {
            let (all, cpu_affinity) = (here(), CpuAffinity::default());
            assert_eq!(allowed_processors(), all);
            for &place in all.iter().chain(&all) {
                let changed = here() != [place];
                assert_eq!((follow(&cpu_affinity, Some(place), true), here()), (changed, vec![place]));
                assert_eq!(processor(), Some(place));
            }
            assert_eq!((follow(&cpu_affinity, all.last().copied(), false), here()), (all.len() > 1, all.clone()));
            follow(&cpu_affinity, all.first().copied(), true);
            follow(&cpu_affinity, None, true);
            assert_eq!(here(), all, "nobody to follow");
        });
    }

    #[test]
    fn it_does_not_go_where_it_may_not() {
        apart(|| {
            let all = allowed().unwrap();
            let place = processor().unwrap();
            assert!(allow(&only(place, &all).unwrap()));
            let cpu_affinity = CpuAffinity::default();
            for wanted in places(&all).into_iter().chain([libc::CPU_SETSIZE as u32 - 1, u32::MAX]) {
                assert!(!follow(&cpu_affinity, Some(wanted), true));
                assert_eq!(here(), [place], "{wanted}");
            }
        });
    }

    #[test]
    fn an_affinity_set_by_others_stays() {
        apart(|| {
            let (all, cpu_affinity) = (here(), CpuAffinity::default());
            let [first, .., last] = all[..] else { return };
            follow(&cpu_affinity, Some(first), true);
            assert!(allow(&only(last, &allowed_everywhere(&all)).unwrap()));
            assert!(!follow(&cpu_affinity, Some(first), true) && !follow(&cpu_affinity, None, false));
            assert_eq!(here(), [last]);
        });
    }

    fn allowed_everywhere(places: &[u32]) -> cpu_set_t {
        // SAFETY: As in `only`.
        unsafe {
            let mut all: cpu_set_t = zeroed();
            places.iter().for_each(|place| libc::CPU_SET(*place as usize, &mut all));
            all
        }
    }

    #[test]
    fn one_reading_changes_nothing() {
        let mut state = State::default();
        let mut read = |full: bool| {
            if let Some(measured) = &mut state.measured {
                measured.0 -= EVERY;
            }
            state.is_full(|| full)
        };
        assert_eq!(
            [true, false, true, true, false, true, false, false].map(&mut read),
            [false, false, false, true, true, true, true, false]
        );
        // Read just now, however long this thread has not run since.
        state.measured.as_mut().unwrap().0 = Instant::now() + Duration::from_secs(3600);
        assert!(!state.is_full(|| panic!("asked again at once")));
    }
}
