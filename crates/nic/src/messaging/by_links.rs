//! What carries the connections of an endpoint that leaves the choice to Weft ([`Transport::Auto`]).
//!
//! Edge makes several links one, and distinguishes a dead link from a slow peer; over one link TCP costs less. So Edge
//! is taken where two links or more join the two hosts, and iWARP elsewhere.

use std::net::{IpAddr, SocketAddr};

use weft_base::HostAddress;

use super::request::Address;
use crate::offer::Transport;
use crate::settings::Rails;

/// Edge is worth its cost from here on.
const SEVERAL: usize = 2;

/// The links of this host that rails may use.
#[derive(Debug, Default)]
pub(super) struct OwnLinks(Vec<Link>);

/// One interface of this host.
#[derive(Debug)]
struct Link {
    interface: u32,
    /// How many flows go over it, from 1.
    flows: usize,
    addresses: Vec<HostAddress>,
}

impl OwnLinks {
    /// The interfaces with a carrier that rails may use.
    pub(super) fn new(addresses: Vec<HostAddress>, rails: &Rails) -> Self {
        let mut links: Vec<Link> = Vec::new();
        for address in addresses.into_iter().filter(|address| address.is_running) {
            let (interface, flows) = (address.address.interface, usize::from(rails.flows(&address.interface)));
            match links.iter_mut().find(|link| link.interface == interface) {
                _ if flows == 0 => {}
                Some(link) => link.addresses.push(address),
                None => links.push(Link { interface, flows, addresses: vec![address] }),
            }
        }
        Self(links)
    }

    /// What this endpoint listens for and calls by, of what its settings say.
    pub(super) fn own_transport(&self, wanted: Transport) -> Transport {
        let flows = self.0.iter().map(|link| link.flows).sum::<usize>();
        if wanted == Transport::Auto && flows < SEVERAL { Transport::SharedMemoryOrIwarp } else { wanted }
    }

    /// What a peer is called by, of what this endpoint speaks. The second value is set if that depended on the links.
    pub(super) fn transport_to(&self, peer: &Address, ours: Transport) -> (Transport, Option<ByLinks>) {
        if ours != Transport::Auto {
            return (ours, None);
        }
        let has_edge = peer.transport.is_none_or(|theirs| Transport::Edge.finds(theirs));
        let has_tcp = peer.transport.is_none_or(|theirs| Transport::Iwarp.finds(theirs));
        match (has_edge, has_tcp) {
            (true, false) => (Transport::SharedMemoryOrEdge, None),
            (false, _) => (Transport::SharedMemoryOrIwarp, None),
            (true, true) if self.flows_to(&peer.paths) >= SEVERAL => {
                (Transport::SharedMemoryOrEdge, Some(ByLinks::Several))
            }
            (true, true) => (Transport::SharedMemoryOrIwarp, Some(ByLinks::One)),
        }
    }

    /// How many flows join this host with one that has these addresses: over each link that has an address of the peer
    /// in its subnet, each of which counts for one link.
    fn flows_to(&self, peer: &[SocketAddr]) -> usize {
        let own = |ip: IpAddr| self.0.iter().flat_map(|link| &link.addresses).any(|address| address.address.ip == ip);
        let mut left: Vec<IpAddr> = peer.iter().map(SocketAddr::ip).filter(|ip| !own(*ip)).collect();
        let mut flows = 0;
        for link in &self.0 {
            let is_beside = |ip: &IpAddr| link.addresses.iter().any(|address| address.is_beside(*ip));
            if let Some(at) = left.iter().position(is_beside) {
                left.swap_remove(at);
                flows += link.flows;
            }
        }
        flows
    }
}

/// Why [`Transport::Auto`] became what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ByLinks {
    /// One link joins the hosts, or a router.
    One,
    /// Two or more do.
    Several,
}

#[cfg(test)]
mod tests {
    use weft_base::LocalAddress;

    use super::*;

    fn host(addresses: &[(&str, &str)]) -> Vec<HostAddress> {
        let numbered = addresses.iter().enumerate();
        let address = |(at, (name, ip)): (usize, &(&str, &str))| {
            let first = addresses.iter().position(|(other, _)| other == name).unwrap_or(at);
            let address = LocalAddress { ip: ip.parse().unwrap(), interface: first as u32 + 1 };
            HostAddress { interface: (*name).to_owned(), address, prefix: 24, is_running: true }
        };
        numbered.map(address).collect()
    }

