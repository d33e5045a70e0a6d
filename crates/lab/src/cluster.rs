//! Clusters: hosts at a switch of their own, behind a gateway, and the long links between the gateways.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::error::LabError;
use crate::shape::Shape;

/// How many clusters a lab may have, if it has any.
pub const CLUSTERS: RangeInclusive<usize> = 2..=8;

/// The longest name of a host or a cluster, in bytes. With what is put behind it for a rail it stays within the 64
/// bytes that Linux has for a host name.
pub const LONGEST_NAME: usize = 48;

/// Hosts at a switch of their own, with a gateway to the other clusters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cluster {
    /// Its name.
    pub name: String,
    /// The names of its hosts, one at least. A lab's hosts are counted through its clusters, from 0.
    pub hosts: Vec<String>,
}

/// A link between the gateways of two clusters, on each rail once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WanLink {
    /// Which clusters it joins, from 0.
    pub between: [usize; 2],
    /// What it does to frames from the first to the second.
    pub there: Shape,
    /// What it does to frames from the second to the first.
    pub back: Shape,
}

impl Cluster {
    /// The usual clusters: a, b, ... with hosts a0, a1, ...
    pub fn usual(clusters: usize, hosts: usize) -> Vec<Self> {
        let cluster = |letter: char| Self {
            name: letter.to_string(),
            hosts: (0..hosts).map(|host| format!("{letter}{host}")).collect(),
        };
        ('a'..='z').take(clusters).map(cluster).collect()
    }
}

impl WanLink {
    /// A link between each two of these clusters, with the same shape in each direction.
    pub fn mesh(clusters: usize, shape: &Shape) -> Vec<Self> {
        let pairs = (0..clusters).flat_map(|one| (one + 1..clusters).map(move |other| [one, other]));
        pairs.map(|between| Self { between, there: shape.clone(), back: shape.clone() }).collect()
    }

    /// Whether frames on it have a fate.
    pub fn is_shaped(&self) -> bool {
        !self.there.is_nothing() || !self.back.is_nothing()
    }
}

/// Whether there can be these clusters with these links.
pub(crate) fn check(clusters: &[Cluster], wan: &[WanLink]) -> Result<(), LabError> {
    if clusters.is_empty() {
        let words = "a link between clusters needs clusters".to_owned();
        return if wan.is_empty() { Ok(()) } else { Err(LabError::Clusters(words)) };
    }
    if !CLUSTERS.contains(&clusters.len()) {
        let (least, most) = (CLUSTERS.start(), CLUSTERS.end());
        let words = format!("a lab of clusters has {least} to {most} of them, not {}", clusters.len());
        return Err(LabError::Clusters(words));
    }
    check_names(clusters)?;
    let mut seen = BTreeSet::new();
    for WanLink { between: [one, other], there, back } in wan {
        let name = |cluster: usize| clusters.get(cluster).map(|cluster| &cluster.name);
        let (Some(near), Some(far)) = (name(*one), name(*other)) else {
            let words = format!("a link joins the clusters {one} and {other}; there are 0 to {}", clusters.len() - 1);
            return Err(LabError::Clusters(words));
        };
        if one == other {
            return Err(LabError::Clusters(format!("a link joins cluster {near} to itself")));
        }
        if !seen.insert((one.min(other), one.max(other))) {
            return Err(LabError::Clusters(format!("the clusters {near} and {far} are joined twice")));
        }
        there.check()?;
        back.check()?;
    }
    let reached = next_hops(clusters.len(), wan, 0);
    match (1..clusters.len()).find(|cluster| reached[*cluster].is_none()) {
        Some(lone) => {
            let words = format!("no links lead from cluster {} to cluster {}", clusters[0].name, clusters[lone].name);
            Err(LabError::Clusters(words))
        }
        None => Ok(()),
    }
}

fn check_names(clusters: &[Cluster]) -> Result<(), LabError> {
    let mut seen = BTreeSet::new();
    for Cluster { name, hosts } in clusters {
        if hosts.is_empty() {
            return Err(LabError::Clusters(format!("cluster {name} has no hosts")));
        }
        for name in hosts.iter().chain([name]) {
            check_name(name)?;
        }
        if let Some(twice) = hosts.iter().find(|host| !seen.insert(*host)) {
            return Err(LabError::Clusters(format!("two hosts are called {twice}")));
        }
    }
    let mut seen = BTreeSet::new();
    match clusters.iter().find(|cluster| !seen.insert(&cluster.name)) {
        Some(twice) => Err(LabError::Clusters(format!("two clusters are called {}", twice.name))),
        None => Ok(()),
    }
}

