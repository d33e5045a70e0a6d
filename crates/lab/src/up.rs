//! A lab that is up.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use crate::error::LabError;
use crate::holder::Holder;
use crate::host::{self, Host};
use crate::network::{self, OFFLOADS};
use crate::plan::Plan;
use crate::process::Process;
use crate::tools::{self, Tools};

/// What a lab may choose from.
const ALLOWED_CONGESTION_CONTROLS: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";

/// A network that is there until [`Lab::down`] is called, this is dropped, or this process ends.
#[derive(Debug)]
pub struct Lab {
    plan: Plan,
    hosts: Vec<Host>,
    /// One for each host, and one for the switch if there is one.
    holders: Vec<Holder>,
}

impl Lab {
    /// Makes the network. It can be used when this returns. Takes some tens of milliseconds for two hosts.
    pub fn up(plan: &Plan) -> Result<Self, LabError> {
        plan.check()?;
        let tools = Tools::find(plan.offloads)?;
        let holders = start_holders(plan, &tools)?;
        if let Some(name) = &plan.congestion_control
            && name != holders[0].congestion_control()
        {
            let allowed = fs::read_to_string(ALLOWED_CONGESTION_CONTROLS).unwrap_or_default();
            return Err(LabError::CongestionControl { name: name.clone(), allowed: allowed.trim().to_owned() });
        }
        let has_ipv6 = Path::new("/proc/sys/net/ipv6").exists();
        let host = |(index, holder): (usize, &Holder)| {
            Host::new(index, plan.links, holder.process(), has_ipv6, &tools.nsenter)
        };
        let hosts = holders.iter().take(plan.hosts).enumerate().map(host).collect();
        let lab = Self { plan: plan.clone(), hosts, holders };
        lab.build(&tools)?;
        Ok(lab)
    }

    /// What it was made from.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// TCP's congestion control in its hosts; empty where the kernel does not tell.
    pub fn congestion_control(&self) -> &str {
        self.holders[0].congestion_control()
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

    /// Whether nothing of it has ended, which would need somebody who kills its processes.
    pub fn is_whole(&self) -> bool {
        self.holders.iter().all(|holder| holder.process().is_alive())
    }

    /// Ends it: kills every program that still runs in it, and removes the network.
    pub fn down(mut self) -> Result<(), LabError> {
        self.holders.iter_mut().for_each(Holder::release);
        let ends: Vec<_> = self.holders.iter_mut().map(Holder::wait).collect();
        ends.into_iter().collect()
    }

    fn build(&self, tools: &Tools) -> Result<(), LabError> {
        let switch = self.plan.has_switch().then(|| self.holders[self.plan.hosts].process());
        let start = switch.unwrap_or(self.hosts[0].holder());
        self.batch(tools, start, &tools.ip, &network::cables(&self.plan, &self.hosts))?;
        if let Some(switch) = switch {
            self.set_up(tools, switch, &network::switch_interfaces(&self.plan))?;
        }
        for host in &self.hosts {
            self.batch(tools, host.holder(), &tools.ip, &network::addresses(host))?;
            self.set_up(tools, host.holder(), &network::host_interfaces(host))?;
        }
        Ok(())
    }

    /// Rate and offloads of what leaves through these interfaces of one namespace.
    fn set_up(&self, tools: &Tools, place: Process, interfaces: &[String]) -> Result<(), LabError> {
        if let Some(rate) = self.plan.rate {
            self.batch(tools, place, &tools.tc, &network::shaping(interfaces, rate, self.plan.mtu))?;
        }
        let Some(ethtool) = &tools.ethtool else { return Ok(()) };
        for interface in interfaces {
            let mut command = host::enter(&tools.nsenter, place, ethtool.as_os_str());
            command.args(["-K", interface]);
            OFFLOADS.iter().for_each(|offload| {
                command.args([*offload, "off"]);
            });
            tools::run(command, "")?;
        }
        Ok(())
    }

    fn batch(&self, tools: &Tools, place: Process, tool: &Path, lines: &str) -> Result<(), LabError> {
        let mut command = host::enter(&tools.nsenter, place, tool.as_os_str());
        command.args(["-batch", "-"].map(OsStr::new));
        tools::run(command, lines)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // All hear it before the first is waited for, which its own drop does.
        self.holders.iter_mut().for_each(Holder::release);
    }
}

fn start_holders(plan: &Plan, tools: &Tools) -> Result<Vec<Holder>, LabError> {
    let count = plan.hosts + usize::from(plan.has_switch());
    let first = Holder::start_first(plan, tools)?;
    let starting: Vec<_> = (1..count).map(|_| Holder::start_beside(&first, plan, tools)).collect::<Result<_, _>>()?;
    let mut holders = vec![first];
    for one in starting {
        holders.push(one.finish(false)?);
    }
    Ok(holders)
}
