//! Where the processes of a run are.

use std::ffi::OsString;
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::str::FromStr;
use std::time::{Duration, Instant};
use std::{env, fmt, fs, io, thread};

use weft_command::shape::bridge_program;
use weft_lab::{BitsPerSecond, Carrier, Cluster, Host, Lab, LabError, Link, Plan, Shape, WanLink};

use crate::model::job::Member;
use crate::model::reach::Reach;
use crate::model::target::{RAILS_VARIABLE, Target};
use crate::result::Late;

/// The only one of a network for two.
const RAIL: Link = Link { host: None, rail: 0 };

/// How long a link may take to run.
const LINK_PATIENCE: Duration = Duration::from_secs(5);

/// How much larger than its own the last byte of the address is that a host of a test network has on its raw link.
const LINK_ADDRESS: u8 = 100;

/// Where the processes of a run are.
#[derive(Debug)]
pub(crate) enum Place {
    /// All on this machine, on loopback.
    Here,
    /// The passive one on a machine that listens.
    There(Target),
    /// By turns on these two hosts of a network of their own.
    Lab(Rc<Lab>, [usize; 2]),
}

/// The option for a network of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LabWish {
    /// None, whatever the test wants.
    Off,
    /// As the test wants it.
    Usual,
    /// With links as fast as the processor moves bytes.
    Unlimited,
    /// With links of this rate.
    Rate(BitsPerSecond),
}

impl FromStr for LabWish {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "off" => Ok(Self::Off),
            "usual" => Ok(Self::Usual),
            "none" => Ok(Self::Unlimited),
            rate => rate.parse().map(Self::Rate),
        }
    }
}

impl Place {
    /// The two hosts of a fresh network.
    pub(crate) fn lab(plan: &Plan, shape: Option<&Shape>) -> Result<Self, LabError> {
        let Some(shape) = shape else { return Self::of(Lab::up(plan)?) };
        let shaped = |rate, shape: &Shape, carrier| {
            shape.check()?;
            let mut lab = Lab::up(&Plan { rate, switch: true, carrier, ..plan.clone() })?;
            lab.shape(RAIL, shape, &bridge_program()?)?;
            Ok::<_, LabError>(lab)
        };
        if plan.carrier != Some(Carrier::Rings) {
            // The kernel keeps to the rate, in the hosts and in the switch, and the queue does the rest.
            let lab = shaped(plan.rate, shape, plan.carrier)?;
            if lab.carrier(RAIL.rail) == Some(Carrier::Queue) {
                return Self::of(lab);
            }
            lab.down()?;
        }
        // The bottleneck is in the switch, which then does the rest.
        let shape = Shape { rate: plan.rate, ..shape.clone() };
        Self::of(shaped(None, &shape, Some(Carrier::Rings))?)
    }

    /// A fresh network of two clusters with this many hosts each. The link between the clusters has the rate of all
    /// others, and the rest of the shape in each direction; without a shape the kernel carries it without a limit.
    pub(crate) fn clusters(plan: &Plan, hosts: usize, shape: Option<&Shape>) -> Result<Self, LabError> {
        let clusters = Cluster::usual(2, hosts);
        let shape = shape.map(|shape| Shape { rate: plan.rate, ..shape.clone() }).unwrap_or_default();
        let wan = WanLink::mesh(clusters.len(), &shape);
        let plan = Plan { hosts: clusters.len() * hosts, clusters, wan, ..plan.clone() };
        Self::of(Lab::up_with_wan(&plan, &bridge_program()?)?)
    }

    /// That lab, when its links are up. Of clusters, the sides are in two.
    fn of(lab: Lab) -> Result<Self, LabError> {
        lab.hosts().iter().for_each(await_link);
        let in_cluster = lab.plan().clusters.first().map_or(1, |cluster| cluster.hosts.len());
        let hosts = if in_cluster == 1 { [0, 1] } else { Reach::Across.hosts(in_cluster) };
        Ok(Self::Lab(Rc::new(lab), hosts))
    }

    /// The same network of clusters, with the sides as far apart as each reach says; nothing where there are none.
    pub(crate) fn reaches(&self) -> Vec<(Reach, Self)> {
        let Self::Lab(lab, _) = self else { return Vec::new() };
        let Some(cluster) = lab.plan().clusters.first() else { return Vec::new() };
        let reached = |reach: Reach| (reach, Self::Lab(Rc::clone(lab), reach.hosts(cluster.hosts.len())));
        Reach::ALL.map(reached).into()
    }

    /// All hosts of a network of clusters; nothing where there are none.
    pub(crate) fn members(&self) -> Vec<Member> {
        match self {
            Self::Lab(lab, _) if !lab.plan().clusters.is_empty() => lab.hosts().iter().map(member).collect(),
            Self::Lab(..) | Self::Here | Self::There(_) => Vec::new(),
        }
    }

    /// The host of a process, if it is in a network of their own.
    fn lab_host(&self, rank: usize) -> Option<&Host> {
        match self {
            Self::Lab(lab, hosts) => Some(lab.host(hosts[rank % hosts.len()])),
            Self::Here | Self::There(_) => None,
        }
    }

    /// TCP's congestion control on this machine, or in that network.
    pub(crate) fn congestion_control(&self) -> String {
        match self {
            Self::Lab(lab, _) => lab.congestion_control().to_owned(),
            Self::Here | Self::There(_) => fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control")
                .map_or_else(|_| "unknown".into(), |text| text.trim().to_owned()),
        }
    }

    /// What each link of that network carries, if it has a limit.
    pub(crate) fn rate(&self) -> Option<BitsPerSecond> {
        let Self::Lab(lab, _) = self else { return None };
        // Where a switch does something to frames, the rate is its own too.
        lab.plan().rate.or(lab.shapes(0, 0)[1].rate)
    }