/// Whether this may be the name of a host or a cluster: letters, digits and hyphens in between (RFC 1123 section 2.1),
/// and no number, which would be taken for a host's.
pub fn check_name(name: &str) -> Result<(), LabError> {
    let is_good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_name = (1..=LONGEST_NAME).contains(&name.len())
        && name.bytes().all(is_good)
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && !name.ends_with('-')
        && name != "localhost";
    if is_name {
        return Ok(());
    }
    let words = format!(
        "{name:?} is no name; a name is up to {LONGEST_NAME} small letters, digits and -, begins with a letter, does \
         not end with -, and is not localhost"
    );
    Err(LabError::Clusters(words))
}

/// Over which link a cluster reaches each other one first: the path with the least delay, and of those the one with the
/// fewest links. `None`: itself, or one that cannot be reached.
pub(crate) fn next_hops(clusters: usize, wan: &[WanLink], from: usize) -> Vec<Option<usize>> {
    let mut first = vec![None; clusters];
    let mut costs: Vec<Option<(u128, usize)>> = vec![None; clusters];
    costs[from] = Some((0, 0));
    // Bellman and Ford: after as many rounds as there are clusters nothing gets shorter.
    for _ in 1..clusters {
        for (index, link) in wan.iter().enumerate() {
            for (near, far, shape) in
                [(link.between[0], link.between[1], &link.there), (link.between[1], link.between[0], &link.back)]
            {
                let Some((delay, links)) = costs[near] else { continue };
                let cost = (delay + shape.delay.as_nanos(), links + 1);
                if costs[far].is_none_or(|known| cost < known) {
                    costs[far] = Some(cost);
                    first[far] = if near == from { Some(index) } else { first[near] };
                }
            }
        }
    }
    first
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn link(between: [usize; 2], ms: u64) -> WanLink {
        let shape = Shape { delay: Duration::from_millis(ms), ..Shape::default() };
        WanLink { between, there: shape.clone(), back: shape }
    }

    #[test]
    fn usual_clusters_are_joined_in_a_mesh() {
        let clusters = Cluster::usual(3, 2);
        assert_eq!(clusters[2], Cluster { name: "c".into(), hosts: vec!["c0".into(), "c1".into()] });
        let wan = WanLink::mesh(3, &Shape::default());
        assert_eq!(wan.iter().map(|link| link.between).collect::<Vec<_>>(), [[0, 1], [0, 2], [1, 2]]);
        assert!(check(&clusters, &wan).is_ok());
        assert_eq!(next_hops(3, &wan, 1), [Some(0), None, Some(2)]);
    }

    #[test]
    fn the_way_with_the_least_delay_is_taken() {
        let wan = [link([0, 1], 50), link([0, 2], 10), link([2, 1], 10)];
        assert_eq!(next_hops(3, &wan, 0), [None, Some(1), Some(1)]);
        assert_eq!(next_hops(3, &wan, 1), [Some(2), None, Some(2)]);
        // Of paths that take equally long the one with fewer links.
        let wan = [link([0, 1], 20), link([0, 2], 10), link([2, 1], 10)];
        assert_eq!(next_hops(3, &wan, 0), [None, Some(0), Some(1)]);
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_name() {
        let three = Cluster::usual(3, 1);
        let named = |name: &str| {
            let mut clusters = Cluster::usual(2, 2);
            clusters[1].hosts[0] = name.to_owned();
            clusters
        };
        let mesh = WanLink::mesh(2, &Shape::default());
        for (clusters, wan, said) in [
            (Cluster::usual(1, 4), vec![], "2 to 8"),
            (Cluster::usual(9, 1), vec![], "not 9"),
            (Cluster::usual(2, 0), mesh.clone(), "cluster a has no hosts"),
            (named("a1"), mesh.clone(), "two hosts are called a1"),
            (named("A"), mesh.clone(), "\"A\" is no name"),
            (named("0"), mesh.clone(), "begins with a letter"),
            (named("localhost"), mesh.clone(), "not localhost"),
            (three.clone(), vec![link([0, 1], 1)], "from cluster a to cluster c"),
            (three.clone(), vec![link([0, 3], 1)], "there are 0 to 2"),
            (three.clone(), vec![link([1, 1], 1)], "cluster b to itself"),
            (three.clone(), vec![link([0, 1], 1), link([1, 0], 1)], "b and a are joined twice"),
            (three, vec![link([0, 1], 11_000)], "a delay of 11s"),
            (vec![], mesh, "needs clusters"),
        ] {
            let message = check(&clusters, &wan).unwrap_err().to_string();
            assert!(message.contains(said), "{message}");
        }
    }
}
