//! The machine's network interfaces: which of them are used, and in which order.

use core::str::FromStr;
use std::net::{IpAddr, SocketAddr};

use weft_driver::{interface_names, running_addresses};
use weft_nic::{MAX_ADDRESSES, NamedRails, Rails};

/// An address of an interface that is up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// `eth0`, for example.
    pub name: String,
    /// Its address; IPv6 link-local ones with their scope.
    pub address: SocketAddr,
    /// The prefix length of its network.
    pub prefix: u8,
    /// Whether the default route uses it.
    pub default_route: bool,
}

impl Interface {
    /// Its network, as text: `192.0.2.0/24`.
    #[must_use]
    pub fn network(&self) -> String {
        format!("{}/{}", network(self.address.ip(), self.prefix), self.prefix)
    }

    /// Its place in the order: the loopback after all that others can reach, link-local addresses and those of
    /// containers before it.
    fn rank(&self) -> u8 {
        match self.address.ip() {
            ip if ip.is_loopback() => 5,
            IpAddr::V6(six) if six.is_unicast_link_local() => 4,
            IpAddr::V4(four) if four.is_link_local() => 4,
            _ if CONTAINERS.iter().any(|prefix| self.name.starts_with(prefix)) => 3,
            IpAddr::V6(_) => 2,
            IpAddr::V4(_) if self.default_route => 0,
            IpAddr::V4(_) => 1,
        }
    }

    fn is_link_local(&self) -> bool {
        self.rank() == 4
    }

    /// Whether it reaches this machine only.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        self.address.ip().is_loopback()
    }
}

/// Interfaces of containers and virtual machines of the same host, with addresses that many hosts have.
const CONTAINERS: [&str; 8] = ["docker", "br-", "virbr", "veth", "cni", "flannel", "podman", "lxc"];

/// The user's choice of interfaces (`FI_WEFT_INTERFACE`). Empty: all.
///
/// Its text has names, beginnings of names with `*` behind them, addresses and networks, separated by commas; `!`
/// before one excludes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InterfaceChoice {
    wanted: Vec<Pattern>,
    excluded: Vec<Pattern>,
}

/// Which interfaces are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Pattern {
    Name(String),
    Beginning(String),
    Network(IpAddr, u8),
}

impl Pattern {
    fn fits(&self, interface: &Interface) -> bool {
        match self {
            Self::Name(name) => *name == interface.name,
            Self::Beginning(name) => interface.name.starts_with(name),
            Self::Network(base, prefix) => network(interface.address.ip(), *prefix) == *base,
        }
    }
}

impl FromStr for Pattern {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        if text.is_empty() || text.contains(char::is_whitespace) {
            return Err(());
        }
        if let Some(beginning) = text.strip_suffix('*') {
            return Ok(Self::Beginning(beginning.to_owned()));
        }
        if let Ok(ip) = text.parse::<IpAddr>() {
            return Ok(Self::Network(ip, bits(ip)));
        }
        let Some((base, prefix)) = text.split_once('/') else { return Ok(Self::Name(text.to_owned())) };
        let (base, prefix): (IpAddr, u8) = (base.parse().map_err(drop)?, prefix.parse().map_err(drop)?);
        if prefix > bits(base) {
            return Err(());
        }
        Ok(Self::Network(network(base, prefix), prefix))
    }
}

impl FromStr for InterfaceChoice {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut choice = Self::default();
        for part in text.split(',').map(str::trim) {
            match part.strip_prefix(['!', '^']) {
                Some(excluded) => choice.excluded.push(excluded.trim().parse()?),
                None => choice.wanted.push(part.parse()?),
            }
        }
        Ok(choice)
    }
}

impl InterfaceChoice {
    /// The interfaces of the user's choice, in its order, and then by usefulness.
    fn pick(&self, mut all: Vec<Interface>) -> Vec<Interface> {
        let wish = |interface: &Interface| self.wanted.iter().position(|pattern| pattern.fits(interface));
        all.retain(|interface| !self.excluded.iter().any(|pattern| pattern.fits(interface)));
        if !self.wanted.is_empty() {
            all.retain(|interface| wish(interface).is_some());
        } else if all.iter().any(|interface| !interface.is_link_local() && !interface.is_loopback()) {
            all.retain(|interface| !interface.is_link_local());
        }
        all.sort_by_key(|interface| (wish(interface), interface.rank()));
        all
    }

