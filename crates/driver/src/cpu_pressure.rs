//! Whether the processors are oversubscribed.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::thread::available_parallelism;

/// Runnable threads above 2 per CPU + 2 mean the machine is oversubscribed. Per CPU: a program and its NIC's thread.
const EACH: usize = 2;
/// For all CPUs together: the system's own work at that moment.
const MORE: usize = 2;

/// The kernel's count of runnable threads.
pub(crate) struct CpuPressure {
    /// `/proc/loadavg`, if it exists.
    load: Option<File>,
    /// Of the whole machine, as the count is.
    processors: usize,
    /// The maximum number of runnable threads without pressure.
    most: usize,
}

impl CpuPressure {
    pub(crate) fn new() -> Self {
        let mine = available_parallelism().map_or(1, usize::from);
        // SAFETY: Takes a number, returns one.
        let all = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
        let processors = usize::try_from(all).unwrap_or(0).max(mine);
        Self { load: File::open("/proc/loadavg").ok(), processors, most: EACH * mine + MORE }
    }

    /// Whether there are more runnable threads than [`EACH`] per processor of this process plus [`MORE`]. A system call
    /// of a microsecond.
    pub(crate) fn is_there(&self) -> bool {
        self.running().is_some_and(|running| running > self.most)
    }

    /// Whether there are more runnable threads than the machine has processors. Costs the same.
    pub(crate) fn is_full(&self) -> bool {
        self.running().is_some_and(|running| running > self.processors)
    }

    fn running(&self) -> Option<usize> {
        let mut text = [0; 64];
        let length = self.load.as_ref()?.read_at(&mut text, 0).ok()?;
        running(&text[..length])
    }
}

/// The number before the slash of `0.20 0.18 0.12 1/80 11206` (proc_loadavg(5)).
fn running(text: &[u8]) -> Option<usize> {
    let text = core::str::from_utf8(text).ok()?;
    text.split_whitespace().nth(3)?.split('/').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_running_threads_is_found() {
        assert_eq!(running(b"0.20 0.18 0.12 13/80 11206\n"), Some(13));
        for text in [&b""[..], b"0.20 0.18", b"1 2 3 many/80 5", b"\xff\xff"] {
            assert_eq!(running(text), None);
        }
    }

    #[test]
    fn the_kernel_tells() {
        // This thread runs.
        let mut cpu_pressure = CpuPressure { most: 0, ..CpuPressure::new() };
        assert!(cpu_pressure.load.is_none() || cpu_pressure.is_there());
        cpu_pressure.most = usize::MAX;
        assert!(!cpu_pressure.is_there());
        cpu_pressure.processors = usize::MAX;
        assert!(!cpu_pressure.is_full());
        cpu_pressure.load = None;
        (cpu_pressure.most, cpu_pressure.processors) = (0, 0);
        assert!(!cpu_pressure.is_there() && !cpu_pressure.is_full());
    }
}
