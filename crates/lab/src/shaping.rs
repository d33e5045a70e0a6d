//! What the links of a lab that is up do to packets, and what carries those.

use std::collections::BTreeMap;
use std::ffi::OsStr;

use weft_emulate::Queue;

use crate::bridge::PortPlan;
use crate::bridge_process::{BridgeProcess, BridgeProgram};
use crate::carrier::Carrier;
use crate::cluster::WanLink;
use crate::cut::{End, Mending, Step};
use crate::error::LabError;
use crate::host::{self, Host, local_v6};
use crate::lateness::Lateness;
use crate::limits::BitsPerSecond;
use crate::link::{Link, Way};
use crate::network::{self, Limit};
use crate::process::Process;
use crate::routing::{self, Station, table};
use crate::shape::Shape;
use crate::tools::{self, find};
use crate::up::Lab;
use crate::wan::{self, Gateway};

/// Which port: its rail and its host, or behind the rails its link between clusters and its side.
type Key = (usize, usize);
type Ports = BTreeMap<Key, PortPlan>;

/// A port of a network that is shaped.
struct At {
    key: Key,
    /// The number that the emulator has for the network.
    segment: usize,
    station: Station,
    /// What the lab's own links carry there, and what of that is left to the kernel behind a packet queue.
    rates: [Option<BitsPerSecond>; 2],
    /// How it is cut: what was done behind the port, and at the port.
    cuts: Vec<[Option<Step>; 2]>,
}

impl Lab {
    /// Shapes a link from now on, in place of how it was shaped before: a rail once for whatever crosses it, in both
    /// directions; one host's cable in both directions too. `program` is what is started for it, if it does not run.
    ///
    /// The first shape takes the rail from the kernel's bridge; what is in flight then is lost. Two hosts that are
    /// joined directly get a switch then ([`Plan::switch`](crate::Plan::switch) has it from the start): all their
    /// interfaces are made anew, with the same names, addresses and cuts, but other numbers and hardware addresses.
    ///
    /// Packets are carried as [`Plan::carrier`](crate::Plan::carrier) says. What is in flight when the carrier changes
    /// is lost.
    ///
    /// # Errors
    /// The lab has no such link, or the shape is out of its limits; the carrier that is wanted can't do it; the
    /// programs that do it failed.
    pub fn shape(&mut self, link: Link, shape: &Shape, program: &BridgeProgram) -> Result<(), LabError> {
        link.check(&self.plan)?;
        shape.check()?;
        if let (Some(rate), Some(own)) = (shape.rate, self.plan.rate_of(link.rail))
            && rate > own
        {
            let words =
                format!("a rate of {rate} is more than the {own} of the lab's links; make the lab with --rate none");
            return Err(LabError::Shape(words));
        }
        let switch = match self.switch() {
            Some(switch) => switch,
            None => self.plug_into_switch()?,
        };
        let (all, mut ports) = (self.rail_ports(link.rail), self.ports.clone());
        for at in &all {
            let plan = ports.entry(at.key).or_insert_with(|| at.plan());
            if link.host.is_none_or(|host| host == at.key.1) {
                plan.to_host = shape.clone();
                plan.from_host = if link.host.is_some() { shape.clone() } else { Shape::default() };
            }
        }
        self.carry(switch, &all, ports, program)
    }

    /// What a link between clusters does to packets from now on, there and back, on each rail. `program` is what is
    /// started for it, if it does not run. The first time, what is in flight on the link is lost.
    ///
    /// # Errors
    /// The plan has no such link, or a shape is out of its limits; the carrier that is wanted can't do it; the programs
    /// that do it failed.
    pub fn shape_wan(&mut self, link: usize, shapes: [&Shape; 2], program: &BridgeProgram) -> Result<(), LabError> {
        let (joined, switch) = self.wan_link(link)?;
        shapes.into_iter().try_for_each(Shape::check)?;
        let (mut all, mut ports) = (Vec::new(), self.ports.clone());
        for rail in 0..self.plan.links {
            for (at, shape) in self.wan_ports(link, rail)?.into_iter().zip(shapes) {
                let plan = ports.entry(at.key).or_insert_with(|| at.plan());
                plan.from_host = shape.clone();
                all.push(at);
            }
        }
        self.carry(switch, &all, ports, program)?;
        let [there, back] = shapes.map(Clone::clone);
        self.plan.wan[link] = WanLink { there, back, ..joined };
        Ok(())
    }

