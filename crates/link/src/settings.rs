//! Which interface, and which address on it.

use core::fmt;
use core::str::FromStr;
use std::net::{IpAddr, Ipv4Addr};

/// A raw link, and who is there: as text, `eth0=10.0.0.9/24`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkSettings {
    /// The name of the interface.
    pub interface: String,
    /// An address that nobody else has, the kernel included.
    pub address: Ipv4Addr,
    /// Bits of it that are the network's, 1 to 30: those whose addresses begin alike are reached by this link.
    pub prefix: u8,
}

impl LinkSettings {
    /// Whether an address is on this link, and not this one.
    #[must_use]
    pub fn reaches(&self, address: IpAddr) -> bool {
        let IpAddr::V4(other) = address else { return false };
        let mask = u32::MAX << (32 - u32::from(self.prefix.clamp(1, 30)));
        other != self.address && (self.address.to_bits() ^ other.to_bits()) & mask == 0
    }
}

impl fmt::Display for LinkSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}/{}", self.interface, self.address, self.prefix)
    }
}

/// A text that names no link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseLinkError(String);

impl fmt::Display for ParseLinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is no link: name an interface, a free address on it, and the bits of its network (1 to 30), ",
            self.0
        )?;
        f.write_str("as in eth0=10.0.0.9/24")
    }
}

impl std::error::Error for ParseLinkError {}

impl FromStr for LinkSettings {
    type Err = ParseLinkError;

    fn from_str(text: &str) -> Result<Self, ParseLinkError> {
        let parse = || {
            let (interface, rest) = text.split_once('=')?;
            let (address, prefix) = rest.split_once('/')?;
            let prefix = prefix.parse().ok().filter(|prefix| (1..=30).contains(prefix))?;
            let address: Ipv4Addr = address.parse().ok()?;
            let is_usable = !interface.is_empty() && !address.is_multicast() && !address.is_unspecified();
            is_usable.then(|| Self { interface: interface.to_owned(), address, prefix })
        };
        parse().ok_or_else(|| ParseLinkError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_text_and_reaches_its_network() {
        let link: LinkSettings = "rail0=10.0.0.77/24".parse().unwrap();
        assert_eq!(link.to_string(), "rail0=10.0.0.77/24");
        let reaches = |text: &str| link.reaches(text.parse().unwrap());
        assert_eq!(
            ["10.0.0.1", "10.0.0.77", "10.0.1.1", "::1", "10.0.0.254"].map(reaches),
            [true, false, false, false, true]
        );
    }

    #[test]
    fn what_is_no_link_says_what_one_is() {
        for text in ["", "eth0", "eth0=10.0.0.9", "=10.0.0.9/24", "eth0=10.0.0.9/31", "eth0=::1/24", "eth0=224.0.0.1/8"]
        {
            let error = text.parse::<LinkSettings>().unwrap_err().to_string();
            assert!(error.contains("eth0=10.0.0.9/24") && error.contains(&format!("{text:?}")), "{error}");
        }
    }
}
