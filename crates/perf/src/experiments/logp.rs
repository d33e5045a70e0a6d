//! The parameters of LogP: overheads of both ends, gap, latency, gap per byte, by size of the message.

use crate::experiments::design::{Basis, Design};
use crate::model::case::Case;
use crate::model::job::Kind;
use crate::runner::plan::{Plan, Results};

pub(crate) struct LogP;

impl Design for LogP {
    fn contestants(&self) -> Vec<String> {
        ["iwarp", "edge", "shm", "sockets", "libfabric:tcp"].map(str::to_owned).to_vec()
    }

    fn cases(&self, basis: &Basis<'_>) -> Vec<Case> {
        basis.sizes("8,1K,16K").into_iter().map(|size| basis.case(Kind::LogP, size, 1.0)).collect()
    }

    fn afterword(&self, _: &Plan, _: &Results) -> String {
        "\nsend, receive: the call alone, with nothing to wait for. gap: from one message of a burst of a window to \
         the next.\nlatency: half a round trip of one byte, less its gap. per byte: what the gap grows by.\n"
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
    fn each_contestant_has_each_size() {
        let choices = Choices::default();
        let basis = Basis { template: job(), choices: &choices, libraries: Vec::new(), round_trip: Duration::ZERO };
        let cases = LogP.cases(&basis);
        assert_eq!(cases.iter().map(|case| case.job.size).collect::<Vec<_>>(), [8, 1024, 16384]);
        for name in LogP.contestants() {
            let entry = registry::parse(&name).unwrap();
            let job = Job {
                contestant: entry.contestant.name().into(),
                variant: entry.variant.clone(),
                ..cases[0].job.clone()
            };
            assert_eq!(entry.contestant.supports(&job), Ok(()), "{name}");
        }
    }
}
