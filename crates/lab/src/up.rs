//! A lab that is up.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use crate::bridge::PortPlan;
use crate::bridge_process::{BridgeProcess, BridgeProgram};
use crate::cluster::{Cluster, WanLink};
use crate::cut::{self, End, Step};
use crate::error::LabError;
use crate::holder::{Holder, Role};
use crate::host::{self, Host};
use crate::link::{Link, WanCut, Way};
use crate::network::{self, Commands, Interface, OFFLOADS};
use crate::plan::Plan;
use crate::process::Process;
use crate::tools::{self, Tools};
use crate::wan::{self, Gateway};

/// What a lab may choose from.
const ALLOWED_CONGESTION_CONTROLS: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";

/// A network that is there until [`Lab::down`] is called, this is dropped, or this process ends.
#[derive(Debug)]
pub struct Lab {
    /// The switch in user space. It ends before its namespace does.
    pub(crate) bridge: Option<BridgeProcess>,
    /// The ports of the rails that it carries, by rail and host. Behind the hosts are the gateways of clusters, and
    /// behind the rails the links between those, with their sides.
    pub(crate) ports: BTreeMap<(usize, usize), PortPlan>,
    pub(crate) plan: Plan,
    pub(crate) hosts: Vec<Host>,
    /// One for each host, one for the switch if there is one, and one for the gateway of each cluster.
    holders: Vec<Holder>,
    pub(crate) tools: Tools,
    /// The congestion control that the hosts' routes name, where their namespaces can't have it by default.
    congestion_control: Option<String>,
    /// Each host's cable to each rail, and how it was cut.
    cuts: BTreeSet<(usize, usize, Way)>,
    /// Each link between clusters that is cut, and how.
    wan_cuts: BTreeSet<(usize, WanCut)>,
}

impl Lab {
    /// Makes the network. It can be used when this returns. Takes some tens of milliseconds for two hosts.
    ///
    /// Links between clusters do nothing to frames, whatever the plan says: [`Lab::up_with_wan`] makes them as it says.
    pub fn up(plan: &Plan) -> Result<Self, LabError> {
        plan.check()?;
        let tools = Tools::find(plan.offloads)?;
        let holders = start_holders(plan, &tools)?;
        let has_ipv6 = Path::new("/proc/sys/net/ipv6").exists();
        let host = |(index, holder): (usize, &Holder)| {
            Host::new(index, plan, holder.process(), has_ipv6, &tools.nsenter).knowing_names(holder.knows_names())
        };
        let hosts = holders.iter().take(plan.hosts).enumerate().map(host).collect();
        let mut lab = Self {
            bridge: None,
            ports: BTreeMap::new(),
            plan: plan.clone(),
            hosts,
            holders,
            tools,
            congestion_control: None,
            cuts: BTreeSet::new(),
            wan_cuts: BTreeSet::new(),
        };
        for WanLink { there, back, .. } in &mut lab.plan.wan {
            (*there, *back) = Default::default();
        }
        if lab.holders[lab.first_gateway()..].iter().any(|gateway| !gateway.routes()) {
            return Err(LabError::NoRouting);
        }
        lab.build()?;
        lab.build_gateways(has_ipv6)?;
        lab.set_congestion_control()?;
        Ok(lab)
    }

    /// Has routes name the congestion control that is wanted most, if the hosts' namespaces have another one: root may
    /// have allowed it to no other user.
    fn set_congestion_control(&mut self) -> Result<(), LabError> {
        let wanted = self.plan.congestion_controls()[0].to_owned();
        if wanted == self.holders[0].congestion_control() {
            return Ok(());
        }
        self.congestion_control = Some(wanted.clone());
        if self.build_routes().is_ok() {
            return Ok(());
        }
        self.congestion_control = None;
        if self.plan.congestion_control.is_none() {
            // The next best is set.
            return Ok(());
        }
        let allowed = fs::read_to_string(ALLOWED_CONGESTION_CONTROLS).unwrap_or_default();
        Err(LabError::CongestionControl { name: wanted, allowed: allowed.trim().to_owned() })
    }

