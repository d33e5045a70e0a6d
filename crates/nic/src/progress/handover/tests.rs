//! A model checker runs the code above with engines, networks and threads that are models. What it must never find is a
//! schedule in which something is to be done, no thread does it, and all sleep: it calls that a deadlock.

use core::sync::atomic::AtomicU32;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use shuttle::sync::atomic::{AtomicBool as ModelBool, AtomicU32 as ModelNumber, Ordering};
use shuttle::sync::{Condvar, Mutex, MutexGuard};
use shuttle::thread;
use weft_base::RunQueue;

use super::test_guard::TestGuard;
use super::*;
use crate::policy::constants::PRESSURE_EVERY;

/// How long callers may be away.
const AWAY: Duration = Duration::from_micros(200);

impl Flag for ModelBool {
    fn new(value: bool) -> Self {
        Self::new(value)
    }

    fn get(&self) -> bool {
        self.load(Ordering::SeqCst)
    }

    fn set(&self, value: bool) {
        self.store(value, Ordering::SeqCst);
    }

    fn swap(&self, value: bool) -> bool {
        Self::swap(self, value, Ordering::SeqCst)
    }
}

/// What the operating system knows.
#[derive(Default)]
pub(in crate::progress) struct System {
    pub(in crate::progress) arrived: u32,
    pub(in crate::progress) handled: u32,
    /// The connection is armed: what arrives is reported, once.
    armed: bool,
    packets_on: bool,
    timer: bool,
    woken: bool,
    sleeps: u32,
    /// The application was called, or shall end.
    pub(in crate::progress) called: bool,
    pub(in crate::progress) ended: bool,
    /// Where the NIC's thread went to run.
    pinned: Option<u32>,
    /// How often it was asked how many threads are runnable: always more than there are processors.
    readings: u32,
}

/// Where the callers run.
const CALLERS: u32 = 3;

#[derive(Default)]
pub(in crate::progress) struct World {
    pub(in crate::progress) system: Mutex<System>,
    pub(in crate::progress) changed: Condvar,
}

impl World {
    pub(in crate::progress) fn change<R>(&self, act: impl FnOnce(&mut System) -> R) -> R {
        let result = act(&mut self.system.lock().unwrap());
        self.changed.notify_all();
        result
    }
}

impl Watch for World {
    fn sleep(&self, timeout: Option<Duration>) -> bool {
        let mut system = self.system.lock().unwrap();
        system.sleeps += 1;
        loop {
            let packets = system.packets_on && system.armed && system.arrived > system.handled;
            // Time may pass as fast as it likes.
            if packets || system.timer || system.woken || timeout.is_some() {
                system.timer = false;
                system.woken = false;
                return packets;
            }
            system = self.changed.wait(system).unwrap();
        }
    }

    fn set_packets(&self, on: bool) {
        self.change(|system| system.packets_on = on);
    }

    fn set_timer(&self, _: Duration) {
        self.change(|system| system.timer = true);
    }

    fn stop_timer(&self) {
        self.change(|system| system.timer = false);
    }

    fn wake(&self) {
        self.change(|system| system.woken = true);
    }

    fn run_queue(&self) -> Option<RunQueue> {
        self.change(|system| system.readings += 1);
        Some(RunQueue { runnable: 3, processors: 2, usable: 2 })
    }

    fn pin(&self, processor: Option<u32>) -> bool {
        self.change(|system| core::mem::replace(&mut system.pinned, processor)) != processor
    }
}

/// A worker, with some part of the protocol left out.
pub(in crate::progress) struct Model {
    pub(in crate::progress) world: World,
    engine: Mutex<()>,
    pub(in crate::progress) handover: Handover<ModelBool>,
    pub(in crate::progress) stop: ModelBool,
    polls: ModelNumber,
    readings: ModelNumber,
    left_out: Option<Part>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::progress) enum Part {
    /// A thread that lets go does not recall the thread.
    Depart,
    /// The thread gives up when it finds the engine taken once.
    SecondTry,
    /// A caller that sleeps in the engine stops the timer, and does not set it when it lets go.
    Rest,
}

