//! The calls of a team and its windows, one at a time; and the NIC's thread, which runs their machines while the
//! application makes none.
//!
//! The NIC's thread places what other ranks write, and answers what they read, while no thread of the application is in
//! a call. But messages of a window (small puts in epochs of fences) are for the window's machine. So that a rank which
//! makes no call is served as well, the NIC's thread runs it when it finds completions that no call takes.

use core::fmt;
use core::ops::Deref;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use core::time::Duration;
use std::sync::{Arc, Condvar, Mutex as StdMutex, PoisonError, Weak};

use parking_lot::{Mutex, ReentrantMutex, ReentrantMutexGuard};
use weft_base::{Clock as _, Time, Waker};
use weft_driver::MonotonicClock;
use weft_nic::Background;

use super::core::Core;
use crate::endpoint::EventQueue;
use crate::verbs::Opened;

/// How long completions wait for a call of the application, at least and at most: one that takes part in the epoch
/// takes them itself, a moment later.
const SHORTEST: Duration = Duration::from_micros(500);
const LONGEST: Duration = Duration::from_millis(8);
/// How long they wait in all, while such calls come.
const ALTOGETHER: Duration = Duration::from_millis(64);
/// Completions that the NIC's thread takes before calls get their turn.
const MOST: usize = 256;

/// What a team and its windows share, for one thread at a time.
pub(super) struct Gate {
    rank: usize,
    size: usize,
    /// Threads only try it. They sleep at `turn`, whose lock is the standard library's: `parking_lot` would name them
    /// in a child by fork, which does not have them.
    core: ReentrantMutex<Core>,
    turn: (StdMutex<()>, Condvar),
    /// Threads that sleep until they get their turn, or are about to.
    waiting: AtomicUsize,
    /// Its completions.
    events: EventQueue,
    opened: Arc<Opened>,
    /// Calls that have begun. Written by the thread that holds `core`.
    begun: AtomicU64,
    /// Completions have come since a call ended, or in one.
    has_arrived: AtomicBool,
    /// The NIC's thread comes again by itself: it waits for a call first.
    waits: AtomicBool,
    /// A call has panicked: the next one of the application shows what is left, the NIC's thread keeps away.
    has_failed: AtomicBool,
    clock: MonotonicClock,
    patience: Mutex<Patience>,
    /// How often the NIC's thread has served it.
    served: AtomicU64,
}

impl Gate {
    fn enter(&self) -> Inside<'_> {
        let core = self.core.try_lock().unwrap_or_else(|| self.wait());
        self.begun.store(self.begun.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        self.inside(core)
    }

    fn inside<'a>(&'a self, core: ReentrantMutexGuard<'a, Core>) -> Inside<'a> {
        Inside { core, _leaving: Leaving { gate: self, panics: std::thread::panicking() } }
    }

    #[cold]
    fn wait(&self) -> ReentrantMutexGuard<'_, Core> {
        let (lock, left) = &self.turn;
        let mut turn = lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let core = loop {
            if let Some(core) = self.core.try_lock() {
                break core;
            }
            turn = left.wait(turn).unwrap_or_else(PoisonError::into_inner);
        };
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        core
    }
}

/// Wakes what serves the team when it has a completion. The team's queue has this, and the team has the queue.
struct Bell(Weak<Gate>);

impl Waker for Bell {
    fn wake(&self) {
        if let Some(gate) = self.0.upgrade() {
            gate.note_completion();
        }
    }
}

impl Gate {
    /// A completion is there. A thread that is in a call takes it.
    fn note_completion(&self) {
        if !self.has_arrived.load(Ordering::Relaxed) {
            self.has_arrived.store(true, Ordering::SeqCst);
        }
        fence(Ordering::SeqCst);
        if !self.core.is_locked() {
            self.call();
        }
    }

    /// Calls for the NIC's thread, unless it comes anyway.
    fn call(&self) {
        if !self.waits.load(Ordering::SeqCst) {
            self.opened.nic.call_background();
        }
    }
}

