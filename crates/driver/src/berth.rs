//! Which processor a NIC's thread runs on.

use core::mem::zeroed;
use std::sync::{Mutex, PoisonError};

use libc::{cpu_set_t, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// The processor on which the calling thread runs.
pub(crate) fn processor() -> Option<u32> {
    // SAFETY: Takes nothing, returns a number.
    u32::try_from(unsafe { sched_getcpu() }).ok()
}

/// The place of a thread: where the system lets it run, or on one processor for a time.
#[derive(Default)]
pub(crate) struct Berth {
    /// Where it may run when it is not tied to one.
    free: Mutex<Option<cpu_set_t>>,
}

impl Berth {
    /// While the machine is full, the calling thread runs on this processor alone, if it may at all; else where it ran before.
    pub(crate) fn follow(&self, wanted: Option<u32>, is_full: impl FnOnce() -> bool) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let is_there = wanted == processor();
        if is_there && free.is_none() {
            return;
        }
        match wanted {
            Some(wanted) if is_full() => {
                if !is_there
                    && let Some(all) = free.or_else(allowed)
                    && let Some(one) = only(wanted, &all)
                    && allow(&one)
                {
                    *free = Some(all);
                }
            }
            _ => {
                if let Some(all) = free.take() {
                    allow(&all);
                }
            }
        }
    }
}

/// Where the calling thread may run. `None` if that can't be told: on machines with more processors than the set holds.
fn allowed() -> Option<cpu_set_t> {
    // SAFETY: A set of numbers of which zero is the empty one; the call writes to it alone.
    unsafe {
        let mut set = zeroed();
        (sched_getaffinity(0, size_of::<cpu_set_t>(), &raw mut set) == 0).then_some(set)
    }
}

/// Where it may run from now on. Returns whether it may.
fn allow(set: &cpu_set_t) -> bool {
    // SAFETY: Reads the set during the call alone.
    unsafe { sched_setaffinity(0, size_of::<cpu_set_t>(), set) == 0 }
}

/// This one processor, if it is one of `all`.
fn only(processor: u32, all: &cpu_set_t) -> Option<cpu_set_t> {
    let place = processor as usize;
    if place >= 8 * size_of::<cpu_set_t>() {
        return None;
    }
    // SAFETY: A set of numbers of which zero is the empty one, and a number that has a place there.
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

    #[test]
    fn a_thread_goes_where_it_is_told_and_may_go_anywhere_again() {
        // A thread of its own, for it is that which is moved.
        thread::scope(|scope| {
            scope.spawn(|| {
                let all = places(&allowed().unwrap());
                let berth = Berth::default();
                for &place in all.iter().chain(&all) {
                    berth.follow(Some(place), || true);
                    assert_eq!(processor(), Some(place));
                }
                assert!(all.len() == 1 || places(&allowed().unwrap()).len() == 1);
                berth.follow(all.last().copied(), || false);
                assert_eq!(places(&allowed().unwrap()), all);
                berth.follow(None, || panic!("nobody is followed"));
                assert_eq!(places(&allowed().unwrap()), all);
            });
        });
    }

    #[test]
    fn it_does_not_go_where_it_may_not() {
        thread::scope(|scope| {
            scope.spawn(|| {
                let all = allowed().unwrap();
                let here = processor().unwrap();
                assert!(allow(&only(here, &all).unwrap()));
                let berth = Berth::default();
                for place in places(&all).into_iter().chain([libc::CPU_SETSIZE as u32 - 1, u32::MAX]) {
                    berth.follow(Some(place), || true);
                    assert_eq!((processor(), places(&allowed().unwrap())), (Some(here), vec![here]), "{place}");
                }
            });
        });
    }
}
