//! An address as a person writes it: `host`, `host:port`, or `edge://host:port?rails=eth0,eth1`.

use std::net::SocketAddr;
use std::str::FromStr;

use weft::verbs::{ParseAddressError, PeerAddress, Settings};

use crate::connection::StreamOptions;
use crate::failure::Failure;
use crate::transport::Transport;

/// Where to listen, or what to call, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target(PeerAddress);

impl Target {
    /// What the address says takes the place of what the options say.
    pub fn apply(&self, options: &mut StreamOptions) -> Result<(), Failure> {
        options.transport = self.0.transport.map_or(options.transport, Transport::of);
        if self.0.rails.is_some() {
            if !matches!(options.transport, Transport::Edge | Transport::ShmOrEdge | Transport::Auto) {
                let words = "rails are Edge's: write edge:// before the address, or say --transport edge";
                return Err(Failure::Usage(words.into()));
            }
            let settings = self.0.settings(Settings::default()).map_err(|error| Failure::Usage(error.to_string()))?;
            options.rails = Some(settings.rails);
        }
        Ok(())
    }

    /// The first address of the host.
    pub fn resolve(&self, usual_port: u16) -> Result<SocketAddr, Failure> {
        let unknown = |error| Failure::Runtime(format!("{}: no such address or host ({error})", self.0.host));
        self.0.resolve(usual_port).map_err(unknown)
    }
}

impl FromStr for Target {
    type Err = ParseAddressError;

    fn from_str(text: &str) -> Result<Self, ParseAddressError> {
        text.parse().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use weft::verbs::Rails;

    use super::*;

    #[test]
    fn rails_are_edges_and_interfaces_of_this_host() {
        let complaint = |text: &str| {
            let (target, mut options): (Target, _) = (text.parse().unwrap(), StreamOptions::usual());
            target.apply(&mut options).map(|()| options.rails).map_err(|failure| failure.to_string())
        };
        assert!(complaint("host?rails=lo").unwrap_err().contains("rails are Edge's"));
        assert!(complaint("edge://host?rails=lo,none-such").unwrap_err().contains("no interface \"none-such\""));
        assert_eq!(complaint("edge://host?rails=lo"), Ok(Some(Rails::named(["lo"]))));
        assert_eq!(complaint("host"), Ok(None));
    }
}
