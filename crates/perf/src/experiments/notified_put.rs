//! A put of which the target learns, beside what else tells it that bytes have come: a message into a receive, and
//! memory that it polls.

use crate::experiments::design::{Basis, Design};
use crate::model::case::Case;
use crate::model::job::{Kind, Operation};
use crate::runner::plan::{Plan, Results};

pub(crate) struct NotifiedPut;

const OPERATIONS: [Operation; 3] = [Operation::Notify, Operation::Send, Operation::Write];

/// Of the messages that latency is measured with: there are three operations.
const SHARE: f64 = 0.3;

impl Design for NotifiedPut {
    fn contestants(&self) -> Vec<String> {
        ["iwarp", "edge", "shm"].map(str::to_owned).to_vec()
    }

    fn cases(&self, basis: &Basis<'_>) -> Vec<Case> {
        let case = |size, operation: Operation| {
            let case = basis.case(Kind::Latency, size, SHARE).with(|job| job.operation = Some(operation));
            case.label_with("operation", operation.name())
        };
        let sizes = basis.sizes(if basis.quick() { "8" } else { "8,4K,64K" });
        sizes.into_iter().flat_map(|size| OPERATIONS.map(|operation| case(size, operation))).collect()
    }

    fn afterword(&self, _: &Plan, _: &Results) -> String {
        "\nnotify: an RDMA write that completes a receive of the target. send: a message into a receive. write: an \
         RDMA write whose target polls its last byte.\n"
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
    fn each_way_to_learn_of_bytes_is_a_case_that_all_can_do() {
        let choices = Choices { quick: true, ..Choices::default() };
        let basis = Basis { template: job(), choices: &choices, libraries: Vec::new(), round_trip: Duration::ZERO };
        let cases = NotifiedPut.cases(&basis);
        let labels: Vec<_> = cases.iter().map(|case| case.label("operation").unwrap()).collect();
        assert_eq!(labels, ["notify", "send", "write"]);
        for name in NotifiedPut.contestants() {
            let contestant = registry::parse(&name).unwrap().contestant;
            let job = |case: &Case| Job { contestant: name.clone(), ..case.job.clone() };
            assert!(cases.iter().all(|case| contestant.supports(&job(case)) == Ok(())), "{name}");
            let stream = Job { kind: Kind::Bandwidth, ..job(&cases[0]) };
            assert!(contestant.supports(&stream).unwrap_err().contains("notified"), "{name}");
        }
    }
}