    /// Makes the network, with links between clusters as the plan has them. `program` is what is started for them.
    pub fn up_with_wan(plan: &Plan, program: &BridgeProgram) -> Result<Self, LabError> {
        let mut lab = Self::up(plan)?;
        for (link, WanLink { there, back, .. }) in plan.wan.iter().enumerate().filter(|(_, link)| link.is_shaped()) {
            lab.shape_wan(link, [there, back], program)?;
        }
        Ok(lab)
    }

    /// What it was made from.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// TCP's congestion control in its hosts; empty where the kernel does not tell.
    pub fn congestion_control(&self) -> &str {
        self.congestion_control.as_deref().unwrap_or_else(|| self.holders[0].congestion_control())
    }

    /// The hosts, in order.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// A host, from 0.
    ///
    /// # Panics
    /// When the lab has no such host.
    pub fn host(&self, index: usize) -> &Host {
        &self.hosts[index]
    }

    /// Whether none of its processes has ended, which happens only when another program kills them.
    pub fn is_whole(&self) -> bool {
        self.holders.iter().all(|holder| holder.process().is_alive())
    }

    /// Ends it: kills every program that still runs in it, and removes the network.
    pub fn down(mut self) -> Result<(), LabError> {
        self.bridge = None;
        self.holders.iter_mut().for_each(Holder::release);
        let ends: Vec<_> = self.holders.iter_mut().map(Holder::wait).collect();
        ends.into_iter().collect()
    }

    /// Cuts a link. One that is cut already is cut in this way too.
    ///
    /// # Errors
    /// The lab has no such link; a direction of a link that is several hosts' ([`LabError::WhoseDirection`]); the
    /// programs that do it failed.
    pub fn cut(&mut self, link: Link, way: Way) -> Result<(), LabError> {
        link.check(&self.plan)?;
        way.check(link)?;
        let steps = cut::cut(&self.plan, link, way, |host| self.ends(host, link.rail));
        self.take(link, &steps)?;
        let hosts = link.hosts(&self.plan);
        self.cuts.extend(hosts.map(|host| (host, link.rail, way)));
        Ok(())
    }

    /// Mends a link, in whatever ways it was cut. A cable that joins two hosts directly is mended for both. One that
    /// was not cut stays as it is, but loses what waits in its queue.
    ///
    /// # Errors
    /// The lab has no such link; the programs that do it failed.
    pub fn mend(&mut self, link: Link) -> Result<(), LabError> {
        link.check(&self.plan)?;
        let steps = cut::mend(&self.plan, link, |host| self.ends(host, link.rail));
        self.take(link, &steps)?;
        let is_direct = !self.plan.has_switch();
        let is_meant = |host| is_direct || link.hosts(&self.plan).contains(&host);
        self.cuts.retain(|(host, rail, _)| *rail != link.rail || !is_meant(*host));
        Ok(())
    }

    /// Cuts a link between clusters, on each rail. One that is cut already is cut in this way too.
    ///
    /// # Errors
    /// The plan has no such link, or it does not end in the cluster that is named; the programs that do it failed.
    pub fn cut_wan(&mut self, link: usize, cut: WanCut) -> Result<(), LabError> {
        if let (WanCut::From(sender), (WanLink { between, .. }, _)) = (cut, self.wan_link(link)?)
            && !between.contains(&sender)
        {
            let words = format!("link {link} joins the clusters {} and {}, not {sender}", between[0], between[1]);
            return Err(LabError::Clusters(words));
        }
        self.change_wan(link, |cluster| cut.at(cluster))?;
        self.wan_cuts.insert((link, cut));
        Ok(())
    }

    /// Mends a link between clusters, in whatever ways it was cut. One that was not cut stays as it is.
    ///
    /// # Errors
    /// The plan has no such link; the programs that do it failed.
    pub fn mend_wan(&mut self, link: usize) -> Result<(), LabError> {
        self.change_wan(link, |_| [Some(Step::Mend); 2])?;
        self.wan_cuts.retain(|(other, _)| *other != link);
        Ok(())
    }

    /// How a link between clusters is cut; empty when it is not.
    pub fn wan_cuts(&self, link: usize) -> Vec<WanCut> {
        self.wan_cuts.iter().filter(|(other, _)| *other == link).map(|(_, cut)| *cut).collect()
    }

