//! The addresses of this host.

use std::net::{IpAddr, SocketAddr, SocketAddrV6};

use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use nix::net::if_::{InterfaceFlags, if_nameindex, if_nametoindex};
use weft_base::{HostAddress, LocalAddress};

/// The addresses of this host, except those of the loopback and link-local ones. Empty where the system does not report
/// them.
#[must_use]
pub fn host_addresses() -> Vec<HostAddress> {
    getifaddrs().map(|entries| entries.filter_map(|entry| host_address(&entry)).collect()).unwrap_or_default()
}

/// The addresses of an interface of this host, by its name, link-local ones included, with their prefix lengths. Empty
/// where there are none, or the system does not report them.
#[must_use]
pub fn interface_addresses(interface: &str) -> Vec<(IpAddr, u8)> {
    let of_it = |entry: &InterfaceAddress| entry.interface_name == interface;
    let address = |entry: InterfaceAddress| Some((ip(&entry)?, prefix(&entry)));
    getifaddrs().map(|entries| entries.filter(of_it).filter_map(address).collect()).unwrap_or_default()
}

/// Every address of every interface of this host that is up and running, the loopback's and link-local ones (with their
/// scope) included: the interface, the address with port 0, and its prefix length. Empty where the system does not
/// report them.
#[must_use]
pub fn running_addresses() -> Vec<(String, SocketAddr, u8)> {
    let is_running =
        |entry: &InterfaceAddress| entry.flags.contains(InterfaceFlags::IFF_UP | InterfaceFlags::IFF_RUNNING);
    let address = |entry: InterfaceAddress| {
        let ip = ip(&entry)?;
        let six = entry.address.as_ref().and_then(|address| address.as_sockaddr_in6());
        let address = match (ip, six.map(|six| six.scope_id())) {
            (IpAddr::V6(ip), Some(scope)) => SocketAddrV6::new(ip, 0, 0, scope).into(),
            _ => SocketAddr::new(ip, 0),
        };
        Some((entry.interface_name.clone(), address, prefix(&entry)))
    };
    getifaddrs().map(|entries| entries.filter(is_running).filter_map(address).collect()).unwrap_or_default()
}

/// The names of this host's interfaces, those without an address and the loopback included. Empty where the system does
/// not report them.
#[must_use]
pub fn interface_names() -> Vec<String> {
    let entries = if_nameindex();
    let names = entries.iter().flat_map(|entries| entries.iter());
    names.map(|interface| interface.name().to_string_lossy().into_owned()).collect()
}

fn host_address(entry: &InterfaceAddress) -> Option<HostAddress> {
    if entry.flags.contains(InterfaceFlags::IFF_LOOPBACK) {
        return None;
    }
    let is_running = entry.flags.contains(InterfaceFlags::IFF_UP | InterfaceFlags::IFF_RUNNING);
    let ip = ip(entry)?;
    let of_a_link = match ip {
        IpAddr::V4(four) => four.is_link_local(),
        IpAddr::V6(six) => six.is_unicast_link_local(),
    };
    let interface = if_nametoindex(entry.interface_name.as_str()).ok()?;
    let address = LocalAddress { ip, interface };
    let name = || entry.interface_name.clone();
    (!of_a_link).then(|| HostAddress { interface: name(), address, prefix: prefix(entry), is_running })
}

fn ip(entry: &InterfaceAddress) -> Option<IpAddr> {
    let address = entry.address.as_ref()?;
    match (address.as_sockaddr_in(), address.as_sockaddr_in6()) {
        (Some(four), _) => Some(IpAddr::V4(four.ip())),
        (_, Some(six)) => Some(IpAddr::V6(six.ip())),
        _ => None,
    }
}

/// The prefix length; the full length where the system names none.
fn prefix(entry: &InterfaceAddress) -> u8 {
    let full = if entry.address.as_ref().is_some_and(|address| address.as_sockaddr_in().is_some()) { 32 } else { 128 };
    let mask = entry.netmask.as_ref();
    let four = mask.and_then(|mask| mask.as_sockaddr_in()).map(|mask| mask.ip().to_bits().leading_ones());
    let six = mask.and_then(|mask| mask.as_sockaddr_in6()).map(|mask| mask.ip().to_bits().leading_ones());
    four.or(six).unwrap_or(full) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_is_among_those_that_run() {
        let all = running_addresses();
        let four = |(_, address, prefix): &&(String, SocketAddr, u8)| address.ip().is_loopback() && *prefix == 8;
        assert!(all.iter().any(|one| four(&one)) || all.iter().all(|(_, address, _)| address.is_ipv6()), "{all:?}");
        assert!(all.iter().all(|(name, address, _)| !name.is_empty() && address.port() == 0), "{all:?}");
    }

    #[test]
    fn they_are_those_of_this_host() {
        for address in host_addresses() {
            assert!(address.prefix > 0 && address.is_beside(address.address.ip), "{address:?}");
            let LocalAddress { ip, interface } = address.address;
            assert!(!ip.is_loopback() && interface > 0 && !address.interface.is_empty(), "{address:?}");
            // IPv6 may still check it for duplicates (RFC 4862 section 5.4).
            assert!(ip.is_ipv6() || std::net::UdpSocket::bind((ip, 0)).is_ok(), "{address:?}");
        }
    }
}
