//! A model checker runs the code above with engines, networks and threads that are models. What it must never find is a
//! schedule in which something is to be done, nobody does it, and everybody sleeps: it calls that a deadlock.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use shuttle::sync::atomic::{AtomicBool as ModelBool, AtomicU32 as ModelNumber, Ordering};
use shuttle::sync::{Condvar, Mutex, MutexGuard};
use shuttle::thread;

use super::*;

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
struct System {
    arrived: u32,
    handled: u32,
    /// The connection is armed: what arrives is reported, once.
    armed: bool,
    packets_on: bool,
    timer: bool,
    woken: bool,
    sleeps: u32,
    /// Where the NIC's thread went to run.
    followed: Option<u32>,
}

/// Where the callers run.
const CALLERS: u32 = 3;

#[derive(Default)]
struct World {
    system: Mutex<System>,
    changed: Condvar,
}

impl World {
    fn change<R>(&self, act: impl FnOnce(&mut System) -> R) -> R {
        let result = act(&mut self.system.lock().unwrap());
        self.changed.notify_all();
        result
    }
}

impl Watch for World {
    fn sleep(&self, timeout: Option<Duration>) {
        let mut system = self.system.lock().unwrap();
        system.sleeps += 1;
        loop {
            let packets = system.packets_on && system.armed && system.arrived > system.handled;
            // Time may pass as fast as it likes.
            if packets || system.timer || system.woken || timeout.is_some() {
                system.timer = false;
                system.woken = false;
                return;
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

    fn wake(&self) {
        self.change(|system| system.woken = true);
    }

    fn follow(&self, processor: Option<u32>) -> bool {
        self.change(|system| core::mem::replace(&mut system.followed, processor)) != processor
    }
}

/// A worker, with some part of the protocol left out.
struct Model {
    world: World,
    engine: Mutex<()>,
    handover: Handover<ModelBool>,
    stop: ModelBool,
    looks: ModelNumber,
    left_out: Option<Part>,
}

#[derive(Clone, Copy, PartialEq)]
enum Part {
    /// Who lets go does not recall the thread.
    Depart,
    /// The thread gives up when it finds the engine taken once.
    SecondTry,
}

struct Held<'a> {
    guard: Option<MutexGuard<'a, ()>>,
    model: &'a Model,
}

impl Held<'_> {
    fn handle(&self) -> bool {
        self.model.world.change(|system| {
            let found = system.arrived > system.handled;
            system.handled = system.arrived;
            // Once reported, a connection is looked at.
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

impl Hold for Held<'_> {
    fn turn(&mut self) -> bool {
        let followed = self.model.world.system.lock().unwrap().followed;
        assert!(self.model.left_out.is_some() || followed == Some(CALLERS), "the thread takes others' time");
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

impl Seat for Model {
    type Hold<'a> = Held<'a>;

    fn quiet_for(&self) -> Duration {
        // For some time, callers that have gone look as if they had just been here.
        let looks = self.looks.load(Ordering::SeqCst);
        self.looks.store(looks.saturating_sub(1), Ordering::SeqCst);
        if looks > 0 { Duration::ZERO } else { Duration::MAX }
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
    fn visit(&self) {
        self.handover.arrive(&self.world);
        if let Some(held) = self.try_take() {
            held.handle();
        }
    }
}

/// Packets come, callers come and go; in the end every packet was handled, though nobody calls any more.
fn all_is_handled(callers: usize, packets: u32, left_out: Option<Part>) {
    let model = Arc::new(Model {
        world: World::default(),
        engine: Mutex::new(()),
        handover: Handover::new(Duration::from_micros(200)),
        stop: ModelBool::new(false),
        looks: ModelNumber::new(3),
        left_out,
    });
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
            run(|model| {
                model.visit();
                model.visit();
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
fn nothing_is_left_undone_whoever_comes_and_goes() {
    shuttle::check_random(|| all_is_handled(1, 2, None), 3000);
    shuttle::check_random(|| all_is_handled(2, 2, None), 3000);
    shuttle::check_pct(|| all_is_handled(2, 1, None), 3000, 3);
}

#[test]
fn the_checker_is_not_blind() {
    for part in [Part::Depart, Part::SecondTry] {
        let found = catch_unwind(AssertUnwindSafe(|| {
            // It ends with the first schedule that fails; one in a few thousand does.
            shuttle::check_random(move || all_is_handled(2, 2, Some(part)), 60_000);
        }));
        assert!(found.is_err(), "a hand-over without a part of it went unnoticed");
    }
}

/// A machine with or without a line for its processors.
#[derive(Default)]
struct Machine {
    crowded: AtomicBool,
}

impl Watch for Machine {
    fn sleep(&self, _: Option<Duration>) {}

    fn set_packets(&self, _: bool) {}

    fn set_timer(&self, _: Duration) {}

    fn wake(&self) {}

    fn is_crowded(&self) -> bool {
        self.crowded.get()
    }
}

/// What the thread was told, in order.
#[derive(Default)]
struct Told(std::sync::Mutex<Vec<Option<Duration>>>);

impl Watch for Told {
    fn sleep(&self, _: Option<Duration>) {}

    fn set_packets(&self, _: bool) {}

    fn set_timer(&self, after: Duration) {
        self.0.lock().unwrap().push(Some(after));
    }

    fn wake(&self) {
        self.0.lock().unwrap().push(None);
    }
}

/// The first caller who comes turns off what would wake the thread, so it leaves a timer behind when it lets go: one,
/// not one a visit.
#[test]
fn who_comes_first_leaves_a_timer_behind() {
    let away = Duration::from_micros(200);
    let handover = Handover::<AtomicBool>::new(away);
    let told = Told::default();
    handover.depart(&told);
    assert!(told.0.lock().unwrap().is_empty(), "nobody has come");
    for _ in 0..3 {
        handover.arrive(&told);
        handover.depart(&told);
        assert_eq!(*told.0.lock().unwrap(), [Some(away)]);
    }
    handover.beat();
    handover.depart(&told);
    assert_eq!(*told.0.lock().unwrap(), [Some(away); 2], "who was asked to leaves one too");
}

/// Where callers never run the engine the thread is woken at once instead.
#[test]
fn who_lets_go_wakes_the_thread_where_callers_may_not_be_away() {
    let handover = Handover::<AtomicBool>::new(Duration::ZERO);
    let told = Told::default();
    handover.beat();
    handover.depart(&told);
    handover.depart(&told);
    assert_eq!(*told.0.lock().unwrap(), [None], "once");
}

#[test]
fn looks_become_rarer_while_callers_come_without_a_pause() {
    let us = Duration::from_micros;
    let handover = Handover::<AtomicBool>::new(us(200));
    let patrol = |quiet| handover.patrol(us(quiet), &Machine::default());
    assert_eq!(patrol(1), None, "nobody is here");
    handover.present.set(true);
    assert_eq!(patrol(1), Some(us(200)), "looks cost nothing worth mentioning");
    handover.set_patrol(us(900));
    assert_eq!([1, 5, 60].map(patrol), [Some(us(400)), Some(us(800)), Some(us(900))]);
    assert_eq!(patrol(150), Some(us(50)), "a pause, but not too long");
    assert_eq!(patrol(1), Some(us(900)));
    assert_eq!(patrol(200), None);
    assert_eq!(patrol(1), Some(us(400)), "a long pause: everything begins anew");
}

#[test]
fn who_has_come_without_a_pause_for_long_is_looked_after_more_rarely_still() {
    let us = Duration::from_micros;
    let handover = Handover::<AtomicBool>::new(us(200));
    handover.set_patrol(us(1000));
    handover.present.set(true);
    let mut passed = Duration::ZERO;
    let mut before = Duration::ZERO;
    for _ in 0..200 {
        let next = handover.patrol(us(1), &Machine::default()).expect("somebody is here");
        assert!(next >= before && next <= us(1000).max(passed / 16 + us(200)), "{next:?} after {passed:?}");
        (passed, before) = (passed + next, next);
    }
    assert_eq!(before, us(8000));
    assert_eq!(handover.patrol(us(200), &Machine::default()), None);
    assert_eq!(handover.patrol(us(1), &Machine::default()), Some(us(400)));
}

#[test]
fn where_threads_stand_in_line_callers_may_be_away_for_longer() {
    let handover = Handover::<AtomicBool>::new(Duration::from_micros(200));
    let machine = Machine::default();
    machine.crowded.set(true);
    assert_eq!(handover.patrol(Duration::from_micros(1), &machine), None, "nobody is here");
    handover.present.set(true);
    let quiet = Duration::from_millis(3);
    for quiet in [Duration::ZERO, quiet] {
        assert_eq!(handover.patrol(quiet, &machine), Some(AWAY_IN_A_CROWD - quiet), "and looks are as rare");
    }
    assert_eq!(handover.patrol(AWAY_IN_A_CROWD, &machine), None);
    machine.crowded.set(false);
    assert_eq!(handover.patrol(quiet, &machine), None);
}

#[test]
fn work_found_brings_the_thread_sooner_and_work_not_found_later() {
    let handover = Handover::<AtomicBool>::new(Duration::from_micros(200));
    for _ in 0..10 {
        handover.adapt(true);
    }
    assert_eq!(handover.away(), Duration::from_nanos(SHORTEST_AWAY_NS.into()));
    for _ in 0..10 {
        handover.adapt(false);
    }
    assert_eq!(handover.away(), Duration::from_micros(200));
    let always = Handover::<AtomicBool>::new(Duration::ZERO);
    always.adapt(false);
    assert_eq!(always.away(), Duration::ZERO);
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
}

impl Watch for Noted {
    fn sleep(&self, _: Option<Duration>) {}

    fn set_packets(&self, on: bool) {
        self.packets.set(on);
    }

    fn set_timer(&self, _: Duration) {
        self.timers.fetch_add(1, core::sync::atomic::Ordering::Relaxed);
    }

    fn wake(&self) {}
}

struct OneTurn<'a>(&'a Visited);

impl Hold for OneTurn<'_> {
    fn turn(&mut self) -> bool {
        // The caller finds the engine taken, and goes again.
        self.0.handover.present.set(true);
        true
    }

    fn is_wanted(&self) -> bool {
        false
    }

    fn arm(&mut self) {}

    fn may_sleep(&mut self) -> Result<Option<Duration>, SomethingToDo> {
        Ok(None)
    }

    fn note(&mut self, _: Event) {}
}

impl Drop for OneTurn<'_> {
    fn drop(&mut self) {
        self.0.handover.depart(&self.0.system);
    }
}

impl Seat for Visited {
    type Hold<'a> = OneTurn<'a>;

    fn quiet_for(&self) -> Duration {
        Duration::MAX
    }

    fn processor(&self) -> Option<u32> {
        None
    }

    fn try_take(&self) -> Option<OneTurn<'_>> {
        Some(OneTurn(self))
    }

    fn stopped(&self) -> bool {
        false
    }
}

#[test]
fn the_thread_that_gives_way_to_a_caller_leaves_a_timer_behind() {
    let worker = Visited { handover: Handover::new(Duration::from_micros(200)), system: Noted::default() };
    worker.system.set_packets(true);
    assert_eq!(worker.handover.take_over(&worker, &worker.system), None, "it sleeps until it is needed");
    assert!(!worker.system.packets.get(), "packets are the caller's");
    assert_eq!(worker.system.timers.into_inner(), 1, "else nobody would look when the caller has gone");
}