    /// By what the packets of links are carried that are shaped from now on; `None`: as
    /// [`Plan::carrier`](crate::Plan::carrier) has it.
    pub fn set_carrier(&mut self, carrier: Option<Carrier>) {
        self.plan.carrier = carrier;
    }

    /// What a host's cable to a rail does to what comes from the host, and to what goes there.
    pub fn shapes(&self, host: usize, rail: usize) -> [Shape; 2] {
        let plan = self.ports.get(&(rail, host)).cloned();
        plan.map_or_else(Default::default, |plan| [plan.from_host, plan.to_host])
    }

    /// By what the packets of a rail are carried; `None`: it is not shaped, the kernel itself carries them.
    pub fn carrier(&self, rail: usize) -> Option<Carrier> {
        self.ports.get(&(rail, 0)).map(|plan| plan.carrier)
    }

    /// The same of a link between clusters.
    pub fn wan_carrier(&self, link: usize) -> Option<Carrier> {
        self.ports.get(&(wan::far_segment(link, 0), 0)).map(|plan| plan.carrier)
    }

    /// How late packets of shaped links were forwarded, since the last call; `None`: there were none, or no link is
    /// shaped.
    ///
    /// # Errors
    /// The process that carries them has ended.
    pub fn take_lateness(&self) -> Result<Option<Lateness>, LabError> {
        self.bridge.as_ref().map_or(Ok(None), BridgeProcess::take_lateness)
    }

    /// The process that carries the packets of shaped rails, if it runs.
    pub fn bridge(&self) -> Option<Process> {
        self.bridge.as_ref().and_then(BridgeProcess::process)
    }

    /// Has the ports `all` do what `ports` says, carried as it is wanted, or else as it can be.
    fn carry(&mut self, switch: Process, all: &[At], ports: Ports, program: &BridgeProgram) -> Result<(), LabError> {
        let needs = all.iter().map(|at| &ports[&at.key]).find_map(|plan| {
            let of_host = plan.from_host.needs_frames();
            of_host.or_else(|| plan.to_host.needs_frames())
        });
        let carrier = match (self.plan.carrier, needs) {
            (Some(Carrier::Queue), Some(needs)) => {
                return Err(LabError::Shape(format!("a packet queue can't {needs}; use --carrier rings")));
            }
            (Some(carrier), _) => carrier,
            (None, Some(_)) => Carrier::Rings,
            (None, None) => Carrier::Queue,
        };
        let done = self.carry_by(carrier, switch, all, ports.clone(), program);
        if done.is_err() && carrier == Carrier::Queue && self.plan.carrier.is_none() {
            // Rings need less of a system.
            self.unroute(switch, all);
            return self.carry_by(Carrier::Rings, switch, all, ports, program);
        }
        done
    }

    fn carry_by(
        &mut self,
        carrier: Carrier,
        switch: Process,
        all: &[At],
        mut ports: Ports,
        program: &BridgeProgram,
    ) -> Result<(), LabError> {
        let before = all.iter().find_map(|at| self.ports.get(&at.key)).map(|plan| plan.carrier);
        for at in all {
            ports.entry(at.key).or_insert_with(|| at.plan()).carrier = carrier;
        }
        if before.is_none() {
            let lines: String = all.iter().map(|at| network::unplug(&at.station.port)).collect();
            self.batch(switch, &self.tools.ip, &lines)?;
        }
        if before != Some(carrier) {
            if before == Some(Carrier::Queue) {
                self.unroute(switch, all);
            }
            let mtu = self.plan.mtu;
            for At { station: Station { place, interface, .. }, .. } in all {
                let size = match carrier {
                    Carrier::Queue => network::whole_packets(interface),
                    Carrier::Rings => network::cut_packets(interface, mtu),
                };
                self.batch(*place, &self.tools.ip, &(size + &network::forget_neighbours(interface)))?;
            }
            if carrier == Carrier::Queue {
                self.route(switch, all)?;
            }
        }
        let old = std::mem::replace(&mut self.ports, ports);
        self.set_limits(switch, all, &old)?;
        self.configure_bridge(switch, program)
    }

