//! What it costs to match a message with its receive, among many.

use crate::contestants::matcher::Matching as Contestant;
use crate::experiments::design::{Basis, Design};
use crate::model::case::Case;
use crate::model::job::{Crowd, Kind, Queue, Wanted, Which};
use crate::model::size::Size;
use crate::runner::plan::{Plan, Results};

pub(crate) struct Matching;

impl Design for Matching {
    fn contestants(&self) -> Vec<String> {
        vec![Contestant::NAME.to_owned()]
    }

    fn cases(&self, basis: &Basis<'_>) -> Vec<Case> {
        let mut cases = Vec::new();
        for (wanted, wanted_name, which, which_name) in [
            (Wanted::Exact, "exact", Which::One, "the same"),
            (Wanted::Exact, "exact", Which::Any, "any"),
            (Wanted::AnySource, "any source", Which::One, "the same"),
            (Wanted::SomeBits, "some bits of the tag", Which::One, "the same"),
        ] {
            for (queue, queue_name) in [(Queue::Posted, "posted"), (Queue::Unexpected, "unexpected")] {
                for &others in &basis.choices.others {
                    let case = basis.case(Kind::Matching, Size(1), 1.0).with(|job| {
                        (job.ranks, job.crowd) = (1, Some(Crowd { queue, wanted, which, others }));
                    });
                    let case = case.label_with("receive", wanted_name).label_with("queue", queue_name);
                    cases.push(case.label_with("which", which_name).label_with("others", others));
                }
            }
        }
        cases
    }

    fn afterword(&self, _: &Plan, _: &Results) -> String {
        "\nposted: a message comes, its receive is found and taken, and posted again, among others of the same kind and for other tags.\n\
         unexpected: a receive finds its message and takes it, and the message comes again, among others with other tags.\n\
         alone: the same with nothing else there; added: what the others cost.\n\
         the same: it is the same one each time, and the others are only there; any: one of them at random, which caches may not hold.\n"
            .into()
    }
}
