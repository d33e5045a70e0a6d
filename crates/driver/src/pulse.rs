//! Whether the peer's host still answers.
//!
//! The kernel has TCP_USER_TIMEOUT for that, but it includes the time in which the peer's window is closed: a program
//! that was suspended for a minute would count as dead, though its host answers every window probe. Here an answer is:
//! bytes, a FIN, or an acknowledged probe. A stream on which nothing is sent is left to keepalives.

use core::time::Duration;

use weft_base::Time;

/// This many probes of a closed window must be unanswered: one may get lost, and the next is late.
const PROBES: u8 = 2;

/// The kernel's knowledge of a stream's peer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Answers {
    /// Something was sent and is not acknowledged.
    pub(crate) unacknowledged: bool,
    /// Probes of a closed window since the last answer.
    pub(crate) probes: u8,
    /// Bytes in the kernel that were not sent yet.
    pub(crate) unsent: bool,
    /// The time since the last answer.
    pub(crate) last: Duration,
}

/// The state of a peer.
#[derive(Debug)]
pub(crate) struct Pulse {
    timeout: Option<Duration>,
    /// Sent bytes may be unacknowledged.
    is_owed: bool,
    /// The earliest time since which the same thing is known to be unanswered.
    unheard_since: Option<Time>,
}

impl Pulse {
    pub(crate) const fn new(timeout: Option<Duration>) -> Self {
        Self { timeout, is_owed: false, unheard_since: None }
    }

    /// Bytes were sent.
    pub(crate) const fn on_sent(&mut self) {
        self.is_owed = true;
    }

    /// Whether a query to the kernel is due.
    pub(crate) const fn is_due(&self) -> bool {
        self.is_owed && self.timeout.is_some()
    }

    /// Handles the kernel's answers. Returns whether the peer is lost: with calls every sixteenth of the timeout, when
    /// something is unanswered for at least seven eighths of it, and at most all of it.
    pub(crate) fn is_lost(&mut self, now: Time, answers: Answers) -> bool {
        let Some(timeout) = self.timeout else { return false };
        let Answers { unacknowledged, probes, unsent, last } = answers;
        let is_asked = unacknowledged || probes > 0;
        self.is_owed = is_asked || unsent;
        if !is_asked {
            self.unheard_since = None;
            return false;
        }
        let since = *self.unheard_since.get_or_insert(now);
        if last <= now.since(since) && since < now {
            // What was unanswered at that time has been answered meanwhile, or something after it.
            self.unheard_since = Some(now);
            return false;
        }
        now.since(since) >= timeout - timeout / 8 && (unacknowledged || probes >= PROBES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(16);

    fn at(second: u64) -> Time {
        Time::ZERO + Duration::from_secs(second)
    }

    fn since(second: u64, now: u64) -> Duration {
        Duration::from_secs(now - second)
    }

    fn sent() -> Pulse {
        let mut pulse = Pulse::new(Some(TIMEOUT));
        assert!(!pulse.is_due(), "nothing was sent");
        pulse.on_sent();
        assert!(pulse.is_due());
        pulse
    }

    #[test]
    fn unacknowledged_bytes_are_a_loss_in_time() {
        let mut pulse = sent();
        // The last answer was long before.
        let checks =
            (101..).map(|now| (now, Answers { unacknowledged: true, last: since(3, now), ..Answers::default() }));
        let (lost, _) = checks.into_iter().find(|(now, answers)| pulse.is_lost(at(*now), *answers)).unwrap();
        assert_eq!(lost, 115);
    }

    #[test]
    fn a_window_that_stays_closed_is_none_as_long_as_its_probes_are_answered() {
        let mut pulse = sent();
        for now in 100..1000 {
            // A probe every 40 seconds, each of which is in flight when it is checked.
            let probes = u8::from(now % 40 == 0);
            let answers =
                Answers { probes, unsent: true, last: since(now - 1 - (now - 1) % 40, now), ..Answers::default() };
            assert!(!pulse.is_lost(at(now), answers), "at {now}");
            assert!(pulse.is_due(), "bytes wait");
        }
        let mut lost = (1000..2000).filter(|now| {
            let probes = ((now - 960) / 40) as u8;
            pulse.is_lost(at(*now), Answers { probes, unsent: true, last: since(960, *now), ..Answers::default() })
        });
        assert_eq!(lost.next(), Some(1040), "one that gets lost is no reason");
    }

    #[test]
    fn after_its_own_suspension_it_asks_again_before_it_decides() {
        let mut pulse = sent();
        let asked = |last| Answers { unacknowledged: true, last, ..Answers::default() };
        assert!(!pulse.is_lost(at(100), asked(since(90, 100))));
        // 900 seconds later: the answer was received in the first of them, and something else has just been sent.
        assert!(!pulse.is_lost(at(1000), asked(since(101, 1000))));
        assert!(!pulse.is_lost(at(1013), asked(since(101, 1013))));
        assert!(pulse.is_lost(at(1014), asked(since(101, 1014))));
    }

    #[test]
    fn when_all_is_answered_there_is_nothing_to_ask() {
        let mut pulse = sent();
        assert!(!pulse.is_lost(at(100), Answers { unacknowledged: true, last: since(9, 100), ..Answers::default() }));
        assert!(!pulse.is_lost(at(500), Answers { last: since(9, 500), ..Answers::default() }));
        assert!(!pulse.is_due());
        let mut patient = Pulse::new(None);
        patient.on_sent();
        assert!(!patient.is_due());
    }
}
