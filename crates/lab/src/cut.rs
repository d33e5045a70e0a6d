//! Links that are cut, and mended again.

use std::ops::RangeInclusive;

use crate::error::LabError;
use crate::host::Host;
use crate::link::{Link, WanCut, Way};
use crate::network::{self, Commands, Limit};
use crate::plan::Plan;
use crate::process::Process;

/// Where a cable ends: what is sent into this interface leaves through the other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct End {
    /// Whose namespace.
    pub(crate) place: Process,
    pub(crate) interface: String,
    /// Which host it is; `None`: the switch.
    pub(crate) host: Option<usize>,
}

/// What is to be done at one end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Down,
    Drop,
    Mend,
}

impl Link {
    /// Whether a lab has it.
    pub(crate) fn check(self, plan: &Plan) -> Result<(), LabError> {
        let is_there = self.rail < plan.links && self.host.is_none_or(|host| host < plan.hosts);
        if is_there { Ok(()) } else { Err(LabError::Link { link: self, hosts: plan.hosts, links: plan.links }) }
    }

    /// Whose cables they are.
    pub(crate) fn hosts(self, plan: &Plan) -> RangeInclusive<usize> {
        self.host.map_or(0..=plan.hosts - 1, |host| host..=host)
    }
}

impl Way {
    /// Whether a link can fail so.
    pub(crate) fn check(self, link: Link) -> Result<(), LabError> {
        match self {
            Self::Send | Self::Receive if link.host.is_none() => Err(LabError::WhoseDirection { link, way: self }),
            _ => Ok(()),
        }
    }

    /// What is to be done at the host's own end of its cable, and at the other.
    pub(crate) const fn steps(self) -> [Option<Step>; 2] {
        match self {
            Self::Carrier => [None, Some(Step::Down)],
            Self::Silent => [Some(Step::Drop), Some(Step::Drop)],
            Self::Send => [Some(Step::Drop), None],
            Self::Receive => [None, Some(Step::Drop)],
        }
    }
}

/// What cuts these links; `ends` has the two ends of a host's cable.
pub(crate) fn cut(plan: &Plan, link: Link, way: Way, ends: impl Fn(usize) -> [End; 2]) -> Vec<(End, Step)> {
    let mut all = Vec::new();
    for host in link.hosts(plan) {
        let steps = ends(host).into_iter().zip(way.steps());
        all.extend(steps.filter_map(|(end, step)| step.map(|step| (end, step))));
        // A cable without a switch is both hosts'.
        if !plan.has_switch() {
            break;
        }
    }
    all
}

/// What mends these links, however they were cut.
pub(crate) fn mend(plan: &Plan, link: Link, ends: impl Fn(usize) -> [End; 2]) -> Vec<(End, Step)> {
    link.hosts(plan).flat_map(ends).map(|end| (end, Step::Mend)).collect()
}

impl WanCut {
    /// What is to be done at a cluster's end of the link: at the gateway's interface, and at the switch's port for it.
    pub(crate) fn at(self, cluster: usize) -> [Option<Step>; 2] {
        match self {
            Self::Carrier => [None, Some(Step::Down)],
            Self::Silent => [Some(Step::Drop), None],
            Self::From(sender) => [(sender == cluster).then_some(Step::Drop), None],
        }
    }
}

/// What an end of a link has beside what the lab gave it from the start, when it is mended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mending {
    /// What leaves there.
    pub(crate) limit: Option<Limit>,
    /// Lines for `ip -batch`: the routes that the kernel forgets with an interface that goes down.
    pub(crate) ways: String,
}

/// Commands for `ip` and `tc` at an end of a link between clusters, which has no rate of the lab's.
pub(crate) fn wan_commands(interface: &str, step: Step, mending: &Mending, mtu: u32) -> Commands {
    match step {
        Step::Down => Commands { ip: format!("link set {interface} down\n"), tc: String::new() },
        Step::Drop => Commands { ip: String::new(), tc: format!("qdisc replace dev {interface} root blackhole\n") },
        Step::Mend => Commands {
            ip: format!("link set {interface} up\n") + &mending.ways,
            tc: network::limit(interface, mending.limit, mtu),
        },
    }
}