pub(in crate::progress) struct Held<'a> {
    guard: Option<MutexGuard<'a, ()>>,
    model: &'a Model,
}

impl Held<'_> {
    fn handle(&self) -> bool {
        self.model.world.change(|system| {
            let found = system.arrived > system.handled;
            system.handled = system.arrived;
            // Once reported, a connection is polled.
            system.armed &= !found;
            found
        })
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        drop(self.guard.take());
        if self.model.left_out != Some(Part::Depart) {
            self.model.handover.depart(&self.model.world);
        }
    }
}

impl EngineGuard for Held<'_> {
    fn turn(&mut self) -> bool {
        let (pinned, readings) = {
            let system = self.model.world.system.lock().unwrap();
            (system.pinned, system.readings)
        };
        // One reading alone does not count.
        let expected = (readings > 1).then_some(CALLERS);
        assert!(self.model.left_out.is_some() || pinned == expected, "the thread takes others' time");
        self.handle()
    }

    fn is_wanted(&self) -> bool {
        false
    }

    fn arm(&mut self) {
        self.model.world.change(|system| system.armed = true);
    }

    fn may_sleep(&mut self) -> Result<Option<Duration>, SomethingToDo> {
        Ok(None)
    }

    fn note(&mut self, _: Event) {}
}

impl EngineSlot for Model {
    type Guard<'a> = Held<'a>;

    fn now(&self) -> Time {
        // Each time late enough for another reading.
        Time::ZERO + PRESSURE_EVERY * (1 + self.readings.fetch_add(1, Ordering::SeqCst))
    }

    fn caller(&self) -> Option<u32> {
        None
    }

    fn quiet_for(&self) -> Duration {
        // For some time, callers that have gone look as if they had just been here.
        let polls = self.polls.load(Ordering::SeqCst);
        self.polls.store(polls.saturating_sub(1), Ordering::SeqCst);
        if polls > 0 { Duration::ZERO } else { Duration::MAX }
    }

    fn processor(&self) -> Option<u32> {
        Some(CALLERS)
    }

    fn try_take(&self) -> Option<Held<'_>> {
        let guard = self.engine.try_lock().ok()?;
        Some(Held { guard: Some(guard), model: self })
    }

    fn stopped(&self) -> bool {
        self.stop.get()
    }
}

impl Model {
    pub(in crate::progress) fn visit(&self) {
        self.handover.arrive(&self.world);
        if let Some(held) = self.try_take() {
            held.handle();
        }
    }

    /// A visit with a long sleep in it.
    fn visit_and_rest(&self) {
        self.handover.arrive(&self.world);
        if let Some(held) = self.try_take() {
            if self.left_out == Some(Part::Rest) {
                self.world.stop_timer();
            } else {
                self.handover.rest(&self.world);
            }
            held.handle();
        }
    }
}

pub(in crate::progress) fn model(left_out: Option<Part>) -> Arc<Model> {
    Arc::new(Model {
        world: World::default(),
        engine: Mutex::new(()),
        handover: Handover::new(TakeOver::new(AWAY, true), PRESSURE_EVERY * 2),
        stop: ModelBool::new(false),
        polls: ModelNumber::new(3),
        readings: ModelNumber::new(0),
        left_out,
    })
}

/// Packets come, callers come and go, and sleep for long at their second visit if they rest; in the end every packet
/// was handled, though no caller comes any more.
fn all_is_handled(callers: usize, packets: u32, rests: bool, left_out: Option<Part>) {
    let model = model(left_out);
    let run = |act: fn(&Model)| {
        let model = Arc::clone(&model);
        thread::spawn(move || act(&model))
    };
    let server = run(|model| {
        if model.left_out == Some(Part::SecondTry) {
            serve_without_second_try(model);
        } else {
            model.handover.serve(model, &model.world);
        }
    });
    let callers: Vec<_> = (0..callers)
        .map(|_| {
            run(if rests {
                |model| {
                    model.visit();
                    model.visit_and_rest();
                }
            } else {
                |model| {
                    model.visit();
                    model.visit();
                }
            })
        })
        .collect();
    for _ in 0..packets {
        model.world.change(|system| system.arrived += 1);
    }
    for caller in callers {
        caller.join().unwrap();
    }
    let mut system = model.world.system.lock().unwrap();
    while system.handled < system.arrived {
        system = model.world.changed.wait(system).unwrap();
    }
    drop(system);
    model.stop.set(true);
    model.world.wake();
    server.join().unwrap();
}

