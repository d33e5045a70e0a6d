//! Input of `ip` for gateways and the links between them, as text.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::cluster::next_hops;
use crate::host::{Host, local_v6, small};
use crate::limits::LINKS;
use crate::plan::Plan;
use crate::process::Process;

/// The number of a gateway in the network of a cluster, which no host has.
pub(crate) const GATEWAY: usize = 254;

/// The second part of the addresses of links between clusters is the rail's and this.
const FAR: u8 = 128;

/// A cluster's gateway.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gateway {
    /// Which cluster's.
    pub(crate) cluster: usize,
    /// Whose namespace.
    pub(crate) place: Process,
}

/// The switch's port for a gateway.
pub(crate) fn lan_port(cluster: usize, rail: usize) -> String {
    format!("g{cluster}r{rail}")
}

/// A gateway's interface to its cluster.
pub(crate) fn lan(rail: usize) -> String {
    format!("lan{rail}")
}

/// A gateway's interface to another.
pub(crate) fn far(link: usize, rail: usize) -> String {
    format!("wan{link}r{rail}")
}

/// The port of a link between clusters at one side, 0 or 1, in the switch's namespace.
pub(crate) fn far_port(link: usize, rail: usize, side: usize) -> String {
    format!("w{link}r{rail}s{side}")
}

/// Which number the emulator has for a cluster's network of a rail. Without clusters it is the rail's own.
pub(crate) fn lan_segment(cluster: usize, rail: usize) -> usize {
    cluster * LINKS.end() + rail
}

/// Which number the emulator has for a link between clusters: above those of all clusters.
pub(crate) fn far_segment(link: usize, rail: usize) -> usize {
    (crate::cluster::CLUSTERS.end() + link) * LINKS.end() + rail
}

/// Lines for `ip -batch` in the switch's namespace: the cables of the gateways, and the links between them.
pub(crate) fn cables(plan: &Plan, gateways: &[Gateway]) -> String {
    let mtu = plan.mtu;
    let mut lines = String::new();
    let mut cable = |near: &str, far: &str, place: Process, bridge: &str| {
        let Process { id, .. } = place;
        lines += &format!("link add name {near} mtu {mtu} type veth peer name {far} mtu {mtu} netns {id}\n");
        lines += &format!("link set {near} addrgenmode none\nlink set {near} master {bridge} up\n");
    };
    for rail in 0..plan.links {
        for Gateway { cluster, place } in gateways {
            cable(&lan_port(*cluster, rail), &lan(rail), *place, &crate::network::bridge(plan, rail, *cluster));
        }
        for (link, joined) in plan.wan.iter().enumerate() {
            for (side, cluster) in joined.between.into_iter().enumerate() {
                cable(&far_port(link, rail, side), &far(link, rail), gateways[cluster].place, &far(link, rail));
            }
        }
    }
    // The bridges of the links come first.
    let bridges = (0..plan.links).flat_map(|rail| (0..plan.wan.len()).map(move |link| far(link, rail)));
    bridges.map(|name| crate::network::bridge_lines(&name, mtu)).collect::<String>() + &lines
}

/// Lines for `ip -batch` in a gateway: its addresses, and the ways to the other clusters.
pub(crate) fn gateway(plan: &Plan, cluster: usize, has_ipv6: bool) -> String {
    let mut lines = "link set lo up\n".to_owned();
    let mut address = |v4: Ipv4Addr, v6: Ipv6Addr, interface: &str| {
        lines += &format!("address add {v4}/24 dev {interface}\n");
        if has_ipv6 {
            lines += &format!("address replace {v6}/64 dev {interface} nodad\n");
        }
        lines += &format!("link set {interface} up\n");
    };
    for rail in 0..plan.links {
        address(gateway_v4(cluster, rail), local_v6(cluster, rail, GATEWAY), &lan(rail));
        for (link, joined) in plan.wan.iter().enumerate() {
            if let Some(side) = joined.between.iter().position(|end| *end == cluster) {
                address(far_v4(link, rail, side), far_v6(link, rail, side), &far(link, rail));
            }
        }
    }
    for rail in 0..plan.links {
        for (other, first) in next_hops(plan.networks(), &plan.wan, cluster).into_iter().enumerate() {
            let Some((link, side)) = first.and_then(|link| Some((link, side_of(plan, link, cluster)?))) else {
                continue;
            };
            let (network, via) = (network_v4(other, rail), far_v4(link, rail, 1 - side));
            lines += &format!("route add {network}/24 via {via}\n");
            if has_ipv6 {
                let (network, via) = (local_v6(other, rail, 0), far_v6(link, rail, 1 - side));
                lines += &format!("route add {network}/64 via {via}\n");
            }
        }
    }
    lines
}

/// Lines for `ip -batch` in a host: the other clusters are reached by its gateway, with this congestion control if it
/// is not the host's own.
pub(crate) fn host_routes(plan: &Plan, host: &Host, congestion_control: Option<&str>) -> String {
    let mut lines = String::new();
    let control = congestion_control.map_or_else(String::new, |name| format!(" congctl {name}"));
    let others = || (0..plan.clusters.len()).filter(|other| *other != host.cluster());
    for (rail, at) in host.rails().iter().enumerate() {
        for other in others() {
            let (network, via) = (network_v4(other, rail), gateway_v4(host.cluster(), rail));
            lines += &format!("route replace {network}/24 via {via}{control}\n");
            if at.ipv6.is_some() {
                let (network, via) = (local_v6(other, rail, 0), local_v6(host.cluster(), rail, GATEWAY));
                lines += &format!("route replace {network}/64 via {via}{control}\n");
            }
        }
    }
    lines
}