    fn configure_bridge(&mut self, switch: Process, program: &BridgeProgram) -> Result<(), LabError> {
        let ports: Vec<_> = self.ports.values().cloned().collect();
        if self.bridge().is_none() {
            self.bridge = None;
        }
        let bridge = match &mut self.bridge {
            Some(bridge) => bridge,
            none => none.insert(BridgeProcess::start(program, &self.tools.nsenter, switch)?),
        };
        bridge.set_ports(ports)
    }

    /// Has the switch route between these ports, and every packet wait in a queue.
    fn route(&self, switch: Process, all: &[At]) -> Result<(), LabError> {
        self.set_proxies(switch, all, true)?;
        let stations: Vec<_> = all.iter().map(|at| at.station.clone()).collect();
        let each = |lines: fn(&Station) -> String| stations.iter().map(lines).collect::<String>();
        // Through a port that is down there is no path. It has one when it is mended.
        let up = all.iter().filter(|at| !at.is_cut(1, Step::Down));
        let ways: String = up.map(|at| at.station.ways(&stations)).collect();
        let rules = each(|station| station.rule("add"));
        // Without a loopback a namespace has no table of its own addresses, and routes nothing.
        let lines = "link set lo up\n".to_owned() + &each(Station::answers) + &ways + &rules;
        self.batch(switch, &self.tools.ip, &lines)?;
        if has_v6(all) {
            self.ip(switch, &["-6"], &rules)?;
        }
        self.set_queue_rules("-A", switch, all)
    }

    /// Takes away what [`Lab::route`] has done, as far as it is there.
    fn unroute(&self, switch: Process, all: &[At]) {
        let rules: String = all.iter().map(|at| at.station.rule("delete")).collect();
        let lines: String = all.iter().map(|at| at.station.unroute()).collect();
        // What has not been done need not be undone.
        let _ = self.set_queue_rules("-D", switch, all);
        let _ = self.ip(switch, &["-force"], &(rules.clone() + &lines));
        let _ = self.ip(switch, &["-6", "-force"], &rules);
        let _ = self.set_proxies(switch, all, false);
    }

    fn set_proxies(&self, switch: Process, all: &[At], on: bool) -> Result<(), LabError> {
        let mut command = host::enter(&self.tools.nsenter, switch, self.tools.sh.as_os_str());
        command.args(["-c", routing::SCRIPT, "weft-lab", if on { "1" } else { "0" }]);
        command.args(all.iter().map(|at| &at.station.port));
        tools::run(command, "")
    }

    fn set_queue_rules(&self, act: &str, switch: Process, all: &[At]) -> Result<(), LabError> {
        let stations: Vec<_> = all.iter().map(|at| (at.station.clone(), at.segment)).collect();
        let rules = routing::queue_rules(act, &stations);
        let mut programs = vec![find("iptables-restore", "iptables")?];
        if has_v6(all) {
            programs.push(find("ip6tables-restore", "iptables")?);
        }
        for program in programs {
            let mut command = host::enter(&self.tools.nsenter, switch, program.as_os_str());
            command.args(["--noflush", "--wait=5"]);
            tools::run(command, &rules)?;
        }
        Ok(())
    }