    /// The interfaces of this machine that are up and that the user permits, best first.
    #[must_use]
    pub fn usable(&self) -> Vec<Interface> {
        self.pick(list())
    }

    /// The interfaces of rails: those that are wanted, limited to usable ones if there is a choice.
    #[must_use]
    pub fn rails(&self, wanted: &Rails) -> Rails {
        if *wanted == Rails::One || *self == Self::default() {
            return wanted.clone();
        }
        let named = |one: Interface| NamedRails { flows: wanted.flows(&one.name), interface: one.name };
        Rails::Named(self.usable().into_iter().map(named).filter(|one| one.flows > 0).collect())
    }
}

/// Which interfaces that the user names for rails do not exist, and which do. `None`: all exist, or that is unknown.
#[must_use]
pub fn explain_unknown_rails(wanted: &Rails) -> Option<String> {
    let mut there = interface_names();
    there.sort();
    explain_unknown(wanted, &there)
}

fn explain_unknown(wanted: &Rails, there: &[String]) -> Option<String> {
    let Rails::Named(named) = wanted else { return None };
    let unknown = |one: &&NamedRails| !there.is_empty() && !there.contains(&one.interface);
    let unknown: Vec<_> = named.iter().filter(unknown).map(|one| format!("{:?}", one.interface)).collect();
    if unknown.is_empty() {
        return None;
    }
    let (unknown, there) = (unknown.join(", "), there.join(", "));
    Some(format!("FI_WEFT_RAILS: this host has no interface {unknown}, so no rail uses it; it has {there}"))
}

/// The addresses of an endpoint that listens on all of these interfaces, best first: those that other machines can
/// reach, or the loopback's if there is none.
#[must_use]
pub fn reachable(interfaces: &[Interface]) -> Vec<IpAddr> {
    // A peer of this host needs no choice.
    let (lonely, most) = match interfaces.iter().all(Interface::is_loopback) {
        true => (true, 1),
        false => (false, MAX_ADDRESSES),
    };
    let far = |interface: &&Interface| {
        (lonely || !interface.is_loopback()) && !(interface.address.is_ipv6() && interface.is_link_local())
    };
    interfaces.iter().filter(far).take(most).map(|interface| interface.address.ip()).collect()
}

/// Why none is usable, if the user's choice excludes all: what exists.
#[must_use]
pub fn explain_none() -> String {
    let all: Vec<_> = list().iter().map(|interface| format!("{} {}", interface.name, interface.address.ip())).collect();
    match all.is_empty() {
        true => "no network interface is up".to_owned(),
        false => format!("FI_WEFT_INTERFACE excludes all network interfaces, which are: {}", all.join(", ")),
    }
}

/// Every address of every interface that is up.
fn list() -> Vec<Interface> {
    let routed = default_route();
    let interface = |(name, address, prefix)| {
        let default_route = routed.as_ref() == Some(&name);
        Interface { name, address, prefix, default_route }
    };
    running_addresses().into_iter().map(interface).collect()
}

/// The name of the default route's interface.
fn default_route() -> Option<String> {
    let table = std::fs::read_to_string("/proc/net/route").ok()?;
    let default = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    let default = default.filter(|fields| fields.len() > 7 && fields[1] == "00000000" && fields[7] == "00000000");
    default.min_by_key(|fields| fields[6].parse::<u32>().unwrap_or(u32::MAX)).map(|fields| fields[0].to_owned())
}

fn network(ip: IpAddr, prefix: u8) -> IpAddr {
    let off = u32::from(bits(ip).saturating_sub(prefix));
    match ip {
        IpAddr::V4(four) => IpAddr::V4((four.to_bits() & u32::MAX.checked_shl(off).unwrap_or(0)).into()),
        IpAddr::V6(six) => IpAddr::V6((six.to_bits() & u128::MAX.checked_shl(off).unwrap_or(0)).into()),
    }
}