    fn peer(paths: &[&str], transport: Option<Transport>) -> Address {
        let paths = paths.iter().map(|ip| SocketAddr::new(ip.parse().unwrap(), 7)).collect();
        Address { id: 1, paths, transport }
    }

    const TWO: [(&str, &str); 2] = [("eth0", "10.0.0.1"), ("eth1", "10.0.1.1")];

    fn two() -> OwnLinks {
        OwnLinks::new(host(&TWO), &Rails::ALL)
    }

    #[test]
    fn edge_where_two_links_join_the_hosts_and_iwarp_where_one_does() {
        let both = peer(&["10.0.0.2", "10.0.1.2"], Some(Transport::Auto));
        let edge = (Transport::SharedMemoryOrEdge, Some(ByLinks::Several));
        assert_eq!(two().transport_to(&both, Transport::Auto), edge);
        for paths in [&["10.0.0.2"][..], &["10.0.0.2", "192.168.1.1"], &["192.168.1.1", "192.168.2.1"]] {
            let iwarp = (Transport::SharedMemoryOrIwarp, Some(ByLinks::One));
            assert_eq!(two().transport_to(&peer(paths, None), Transport::Auto), iwarp, "{paths:?}");
        }
    }

    #[test]
    fn a_link_is_one_whatever_addresses_it_has() {
        let links = OwnLinks::new(host(&[("eth0", "10.0.0.1"), ("eth0", "10.0.1.1")]), &Rails::ALL);
        assert_eq!(links.flows_to(&peer(&["10.0.0.2", "10.0.1.2"], None).paths), 1);
        // Two in one subnet are two if the peer has two there as well.
        let links = OwnLinks::new(host(&[("eth0", "10.0.0.1"), ("eth1", "10.0.0.3")]), &Rails::ALL);
        assert_eq!(links.flows_to(&peer(&["10.0.0.2"], None).paths), 1);
        assert_eq!(links.flows_to(&peer(&["10.0.0.2", "10.0.0.4"], None).paths), 2);
    }

    /// As of bridges that each host has for its containers.
    #[test]
    fn an_address_that_both_hosts_have_is_no_link_between_them() {
        let links = OwnLinks::new(host(&[("eth0", "10.0.0.1"), ("docker0", "172.17.0.1")]), &Rails::ALL);
        assert_eq!(links.flows_to(&peer(&["10.0.0.2", "172.17.0.1"], None).paths), 1);
    }

    #[test]
    fn rails_limit_the_links_and_flows_add_to_them() {
        let both = peer(&["10.0.0.2", "10.0.1.2"], None).paths;
        let flows = |rails: &str| OwnLinks::new(host(&TWO), &rails.parse().unwrap()).flows_to(&both);
        assert_eq!(["all", "eth0", "eth0*4", "eth0*2,eth1", "one"].map(flows), [2, 1, 4, 3, 0]);
    }

    #[test]
    fn a_link_without_a_carrier_is_none() {
        let mut addresses = host(&TWO);
        addresses[1].is_running = false;
        let links = OwnLinks::new(addresses, &Rails::ALL);
        assert_eq!(links.own_transport(Transport::Auto), Transport::SharedMemoryOrIwarp);
    }

    #[test]
    fn a_host_with_one_link_listens_for_iwarp_and_settings_that_say_more_stay() {
        let one = OwnLinks::new(host(&TWO[..1]), &Rails::ALL);
        assert_eq!(one.own_transport(Transport::Auto), Transport::SharedMemoryOrIwarp);
        assert_eq!(two().own_transport(Transport::Auto), Transport::Auto);
        assert_eq!(one.own_transport(Transport::SharedMemoryOrEdge), Transport::SharedMemoryOrEdge);
        assert_eq!(one.transport_to(&peer(&["10.0.0.2"], None), Transport::Edge), (Transport::Edge, None));
    }

    #[test]
    fn what_the_peer_does_not_speak_is_not_tried() {
        let to = |theirs| two().transport_to(&peer(&["10.0.0.2", "10.0.1.2"], Some(theirs)), Transport::Auto);
        assert_eq!(to(Transport::SharedMemoryOrIwarp), (Transport::SharedMemoryOrIwarp, None));
        assert_eq!(to(Transport::Edge), (Transport::SharedMemoryOrEdge, None));
    }
}
