//! Which interface, and which addresses on it.

use core::fmt;
use core::str::FromStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// Addresses of one link.
const MOST_ADDRESSES: usize = 8;

/// A raw link, and who is there: as text, `eth0=10.0.0.9/24`, or `eth0=10.0.0.9/24,fd00::9/64` with several addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkSettings {
    /// The name of the interface.
    pub interface: String,
    /// Addresses that nobody else has, the kernel included: 1 to 8, of both kinds.
    pub addresses: Vec<LinkAddress>,
}

/// An address, and who is on the link with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkAddress {
    /// The address.
    pub ip: IpAddr,
    /// Bits of it that are the network's, 1 to 30 of IPv4 and 1 to 127 of IPv6: those whose addresses begin alike are
    /// reached by this link.
    pub prefix: u8,
}

impl LinkAddress {
    /// Whether an address is on this link, and not this one.
    #[must_use]
    pub fn reaches(&self, other: IpAddr) -> bool {
        let (own, other, width) = match (self.ip, other) {
            (IpAddr::V4(own), IpAddr::V4(other)) => (own.to_bits().into(), other.to_bits().into(), 32),
            (IpAddr::V6(own), IpAddr::V6(other)) => (own.to_bits(), other.to_bits(), 128),
            _ => return false,
        };
        let differ: u128 = own ^ other;
        differ != 0 && differ.checked_shr(width - u32::from(self.prefix).min(width)).unwrap_or(0) == 0
    }
}

impl fmt::Display for LinkAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.ip, self.prefix)
    }
}

impl LinkSettings {
    /// Whether an address is on this link, and none of its own.
    #[must_use]
    pub fn reaches(&self, address: IpAddr) -> bool {
        self.source_to(address).is_some()
    }

    /// From which of the link's addresses a neighbour is called.
    #[must_use]
    pub fn source_to(&self, neighbour: IpAddr) -> Option<IpAddr> {
        if self.has(neighbour) {
            return None;
        }
        self.addresses.iter().find(|own| own.reaches(neighbour)).map(|own| own.ip)
    }

    /// Whether an address is one of the link's own.
    #[must_use]
    pub fn has(&self, address: IpAddr) -> bool {
        self.addresses.iter().any(|own| own.ip == address)
    }

    /// The first of its addresses: what stands for the link where one is wanted.
    #[must_use]
    pub fn first(&self) -> Option<IpAddr> {
        self.addresses.first().map(|own| own.ip)
    }

    /// The first of its addresses of IPv4, which datagrams go by.
    pub(crate) fn first_v4(&self) -> Option<(Ipv4Addr, LinkAddress)> {
        self.addresses.iter().find_map(|own| if let IpAddr::V4(ip) = own.ip { Some((ip, *own)) } else { None })
    }

    pub(crate) fn all_v6(&self) -> impl Iterator<Item = Ipv6Addr> + '_ {
        self.addresses.iter().filter_map(|own| if let IpAddr::V6(ip) = own.ip { Some(ip) } else { None })
    }
}

/// Whether an address means something on one link alone.
fn is_of_a_link(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(ip) if ip.is_unicast_link_local())
}

/// An address of this interface as others write it: of one that means something on this link alone, with the number of
/// the interface (RFC 4007).
pub(crate) fn with_scope(address: SocketAddr, interface: u32) -> SocketAddr {
    match address {
        SocketAddr::V6(six) if is_of_a_link(address.ip()) => {
            SocketAddrV6::new(*six.ip(), six.port(), 0, interface).into()
        }
        _ => without_scope(address),
    }
}

/// An address as it stands in packets.
pub(crate) const fn without_scope(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip(), address.port())
}

/// Whether an address can be on this interface: one that means something on one link alone says on which, or doesn't
/// say.
pub(crate) fn is_in_scope(address: SocketAddr, interface: u32) -> bool {
    match address {
        SocketAddr::V6(six) if is_of_a_link(address.ip()) => [0, interface].contains(&six.scope_id()),
        _ => true,
    }
}

impl fmt::Display for LinkSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}=", self.interface)?;
        for (at, address) in self.addresses.iter().enumerate() {
            write!(f, "{}{address}", if at > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}

/// A text that names no link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseLinkError {
    text: String,
    wrong: String,
}

impl fmt::Display for ParseLinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { text, wrong } = self;
        write!(f, "{text:?} is no link: {wrong}; name an interface, and free addresses on it with the bits of their ")?;
        f.write_str("networks, as in eth0=10.0.0.9/24, eth0=fd00::9/64 or eth0=10.0.0.9/24,fd00::9/64")
    }
}

impl std::error::Error for ParseLinkError {}

impl FromStr for LinkSettings {
    type Err = ParseLinkError;

    fn from_str(text: &str) -> Result<Self, ParseLinkError> {
        parse(text).map_err(|wrong| ParseLinkError { text: text.to_owned(), wrong })
    }
}

fn parse(text: &str) -> Result<LinkSettings, String> {
    let (interface, rest) = text.split_once('=').ok_or("there is no = behind the interface")?;
    if interface.is_empty() {
        return Err("there is no interface before the =".into());
    }
    let mut addresses: Vec<LinkAddress> = Vec::new();
    for part in rest.split(',') {
        let address = parse_address(part)?;
        if addresses.iter().any(|known| known.ip == address.ip) {
            return Err(format!("{} is there twice", address.ip));
        }
        addresses.push(address);
    }
    if addresses.len() > MOST_ADDRESSES {
        return Err(format!("{} addresses are more than {MOST_ADDRESSES}", addresses.len()));
    }
    Ok(LinkSettings { interface: interface.to_owned(), addresses })
}

