//! Whether other threads want the processors that this process may use: one answer from the kernel's counts.
//!
//! The kernel counts runnable threads for the whole machine. A process that may use all of it compares that with the
//! processors. One that is pinned to some of them, or whose control group has a quota, learns nothing from it: of 64
//! ranks on 64 cores each sees 64 runnable threads beside the one core that it may use, and has that core for itself.
//! There the times of the caller's own thread tell: for how long it ran, and for how long it was ready to run and
//! waited. Pressure stall information (`/proc/pressure/cpu`) is no help: it is of the machine, or of a control group,
//! which may have other processes in it.

use core::time::Duration;

use weft_base::{ThreadTimes, Time, Watch};

use super::constants::{PRESSURE_EVERY, RUNNABLE_EACH, RUNNABLE_MORE, WAITED_PER_RAN, WAITED_WINDOW};

/// What the NIC's thread knows of the processors.
#[derive(Debug, Default)]
pub(crate) struct Pressure {
    read_at: Option<Time>,
    is_oversubscribed: bool,
    is_full: bool,
    /// This process may use more than one processor.
    has_several: bool,
    /// The last reading alone: one does not change [`Pressure::is_full`].
    was_full: bool,
    /// The caller's thread, when the present window began, and its times then.
    window: Option<(u32, Time, ThreadTimes)>,
}

impl Pressure {
    /// Reads the kernel's counts, unless that was done less than [`PRESSURE_EVERY`] ago. `caller`: the thread that
    /// visited the engine last.
    pub(crate) fn update(&mut self, now: Time, caller: Option<u32>, watch: &dyn Watch) {
        if self.read_at.is_some_and(|at| now.since(at) < PRESSURE_EVERY) {
            return;
        }
        let is_first = self.read_at.replace(now).is_none();
        let run_queue = watch.run_queue();
        let seen = run_queue.is_some_and(|queue| queue.runnable > queue.processors);
        if !is_first && seen == self.was_full {
            self.is_full = seen;
        }
        self.was_full = seen;
        self.has_several = run_queue.is_some_and(|queue| queue.usable > 1);
        self.is_oversubscribed = match run_queue.filter(|queue| queue.usable >= queue.processors) {
            Some(queue) => queue.runnable > RUNNABLE_EACH * queue.processors + RUNNABLE_MORE,
            None => self.caller_waits(now, caller, watch),
        };
    }

    /// Whether threads wait for the processors that this process may use, more than the system can serve soon: a caller
    /// that is away may only wait for its turn.
    pub(crate) fn is_oversubscribed(&self) -> bool {
        self.is_oversubscribed
    }

    /// Whether the machine has more runnable threads than processors, by two readings that agree: what the NIC's thread
    /// takes then it takes from another thread.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Whether the NIC's thread takes a processor from no other thread, by the last reading: where it is in doubt, it
    /// does.
    pub(crate) fn has_room(&self) -> bool {
        self.has_several && !self.was_full
    }