/// What `/etc/hosts` says in a lab: each host's name and what it is called on the other rails.
pub(crate) fn names(plan: &Plan) -> String {
    let mut lines = "127.0.0.1 localhost\n::1 localhost ip6-localhost\n".to_owned();
    for host in 0..plan.hosts {
        let (cluster, inside) = plan.place_of(host);
        let name = plan.host_name(host);
        for rail in 0..plan.links {
            let address = Ipv4Addr::new(10, small(rail), small(cluster), small(inside) + 1);
            let first = if rail == 0 { format!("{name} ") } else { String::new() };
            lines += &format!("{address} {first}{name}-rail{rail}\n");
        }
    }
    lines
}

fn side_of(plan: &Plan, link: usize, cluster: usize) -> Option<usize> {
    plan.wan[link].between.iter().position(|end| *end == cluster)
}

fn network_v4(cluster: usize, rail: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, small(rail), small(cluster), 0)
}

pub(crate) fn gateway_v4(cluster: usize, rail: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, small(rail), small(cluster), small(GATEWAY))
}

pub(crate) fn far_v4(link: usize, rail: usize, side: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, FAR + small(rail), small(link), small(side) + 1)
}

pub(crate) fn far_v6(link: usize, rail: usize, side: usize) -> Ipv6Addr {
    local_v6(usize::from(FAR) + link, rail, side + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{Cluster, WanLink};
    use crate::shape::Shape;

    fn plan() -> Plan {
        let wan = WanLink::mesh(2, &Shape::default());
        Plan { hosts: 2, clusters: Cluster::usual(2, 1), wan, ..Plan::default() }
    }

    #[test]
    fn gateways_are_at_their_switch_and_at_their_links() {
        let gateways = [0, 1].map(|cluster| {
            let place = Process { id: 200 + cluster as u32, started: 1 };
            Gateway { cluster, place }
        });
        assert_eq!(
            cables(&plan(), &gateways),
            "link add name wan0r0 mtu 1500 type bridge stp_state 0 mcast_snooping 0\n\
             link set wan0r0 up\n\
             link add name g0r0 mtu 1500 type veth peer name lan0 mtu 1500 netns 200\n\
             link set g0r0 addrgenmode none\n\
             link set g0r0 master bridge0c0 up\n\
             link add name g1r0 mtu 1500 type veth peer name lan0 mtu 1500 netns 201\n\
             link set g1r0 addrgenmode none\n\
             link set g1r0 master bridge0c1 up\n\
             link add name w0r0s0 mtu 1500 type veth peer name wan0r0 mtu 1500 netns 200\n\
             link set w0r0s0 addrgenmode none\n\
             link set w0r0s0 master wan0r0 up\n\
             link add name w0r0s1 mtu 1500 type veth peer name wan0r0 mtu 1500 netns 201\n\
             link set w0r0s1 addrgenmode none\n\
             link set w0r0s1 master wan0r0 up\n"
        );
    }

    #[test]
    fn a_gateway_knows_the_ways_to_the_other_clusters() {
        assert_eq!(
            gateway(&plan(), 1, true),
            "link set lo up\n\
             address add 10.0.1.254/24 dev lan0\n\
             address replace fd77:6566:7400:100::fe/64 dev lan0 nodad\n\
             link set lan0 up\n\
             address add 10.128.0.2/24 dev wan0r0\n\
             address replace fd77:6566:7400:8000::2/64 dev wan0r0 nodad\n\
             link set wan0r0 up\n\
             route add 10.0.0.0/24 via 10.128.0.1\n\
             route add fd77:6566:7400::/64 via fd77:6566:7400:8000::1\n"
        );
    }

    #[test]
    fn every_address_and_number_is_used_once() {
        let clusters = Cluster::usual(8, 8);
        let plan = Plan { hosts: 64, links: 8, clusters, wan: WanLink::mesh(8, &Shape::default()), ..Plan::default() };
        plan.check().unwrap();
        let all: Vec<_> = (0..8)
            .map(|cluster| gateway(&plan, cluster, true))
            .collect::<String>()
            .lines()
            .filter(|line| line.starts_with("address"))
            .map(|line| line.split(' ').nth(2).unwrap().to_owned())
            .collect();
        let unique: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(unique.len(), all.len());
        let lans = (0..8).flat_map(|cluster| (0..8).map(move |rail| lan_segment(cluster, rail)));
        let fars = (0..plan.wan.len()).flat_map(|link| (0..8).map(move |rail| far_segment(link, rail)));
        let segments: std::collections::BTreeSet<_> = lans.chain(fars).collect();
        assert_eq!(segments.len(), 64 + plan.wan.len() * 8);
        assert!(far_port(27, 7, 1).len() < 16 && far(27, 7).len() < 16);
    }

    #[test]
    fn names_lead_to_the_first_rail_and_with_a_rail_to_that() {
        let names = names(&Plan { links: 2, ..plan() });
        assert!(names.ends_with("10.0.0.1 a0 a0-rail0\n10.1.0.1 a0-rail1\n10.0.1.1 b0 b0-rail0\n10.1.1.1 b0-rail1\n"));
    }
}
