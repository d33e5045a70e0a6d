//! Arguments and input of `ip`, `tc` and `ethtool`, as text.

use std::fmt::Write;
use std::net::Ipv6Addr;

use crate::host::{Host, Rail};
use crate::limits::BitsPerSecond;
use crate::plan::Plan;

/// Offloads that let a packet longer than the MTU cross a link. UDP's has a switch of its own.
pub(crate) const OFFLOADS: [&str; 4] = ["tso", "gso", "gro", "tx-udp-segmentation"];

/// How much a link saves up while nothing leaves it, in microseconds of its rate: a burst. The kernel lets packets go
/// when a timer fires, which comes late on a busy machine; what was saved up by then goes at once. It was measured
/// (`docs/lab-book/2026-11-24-labs.md`).
const BURST_US: u64 = 1000;

/// The largest super-packet (64 KiB of payload and its headers), which must fit a burst, or the kernel cuts it.
const LARGEST_PACKET: u64 = 68 * 1024;

/// How long a packet may wait before a link, in microseconds: longer queues drop. It bounds the delay that a sender
/// causes for others.
const QUEUE_US: u64 = 4000;

/// Lines for `ip -batch` in the namespace that the cables start from: the switch, or the first host.
pub(crate) fn cables(plan: &Plan, hosts: &[Host]) -> String {
    let mut lines = String::new();
    for rail in 0..plan.links {
        if plan.has_switch() {
            lines.extend((0..plan.networks()).map(|cluster| bridge_lines(&bridge(plan, rail, cluster), plan.mtu)));
            for host in hosts {
                let port = port(host.index(), rail);
                line(&mut lines, cable(&port, plan.mtu, host, rail));
                line(&mut lines, format_args!("link set {port} master {} up", bridge(plan, rail, host.cluster())));
            }
        } else {
            line(&mut lines, cable(&format!("rail{rail}"), plan.mtu, &hosts[1], rail));
        }
    }
    lines
}

/// The kernel's bridge for a cluster's network of a rail.
pub(crate) fn bridge(plan: &Plan, rail: usize, cluster: usize) -> String {
    let cluster = if plan.clusters.is_empty() { String::new() } else { format!("c{cluster}") };
    format!("bridge{rail}{cluster}")
}

/// Lines for `ip -batch` that make one. No spanning tree: a port carries packets at once. No snooping: neighbour
/// discovery needs no querier.
pub(crate) fn bridge_lines(name: &str, mtu: u32) -> String {
    format!("link add name {name} mtu {mtu} type bridge stp_state 0 mcast_snooping 0\nlink set {name} up\n")
}

/// Lines for `ip -batch` and for `tc -batch` in one namespace.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Commands {
    pub(crate) ip: String,
    pub(crate) tc: String,
}

fn cable(near: &str, mtu: u32, far: &Host, rail: usize) -> String {
    let holder = far.holder().id;
    format!("link add name {near} mtu {mtu} type veth peer name rail{rail} mtu {mtu} netns {holder}")
}

/// The switch's port for a host.
pub(crate) fn port(host: usize, rail: usize) -> String {
    format!("h{host}r{rail}")
}

/// Lines for `ip -batch` in a host that take its interfaces away.
pub(crate) fn remove(host: &Host) -> String {
    host.rails().iter().map(|rail| format!("link delete {}\n", rail.interface)).collect()
}

/// Lines for `ip -batch` in the switch: a port leaves the kernel's bridge, and the switch's stack has no address there.
pub(crate) fn unplug(port: &str) -> String {
    format!("link set {port} addrgenmode none\nlink set {port} nomaster\n")
}

/// What a frame may have in front of a packet of the MTU's length without being a super-packet: Ethernet's header and
/// two tags of VLANs, to the next multiple of 8.
const FRAME_HEAD: u32 = 24;

/// Lines for `ip -batch`: the kernel cuts super-packets before this interface, for each packet has its own fate.
/// Of frames that a program gives to a packet socket the kernel does not know how many segments they have when it
/// compares that with `gso_max_segs` (`SKB_GSO_DODGY`, net/core/dev.c `gso_features_check`), so the length says it,
/// too.
pub(crate) fn cut_packets(interface: &str, mtu: u32) -> String {
    format!("link set {interface} gso_max_segs 1 gso_max_size {}\n", mtu + FRAME_HEAD)
}

/// Lines for `ip -batch`: super-packets pass this interface whole again.
pub(crate) fn whole_packets(interface: &str) -> String {
    format!("link set {interface} gso_max_segs {MOST_SEGMENTS} gso_max_size {LARGEST_SEND}\n")
}

/// Lines for `ip -batch`: users of this interface ask anew for its neighbours.
pub(crate) fn forget_neighbours(interface: &str) -> String {
    format!("neighbour flush dev {interface}\n")
}

/// What Linux sends as one by default: GSO_MAX_SEGS, GSO_LEGACY_MAX_SIZE (include/linux/netdevice.h).
const MOST_SEGMENTS: u32 = 65_535;
const LARGEST_SEND: u32 = 65_536;