/// The thread as it would be if it gave up at the first refusal.
fn serve_without_second_try(model: &Model) {
    while !model.stopped() {
        model.world.sleep(None);
        if let Some(mut held) = model.try_take() {
            model.handover.present.set(false);
            while held.turn() {}
            held.arm();
            model.world.set_packets(true);
        }
    }
}

#[test]
fn nothing_is_left_undone_whatever_caller_comes_and_goes() {
    for rests in [false, true] {
        shuttle::check_random(move || all_is_handled(1, 2, rests, None), 3000);
        shuttle::check_random(move || all_is_handled(2, 2, rests, None), 3000);
        shuttle::check_pct(move || all_is_handled(2, 1, rests, None), 3000, 3);
    }
}

#[test]
fn the_checker_is_not_blind() {
    for part in [Part::Depart, Part::SecondTry, Part::Rest] {
        let found = catch_unwind(AssertUnwindSafe(|| {
            // It ends with the first schedule that fails; one in a few thousand does.
            if part == Part::Rest {
                shuttle::check_pct(move || all_is_handled(1, 1, true, Some(part)), 60_000, 3);
            } else {
                shuttle::check_random(move || all_is_handled(2, 2, false, Some(part)), 60_000);
            }
        }));
        assert!(found.is_err(), "a hand-over without {part:?} went unnoticed");
    }
}

/// What the thread was told, in order.
#[derive(Default)]
struct Told(std::sync::Mutex<Vec<Option<Duration>>>);

impl Watch for Told {
    fn sleep(&self, _: Option<Duration>) -> bool {
        false
    }

    fn set_packets(&self, _: bool) {}

    fn set_timer(&self, after: Duration) {
        self.0.lock().unwrap().push(Some(after));
    }

    fn stop_timer(&self) {
        self.0.lock().unwrap().push(Some(Duration::ZERO));
    }

    fn wake(&self) {
        self.0.lock().unwrap().push(None);
    }
}

/// The first caller that comes turns off what would wake the thread, so it leaves a timer behind when it lets go: one,
/// not one a visit.
#[test]
fn the_first_caller_leaves_a_timer_behind() {
    let handover = Handover::<AtomicBool>::new(TakeOver::new(AWAY, true), Duration::ZERO);
    let told = Told::default();
    handover.depart(&told);
    assert!(told.0.lock().unwrap().is_empty(), "nobody has come");
    for _ in 0..3 {
        handover.arrive(&told);
        handover.depart(&told);
        assert_eq!(*told.0.lock().unwrap(), [Some(AWAY)]);
    }
    handover.heartbeat();
    handover.depart(&told);
    assert_eq!(*told.0.lock().unwrap(), [Some(AWAY); 2], "who was asked to leaves one too");
}

/// A caller that sleeps for long while it holds the engine stops the timer once, and sets it when it lets go.
#[test]
fn a_caller_that_rests_stops_the_timer_until_it_lets_go() {
    let handover = Handover::<AtomicBool>::new(TakeOver::new(AWAY, true), Duration::ZERO);
    let told = Told::default();
    handover.arrive(&told);
    handover.depart(&told);
    handover.rest(&told);
    handover.rest(&told);
    handover.depart(&told);
    assert_eq!(*told.0.lock().unwrap(), [Some(AWAY), Some(Duration::ZERO), Some(AWAY)]);
}

/// Where callers never run the engine the thread is woken at once instead.
#[test]
fn letting_go_wakes_the_thread_where_callers_may_not_be_away() {
    let handover = Handover::<AtomicBool>::new(TakeOver::new(Duration::ZERO, true), Duration::ZERO);
    let told = Told::default();
    handover.heartbeat();
    handover.depart(&told);
    handover.depart(&told);
    assert_eq!(*told.0.lock().unwrap(), [None], "once");
}

