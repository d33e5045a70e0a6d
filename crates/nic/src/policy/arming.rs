//! What an engine polls itself, and what is armed, so that the operating system reports on it.

use core::time::Duration;

use super::constants::{
    ARM_AFTER, ARM_LOADS_AFTER, ARM_PORT_AFTER, ARM_PORTS_AFTER, ASK_AFTER, ASK_EVERY_TURNS, DISARM_AFTER, FEW_LOADS,
    FEW_POLLED,
};

/// Whether a connection that was polled this often without finding anything is armed instead. `polled`: how many are;
/// `is_load`: one load showed that nothing has come.
#[inline]
pub(crate) const fn arms_connection(empty_polls: u32, polled: usize, is_load: bool) -> bool {
    let after = if is_load && polled <= FEW_LOADS { ARM_LOADS_AFTER } else { ARM_AFTER };
    polled > FEW_POLLED && empty_polls > after
}

/// Whether a datagram port that was polled this often without finding anything is armed instead. `polled`: how many
/// ports are.
#[inline]
pub(crate) const fn arms_port(empty_polls: u32, polled: usize) -> bool {
    empty_polls > if polled > FEW_POLLED { ARM_PORTS_AFTER } else { ARM_PORT_AFTER }
}

/// Whether a datagram port that something is sent at is polled from now on: of `ports`, this many are.
pub(crate) const fn polls_port(ports: usize, polled: usize) -> bool {
    ports <= FEW_POLLED || polled < FEW_POLLED
}

/// Whether the operating system is polled for what is armed. `any_polled`: some connections or ports are polled;
/// `found`: they found something; `any_armed`: something is armed; in turn `turn`, this long after the system was
/// polled last.
#[inline]
pub(crate) fn polls_armed(any_polled: bool, found: bool, any_armed: bool, turn: u32, since: Duration) -> bool {
    !any_polled || !found && any_armed || turn.is_multiple_of(ASK_EVERY_TURNS) || since >= ASK_AFTER
}

/// When an armed port that is polled nevertheless is disarmed.
#[derive(Debug, Default)]
pub(crate) struct DisarmPolicy {
    is_armed: bool,
    /// Polls since then that found something.
    found: u32,
}

impl DisarmPolicy {
    /// The port was armed.
    pub(crate) fn armed(&mut self) {
        (self.is_armed, self.found) = (true, 0);
    }

    /// A poll found something. Returns whether to disarm the port.
    #[inline]
    pub(crate) fn found(&mut self) -> bool {
        if !self.is_armed {
            return false;
        }
        self.found += 1;
        self.is_armed = self.found < DISARM_AFTER;
        !self.is_armed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Empty polls after which this arms; `None`: it never does.
    fn after(arms: impl Fn(u32) -> bool) -> Option<u32> {
        (0..10_000).find(|polls| arms(*polls))
    }

    #[test]
    fn the_table_of_arming() {
        let rows = [
            ("one connection", 1, false, None),
            ("few", 2, false, None),
            ("more", 3, false, Some(5)),
            ("more, whose poll is one load", 3, true, Some(251)),
            ("as many of these as are cheap", 64, true, Some(251)),
            ("more of these", 65, true, Some(5)),
        ];
        for (name, polled, is_load, expected) in rows {
            assert_eq!(after(|polls| arms_connection(polls, polled, is_load)), expected, "{name}");
        }
        for (polled, expected) in [(1, 1025), (2, 1025), (3, 5), (16, 5)] {
            assert_eq!(after(|polls| arms_port(polls, polled)), Some(expected), "{polled} ports");
        }
        for (ports, polled, expected) in [(1, 0, true), (2, 2, true), (3, 1, true), (3, 2, false), (9, 0, true)] {
            assert_eq!(polls_port(ports, polled), expected, "{polled} of {ports} ports");
        }
    }

    #[test]
    fn the_table_of_asking_the_operating_system() {
        let rows = [
            ("nothing is polled", false, false, false, 1, 0, true),
            ("nothing was found, and nothing is armed", true, false, false, 1, 0, false),
            ("nothing was found, and something is armed", true, false, true, 1, 0, true),
            ("something was found", true, true, true, 1, 0, false),
            ("now and then all the same", true, true, true, ASK_EVERY_TURNS, 0, true),
            ("not long ago", true, true, true, 1, 99, false),
            ("long ago, as turns seldom follow each other", true, false, false, 1, 100, true),
        ];
        for (name, any_polled, found, any_armed, turn, since, expected) in rows {
            let since = Duration::from_micros(since);
            assert_eq!(polls_armed(any_polled, found, any_armed, turn, since), expected, "{name}");
        }
    }

    #[test]
    fn a_port_is_disarmed_once_when_no_thread_has_slept_for_long() {
        let mut policy = DisarmPolicy::default();
        assert!((0..2 * DISARM_AFTER).all(|_| !policy.found()), "it is not armed");
        policy.armed();
        assert!((1..DISARM_AFTER).all(|_| !policy.found()));
        policy.armed();
        assert!((1..DISARM_AFTER).all(|_| !policy.found()), "a thread has slept meanwhile");
        assert!(policy.found());
        assert!((0..2 * DISARM_AFTER).all(|_| !policy.found()), "it is disarmed");
    }
}
