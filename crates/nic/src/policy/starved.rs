//! When a connection whose peer has sent a message that no receive is posted for polls for one.

use core::time::Duration;

use weft_base::Time;

/// The first poll comes this long after the message: most programs that were a moment late have posted by then.
const FIRST_POLL: Duration = Duration::from_micros(200);
/// The longest time between two polls. A program that posts without polling its completion queue, so that the NIC's
/// thread has to find the receive, waits this long at most, and never longer than it has kept the peer waiting.
const LONGEST_POLL: Duration = Duration::from_micros(25_600);

/// A connection that waits for receives. The timer backs off exponentially: many connections whose applications post
/// none must not keep the processor awake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Starved {
    /// When the next poll is due.
    pub(crate) at: Time,
    wait: Duration,
}

impl Starved {
    pub(crate) fn since(now: Time) -> Self {
        Self { at: now + FIRST_POLL, wait: FIRST_POLL }
    }

    /// A poll has found no receive.
    pub(crate) fn on_empty_poll(&mut self, now: Time) {
        if self.at <= now {
            self.wait = (self.wait * 2).min(LONGEST_POLL);
            self.at = now + self.wait;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polls_become_rare_and_never_rarer_than_the_limit() {
        let begin = Time::from_nanos(1);
        let mut starved = Starved::since(begin);
        let mut waits = Vec::new();
        let mut before = begin;
        for _ in 0..10 {
            waits.push(starved.at.since(before).as_micros());
            before = starved.at;
            starved.on_empty_poll(before);
        }
        assert_eq!(waits, [200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 25_600, 25_600]);
    }

    #[test]
    fn a_poll_before_its_time_changes_nothing() {
        let mut starved = Starved::since(Time::from_nanos(1));
        let before = starved;
        starved.on_empty_poll(Time::from_nanos(2));
        assert_eq!(starved, before);
    }
}
