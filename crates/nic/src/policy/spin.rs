//! How long a waiting thread polls before it sleeps.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use core::time::Duration;

use weft_base::Time;

use super::constants::{EMPTY_WAITS, LOST_CORE_AFTER, OVERSUBSCRIBED_FOR, RETRY_WAITS, WAITER_FOR};

/// Whether it pays to poll before a sleep: what a thread waits for may come sooner than it sleeps and wakes, or always
/// later than it polls, as it does where a link is slower than the processor. Shared by threads that wait in one
/// engine, whose counts may mix, which does no harm.
#[derive(Debug, Default)]
pub(crate) struct SpinHistory {
    /// Waits that ended in a sleep, with polls before it or without, since something came soon.
    empty: AtomicU32,
}

impl SpinHistory {
    /// Something came within the time for polls.
    pub(super) fn pays(&self) {
        if self.empty.load(Ordering::Relaxed) != 0 {
            self.empty.store(0, Ordering::Relaxed);
        }
    }

    /// Nothing came within that time, with polls or without.
    pub(super) fn was_empty(&self) {
        let empty = self.empty.load(Ordering::Relaxed);
        // It stays above the threshold, and goes round.
        let next = if empty < EMPTY_WAITS + RETRY_WAITS { empty + 1 } else { EMPTY_WAITS };
        self.empty.store(next, Ordering::Relaxed);
    }

    /// Whether to poll now.
    pub(super) fn is_worth_polling(&self) -> bool {
        let empty = self.empty.load(Ordering::Relaxed);
        empty < EMPTY_WAITS || empty == EMPTY_WAITS + RETRY_WAITS
    }
}

/// Whether callers wait for what a thread of the NIC does. Only then is it worth a processor that the thread polls.
#[derive(Debug, Default)]
pub(crate) struct WaiterHint(AtomicBool);

impl WaiterHint {
    /// A caller has made an empty poll. While it continues, this costs a load.
    #[inline]
    pub(crate) fn polled(&self) {
        if !self.0.load(Ordering::Relaxed) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    /// A caller has posted: that it waited before says nothing of what it does next.
    #[inline]
    pub(crate) fn forget(&self) {
        if self.0.load(Ordering::Relaxed) {
            self.0.store(false, Ordering::Relaxed);
        }
    }

    /// Whether a caller has polled since the last call.
    fn ask(&self) -> bool {
        self.0.load(Ordering::Relaxed) && self.0.swap(false, Ordering::Relaxed)
    }
}

/// How long to poll before sleeping, and how long to wait at all.
pub(crate) struct SpinPolicy<'a> {
    until: Option<Time>,
    spin: Duration,
    idle_since: Option<Time>,
    /// Since then.
    polls: bool,
    /// `None` after a sleep: that time has passed then says nothing.
    last_poll: Option<Time>,
    /// `None` without what threads learn from each other.
    oversubscribed_until: Option<&'a AtomicU64>,
    history: Option<&'a SpinHistory>,
    /// Of a thread that polls only while callers wait for it; and until when it takes that for granted.
    waiters: Option<(&'a WaiterHint, Time)>,
}

/// What to do after a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Time is up.
    GiveUp,
    /// Poll again at once.
    Poll,
    /// Sleep, at most this long.
    Sleep(Option<Duration>),
}

impl<'a> SpinPolicy<'a> {
    /// Polls for `spin` before it sleeps.
    pub(crate) fn new(now: Time, timeout: Option<Duration>, spin: Duration) -> Self {
        Self {
            until: timeout.map(|timeout| now + timeout),
            spin,
            idle_since: None,
            polls: true,
            last_poll: Some(now),
            oversubscribed_until: None,
            history: None,
            waiters: None,
        }
    }

    /// Does not poll while the processors are oversubscribed: until when is shared by the threads of a NIC, as [`Time`]
    /// in nanoseconds, for they share its machine.
    pub(crate) fn unless_oversubscribed(self, until: &'a AtomicU64) -> Self {
        Self { oversubscribed_until: Some(until), ..self }
    }

    /// Polls only while that pays.
    pub(crate) fn by_history(self, history: &'a SpinHistory) -> Self {
        Self { history: Some(history), ..self }
    }

    /// Polls only while callers wait for what this thread does.
    pub(crate) fn while_waiters(self, now: Time, waiters: &'a WaiterHint) -> Self {
        Self { waiters: Some((waiters, now)), ..self }
    }

    /// How long to wait yet; `None`: for ever.
    pub(crate) fn left(&self, now: Time) -> Option<Duration> {
        self.until.map(|until| until.since(now))
    }

    pub(crate) fn after_turn(&mut self, progress: bool, now: Time) -> Next {
        if self.until.is_some_and(|until| until <= now) {
            return Next::GiveUp;
        }
        // A yield that took as long is one of the ways to lose the core.
        let lost_core = self.last_poll.replace(now).is_some_and(|last| now.since(last) > LOST_CORE_AFTER);
        if progress {
            self.found(now);
            return Next::Poll;
        }
        if lost_core && let Some(until) = self.oversubscribed_until {
            until.store((now + OVERSUBSCRIBED_FOR).as_nanos(), Ordering::Relaxed);
        }
        let is_first = self.idle_since.is_none();
        let idle_since = *self.idle_since.get_or_insert(now);
        if is_first {
            self.polls = self.history.is_none_or(SpinHistory::is_worth_polling);
        }
        let may_poll = self.polls && now.since(idle_since) < self.spin;
        if may_poll && !self.is_oversubscribed(now) && self.has_waiters(now) {
            return Next::Poll;
        }
        self.last_poll = None;
        Next::Sleep(self.left(now))
    }

