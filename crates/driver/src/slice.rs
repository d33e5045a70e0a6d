//! How soon a thread that wakes gets a processor that another one is using.

use core::mem;
use core::time::Duration;

/// The shortest that Linux takes (sched_setattr(2); `kernel/sched/syscalls.c`).
const SHORTEST: Duration = Duration::from_micros(100);

/// `struct sched_attr` in its first form, of 48 bytes, which every kernel takes.
#[repr(C)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// Asks for the shortest time slices for this thread: it works for microseconds when it wakes, and from Linux 6.12 on a thread with a shorter slice may go before one with a
/// longer one at once, without a right of its own. Otherwise it waits until a program that computes has used up its slice, some milliseconds. Older kernels, and threads of other
/// scheduling classes, are left as they are.
pub(crate) fn ask_for_short_slices() {
    const _: () = assert!(mem::size_of::<Attributes>() == 48, "the first form");
    const SIZE: u32 = mem::size_of::<Attributes>() as u32;
    let mut attributes =
        Attributes { size: SIZE, policy: 0, flags: 0, nice: 0, priority: 0, runtime: 0, deadline: 0, period: 0 };
    // SAFETY: Fills the structure, whose size it is told, for the calling thread (0); the last argument are flags, of which there are none.
    let known = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, SIZE, 0) };
    let usual = u32::try_from(libc::SCHED_OTHER).is_ok_and(|policy| policy == attributes.policy);
    if known != 0 || !usual {
        return;
    }
    attributes.runtime = SHORTEST.as_nanos() as u64;
    // SAFETY: Only reads the structure. What it refuses changes nothing.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asking_changes_neither_policy_nor_niceness() {
        std::thread::spawn(|| {
            // SAFETY: Asks about the calling thread.
            let look = || unsafe { (libc::sched_getscheduler(0), libc::getpriority(libc::PRIO_PROCESS, 0)) };
            let before = look();
            ask_for_short_slices();
            assert_eq!(look(), before);
        })
        .join()
        .unwrap();
    }
}
