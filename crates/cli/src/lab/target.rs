//! What `weft lab shape`, `cut` and `mend` take for a link: one of a rail, or one between clusters.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use weft_lab::{Link, Plan, WanCut, Way};

/// A link as it is typed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Target {
    /// Of a rail, or a host's cable to it.
    Rail(Link),
    /// All links between clusters.
    Wan,
    /// The link between two clusters, whose names have a hyphen in between.
    Between(String),
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(link) => Ok(Self::Rail(link)),
            Err(_) if text == "wan" => Ok(Self::Wan),
            Err(_) if text.contains('-') => Ok(Self::Between(text.to_owned())),
            Err(error) => Err(format!("{error}; or wan, or a-b for the link between clusters a and b")),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rail(link) => link.fmt(f),
            Self::Wan => f.write_str("wan"),
            Self::Between(text) => f.write_str(text),
        }
    }
}

impl Target {
    /// How the links between clusters that are meant fail.
    pub(super) fn wan_cuts(&self, plan: &Plan, way: Way) -> Result<Vec<(usize, WanCut)>, String> {
        let links = self.links(plan)?;
        let sender = |between: [usize; 2]| {
            let Self::Between(text) = self else {
                return Err(format!(
                    "{way} is of one link, named from one end: a-b --way send is what cluster a sends"
                ));
            };
            let is_turned = *text == named(plan, [between[1], between[0]]);
            Ok(between[usize::from(is_turned != (way == Way::Receive))])
        };
        let cut = |link: usize| {
            let cut = match way {
                Way::Carrier => WanCut::Carrier,
                Way::Silent => WanCut::Silent,
                Way::Send | Way::Receive => WanCut::From(sender(plan.wan[link].between)?),
            };
            Ok((link, cut))
        };
        links.into_iter().map(cut).collect()
    }

    /// Which links between clusters are meant.
    pub(super) fn links(&self, plan: &Plan) -> Result<Vec<usize>, String> {
        let name = |one: usize, other: usize| named(plan, [one, other]);
        let is_meant = |[one, other]: [usize; 2]| match self {
            Self::Rail(_) => false,
            Self::Wan => true,
            Self::Between(text) => *text == name(one, other) || *text == name(other, one),
        };
        let found: Vec<_> = (0..plan.wan.len()).filter(|link| is_meant(plan.wan[*link].between)).collect();
        if !found.is_empty() {
            return Ok(found);
        }
        let all: Vec<_> = plan.wan.iter().map(|link| name(link.between[0], link.between[1])).collect();
        let known =
            if all.is_empty() { "the lab has no clusters".to_owned() } else { format!("there are {}", all.join(", ")) };
        Err(format!("there is no such link between clusters; {known}"))
    }
}

/// What a link is called from the first of these clusters.
fn named(plan: &Plan, [one, other]: [usize; 2]) -> String {
    format!("{}-{}", plan.clusters[one].name, plan.clusters[other].name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_lab::{Cluster, Shape, WanLink};

    #[test]
    fn a_direction_is_that_of_the_cluster_that_is_named_first() {
        let clusters = Cluster::usual(3, 1);
        let plan = Plan { hosts: 3, clusters, wan: WanLink::mesh(3, &Shape::default()), ..Plan::default() };
        let cuts = |text: &str, way| text.parse::<Target>().unwrap().wan_cuts(&plan, way);
        assert_eq!(cuts("a-b", Way::Send), Ok(vec![(0, WanCut::From(0))]));
        assert_eq!(cuts("b-a", Way::Send), Ok(vec![(0, WanCut::From(1))]));
        assert_eq!(cuts("b-c", Way::Receive), Ok(vec![(2, WanCut::From(2))]));
        assert_eq!(cuts("c-b", Way::Receive), Ok(vec![(2, WanCut::From(1))]));
        assert_eq!(cuts("wan", Way::Silent).unwrap().len(), 3);
        assert!(cuts("wan", Way::Send).unwrap_err().contains("a-b --way send"));
        assert!(cuts("a-d", Way::Carrier).unwrap_err().contains("there are a-b"));
    }

    #[test]
    fn a_link_is_a_rails_or_between_clusters() {
        let target = |text: &str| text.parse::<Target>();
        assert_eq!(target("1:rail0"), Ok(Target::Rail("1:rail0".parse().unwrap())));
        assert_eq!(target("wan"), Ok(Target::Wan));
        assert_eq!(target("a-b"), Ok(Target::Between("a-b".to_owned())));
        assert!(target("eth0").unwrap_err().contains("a-b"));
    }

    #[test]
    fn links_between_clusters_have_the_names_of_both() {
        let clusters = Cluster::usual(3, 1);
        let plan = Plan { hosts: 3, clusters, wan: WanLink::mesh(3, &Shape::default()), ..Plan::default() };
        let links = |text: &str| text.parse::<Target>().unwrap().links(&plan);
        assert_eq!(links("wan"), Ok(vec![0, 1, 2]));
        assert_eq!(links("b-c"), Ok(vec![2]));
        assert_eq!(links("c-b"), Ok(vec![2]));
        assert!(links("a-d").unwrap_err().contains("there are a-b, a-c, b-c"));
        assert!(Target::Wan.links(&Plan::default()).unwrap_err().contains("has no clusters"));
    }
}
