//! What a lab shall be.

use serde::{Deserialize, Serialize};

use crate::carrier::Carrier;
use crate::cluster::{self, Cluster, WanLink};
use crate::error::LabError;
use crate::limits::{BitsPerSecond, HOSTS, LINKS, MTU, RATE};

/// The congestion control of nearly every Linux; and the one that each Linux has: the first that can be had. Neither
/// paces what it sends, as `bbr` does. Where the machine's root has not allowed the first to other network namespaces,
/// the routes of a lab's hosts name it.
pub const USUAL_CONGESTION_CONTROLS: [&str; 2] = ["cubic", "reno"];

/// A network to make. [`Default`]: two hosts, one link of 1 Gb/s with an MTU of 1500, segmentation offload on, the
/// usual congestion control.
///
/// Two hosts are joined by veth pairs. More are joined by one bridge for each rail: a host's n-th link goes to the n-th
/// bridge, and the bridges are not joined to each other. In clusters, each has such bridges of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// How many hosts: one of [`HOSTS`].
    pub hosts: usize,
    /// How many links each host has, one to each rail: one of [`LINKS`].
    pub links: usize,
    /// What each link carries in each direction, headers included from Ethernet's on: one of [`RATE`]. `None`: as much
    /// as the processor moves.
    pub rate: Option<BitsPerSecond>,
    /// Rails with rates of their own: that of each, from the first on. Further ones have [`Plan::rate`].
    #[serde(default)]
    pub rates: Vec<BitsPerSecond>,
    /// The largest IP packet, in bytes: one of [`MTU`].
    pub mtu: u32,
    /// Whether a super-packet may cross a link whole, as if the NIC would cut it. Without, the kernel cuts TCP and UDP
    /// (GSO) into packets of the MTU before the link, and what a receiver gets are real packets. Needs `ethtool` when
    /// `false`.
    pub offloads: bool,
    /// TCP's congestion control in the hosts, as `/proc/sys/net/ipv4/tcp_congestion_control` names it. `None`:
    /// [`USUAL_CONGESTION_CONTROLS`], so that what is measured depends less on how a machine is set up.
    pub congestion_control: Option<String>,
    /// Whether two hosts are joined by switches too, as more are, from the start, not only when a
    /// link is shaped.
    #[serde(default)]
    pub switch: bool,
    /// Clusters, each with a switch and a gateway, between which IP is routed. [`Plan::hosts`] is how many hosts they
    /// have together. Empty: the hosts are in one network.
    #[serde(default)]
    pub clusters: Vec<Cluster>,
    /// The links between clusters.
    #[serde(default)]
    pub wan: Vec<WanLink>,
    /// By what the packets of links are carried that do something to them. `None`: by packet queues where the shape and
    /// this system allow it, and by rings elsewhere.
    #[serde(default)]
    pub carrier: Option<Carrier>,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            hosts: 2,
            links: 1,
            rate: Some(BitsPerSecond(1_000_000_000)),
            rates: Vec::new(),
            mtu: 1500,
            offloads: true,
            congestion_control: None,
            switch: false,
            clusters: Vec::new(),
            wan: Vec::new(),
            carrier: None,
        }
    }
}

impl Plan {
    /// Whether every value is within its limits.
    pub fn check(&self) -> Result<(), LabError> {
        if !HOSTS.contains(&self.hosts) {
            return Err(LabError::Hosts(self.hosts));
        }
        if !LINKS.contains(&self.links) {
            return Err(LabError::Links(self.links));
        }
        if !MTU.contains(&self.mtu) {
            return Err(LabError::Mtu(self.mtu));
        }
        cluster::check(&self.clusters, &self.wan)?;
        let clustered: usize = self.clusters.iter().map(|cluster| cluster.hosts.len()).sum();
        if !self.clusters.is_empty() && clustered != self.hosts {
            let words = format!("the clusters have {clustered} hosts together, the lab {}", self.hosts);
            return Err(LabError::Clusters(words));
        }
        match self.rates.iter().chain(&self.rate).find(|rate| !RATE.contains(rate)) {
            Some(rate) => Err(LabError::Rate(*rate)),
            None => Ok(()),
        }
    }

    /// What the links to a rail carry in each direction; `None`: as much as the processor moves.
    #[must_use]
    pub fn rate_of(&self, rail: usize) -> Option<BitsPerSecond> {
        self.rates.get(rail).copied().or(self.rate)
    }

    /// The rates of the links, for people: one, or one for each rail.
    #[must_use]
    pub fn rates_text(&self) -> String {
        let text = |rate: Option<BitsPerSecond>| rate.map_or_else(|| "no limit".to_owned(), |rate| rate.to_string());
        if self.rates.is_empty() {
            return text(self.rate);
        }
        (0..self.links).map(|rail| text(self.rate_of(rail))).collect::<Vec<_>>().join(", ")
    }

    /// The congestion controls to try, best first.
    pub(crate) fn congestion_controls(&self) -> Vec<&str> {
        self.congestion_control.as_deref().map_or_else(|| USUAL_CONGESTION_CONTROLS.to_vec(), |name| vec![name])
    }

    /// Whether a bridge for each rail joins the hosts, or those of each cluster.
    pub(crate) fn has_switch(&self) -> bool {
        self.hosts > 2 || self.switch || !self.clusters.is_empty()
    }

    /// A host's cluster, and which of its hosts it is, both from 0.
    pub fn place_of(&self, host: usize) -> (usize, usize) {
        let mut before = 0;
        for (index, cluster) in self.clusters.iter().enumerate() {
            if host < before + cluster.hosts.len() {
                return (index, host - before);
            }
            before += cluster.hosts.len();
        }
        (0, host)
    }

    /// A host's name: in clusters it has one, and otherwise it is h0, h1, ...
    pub fn host_name(&self, host: usize) -> String {
        let (cluster, index) = self.place_of(host);
        let named = self.clusters.get(cluster).and_then(|cluster| cluster.hosts.get(index));
        named.cloned().unwrap_or_else(|| format!("h{host}"))
    }

    /// How many networks a rail has: one for each cluster.
    pub(crate) fn networks(&self) -> usize {
        self.clusters.len().max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_out_of_its_limits_is_refused_with_the_value_and_the_limits() {
        let usual = Plan::default();
        assert!(usual.check().is_ok());
        assert!(Plan { rate: None, ..usual.clone() }.check().is_ok());
        for (plan, said) in [
            (Plan { hosts: 1, ..usual.clone() }, ["1 host", "2 to 64"]),
            (Plan { hosts: 65, ..usual.clone() }, ["65 hosts", "2 to 64"]),
            (Plan { links: 0, ..usual.clone() }, ["0 links", "1 to 8"]),
            (Plan { links: 9, ..usual.clone() }, ["9 links", "1 to 8"]),
            (Plan { mtu: 1279, ..usual.clone() }, ["1279", "1280 to 65535"]),
            (Plan { mtu: 65_536, ..usual.clone() }, ["65536", "1280 to 65535"]),
            (Plan { rate: Some(BitsPerSecond(99_999)), ..usual.clone() }, ["99.999 kb/s", "100 kb/s to 100 Gb/s"]),
        ] {
            let message = plan.check().unwrap_err().to_string();
            assert!(said.iter().all(|words| message.contains(words)), "{message}");
        }
    }
}