const fn bits(ip: IpAddr) -> u8 {
    if ip.is_ipv4() { 32 } else { 128 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(name: &str, address: &str, prefix: u8, default_route: bool) -> Interface {
        Interface { name: name.into(), address: SocketAddr::new(address.parse().unwrap(), 0), prefix, default_route }
    }

    fn machine() -> Vec<Interface> {
        vec![
            interface("lo", "127.0.0.1", 8, false),
            interface("lo", "::1", 128, false),
            interface("docker0", "172.17.0.1", 16, false),
            interface("eth1", "10.0.0.5", 24, false),
            interface("eth0", "192.0.2.5", 24, true),
            interface("eth0", "2001:db8::5", 64, true),
            interface("eth0", "fe80::5", 64, true),
        ]
    }

    fn names(choice: &str) -> Vec<String> {
        let choice = if choice.is_empty() { InterfaceChoice::default() } else { choice.parse().unwrap() };
        choice.pick(machine()).iter().map(|interface| interface.address.ip().to_string()).collect()
    }

    #[test]
    fn rails_over_interfaces_that_do_not_exist_are_named() {
        let there = ["lo", "eth0", "eth1"].map(str::to_owned);
        let explain = |rails: &str| explain_unknown(&rails.parse().unwrap(), &there);
        for good in ["all", "one", "eth0", "eth0*4,eth1"] {
            assert_eq!(explain(good), None, "{good}");
        }
        let text = explain("nix,eth0,ethO").unwrap();
        assert!(text.contains("no interface \"nix\", \"ethO\""), "{text}");
        assert!(text.ends_with("it has lo, eth0, eth1"), "{text}");
        assert_eq!(explain_unknown(&"nix".parse().unwrap(), &[]), None, "the system has not told");
    }

    #[test]
    fn the_useful_ones_come_first() {
        let all = ["192.0.2.5", "10.0.0.5", "2001:db8::5", "172.17.0.1", "127.0.0.1", "::1"];
        assert_eq!(names(""), all);
    }

    #[test]
    fn the_user_chooses() {
        assert_eq!(names("eth1"), ["10.0.0.5"]);
        assert_eq!(names("docker*,eth1"), ["172.17.0.1", "10.0.0.5"]);
        assert_eq!(names("!docker*, !lo"), ["192.0.2.5", "10.0.0.5", "2001:db8::5"]);
        assert_eq!(names("eth0,!2001:db8::/32"), ["192.0.2.5", "fe80::5"]);
        assert_eq!(names("10.0.0.0/8"), ["10.0.0.5"]);
        assert_eq!(names("192.0.2.5"), ["192.0.2.5"]);
        assert_eq!(names("fe80::5"), ["fe80::5"]);
        assert_eq!(names("eth7"), [""; 0]);
    }

    #[test]
    fn what_is_no_choice() {
        for text in [",", "eth0,,eth1", "1.2.3.4/33", "x/8", "!", "eth 0"] {
            assert!(text.parse::<InterfaceChoice>().is_err(), "{text}");
        }
    }

    #[test]
    fn link_local_addresses_are_better_than_none() {
        let few = vec![interface("lo", "127.0.0.1", 8, false), interface("eth0", "fe80::5", 64, false)];
        let picked = InterfaceChoice::default().pick(few);
        assert_eq!(picked.len(), 2);
        assert_eq!(picked[0].name, "eth0");
    }

    #[test]
    fn others_reach_what_is_not_the_loopback() {
        let all = InterfaceChoice::default().pick(machine());
        let ips: Vec<_> = reachable(&all).iter().map(IpAddr::to_string).collect();
        assert_eq!(ips, ["192.0.2.5", "10.0.0.5", "2001:db8::5", "172.17.0.1"]);
        let alone = vec![interface("lo", "127.0.0.1", 8, false), interface("lo", "::1", 128, false)];
        assert_eq!(reachable(&alone), ["127.0.0.1".parse::<IpAddr>().unwrap()]);
    }

    #[test]
    fn networks() {
        assert_eq!(machine()[4].network(), "192.0.2.0/24");
        assert_eq!(machine()[5].network(), "2001:db8::/64");
        assert_eq!(network("1.2.3.4".parse().unwrap(), 0), "0.0.0.0".parse::<IpAddr>().unwrap());
    }

    #[test]
    fn this_machine_has_a_loopback() {
        assert!(list().iter().any(|interface| interface.is_loopback()), "{:?}", list());
    }
}
