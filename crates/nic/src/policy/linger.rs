//! How long the NIC's thread polls on when it has found something and no caller is there.
//!
//! A target that makes no call is served by that thread. If it armed and slept after each message, each would cost the
//! thread the system calls for both, and its peer the wake-up. What arrives in a stream comes again within a few
//! microseconds, so the thread polls for as long as a waiting caller would; but not where it never pays, nor where it
//! would take the time from another thread.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

use weft_base::Time;

use super::spin::SpinHistory;

/// What the thread of an engine has learned of what arrives next. It alone uses this.
#[derive(Debug)]
pub(crate) struct Linger {
    /// How long it polls at most.
    most: Duration,
    history: SpinHistory,
    /// Since when nothing was found, as [`Time`] in nanoseconds; [`WORKS`] while it finds something.
    idle_since: AtomicU64,
}

/// The last turn has found something.
const WORKS: u64 = u64::MAX;

impl Linger {
    /// Polls for `most`; zero: never.
    pub(crate) fn new(most: Duration) -> Self {
        Self { most, history: SpinHistory::default(), idle_since: AtomicU64::new(0) }
    }

    /// A turn has found something.
    pub(crate) fn found(&self, now: Time) {
        let since = self.idle_since.swap(WORKS, Ordering::Relaxed);
        if since == WORKS {
            return;
        }
        if now.since(Time::from_nanos(since)) < self.most { self.history.pays() } else { self.history.was_empty() }
    }

    /// A turn has found nothing. Returns whether to poll again, and not to sleep. `has_room`: no other thread wants the
    /// processor.
    pub(crate) fn polls_on(&self, now: Time, has_room: bool) -> bool {
        let mut since = self.idle_since.load(Ordering::Relaxed);
        if since == WORKS {
            since = now.as_nanos();
            self.idle_since.store(since, Ordering::Relaxed);
        }
        has_room && now.since(Time::from_nanos(since)) < self.most && self.history.is_worth_polling()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::constants::{EMPTY_WAITS, RETRY_WAITS};

    const MOST: Duration = Duration::from_micros(50);

    fn at(microseconds: u64) -> Time {
        Time::from_nanos(microseconds * 1000)
    }

    /// Something is found, and the next thing this much later, in microseconds. Returns for how long the thread polls
    /// meanwhile.
    fn polled(linger: &Linger, now: &mut u64, gap: u64, has_room: bool) -> u64 {
        linger.found(at(*now));
        let polled = (0..gap).take_while(|after| linger.polls_on(at(*now + after), has_room)).count() as u64;
        *now += gap;
        polled
    }

    #[test]
    fn the_table_of_gaps() {
        let rows = [
            ("it comes soon", 20, true, 20),
            ("it comes late", 1000, true, 50),
            ("others want the processor", 20, false, 0),
        ];
        for (name, gap, has_room, expected) in rows {
            assert_eq!(polled(&Linger::new(MOST), &mut 1000, gap, has_room), expected, "{name}");
        }
        assert_eq!(polled(&Linger::new(Duration::ZERO), &mut 1000, 20, true), 0, "switched off");
    }

    #[test]
    fn it_does_not_poll_for_what_always_comes_late_but_now_and_then() {
        let (linger, mut now) = (Linger::new(MOST), 1000);
        let gaps: Vec<u64> = (0..100).map(|_| polled(&linger, &mut now, 1000, true)).collect();
        let polls = gaps.iter().filter(|polled| **polled > 0).count();
        // The first of all came late too.
        let tries = EMPTY_WAITS as usize - 1;
        assert!(gaps[..tries].iter().all(|polled| *polled == 50), "{gaps:?}");
        let most = tries + gaps.len() / RETRY_WAITS as usize;
        assert!((tries + 2..=most).contains(&polls), "it tries again, now and then: {gaps:?}");
        // The thread did not poll for the first of them.
        let gaps: Vec<u64> = (0..3).map(|_| polled(&linger, &mut now, 20, true)).collect();
        assert_eq!(gaps[1..], [20, 20], "it comes soon from now on");
    }

    #[test]
    fn a_thread_that_is_woken_for_nothing_sleeps_again() {
        let linger = Linger::new(MOST);
        assert!(!linger.polls_on(at(1000), true), "nothing was ever found");
        linger.found(at(2000));
        assert!(linger.polls_on(at(2001), true));
        assert!(!linger.polls_on(at(2100), true));
        assert!(!linger.polls_on(at(9000), true), "woken, and nothing is there");
    }
}
