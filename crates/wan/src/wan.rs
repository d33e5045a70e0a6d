//! Two hosts with a long way between them.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use weft_lab::{Carrier as Kind, Host, Lab, find_program};
use weft_scenario::Scenario;

use crate::error::WanError;
use crate::process::{CarrierProcess, CarrierProgram};
use crate::report::Report;
use crate::serve::{Means, Order, parse};

/// The hosts of the lab: the two ends, and what lies between.
const ENDS: [usize; 2] = [0, 1];
const MIDDLE: usize = 2;
/// The numbers of the queues; the network is its own.
const QUEUES: [u16; 2] = [0, 1];
/// Bits of the one network that both ends are in where no router is between, of IPv4 and IPv6.
const BRIDGED: [u8; 2] = [8, 48];
/// What a frame may have in front of a packet of the MTU's length without being a super-packet.
const FRAME_HEAD: u32 = 24;

/// What shall lie between two hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// By what packets are carried.
    pub kind: Kind,
    /// The text of a scenario.
    pub scenario: String,
    /// The folder in which the files are that it names.
    pub folder: PathBuf,
    /// The largest IP packet of the links to the hosts, in bytes.
    pub mtu: u32,
}

/// Two hosts and what lies between them. It is gone when this has been dropped, or this process has ended.
#[derive(Debug)]
pub struct Wan {
    kind: Kind,
    carrier: CarrierProcess,
    lab: Lab,
}

/// Whether a scenario can be carried so.
///
/// # Errors
/// What is wrong with it, with its line; or what this kind of carrier can't do.
pub fn check(scenario: &str, folder: &Path, kind: Kind) -> Result<Scenario, WanError> {
    let scenario = parse(scenario, folder)?;
    if kind == Kind::Queue && scenario.copies_packets() {
        let words = "a packet queue can't make copies of packets (duplicate); use --carrier rings";
        return Err(WanError::Impossible(words.to_owned()));
    }
    Ok(scenario)
}

impl Wan {
    /// Makes the hosts and what lies between. The scenario starts when this returns. `program` carries the packets.
    ///
    /// # Errors
    /// The scenario is none; this system does not let the user make namespaces, lacks a program, or a part of the
    /// kernel. The message says which.
    pub fn up(plan: &Plan, program: &CarrierProgram) -> Result<Self, WanError> {
        check(&plan.scenario, &plan.folder, plan.kind)?;
        let lab = weft_lab::Plan { hosts: 3, links: 2, rate: None, mtu: plan.mtu, ..weft_lab::Plan::default() };
        let lab = Lab::up(&lab)?;
        let interfaces = lab.host(MIDDLE).rails().iter().map(|rail| rail.interface.clone());
        let interfaces: Vec<_> = interfaces.collect();
        let means = match plan.kind {
            Kind::Queue => {
                route(&lab)?;
                Means::Queues(QUEUES)
            }
            Kind::Rings => {
                bridge(&lab, plan.mtu)?;
                Means::Rings([interfaces[0].clone(), interfaces[1].clone()])
            }
        };
        let order = Order { means, scenario: plan.scenario.clone(), folder: plan.folder.clone() };
        let carrier = CarrierProcess::start(lab.host(MIDDLE).command(&program.program), program, &order)?;
        Ok(Self { kind: plan.kind, carrier, lab })
    }

    /// The hosts: 0 is the first, 1 the second.
    ///
    /// # Panics
    /// There is no other.
    #[must_use]
    pub fn host(&self, index: usize) -> &Host {
        self.lab.host(ENDS[index])
    }

    /// The address of a host, 0 or 1, of IPv4.
    ///
    /// # Panics
    /// There is no other.
    #[must_use]
    pub fn address(&self, index: usize) -> std::net::IpAddr {
        self.host(index).address(index)
    }

    /// What has been carried until now.
    ///
    /// # Errors
    /// The process that carries packets has ended.
    pub fn report(&mut self) -> Result<Report, WanError> {
        self.carrier.report()
    }

    /// Whether packets are still carried. If not, [`Wan::failure`] says why.
    pub fn is_whole(&mut self) -> bool {
        self.carrier.is_alive() && self.lab.is_whole()
    }

    /// Why packets are not carried any more.
    pub fn failure(&mut self) -> WanError {
        self.carrier.ended()
    }

