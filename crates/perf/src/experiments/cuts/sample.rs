//! The figures of each cut, and of each instant without one.

use weft_lab::Way;

use crate::experiments::cuts::analysis::{Window, longest_pause_us, recovery_us, speed, speed_before};
use crate::experiments::cuts::contestant::Contestant;
use crate::experiments::cuts::launch::{Happening, Outcome, RECOVERY};
use crate::experiments::cuts::side::{Received, Sent};

/// One instant of one launch of one contestant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sample {
    pub(crate) contestant: Contestant,
    pub(crate) launch: u32,
    pub(crate) way: Way,
    pub(crate) with_cut: bool,
    /// The longest time between two deliveries in order.
    pub(crate) pause_ms: f64,
    /// From the mending to full speed; [`RECOVERY`] if it was not reached in that time.
    pub(crate) recovery_ms: f64,
    pub(crate) has_recovered: bool,
    /// Deliveries per second in the half second before.
    pub(crate) before: f64,
    /// Deliveries per second in the window, of those before.
    pub(crate) share: f64,
}

impl Sample {
    /// Of all instants of a launch.
    pub(crate) fn of(contestant: Contestant, launch: u32, outcome: &Outcome) -> Vec<Self> {
        let one = |happening: &Happening| {
            let Happening { way, with_cut, window, mended_us } = *happening;
            let deliveries = &outcome.deliveries[..];
            let before = speed_before(deliveries, window.from_us);
            // Nothing was delivered before: the whole window was a pause.
            let pause_us = longest_pause_us(deliveries, window).unwrap_or(window.to_us - window.from_us);
            let end = Window { from_us: mended_us, to_us: mended_us + RECOVERY.as_micros() as u64 };
            let within = &deliveries[..deliveries.partition_point(|time| *time < end.to_us)];
            let recovery_us = recovery_us(within, mended_us, before);
            let limit = end.to_us - end.from_us;
            Self {
                contestant,
                launch,
                way,
                with_cut,
                pause_ms: pause_us as f64 / 1e3,
                recovery_ms: recovery_us.unwrap_or(limit) as f64 / 1e3,
                has_recovered: recovery_us.is_some(),
                before,
                share: if before > 0.0 { speed(deliveries, window) / before } else { 0.0 },
            }
        };
        outcome.happenings.iter().map(one).collect()
    }
}

/// What was lost, doubled or miscounted in a launch: all of it has to be 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Faults {
    pub(crate) messages: u64,
    pub(crate) lost: u64,
    pub(crate) doubled: u64,
    pub(crate) out_of_order: u64,
    pub(crate) damaged: u64,
    /// Operations, and by how much the peer's counter and their results are off; of a contestant that has some.
    pub(crate) operations: Option<(u64, u64)>,
}

impl Faults {
    /// What both sides have reported.
    pub(crate) fn of(sent: &Sent, received: &Received) -> Self {
        let counts = &received.counts;
        let operations = sent.operations.zip(received.counter).map(|(operations, counter)| {
            (operations.completed, operations.completed.abs_diff(counter).max(operations.wrong))
        });
        Self {
            messages: sent.messages,
            lost: sent.messages.saturating_sub(counts.received),
            doubled: counts.doubled,
            out_of_order: counts.out_of_order,
            damaged: counts.damaged,
            operations,
        }
    }

    /// Both together.
    pub(crate) fn and(self, other: &Self) -> Self {
        let both = |one: (u64, u64), other: (u64, u64)| (one.0 + other.0, one.1 + other.1);
        Self {
            messages: self.messages + other.messages,
            lost: self.lost + other.lost,
            doubled: self.doubled + other.doubled,
            out_of_order: self.out_of_order + other.out_of_order,
            damaged: self.damaged + other.damaged,
            operations: match (self.operations, other.operations) {
                (Some(one), Some(other)) => Some(both(one, other)),
                (one, other) => one.or(other),
            },
        }
    }

    /// Whether there was none.
    pub(crate) fn is_clean(&self) -> bool {
        let miscounted = self.operations.map_or(0, |(_, miscounted)| miscounted);
        self.lost + self.doubled + self.out_of_order + self.damaged + miscounted == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::cuts::message::Counts;
    use crate::experiments::cuts::pipe::ends::Operations;

    #[test]
    fn an_instant_becomes_a_sample() {
        // A message each 100 us; 40 ms of silence 5 ms after the cut; half speed until 200 ms after the mending.
        let mut deliveries: Vec<u64> = (0..1_005_000).step_by(100).collect();
        deliveries.extend((1_045_000..2_200_000).step_by(200));
        deliveries.extend((2_200_000..3_000_000).step_by(100));
        let instant = |with_cut, from_us, to_us, mended_us| Happening {
            way: Way::Silent,
            with_cut,
            window: Window { from_us, to_us },
            mended_us,
        };
        let happenings =
            vec![instant(false, 500_000, 900_000, 500_000), instant(true, 1_000_000, 1_990_000, 2_000_000)];
        let outcome = Outcome { deliveries, happenings, ..Outcome::default() };
        let samples = Sample::of(Contestant::Edge, 3, &outcome);
        let (calm, cut) = (samples[0], samples[1]);
        assert_eq!((calm.pause_ms, calm.recovery_ms, calm.has_recovered, calm.launch), (0.1, 0.0, true, 3));
        assert_eq!((cut.pause_ms, cut.has_recovered), (40.1, true));
        assert!((189.0..=191.0).contains(&cut.recovery_ms) && (0.45..0.5).contains(&cut.share), "{cut:?}");
        assert!((cut.before - 10_000.0).abs() < 1.0);

        let silent = Outcome { happenings: vec![instant(true, 0, 10_000, 20_000)], ..Outcome::default() };
        let sample = Sample::of(Contestant::Tcp, 0, &silent)[0];
        assert_eq!((sample.pause_ms, sample.recovery_ms, sample.has_recovered), (10.0, 5000.0, false));
    }

    #[test]
    fn what_is_missing_or_too_much_is_a_fault() {
        let sent = Sent { messages: 10, operations: Some(Operations { completed: 4, wrong: 0 }) };
        let counts = Counts { received: 10, ..Counts::default() };
        let clean = Faults::of(&sent, &Received { counts, counter: Some(4) });
        assert!(clean.is_clean() && clean.operations == Some((4, 0)));
        for (received, what) in [
            (Received { counts: Counts { received: 9, ..counts }, counter: Some(4) }, "lost"),
            (Received { counts: Counts { doubled: 1, ..counts }, counter: Some(4) }, "doubled"),
            (Received { counts: Counts { out_of_order: 1, ..counts }, counter: Some(4) }, "out of order"),
            (Received { counts: Counts { damaged: 1, ..counts }, counter: Some(4) }, "damaged"),
            (Received { counts, counter: Some(5) }, "counted twice"),
            (Received { counts, counter: Some(3) }, "not counted"),
        ] {
            let faults = Faults::of(&sent, &received);
            assert!(!faults.is_clean() && !clean.and(&faults).is_clean(), "{what}");
        }
        let wrong = Sent { operations: Some(Operations { completed: 4, wrong: 1 }), ..sent };
        assert!(!Faults::of(&wrong, &Received { counts, counter: Some(4) }).is_clean());
    }
}
