//! The queues under a model checker: every interleaving, with the reorderings that the memory model allows. What is
//! checked is the code itself, made of loom's locks and atomics. A wake that is lost is a deadlock here, which loom
//! reports.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::drop_non_drop,
    clippy::duplicate_mod,
    reason = "the files are here a second time, and the models use a part of them"
)]

#[path = "completion_queue.rs"]
mod completion_queue;
#[path = "event_count.rs"]
mod event_count;

use core::sync::atomic::Ordering;
use core::time::Duration;

use loom::sync::Arc;
use loom::sync::atomic::AtomicBool;
use loom::thread;
use weft_base::Waker;
use weft_rdmap::{Completion, CompletionKind, Status};

use self::completion_queue::{Arm, CompletionQueue, QueuePairNumber, WorkCompletion};
use self::event_count::EventCount;

mod sync {
    pub(super) use loom::sync::atomic::{AtomicU8, AtomicUsize, fence};
    pub(super) use loom::sync::{Condvar, Mutex as PlainMutex, MutexGuard as PlainGuard};

    /// The order of locks is kept for each thread of the operating system, and loom's threads share one.
    #[derive(Clone, Copy)]
    pub(super) enum Rank {
        CompletionEntries,
        CompletionEvent,
        EventCount,
    }

    /// What a processor does to let go of a lock is not loom's to know.
    pub(super) fn fence_behind_lock() {
        fence(core::sync::atomic::Ordering::SeqCst);
    }

    pub(super) struct Entered;

    impl Rank {
        pub(super) const fn enter(self) -> Entered {
            Entered
        }
    }

    pub(super) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(super) fn new(_: Rank, value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub(super) fn lock(&self) -> PlainGuard<'_, T> {
            self.0.lock().expect("nobody panics while it is locked")
        }
    }
}

/// A sleep in a model ends only by a wake.
const FOR_EVER: Duration = Duration::MAX;

/// What a descriptor is: a signal stays, and ends a wait.
#[derive(Default)]
struct Signal {
    is_set: sync::PlainMutex<bool>,
    changed: sync::Condvar,
}

impl Waker for Signal {
    fn wake(&self) {
        *self.is_set.lock().unwrap() = true;
        self.changed.notify_one();
    }
}

impl Signal {
    fn wait(&self) {
        let mut is_set = self.is_set.lock().unwrap();
        while !*is_set {
            is_set = self.changed.wait(is_set).unwrap();
        }
        *is_set = false;
    }
}

fn explore(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

fn completion(id: u64, solicited: bool) -> WorkCompletion {
    let completion = Completion {
        id,
        kind: CompletionKind::Receive,
        status: Status::Success,
        length: 0,
        immediate: None,
        invalidated: None,
        solicited,
    };
    WorkCompletion { queue_pair: QueuePairNumber(1), completion }
}

fn queue(capacity: usize) -> (Arc<CompletionQueue>, std::sync::Arc<EventCount>) {
    let event_count = std::sync::Arc::new(EventCount::default());
    (Arc::new(CompletionQueue::new(capacity, std::sync::Arc::clone(&event_count))), event_count)
}

#[test]
fn a_change_is_not_missed_by_a_thread_that_goes_to_sleep() {
    explore(|| {
        let shared = Arc::new((EventCount::default(), AtomicBool::new(false)));
        let theirs = Arc::clone(&shared);
        let changer = thread::spawn(move || {
            theirs.1.store(true, Ordering::Release);
            theirs.0.turn();
        });
        while !shared.1.load(Ordering::Acquire) {
            shared.0.wait(FOR_EVER, || shared.1.load(Ordering::Acquire));
        }
        changer.join().unwrap();
    });
}

#[test]
fn one_turn_wakes_all_that_sleep() {
    explore(|| {
        let shared = Arc::new((EventCount::default(), AtomicBool::new(false)));
        let sleepers = [(); 2].map(|()| {
            let theirs = Arc::clone(&shared);
            thread::spawn(move || {
                while !theirs.1.load(Ordering::Acquire) {
                    theirs.0.wait(FOR_EVER, || theirs.1.load(Ordering::Acquire));
                }
            })
        });
        shared.1.store(true, Ordering::Release);
        shared.0.turn();
        sleepers.into_iter().for_each(|sleeper| sleeper.join().unwrap());
    });
}

#[test]
fn completions_wake_a_thread_that_sleeps_until_the_queue_has_some() {
    explore(|| {
        let (queue, event_count) = queue(2);
        let theirs = Arc::clone(&queue);
        let engine = thread::spawn(move || {
            for id in 0..2 {
                assert!(theirs.reserve(1));
                theirs.push(completion(id, false));
            }
        });
        for id in 0..2 {
            let taken = loop {
                if let Some(taken) = queue.take() {
                    break taken;
                }
                event_count.wait(FOR_EVER, || !queue.is_empty());
            };
            assert_eq!(taken.completion.id, id);
        }
        engine.join().unwrap();
        assert!(queue.is_empty() && queue.reserve(2));
    });
}

#[test]
fn a_thread_that_arms_and_then_polls_is_woken_by_the_next_completion() {
    for arm in [Arm::Any, Arm::Solicited] {
        explore(move || {
            let (queue, _) = queue(2);
            let signal = std::sync::Arc::new(Signal::default());
            let event: std::sync::Arc<dyn Waker> = signal.clone();
            queue.set_event(event);
            assert!(queue.reserve(2));
            let theirs = Arc::clone(&queue);
            let engine = thread::spawn(move || {
                for id in 0..2 {
                    theirs.push(completion(id, true));
                }
            });
            let mut next = 0;
            while next < 2 {
                queue.arm(arm);
                let Some(taken) = queue.take() else {
                    signal.wait();
                    continue;
                };
                assert_eq!(taken.completion.id, next);
                next += 1;
            }
            engine.join().unwrap();
        });
    }
}

#[test]
fn places_are_given_once_and_come_back_once() {
    explore(|| {
        let (queue, _) = queue(1);
        let posters = [0, 1].map(|id| {
            let theirs = Arc::clone(&queue);
            thread::spawn(move || {
                let has_place = theirs.reserve(1);
                if has_place {
                    theirs.push(completion(id, false));
                }
                usize::from(has_place)
            })
        });
        let mut out = Vec::with_capacity(2);
        let mut taken = queue.take_into(&mut out, 2);
        let posted: usize = posters.into_iter().map(|poster| poster.join().unwrap()).sum();
        taken += queue.take_into(&mut out, 2);
        assert!(posted >= 1 && (taken, out.len()) == (posted, posted));
        assert!(queue.is_empty() && queue.take().is_none());
        assert!(queue.reserve(1) && !queue.reserve(1));
    });
}