    /// Lets the first host's TCP have at most this many segments in flight to the second, whatever its congestion
    /// control says (ip-route(8), `cwnd lock`), from the second stream on. A clamp of the receiver's window does not
    /// last: kernels that measure how much memory segments take (Linux 6.6 and newer) set it anew with the first of
    /// them.
    pub(crate) fn limit_window(&self, segments: u32) -> Result<(), WanError> {
        let (own, other) = (&self.host(0).rails()[0].interface, self.address(1));
        let via = match self.kind {
            Kind::Queue => format!("via {} ", self.lab.host(MIDDLE).address(0)),
            Kind::Rings => String::new(),
        };
        batch(self.host(0), &format!("route add {other}/32 {via}dev {own} cwnd lock {segments}\n"))
    }

    /// The process that carries packets.
    #[must_use]
    pub fn carrier(&self) -> u32 {
        self.carrier.id()
    }

    /// Ends it: kills every program that still runs in the hosts, and removes the networks.
    ///
    /// # Errors
    /// Something in them does not end.
    pub fn down(self) -> Result<(), WanError> {
        let Self { carrier, lab, .. } = self;
        drop(carrier);
        Ok(lab.down()?)
    }
}

/// Each end keeps the interface to its own network, and reaches the other by the router in the middle.
fn route(lab: &Lab) -> Result<(), WanError> {
    let iptables = find_program("iptables", "iptables")?;
    let ip6tables = find_program("ip6tables", "iptables")?;
    let middle = lab.host(MIDDLE);
    for own in ENDS {
        let other = 1 - own;
        let mut lines = format!("link delete rail{other}\n");
        lines += &format!("route add default via {}\n", middle.address(own));
        lines += &middle.address_v6(own).map_or_else(String::new, |via| format!("route add default via {via}\n"));
        batch(lab.host(own), &lines)?;
    }
    let tables = [(&iptables, "/proc/sys/net/ipv4/ip_forward"), (&ip6tables, "/proc/sys/net/ipv6/conf/all/forwarding")];
    for (table, switch) in tables {
        if !Path::new(switch).exists() {
            continue;
        }
        for (direction, [from, to]) in [["rail0", "rail1"], ["rail1", "rail0"]].into_iter().enumerate() {
            let mut command = middle.command(table);
            command.args(["-t", "mangle", "-A", "FORWARD", "-i", from, "-o", to, "-j", "NFQUEUE", "--queue-num"]);
            command.arg(QUEUES[direction].to_string());
            run(command)?;
        }
        // The switch belongs to the namespace of the process that writes.
        let mut command = middle.command("sh");
        command.args(["-c", &format!("echo 1 >{switch}")]);
        run(command)?;
    }
    Ok(())
}

/// Both ends are in one network, and what lies in the middle has no address in it.
fn bridge(lab: &Lab, mtu: u32) -> Result<(), WanError> {
    for own in ENDS {
        let host = lab.host(own);
        let (other, rail) = (1 - own, &host.rails()[own]);
        let name = &rail.interface;
        let mut lines = format!("link delete rail{other}\naddress flush dev {name}\n");
        lines += &format!("address add {}/{} dev {name}\n", rail.ipv4, BRIDGED[0]);
        if let Some(ipv6) = rail.ipv6 {
            lines += &format!("address add {ipv6}/{} dev {name} nodad\n", BRIDGED[1]);
        }
        // A ring has room for what a wire carries. Of what packet sockets send the length says it alone.
        lines += &format!("link set {name} gso_max_segs 1 gso_max_size {}\n", mtu + FRAME_HEAD);
        batch(host, &lines)?;
    }
    let flush = |interface: &str| format!("link set {interface} addrgenmode none\naddress flush dev {interface}\n");
    batch(lab.host(MIDDLE), &(flush("rail0") + &flush("rail1")))
}

/// Has `ip` do what these lines say in a host.
fn batch(host: &Host, lines: &str) -> Result<(), WanError> {
    let mut command = host.command(find_program("ip", "iproute2")?);
    command.args(["-batch", "-"]);
    run_with(command, lines)
}

fn run(command: Command) -> Result<(), WanError> {
    run_with(command, "")
}

fn run_with(mut command: Command, input: &str) -> Result<(), WanError> {
    let shown =
        command.get_args().skip(6).map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ");
    let output = output(&mut command, input).map_err(WanError::while_doing(format!("cannot run `{shown}`")))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
    Err(WanError::Carrier(format!("`{shown}` has failed: {said}")))
}

fn output(command: &mut Command, input: &str) -> io::Result<Output> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // One that has failed at the first lines does not read the others.
        let _ = stdin.write_all(input.as_bytes());
    }
    child.wait_with_output()
}
