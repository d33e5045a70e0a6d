//! A target that makes no call is served by the NIC's thread, in virtual time: it sleeps once for a stream of messages,
//! and not once for each.

use core::cell::Cell;
use std::sync::Mutex;

use weft_base::RunQueue;

use super::test_guard::TestGuard;
use super::*;
use crate::policy::constants::PRESSURE_EVERY;

const SPIN: Duration = Duration::from_micros(50);
const POLL: Duration = Duration::from_micros(1);

/// A host, and when messages come to it.
struct Target {
    handover: Handover<AtomicBool>,
    state: Mutex<State>,
    run_queue: RunQueue,
}

#[derive(Default)]
struct State {
    now: Time,
    /// When the messages come, the next one last.
    messages: Vec<Time>,
    sleeps: u32,
}

impl Target {
    fn with<R>(&self, act: impl FnOnce(&mut State) -> R) -> R {
        act(&mut self.state.lock().unwrap())
    }

    /// One poll: time passes, and a message that has come is taken.
    fn poll(&self) -> bool {
        self.with(|state| {
            state.now = state.now + POLL;
            let is_there = state.messages.last().is_some_and(|at| *at <= state.now);
            if is_there {
                state.messages.pop();
            }
            is_there
        })
    }
}

impl Watch for Target {
    fn sleep(&self, _: Option<Duration>) -> bool {
        self.with(|state| {
            state.sleeps += 1;
            let next = state.messages.last().copied().unwrap_or(state.now);
            state.now = state.now.max(next);
        });
        true
    }

    fn set_packets(&self, _: bool) {}

    fn set_timer(&self, _: Duration) {}

    fn wake(&self) {}

    fn run_queue(&self) -> Option<RunQueue> {
        Some(self.run_queue)
    }
}

impl EngineSlot for Target {
    type Guard<'a> = TestGuard<'a>;

    fn now(&self) -> Time {
        self.with(|state| state.now)
    }

    fn quiet_for(&self) -> Duration {
        Duration::MAX
    }

    fn processor(&self) -> Option<u32> {
        None
    }

    fn caller(&self) -> Option<u32> {
        None
    }

    fn try_take(&self) -> Option<TestGuard<'_>> {
        Some(TestGuard { turn: Box::new(|| self.poll()), handover: &self.handover, watch: self })
    }

    fn stopped(&self) -> bool {
        self.with(|state| state.messages.is_empty())
    }
}

/// How often the thread sleeps while 1000 messages come, this far apart, with this many runnable threads.
fn sleeps(gap: Duration, runnable: usize, usable: usize) -> u32 {
    let last = Cell::new(Time::ZERO + PRESSURE_EVERY);
    let messages: Vec<_> = (0..1000).map(|_| last.replace(last.get() + gap)).collect();
    let state = State { messages: messages.into_iter().rev().collect(), ..State::default() };
    let target = Target {
        handover: Handover::new(TakeOver::new(Duration::from_micros(200), true), SPIN),
        state: Mutex::new(state),
        run_queue: RunQueue { runnable, processors: 4, usable },
    };
    target.handover.serve(&target, &target);
    target.with(|state| state.sleeps)
}

#[test]
fn a_stream_of_messages_takes_a_few_sleeps() {
    let near = SPIN / 2;
    assert!(sleeps(near, 2, 4) < 10, "{}", sleeps(near, 2, 4));
    assert!(sleeps(near, 9, 4) > 900, "other threads want the processor: {}", sleeps(near, 9, 4));
    assert!(sleeps(near, 2, 1) > 900, "it may have only the caller's: {}", sleeps(near, 2, 1));
    assert!(sleeps(SPIN * 4, 2, 4) > 900, "it is far from one to the next: {}", sleeps(SPIN * 4, 2, 4));
}
