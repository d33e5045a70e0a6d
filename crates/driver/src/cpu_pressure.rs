//! How many threads want to run, and for how long a thread has waited for a processor: what the kernel counts. What
//! follows from it is the NIC's to decide.

use core::time::Duration;
use std::fs::File;
use std::io::{Cursor, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread::available_parallelism;

use weft_base::{RunQueue, ThreadTimes};

/// The kernel's count of runnable threads.
pub(crate) struct CpuPressure {
    /// `/proc/loadavg`, if it exists.
    load: Option<File>,
    /// Of the whole machine, as the count is.
    processors: usize,
    /// Of this process.
    usable: usize,
}

impl CpuPressure {
    pub(crate) fn new() -> Self {
        let usable = available_parallelism().map_or(1, usize::from);
        // SAFETY: Takes a number, returns one.
        let all = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
        let processors = usize::try_from(all).unwrap_or(0).max(usable);
        Self { load: File::open("/proc/loadavg").ok(), processors, usable }
    }

    /// Reads the count: a system call of a microsecond.
    pub(crate) fn run_queue(&self) -> Option<RunQueue> {
        let mut text = [0; 64];
        let length = self.load.as_ref()?.read_at(&mut text, 0).ok()?;
        let runnable = runnable(&text[..length])?;
        Some(RunQueue { runnable, processors: self.processors, usable: self.usable })
    }
}

/// The number of the calling thread.
pub(crate) fn thread() -> Option<u32> {
    // SAFETY: Takes nothing, returns a number.
    u32::try_from(unsafe { libc::gettid() }).ok()
}

/// For how long a thread of this process has run and has waited. `None` if it has ended, or the kernel does not count.
/// Allocates nothing: it is called while data moves.
pub(crate) fn thread_times(thread: u32) -> Option<ThreadTimes> {
    let mut path = Cursor::new([0; 64]);
    write!(path, "/proc/self/task/{thread}/schedstat").ok()?;
    let length = usize::try_from(path.position()).ok()?;
    let file = File::open(Path::new(core::str::from_utf8(&path.get_ref()[..length]).ok()?)).ok()?;
    let mut text = [0; 64];
    let length = file.read_at(&mut text, 0).ok()?;
    times(core::str::from_utf8(&text[..length]).ok()?)
}

/// The number before the slash of `0.20 0.18 0.12 1/80 11206` (proc_loadavg(5)).
fn runnable(text: &[u8]) -> Option<usize> {
    let text = core::str::from_utf8(text).ok()?;
    text.split_whitespace().nth(3)?.split('/').next()?.parse().ok()
}

/// The first two numbers of `201305 3589834 2`, in nanoseconds (`Documentation/scheduler/sched-stats.rst`).
fn times(text: &str) -> Option<ThreadTimes> {
    let mut numbers = text.split_whitespace().map(|number| number.parse().ok().map(Duration::from_nanos));
    let (ran, waited) = (numbers.next()??, numbers.next()??);
    Some(ThreadTimes { ran, waited })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_runnable_threads_is_found() {
        assert_eq!(runnable(b"0.20 0.18 0.12 13/80 11206\n"), Some(13));
        for text in [&b""[..], b"0.20 0.18", b"1 2 3 many/80 5", b"\xff\xff"] {
            assert_eq!(runnable(text), None);
        }
    }

    #[test]
    fn a_thread_s_times_are_found() {
        let (ran, waited) = (Duration::from_nanos(201_305), Duration::from_nanos(3_589_834));
        assert_eq!(times("201305 3589834 2\n"), Some(ThreadTimes { ran, waited }));
        for text in ["", "201305", "some avg10=0.00", "-1 2 3"] {
            assert_eq!(times(text), None);
        }
    }

    #[test]
    fn the_kernel_tells() {
        let mut cpu_pressure = CpuPressure::new();
        if let Some(run_queue) = cpu_pressure.run_queue() {
            assert!(run_queue.runnable > 0, "this thread runs");
            assert!((1..=run_queue.processors).contains(&run_queue.usable), "{run_queue:?}");
        }
        cpu_pressure.load = None;
        assert_eq!(cpu_pressure.run_queue(), None);
        let times = thread_times(thread().unwrap());
        assert!(times.is_none_or(|times| times.ran + times.waited > Duration::ZERO), "{times:?}");
        assert_eq!(thread_times(u32::MAX), None, "no thread");
    }

    #[test]
    fn a_process_that_may_use_one_processor_is_told_so() {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let one = crate::cpu_affinity::processor().unwrap();
                crate::cpu_affinity::CpuAffinity::default().pin(Some(one));
                assert_eq!(CpuPressure::new().usable, 1);
            });
        });
    }
}