    /// What leaves the ports and what is behind them keeps to the rates of their shapes, where queues carry it, and to
    /// the lab's own.
    fn set_limits(&self, switch: Process, all: &[At], old: &Ports) -> Result<(), LabError> {
        for at in all {
            let At { key, station, rates, .. } = at;
            let (old, new) = (limits(old.get(key), *rates), limits(self.ports.get(key), *rates));
            let ends = [(station.place, &station.interface), (switch, &station.port)];
            for (end, (place, interface)) in ends.into_iter().enumerate() {
                // What drops everything is replaced when it is mended.
                if old[end] != new[end] && !at.is_cut(end, Step::Drop) {
                    self.batch(place, &self.tools.tc, &network::limit(interface, new[end], self.plan.mtu))?;
                }
            }
        }
        Ok(())
    }

    /// Has `ip` do what these lines say, with options.
    fn ip(&self, place: Process, options: &[&str], lines: &str) -> Result<(), LabError> {
        let mut command = host::enter(&self.tools.nsenter, place, self.tools.ip.as_os_str());
        command.args(options).args(["-batch", "-"].map(OsStr::new));
        tools::run(command, lines)
    }

    /// What an end of a host's cable has again when it is mended.
    pub(crate) fn rail_mending(&self, end: &End, rail: usize) -> Mending {
        let all = self.rail_ports(rail);
        let of_host = |at: &&At| end.host == Some(at.key.1) || (end.host.is_none() && at.station.port == end.interface);
        let Some(at) = all.iter().find(of_host) else { return Mending::default() };
        let [far, port] = self.mendings(at, &all);
        if end.host.is_some() { far } else { port }
    }

    /// What the ends of a link between clusters have again when they are mended, at one side: the gateway's, and the
    /// switch's port for it.
    pub(crate) fn wan_mendings(&self, link: usize, rail: usize, side: usize) -> [Mending; 2] {
        let all = self.wan_ports(link, rail).unwrap_or_default();
        all.get(side).map_or_else(Default::default, |at| self.mendings(at, &all))
    }

    /// What is behind a port, and the port.
    fn mendings(&self, at: &At, all: &[At]) -> [Mending; 2] {
        let plan = self.ports.get(&at.key);
        let [far, port] = limits(plan, at.rates);
        let stations: Vec<_> = all.iter().map(|at| at.station.clone()).collect();
        let is_routed = plan.is_some_and(|plan| plan.carrier == Carrier::Queue);
        let ways = if is_routed { at.station.ways(&stations) } else { String::new() };
        [Mending { limit: far, ways: String::new() }, Mending { limit: port, ways }]
    }

    /// The switch's ports to a rail. Behind the hosts, the gateways.
    fn rail_ports(&self, rail: usize) -> Vec<At> {
        let at = |key: Key, cluster: usize, (station, rates): (Station, [Option<BitsPerSecond>; 2])| {
            let segment = wan::lan_segment(cluster, rail);
            let table = table(segment, 0);
            let cuts = self.cuts(key.1, rail).into_iter().map(Way::steps).collect();
            At { key, segment, station: Station { from: table, to: table, ..station }, rates, cuts }
        };
        let of_host = |host: &Host| {
            let own = &host.rails()[rail];
            let station = Station {
                port: network::port(host.index(), rail),
                place: host.holder(),
                interface: own.interface.clone(),
                v4: own.ipv4,
                v6: own.ipv6,
                from: 0,
                to: 0,
                is_way_out: false,
            };
            // Of two hosts the other one has kept to the rate, and what the queue lets go late must not be lost.
            let rate = self.plan.rate_of(rail);
            let behind = rate.filter(|_| self.hosts.len() > 2);
            at((rail, host.index()), host.cluster(), (station, [rate, behind]))
        };
        let of_gateway = |Gateway { cluster, place }: Gateway| {
            let station = Station {
                port: wan::lan_port(cluster, rail),
                place,
                interface: wan::lan(rail),
                v4: wan::gateway_v4(cluster, rail),
                v6: self.has_v6().then(|| local_v6(cluster, rail, wan::GATEWAY)),
                from: 0,
                to: 0,
                is_way_out: true,
            };
            at((rail, self.plan.hosts + cluster), cluster, (station, [None; 2]))
        };
        self.hosts.iter().map(of_host).chain(self.gateways().into_iter().map(of_gateway)).collect()
    }

