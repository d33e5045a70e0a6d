//! How calling threads run the event loop, and wait.

use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::sync::Arc;

use weft_base::{Clock, Time};

use super::Nic;
use super::laboratory::Unfinished;
use crate::callback::{self, in_callback};
use crate::ids::Runner;
use crate::lower::Carrier;
use crate::policy::constants::{LONGEST_SLEEP, SLOW_POLL, TURNS_BEFORE_SLEEP};
use crate::policy::{Next, SpinPolicy};
use crate::progress::background::Background;
use crate::progress::worker::Ran;
#[cfg(doc)]
use crate::settings::Progress;
use crate::settings::Settings;

/// What a calling thread does for what it has posted, and when a poll was empty: one choice for the life of a NIC.
pub(super) enum Posting {
    /// It runs the event loop.
    Runs,
    /// It rings for the NIC's thread.
    Rings,
    /// It has a stage of the way out, and rings for the NIC's.
    Laboratory(Unfinished),
}

impl Posting {
    pub(super) fn of(settings: &Settings) -> Self {
        match Unfinished::of(settings) {
            Some(unfinished) => Self::Laboratory(unfinished),
            None if settings.progress.caller_runs() => Self::Runs,
            None => Self::Rings,
        }
    }
}

impl<N: Carrier, C: Clock + Clone> Nic<N, C> {
    /// Called when a poll was empty: does the calling thread's part of a turn. Returns whether anything was done.
    pub fn progress_as_caller(&self) -> bool {
        if !self.is_callable() {
            return false;
        }
        if let Posting::Runs = self.shared.posting {
            return self.progress();
        }
        self.want();
        match &self.shared.posting {
            Posting::Laboratory(unfinished) => self.finish_one(unfinished),
            Posting::Runs | Posting::Rings => false,
        }
    }

    /// The calling thread waits. Threads of the NIC that do all the work spin then; which of them it waits for is not
    /// known.
    fn want(&self) {
        if !matches!(self.shared.posting, Posting::Runs) {
            self.shared.workers.iter().for_each(|worker| worker.want());
        }
    }

    /// Runs the event loop for one turn, if no other thread does. Returns whether anything
    /// was done: nothing is in a callback.
    pub fn progress(&self) -> bool {
        if !self.is_callable() {
            return false;
        }
        let worker = &self.shared.workers[self.home()];
        let progress = worker.visit(Runner::Visitor).is_some_and(|mut engine| engine.turn());
        let common = &self.shared.common;
        if progress {
            common.yields.found();
        } else if common.yields.is_due() {
            worker.yield_core();
        }
        progress
    }

    /// One turn of the engine with this number, if no other thread runs it: for a simulation, in which no thread does.
    /// Returns whether anything was done.
    pub fn progress_of(&self, engine: usize) -> bool {
        let worker = self.shared.workers.get(engine).filter(|_| self.is_callable());
        worker.and_then(|worker| worker.visit(Runner::Visitor)).is_some_and(|mut engine| engine.turn())
    }

    /// A thread is about to sleep on descriptors: something else must run the event loop. With [`Progress::Hybrid`] the
    /// NIC's thread takes over at once. Without such a thread all connections are armed, and the network's own
    /// descriptor becomes readable when one of them has something to do. Does nothing in a callback: the thread that
    /// runs the event loop is in it.
    pub fn watch(&self) {
        if !self.is_callable() {
            return;
        }
        for worker in &self.shared.workers {
            if self.settings().progress.is_automatic() {
                worker.leave();
            } else {
                let mut engine = worker.command();
                // What was kept for others to go out with goes now.
                for _ in 0..TURNS_BEFORE_SLEEP {
                    if !engine.turn() {
                        break;
                    }
                }
                engine.arm_all();
            }
        }
    }

    /// The calling thread has found nothing after [`Nic::watch`], and sleeps next. It may have posted in between, and
    /// so have taken the engine back: nothing runs it then until it counts as away. Hands it over again if that is so.
    /// Returns whether it was. Does nothing in a callback, and where no thread of the NIC takes over.
    pub fn watch_again(&self) -> bool {
        let taken_back = self.is_callable() && self.shared.workers.iter().any(|worker| worker.is_taken_back());
        if taken_back {
            self.watch();
        }
        taken_back
    }

    /// Has the NIC's thread run a task of a layer above, until [`Nic::remove_background`]. It runs when it is called
    /// for, and at the times that it sets. Without such a thread ([`Progress::Caller`]) it never
    /// runs.
    pub fn add_background(&self, task: Arc<dyn Background>) {
        if self.is_callable() {
            self.shared.common.tasks.add(task);
        }
    }