    /// How a host's cable to a rail is cut; empty when it is not.
    pub fn cuts(&self, host: usize, rail: usize) -> Vec<Way> {
        let is_meant = |(at, to, _): &&(usize, usize, Way)| (*at, *to) == (host, rail);
        self.cuts.iter().filter(is_meant).map(|(.., way)| *way).collect()
    }

    /// A link between clusters, and whose namespace the ports are in at its ends.
    pub(crate) fn wan_link(&self, link: usize) -> Result<(WanLink, Process), LabError> {
        let found = self.plan.wan.get(link).cloned().zip(self.switch());
        found.ok_or_else(|| {
            let words = format!("there is no link {link} between clusters; the lab has {}", self.plan.wan.len());
            LabError::Clusters(words)
        })
    }

    /// Does what `steps` says of the end in each cluster: to the gateway's interface, and to the switch's port for it.
    fn change_wan(&self, link: usize, steps: impl Fn(usize) -> [Option<Step>; 2]) -> Result<(), LabError> {
        let (joined, switch) = self.wan_link(link)?;
        let gateways = self.gateways();
        for (side, cluster) in joined.between.into_iter().enumerate() {
            let [at_gateway, at_port] = steps(cluster);
            for rail in 0..self.plan.links {
                let [gateway, port] = self.wan_mendings(link, rail, side);
                let ends = [
                    (gateways[cluster].place, wan::far(link, rail), at_gateway, gateway),
                    (switch, wan::far_port(link, rail, side), at_port, port),
                ];
                for (place, interface, step, mending) in ends {
                    let Some(step) = step else { continue };
                    let Commands { ip, tc } = cut::wan_commands(&interface, step, &mending, self.plan.mtu);
                    self.batch(place, &self.tools.ip, &ip)?;
                    self.batch(place, &self.tools.tc, &tc)?;
                }
            }
        }
        Ok(())
    }

    /// Joins hosts by a switch that were joined directly; whose namespace is the switch's.
    pub(crate) fn plug_into_switch(&mut self) -> Result<Process, LabError> {
        let role = Role::default();
        let switch = Holder::start_beside(&self.holders[0], &role, &self.plan, &self.tools)?.finish(false)?;
        let place = switch.process();
        let host = &self.hosts[0];
        // The other end goes with it.
        self.batch(host.holder(), &self.tools.ip, &network::remove(host))?;
        self.holders.push(switch);
        self.plan.switch = true;
        self.build()?;
        self.build_routes()?;
        for (host, rail, way) in std::mem::take(&mut self.cuts) {
            self.cut(Link { host: Some(host), rail }, way)?;
        }
        Ok(place)
    }

    /// The host's end of its cable to a rail, and the other.
    fn ends(&self, host: usize, rail: usize) -> [End; 2] {
        let of_host = |host: usize| {
            let interface = self.hosts[host].rails()[rail].interface.clone();
            End { place: self.hosts[host].holder(), interface, host: Some(host) }
        };
        let far = match self.switch() {
            Some(place) => End { place, interface: network::port(host, rail), host: None },
            None => of_host(1 - host),
        };
        [of_host(host), far]
    }

    fn take(&self, link: Link, steps: &[(End, Step)]) -> Result<(), LabError> {
        for (end, step) in steps {
            let control = self.congestion_control.as_deref();
            let mending = self.rail_mending(end, link.rail);
            let commands = cut::commands((&self.plan, &self.hosts), end, link.rail, *step, control, &mending);
            self.batch(end.place, &self.tools.ip, &commands.ip)?;
            self.batch(end.place, &self.tools.tc, &commands.tc)?;
        }
        Ok(())
    }

    /// Whose namespace is the switch's.
    pub(crate) fn switch(&self) -> Option<Process> {
        self.plan.has_switch().then(|| self.holders[self.plan.hosts].process())
    }

    fn first_gateway(&self) -> usize {
        self.plan.hosts + usize::from(self.plan.has_switch())
    }

