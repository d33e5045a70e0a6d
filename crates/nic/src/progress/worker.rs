//! A worker: an engine with its lock, its doorbell, and the thread that runs it while no caller does.

use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use core::time::Duration;
use std::sync::Arc;

use slotmap::DefaultKey;
use weft_base::{Clock, Time, Watch};
use weft_lock::{Mutex, MutexGuard, Rank};
use weft_rdmap::SendRequest;

use crate::counters::Board;
use crate::engine::doorbell::Doorbell;
use crate::engine::{Engine, EngineClient};
use crate::error::PostError;
use crate::ids::Runner;
use crate::lower::Carrier;
use crate::policy::constants::{LONGEST_INTERVAL, TIMERS_PER_INTERVAL};
use crate::policy::{Next, SpinHistory, SpinPolicy, TakeOver, WaiterHint, YieldPolicy};
use crate::progress::background::Tasks;
use crate::progress::handover::{EngineGuard, EngineSlot, Event, Flag as _, Handover, SomethingToDo};
use crate::progress::laboratory::Summons;
use crate::queues::event_count::EventCount;
use crate::queues::queue_pair::QueuePair;
use crate::settings::Settings;

/// No processor, and no thread.
const NONE: u32 = u32::MAX;

/// What the workers of a NIC have in common.
pub(crate) struct Common<C> {
    pub(crate) clock: C,
    pub(crate) settings: Settings,
    pub(crate) event_count: Arc<EventCount>,
    pub(crate) stop: AtomicBool,
    pub(crate) board: Option<Arc<dyn Board>>,
    pub(crate) summons: Summons,
    /// What layers above do on the thread of the first worker.
    pub(crate) tasks: Tasks,
    /// When callers yield.
    pub(crate) yields: YieldPolicy,
    /// Whether it pays that callers poll before they sleep, where there is one engine: with several, one that waits
    /// does not know which of them has what it waits for.
    history: Option<SpinHistory>,
    /// Until when the processors count as oversubscribed for threads that wait, as [`Time`] in nanoseconds.
    oversubscribed_until: AtomicU64,
}

impl<C: Clock> Common<C> {
    pub(crate) fn new(clock: C, settings: Settings, board: Option<Arc<dyn Board>>) -> Self {
        let learns = settings.adaptive && settings.engines == 1 && settings.progress.caller_runs();
        Self {
            clock,
            history: learns.then(SpinHistory::default),
            yields: YieldPolicy::new(settings.adaptive),
            settings,
            event_count: Arc::new(EventCount::default()),
            stop: AtomicBool::new(false),
            board,
            summons: Summons::default(),
            tasks: Tasks::default(),
            oversubscribed_until: AtomicU64::new(0),
        }
    }

    pub(crate) fn spin_policy(&self, timeout: Option<Duration>) -> SpinPolicy<'_> {
        let policy = self.unless_oversubscribed(SpinPolicy::new(self.clock.now(), timeout, self.settings.spin));
        match &self.history {
            Some(history) => policy.by_history(history),
            None => policy,
        }
    }

    fn unless_oversubscribed<'a>(&'a self, policy: SpinPolicy<'a>) -> SpinPolicy<'a> {
        if self.settings.adaptive { policy.unless_oversubscribed(&self.oversubscribed_until) } else { policy }
    }

    /// A caller has made empty polls, or has woken a thread: others may wait for its core.
    #[cold]
    pub(crate) fn yield_core(&self) {
        let before = self.clock.now();
        std::thread::yield_now();
        let now = self.clock.now();
        self.yields.yielded(now.since(before), now);
    }

    /// The spin policy of a NIC's thread. One that takes turns with callers does not poll: the caller computes, perhaps
    /// on this very core. One that does all the work polls while callers wait for it.
    fn thread_spin_policy<'a>(&'a self, waiters: &'a WaiterHint) -> SpinPolicy<'a> {
        let now = self.clock.now();
        let spin = if self.settings.progress.caller_runs() { Duration::ZERO } else { self.settings.spin };
        self.unless_oversubscribed(SpinPolicy::new(now, None, spin)).while_waiters(now, waiters)
    }
}

