//! The next hop on the path to an address.

use std::net::IpAddr;

/// Networks of the link, and routers to all others.
#[derive(Debug, Default)]
pub(super) struct Routes {
    /// An address of each, and how many of its bits are the network's.
    networks: Vec<(IpAddr, u8)>,
    gateways: Vec<IpAddr>,
}

impl Routes {
    pub(super) fn add_network(&mut self, address: IpAddr, bits: u8) {
        self.networks.push((address, bits));
    }

    pub(super) fn add_gateway(&mut self, gateway: IpAddr) {
        self.gateways.push(gateway);
    }

    /// The address itself, if it is on the link, or there is no gateway.
    pub(super) fn next_hop(&self, to: IpAddr) -> IpAddr {
        if self.gateways.is_empty() || self.networks.iter().any(|(own, bits)| is_alike(*own, to, *bits)) {
            return to;
        }
        self.gateways.iter().find(|gateway| gateway.is_ipv4() == to.is_ipv4()).copied().unwrap_or(to)
    }
}

/// Whether two addresses are of one kind, and begin with the same bits.
fn is_alike(one: IpAddr, other: IpAddr, bits: u8) -> bool {
    let differ = match (one, other) {
        (IpAddr::V4(one), IpAddr::V4(other)) => u128::from(one.to_bits() ^ other.to_bits()) << 96,
        (IpAddr::V6(one), IpAddr::V6(other)) => one.to_bits() ^ other.to_bits(),
        _ => return false,
    };
    differ.leading_zeros() >= u32::from(bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_on_the_link_is_next_and_else_the_gateway_of_that_kind() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let mut routes = Routes::default();
        assert_eq!(routes.next_hop(ip("192.0.2.1")), ip("192.0.2.1"));
        routes.add_network(ip("10.0.0.9"), 24);
        routes.add_network(ip("fd00::9"), 64);
        routes.add_gateway(ip("10.0.0.1"));
        for (to, next) in [
            ("10.0.0.2", "10.0.0.2"),
            ("10.0.1.2", "10.0.0.1"),
            ("192.0.2.1", "10.0.0.1"),
            ("fd00::1", "fd00::1"),
            ("fd00:0:0:1::1", "fd00:0:0:1::1"),
        ] {
            assert_eq!(routes.next_hop(ip(to)), ip(next), "{to}");
        }
        routes.add_gateway(ip("fe80::1"));
        assert_eq!(routes.next_hop(ip("fd00:0:0:1::1")), ip("fe80::1"));
    }
}
