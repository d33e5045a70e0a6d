//! Whether a receipt waits for the answer of the application, which takes it along: a message of its own costs both
//! ends as much as the answer does, but while it waits, the completion of what the peer has sent waits too.

use core::time::Duration;

use weft_base::Time;

use super::constants::{ANSWER_SOON, HOLD_EARNS, HOLD_LEAST, HOLD_MOST, HOLD_START};

/// An account of what waiting would have saved and cost, in nanoseconds: receipts wait while more was saved.
#[derive(Debug)]
pub(crate) struct AnswerCredit {
    balance: i64,
    /// When messages have come that want a receipt, and nothing was posted since.
    since: Option<Time>,
    /// Their receipt waits.
    holds: bool,
}

impl Default for AnswerCredit {
    fn default() -> Self {
        Self { balance: -(HOLD_START.as_nanos() as i64), since: None, holds: false }
    }
}

impl AnswerCredit {
    /// Messages have come that want a receipt. Returns whether it waits for the answer.
    pub(crate) fn holds(&mut self, now: Time) -> bool {
        if self.since.replace(now).is_some() {
            // The one before had no answer. What that would have cost is not known.
            self.balance = self.balance.min(0);
        }
        self.holds = self.balance > 0;
        self.holds
    }

    /// Something is posted: an answer, if something has come. It earns if it comes soon, whether its receipt has waited
    /// or not. A late one costs the time that its receipt has waited; if that did not, it is a hint, and no more.
    pub(crate) fn answered(&mut self, now: Time) {
        let Some(waited) = self.waited(now) else { return };
        if waited <= ANSWER_SOON {
            self.add(HOLD_EARNS.as_nanos() as i64);
        } else {
            self.subtract(if self.holds { waited } else { ANSWER_SOON });
        }
    }

    /// The receipt has waited, and goes out alone.
    pub(crate) fn unanswered(&mut self, now: Time) {
        if let Some(waited) = self.waited(now) {
            self.subtract(waited.max(HOLD_EARNS));
        }
    }

    fn waited(&mut self, now: Time) -> Option<Duration> {
        self.since.take().map(|since| now.since(since))
    }

    fn add(&mut self, nanoseconds: i64) {
        let (least, most) = (-(HOLD_LEAST.as_nanos() as i64), HOLD_MOST.as_nanos() as i64);
        self.balance = self.balance.saturating_add(nanoseconds).clamp(least, most);
    }

    fn subtract(&mut self, waited: Duration) {
        self.add(i64::try_from(waited.as_nanos()).map_or(i64::MIN, |waited| -waited));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message comes each millisecond, and is answered this many microseconds later; `None`: never, and a poll finds
    /// nothing half a microsecond later. Returns how many of the receipts have waited.
    fn waited(credit: &mut AnswerCredit, now: &mut u64, messages: usize, answer: Option<u64>) -> usize {
        let mut waited = 0;
        for _ in 0..messages {
            *now += 1_000_000;
            let holds = credit.holds(Time::from_nanos(*now));
            waited += usize::from(holds);
            match answer {
                Some(later) => credit.answered(Time::from_nanos(*now + 1000 * later)),
                None if holds => credit.unanswered(Time::from_nanos(*now + 500)),
                None => {}
            }
        }
        waited
    }

    #[test]
    fn the_table_of_programs() {
        let earned = HOLD_START.as_nanos() as usize / HOLD_EARNS.as_nanos() as usize + 1;
        let rows = [
            ("it answers at once", Some(1), 100 - earned),
            ("it computes before it answers", Some(200), 0),
            ("it polls, and never answers", None, 0),
        ];
        for (name, answer, expected) in rows {
            assert_eq!(waited(&mut AnswerCredit::default(), &mut 0, 100, answer), expected, "{name}");
        }
    }

    #[test]
    fn what_waits_costs_no_more_than_was_saved() {
        let (mut credit, mut now) = (AnswerCredit::default(), 0);
        waited(&mut credit, &mut now, 10_000, Some(1));
        let most = HOLD_MOST.as_nanos() / HOLD_EARNS.as_nanos();
        let held = waited(&mut credit, &mut now, 1000, None) as u128;
        assert!((1..=most).contains(&held), "a program that answers no more: {held}");
        // An application that was away when the NIC's thread found the receipt.
        let (mut credit, mut now) = (AnswerCredit::default(), 0);
        waited(&mut credit, &mut now, 100, Some(1));
        assert!(credit.holds(Time::from_nanos(now + 1_000_000)));
        credit.unanswered(Time::from_nanos(now + 1_200_000));
        assert_eq!(waited(&mut credit, &mut now, 50, Some(1)), 0, "that has cost more than those save");
        assert_eq!(waited(&mut credit, &mut now, 2000, Some(1)).min(100), 100, "it pays again");
    }

    #[test]
    fn an_answer_that_is_late_now_and_then_does_no_harm() {
        let (mut credit, mut now) = (AnswerCredit::default(), 0);
        let mut held = 0;
        for _ in 0..100 {
            held += waited(&mut credit, &mut now, 99, Some(2)) + waited(&mut credit, &mut now, 1, Some(40));
        }
        assert!(held > 9_900, "{held} of 10 000");
    }
}
