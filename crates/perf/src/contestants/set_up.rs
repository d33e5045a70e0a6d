//! Times of connections that are set up one after the other: until each is established, and until a first message over
//! it was answered.

use std::time::Instant;

use crate::model::job::Job;
use crate::model::measure::{Figure, Measured, median, spread};

/// What the side that connects has seen so far.
#[derive(Debug)]
pub(crate) struct SetUps {
    warmup: u64,
    /// What the network adds to a round trip, in microseconds.
    round_trip_us: f64,
    /// Until each connection was established; empty for those that do not report it.
    connected_us: Vec<f64>,
    /// Until each first answer was here.
    answered_us: Vec<f64>,
}

impl SetUps {
    pub(crate) fn new(job: &Job) -> Self {
        let (connected_us, answered_us) = (Vec::new(), Vec::new());
        Self { warmup: job.warmup, round_trip_us: job.round_trip_us as f64, connected_us, answered_us }
    }

    /// When a connection was begun, when it was established (`None`: it does not report that), and when a first answer
    /// had come over it.
    pub(crate) fn add(&mut self, began: Instant, connected: Option<Instant>, answered: Instant) {
        if self.warmup > 0 {
            self.warmup -= 1;
            return;
        }
        let us = |until: Instant| (until - began).as_secs_f64() * 1e6;
        self.connected_us.extend(connected.map(us));
        self.answered_us.push(us(answered));
    }

    /// The medians, and the distribution of the time until the first answer.
    pub(crate) fn finish(self) -> Measured {
        let Self { round_trip_us, connected_us, answered_us, .. } = self;
        let measured = spread(answered_us);
        let mut figures: Vec<_> = median(connected_us).map(|us| (Figure::ConnectedUs, us)).into_iter().collect();
        if let Some(us) = measured.value.filter(|_| round_trip_us > 0.0) {
            // The message and its answer are a round trip themselves.
            figures.push((Figure::RoundTrips, us / round_trip_us - 1.0));
        }
        Measured { figures: figures.into_iter().collect(), ..measured }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::model::job::tests::job;

    #[test]
    fn a_set_up_is_counted_in_round_trips_beyond_the_first_message() {
        let mut set_ups = SetUps::new(&Job { warmup: 1, round_trip_us: 1000, ..job() });
        let began = Instant::now();
        let after = |ms| began + Duration::from_millis(ms);
        set_ups.add(began, None, after(100));
        for (connected, answered) in [(1, 2), (2, 3), (3, 4)] {
            set_ups.add(began, Some(after(connected)), after(answered));
        }
        let measured = set_ups.finish();
        assert!((measured.figures[&Figure::RoundTrips] - 2.0).abs() < 1e-9, "{measured:?}");
        assert!((measured.figures[&Figure::ConnectedUs] - 2000.0).abs() < 1e-6, "{measured:?}");
        assert_eq!(measured.histogram.unwrap().counts.iter().sum::<u64>(), 3, "the first warmed up");
    }

    #[test]
    fn without_a_delay_nothing_is_counted() {
        let mut set_ups = SetUps::new(&Job { warmup: 0, round_trip_us: 0, ..job() });
        let began = Instant::now();
        set_ups.add(began, None, began + Duration::from_millis(1));
        let measured = set_ups.finish();
        assert!(measured.value.is_some() && measured.figures.is_empty(), "{measured:?}");
    }
}