impl Background for Gate {
    fn serve(&self) -> Option<Duration> {
        self.waits.store(false, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if self.has_failed.load(Ordering::Relaxed) || self.events.is_empty() {
            self.patience.lock().taken();
            return None;
        }
        // A call in progress takes them, or calls for this when it ends.
        self.has_arrived.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if self.core.is_locked() {
            self.patience.lock().taken();
            return None;
        }
        let (begun, now) = (self.begun.load(Ordering::Relaxed), self.clock.now());
        if let Some(wait) = self.patience.lock().wait(begun, now) {
            // Ranks that share processors would wake this thread for each message, beside a call that comes for them.
            self.waits.store(true, Ordering::SeqCst);
            return Some(wait);
        }
        let inside = self.inside(self.core.try_lock()?);
        self.served.fetch_add(1, Ordering::Relaxed);
        self.patience.lock().served();
        inside.drain_some(MOST).then_some(Duration::ZERO)
    }
}

/// How long completions have waited for a call.
#[derive(Debug)]
struct Patience {
    /// How long the first wait is.
    first: Duration,
    /// Calls that had begun when the wait did, when it ends, and how long it is.
    wait: Option<(u64, Time, Duration)>,
    /// When the first wait of those in a row began.
    since: Time,
}

impl Default for Patience {
    fn default() -> Self {
        Self { first: SHORTEST, wait: None, since: Time::ZERO }
    }
}

impl Patience {
    /// Calls take the completions, or a call is in progress: the next ones wait for longer.
    fn taken(&mut self) {
        if self.wait.take().is_some() {
            self.first = (2 * self.first).min(LONGEST);
        }
    }

    /// No call has come for them: the next ones wait for less.
    fn served(&mut self) {
        self.first = (self.first / 2).max(SHORTEST);
    }

    /// How long to wait on; `None`: no call has begun for long enough. While calls come, the waits become longer.
    fn wait(&mut self, begun: u64, now: Time) -> Option<Duration> {
        let next = match self.wait {
            Some((before, until, _)) if before == begun && until <= now => {
                self.wait = None;
                return None;
            }
            Some((before, until, _)) if before == begun => return Some(until.since(now)),
            Some(_) if now.since(self.since) >= ALTOGETHER => {
                self.wait = None;
                return None;
            }
            Some((.., wait)) => (2 * wait).min(LONGEST),
            None => {
                self.since = now;
                self.first
            }
        };
        self.wait = Some((begun, now + next, next));
        Some(next)
    }
}

/// A call, as long as this is there.
pub(super) struct Inside<'a> {
    // Before the other one, which is dropped behind the lock.
    core: ReentrantMutexGuard<'a, Core>,
    _leaving: Leaving<'a>,
}

impl Deref for Inside<'_> {
    type Target = Core;

    fn deref(&self) -> &Core {
        &self.core
    }
}

struct Leaving<'a> {
    gate: &'a Gate,
    /// The thread had panicked before.
    panics: bool,
}

impl Drop for Leaving<'_> {
    /// Completions that came during the call, and that it did not take, are for the NIC's thread.
    fn drop(&mut self) {
        let gate = self.gate;
        if std::thread::panicking() && !self.panics {
            gate.has_failed.store(true, Ordering::Relaxed);
        }
        weft_lock::fence_behind_lock();
        if gate.waiting.load(Ordering::SeqCst) > 0 {
            // A thread that was refused the core sleeps once this lock is taken.
            drop(gate.turn.0.lock().unwrap_or_else(PoisonError::into_inner));
            gate.turn.1.notify_one();
        }
        if gate.has_arrived.load(Ordering::Relaxed)
            && !gate.core.is_locked()
            && gate.has_arrived.swap(false, Ordering::SeqCst)
            && !gate.events.is_empty()
        {
            gate.call();
        }
    }
}

/// A team, as one of those who use it: the application's team, or a window of it. With the last one the NIC's thread
/// releases it.
#[derive(Clone)]
pub(super) struct Handle {
    // Before the gate, which is dropped by the application's thread so.
    _task: Arc<Task>,
    gate: Arc<Gate>,
}

impl Handle {
    pub(super) fn new(core: Core, opened: &Arc<Opened>) -> Self {
        let gate = Arc::new(Gate {
            rank: core.rank,
            size: core.size(),
            events: core.events.clone(),
            core: ReentrantMutex::new(core),
            turn: Default::default(),
            waiting: AtomicUsize::new(0),
            opened: Arc::clone(opened),
            begun: AtomicU64::new(0),
            has_arrived: AtomicBool::new(false),
            waits: AtomicBool::new(false),
            has_failed: AtomicBool::new(false),
            clock: MonotonicClock::default(),
            patience: Mutex::default(),
            served: AtomicU64::new(0),
        });
        gate.events.on_completion(Arc::new(Bell(Arc::downgrade(&gate))));
        let task = Task { gate: Arc::clone(&gate) as _, opened: Arc::clone(opened) };
        opened.nic.add_background(Arc::clone(&task.gate));
        // Completions may have come before.
        gate.note_completion();
        Self { _task: Arc::new(task), gate }
    }

