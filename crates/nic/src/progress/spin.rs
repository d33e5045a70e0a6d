//! How long a waiting thread looks in vain before it sleeps.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use core::time::Duration;

use weft_base::Time;

/// A thread that looks all the time and finds that so much time has passed was not running: others want its core.
const PREEMPTED_AFTER: Duration = Duration::from_millis(1);
/// So long after that the machine counts as crowded.
const CROWDED_FOR: Duration = Duration::from_millis(100);

/// After so many looks in vain, each as long as they may be, threads that wait sleep at once ...
const VAIN_LOOKS: u32 = 8;
/// ... but for one time in so many, which shows whether it pays again.
const TRIES_AGAIN: u32 = 16;

/// Whether it pays to look before a sleep: what is waited for may come sooner than a thread sleeps and wakes, or always
/// later than anybody looks, as it does where a link is slower than the processor. Shared by threads that wait in one
/// engine, whose counts may mix, which does no harm.
#[derive(Debug, Default)]
pub(crate) struct Habit {
    /// Looks in vain, and sleeps without a look, since something came soon.
    vain: AtomicU32,
}

impl Habit {
    /// Something came before the look would have been over.
    fn pays(&self) {
        if self.vain.load(Ordering::Relaxed) != 0 {
            self.vain.store(0, Ordering::Relaxed);
        }
    }

    /// Nothing came during a look, or nobody has looked.
    fn in_vain(&self) {
        let vain = self.vain.load(Ordering::Relaxed);
        // It stays above the threshold, and goes round.
        let next = if vain < VAIN_LOOKS + TRIES_AGAIN { vain + 1 } else { VAIN_LOOKS };
        self.vain.store(next, Ordering::Relaxed);
    }

    /// Whether to look now.
    fn is_worth_a_look(&self) -> bool {
        let vain = self.vain.load(Ordering::Relaxed);
        vain < VAIN_LOOKS || vain == VAIN_LOOKS + TRIES_AGAIN
    }
}

/// A caller that looked counts as waiting for so long. It looks far more often while it waits.
const WANTED_FOR: Duration = Duration::from_micros(10);

/// Whether callers wait for what a thread of the NIC does. Only then is it worth a processor that the thread spins.
#[derive(Debug, Default)]
pub(crate) struct Wanted(AtomicBool);

impl Wanted {
    /// A caller has looked in vain. While it goes on, this costs a load.
    #[inline]
    pub(crate) fn look(&self) {
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

    /// Whether a caller has looked since this was asked last.
    fn ask(&self) -> bool {
        self.0.load(Ordering::Relaxed) && self.0.swap(false, Ordering::Relaxed)
    }
}

/// How long to look in vain before sleeping, and how long to wait at all.
pub(crate) struct SpinPolicy<'a> {
    until: Option<Time>,
    spin: Duration,
    idle_since: Option<Time>,
    /// Since then.
    looks: bool,
    /// `None` after a sleep: that time has passed then says nothing.
    last_look: Option<Time>,
    crowded_until: &'a AtomicU64,
    habit: Option<&'a Habit>,
    /// Of a thread that spins only while callers wait for it; and until when it takes that for granted.
    wanted: Option<(&'a Wanted, Time)>,
}

/// What to do after a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Time is up.
    GiveUp,
    /// Look again at once.
    Look,
    /// Sleep, at most this long.
    Sleep(Option<Duration>),
}

impl<'a> SpinPolicy<'a> {
    /// `crowded_until`: shared by the threads of a NIC, for they share its machine.
    pub(crate) fn new(now: Time, timeout: Option<Duration>, spin: Duration, crowded_until: &'a AtomicU64) -> Self {
        Self {
            until: timeout.map(|timeout| now + timeout),
            spin,
            idle_since: None,
            looks: true,
            last_look: Some(now),
            crowded_until,
            habit: None,
            wanted: None,
        }
    }

    /// Looks only while that pays.
    pub(crate) fn by_habit(self, habit: &'a Habit) -> Self {
        Self { habit: Some(habit), ..self }
    }

    /// Spins only while callers wait for what this thread does.
    pub(crate) fn while_wanted(self, now: Time, wanted: &'a Wanted) -> Self {
        Self { wanted: Some((wanted, now)), ..self }
    }

    /// How long to wait yet; `None`: for ever.
    pub(crate) fn left(&self, now: Time) -> Option<Duration> {
        self.until.map(|until| until.since(now))
    }

    pub(crate) fn after_turn(&mut self, progress: bool, now: Time) -> Next {
        if self.until.is_some_and(|until| until <= now) {
            return Next::GiveUp;
        }
        let preempted = self.last_look.replace(now).is_some_and(|last| now.since(last) > PREEMPTED_AFTER);
        if preempted && !progress {
            self.crowded_until.store((now + CROWDED_FOR).as_nanos(), Ordering::Relaxed);
        }
        if progress {
            self.found(now);
            return Next::Look;
        }
        let is_first = self.idle_since.is_none();
        let idle_since = *self.idle_since.get_or_insert(now);
        if is_first {
            self.looks = self.habit.is_none_or(Habit::is_worth_a_look);
        }
        let patient = self.looks && now.since(idle_since) < self.spin;
        if patient && self.crowded_until.load(Ordering::Relaxed) <= now.as_nanos() && self.is_wanted(now) {
            return Next::Look;
        }
        self.last_look = None;
        Next::Sleep(self.left(now))
    }

