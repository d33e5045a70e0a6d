//! Names of Unix sockets for addresses: abstract ones (unix(7)), which leave no files and belong to one network
//! namespace.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use crate::user;

/// The name under which this user listens at an address. Others can take the name as well; the caller checks which user
/// it has reached.
pub(super) fn name_of(address: SocketAddr) -> String {
    let user = user::own();
    // Without a leading zero byte a name would be a path.
    format!("\0weft-shm-{user}-{address}")
}

/// The same as tools show it (`ss -x`).
pub(crate) fn shown_name(address: SocketAddr) -> String {
    name_of(address).replace('\0', "@")
}

/// The addresses of possible listeners for this address, best first: itself, and all addresses of this host if it is
/// one of them.
pub(super) fn candidates(address: SocketAddr) -> impl Iterator<Item = SocketAddr> {
    let ip = address.ip().to_canonical();
    let four = ip.is_ipv4().then_some(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    let any = [four, Some(IpAddr::V6(Ipv6Addr::UNSPECIFIED))];
    let everywhere = any.into_iter().flatten().filter(move |_| ip.is_unspecified() || is_of_this_host(ip));
    std::iter::once(ip).chain(everywhere).map(move |ip| SocketAddr::new(ip, address.port()))
}

/// Whether it is a unicast address of this host, in this network namespace.
pub(super) fn is_of_this_host(ip: IpAddr) -> bool {
    if ip.is_unspecified() || ip.is_multicast() {
        return false;
    }
    // A socket can only be bound to addresses of its host, and to multicast and broadcast ones; to broadcasts, also of
    // one network, it cannot be connected without SO_BROADCAST (ip(7)).
    let reaches_itself = |socket: UdpSocket| socket.connect((ip, DISCARD)).is_ok();
    (ip.is_loopback() && ip != LOOPBACK_BROADCAST) || UdpSocket::bind((ip, 0)).is_ok_and(reaches_itself)
}

/// This host's loopback address of the same family.
pub(super) fn loopback(family_of: IpAddr) -> IpAddr {
    if family_of.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() }
}

/// The broadcast address of the loopback interface's network.
const LOOPBACK_BROADCAST: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 255, 255, 255));
/// Any port will do: nothing is sent.
const DISCARD: u16 = 9;

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates_of(address: &str) -> Vec<String> {
        candidates(address.parse().unwrap()).map(|address| address.to_string()).collect()
    }

    #[test]
    fn listeners_at_all_addresses_are_found_by_those_of_this_host_only() {
        assert_eq!(candidates_of("127.0.0.1:5"), ["127.0.0.1:5", "0.0.0.0:5", "[::]:5"]);
        assert_eq!(candidates_of("[::1]:5"), ["[::1]:5", "[::]:5"]);
        assert_eq!(candidates_of("0.0.0.0:5"), ["0.0.0.0:5", "0.0.0.0:5", "[::]:5"]);
        // For documentation only (RFC 5737): no host has it.
        assert_eq!(candidates_of("192.0.2.1:5"), ["192.0.2.1:5"]);
    }

    #[test]
    fn what_many_hosts_have_or_none_is_not_of_this_host() {
        for good in ["127.0.0.1", "127.9.9.9", "::1"] {
            assert!(is_of_this_host(good.parse().unwrap()), "{good}");
        }
        let none = ["0.0.0.0", "::", "224.0.0.1", "255.255.255.255", "127.255.255.255", "ff02::1", "192.0.2.1"];
        for bad in none {
            assert!(!is_of_this_host(bad.parse().unwrap()), "{bad}");
        }
    }

    #[test]
    fn the_broadcast_of_a_network_of_this_host_is_not_its_address() {
        let addresses = crate::host_addresses();
        let broadcast = addresses.iter().find_map(|own| match own.address.ip {
            IpAddr::V4(ip) if (8..31).contains(&own.prefix) => {
                Some(Ipv4Addr::from(ip.to_bits() | u32::MAX >> own.prefix))
            }
            _ => None,
        });
        match broadcast {
            Some(broadcast) => assert!(!is_of_this_host(broadcast.into()), "{broadcast}"),
            None => eprintln!("skipped: no interface has a network with a broadcast address"),
        }
    }

    #[test]
    fn a_name_is_abstract_and_says_the_user_and_the_address() {
        let name = name_of("127.0.0.1:7471".parse().unwrap());
        assert!(name.starts_with("\0weft-shm-") && name.ends_with("-127.0.0.1:7471"), "{name}");
        let longest = name_of("[2001:db8:1111:2222:3333:4444:5555:6666%4294967295]:65535".parse().unwrap());
        assert!(longest.len() < 108, "unix(7) takes no longer name than {}", longest.len());
    }
}