/// Commands for `ip` and `tc` at one end, where the route names a congestion control of its own, or none.
pub(crate) fn commands(
    (plan, hosts): (&Plan, &[Host]),
    end: &End,
    rail: usize,
    step: Step,
    congestion_control: Option<&str>,
    mending: &Mending,
) -> Commands {
    let End { interface, host, .. } = end;
    match step {
        Step::Down => Commands { ip: format!("link set {interface} down\n"), tc: String::new() },
        Step::Drop => Commands { ip: String::new(), tc: format!("qdisc replace dev {interface} root blackhole\n") },
        Step::Mend => Commands {
            // The kernel has forgotten the routes over an interface that went down, and its addresses of IPv6.
            ip: format!("link set {interface} up\n")
                + &host.map_or_else(String::new, |host| {
                    let rail = &hosts[host].rails()[rail];
                    let way = congestion_control.map(|name| network::congestion_route(rail, name));
                    network::address_v6(rail) + &way.unwrap_or_default()
                })
                + &mending.ways,
            tc: network::limit(interface, mending.limit, plan.mtu),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::BitsPerSecond;

    #[test]
    fn links_are_read_and_written() {
        for (text, host, rail) in [("rail0", None, 0), ("3", None, 3), ("1:rail2", Some(1), 2), ("63:7", Some(63), 7)] {
            let link: Link = text.parse().unwrap();
            assert_eq!(link, Link { host, rail }, "{text}");
            assert_eq!(link.to_string().parse(), Ok(link));
        }
        for text in ["", "rail", ":rail0", "0:", "x", "rail-1", "1:2:3", "eth0", "99999", "é"] {
            assert!(text.parse::<Link>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn ways_are_read_and_written() {
        for way in [Way::Carrier, Way::Silent, Way::Send, Way::Receive] {
            assert_eq!(way.to_string().parse(), Ok(way));
        }
        assert!("slowly".parse::<Way>().unwrap_err().contains("carrier, silent, send and receive"));
    }

    #[test]
    fn what_a_lab_does_not_have_is_refused_with_what_it_has() {
        let plan = Plan { hosts: 3, links: 2, ..Plan::default() };
        assert!(Link { host: Some(2), rail: 1 }.check(&plan).is_ok());
        for link in [Link { host: None, rail: 2 }, Link { host: Some(3), rail: 0 }] {
            let message = link.check(&plan).unwrap_err().to_string();
            assert!(message.contains(&link.to_string()) && message.contains("rail0 to rail1"), "{message}");
        }
        let message = Way::Send.check(Link { host: None, rail: 1 }).unwrap_err().to_string();
        assert!(message.contains("0:rail1"), "{message}");
    }

    #[test]
    fn a_link_between_clusters_fails_at_both_ends_or_at_the_sender() {
        let (drop, down) = (Some(Step::Drop), Some(Step::Down));
        assert_eq!([0, 1].map(|end| WanCut::Carrier.at(end)), [[None, down]; 2]);
        assert_eq!([0, 1].map(|end| WanCut::Silent.at(end)), [[drop, None]; 2]);
        assert_eq!([0, 1].map(|end| WanCut::From(1).at(end)), [[None, None], [drop, None]]);
        let commands = |interface, step, mending| wan_commands(interface, step, &mending, 1500);
        let mending = Mending::default;
        assert_eq!(commands("wan0r0", Step::Drop, mending()).tc, "qdisc replace dev wan0r0 root blackhole\n");
        assert_eq!(commands("wan0r0", Step::Mend, mending()).tc, "qdisc replace dev wan0r0 root noqueue\n");
        assert_eq!(commands("w0r0s1", Step::Mend, mending()).ip, "link set w0r0s1 up\n");
        // What the kernel forgets, and what a cut has replaced.
        let limit = Some(Limit { rate: BitsPerSecond(1_000_000_000), queue_bytes: Some(500_000) });
        let Commands { ip, tc } = commands("w0r0s1", Step::Mend, Mending { limit, ways: "route\n".to_owned() });
        assert_eq!(ip, "link set w0r0s1 up\nroute\n");
        assert!(tc.contains("rate 1000000000bit") && tc.contains("limit 500000b"), "{tc}");
    }

    #[test]
    fn a_direct_cable_loses_its_carrier_at_one_end() {
        let end =
            |host: usize| End { place: Process { id: 1, started: 1 }, interface: "rail0".into(), host: Some(host) };
        let ends = |host: usize| [end(host), end(1 - host)];
        let (plan, all) = (Plan::default(), Link { host: None, rail: 0 });
        assert_eq!(cut(&plan, all, Way::Carrier, ends), [(end(1), Step::Down)]);
        assert_eq!(cut(&plan, Link { host: Some(1), rail: 0 }, Way::Send, ends), [(end(1), Step::Drop)]);
        assert_eq!(cut(&plan, all, Way::Silent, ends), [(end(0), Step::Drop), (end(1), Step::Drop)]);
        assert_eq!(mend(&plan, all, ends).len(), 4);
    }
}