fn parse_address(text: &str) -> Result<LinkAddress, String> {
    if text.is_empty() {
        return Err("an address is missing".into());
    }
    let (address, bits) = text.split_once('/').ok_or_else(|| format!("{text} has no /BITS"))?;
    if let Some((bare, _)) = address.split_once('%') {
        return Err(format!("the interface is said already, so {address} is to be written {bare}"));
    }
    let ip: IpAddr = address.parse().map_err(|_| format!("{address:?} is no address"))?;
    let most = if ip.is_ipv4() { 30 } else { 127 };
    let prefix = bits.parse().ok().filter(|bits| (1..=most).contains(bits));
    let prefix = prefix.ok_or_else(|| format!("{bits:?} bits are none of 1 to {most}"))?;
    let is_mapped = matches!(ip, IpAddr::V6(six) if six.to_ipv4_mapped().is_some());
    let is_broadcast = matches!(ip, IpAddr::V4(four) if four.is_broadcast());
    if ip.is_multicast() || ip.is_unspecified() || ip.is_loopback() || is_mapped || is_broadcast {
        return Err(format!("{ip} is not an address that one host on a link can have"));
    }
    Ok(LinkAddress { ip, prefix })
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
    fn a_link_of_both_kinds_calls_each_neighbour_from_an_address_of_its_network() {
        let text = "rail0=10.0.0.77/24,fd00::77/64,fe80::77/64,fd00:1::77/127";
        let link: LinkSettings = text.parse().unwrap();
        assert_eq!(link.to_string(), text);
        for (neighbour, source) in [
            ("10.0.0.1", Some("10.0.0.77")),
            ("fd00::1", Some("fd00::77")),
            ("fd00::77", None),
            ("fe80::77", None),
            ("fe80::1", Some("fe80::77")),
            ("fd00:0:0:1::1", None),
            ("fd00:1::76", Some("fd00:1::77")),
            ("fd00:1::75", None),
        ] {
            let source = source.map(|source| source.parse().unwrap());
            assert_eq!(link.source_to(neighbour.parse().unwrap()), source, "{neighbour}");
        }
        assert_eq!((link.first(), link.all_v6().count()), (Some([10, 0, 0, 77].into()), 3));
    }

    #[test]
    fn what_is_of_one_link_has_the_number_of_its_interface() {
        let parse = |text: &str| text.parse::<SocketAddr>().unwrap();
        let (near, far) = (parse("[fe80::1%7]:5"), parse("[fd00::1%7]:5"));
        assert!(is_in_scope(near, 7) && is_in_scope(parse("[fe80::1]:5"), 7) && !is_in_scope(near, 8));
        assert!(is_in_scope(far, 8) && is_in_scope(parse("10.0.0.1:5"), 8));
        assert_eq!(without_scope(near), parse("[fe80::1]:5"));
        assert_eq!([near, far].map(|one| with_scope(one, 9)), [parse("[fe80::1%9]:5"), parse("[fd00::1]:5")]);
        assert_eq!(with_scope(parse("10.0.0.1:5"), 9), parse("10.0.0.1:5"));
    }

    #[test]
    fn what_is_no_link_says_what_is_wrong_and_what_one_is() {
        for (text, wrong) in [
            ("", "no ="),
            ("eth0", "no ="),
            ("eth0=", "missing"),
            ("eth0=10.0.0.9", "10.0.0.9 has no /BITS"),
            ("=10.0.0.9/24", "no interface"),
            ("eth0=10.0.0.9/31", "\"31\" bits are none of 1 to 30"),
            ("eth0=fd00::9/128", "\"128\" bits are none of 1 to 127"),
            ("eth0=fd00::9/0", "\"0\" bits"),
            ("eth0=fd00::9/x", "\"x\" bits"),
            ("eth0=fd00:::9/64", "\"fd00:::9\" is no address"),
            ("eth0=::1/24", "not an address"),
            ("eth0=ff02::1/64", "not an address"),
            ("eth0=::ffff:10.0.0.1/64", "not an address"),
            ("eth0=224.0.0.1/8", "not an address"),
            ("eth0=255.255.255.255/8", "not an address"),
            ("eth0=fe80::9%eth0/64", "to be written fe80::9"),
            ("eth0=fd00::9/64,", "missing"),
            ("eth0=fd00::9/64,10.0.0.9/24,fd00::9/48", "fd00::9 is there twice"),
        ] {
            let error = text.parse::<LinkSettings>().unwrap_err().to_string();
            assert!(error.contains("eth0=10.0.0.9/24,fd00::9/64") && error.contains(&format!("{text:?}")), "{error}");
            assert!(error.contains(wrong), "{text}: {error}");
        }
        let many: Vec<String> = (1..=9).map(|host| format!("10.0.0.{host}/24")).collect();
        let error = format!("eth0={}", many.join(",")).parse::<LinkSettings>().unwrap_err().to_string();
        assert!(error.contains("9 addresses are more than 8"), "{error}");
    }
}
