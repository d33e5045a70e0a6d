//! By what the packets of a link are carried that does something to them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// By what the packets of a link are carried that does something to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Carrier {
    /// The kernel's packet queues (NFQUEUE), behind the routing decision of a router: packets of IP alone. The kernel
    /// keeps them, so super-packets pass whole where nothing is about single packets.
    #[default]
    Queue,
    /// Packet rings (TPACKET_V2) at interfaces of Ethernet: every frame, of whatever protocol, one by one.
    Rings,
}

impl fmt::Display for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Queue => "queue",
            Self::Rings => "rings",
        })
    }
}

impl FromStr for Carrier {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = [Self::Queue, Self::Rings].into_iter().find(|carrier| carrier.to_string() == text);
        found.ok_or_else(|| format!("{text:?} carries no packets; queue and rings do"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn carriers_are_read_and_written() {
        for carrier in [Carrier::Queue, Carrier::Rings] {
            assert_eq!(carrier.to_string().parse(), Ok(carrier));
        }
        assert!("pigeon".parse::<Carrier>().unwrap_err().contains("queue and rings do"));
    }
}