/// A caller that yields to a thread that computes is away for a time slice: the NIC's thread is woken before it.
#[test]
fn a_caller_that_steps_aside_hands_over_but_not_where_the_wake_up_would_do_harm() {
    let handover = Handover::<AtomicBool>::new(TakeOver::new(AWAY, true), Duration::ZERO);
    let told = Told::default();
    let told_so_far = || told.0.lock().unwrap().clone();
    handover.step_aside(&told);
    assert!(told_so_far().is_empty(), "no caller is here");
    handover.arrive(&told);
    handover.policy().set_oversubscribed(true);
    handover.step_aside(&told);
    assert!(told_so_far().is_empty() && handover.is_visited(), "it stays");
    handover.policy().set_oversubscribed(false);
    handover.step_aside(&told);
    assert!(told_so_far() == [None] && !handover.is_visited(), "the thread is woken, and takes over");
    assert_eq!(handover.policy().next_check(handover.is_visited(), Duration::ZERO), None, "at once");
    handover.step_aside(&told);
    assert_eq!(told_so_far(), [None], "once");
}

/// What a rank sees that is pinned to one of 64 processors, beside 63 others that poll on theirs: it was said to be
/// oversubscribed, and its thread took over after 50 ms.
#[test]
fn a_rank_pinned_to_a_processor_of_a_busy_host_is_served_after_the_usual_time() {
    let handover = Handover::new(TakeOver::new(AWAY, true), Duration::ZERO);
    let worker = Visited { handover, system: Noted::default() };
    worker.handover.arrive(&worker.system);
    worker.system.set_packets(true);
    let mut pressure = Pressure::default();
    worker.handover.take_over(&worker, &worker.system, &mut pressure);
    assert!(!pressure.is_oversubscribed());
    assert!(worker.system.turns.into_inner() > 0, "its caller is away, and the thread leaves it at that");
}

/// A worker of one turn, in which a caller comes and goes.
struct Visited {
    handover: Handover<AtomicBool>,
    system: Noted,
}

/// What was asked of the operating system.
#[derive(Default)]
struct Noted {
    timers: AtomicU32,
    packets: AtomicBool,
    turns: AtomicU32,
}

impl Watch for Noted {
    fn sleep(&self, _: Option<Duration>) -> bool {
        false
    }

    fn set_packets(&self, on: bool) {
        self.packets.set(on);
    }

    fn set_timer(&self, _: Duration) {
        self.timers.fetch_add(1, core::sync::atomic::Ordering::Relaxed);
    }

    fn wake(&self) {}

    fn run_queue(&self) -> Option<RunQueue> {
        Some(RunQueue { runnable: 64, processors: 64, usable: 1 })
    }
}

impl EngineSlot for Visited {
    type Guard<'a> = TestGuard<'a>;

    fn now(&self) -> Time {
        Time::ZERO
    }

    fn quiet_for(&self) -> Duration {
        AWAY
    }

    fn processor(&self) -> Option<u32> {
        None
    }

    fn caller(&self) -> Option<u32> {
        None
    }

    fn try_take(&self) -> Option<TestGuard<'_>> {
        let turn = || {
            self.system.turns.fetch_add(1, core::sync::atomic::Ordering::Relaxed);
            // The caller finds the engine taken, and goes again.
            self.handover.present.set(true);
            true
        };
        Some(TestGuard { turn: Box::new(turn), handover: &self.handover, watch: &self.system })
    }

    fn stopped(&self) -> bool {
        false
    }
}

#[test]
fn the_thread_that_gives_way_to_a_caller_leaves_a_timer_behind() {
    let handover = Handover::new(TakeOver::new(AWAY, true), Duration::ZERO);
    let worker = Visited { handover, system: Noted::default() };
    worker.system.set_packets(true);
    let next = worker.handover.take_over(&worker, &worker.system, &mut Pressure::default());
    assert_eq!(next, None, "it sleeps until it is needed");
    assert!(!worker.system.packets.get(), "packets are the caller's");
    assert_eq!(worker.system.timers.into_inner(), 1, "else no thread would poll when the caller has gone");
}
