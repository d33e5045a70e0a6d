//! Experiments that are made together, by one name.

use super::{ALL, Experiment};

/// Several experiments.
#[derive(Debug)]
pub(crate) struct Group {
    /// As it is typed in the place of an experiment.
    pub(crate) name: &'static str,
    /// What they are about, in at most 37 letters.
    pub(crate) subject: &'static str,
    /// Their names, in the order in which they are made.
    names: &'static [&'static str],
}

impl Group {
    /// The experiments, in the order in which they are made.
    pub(crate) fn experiments(&self) -> impl Iterator<Item = &'static Experiment> {
        self.names.iter().filter_map(|name| ALL.iter().find(|one| one.name == *name))
    }
}

/// All of them.
pub(crate) const GROUPS: [Group; 4] = [
    Group {
        name: "edge",
        subject: "Edge beside its peers, all of it",
        names: &[
            "links-rates",
            "mpi-edge",
            "short-edge",
            "rate-edge",
            "distance-faults",
            "distance-cpu",
            "fairness",
            "fairness-far",
            "cuts",
        ],
    },
    Group { name: "edge-short", subject: "Short messages over Edge", names: &["short-edge", "rate-edge"] },
    Group { name: "edge-far", subject: "Edge at a distance", names: &["distance-faults", "distance-cpu"] },
    Group { name: "edge-fairness", subject: "Edge beside other flows", names: &["fairness", "fairness-far"] },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_of_experiments_and_have_names_of_their_own() {
        for (at, group) in GROUPS.iter().enumerate() {
            let is_known = |name: &str| ALL.iter().any(|one| one.name == name);
            assert!(!is_known(group.name), "{} is an experiment", group.name);
            assert!(GROUPS[..at].iter().all(|other| other.name != group.name), "{}", group.name);
            assert!(group.name.len() <= 16 && group.subject.len() <= 37, "{}", group.name);
            let unknown: Vec<_> = group.names.iter().filter(|name| !is_known(name)).collect();
            assert!(unknown.is_empty() && group.experiments().count() > 1, "{}: {unknown:?}", group.name);
        }
    }
}
