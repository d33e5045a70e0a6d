//! The alarm under a model checker: every interleaving, with the reorderings that the memory model allows. A wake that
//! is lost is a deadlock here, which loom reports.

use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use weft_lock::{Alarm, AlarmFlag};

struct Flag(AtomicBool);

impl AlarmFlag for Flag {
    fn load(&self, order: Ordering) -> bool {
        self.0.load(order)
    }

    fn store(&self, value: bool, order: Ordering) {
        self.0.store(value, order);
    }

    fn swap(&self, value: bool, order: Ordering) -> bool {
        self.0.swap(value, order)
    }

    fn fence(order: Ordering) {
        fence(order);
    }
}

/// What a descriptor is: a signal stays until it is drained, and ends a wait.
struct Signal {
    is_set: Mutex<bool>,
    changed: Condvar,
}

impl Signal {
    fn set(&self) {
        *self.is_set.lock().unwrap() = true;
        self.changed.notify_one();
    }

    fn drain(&self) {
        *self.is_set.lock().unwrap() = false;
    }

    fn wait(&self) {
        let mut is_set = self.is_set.lock().unwrap();
        while !*is_set {
            is_set = self.changed.wait(is_set).unwrap();
        }
    }
}

/// A queue as those of completions are: how many wait is published with a release store, and read without a lock.
struct Queue {
    come: AtomicUsize,
    alarm: Alarm<Flag>,
    signal: Signal,
}

impl Queue {
    fn new() -> Arc<Self> {
        let signal = Signal { is_set: Mutex::new(false), changed: Condvar::new() };
        Arc::new(Self { come: AtomicUsize::new(0), alarm: Alarm::new(Flag(AtomicBool::new(false))), signal })
    }

    /// A counter is raised with one atomic operation, by each thread that brings something.
    fn bring(&self) {
        self.come.fetch_add(1, Ordering::Release);
        self.ring();
    }

    /// There is one that brings: it stores.
    fn bring_alone(&self, number: usize) {
        self.come.store(number, Ordering::Release);
        self.ring();
    }

    fn ring(&self) {
        if self.alarm.take() {
            self.signal.set();
        }
    }

    /// As programs sleep on a descriptor: drain, arm, check, sleep.
    fn wait_for(&self, number: usize) {
        while self.come.load(Ordering::Acquire) < number {
            self.signal.drain();
            self.alarm.arm();
            if self.come.load(Ordering::Acquire) < number {
                self.signal.wait();
            }
        }
    }
}

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

#[test]
fn who_waits_for_one_who_stores_is_woken() {
    check(|| {
        let queue = Queue::new();
        let theirs = Arc::clone(&queue);
        let other = thread::spawn(move || (1..=2).for_each(|number| theirs.bring_alone(number)));
        queue.wait_for(2);
        other.join().unwrap();
    });
}

#[test]
fn who_waits_for_two_who_count_is_woken() {
    check(|| {
        let queue = Queue::new();
        let others = [(); 2].map(|()| {
            let theirs = Arc::clone(&queue);
            thread::spawn(move || theirs.bring())
        });
        queue.wait_for(2);
        for other in others {
            other.join().unwrap();
        }
    });
}
