//! The calls of a team and its windows, one at a time; and the NIC's thread, which runs their machines while the
//! application makes none.
//!
//! The NIC's thread places what other ranks write, and answers what they read, while no thread of the application is in
//! a call. But messages of a window (small puts in epochs of fences) are for the window's machine. So that a rank which
//! makes no call is served as well, the NIC's thread runs it when it finds completions that no call takes.

use core::fmt;
use core::ops::Deref;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use core::time::Duration;
use std::sync::Arc;

use parking_lot::{Mutex, ReentrantMutex, ReentrantMutexGuard};
use weft_base::{Clock as _, Time, Waker};
use weft_driver::MonotonicClock;
use weft_nic::Background;

use super::core::Core;
use crate::endpoint::EventQueue;
use crate::verbs::Opened;

/// How long completions wait for a call of the application that makes other calls of the NIC, at least and at most: one
/// that takes part in the epoch takes them itself, a moment later.
const SHORTEST: Duration = Duration::from_micros(500);
const LONGEST: Duration = Duration::from_millis(8);
/// Completions that the NIC's thread takes before calls get their turn.
const MOST: usize = 256;

/// What a team and its windows share, for one thread at a time.
pub(super) struct Gate {
    rank: usize,
    size: usize,
    core: ReentrantMutex<Core>,
    /// Its completions.
    events: EventQueue,
    opened: Arc<Opened>,
    /// Calls that have begun. Written by the thread that holds `core`.
    begun: AtomicU64,
    /// Completions have come since a call ended, or in one.
    has_arrived: AtomicBool,
    /// A call has panicked: the next one of the application shows what is left, the NIC's thread keeps away.
    has_failed: AtomicBool,
    clock: MonotonicClock,
    patience: Mutex<Patience>,
    /// How often the NIC's thread has served it.
    served: AtomicU64,
}

impl Gate {
    fn enter(&self) -> Inside<'_> {
        let core = self.core.lock();
        self.begun.store(self.begun.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        Inside { core, _leaving: Leaving(self) }
    }
}

impl Waker for Gate {
    /// A completion is there. A thread that is in a call takes it.
    fn wake(&self) {
        if !self.has_arrived.load(Ordering::Relaxed) {
            self.has_arrived.store(true, Ordering::SeqCst);
        }
        fence(Ordering::SeqCst);
        if !self.core.is_locked() {
            self.opened.nic.call_background();
        }
    }
}

impl Background for Gate {
    fn serve(&self, callers_away: bool) -> Option<Duration> {
        if self.has_failed.load(Ordering::Relaxed) || self.events.is_empty() {
            *self.patience.lock() = Patience::default();
            return None;
        }
        let (begun, now) = (self.begun.load(Ordering::Relaxed), self.clock.now());
        if !callers_away && let Some(wait) = self.patience.lock().wait(begun, now) {
            return Some(wait);
        }
        // A call in progress takes them, or calls for this when it ends.
        let core = self.core.try_lock()?;
        let inside = Inside { core, _leaving: Leaving(self) };
        self.served.fetch_add(1, Ordering::Relaxed);
        inside.drain_some(MOST).then_some(Duration::ZERO)
    }
}

/// How long completions have waited for a call.
#[derive(Debug, Default)]
struct Patience {
    /// Calls that had begun when the wait did, when it ends, and how long it is.
    wait: Option<(u64, Time, Duration)>,
}

impl Patience {
    /// How long to wait on; `None`: no call has begun for long enough. While calls come, the waits become longer.
    fn wait(&mut self, begun: u64, now: Time) -> Option<Duration> {
        let next = match self.wait {
            Some((before, until, _)) if before == begun && until <= now => {
                self.wait = None;
                return None;
            }
            Some((before, until, _)) if before == begun => return Some(until.since(now)),
            Some((.., wait)) => (2 * wait).min(LONGEST),
            None => SHORTEST,
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

struct Leaving<'a>(&'a Gate);

impl Drop for Leaving<'_> {
    /// Completions that came during the call, and that it did not take, are for the NIC's thread.
    fn drop(&mut self) {
        let gate = self.0;
        if std::thread::panicking() {
            gate.has_failed.store(true, Ordering::Relaxed);
        }
        weft_lock::fence_behind_lock();
        if gate.has_arrived.load(Ordering::Relaxed)
            && !gate.core.is_locked()
            && gate.has_arrived.swap(false, Ordering::SeqCst)
            && !gate.events.is_empty()
        {
            gate.opened.nic.call_background();
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
            opened: Arc::clone(opened),
            begun: AtomicU64::new(0),
            has_arrived: AtomicBool::new(false),
            has_failed: AtomicBool::new(false),
            clock: MonotonicClock::default(),
            patience: Mutex::default(),
            served: AtomicU64::new(0),
        });
        gate.events.on_completion(Arc::clone(&gate) as _);
        let task = Task { gate: Arc::clone(&gate) as _, opened: Arc::clone(opened) };
        opened.nic.add_background(Arc::clone(&task.gate));
        Self { _task: Arc::new(task), gate }
    }

    /// A call begins. Waits for that of another thread.
    pub(super) fn enter(&self) -> Inside<'_> {
        self.gate.enter()
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
        self.enter().fmt(f)
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
    }
}
