//! Being there when something is due: sleeping until shortly before, and polling for the rest.

use std::io;
use std::time::Duration;

use nix::sys::prctl;
use nix::sys::resource::{UsageWho, getrusage};
use weft_base::{Clock, Time};
use weft_driver::{WaitSet, shorten_slice};

/// How late the kernel may fire a timer of this thread, in nanoseconds, to spare wake-ups: not at all.
const TIMER_SLACK_NS: u64 = 1;

/// How long before something is due polling begins. A timer of a virtual machine wakes its thread about 50 us late.
const POLLS_FOR: Duration = Duration::from_micros(80);

/// A poll takes a microsecond or two. One that takes this long has perhaps lost the processor to another thread; or an
/// interrupt came, or the host of a virtual machine took the processor, and polling continues.
const LONG_POLL: Duration = Duration::from_micros(40);

/// For how long nothing is polled after that.
const RESTS_FOR: Duration = Duration::from_millis(20);

/// Waits for descriptors until something is due, and wakes on time. Where no other thread wants the processor, it polls
/// for the last 80 us before.
#[derive(Debug)]
pub struct Punctual<K> {
    clock: K,
    /// No polling before.
    rests_until: Time,
}

impl<K: Clock> Punctual<K> {
    /// For this thread, which gets timers without slack and a short slice of its processor. Where the system does not
    /// give these, it is later, and otherwise does what it should.
    pub fn new(clock: K) -> Self {
        let _ = prctl::set_timerslack(TIMER_SLACK_NS);
        shorten_slice();
        Self { rests_until: Time::ZERO, clock }
    }

    /// Waits until a descriptor is readable, or what is due in `left` is due (`None`: nothing is). Appends the keys of
    /// descriptors.
    ///
    /// # Errors
    /// The operating system refused.
    pub fn wait(&mut self, waits: &WaitSet, left: Option<Duration>, keys: &mut Vec<u64>) -> io::Result<()> {
        self.wait_by(left, preemptions, |timeout| {
            waits.wait(timeout, keys).map_err(io::Error::other)?;
            Ok(!keys.is_empty())
        })
    }

    /// The same, by what counts how often another thread took the processor, and what waits until a timeout and returns
    /// whether a descriptor is readable.
    fn wait_by(
        &mut self,
        left: Option<Duration>,
        preemptions: impl Fn() -> i64,
        mut wait: impl FnMut(Option<Duration>) -> io::Result<bool>,
    ) -> io::Result<()> {
        let start = self.clock.now();
        let Some(left) = left.filter(|_| start >= self.rests_until) else {
            return wait(left).map(drop);
        };
        let due = start + left;
        if left > POLLS_FOR && wait(Some(left - POLLS_FOR))? {
            return Ok(());
        }
        let preempted = preemptions();
        loop {
            let before = self.clock.now();
            let left = due.since(before);
            if wait(Some(Duration::ZERO))? || left.is_zero() {
                return Ok(());
            }
            let after = self.clock.now();
            if after.since(before) > LONG_POLL && preemptions() != preempted {
                self.rests_until = after + RESTS_FOR;
                return Ok(());
            }
        }
    }
}

/// How often another thread took the processor from this one.
fn preemptions() -> i64 {
    getrusage(UsageWho::RUSAGE_THREAD).map_or(0, |usage| usage.involuntary_context_switches())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;

    #[derive(Clone, Default)]
    struct Watch(Rc<Cell<u64>>);

    impl Watch {
        fn pass(&self, span: Duration) {
            self.0.set(self.0.get() + span.as_nanos() as u64);
        }
    }

    impl Clock for Watch {
        fn now(&self) -> Time {
            Time::from_nanos(self.0.get())
        }
    }

    const US: Duration = Duration::from_micros(1);

    /// Waits where a timer is 50 us late and a poll takes this long; something comes at this time. The timeouts, in us.
    fn waits(punctual: &mut Punctual<Watch>, left: Option<Duration>, poll: Duration, comes: Duration) -> Vec<u128> {
        waits_beside(|| 0, punctual, left, poll, comes)
    }

    /// The same, where other threads took the processor this often.
    fn waits_beside(
        preemptions: impl Fn() -> i64,
        punctual: &mut Punctual<Watch>,
        left: Option<Duration>,
        poll: Duration,
        comes: Duration,
    ) -> Vec<u128> {
        let (watch, mut timeouts) = (punctual.clock.clone(), Vec::new());
        let comes = watch.now() + comes;
        punctual
            .wait_by(left, preemptions, |timeout| {
                timeouts.push(timeout.map_or(0, |timeout| timeout.as_micros()));
                match timeout {
                    Some(Duration::ZERO) => watch.pass(poll),
                    timeout if timeout.is_none_or(|timeout| watch.now() + timeout > comes) => {
                        watch.pass(comes.since(watch.now()));
                    }
                    timeout => watch.pass(timeout.unwrap_or_default() + 50 * US),
                }
                Ok(watch.now() >= comes)
            })
            .unwrap();
        timeouts
    }

    fn punctual() -> Punctual<Watch> {
        Punctual { clock: Watch::default(), rests_until: Time::ZERO }
    }

    const NEVER: Duration = Duration::from_secs(1);

    #[test]
    fn it_sleeps_until_shortly_before_and_polls_for_the_rest() {
        let mut punctual = punctual();
        let timeouts = waits(&mut punctual, Some(1000 * US), US, NEVER);
        assert_eq!(timeouts[..2], [920, 0]);
        assert_eq!(punctual.clock.now().as_nanos(), 1_001_000, "a poll late, not a timer");
        let timeouts = waits(&mut punctual, Some(10 * US), US, NEVER);
        assert_eq!(timeouts.len(), 11);
        assert_eq!(waits(&mut punctual, Some(Duration::ZERO), US, NEVER), [0], "what is due is not waited for");
    }

    #[test]
    fn what_comes_ends_the_waiting() {
        let mut punctual = punctual();
        assert_eq!(waits(&mut punctual, Some(1000 * US), US, 300 * US), [920]);
        assert_eq!(punctual.clock.now().as_nanos(), 300_000);
        assert_eq!(waits(&mut punctual, None, US, 300 * US), [0], "nothing is due");
        let began = punctual.clock.now();
        waits(&mut punctual, Some(50 * US), US, 20 * US);
        assert_eq!(punctual.clock.now().since(began), 20 * US);
    }

    #[test]
    fn a_long_poll_that_no_thread_caused_does_not_end_polling() {
        let mut punctual = punctual();
        let timeouts = waits(&mut punctual, Some(1000 * US), 60 * US, NEVER);
        assert_eq!(timeouts, [920, 0, 0]);
        assert_eq!(waits(&mut punctual, Some(1000 * US), US, NEVER)[..2], [920, 0]);
    }

    #[test]
    fn it_does_not_poll_where_others_want_the_processor() {
        let mut punctual = punctual();
        let count = Cell::new(0);
        let preemptions = || count.replace(count.get() + 1);
        assert_eq!(waits_beside(preemptions, &mut punctual, Some(1000 * US), 60 * US, NEVER), [920, 0]);
        assert_eq!(waits(&mut punctual, Some(1000 * US), US, NEVER), [1000], "it rests");
        punctual.clock.pass(RESTS_FOR);
        assert_eq!(waits(&mut punctual, Some(1000 * US), US, NEVER)[..2], [920, 0]);
    }
}
