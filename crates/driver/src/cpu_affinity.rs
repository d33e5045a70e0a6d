//! The processor that a NIC's thread runs on.

use core::mem::zeroed;
use std::sync::{Mutex, PoisonError};

use libc::{CPU_EQUAL, cpu_set_t, sched_getaffinity, sched_getcpu, sched_setaffinity};

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
pub(crate) struct CpuAffinity(Mutex<Option<Tie>>);

/// A thread that is pinned to one processor.
struct Tie {
    one: cpu_set_t,
    /// Its affinity otherwise.
    all: cpu_set_t,
}

impl CpuAffinity {
    /// Pins the calling thread to this processor, if it is allowed; `None` restores its affinity. Returns whether that
    /// has changed.
    pub(crate) fn pin(&self, wanted: Option<u32>) -> bool {
        let state = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if wanted.is_none() && state.is_none() {
            return false;
        }
        let Some(now) = allowed() else { return false };
        // Another program may have changed its affinity.
        let tie = state.take().filter(|tie| equal(&tie.one, &now));
        let all = tie.as_ref().map_or(now, |tie| tie.all);
        match wanted.and_then(|wanted| only(wanted, &all)) {
            Some(one) if equal(&one, &now) => {
                *state = tie;
                false
            }
            Some(one) if allow(&one) => {
                *state = Some(Tie { one, all });
                true
            }
            _ => tie.is_some() && allow(&all),
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
                assert_eq!((cpu_affinity.pin(Some(place)), here()), (changed, vec![place]));
                assert_eq!(processor(), Some(place));
            }
            assert_eq!((cpu_affinity.pin(None), here()), (all.len() > 1, all.clone()));
            assert!(!cpu_affinity.pin(None), "it is free already");
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
                assert!(!cpu_affinity.pin(Some(wanted)));
                assert_eq!(here(), [place], "{wanted}");
            }
        });
    }

    #[test]
    fn an_affinity_set_by_others_stays() {
        apart(|| {
            let (all, cpu_affinity) = (here(), CpuAffinity::default());
            let [first, .., last] = all[..] else { return };
            cpu_affinity.pin(Some(first));
            assert!(allow(&only(last, &allowed_everywhere(&all)).unwrap()));
            assert!(!cpu_affinity.pin(Some(first)) && !cpu_affinity.pin(None));
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
}