/// An engine and what stands around it.
pub(crate) struct Worker<N: Carrier, C: Clock, U> {
    pub(crate) index: usize,
    engine: Mutex<Engine<N, C, U>>,
    pub(crate) doorbell: Arc<Doorbell>,
    pub(super) watch: Arc<dyn Watch>,
    pub(super) handover: Handover,
    /// When a caller was here last, as [`Time`] in nanoseconds.
    last_visit: AtomicU64,
    /// On which processor; [`NONE`] if that is not known.
    last_processor: AtomicU32,
    /// Which thread; [`NONE`] if that is not known.
    last_caller: AtomicU32,
    /// The thread runs what layers above have due, and posts for them.
    runs_tasks: AtomicBool,
    /// Whether callers wait for the thread, if it does all the work.
    waiters: WaiterHint,
    pub(crate) common: Arc<Common<C>>,
}

impl<N: Carrier, C: Clock, U: EngineClient> Worker<N, C, U> {
    pub(crate) fn new(
        index: usize,
        engine: Engine<N, C, U>,
        doorbell: Arc<Doorbell>,
        watch: Arc<dyn Watch>,
        common: Arc<Common<C>>,
    ) -> Self {
        let settings = &common.settings;
        let away = if settings.progress.caller_runs() { settings.away } else { Duration::ZERO };
        // A thread that does all the work polls while callers wait for it.
        let lingers = settings.adaptive && settings.progress.caller_runs();
        let spin = if lingers { settings.spin } else { Duration::ZERO };
        Self {
            index,
            engine: Mutex::new(Rank::Engine, engine),
            doorbell,
            watch,
            handover: Handover::new(TakeOver::new(away, settings.adaptive), spin),
            last_visit: AtomicU64::new(0),
            last_processor: AtomicU32::new(NONE),
            last_caller: AtomicU32::new(NONE),
            runs_tasks: AtomicBool::new(false),
            waiters: WaiterHint::default(),
            common,
        }
    }