/// Lines for `ip -batch` in a host.
pub(crate) fn addresses(host: &Host) -> String {
    let mut lines = "link set lo up\n".to_owned();
    for rail in host.rails() {
        line(&mut lines, format_args!("address add {}/24 dev {}", rail.ipv4, rail.interface));
        lines += &address_v6(rail);
        line(&mut lines, format_args!("link set {} up", rail.interface));
    }
    lines
}

/// The same for its address of IPv6, which it may have already.
pub(crate) fn address_v6(rail: &Rail) -> String {
    // No other host has it, so it need not wait until that is known.
    let line = |address| format!("address replace {address}/64 dev {} nodad\n", rail.interface);
    rail.ipv6.map_or_else(String::new, line)
}

/// Lines for `ip -batch` in a host: connections over a rail have this congestion control (ip-route(8), `congctl`). A
/// namespace may have one by default only if the machine's root has allowed it to everybody; a route may name any.
pub(crate) fn congestion_route(rail: &Rail, name: &str) -> String {
    let Rail { interface, ipv4, ipv6 } = rail;
    let [one, two, three, _] = ipv4.octets();
    let mut lines = String::new();
    let network = format!("{one}.{two}.{three}.0/24");
    line(
        &mut lines,
        format_args!("route replace {network} dev {interface} proto kernel scope link src {ipv4} congctl {name}"),
    );
    if let Some(ipv6) = ipv6 {
        let [one, two, three, four, ..] = ipv6.segments();
        let network = Ipv6Addr::new(one, two, three, four, 0, 0, 0, 0);
        line(
            &mut lines,
            format_args!("route replace {network}/64 dev {interface} proto kernel metric 256 congctl {name}"),
        );
    }
    lines
}

/// The interfaces through which a host sends.
pub(crate) fn host_interfaces(host: &Host) -> Vec<Interface> {
    host.rails().iter().enumerate().map(|(rail, at)| Interface { name: at.interface.clone(), rail }).collect()
}

/// The interfaces through which the switch sends.
pub(crate) fn switch_interfaces(plan: &Plan) -> Vec<Interface> {
    let of_rail = |rail| (0..plan.hosts).map(move |host| Interface { name: port(host, rail), rail });
    (0..plan.links).flat_map(of_rail).collect()
}

/// An interface, and the rail that it leads to.
#[derive(Clone, Debug)]
pub(crate) struct Interface {
    pub(crate) name: String,
    pub(crate) rail: usize,
}

/// Lines for `tc -batch`: what leaves these interfaces keeps to the plan's rate.
pub(crate) fn shaping(interfaces: &[Interface], plan: &Plan) -> String {
    let line = |Interface { name, rail }: &Interface| limit(name, plan.rate_of(*rail).map(Limit::of), plan.mtu);
    interfaces.iter().map(line).collect()
}

/// What an interface lets through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limit {
    pub(crate) rate: BitsPerSecond,
    /// What may wait, in bytes; `None`: as a lab has it.
    pub(crate) queue_bytes: Option<u64>,
}

impl Limit {
    /// The rate of a lab's own link.
    pub(crate) const fn of(rate: BitsPerSecond) -> Self {
        Self { rate, queue_bytes: None }
    }
}

/// A line for `tc -batch`: what leaves this interface keeps to the limit, if there is one.
pub(crate) fn limit(name: &str, limit: Option<Limit>, mtu: u32) -> String {
    let queue = |Limit { rate, queue_bytes }| {
        let Bucket { burst_bytes, limit_bytes } = bucket(rate, mtu);
        let limit_bytes = queue_bytes.map_or(limit_bytes, |bytes| bytes.max(2 * LARGEST_PACKET));
        format!("tbf rate {}bit burst {burst_bytes}b limit {limit_bytes}b", rate.0)
    };
    let queue = limit.map_or_else(|| "noqueue".to_owned(), queue);
    format!("qdisc replace dev {name} root {queue}\n")
}

/// A token bucket.
#[derive(Debug, PartialEq)]
struct Bucket {
    /// Bytes that may leave at once.
    burst_bytes: u64,
    /// Bytes that may wait.
    limit_bytes: u64,
}

fn bucket(rate: BitsPerSecond, mtu: u32) -> Bucket {
    let bytes_in = |us: u64| rate.0 / 8 * us / 1_000_000;
    let packets = |count: u64| count * (u64::from(mtu) + 14);
    Bucket {
        burst_bytes: bytes_in(BURST_US).max(LARGEST_PACKET).max(packets(1)),
        limit_bytes: bytes_in(QUEUE_US).max(2 * LARGEST_PACKET).max(packets(16)),
    }
}