    /// The switch's ports of a link between clusters, at both sides.
    fn wan_ports(&self, link: usize, rail: usize) -> Result<Vec<At>, LabError> {
        let (joined, _) = self.wan_link(link)?;
        let (gateways, segment) = (self.gateways(), wan::far_segment(link, rail));
        let at = |(side, cluster): (usize, usize)| At {
            key: (segment, side),
            segment,
            station: Station {
                port: wan::far_port(link, rail, side),
                place: gateways[cluster].place,
                interface: wan::far(link, rail),
                v4: wan::far_v4(link, rail, side),
                v6: self.has_v6().then(|| wan::far_v6(link, rail, side)),
                from: table(segment, side),
                to: table(segment, 1 - side),
                is_way_out: true,
            },
            rates: [None; 2],
            cuts: self.wan_cuts(link).into_iter().map(|cut| cut.at(cluster)).collect(),
        };
        Ok(joined.between.into_iter().enumerate().map(at).collect())
    }

    fn has_v6(&self) -> bool {
        self.hosts[0].address_v6(0).is_some()
    }
}

impl At {
    /// Whether this was done behind the port (0) or at the port (1).
    fn is_cut(&self, end: usize, step: Step) -> bool {
        self.cuts.iter().any(|steps| steps[end] == Some(step))
    }

    /// The port, which does nothing to packets yet.
    fn plan(&self) -> PortPlan {
        PortPlan {
            host: self.key.1,
            rail: self.segment,
            interface: self.station.port.clone(),
            from_host: Shape::default(),
            to_host: Shape::default(),
            carrier: Carrier::Rings,
        }
    }
}

fn has_v6(all: &[At]) -> bool {
    all.iter().any(|at| at.station.v6.is_some())
}

/// What leaves the interface behind a port, and what leaves the port, where the lab's own links have these rates:
/// there, and behind a packet queue.
fn limits(plan: Option<&PortPlan>, [rate, behind]: [Option<BitsPerSecond>; 2]) -> [Option<Limit>; 2] {
    let Some(plan) = plan.filter(|plan| plan.carrier == Carrier::Queue) else { return [rate.map(Limit::of); 2] };
    let of = |shape: &Shape, rate: Option<BitsPerSecond>| {
        let queue_bytes = Some(shape.queue_bytes.unwrap_or_else(|| Queue::default().bytes));
        shape.rate.map(|rate| Limit { rate, queue_bytes }).or(rate.map(Limit::of))
    };
    [of(&plan.from_host, rate), of(&plan.to_host, behind)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_keeps_to_the_rate_where_a_queue_has_the_rest() {
        let (lab, slow) = (BitsPerSecond(1_000_000_000), BitsPerSecond(1_000_000));
        let shape = Shape { rate: Some(slow), queue_bytes: Some(200_000), ..Shape::default() };
        let plan = |carrier, from_host: &Shape, to_host: &Shape| PortPlan {
            host: 0,
            rail: 0,
            interface: "h0r0".to_owned(),
            from_host: from_host.clone(),
            to_host: to_host.clone(),
            carrier,
        };
        let own = Some(Limit::of(lab));
        let shaped = Some(Limit { rate: slow, queue_bytes: Some(200_000) });
        let none = Shape::default();
        let rates = [Some(lab), Some(lab)];
        assert_eq!(limits(None, rates), [own, own]);
        assert_eq!(limits(Some(&plan(Carrier::Rings, &shape, &shape)), rates), [own, own], "the emulator has it");
        assert_eq!(limits(Some(&plan(Carrier::Queue, &none, &shape)), rates), [own, shaped]);
        assert_eq!(limits(Some(&plan(Carrier::Queue, &shape, &none)), [Some(lab), None]), [shaped, None]);
        let usual = Shape { queue_bytes: None, ..shape };
        let [limit, _] = limits(Some(&plan(Carrier::Queue, &usual, &none)), [None; 2]);
        assert_eq!(limit.and_then(|limit| limit.queue_bytes), Some(500_000));
    }
}
