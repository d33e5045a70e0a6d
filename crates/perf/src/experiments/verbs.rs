//! Unmodified programs for libibverbs over Weft's own library, beside Weft's own client over the same carrier.

use crate::contestants::perftest::Perftest;
use crate::experiments::design::{Basis, Design};
use crate::model::case::Case;
use crate::model::job::{Kind, Operation};
use crate::runner::plan::{Plan, Results};

pub(crate) struct Verbs;

/// Of the messages of a run of each kind: there are four cases.
const SHARE: f64 = 0.3;

/// What is measured: the kind of run, the operation, and the size.
const CASES: [(Kind, Operation, &str); 4] = [
    (Kind::Latency, Operation::Send, "8"),
    (Kind::Bandwidth, Operation::Write, "64K"),
    (Kind::Bandwidth, Operation::Read, "64K"),
    (Kind::Rate, Operation::Atomic, "8"),
];

impl Design for Verbs {
    fn contestants(&self) -> Vec<String> {
        vec!["edge".to_owned(), Perftest::NAME.to_owned()]
    }

    fn cases(&self, basis: &Basis<'_>) -> Vec<Case> {
        let case = |(kind, operation, size): (Kind, Operation, &str)| {
            let size = size.parse().expect("the sizes are well formed");
            let case = basis.case(kind, size, SHARE).with(|job| job.operation = Some(operation));
            case.label_with("operation", operation.name())
        };
        CASES.into_iter().map(case).collect()
    }

    fn afterword(&self, _: &Plan, _: &Results) -> String {
        "\nperftest: ib_send_lat, ib_write_bw, ib_read_bw and ib_atomic_bw of Debian, unchanged, over Weft's \
         libibverbs.so.1 and the carrier of its variant (edge). Beside another carrier: --transport iwarp --vs \
         perftest:iwarp. Their figures include the start of each run.\n"
            .into()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::experiments::design::Choices;
    use crate::model::job::Job;
    use crate::model::job::tests::job;
    use crate::runner::registry;

    #[test]
    fn both_contestants_can_do_each_case() {
        let choices = Choices { quick: true, ..Choices::default() };
        let basis = Basis { template: job(), choices: &choices, libraries: Vec::new(), round_trip: Duration::ZERO };
        let cases = Verbs.cases(&basis);
        let labels: Vec<_> = cases.iter().map(|case| case.label("operation").unwrap()).collect();
        assert_eq!(labels, ["send", "write", "read", "atomic"]);
        for name in Verbs.contestants() {
            let contestant = registry::parse(&name).unwrap().contestant;
            let job = |case: &Case| Job { contestant: name.clone(), ..case.job.clone() };
            assert!(cases.iter().all(|case| contestant.supports(&job(case)) == Ok(())), "{name}");
        }
    }
}