fn line(lines: &mut String, text: impl std::fmt::Display) {
    writeln!(lines, "{text}").expect("a String takes any text");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::Process;
    use std::path::Path;

    fn hosts(plan: &Plan) -> Vec<Host> {
        let holder = |index: usize| Process { id: 100 + index as u32, started: 1 };
        let host = |index| Host::new(index, plan, holder(index), true, Path::new("/usr/bin/nsenter"));
        (0..plan.hosts).map(host).collect()
    }

    #[test]
    fn two_hosts_are_joined_by_cables() {
        let plan = Plan { links: 2, mtu: 9000, ..Plan::default() };
        assert_eq!(
            cables(&plan, &hosts(&plan)),
            "link add name rail0 mtu 9000 type veth peer name rail0 mtu 9000 netns 101\n\
             link add name rail1 mtu 9000 type veth peer name rail1 mtu 9000 netns 101\n"
        );
    }

    #[test]
    fn more_hosts_are_joined_by_a_bridge_for_each_rail() {
        let plan = Plan { hosts: 3, ..Plan::default() };
        assert_eq!(
            cables(&plan, &hosts(&plan)),
            "link add name bridge0 mtu 1500 type bridge stp_state 0 mcast_snooping 0\n\
             link set bridge0 up\n\
             link add name h0r0 mtu 1500 type veth peer name rail0 mtu 1500 netns 100\n\
             link set h0r0 master bridge0 up\n\
             link add name h1r0 mtu 1500 type veth peer name rail0 mtu 1500 netns 101\n\
             link set h1r0 master bridge0 up\n\
             link add name h2r0 mtu 1500 type veth peer name rail0 mtu 1500 netns 102\n\
             link set h2r0 master bridge0 up\n"
        );
        let names: Vec<_> = switch_interfaces(&Plan { links: 2, ..plan }).into_iter().map(|one| one.name).collect();
        assert_eq!(names, ["h0r0", "h1r0", "h2r0", "h0r1", "h1r1", "h2r1"]);
    }

    #[test]
    fn before_a_shaped_rail_what_is_longer_than_the_mtu_is_cut() {
        let lines = cut_packets("rail0", 9000);
        assert_eq!(lines, "link set rail0 gso_max_segs 1 gso_max_size 9024\n");
    }

    #[test]
    fn a_limit_has_a_queue_in_which_two_super_packets_fit() {
        let of = |queue_bytes| limit("rail0", Some(Limit { rate: BitsPerSecond(8_000_000_000), queue_bytes }), 1500);
        let line =
            |bytes: u64| format!("qdisc replace dev rail0 root tbf rate 8000000000bit burst 1000000b limit {bytes}b\n");
        assert_eq!([of(None), of(Some(500_000)), of(Some(1))], [4_000_000, 500_000, 139_264].map(line));
        assert_eq!(limit("rail0", None, 1500), "qdisc replace dev rail0 root noqueue\n");
        assert_eq!(whole_packets("rail0"), "link set rail0 gso_max_segs 65535 gso_max_size 65536\n");
    }

    #[test]
    fn hosts_have_their_addresses_and_loopback() {
        let plan = Plan::default();
        assert_eq!(
            addresses(&hosts(&plan)[1]),
            "link set lo up\n\
             address add 10.0.0.2/24 dev rail0\n\
             address replace fd77:6566:7400::2/64 dev rail0 nodad\n\
             link set rail0 up\n"
        );
    }

    #[test]
    fn the_way_to_each_network_names_the_congestion_control() {
        assert_eq!(
            congestion_route(&hosts(&Plan::default())[1].rails()[0], "cubic"),
            "route replace 10.0.0.0/24 dev rail0 proto kernel scope link src 10.0.0.2 congctl cubic\n\
             route replace fd77:6566:7400::/64 dev rail0 proto kernel metric 256 congctl cubic\n"
        );
    }

    #[test]
    fn buckets_hold_a_super_packet_at_least_and_a_jumbo_packet() {
        for megabits in [1, 10, 100, 1000, 10_000, 100_000] {
            let Bucket { burst_bytes, limit_bytes } = bucket(BitsPerSecond(megabits * 1_000_000), 65_535);
            assert!(burst_bytes >= LARGEST_PACKET && limit_bytes >= 2 * LARGEST_PACKET, "{megabits}");
        }
        let plan = Plan { rate: Some(BitsPerSecond(10_000_000_000)), ..Plan::default() };
        let interface = |rail: usize| Interface { name: format!("rail{rail}"), rail };
        let all = shaping(&[interface(0), interface(1)], &plan);
        assert_eq!(
            all,
            "qdisc replace dev rail0 root tbf rate 10000000000bit burst 1250000b limit 5000000b\n\
             qdisc replace dev rail1 root tbf rate 10000000000bit burst 1250000b limit 5000000b\n"
        );
        let unlimited = Plan { rate: None, rates: vec![BitsPerSecond(1_000_000_000)], ..plan };
        assert_eq!(
            shaping(&[interface(0), interface(1)], &unlimited),
            "qdisc replace dev rail0 root tbf rate 1000000000bit burst 125000b limit 500000b\n\
             qdisc replace dev rail1 root noqueue\n"
        );
    }
}
