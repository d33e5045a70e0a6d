//! A switch that routes: what is behind its ports still takes itself for neighbours, and packets of IP go through the
//! switch's routing decision, behind which packet queues are (RFC 1027, RFC 4389).
//!
//! A port answers for all addresses behind the others, and packets that come there have a routing table of their own.

use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::process::Process;

/// The number of the first table.
const FIRST_TABLE: usize = 10_000;

/// The address of every port, on its own link, for hosts that ask by IPv6 (RFC 4291 section 2.5.6).
const PORT_V6: &str = "fe80::1";

/// What a shell does in the switch's namespace. Its first argument is 1 where the ports, its other ones, are to route,
/// and 0 where they are to answer for no address any more. Of IPv6 there may be nothing.
pub(crate) const SCRIPT: &str = r#"
on=$1
shift
if [ "$on" = 1 ]; then
    echo 1 >/proc/sys/net/ipv4/ip_forward || exit 1
    echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter || exit 1
    [ ! -e /proc/sys/net/ipv6 ] || echo 1 >/proc/sys/net/ipv6/conf/all/forwarding || exit 1
fi
for port do
    echo "$on" >"/proc/sys/net/ipv4/conf/$port/proxy_arp" || exit 1
    echo 0 >"/proc/sys/net/ipv4/conf/$port/rp_filter" || exit 1
    [ ! -e /proc/sys/net/ipv6 ] || echo "$on" >"/proc/sys/net/ipv6/conf/$port/proxy_ndp" || exit 1
done
"#;

/// A port of the switch, and the host or gateway behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Station {
    /// The port.
    pub(crate) port: String,
    /// Whose namespace is behind it, and the interface there.
    pub(crate) place: Process,
    pub(crate) interface: String,
    /// The addresses there.
    pub(crate) v4: Ipv4Addr,
    pub(crate) v6: Option<Ipv6Addr>,
    /// Which table says where packets go that come at the port, and which one says that they go there.
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// Whether it is the way to all other addresses.
    pub(crate) is_way_out: bool,
}

/// The table of a network that the emulator has this number for; of one that has a side, the table of that.
pub(crate) const fn table(segment: usize, side: usize) -> usize {
    FIRST_TABLE + 2 * segment + side
}

impl Station {
    /// Lines for `ip -batch` in the switch's namespace that lead to it. The kernel forgets them with a port that goes
    /// down.
    pub(crate) fn ways(&self, all: &[Self]) -> String {
        let Self { port, v4, v6, to, .. } = self;
        let mut lines = format!("route replace {v4}/32 dev {port} table {to}\n");
        let way_out = |via: &dyn std::fmt::Display, lines: &mut String| {
            if self.is_way_out {
                line(lines, format_args!("route replace default via {via} dev {port} onlink table {to}"));
            }
        };
        way_out(v4, &mut lines);
        if let Some(v6) = v6 {
            line(&mut lines, format_args!("address replace {PORT_V6}/64 dev {port} nodad"));
            line(&mut lines, format_args!("route replace {v6}/128 dev {port} table {to}"));
            way_out(v6, &mut lines);
            let others = all.iter().filter(|other| other.to == self.from && other.port != *port);
            for other in others.filter_map(|other| other.v6) {
                line(&mut lines, format_args!("neighbour replace proxy {other} dev {port}"));
            }
        }
        lines
    }

    /// Lines for `ip -batch` with which the port answers at once, not within 0.8 s as a proxy usually does.
    pub(crate) fn answers(&self) -> String {
        let Self { port, v6, .. } = self;
        let mut lines = format!("ntable change name arp_cache dev {port} proxy_delay 0\n");
        if v6.is_some() {
            line(&mut lines, format_args!("ntable change name ndisc_cache dev {port} proxy_delay 0"));
        }
        lines
    }

    /// Lines for `ip -batch`, with `-force`, that take away what the others do.
    pub(crate) fn unroute(&self) -> String {
        let Self { port, .. } = self;
        format!("neighbour flush proxy dev {port}\naddress flush dev {port}\nroute flush table {}\n", self.to)
    }

    /// A line for `ip -batch`, or `ip -6 -batch`: `add` or `delete` the rule that the port has a table.
    pub(crate) fn rule(&self, act: &str) -> String {
        format!("rule {act} iif {} lookup {}\n", self.port, self.from)
    }
}

/// What the packet filter reads (iptables-restore(8)): `-A` or `-D` rules by which what comes at these ports goes
/// through the queue of this number.
pub(crate) fn queue_rules(act: &str, stations: &[(Station, usize)]) -> String {
    let mut lines = "*mangle\n".to_owned();
    for (Station { port, .. }, queue) in stations {
        line(&mut lines, format_args!("{act} FORWARD -i {port} -j NFQUEUE --queue-num {queue}"));
    }
    lines + "COMMIT\n"
}

fn line(lines: &mut String, text: impl std::fmt::Display) {
    writeln!(lines, "{text}").expect("a String takes any text");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stations() -> [Station; 3] {
        let place = Process { id: 1, started: 1 };
        let station = |number: usize, is_way_out| Station {
            port: format!("h{number}r0"),
            place,
            interface: "rail0".to_owned(),
            v4: Ipv4Addr::new(10, 0, 0, number as u8),
            v6: Some(Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, number as u16)),
            from: table(3, 0),
            to: table(3, 0),
            is_way_out,
        };
        [station(1, false), station(2, false), station(3, true)]
    }

    #[test]
    fn a_port_leads_to_what_is_behind_it_and_answers_for_the_others() {
        let all = stations();
        assert_eq!(
            all[2].ways(&all),
            "route replace 10.0.0.3/32 dev h3r0 table 10006\n\
             route replace default via 10.0.0.3 dev h3r0 onlink table 10006\n\
             address replace fe80::1/64 dev h3r0 nodad\n\
             route replace fd77::3/128 dev h3r0 table 10006\n\
             route replace default via fd77::3 dev h3r0 onlink table 10006\n\
             neighbour replace proxy fd77::1 dev h3r0\n\
             neighbour replace proxy fd77::2 dev h3r0\n"
        );
        assert_eq!(all[0].rule("add"), "rule add iif h1r0 lookup 10006\n");
        let without = Station { v6: None, ..all[0].clone() };
        assert_eq!(without.ways(&all), "route replace 10.0.0.1/32 dev h1r0 table 10006\n");
        assert_eq!(without.answers(), "ntable change name arp_cache dev h1r0 proxy_delay 0\n");
    }

    #[test]
    fn what_comes_at_one_end_of_a_link_leaves_at_the_other() {
        let [one, other, _] = stations();
        let one = Station { from: table(300, 0), to: table(300, 1), is_way_out: true, ..one };
        let other = Station { from: table(300, 1), to: table(300, 0), is_way_out: true, ..other };
        let all = [one, other];
        let ways = all[1].ways(&all);
        assert!(ways.contains("default via 10.0.0.2 dev h2r0 onlink table 10600\n"), "{ways}");
        assert!(ways.ends_with("neighbour replace proxy fd77::1 dev h2r0\n"), "{ways}");
    }

    #[test]
    fn packets_of_each_port_go_through_a_queue() {
        let all = stations().map(|station| (station, 7));
        assert_eq!(
            queue_rules("-A", &all[..2]),
            "*mangle\n\
             -A FORWARD -i h1r0 -j NFQUEUE --queue-num 7\n\
             -A FORWARD -i h2r0 -j NFQUEUE --queue-num 7\n\
             COMMIT\n"
        );
    }
}