    /// A calling thread takes the engine, if no thread has it.
    #[inline]
    pub(crate) fn visit(&self, runner: Runner) -> Option<Held<'_, N, C, U>> {
        self.announce();
        let guard = self.engine.try_lock()?;
        let mut held = Held::new(guard, self, runner);
        if self.shares() {
            held.is_heartbeat = held.heartbeat();
        }
        Some(held)
    }

    /// The engine, for a command of a calling thread: the thread that runs the loop lets go of it for us.
    pub(crate) fn command(&self) -> Held<'_, N, C, U> {
        let _commander = self.doorbell.command();
        self.announce();
        let mut held = Held::new(self.engine.lock(), self, Runner::Visitor);
        held.heartbeat();
        // The thread is to see to what follows from the command.
        self.handover.heartbeat();
        held
    }

    /// No calling thread will be here for long.
    pub(crate) fn leave(&self) {
        self.last_processor.store(NONE, Ordering::Relaxed);
        self.handover.leave(&*self.watch);
    }

    /// Whether a calling thread has been here since one left, and a thread of the NIC waits until it is away.
    pub(crate) fn is_taken_back(&self) -> bool {
        self.shares() && self.handover.is_visited()
    }

    /// A calling thread that does not hold the engine yields. Beside a thread that computes it is away for a time slice
    /// then, and the NIC's thread takes over at once.
    #[cold]
    pub(crate) fn yield_core(&self) {
        if self.common.yields.hands_over() && self.shares() {
            self.handover.step_aside(&*self.watch);
        }
        self.common.yield_core();
    }

    /// Ends the sleep of the worker's thread.
    pub(crate) fn wake(&self) {
        self.watch.wake();
    }

    /// Whether no thread runs the engine.
    pub(crate) fn is_free(&self) -> bool {
        !self.engine.is_locked()
    }

    /// A queue pair of this connection has new work: a calling thread does it at once, or rings for the thread that
    /// will.
    pub(crate) fn start_on(&self, connection: DefaultKey, here: bool) {
        if here {
            if let Some(mut engine) = self.visit(Runner::Visitor) {
                engine.send_posted(connection);
                if engine.is_heartbeat {
                    // It keeps the thread away, so it receives as well: it may be a caller that does nothing but post.
                    engine.turn();
                }
                return;
            }
            self.doorbell.ring(connection);
            return self.attend();
        }
        self.waiters.forget();
        self.doorbell.ring(connection);
        let woken = self.doorbell.wake() && !self.common.settings.progress.caller_runs();
        if woken && self.common.yields.is_due_to_woken(self.common.clock.now()) {
            // The thread may be on this very processor, and the caller computes next: without this the work would wait
            // for a tick of the system's clock that finds the caller has had its turn.
            self.common.yield_core();
        }
    }

    /// Posts a short request and starts on it, if no thread has the engine: it passes the queues when nothing is to go
    /// before it ([`Engine::pass_request`]).
    pub(crate) fn post_short(
        &self,
        connection: DefaultKey,
        queue_pair: &Arc<QueuePair>,
        request: &SendRequest,
    ) -> Option<Result<(), PostError>> {
        let mut engine = self.visit(Runner::Visitor)?;
        let posted = engine.pass_request(connection, queue_pair, request).unwrap_or_else(|| {
            queue_pair.submit_one(&engine.registry, request)?;
            engine.send_posted(connection);
            Ok(())
        });
        if engine.is_heartbeat {
            // As in `start_on`.
            engine.turn();
        }
        Some(posted)
    }

    /// A caller waits for what the thread does.
    pub(crate) fn want(&self) {
        self.waiters.polled();
    }

    /// Does what the doorbell was rung for, unless another thread holds the engine: the thread that lets go of it
    /// checks the doorbell.
    fn attend(&self) {
        while self.doorbell.has_rung() {
            // The holder of the engine sees the doorbell when it lets go, or the engine is free for us.
            AtomicBool::fence();
            match self.engine.try_lock() {
                Some(guard) => Held::new(guard, self, Runner::Visitor).attend_doorbell(),
                None => {
                    self.doorbell.wake();
                    return;
                }
            }
        }
    }

    /// Runs the loop as its only runner, until `done`, out of time, another thread wants the engine, or this one should
    /// sleep and may not do so here.
    pub(crate) fn run(&self, spin_policy: &mut SpinPolicy<'_>, may_park: bool, mut done: impl FnMut() -> bool) -> Ran {
        let Some(mut engine) = self.visit(Runner::Waiter) else { return Ran::Busy };
        let yields = &self.common.yields;
        loop {
            let progress = engine.turn();
            if done() {
                spin_policy.found(engine.now());
                return Ran::Done;
            }
            if self.doorbell.is_wanted() {
                return Ran::Busy;
            }
            match spin_policy.after_turn(progress, engine.now()) {
                Next::GiveUp => return Ran::GaveUp,
                Next::Poll if progress => yields.found(),
                Next::Poll if yields.is_due() => {
                    self.common.yield_core();
                    // Others may have had the core for long.
                    engine.read_clock();
                }
                Next::Poll => {}
                Next::Sleep(left) if may_park => {
                    // It may sleep for long, and until that is shown it would not sleep at all.
                    if engine.are_rails_due() {
                        engine.show();
                    }
                    if self.shares() && engine.last_sleep() >= self.handover.policy().away() {
                        self.handover.rest(&*self.watch);
                    }
                    engine.park(left);
                }
                Next::Sleep(_) => return Ran::Tired,
            }
        }
    }

    /// Says that a calling thread is here, if there is a thread that wants to know.
    fn announce(&self) {
        if self.shares() && !self.handover.is_visited() {
            self.announce_first();
        }
    }

    #[cold]
    fn announce_first(&self) {
        // The worker's own thread posts for a layer above: it takes nothing over from itself.
        if !self.common.tasks.is_thread(self.index) {
            self.handover.arrive(&*self.watch);
        }
    }

    /// Whether callers and a thread of the NIC take turns.
    fn shares(&self) -> bool {
        self.common.settings.progress.caller_runs() && self.common.settings.has_thread()
    }

    /// What it costs to set a timer: hardly anything on a machine of its own, many microseconds in some virtual ones.
    fn cost_of_a_timer(&self) -> Duration {
        let once = || {
            let before = self.common.clock.now();
            self.watch.set_timer(self.common.settings.away);
            self.common.clock.now().since(before)
        };
        (0..5).map(|_| once()).min().unwrap_or_default()
    }

    /// What the worker's thread does before any thread may use the NIC.
    pub(crate) fn prepare(&self) {
        // Beside threads that compute, callers' own among them, it works for a short time each time that it is woken.
        self.watch.be_prompt();
        // What locks keep for each thread that ever waits for one is made now, and not while data moves.
        weft_lock::prepare_thread();
    }

    /// The life of the worker's thread, after [`Worker::prepare`].
    pub(crate) fn serve(&self) {
        self.common.tasks.mark_thread(self.index);
        let interval = self.cost_of_a_timer().saturating_mul(TIMERS_PER_INTERVAL).min(LONGEST_INTERVAL);
        self.handover.policy().set_longest_interval(interval);
        if self.common.settings.laboratory.selective_interrupt {
            self.handover.serve_by_calling(self, &*self.watch);
        } else {
            self.handover.serve(self, &*self.watch);
        }
    }
}