    /// A call begins. Waits for that of another thread.
    pub(super) fn enter(&self) -> Inside<'_> {
        self.gate.enter()
    }

    /// Whether this is the process that made it. In a child by fork a thread that is not there may be in a call.
    pub(super) fn is_owner_process(&self) -> bool {
        self.gate.opened.nic.is_owner_process()
    }

    pub(super) fn rank(&self) -> usize {
        self.gate.rank
    }

    pub(super) fn size(&self) -> usize {
        self.gate.size
    }

    /// How often the NIC's thread has served it.
    pub(super) fn served(&self) -> u64 {
        self.gate.served.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handle({} of {})", self.rank(), self.size())
    }
}

/// What the NIC's thread has of a team.
struct Task {
    gate: Arc<dyn Background>,
    opened: Arc<Opened>,
}

impl Drop for Task {
    fn drop(&mut self) {
        self.opened.nic.remove_background(&self.gate);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::EndpointAttributes;
    use crate::group::Group;
    use crate::verbs::Context;
    use crate::window::{Asserts, Team, WindowOptions};

    /// The queue of completions, the NIC's thread and the windows all know the team.
    #[test]
    fn a_team_is_gone_with_the_last_that_uses_it() {
        let context = Context::open().unwrap();
        let mut group = Group::threads(1).unwrap().remove(0);
        let team = Team::new(&context, &mut group, &EndpointAttributes::at("127.0.0.1:0".parse().unwrap())).unwrap();
        let gate = Arc::downgrade(&team.handle().gate);
        let mut window = team.allocate(8, &WindowOptions::default()).unwrap();
        window.fence(Asserts::default()).unwrap();
        drop(team);
        assert!(gate.upgrade().is_some());
        window.fence(Asserts { no_succeed: true, ..Asserts::default() }).unwrap();
        drop(window);
        assert!(gate.upgrade().is_none());
    }

    #[test]
    fn a_thread_that_waits_for_its_turn_gets_it() {
        let context = Context::open().unwrap();
        let mut group = Group::threads(1).unwrap().remove(0);
        let team = Team::new(&context, &mut group, &EndpointAttributes::at("127.0.0.1:0".parse().unwrap())).unwrap();
        let handle = team.handle().clone();
        let inside = handle.enter();
        let others: Vec<_> = (0..3)
            .map(|_| {
                let handle = handle.clone();
                std::thread::spawn(move || handle.enter().size())
            })
            .collect();
        while handle.gate.waiting.load(Ordering::SeqCst) < 3 {
            std::thread::yield_now();
        }
        drop(handle.enter());
        assert_eq!(handle.gate.waiting.load(Ordering::SeqCst), 3, "the outer call has not ended");
        drop(inside);
        assert!(others.into_iter().all(|other| other.join().unwrap() == 1));
    }

    #[test]
    fn completions_wait_for_calls_and_longer_while_calls_come() {
        let at = |micros: u64| Time::from_nanos(micros * 1000);
        let micros = Duration::from_micros;
        let mut patience = Patience::default();
        assert_eq!(patience.wait(7, at(0)), Some(SHORTEST));
        assert_eq!(patience.wait(7, at(400)), Some(micros(100)));
        assert_eq!(patience.wait(8, at(450)), Some(2 * SHORTEST), "a call has begun, and may take them");
        assert_eq!(patience.wait(8, at(1449)), Some(micros(1)));
        assert_eq!(patience.wait(8, at(1450)), None);
        assert_eq!(patience.wait(8, at(1460)), Some(SHORTEST));
        let last = (9..20).map(|begun| patience.wait(begun, at(1460))).last();
        assert_eq!(last, Some(Some(LONGEST)));
        assert_eq!(patience.wait(20, at(65_459)), Some(LONGEST));
        assert_eq!(patience.wait(21, at(65_460)), None, "they have waited for long enough");
        assert_eq!(patience.wait(21, at(70_000)), Some(SHORTEST));
        patience.taken();
        assert_eq!(patience.wait(21, at(70_000)), Some(2 * SHORTEST), "calls have come in time");
        assert_eq!(patience.wait(21, at(71_000)), None);
        patience.served();
        assert_eq!(patience.wait(21, at(72_000)), Some(SHORTEST));
    }
}
