//! What it costs to set a connection up, and how many round trips it takes: a queue pair, an endpoint, Edge with and
//! without a key, and TCP, each until a first message was answered.

use crate::experiments::design::{Basis, Design};
use crate::model::case::Case;
use crate::model::job::{Job, Kind};
use crate::model::size::Size;
use crate::runner::plan::{Plan, Results};

pub(crate) struct Connect;

/// Bytes of the first message and of its answer.
const SIZE: usize = 8;
/// Connections of a launch take about this many seconds, if each takes [`ROUND_TRIPS`]; there are at least [`LEAST`].
const SECONDS: f64 = 0.5;
const ROUND_TRIPS: f64 = 4.0;
const LEAST: u64 = 3;

impl Design for Connect {
    fn contestants(&self) -> Vec<String> {
        [
            "iwarp",
            "edge",
            "edge:key=on",
            "messages",
            "messages:transport=edge",
            "messages:transport=edge:key=on",
            "sockets",
        ]
        .map(str::to_owned)
        .into()
    }

    fn wants_lab(&self) -> bool {
        true
    }

    fn cases(&self, basis: &Basis<'_>) -> Vec<Case> {
        let round_trip_us = u64::try_from(basis.round_trip.as_micros()).unwrap_or(u64::MAX);
        let case = basis.case_of(Kind::Connect, Size(SIZE), connections(basis));
        vec![case.with(|job| job.round_trip_us = round_trip_us)]
    }

    fn afterword(&self, _: &Plan, _: &Results) -> String {
        "\nmedian: from the call that connects (of messages: that sends) until a first message is answered.\n\
         connected: until the connection is established, where a contestant tells. round trips: the median over what the \
         link adds to one, less that of the message and its answer. A program that gets its peer's address by a \
         connection of TCP needs what sockets need besides.\n"
            .into()
    }
}

/// How many connections a launch sets up.
fn connections(basis: &Basis<'_>) -> u64 {
    let usual = Job::default_iterations(Kind::Connect, SIZE);
    let usual = if basis.quick() { usual / 10 } else { usual };
    if basis.round_trip.is_zero() {
        return usual;
    }
    ((SECONDS / (ROUND_TRIPS * basis.round_trip.as_secs_f64())) as u64).clamp(LEAST, usual)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::experiments::design::Choices;
    use crate::model::job::tests::job;

    #[test]
    fn there_are_fewer_connections_the_longer_each_takes() {
        let of = |ms| {
            let choices = Choices::default();
            let round_trip = Duration::from_millis(ms);
            let basis = Basis { template: job(), choices: &choices, libraries: Vec::new(), round_trip };
            let case = Connect.cases(&basis).remove(0);
            (case.job.iterations, case.job.round_trip_us)
        };
        assert_eq!([0, 2, 100].map(of), [(100, 0), (62, 2000), (3, 100_000)]);
    }
}
