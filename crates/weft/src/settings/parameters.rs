//! What the variables set.

use core::ops::RangeInclusive;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use weft_nic::offer::Transport;
use weft_nic::{EndpointAttributes, EndpointSettings, JobKey, Settings};

use super::interfaces::{InterfaceChoice, explain_none, reachable};

/// What the environment sets, and defaults for the rest.
#[derive(Clone, Debug)]
pub struct Parameters {
    /// Of a NIC, with the rails that the user names: [`Parameters::nic_settings`] has those that may be used.
    pub nic: Settings,
    /// Of endpoints.
    pub endpoint: EndpointSettings,
    /// The job's key, which all its processes have.
    pub key: Option<JobKey>,
    /// Which interfaces are used.
    pub interfaces: InterfaceChoice,
    /// The ports of endpoints whose port is left open. `None`: chosen by the system.
    pub ports: Option<RangeInclusive<u16>>,
}

impl Default for Parameters {
    /// Those of an empty environment.
    fn default() -> Self {
        let endpoint = EndpointSettings { transport: Transport::Auto, ..EndpointSettings::default() };
        let (nic, interfaces) = (Settings::default(), InterfaceChoice::default());
        Self { nic, endpoint, key: None, interfaces, ports: None }
    }
}

impl Parameters {
    /// The settings of a NIC on this machine as it is now: its rails are limited to the interfaces that the user
    /// permits.
    #[must_use]
    pub fn nic_settings(&self) -> Settings {
        Settings { rails: self.interfaces.rails(&self.nic.rails), ..self.nic.clone() }
    }

    /// The addresses of an endpoint that listens on all permitted interfaces, best first: those that other machines can
    /// reach, or the loopback's if there is none. Empty if none is permitted.
    #[must_use]
    pub fn addresses(&self) -> Vec<IpAddr> {
        reachable(&self.interfaces.usable())
    }

    /// The attributes of an endpoint that is reached at all permitted interfaces, on a free port.
    ///
    /// # Errors
    /// No interface is permitted: which there are, in words.
    pub fn endpoint_attributes(&self) -> Result<EndpointAttributes, String> {
        let paths = self.addresses();
        if paths.is_empty() {
            return Err(explain_none());
        }
        let any: IpAddr = match paths.iter().any(IpAddr::is_ipv6) {
            true => Ipv6Addr::UNSPECIFIED.into(),
            false => Ipv4Addr::UNSPECIFIED.into(),
        };
        let (settings, key) = (self.endpoint.clone(), self.key.clone());
        Ok(EndpointAttributes { bind: SocketAddr::new(any, 0), paths, settings, engine: None, key })
    }
}