/// How [`Worker::run`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ran {
    /// What was waited for is there.
    Done,
    /// The time is up.
    GaveUp,
    /// Another thread has, or wants, the engine.
    Busy,
    /// Nothing came for a while.
    Tired,
}

impl<N: Carrier, C: Clock, U: EngineClient> EngineSlot for Worker<N, C, U> {
    type Guard<'a>
        = WorkerGuard<'a, N, C, U>
    where
        Self: 'a;

    fn now(&self) -> Time {
        self.common.clock.now()
    }

    fn quiet_for(&self) -> Duration {
        self.common.clock.now().since(Time::from_nanos(self.last_visit.load(Ordering::Relaxed)))
    }

    fn processor(&self) -> Option<u32> {
        let processor = self.last_processor.load(Ordering::Relaxed);
        // A thread that does all the work is not to stand behind those that wait for it.
        (processor != NONE && self.shares()).then_some(processor)
    }

    fn caller(&self) -> Option<u32> {
        Some(self.last_caller.load(Ordering::Relaxed)).filter(|caller| *caller != NONE)
    }

    fn try_take(&self) -> Option<WorkerGuard<'_, N, C, U>> {
        let guard = self.engine.try_lock()?;
        let mut held = Held::new(guard, self, Runner::Thread);
        held.read_clock();
        Some(WorkerGuard { spin_policy: self.common.thread_spin_policy(&self.waiters), held, worker: self })
    }

    fn stopped(&self) -> bool {
        self.common.stop.load(Ordering::SeqCst)
    }

    fn serve_above(&self) -> Option<Duration> {
        if self.index > 0 {
            return None;
        }
        self.runs_tasks.store(true, Ordering::Relaxed);
        let sleeps = self.common.tasks.serve(self.now());
        self.runs_tasks.store(false, Ordering::Relaxed);
        sleeps
    }

    fn is_above_due(&self) -> bool {
        self.index == 0 && self.common.tasks.are_called()
    }
}

/// The engine, held by its thread.
pub(crate) struct WorkerGuard<'a, N: Carrier, C: Clock, U: EngineClient> {
    held: Held<'a, N, C, U>,
    worker: &'a Worker<N, C, U>,
    spin_policy: SpinPolicy<'a>,
}

impl<N: Carrier, C: Clock, U: EngineClient> WorkerGuard<'_, N, C, U> {
    /// The engine.
    pub(super) fn engine(&mut self) -> &mut Engine<N, C, U> {
        &mut self.held
    }
}

impl<N: Carrier, C: Clock, U: EngineClient> EngineGuard for WorkerGuard<'_, N, C, U> {
    fn turn(&mut self) -> bool {
        let progress = self.held.turn();
        matches!(self.spin_policy.after_turn(progress, self.held.now()), Next::Poll)
    }

    fn is_wanted(&self) -> bool {
        self.worker.doorbell.is_wanted()
    }

    fn arm(&mut self) {
        self.held.arm_low_water();
    }

    fn may_sleep(&mut self) -> Result<Option<Duration>, SomethingToDo> {
        if !self.worker.doorbell.park() {
            self.worker.doorbell.unpark();
            return Err(SomethingToDo);
        }
        if self.worker.shares() && self.worker.common.settings.engines == 1 {
            // A thread that rings can take the engine, so none need be woken for it.
            self.worker.doorbell.unpark();
        }
        Ok(self.held.until_deadline())
    }

    fn note(&mut self, event: Event) {
        let counters = &mut self.held.counters;
        match event {
            Event::Woken => {
                self.worker.doorbell.unpark();
                counters.wake_ups += 1;
            }
            Event::TakenOver => counters.take_overs += 1,
        }
    }
}

/// The engine, held by this thread. Letting go wakes the threads that wait for it.
pub(crate) struct Held<'a, N: Carrier, C: Clock, U: EngineClient> {
    guard: Option<MutexGuard<'a, Engine<N, C, U>>>,
    worker: &'a Worker<N, C, U>,
    runner: Runner,
    /// This visit is the first for a while.
    is_heartbeat: bool,
    /// When it was taken, if the time is measured.
    since: Option<Time>,
}

#[cold]
fn publish<N: Carrier, C: Clock, U: EngineClient>(board: &dyn Board, index: usize, engine: &mut Engine<N, C, U>) {
    board.publish(index, &engine.counters.values());
    engine.note_rails();
}

