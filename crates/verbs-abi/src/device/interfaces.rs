//! Which interfaces are shown as devices, under which names.

use std::net::IpAddr;

use weft_driver::{host_addresses, interface_addresses, interface_names};

/// An interface with addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Interface {
    pub(crate) name: String,
    /// The table of GIDs: its IPv4 addresses, or where it has none those of IPv6.
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) is_up: bool,
}

/// A device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    /// `weft0`, or as the user says.
    pub(crate) name: String,
    pub(crate) interface: Interface,
}

/// Beginnings of the names of bridges and of interfaces of containers of this host: programs that use every device
/// would wait for peers that those do not reach.
const INNER: [&str; 9] = ["docker", "br-", "virbr", "veth", "cni", "flannel", "podman", "lxc", "lxd"];

/// The entry of a table at an index. Scripts name indices 1 to 3, where adapters have RoCE v2; where they are free they
/// are the first entry.
pub(crate) fn at_index<T>(table: &[T], index: usize) -> Option<&T> {
    table.get(index).or_else(|| table.first().filter(|_| (1..=3).contains(&index)))
}

/// The devices of this host.
pub(crate) fn shown() -> Vec<Shown> {
    let wanted = std::env::var("WEFT_VERBS_DEVICES").ok();
    choose(interfaces(), wanted.as_deref())
}

/// The interface as it is now.
pub(crate) fn find(name: &str) -> Option<Interface> {
    interfaces().into_iter().find(|interface| interface.name == name)
}

fn interfaces() -> Vec<Interface> {
    let running = host_addresses();
    let names = interface_names().into_iter();
    let all = names.map(|name| {
        let addresses = table(interface_addresses(&name).into_iter().map(|(ip, _)| ip));
        let is_loopback = addresses.iter().any(IpAddr::is_loopback);
        let is_up = is_loopback || running.iter().any(|host| host.interface == name && host.is_running);
        Interface { name, addresses, is_up }
    });
    all.filter(|interface| !interface.addresses.is_empty()).collect()
}

/// The table of GIDs of these addresses. Programs know the first entry best, and most of them IPv4. Addresses of one
/// link alone (RFC 4291 section 2.5.6) lead nowhere without its name.
fn table(addresses: impl Iterator<Item = IpAddr>) -> Vec<IpAddr> {
    let (four, six): (Vec<_>, Vec<_>) = addresses.partition(IpAddr::is_ipv4);
    let is_of_a_link = |ip: &IpAddr| matches!(ip, IpAddr::V6(six) if six.is_unicast_link_local());
    if four.is_empty() { six.into_iter().filter(|ip| !is_of_a_link(ip)).collect() } else { four }
}

/// Whether a device has GIDs of IPv6, so that it is called at such an address.
pub(crate) fn has_six() -> bool {
    shown().iter().any(|shown| shown.interface.addresses.iter().any(IpAddr::is_ipv6))
}

/// Those that are shown. `wanted`: `eth0:mlx5_0,lo`, interfaces and the names of their devices, in this order; without
/// it all that reach other hosts, or the loopback where there are none.
fn choose(all: Vec<Interface>, wanted: Option<&str>) -> Vec<Shown> {
    let named: Vec<(Interface, Option<String>)> = match wanted.filter(|wanted| !wanted.trim().is_empty()) {
        Some(wanted) => wanted.split(',').filter_map(|part| wish(part.trim(), &all)).collect(),
        None => {
            let is_loopback = |interface: &Interface| interface.addresses.iter().any(IpAddr::is_loopback);
            let is_inner = |interface: &Interface| INNER.iter().any(|inner| interface.name.starts_with(inner));
            let (alone, others): (Vec<_>, Vec<_>) = all.into_iter().partition(is_loopback);
            let mut chosen: Vec<_> = others.into_iter().filter(|interface| !is_inner(interface)).collect();
            if chosen.is_empty() {
                chosen = alone;
            }
            chosen.into_iter().map(|interface| (interface, None)).collect()
        }
    };
    let device = |(number, (interface, name)): (usize, (Interface, Option<String>))| Shown {
        name: name.unwrap_or_else(|| format!("weft{number}")),
        interface,
    };
    named.into_iter().enumerate().map(device).collect()
}

/// One interface of the user's choice, and the name of its device if it is given.
fn wish(part: &str, all: &[Interface]) -> Option<(Interface, Option<String>)> {
    let (interface, name) = part.split_once(':').map_or((part, None), |(interface, name)| (interface, Some(name)));
    let found = all.iter().find(|known| known.name == interface);
    if found.is_none() {
        crate::log::say(format_args!(
            "WEFT_VERBS_DEVICES names the interface {interface:?}, which has no address or is not there; write \
             INTERFACE or INTERFACE:DEVICE, separated by commas"
        ));
    }
    let name = name.filter(|name| !name.is_empty() && name.len() < 64 && !name.contains('/'));
    Some((found?.clone(), name.map(str::to_owned)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(name: &str, address: &str) -> Interface {
        Interface { name: name.into(), addresses: vec![address.parse().unwrap()], is_up: true }
    }

    fn names(all: &[Interface], wanted: Option<&str>) -> Vec<(String, String)> {
        choose(all.to_vec(), wanted).into_iter().map(|shown| (shown.name, shown.interface.name)).collect()
    }

    fn pairs<const N: usize>(pairs: [(&str, &str); N]) -> Vec<(String, String)> {
        pairs.map(|(name, interface)| (name.to_owned(), interface.to_owned())).to_vec()
    }

    #[test]
    fn interfaces_that_reach_others_are_shown() {
        let all = [
            interface("lo", "127.0.0.1"),
            interface("eth0", "192.0.2.1"),
            interface("docker0", "172.17.0.1"),
            interface("eth1", "10.0.0.1"),
        ];
        assert_eq!(names(&all, None), pairs([("weft0", "eth0"), ("weft1", "eth1")]));
        assert_eq!(names(&all[..1], None), pairs([("weft0", "lo")]), "nothing else is there");
        assert_eq!(names(&all, Some("lo,eth1:mlx5_0")), pairs([("weft0", "lo"), ("mlx5_0", "eth1")]));
        assert_eq!(names(&all, Some("eth7")), pairs([]));
        assert_eq!(names(&all, Some("")), names(&all, None));
    }

    #[test]
    fn a_table_has_addresses_of_six_where_there_are_none_of_four() {
        let of = |addresses: &[&str]| {
            let found = table(addresses.iter().map(|text| text.parse().unwrap()));
            found.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(of(&["fe80::1", "fd00::1", "192.0.2.1"]), ["192.0.2.1"]);
        assert_eq!(of(&["fe80::1", "fd00::1", "2001:db8::1"]), ["fd00::1", "2001:db8::1"]);
        assert_eq!(of(&["::1"]), ["::1"]);
        assert!(of(&["fe80::1"]).is_empty());
    }

    #[test]
    fn scripts_find_the_first_entry_at_their_index() {
        let table = ["first", "second"];
        assert_eq!(at_index(&table, 1), Some(&"second"));
        assert_eq!(at_index(&table, 3), Some(&"first"));
        assert_eq!(at_index(&table, 4), None);
        assert_eq!(at_index::<u8>(&[], 1), None);
    }
}