    /// Removes a task. Waits until no thread is in it. In a callback, and in a child by fork, it stays: a thread that
    /// is in it may wait for the engine, or may not be there.
    pub fn remove_background(&self, task: &Arc<dyn Background>) {
        if self.is_callable() {
            self.shared.common.tasks.remove(task);
        }
    }

    /// Calls for the tasks of [`Nic::add_background`]: the NIC's thread runs them when it is awake next. While callers
    /// are in the NIC it checks from time to time whether they are away, so it is woken only where none have been. In
    /// callbacks as well.
    pub fn call_background(&self) {
        let has_thread = self.settings().progress.is_automatic();
        if has_thread && self.is_owner_process() && self.shared.common.tasks.call() && !self.front().is_taken_back() {
            self.front().wake();
        }
    }

    /// Has threads that wait in [`Nic::wait_until`] check again whether they are done: something has changed that the
    /// event loop knows nothing of. In a callback this wakes only those that sleep: the one that runs the callback
    /// checks again after it.
    pub fn nudge(&self) {
        if !self.is_owner_process() {
            return;
        }
        if !in_callback() {
            self.shared.workers.iter().for_each(|worker| drop(worker.command()));
        }
        self.shared.common.event_count.turn();
    }

    /// When something has to happen by itself next: for a simulation, which lets time jump to it. `None` in a callback.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        if !self.is_callable() {
            return None;
        }
        self.shared.workers.iter().filter_map(|worker| worker.command().next_deadline()).min()
    }

    /// Waits until `done`, at most for `timeout` (`None`: for ever), and runs the event loop meanwhile if no other
    /// thread does. Returns whether `done`.
    ///
    /// `done` runs in a callback: it can't use a NIC or an endpoint ([`crate::Completions::complete`] says more). In a
    /// callback this calls `done` once and does not wait.
    pub fn wait_until(&self, timeout: Option<Duration>, mut done: impl FnMut() -> bool) -> bool {
        // In a child by fork `done` might wait for a lock that no thread holds.
        if !self.is_owner_process() {
            return false;
        }
        if in_callback() {
            return done();
        }
        // It is often called under the lock of an engine, so it always counts as a callback: what it may do is always
        // the same.
        let mut done = || callback::run(&mut done);
        if done() {
            return true;
        }
        let mut spin_policy = self.shared.common.spin_policy(timeout);
        let home = self.home();
        let worker = &self.shared.workers[home];
        // With several engines the one to wait for may be another's.
        let may_park = self.shared.workers.len() == 1;
        loop {
            let ran = if self.runs(home) { worker.run(&mut spin_policy, may_park, &mut done) } else { Ran::Busy };
            let over = match ran {
                Ran::Done => Some(true),
                Ran::GaveUp => Some(false),
                Ran::Busy => self.wait_for_others(&mut spin_policy, &mut done),
                Ran::Tired => {
                    worker.leave();
                    self.sleep(&spin_policy, &mut done)
                }
            };
            if let Some(result) = over {
                return result;
            }
        }
    }

    /// As [`Nic::wait_until`], without a limit, for a `done` that uses the engine itself: it is called now and then,
    /// with the time. Not in a callback.
    pub(crate) fn wait_until_slowly(&self, mut done: impl FnMut(Time) -> bool) {
        while !done(self.shared.common.clock.now()) && self.is_callable() {
            self.wait_until(Some(SLOW_POLL), || false);
        }
    }

    /// Waits while another thread runs the loop: polls for a while, then sleeps.
    fn wait_for_others(&self, spin_policy: &mut SpinPolicy<'_>, done: &mut impl FnMut() -> bool) -> Option<bool> {
        if done() {
            return Some(true);
        }
        match spin_policy.after_turn(false, self.shared.common.clock.now()) {
            Next::GiveUp => Some(false),
            Next::Poll => {
                self.want();
                core::hint::spin_loop();
                None
            }
            Next::Sleep(_) => self.sleep(spin_policy, done),
        }
    }

    /// Sleeps until another thread has changed something.
    fn sleep(&self, spin_policy: &SpinPolicy<'_>, done: &mut impl FnMut() -> bool) -> Option<bool> {
        let left =
            spin_policy.left(self.shared.common.clock.now()).map_or(LONGEST_SLEEP, |left| left.min(LONGEST_SLEEP));
        let mut finished = false;
        self.shared.common.event_count.wait(left, || {
            finished = done();
            // A lone engine that no thread runs is this thread's to run.
            let free = self.shared.workers.len() == 1 && self.runs(0) && self.front().is_free();
            finished || free
        });
        finished.then_some(true)
    }
}

/// A number for the calling thread: 0, 1, 2 in the order in which threads call this first.
pub(super) fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: usize = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    NUMBER.with(|number| *number)
}
