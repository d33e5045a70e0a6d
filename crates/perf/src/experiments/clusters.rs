//! Latency inside a cluster and between two, through one interface: the peer is on the same host, in the same cluster,
//! or in the other one, and the program does not know. Jin et al. measured that with RDMA over IP beside sockets.

use std::time::Duration;

use crate::experiments::design::{Basis, Design};
use crate::model::case::Case;
use crate::model::job::Kind;
use crate::model::reach::Reach;
use crate::runner::plan::{Plan, Results};

pub(crate) struct Clusters;

/// Hosts in each of the two clusters.
const HOSTS: usize = 2;
/// Of the messages that latency is measured with: there are three places, and a launch of each.
const SHARE: f64 = 0.2;
/// What the others are compared with.
const SOCKETS: &str = "sockets";

impl Design for Clusters {
    fn contestants(&self) -> Vec<String> {
        ["messages:transport=shm+iwarp", "messages:transport=shm+edge", SOCKETS].map(str::to_owned).into()
    }

    fn hosts_in_clusters(&self) -> Option<usize> {
        Some(HOSTS)
    }

    fn cases(&self, basis: &Basis<'_>) -> Vec<Case> {
        let quick = basis.quick();
        let near = Basis {
            template: basis.template.clone(),
            choices: basis.choices,
            libraries: Vec::new(),
            round_trip: Duration::ZERO,
        };
        let sizes = basis.sizes(if quick { "4,16K" } else { "4..16K" });
        let case = |size, reach: Reach| {
            let basis = if reach == Reach::Across { basis } else { &near };
            let case = basis.case(Kind::Latency, size, SHARE).with(|job| job.reach = Some(reach));
            case.label_with("peer", reach.name())
        };
        Reach::ALL.into_iter().flat_map(|reach| sizes.iter().map(move |size| case(*size, reach))).collect()
    }

    fn afterword(&self, plan: &Plan, results: &Results) -> String {
        let Some(sockets) = plan.entries.iter().position(|entry| entry.to_string() == SOCKETS) else {
            return String::new();
        };
        let mut text = String::new();
        for (entry, name) in plan.entries.iter().enumerate().filter(|(entry, _)| *entry != sockets) {
            for reach in Reach::ALL {
                let cases = plan.cases.iter().enumerate().filter(|(_, case)| case.job.reach == Some(reach));
                let shares = cases.filter_map(|(at, case)| {
                    let [own, other] = [entry, sockets].map(|entry| results.main(plan, entry, at));
                    Some(format!("{:.0} % at {}", 100.0 * own? / other?, case.size()))
                });
                let shares: Vec<_> = shares.collect();
                if !shares.is_empty() {
                    text += &format!("\n{name}, {}: of the time of sockets {}", reach.name(), shares.join(", "));
                }
            }
        }
        if text.is_empty() { text } else { text + "\n" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::design::Choices;
    use crate::model::job::tests::job;

    #[test]
    fn each_size_is_measured_at_each_distance() {
        let choices = Choices { quick: true, ..Choices::default() };
        let round_trip = Duration::from_millis(100);
        let basis = Basis { template: job(), choices: &choices, libraries: Vec::new(), round_trip };
        let cases = Clusters.cases(&basis);
        let at = |reach| cases.iter().filter(move |case| case.job.reach == Some(reach));
        assert!(Reach::ALL.iter().all(|reach| at(*reach).count() == 2));
        assert_eq!(cases[0].label("peer").as_deref(), Some("same host"));
        // Only messages between the clusters take as long as the link between them.
        assert!(at(Reach::Across).all(|case| case.job.iterations == 10));
        assert!(at(Reach::Cluster).all(|case| case.job.iterations > 100));
    }
}
