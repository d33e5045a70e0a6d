//! What the link of a test network does to frames in one part of a measurement: each part has a network of its own.

use std::time::Duration;

use crate::result::Document;

/// The key of a case that says what the link adds to a round trip.
const ROUND_TRIP: &str = "round_trip_ms";
/// Those that say how many of a hundred packets come late, and how many are lost.
const LATE: &str = "late_percent";
const LOST: &str = "lost_percent";
/// Up to how much later late packets come.
pub(crate) const LATE_BY: Duration = Duration::from_micros(200);

/// What the link does.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Condition {
    /// How long each frame takes.
    pub(crate) delay: Duration,
    /// In tests that are about them.
    pub(crate) faults: Option<Faults>,
}

/// Late and lost packets, of a hundred.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Faults {
    pub(crate) late_percent: f64,
    pub(crate) lost_percent: f64,
}

impl Condition {
    /// One for each delay.
    pub(crate) fn of_delays(delays: impl IntoIterator<Item = Duration>) -> Vec<Self> {
        let all: Vec<_> = delays.into_iter().map(|delay| Self { delay, faults: None }).collect();
        if all.is_empty() { vec![Self::default()] } else { all }
    }

    /// One for each share of late packets with each share of lost ones.
    pub(crate) fn of_faults(late: &[f64], lost: &[f64]) -> Vec<Self> {
        let one = |late_percent, lost_percent| Self {
            delay: Duration::ZERO,
            faults: Some(Faults { late_percent, lost_percent }),
        };
        lost.iter().flat_map(|lost| late.iter().map(move |late| one(*late, *lost))).collect()
    }

    /// The cases of a document, distinguished from those of other conditions.
    pub(crate) fn mark(&self, document: Document) -> Document {
        match self.faults {
            None => document.with_key(ROUND_TRIP, &(2.0 * self.delay.as_secs_f64() * 1e3).into()),
            Some(Faults { late_percent, lost_percent }) => {
                document.with_key(LATE, &late_percent.into()).with_key(LOST, &lost_percent.into())
            }
        }
    }

    /// The text above its table.
    pub(crate) fn heading(&self) -> String {
        match self.faults {
            None => format!("With {:?} more for each round trip", 2 * self.delay),
            Some(Faults { late_percent, lost_percent }) => {
                format!("With {late_percent} % of all packets late by up to {LATE_BY:?}, and {lost_percent} % lost")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_condition_for_each_delay_or_pair_of_faults() {
        let delays = Condition::of_delays([Duration::ZERO, Duration::from_millis(4)]);
        assert_eq!(delays.len(), 2);
        assert_eq!(delays[1].heading(), "With 8ms more for each round trip");
        assert_eq!(Condition::of_delays([]), [Condition::default()], "a network as it is");
        let faults = Condition::of_faults(&[0.0, 5.0], &[0.0, 1.0]);
        let shares: Vec<_> =
            faults.iter().map(|it| it.faults.map(|it| (it.late_percent, it.lost_percent)).unwrap()).collect();
        assert_eq!(shares, [(0.0, 0.0), (5.0, 0.0), (0.0, 1.0), (5.0, 1.0)]);
        assert_eq!(faults[3].heading(), "With 5 % of all packets late by up to 200µs, and 1 % lost");
    }
}