    /// Something has come, and a wait is over or goes on.
    pub(crate) fn found(&mut self, now: Time) {
        let Some(since) = self.idle_since.take() else { return };
        match self.habit {
            Some(habit) if now.since(since) < self.spin => habit.pays(),
            Some(habit) => habit.in_vain(),
            None => {}
        }
    }

    fn is_wanted(&mut self, now: Time) -> bool {
        let Some((wanted, until)) = &mut self.wanted else { return true };
        if *until <= now && wanted.ask() {
            *until = now + WANTED_FOR;
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
    fn it_looks_for_a_while_and_then_sleeps_until_something_comes() {
        let crowded = AtomicU64::new(0);
        let mut spin_policy = SpinPolicy::new(at(0), Some(Duration::from_millis(900)), SPIN, &crowded);
        assert_eq!(spin_policy.after_turn(false, at(10)), Next::Look);
        assert_eq!(spin_policy.after_turn(false, at(59)), Next::Look);
        assert_eq!(spin_policy.after_turn(false, at(60)), Next::Sleep(Some(Duration::from_micros(899_940))));
        assert!(matches!(spin_policy.after_turn(false, at(800_000)), Next::Sleep(_)), "woken for nothing");
        assert_eq!(spin_policy.after_turn(true, at(800_001)), Next::Look);
        assert_eq!(spin_policy.after_turn(false, at(800_002)), Next::Look, "something had come");
        assert_eq!(spin_policy.after_turn(false, at(900_000)), Next::GiveUp);
        assert_eq!(crowded.into_inner(), 0, "sleeping is not being pushed aside");
    }

    #[test]
    fn who_always_looks_in_vain_sleeps_at_once_and_tries_again_now_and_then() {
        let (crowded, habit) = (AtomicU64::new(0), Habit::default());
        let mut now = 0;
        // Waits that each end after so long. Returns how long was looked in vain before the sleep, if there was one.
        let mut wait = |microseconds: u64| {
            let mut spin_policy = SpinPolicy::new(at(now), None, SPIN, &crowded).by_habit(&habit);
            let (start, end) = (now, now + microseconds);
            let mut looked = None;
            while now < end {
                match spin_policy.after_turn(false, at(now)) {
                    Next::Sleep(_) => {
                        looked.get_or_insert(now - start);
                        now = end;
                    }
                    _ => now += 10,
                }
            }
            spin_policy.found(at(now));
            looked
        };
        assert!((0..100).all(|_| wait(20).is_none()), "it always comes soon");
        assert!((0..VAIN_LOOKS).all(|_| wait(100) == Some(50)), "it may yet");
        for _ in 0..3 {
            assert!((0..TRIES_AGAIN).all(|_| wait(100) == Some(0)), "it never does");
            assert_eq!(wait(100), Some(50), "does it still not?");
        }
        assert_eq!(wait(20), Some(0), "it was not looked for, but it came soon");
        assert!((0..100).all(|_| wait(20).is_none()));
    }

    #[test]
    fn a_thread_spins_only_while_a_caller_waits() {
        let (crowded, wanted) = (AtomicU64::new(0), Wanted::default());
        let thread = |now| SpinPolicy::new(at(now), None, SPIN, &crowded).while_wanted(at(now), &wanted);
        assert_eq!(thread(0).after_turn(false, at(0)), Next::Sleep(None), "nobody waits");
        wanted.look();
        let mut spin_policy = thread(10);
        assert_eq!(spin_policy.after_turn(false, at(10)), Next::Look);
        assert_eq!(spin_policy.after_turn(false, at(19)), Next::Look);
        wanted.look();
        assert_eq!(spin_policy.after_turn(false, at(20)), Next::Look, "it still looks");
        assert_eq!(spin_policy.after_turn(false, at(30)), Next::Sleep(None), "it has turned to something else");
        wanted.look();
        wanted.forget();
        assert_eq!(thread(40).after_turn(false, at(40)), Next::Sleep(None), "it has posted, and computes");
        let mut spin_policy = thread(50);
        for now in (50..100).step_by(5) {
            wanted.look();
            assert_eq!(spin_policy.after_turn(false, at(now)), Next::Look);
        }
        wanted.look();
        assert_eq!(spin_policy.after_turn(false, at(100)), Next::Sleep(None), "no longer than any other");
    }

    #[test]
    fn who_is_pushed_aside_does_not_spin() {
        let crowded = AtomicU64::new(0);
        let mut spin_policy = SpinPolicy::new(at(0), None, SPIN, &crowded);
        assert_eq!(spin_policy.after_turn(false, at(1)), Next::Look);
        assert_eq!(spin_policy.after_turn(false, at(3000)), Next::Sleep(None));
        let mut other = SpinPolicy::new(at(4000), None, SPIN, &crowded);
        assert_eq!(other.after_turn(false, at(4001)), Next::Sleep(None));
        let mut later = SpinPolicy::new(at(200_000), None, SPIN, &crowded);
        assert_eq!(later.after_turn(false, at(200_001)), Next::Look);
    }
}
