//! Another machine that plays a side: where it is, and how connections to it go.

use std::net::TcpStream;
use std::str::FromStr;

use weft::verbs::{ParseAddressError, PeerAddress, Settings};
use weft_command::transport::Transport;

/// Tells the processes of this machine over which interfaces Edge goes: the other machine has its own.
pub(crate) const RAILS_VARIABLE: &str = "WEFT_PERF_RAILS";

/// The port when none is named.
const DEFAULT_PORT: u16 = 7471;

/// A host and a port: `192.0.2.1`, `192.0.2.1:7471`, `[2001:db8::1]:7471`, `2001:db8::1`, a name; or all that a
/// [`PeerAddress`] says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) host: String,
    pub(crate) port: u16,
    /// The raw link of this side.
    pub(crate) link: Option<String>,
    /// The interfaces of Edge's rails at this side.
    pub(crate) rails: Option<String>,
    /// What carries the connections, if it says.
    pub(crate) transport: Option<Transport>,
}

impl Target {
    pub(crate) fn connect(&self) -> Result<TcpStream, String> {
        TcpStream::connect((self.host.as_str(), self.port))
            .map_err(|error| format!("{} port {}: {error}; does weft perf --listen run there?", self.host, self.port))
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |error: ParseAddressError| format!("{text}: {error}");
        let address: PeerAddress = text.parse().map_err(wrong)?;
        address.settings(Settings::default()).map_err(wrong)?;
        let rails = text.split_once("rails=").filter(|_| address.rails.is_some()).map(|(_, rails)| rails.to_owned());
        let transport = address.transport.map(Transport::of);
        Ok(Self { host: address.host, port: address.port.unwrap_or(DEFAULT_PORT), rails, transport, link: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports() {
        let target = |text: &str| text.parse::<Target>().map(|target| (target.host, target.port));
        assert_eq!(target("192.0.2.1"), Ok(("192.0.2.1".into(), DEFAULT_PORT)));
        assert_eq!(target("node7:80"), Ok(("node7".into(), 80)));
        assert_eq!(target("2001:db8::1"), Ok(("2001:db8::1".into(), DEFAULT_PORT)));
        assert_eq!(target("[2001:db8::1]:80"), Ok(("2001:db8::1".into(), 80)));
        assert!(target("node7:http").is_err());
        assert!(target(":80").is_err());
    }
}