    /// What that network adds to each round trip.
    pub(crate) fn round_trip(&self) -> Duration {
        let Self::Lab(lab, _) = self else { return Duration::ZERO };
        lab.shapes(0, 0)[1].delay + lab.shapes(1, 0)[1].delay
    }

    /// By what the packets of that network are carried where something delays them.
    fn carrier(&self) -> Option<Carrier> {
        let Self::Lab(lab, _) = self else { return None };
        if lab.plan().clusters.is_empty() { lab.carrier(RAIL.rail) } else { lab.wan_carrier(0) }
    }

    /// Whether it is a network of their own.
    pub(crate) fn is_lab(&self) -> bool {
        matches!(self, Self::Lab(..))
    }

    /// The host that the active side connects to.
    pub(crate) fn host(&self) -> String {
        match self {
            Self::Here => "127.0.0.1".into(),
            Self::There(target) => target.host.clone(),
            Self::Lab(lab, [passive, _]) => lab.host(*passive).address(0).to_string(),
        }
    }

    /// The address that a process on this machine takes; `None` when the route decides.
    pub(crate) fn local(&self, rank: usize) -> Option<String> {
        match self {
            Self::Here => Some("127.0.0.1".into()),
            Self::There(_) => None,
            Self::Lab(..) => Some(self.lab_host(rank)?.address(0).to_string()),
        }
    }

    /// The raw link that a process on this machine takes, if there is one: an address beside the host's own.
    pub(crate) fn link(&self, rank: usize) -> Option<String> {
        match self {
            Self::Here => None,
            Self::There(target) => target.link.clone(),
            Self::Lab(..) => {
                let rail = self.lab_host(rank)?.rails().first()?;
                let [one, two, three, four] = rail.ipv4.octets();
                Some(format!("{}={one}.{two}.{three}.{}/24", rail.interface, four.saturating_add(LINK_ADDRESS)))
            }
        }
    }

    /// The machine of a process that does not run on this one.
    pub(crate) fn machine(&self, rank: usize) -> Option<&Target> {
        match self {
            Self::There(target) if rank == 0 => Some(target),
            _ => None,
        }
    }

    /// How late the link's frames were since the last call. `None`: nothing emulates a link, no frame came, or it does
    /// not say.
    pub(crate) fn take_lateness(&self) -> Option<Late> {
        let Self::Lab(lab, _) = self else { return None };
        let lateness = lab.take_lateness().ok().flatten()?;
        let [from, to] = lab.shapes(0, 0);
        let delay = lab.plan().wan.first().map_or(from.delay + to.delay, |link| link.there.delay);
        Some(Late::of(lateness, delay))
    }

    /// The command that starts a process on this machine, with these words before it: a tool and its options.
    pub(crate) fn command(&self, rank: usize, words: &[OsString]) -> io::Result<Command> {
        let own = env::current_exe()?.into_os_string();
        let mut words = words.iter().chain([&own]);
        let program = words.next().unwrap_or(&own);
        let mut command = self.lab_host(rank).map_or_else(|| Command::new(program), |host| host.command(program));
        command.args(words);
        if let Self::There(Target { rails: Some(rails), .. }) = self {
            command.env(RAILS_VARIABLE, rails);
        }
        Ok(command)
    }
}

/// A host as programs of its network reach it.
pub(crate) fn member(host: &Host) -> Member {
    Member { address: host.address(0).to_string(), process: host.holder().id }
}

/// Waits until the kernel calls a host's link running. It carries packets before that, but libraries that choose an
/// interface pass it over.
fn await_link(host: &Host) {
    let until = Instant::now() + LINK_PATIENCE;
    let is_running = || {
        let shown = host.command("ip").args(["-o", "link", "show", "up"]).stdin(Stdio::null()).output();
        shown.is_ok_and(|shown| String::from_utf8_lossy(&shown.stdout).contains("state UP"))
    };
    while !is_running() && Instant::now() < until {
        thread::sleep(Duration::from_millis(10));
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Here => f.write_str("loopback"),
            Self::There(target) => write!(f, "to {}", target.host),
            Self::Lab(lab, _) => {
                let Plan { mtu, offloads, clusters, wan, .. } = lab.plan();
                match clusters.first() {
                    Some(cluster) => write!(f, "two clusters of {} hosts, links", cluster.hosts.len())?,
                    None => f.write_str("two hosts of a test network, one link")?,
                }
                match self.rate() {
                    Some(rate) => write!(f, " of {rate}")?,
                    None => f.write_str(" without a limit")?,
                }
                match wan.first().filter(|link| link.is_shaped()) {
                    Some(link) => write!(f, "; between the clusters {} in each direction", link.there)?,
                    None if !wan.is_empty() => f.write_str("; between the clusters no limit and no delay")?,
                    None => {}
                }
                if *mtu != Plan::default().mtu {
                    write!(f, ", MTU {mtu}")?;
                }
                if !self.round_trip().is_zero() {
                    write!(f, ", a round trip of {:?}", self.round_trip())?;
                }
                if let Some(carrier) = self.carrier() {
                    write!(f, ", carrier: {carrier}")?;
                }
                f.write_str(if *offloads { "" } else { ", no segmentation offload" })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_is_a_rate_or_off() {
        assert_eq!("off".parse(), Ok(LabWish::Off));
        assert_eq!("none".parse(), Ok(LabWish::Unlimited));
        assert_eq!("2.5G".parse(), Ok(LabWish::Rate(BitsPerSecond(2_500_000_000))));
        assert!("on".parse::<LabWish>().is_err());
    }
}