    /// Whether the caller's thread waited for more than half of the last window, and more than [`WAITED_PER_RAN`] times
    /// as long as it ran.
    fn caller_waits(&mut self, now: Time, caller: Option<u32>, watch: &dyn Watch) -> bool {
        let known = self.window.filter(|(thread, ..)| Some(*thread) == caller);
        if known.is_some_and(|(_, begun, _)| now.since(begun) < WAITED_WINDOW) {
            return self.is_oversubscribed;
        }
        let times = caller.and_then(|caller| Some((caller, watch.thread_times(caller)?)));
        self.window = times.map(|(caller, times)| (caller, now, times));
        let (Some((_, begun, before)), Some((_, times))) = (known, times) else { return false };
        let (ran, waited) = (times.ran.saturating_sub(before.ran), times.waited.saturating_sub(before.waited));
        if ran + waited == Duration::ZERO {
            // It waits still, or sleeps: a wait is counted when it ends.
            return self.is_oversubscribed;
        }
        waited > now.since(begun) / 2 && waited > ran.saturating_mul(WAITED_PER_RAN)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use weft_base::RunQueue;

    use super::*;

    /// What the kernel counts now.
    #[derive(Default)]
    struct Kernel {
        run_queue: Mutex<Option<RunQueue>>,
        times: Mutex<Option<ThreadTimes>>,
        readings: Mutex<u32>,
    }

    impl Watch for Kernel {
        fn sleep(&self, _: Option<Duration>) -> bool {
            false
        }

        fn set_packets(&self, _: bool) {}

        fn set_timer(&self, _: Duration) {}

        fn wake(&self) {}

        fn run_queue(&self) -> Option<RunQueue> {
            *self.readings.lock().unwrap() += 1;
            *self.run_queue.lock().unwrap()
        }

        fn thread_times(&self, thread: u32) -> Option<ThreadTimes> {
            self.times.lock().unwrap().filter(|_| thread == CALLER)
        }
    }

    const CALLER: u32 = 7;

    /// A machine in virtual time, with one caller.
    #[derive(Default)]
    struct Machine {
        kernel: Kernel,
        pressure: Pressure,
        now: Time,
    }

    impl Machine {
        /// One with this many runnable threads and processors, of which the process may use some.
        fn with(runnable: usize, processors: usize, usable: usize) -> Self {
            let machine = Self::default();
            *machine.kernel.run_queue.lock().unwrap() = Some(RunQueue { runnable, processors, usable });
            *machine.kernel.times.lock().unwrap() = Some(ThreadTimes::default());
            machine
        }

        /// For a time, of which the caller's thread ran and waited for some milliseconds.
        fn pass(&mut self, ran: u64, waited: u64) -> &mut Self {
            let [ran, waited] = [ran, waited].map(Duration::from_millis);
            if let Some(times) = &mut *self.kernel.times.lock().unwrap() {
                (times.ran, times.waited) = (times.ran + ran, times.waited + waited);
            }
            self.now = self.now + WAITED_WINDOW;
            self.sample()
        }

        fn sample(&mut self) -> &mut Self {
            self.pressure.update(self.now, Some(CALLER), &self.kernel);
            self
        }

        fn is_oversubscribed(&self) -> bool {
            self.pressure.is_oversubscribed()
        }
    }

    /// Runnable threads, processors, those that the process may use, and for how many of 20 ms its caller ran and
    /// waited.
    #[test]
    fn the_table_of_pressure() {
        let rows = [
            ("alone", (1, 2, 2), (20, 0), false),
            ("two each and two: what was measured", (6, 2, 2), (6, 13), false),
            ("more", (7, 2, 2), (20, 0), true),
            ("64 ranks that poll, each pinned to a core of its own", (64, 64, 1), (20, 0), false),
            ("pinned, on a machine that has far more to do than processors", (1000, 64, 1), (20, 0), false),
            ("pinned, beside one that computes", (2, 64, 1), (10, 10), false),
            ("pinned, beside two", (3, 64, 1), (7, 13), false),
            ("pinned, beside three", (4, 64, 1), (5, 15), true),
            ("pinned, and asleep nearly always", (4, 64, 1), (0, 1), false),
            ("a quota that is used up", (4, 64, 4), (4, 16), true),
        ];
        for (name, (runnable, processors, usable), (ran, waited), expected) in rows {
            let mut machine = Machine::with(runnable, processors, usable);
            machine.sample().pass(ran, waited);
            assert_eq!(machine.is_oversubscribed(), expected, "{name}");
        }
    }

    #[test]
    fn a_thread_whose_times_stand_still_changes_nothing() {
        let mut machine = Machine::with(4, 64, 1);
        machine.sample().pass(2, 18);
        assert!(machine.pass(0, 0).is_oversubscribed(), "it waits, and is not counted yet");
        assert!(!machine.pass(20, 0).is_oversubscribed());
        assert!(!machine.pass(0, 0).is_oversubscribed(), "it sleeps");
    }

    #[test]
    fn a_window_is_of_one_thread_and_a_kernel_that_counts_nothing_tells_nothing() {
        let mut machine = Machine::with(4, 64, 1);
        machine.sample().pass(2, 18);
        machine.now = machine.now + PRESSURE_EVERY;
        machine.pressure.update(machine.now, Some(CALLER + 1), &machine.kernel);
        assert!(!machine.is_oversubscribed(), "another thread");
        machine.now = machine.now + PRESSURE_EVERY;
        machine.pressure.update(machine.now, None, &machine.kernel);
        assert!(!machine.is_oversubscribed(), "no caller yet");
        *machine.kernel.times.lock().unwrap() = None;
        *machine.kernel.run_queue.lock().unwrap() = None;
        assert!(!machine.pass(0, 0).is_oversubscribed() && !machine.pass(0, 0).pressure.is_full());
    }

    #[test]
    fn the_kernel_is_asked_once_in_a_while() {
        let mut machine = Machine::with(1, 2, 2);
        for _ in 0..10 {
            machine.sample();
            machine.now = machine.now + PRESSURE_EVERY / 5;
        }
        assert_eq!(*machine.kernel.readings.lock().unwrap(), 2);
    }

    #[test]
    fn one_reading_does_not_make_a_machine_full() {
        let mut machine = Machine::default();
        let mut read = |full: bool| {
            let runnable = if full { 3 } else { 2 };
            *machine.kernel.run_queue.lock().unwrap() = Some(RunQueue { runnable, processors: 2, usable: 2 });
            machine.pass(1, 0).pressure.is_full()
        };
        assert_eq!(
            [true, false, true, true, false, true, false, false].map(&mut read),
            [false, false, false, true, true, true, true, false]
        );
    }
}
