//! One host of a lab.

use std::ffi::{OsStr, OsString};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use serde::{Deserialize, Serialize};

use crate::plan::Plan;
use crate::process::Process;

/// A host: a network namespace with an interface for each rail, and `lo`. The description outlives the lab; with it
/// another process can start programs in the host, as long as [`Host::is_up`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    index: usize,
    name: String,
    /// Which cluster it belongs to, from 0.
    cluster: usize,
    holder: Process,
    rails: Vec<Rail>,
    nsenter: PathBuf,
    /// Whether its mounts are its own, with a file of the lab's names.
    knows_names: bool,
}

/// A host's interface to one rail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rail {
    /// Its name: `rail0` for the first.
    pub interface: String,
    /// 10.RAIL.CLUSTER.HOST+1, in a network of 24 bits. Without clusters, CLUSTER is 0; in clusters, HOST is counted
    /// inside its own.
    pub ipv4: Ipv4Addr,
    /// fd77:6566:7400:CLUSTER*256+RAIL::HOST+1 (a unique local address, RFC 4193), in a network of 64 bits; `None`
    /// where the kernel has no IPv6.
    pub ipv6: Option<Ipv6Addr>,
}

impl Host {
    pub(crate) fn new(index: usize, plan: &Plan, holder: Process, has_ipv6: bool, nsenter: &Path) -> Self {
        let (cluster, inside) = plan.place_of(index);
        let rails = (0..plan.links).map(|rail| Rail::new(rail, cluster, inside, has_ipv6)).collect();
        let name = plan.host_name(index);
        Self { index, name, cluster, holder, rails, nsenter: nsenter.to_owned(), knows_names: false }
    }

    /// Programs in it find the lab's names in `/etc/hosts`, and its own interfaces below `/sys`.
    pub(crate) fn knowing_names(self, knows_names: bool) -> Self {
        Self { knows_names, ..self }
    }

    /// Which host of the lab it is, from 0.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Its name, which `hostname` says in it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Which cluster it belongs to, from 0; 0 where there are none.
    pub fn cluster(&self) -> usize {
        self.cluster
    }

    /// Whether programs in it find the addresses of the lab's hosts by their names. Not where this system allows no
    /// mounts.
    pub fn knows_names(&self) -> bool {
        self.knows_names
    }

    /// The process whose namespaces are this host's. It runs no program of the user's.
    pub fn holder(&self) -> Process {
        self.holder
    }

    /// Its interfaces, in the order of the rails.
    pub fn rails(&self) -> &[Rail] {
        &self.rails
    }

    /// Its IPv4 address on a rail.
    ///
    /// # Panics
    /// When the lab has no such rail.
    pub fn address(&self, rail: usize) -> IpAddr {
        self.rails[rail].ipv4.into()
    }

    /// Its IPv6 address on a rail; `None` where the kernel has no IPv6.
    ///
    /// # Panics
    /// When the lab has no such rail.
    pub fn address_v6(&self, rail: usize) -> Option<IpAddr> {
        self.rails[rail].ipv6.map(IpAddr::from)
    }

    /// Whether it still is there.
    pub fn is_up(&self) -> bool {
        self.holder.is_alive()
    }

    /// A command that runs `program` in this host: its network is the host's, its user id 0 with every right over the
    /// lab's network. Files, working directory (that of this process) and environment are the caller's, and so are
    /// rights over files; but `/etc/hosts` has the lab's names, and `/sys` the host's interfaces. The process that is
    /// started becomes the program: its id, its exit status and signals to it are the program's. It is killed when the
    /// lab goes down.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = target(&self.nsenter, self.holder);
        command.arg("--uts");
        if self.knows_names {
            command.arg("--mount");
            // Entering other mounts leads to their root.
            let directory = env::current_dir().unwrap_or_else(|_| "/".into());
            let mut option = OsString::from("--wdns=");
            option.push(directory);
            command.arg(option);
        }
        command.arg("--").arg(program.as_ref());
        command
    }
}

impl Rail {
    fn new(rail: usize, cluster: usize, host: usize, has_ipv6: bool) -> Self {
        Self {
            interface: format!("rail{rail}"),
            ipv4: Ipv4Addr::new(10, small(rail), small(cluster), small(host) + 1),
            ipv6: has_ipv6.then(|| local_v6(cluster, rail, host + 1)),
        }
    }
}

/// An address of IPv6 in a cluster's network of a rail.
pub(crate) fn local_v6(cluster: usize, rail: usize, host: usize) -> Ipv6Addr {
    let network = u16::from_be_bytes([small(cluster), small(rail)]);
    Ipv6Addr::new(0xfd77, 0x6566, 0x7400, network, 0, 0, 0, small(host).into())
}

/// A number of a host, a rail, a cluster or a link between clusters.
pub(crate) fn small(number: usize) -> u8 {
    u8::try_from(number).expect("plans are checked before they are carried out")
}

/// A command in the network of a process, as the root of its user namespace.
pub(crate) fn enter(nsenter: &Path, place: Process, program: &OsStr) -> Command {
    let mut command = target(nsenter, place);
    command.arg("--").arg(program);
    command
}

fn target(nsenter: &Path, place: Process) -> Command {
    let mut command = Command::new(nsenter);
    command.args(["--target", &place.id.to_string()]);
    // A user namespace that a process is in already cannot be entered (setns(2), EINVAL): that of a program of the lab.
    let user = |process: &str| fs::read_link(format!("/proc/{process}/ns/user")).ok();
    if user("self").is_none_or(|own| user(&place.id.to_string()) != Some(own)) {
        command.args(["--user", "--preserve-credentials"]);
    }
    command.arg("--net");
    command
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Cluster;

    #[test]
    fn every_host_and_rail_has_addresses_of_its_own() {
        let process = Process { id: 1, started: 1 };
        let plan = Plan { hosts: 64, links: 8, ..Plan::default() };
        let host = |index: usize| Host::new(index, &plan, process, true, Path::new("/usr/bin/nsenter"));
        assert_eq!(host(0).address(0).to_string(), "10.0.0.1");
        assert_eq!(host(63).address(7).to_string(), "10.7.0.64");
        assert_eq!(host(63).address_v6(7).unwrap().to_string(), "fd77:6566:7400:7::40");
        assert_eq!(host(63).name(), "h63");
        let all: std::collections::HashSet<_> = (0..64)
            .flat_map(|index| (0..8).map(move |rail| (index, rail)))
            .map(|(index, rail)| host(index).address(rail))
            .collect();
        assert_eq!(all.len(), 64 * 8);
        assert_eq!(Host::new(0, &plan, process, false, Path::new("nsenter")).address_v6(0), None);
    }

    #[test]
    fn a_host_of_a_cluster_has_its_name_and_a_network_of_its_own() {
        let plan = Plan { hosts: 8, clusters: Cluster::usual(2, 4), ..Plan::default() };
        let host = Host::new(6, &plan, Process { id: 1, started: 1 }, true, Path::new("nsenter"));
        assert_eq!((host.name(), host.cluster(), host.index()), ("b2", 1, 6));
        assert_eq!(host.address(0).to_string(), "10.0.1.3");
        assert_eq!(host.address_v6(0).unwrap().to_string(), "fd77:6566:7400:100::3");
    }
}
