//! One host of a lab.

use std::ffi::OsStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::process::Process;

/// A host: a network namespace with an interface for each rail, and `lo`. The description outlives the lab; with it
/// another process can start programs in the host, as long as [`Host::is_up`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    index: usize,
    holder: Process,
    rails: Vec<Rail>,
    nsenter: PathBuf,
}

/// A host's interface to one rail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rail {
    /// Its name: `rail0` for the first.
    pub interface: String,
    /// 10.RAIL.0.HOST+1, in a network of 24 bits.
    pub ipv4: Ipv4Addr,
    /// fd77:6566:7400:RAIL::HOST+1 (a unique local address, RFC 4193), in a network of 64 bits; `None` where the kernel
    /// has no IPv6.
    pub ipv6: Option<Ipv6Addr>,
}

impl Host {
    pub(crate) fn new(index: usize, links: usize, holder: Process, has_ipv6: bool, nsenter: &Path) -> Self {
        let rails = (0..links).map(|rail| Rail::new(rail, index, has_ipv6)).collect();
        Self { index, holder, rails, nsenter: nsenter.to_owned() }
    }

    /// Which host of the lab it is, from 0.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The process whose namespaces are this host's. It runs no program of anybody's.
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
    /// lab's network. Files, working directory and environment are the caller's, and so are rights over files. The
    /// process that is started becomes the program: its id, its exit status and signals to it are the program's. It is
    /// killed when the lab goes down.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        enter(&self.nsenter, self.holder, program.as_ref())
    }
}

impl Rail {
    fn new(rail: usize, host: usize, has_ipv6: bool) -> Self {
        let (rail_number, host_number) = (small(rail), small(host) + 1);
        let ipv6 = Ipv6Addr::new(0xfd77, 0x6566, 0x7400, rail_number.into(), 0, 0, 0, host_number.into());
        Self {
            interface: format!("rail{rail}"),
            ipv4: Ipv4Addr::new(10, rail_number, 0, host_number),
            ipv6: has_ipv6.then_some(ipv6),
        }
    }
}

/// A number of a host or a rail, of which there are at most 64.
fn small(number: usize) -> u8 {
    u8::try_from(number).expect("plans are checked before they are carried out")
}

/// A command in the namespaces of a process.
pub(crate) fn enter(nsenter: &Path, target: Process, program: &OsStr) -> Command {
    let mut command = Command::new(nsenter);
    command.args(["--target", &target.id.to_string(), "--user", "--net", "--preserve-credentials", "--"]).arg(program);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_host_and_rail_has_addresses_of_its_own() {
        let process = Process { id: 1, started: 1 };
        let host = |index| Host::new(index, 8, process, true, Path::new("/usr/bin/nsenter"));
        assert_eq!(host(0).address(0).to_string(), "10.0.0.1");
        assert_eq!(host(63).address(7).to_string(), "10.7.0.64");
        assert_eq!(host(63).address_v6(7).unwrap().to_string(), "fd77:6566:7400:7::40");
        let all: std::collections::HashSet<_> =
            (0..64).flat_map(|index| (0..8).map(move |rail| host(index).address(rail))).collect();
        assert_eq!(all.len(), 64 * 8);
        assert_eq!(Host::new(0, 1, process, false, Path::new("nsenter")).address_v6(0), None);
    }
}
