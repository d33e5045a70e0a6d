//! Where the two sides of a run are in a test network of two clusters.

use serde::{Deserialize, Serialize};

/// How far apart the two sides are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Reach {
    /// On one host.
    Host,
    /// On two hosts of one cluster, with a switch between them.
    Cluster,
    /// In two clusters, with two gateways and the long link between them.
    Across,
}

impl Reach {
    /// The nearest first.
    pub(crate) const ALL: [Self; 3] = [Self::Host, Self::Cluster, Self::Across];

    /// As a case has it: where the peer is.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Host => "same host",
            Self::Cluster => "same cluster",
            Self::Across => "other cluster",
        }
    }

    /// The hosts of the passive and of the active side, where each of two clusters has this many hosts, two at least.
    pub(crate) fn hosts(self, in_cluster: usize) -> [usize; 2] {
        match self {
            Self::Host => [0, 0],
            Self::Cluster => [1, 0],
            Self::Across => [in_cluster, 0],
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_lab::{Cluster, Plan};

    use super::*;

    #[test]
    fn the_sides_are_where_the_case_says() {
        let plan = Plan { hosts: 6, clusters: Cluster::usual(2, 3), ..Plan::default() };
        let names = Reach::ALL.map(|reach| reach.hosts(3).map(|host| plan.host_name(host)));
        assert_eq!(names, [["a0", "a0"], ["a1", "a0"], ["b0", "a0"]]);
    }
}