    pub(crate) fn gateways(&self) -> Vec<Gateway> {
        let gateways = self.holders[self.first_gateway()..].iter().enumerate();
        gateways.map(|(cluster, holder)| Gateway { cluster, place: holder.process() }).collect()
    }

    /// The gateways of clusters, the links between them, and the routes there.
    fn build_gateways(&self, has_ipv6: bool) -> Result<(), LabError> {
        let gateways = self.gateways();
        let Some(switch) = self.switch().filter(|_| !gateways.is_empty()) else { return Ok(()) };
        self.batch(switch, &self.tools.ip, &wan::cables(&self.plan, &gateways))?;
        for Gateway { cluster, place } in &gateways {
            self.batch(*place, &self.tools.ip, &wan::gateway(&self.plan, *cluster, has_ipv6))?;
        }
        self.build_routes()
    }

    /// The hosts' routes that are not the kernel's own.
    fn build_routes(&self) -> Result<(), LabError> {
        let control = self.congestion_control.as_deref();
        self.hosts.iter().try_for_each(|host| {
            let of_rails = |name: &str| -> String {
                host.rails().iter().map(|rail| network::congestion_route(rail, name)).collect()
            };
            let lines = control.map(of_rails).unwrap_or_default() + &wan::host_routes(&self.plan, host, control);
            self.batch(host.holder(), &self.tools.ip, &lines)
        })
    }

    fn build(&self) -> Result<(), LabError> {
        let switch = self.switch();
        let start = switch.unwrap_or(self.hosts[0].holder());
        self.batch(start, &self.tools.ip, &network::cables(&self.plan, &self.hosts))?;
        if let Some(switch) = switch {
            self.set_up(switch, &network::switch_interfaces(&self.plan))?;
        }
        for host in &self.hosts {
            self.batch(host.holder(), &self.tools.ip, &network::addresses(host))?;
            self.set_up(host.holder(), &network::host_interfaces(host))?;
        }
        Ok(())
    }

    /// Rate and offloads of what leaves through these interfaces of one namespace.
    fn set_up(&self, place: Process, interfaces: &[Interface]) -> Result<(), LabError> {
        if self.plan.rate.is_some() || !self.plan.rates.is_empty() {
            self.batch(place, &self.tools.tc, &network::shaping(interfaces, &self.plan))?;
        }
        let Some(ethtool) = &self.tools.ethtool else { return Ok(()) };
        for interface in interfaces {
            let mut command = host::enter(&self.tools.nsenter, place, ethtool.as_os_str());
            command.args(["-K", &interface.name]);
            OFFLOADS.iter().for_each(|offload| {
                command.args([*offload, "off"]);
            });
            tools::run(command, "")?;
        }
        Ok(())
    }

    /// Has `ip` or `tc` do what these lines say, if there are any.
    pub(crate) fn batch(&self, place: Process, tool: &Path, lines: &str) -> Result<(), LabError> {
        if lines.is_empty() {
            return Ok(());
        }
        let mut command = host::enter(&self.tools.nsenter, place, tool.as_os_str());
        command.args(["-batch", "-"].map(OsStr::new));
        tools::run(command, lines)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // All are notified before the first is waited for, which its own drop does.
        self.holders.iter_mut().for_each(Holder::release);
    }
}

fn start_holders(plan: &Plan, tools: &Tools) -> Result<Vec<Holder>, LabError> {
    let names = wan::names(plan);
    let host = |host| Role { name: plan.host_name(host), hosts: names.clone(), routes: false };
    let gateway =
        |cluster: &Cluster| Role { name: format!("{}-gateway", cluster.name), routes: true, ..Role::default() };
    let switch = plan.has_switch().then(Role::default);
    let others: Vec<_> = (1..plan.hosts).map(host).chain(switch).chain(plan.clusters.iter().map(gateway)).collect();
    let first = Holder::start_first(&host(0), plan, tools)?;
    let start = |role: &Role| Holder::start_beside(&first, role, plan, tools);
    let starting: Vec<_> = others.iter().map(start).collect::<Result<_, _>>()?;
    let mut holders = vec![first];
    for one in starting {
        holders.push(one.finish(false)?);
    }
    Ok(holders)
}