    fn is_oversubscribed(&self, now: Time) -> bool {
        self.oversubscribed_until.is_some_and(|until| until.load(Ordering::Relaxed) > now.as_nanos())
    }

    /// Something has come, and a wait is over or continues.
    pub(crate) fn found(&mut self, now: Time) {
        let Some(since) = self.idle_since.take() else { return };
        match self.history {
            Some(history) if now.since(since) < self.spin => history.pays(),
            Some(history) => history.was_empty(),
            None => {}
        }
    }

    fn has_waiters(&mut self, now: Time) -> bool {
        let Some((waiters, until)) = &mut self.waiters else { return true };
        if *until <= now && waiters.ask() {
            *until = now + WAITER_FOR;
        }
        now < *until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPIN: Duration = Duration::from_micros(50);

    fn at(microseconds: u64) -> Time {
        Time::from_nanos(microseconds * 1000)
    }

    #[test]
    fn it_polls_for_a_while_and_then_sleeps_until_something_comes() {
        let until = AtomicU64::new(0);
        let mut policy = SpinPolicy::new(at(0), Some(Duration::from_millis(900)), SPIN).unless_oversubscribed(&until);
        assert_eq!(policy.after_turn(false, at(10)), Next::Poll);
        assert_eq!(policy.after_turn(false, at(59)), Next::Poll);
        assert_eq!(policy.after_turn(false, at(60)), Next::Sleep(Some(Duration::from_micros(899_940))));
        assert!(matches!(policy.after_turn(false, at(800_000)), Next::Sleep(_)), "woken for nothing");
        assert_eq!(policy.after_turn(true, at(800_001)), Next::Poll);
        assert_eq!(policy.after_turn(false, at(800_002)), Next::Poll, "something had come");
        assert_eq!(policy.after_turn(false, at(900_000)), Next::GiveUp);
        assert_eq!(until.into_inner(), 0, "sleeping is not losing the core");
    }

    #[test]
    fn waits_that_always_end_in_a_sleep_sleep_at_once_and_poll_now_and_then() {
        let history = SpinHistory::default();
        let mut now = 0;
        // A wait that ends after this long. Returns for how long it polled before the sleep, if there was one.
        let mut wait = |microseconds: u64| {
            let mut policy = SpinPolicy::new(at(now), None, SPIN).by_history(&history);
            let (start, end) = (now, now + microseconds);
            let mut polled = None;
            while now < end {
                match policy.after_turn(false, at(now)) {
                    Next::Sleep(_) => {
                        polled.get_or_insert(now - start);
                        now = end;
                    }
                    _ => now += 10,
                }
            }
            policy.found(at(now));
            polled
        };
        assert!((0..100).all(|_| wait(20).is_none()), "it always comes soon");
        assert!((0..EMPTY_WAITS).all(|_| wait(100) == Some(50)), "it may yet");
        for _ in 0..3 {
            assert!((0..RETRY_WAITS).all(|_| wait(100) == Some(0)), "it never does");
            assert_eq!(wait(100), Some(50), "does it still not?");
        }
        assert_eq!(wait(20), Some(0), "the thread did not poll for it, but it came soon");
        assert!((0..100).all(|_| wait(20).is_none()));
    }

    #[test]
    fn a_thread_polls_only_while_a_caller_waits() {
        let waiters = WaiterHint::default();
        let thread = |now| SpinPolicy::new(at(now), None, SPIN).while_waiters(at(now), &waiters);
        assert_eq!(thread(0).after_turn(false, at(0)), Next::Sleep(None), "no caller waits");
        waiters.polled();
        let mut policy = thread(10);
        assert_eq!(policy.after_turn(false, at(10)), Next::Poll);
        assert_eq!(policy.after_turn(false, at(19)), Next::Poll);
        waiters.polled();
        assert_eq!(policy.after_turn(false, at(20)), Next::Poll, "it still polls");
        assert_eq!(policy.after_turn(false, at(30)), Next::Sleep(None), "it has turned to something else");
        waiters.polled();
        waiters.forget();
        assert_eq!(thread(40).after_turn(false, at(40)), Next::Sleep(None), "it has posted, and computes");
        let mut policy = thread(50);
        for now in (50..100).step_by(5) {
            waiters.polled();
            assert_eq!(policy.after_turn(false, at(now)), Next::Poll);
        }
        waiters.polled();
        assert_eq!(policy.after_turn(false, at(100)), Next::Sleep(None), "no longer than any other");
    }

    #[test]
    fn a_thread_that_lost_its_core_does_not_poll() {
        let until = AtomicU64::new(0);
        let wait = |now| SpinPolicy::new(at(now), None, SPIN).unless_oversubscribed(&until);
        let mut policy = wait(0);
        assert_eq!(policy.after_turn(false, at(1)), Next::Poll);
        assert_eq!(policy.after_turn(false, at(3000)), Next::Sleep(None));
        assert_eq!(wait(4000).after_turn(false, at(4001)), Next::Sleep(None), "nor does another one");
        assert_eq!(wait(200_000).after_turn(false, at(200_001)), Next::Poll);
    }

    #[test]
    fn switched_off_it_polls_as_long_as_ever() {
        let mut policy = SpinPolicy::new(at(0), None, SPIN);
        assert_eq!(policy.after_turn(false, at(1)), Next::Poll);
        assert!(matches!(policy.after_turn(false, at(3000)), Next::Sleep(_)), "its time is up");
        let mut policy = SpinPolicy::new(at(4000), None, SPIN);
        assert_eq!(policy.after_turn(false, at(4001)), Next::Poll);
    }
}
