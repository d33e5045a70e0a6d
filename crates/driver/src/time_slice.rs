//! The time slice of a thread whose processor is shared.
//!
//! Linux runs the thread whose slice ends first, and a thread that wakes starts a new one. A computing thread is
//! somewhere in its slice, and keeps the processor until that has ended and a timer tick occurs: milliseconds. Since
//! Linux 6.12 a thread may request shorter slices, and one that wakes with a shorter one need not wait
//! (`Documentation/scheduler/sched-eevdf.rst`). Its share of the processor does not grow.

use core::mem::zeroed;

use libc::{SCHED_OTHER, SYS_sched_getattr, SYS_sched_setattr, sched_attr, syscall};

/// The shortest slice, in nanoseconds.
const SHORTEST_NS: u64 = 100_000;

/// Requests short slices for the calling thread. Returns whether the system has accepted; not if the thread was given
/// another scheduling class. Systems before Linux 6.12 accept it and do nothing.
pub fn shorten_slice() -> bool {
    let Some(mut attributes) = attributes() else { return false };
    if attributes.sched_policy != SCHED_OTHER as u32 {
        return false;
    }
    attributes.sched_runtime = SHORTEST_NS;
    // SAFETY: Reads the attributes during the call alone, with their size.
    unsafe { syscall(SYS_sched_setattr, 0, &raw const attributes, 0) == 0 }
}

/// The scheduling attributes of the calling thread.
fn attributes() -> Option<sched_attr> {
    let size = size_of::<sched_attr>();
    // SAFETY: Numbers, of which zero is one; the call writes at most `size` bytes of them.
    unsafe {
        let mut attributes: sched_attr = zeroed();
        (syscall(SYS_sched_getattr, 0, &raw mut attributes, size, 0) == 0).then_some(attributes)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_thread_keeps_its_class_and_its_share() {
        thread::spawn(|| {
            let before = attributes().unwrap();
            assert!(shorten_slice());
            let after = attributes().unwrap();
            assert_eq!((after.sched_policy, after.sched_nice), (before.sched_policy, before.sched_nice));
            // Systems before Linux 6.12 do not report it.
            assert!([0, SHORTEST_NS].contains(&after.sched_runtime), "{}", after.sched_runtime);
            assert!(shorten_slice(), "once more");
        })
        .join()
        .unwrap();
    }
}
