//! The names of Unix sockets that stand for addresses: abstract ones (unix(7)), which leave nothing behind and belong
//! to one network namespace.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use crate::user;

/// The name under which this user listens at an address. Others can take the name as well; who connects checks whom it
/// has reached.
pub(super) fn name_of(address: SocketAddr) -> String {
    let user = user::own();
    // Without a zero byte in front a name would be a path.
    format!("\0weft-shm-{user}-{address}")
}

/// Where somebody may listen for this address, the best first: at itself, or at all addresses of this host if it is
/// one of them.
pub(super) fn candidates(address: SocketAddr) -> impl Iterator<Item = SocketAddr> {
    let ip = address.ip().to_canonical();
    let four = ip.is_ipv4().then_some(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    let any = [four, Some(IpAddr::V6(Ipv6Addr::UNSPECIFIED))];
    let everywhere = any.into_iter().flatten().filter(move |_| is_of_this_host(ip));
    std::iter::once(ip).chain(everywhere).map(move |ip| SocketAddr::new(ip, address.port()))
}

/// Whether it is an address of this host, in this network namespace. A socket can only be bound to such.
pub(super) fn is_of_this_host(ip: IpAddr) -> bool {
    ip.is_loopback() || UdpSocket::bind((ip, 0)).is_ok()
}

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
        // For documentation only (RFC 5737): no host has it.
        assert_eq!(candidates_of("192.0.2.1:5"), ["192.0.2.1:5"]);
    }

    #[test]
    fn a_name_is_abstract_and_says_the_user_and_the_address() {
        let name = name_of("127.0.0.1:7471".parse().unwrap());
        assert!(name.starts_with("\0weft-shm-") && name.ends_with("-127.0.0.1:7471"), "{name}");
        let longest = name_of("[2001:db8:1111:2222:3333:4444:5555:6666%4294967295]:65535".parse().unwrap());
        assert!(longest.len() < 108, "unix(7) takes no longer name than {}", longest.len());
    }
}