#[cold]
fn publish_rails<N: Carrier, C: Clock, U: EngineClient>(board: &dyn Board, index: usize, engine: &mut Engine<N, C, U>) {
    board.publish_rails(index, engine.rails_to_show());
}

/// One visit in this many is measured, and counts for all of them.
const MEASURED_VISITS: u32 = 64;

impl<'a, N: Carrier, C: Clock, U: EngineClient> Held<'a, N, C, U> {
    #[inline]
    fn new(mut guard: MutexGuard<'a, Engine<N, C, U>>, worker: &'a Worker<N, C, U>, runner: Runner) -> Self {
        let measured = match runner {
            Runner::Visitor => guard.count_visit().is_multiple_of(MEASURED_VISITS),
            Runner::Waiter | Runner::Thread => true,
        };
        guard.set_runner(runner);
        let since = measured.then(|| worker.common.clock.now());
        // Else a wait would begin at the time of the last visit, and might take itself for a long one.
        since.into_iter().for_each(|now| guard.set_clock(now));
        Self { guard: Some(guard), worker, runner, is_heartbeat: false, since }
    }

    /// Leaves word of this visit for the worker's thread. Returns whether half the time has passed since this was last
    /// answered with yes that callers may be away.
    fn heartbeat(&mut self) -> bool {
        self.read_clock();
        if self.worker.runs_tasks.load(Ordering::Relaxed) && self.worker.common.tasks.is_thread(self.worker.index) {
            return false;
        }
        self.worker.last_visit.store(self.now().as_nanos(), Ordering::Relaxed);
        let away = self.worker.handover.policy().away();
        let due = self.is_heartbeat_due(away / 2);
        if due {
            self.note_processor();
            let caller = self.worker.watch.thread().unwrap_or(NONE);
            self.worker.last_caller.store(caller, Ordering::Relaxed);
        }
        due
    }

    fn note_processor(&self) {
        let processor = self.worker.watch.processor().unwrap_or(NONE);
        self.worker.last_processor.store(processor, Ordering::Relaxed);
    }

    /// Whether this visit is the first for a while.
    pub(crate) fn is_heartbeat(&self) -> bool {
        self.is_heartbeat
    }

    /// Shows on the board what is to be shown.
    #[inline]
    fn show(&mut self) {
        let worker = self.worker;
        let Some(board) = &worker.common.board else { return };
        if self.is_show_due() {
            publish(&**board, worker.index, self);
        }
        if self.are_rails_due() {
            publish_rails(&**board, worker.index, self);
        }
    }

    /// Counts the time of a visit that is measured.
    #[cold]
    fn settle(&mut self, since: Time) {
        let now = self.worker.common.clock.now();
        if self.runner == Runner::Waiter {
            self.worker.last_visit.store(now.as_nanos(), Ordering::Relaxed);
            self.note_processor();
        }
        let held = now.since(since).saturating_sub(self.take_slept());
        let nanoseconds = held.as_nanos() as u64;
        match self.runner {
            Runner::Visitor => self.counters.caller_ns += nanoseconds * u64::from(MEASURED_VISITS),
            Runner::Waiter => self.counters.caller_ns += nanoseconds,
            Runner::Thread => self.counters.thread_ns += nanoseconds,
        }
    }
}

impl<N: Carrier, C: Clock, U: EngineClient> Deref for Held<'_, N, C, U> {
    type Target = Engine<N, C, U>;

    fn deref(&self) -> &Engine<N, C, U> {
        self.guard.as_ref().expect("held until it is dropped")
    }
}

impl<N: Carrier, C: Clock, U: EngineClient> DerefMut for Held<'_, N, C, U> {
    fn deref_mut(&mut self) -> &mut Engine<N, C, U> {
        self.guard.as_mut().expect("held until it is dropped")
    }
}

impl<N: Carrier, C: Clock, U: EngineClient> Drop for Held<'_, N, C, U> {
    fn drop(&mut self) {
        if let Some(since) = self.since {
            self.settle(since);
        }
        self.show();
        let worker = self.worker;
        if let Some(guard) = self.guard.take() {
            if worker.doorbell.is_wanted() {
                MutexGuard::unlock_fair(guard);
            } else {
                drop(guard);
            }
        }
        worker.common.event_count.turn_behind_lock();
        worker.handover.depart(&*worker.watch);
        if worker.doorbell.has_rung() && worker.common.settings.progress.caller_runs() {
            worker.attend();
        }
    }
}
