//! What a layer above the NIC does on the NIC's thread: its machine runs there while the application makes no call.

use core::cell::Cell;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use std::sync::Arc;

use weft_base::Time;
use weft_lock::{Mutex, Rank};

/// A task of a layer above the NIC, which the NIC's thread runs between its turns ([`crate::Nic::add_background`]).
pub trait Background: Send + Sync {
    /// Does what is due. The thread holds no engine, so this may post and poll; it must not wait, also not for a thread
    /// that waits in the NIC.
    ///
    /// Returns after how long it must be called again if it is not called for before ([`crate::Nic::call_background`]);
    /// `None`: all is done.
    fn serve(&self) -> Option<Duration>;
}

/// [`Tasks::again_at`]: no task waits for a time.
const NEVER: u64 = u64::MAX;

/// The tasks of a NIC.
pub(crate) struct Tasks {
    tasks: Mutex<Vec<Arc<dyn Background>>>,
    /// One was called for since the thread ran them last.
    is_called: AtomicBool,
    /// When one must run again, as [`Time`] in nanoseconds.
    again_at: AtomicU64,
}

impl Default for Tasks {
    fn default() -> Self {
        let tasks = Mutex::new(Rank::Background, Vec::new());
        Self { tasks, is_called: AtomicBool::new(false), again_at: AtomicU64::new(NEVER) }
    }
}

impl Tasks {
    pub(crate) fn add(&self, task: Arc<dyn Background>) {
        self.tasks.lock().push(task);
    }

    /// Removes a task. When this returns, no thread is in it.
    pub(crate) fn remove(&self, task: &Arc<dyn Background>) {
        self.tasks.lock().retain(|one| !Arc::ptr_eq(one, task));
    }

    /// Calls for the tasks. Returns whether the first worker's thread must be woken: not if they were called for
    /// before, nor by itself.
    pub(crate) fn call(&self) -> bool {
        !self.is_called.swap(true, Ordering::SeqCst) && !self.is_thread(0)
    }

    /// The calling thread is that of the worker with this index from now on.
    pub(crate) fn mark_thread(&self, worker: usize) {
        THREAD.set((core::ptr::from_ref(self).addr(), worker));
    }

    /// Whether the calling thread is that of this worker: where it posts for a task it is no caller.
    pub(crate) fn is_thread(&self, worker: usize) -> bool {
        THREAD.get() == (core::ptr::from_ref(self).addr(), worker)
    }

    /// Whether one was called for.
    #[inline]
    pub(crate) fn are_called(&self) -> bool {
        self.is_called.load(Ordering::SeqCst)
    }

    /// Runs what is due. Returns how long the thread may sleep then, `None`: as long as it likes.
    pub(crate) fn serve(&self, now: Time) -> Option<Duration> {
        let again_at = self.again_at.load(Ordering::Relaxed);
        if !self.are_called() && again_at > now.as_nanos() {
            return (again_at != NEVER).then(|| Duration::from_nanos(again_at - now.as_nanos()));
        }
        self.is_called.store(false, Ordering::SeqCst);
        let mut again: Option<Duration> = None;
        let mut has_ended = false;
        for task in self.tasks.lock().iter() {
            match task.serve() {
                Some(after) => again = Some(again.map_or(after, |soonest| soonest.min(after))),
                None => has_ended = true,
            }
        }
        let at = again.map_or(NEVER, |after| now.as_nanos().saturating_add(after.as_nanos() as u64));
        self.again_at.store(at, Ordering::Relaxed);
        // What it has posted may have changed when the engine must run next.
        if has_ended { Some(Duration::ZERO) } else { again }
    }
}

thread_local! {
    /// Of which NIC this thread is, by the address of its tasks, and which of its workers; 0: of none.
    static THREAD: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::AtomicU32;

    use super::*;

    /// Wants to run again after a while, as often as it is told.
    #[derive(Default)]
    struct Task {
        runs: AtomicU32,
        waits: AtomicU32,
    }

    impl Background for Task {
        fn serve(&self) -> Option<Duration> {
            self.runs.fetch_add(1, Ordering::Relaxed);
            let waits = self.waits.load(Ordering::Relaxed);
            self.waits.store(waits.saturating_sub(1), Ordering::Relaxed);
            (waits > 0).then_some(Duration::from_millis(1))
        }
    }

    #[test]
    fn a_task_runs_when_it_is_called_for_and_when_its_time_has_come() {
        let (tasks, task) = (Tasks::default(), Arc::new(Task::default()));
        let at = |micros: u64| Time::from_nanos(micros * 1000);
        let runs = || task.runs.load(Ordering::Relaxed);
        let held: Arc<dyn Background> = Arc::clone(&task) as _;
        tasks.add(Arc::clone(&held));
        assert_eq!((tasks.serve(at(0)), runs()), (None, 0));

        assert!(tasks.call() && !tasks.call(), "the thread is woken once");
        assert_eq!((tasks.serve(at(0)), runs()), (Some(Duration::ZERO), 1), "the engine runs after it");
        assert_eq!((tasks.serve(at(0)), runs()), (None, 1));

        task.waits.store(1, Ordering::Relaxed);
        assert!(tasks.call());
        assert_eq!(tasks.serve(at(0)), Some(Duration::from_millis(1)));
        assert_eq!((tasks.serve(at(400)), runs()), (Some(Duration::from_micros(600)), 2));
        assert_eq!((tasks.serve(at(1000)), runs()), (Some(Duration::ZERO), 3));

        tasks.remove(&held);
        assert!(tasks.call());
        assert_eq!((tasks.serve(at(2000)), runs()), (None, 3));
    }

    #[test]
    fn only_the_first_workers_thread_need_not_be_woken() {
        let woken_by = |mark: fn(&Tasks)| {
            let tasks = Tasks::default();
            std::thread::scope(|scope| {
                let call = scope.spawn(|| {
                    mark(&tasks);
                    tasks.call()
                });
                call.join().unwrap()
            })
        };
        assert!(!woken_by(|tasks| tasks.mark_thread(0)));
        assert!(woken_by(|tasks| tasks.mark_thread(1)), "another engine's");
        assert!(woken_by(|_| Tasks::default().mark_thread(0)), "another NIC's");
        assert!(woken_by(|_| ()));
    }
}
