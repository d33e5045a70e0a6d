//! A caller that polls shares its core with a thread that computes, in virtual time: what arrives for it is answered as
//! it comes, by the NIC's thread, and not once in a time slice.

use std::sync::Mutex;

use weft_base::RunQueue;

use super::test_guard::TestGuard;
use super::*;
use crate::policy::YieldPolicy;

/// What the thread that computes runs for when the caller yields to it.
const SLICE: Duration = Duration::from_millis(4);
/// From an answer to what follows it.
const ROUND_TRIP: Duration = Duration::from_micros(100);
const EXCHANGES: u32 = 1000;
const POLL: Duration = Duration::from_micros(1);

#[derive(Default)]
struct State {
    now: Time,
    packets_on: bool,
    timer: Option<Time>,
    woken: bool,
    /// When the next packet comes, and how many were answered.
    comes_at: Time,
    answered: u32,
    last_visit: Time,
}

/// The core, and what runs on it.
struct Core {
    state: Mutex<State>,
    handover: Handover<AtomicBool>,
    yields: YieldPolicy,
    /// The NIC's thread need not wait for the end of the slice when it is woken.
    is_prompt: bool,
}

/// The NIC's thread between two sleeps.
#[derive(Default)]
struct Thread {
    pressure: Pressure,
    until: Option<Time>,
}

impl Core {
    fn new(is_adaptive: bool, is_prompt: bool) -> Self {
        Self {
            state: Mutex::default(),
            handover: Handover::new(TakeOver::new(Duration::from_micros(200), is_adaptive), Duration::ZERO),
            yields: YieldPolicy::new(is_adaptive),
            is_prompt,
        }
    }

    fn with<R>(&self, act: impl FnOnce(&mut State) -> R) -> R {
        act(&mut self.state.lock().unwrap())
    }

    fn answer(&self) -> bool {
        self.with(|state| {
            let is_there = state.comes_at <= state.now;
            if is_there {
                (state.answered, state.comes_at) = (state.answered + 1, state.now + ROUND_TRIP);
            }
            is_there
        })
    }

    /// The caller polls until it yields, or for as long as the thread that computes would run if it never does.
    fn run_caller(&self) {
        let end = self.with(|state| state.now) + SLICE;
        loop {
            self.handover.arrive(self);
            let found = self.answer();
            self.with(|state| state.last_visit = state.now);
            self.handover.depart(self);
            let now = self.with(|state| {
                state.now = state.now + POLL;
                state.now
            });
            if found {
                self.yields.found();
            } else if self.yields.is_due() {
                break;
            }
            if now >= end {
                return;
            }
        }
        if self.yields.hands_over() {
            self.handover.step_aside(self);
        }
    }

    /// The other thread computes for a slice.
    fn run_other(&self, thread: &mut Thread) {
        let begun = self.with(|state| state.now);
        let end = begun + SLICE;
        while let Some(at) = self.wakes_at(thread).filter(|at| *at < end) {
            self.with(|state| state.now = if self.is_prompt { at.max(state.now) } else { end });
            self.run_thread(thread);
            if !self.is_prompt {
                break;
            }
        }
        let now = self.with(|state| {
            state.now = state.now.max(end);
            state.now
        });
        self.yields.yielded(now.since(begun), now);
    }

    /// When the NIC's thread is woken next.
    fn wakes_at(&self, thread: &Thread) -> Option<Time> {
        self.with(|state| {
            let packet = state.packets_on.then_some(state.comes_at);
            let woken = state.woken.then_some(state.now);
            [packet, woken, state.timer, thread.until].into_iter().flatten().min()
        })
    }

    fn run_thread(&self, thread: &mut Thread) {
        self.with(|state| (state.woken, state.timer) = (false, None));
        let longest = self.handover.take_over(self, self, &mut thread.pressure);
        thread.until = longest.map(|longest| self.with(|state| state.now) + longest);
    }
}

impl Watch for Core {
    fn sleep(&self, _: Option<Duration>) -> bool {
        false
    }

    fn set_packets(&self, on: bool) {
        self.with(|state| state.packets_on = on);
    }

    fn set_timer(&self, after: Duration) {
        self.with(|state| state.timer = Some(state.now + after));
    }

    fn wake(&self) {
        self.with(|state| state.woken = true);
    }

    fn run_queue(&self) -> Option<RunQueue> {
        // Two ends and two threads that compute, on a host of which each may use one core.
        Some(RunQueue { runnable: 5, processors: 2, usable: 1 })
    }
}

impl EngineSlot for Core {
    type Guard<'a> = TestGuard<'a>;

    fn now(&self) -> Time {
        self.with(|state| state.now)
    }

    fn quiet_for(&self) -> Duration {
        self.with(|state| state.now.since(state.last_visit))
    }

    fn processor(&self) -> Option<u32> {
        None
    }

    fn caller(&self) -> Option<u32> {
        None
    }

    fn try_take(&self) -> Option<TestGuard<'_>> {
        Some(TestGuard { turn: Box::new(|| self.answer()), handover: &self.handover, watch: self })
    }

    fn stopped(&self) -> bool {
        false
    }
}

/// How long the exchanges take, in round trips.
fn round_trips(is_adaptive: bool, is_prompt: bool) -> u128 {
    let core = Core::new(is_adaptive, is_prompt);
    let mut thread = Thread { until: Some(Time::ZERO), ..Thread::default() };
    core.run_thread(&mut thread);
    while core.with(|state| state.answered) < EXCHANGES {
        core.run_caller();
        core.run_other(&mut thread);
    }
    core.with(|state| state.now).since(Time::ZERO).as_nanos() / ROUND_TRIP.as_nanos()
}

#[test]
fn beside_a_thread_that_computes_answers_do_not_wait_for_a_time_slice() {
    let exchanges = u128::from(EXCHANGES);
    let taken = round_trips(true, true);
    assert!(taken <= exchanges * 102 / 100, "{taken} round trips for {exchanges} exchanges");
    let late = round_trips(true, false);
    assert!(late > 10 * exchanges, "a thread that waits for its slice would do as well: {late}");
}
