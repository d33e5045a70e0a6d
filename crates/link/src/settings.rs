//! Which interface, and which addresses on it.

use core::fmt;
use core::str::FromStr;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::path::PathBuf;

use weft_driver::PortReservation;

/// Addresses of one link of its own, and of the host's.
const MOST_ADDRESSES: usize = 8;
const MOST_OF_HOST: usize = 32;
/// The name of the host's own addresses.
const HOST: &str = "host:";
/// The text before a gateway.
const VIA: &str = ",via=";

/// A raw link, and its addresses: as text, `eth0=10.0.0.9/24`, or `eth0=10.0.0.9/24,fd00::9/64` with several addresses.
/// `eth0=host:40000-40099` is there at the host's own addresses, with these ports alone. Behind either, `,via=10.0.0.1`
/// names a gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkSettings {
    /// The name of the interface.
    pub interface: String,
    /// Addresses that no other host has, nor the kernel: 1 to 8, of both kinds. With [`LinkSettings::ports`] those that
    /// the kernel has on the interface, and empty until [`LinkSettings::with_addresses_of_host`] has read them.
    pub addresses: Vec<LinkAddress>,
    /// Ports of the host's own addresses that are the link's: 1 to 256. All others stay the kernel's.
    pub ports: Option<PortRange>,
    /// Routers on the link by which all else is reached, at most one of each kind of IP, each in the network of one of
    /// the addresses: streams use them for hosts that neither a network of the link nor one of the host's has. Without
    /// one the link has no route there. Datagrams, which have no IP there, stay on the link.
    pub gateways: Vec<IpAddr>,
    /// Where a helper listens that opens the packet socket when this process has no right to: an absolute path, as text
    /// `eth0=10.0.0.9/24@/run/weft-eth0`.
    pub helper: Option<PathBuf>,
}

/// Ports from the first to the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    /// Not 0.
    pub first: u16,
    /// Not below the first.
    pub last: u16,
}

impl PortRange {
    /// Whether a port is one of them; 0, which means any, is too.
    pub(crate) fn may_have(self, port: u16) -> bool {
        port == 0 || (self.first..=self.last).contains(&port)
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

/// An address, and its network on the link.
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

    /// From which of the link's addresses a host beyond its networks is called, by the gateway of that kind.
    pub(crate) fn source_by_gateway(&self, remote: IpAddr) -> Option<IpAddr> {
        if self.reaches(remote) || self.has(remote) || !is_anywhere(remote) {
            return None;
        }
        let gateway = self.gateways.iter().find(|gateway| gateway.is_ipv4() == remote.is_ipv4())?;
        // An address that means something on this link alone is none to be called from.
        let mut known =
            self.addresses.iter().filter(|own| own.ip.is_ipv4() == remote.is_ipv4() && !is_of_a_link(own.ip));
        known.clone().find(|own| own.reaches(*gateway)).or_else(|| known.next()).map(|own| own.ip)
    }

    /// From which of the link's addresses a stream goes to this one, by a gateway or not.
    pub(crate) fn source_of_stream(&self, remote: IpAddr) -> Option<IpAddr> {
        self.source_to(remote).or_else(|| self.source_by_gateway(remote))
    }

    /// Whether an address is one of the link's own.
    #[must_use]
    pub fn has(&self, address: IpAddr) -> bool {
        self.addresses.iter().any(|own| own.ip == address)
    }

    /// The same, with the addresses that the host has on the interface now, if it is there by them.
    ///
    /// # Errors
    /// It has none.
    pub fn with_addresses_of_host(mut self) -> io::Result<Self> {
        if self.ports.is_none() {
            return Ok(self);
        }
        let addresses = weft_driver::interface_addresses(&self.interface);
        self.addresses =
            addresses.into_iter().map(|(ip, prefix)| LinkAddress { ip, prefix }).take(MOST_OF_HOST).collect();
        if self.addresses.is_empty() {
            let words =
                format!("the host has no address on {}: give it one, or the link one of its own", self.interface);
            return Err(io::Error::new(io::ErrorKind::AddrNotAvailable, words));
        }
        check_gateways(&self.addresses, &self.gateways)
            .map_err(|wrong| io::Error::other(format!("{self}: {wrong}")))?;
        Ok(self)
    }

    /// Whether a port at one of its addresses is the link's; 0, which means any, is.
    pub(crate) fn has_port(&self, port: u16) -> bool {
        self.ports.is_none_or(|ports| ports.may_have(port))
    }

    /// The first of its addresses: the link's address where one is wanted.
    #[must_use]
    pub fn first(&self) -> Option<IpAddr> {
        self.addresses.first().map(|own| own.ip)
    }

    /// The first of its addresses that means something elsewhere, too.
    pub(crate) fn first_known(&self) -> Option<LinkAddress> {
        self.addresses.iter().find(|own| !is_of_a_link(own.ip)).copied()
    }

    pub(crate) fn all_v6(&self) -> impl Iterator<Item = Ipv6Addr> + '_ {
        self.addresses.iter().filter_map(|own| if let IpAddr::V6(ip) = own.ip { Some(ip) } else { None })
    }
}

/// Whether an address is one of a host that may be anywhere.
fn is_anywhere(address: IpAddr) -> bool {
    let is_broadcast = matches!(address, IpAddr::V4(four) if four.is_broadcast() || four.is_link_local());
    !(is_of_a_link(address)
        || is_broadcast
        || address.is_loopback()
        || address.is_multicast()
        || address.is_unspecified())
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

/// An address as it is in packets.
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
        match self.ports {
            Some(ports) => write!(f, "{HOST}{ports}")?,
            None => {
                for (at, address) in self.addresses.iter().enumerate() {
                    write!(f, "{}{address}", if at > 0 { "," } else { "" })?;
                }
            }
        }
        self.gateways.iter().try_for_each(|gateway| write!(f, "{VIA}{gateway}"))?;
        self.helper.as_ref().map_or(Ok(()), |helper| write!(f, "@{}", helper.display()))
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
        f.write_str(
            "networks, as in eth0=10.0.0.9/24, eth0=fd00::9/64 or eth0=10.0.0.9/24,fd00::9/64, or ports of the ",
        )?;
        f.write_str(
            "host's own address, as in eth0=host:40000-40099; behind it perhaps a gateway, as in ,via=10.0.0.1, ",
        )?;
        f.write_str("and @/PATH, where a helper is")
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
    let interface = interface.to_owned();
    let (rest, helper) = match rest.split_once('@') {
        Some((rest, path)) if path.starts_with('/') => (rest, Some(PathBuf::from(path))),
        Some((_, path)) => return Err(format!("{path:?} is no path of a helper, which begins with /")),
        None => (rest, None),
    };
    let (rest, gateways) = parse_gateways(rest)?;
    if let Some(ports) = rest.strip_prefix(HOST) {
        let ports = Some(parse_ports(ports)?);
        return Ok(LinkSettings { interface, addresses: Vec::new(), ports, gateways, helper });
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
    check_gateways(&addresses, &gateways)?;
    Ok(LinkSettings { interface, addresses, ports: None, gateways, helper })
}

/// The text before gateways, and the gateways.
fn parse_gateways(text: &str) -> Result<(&str, Vec<IpAddr>), String> {
    let mut parts = text.split(VIA);
    let rest = parts.next().unwrap_or_default();
    let mut gateways: Vec<IpAddr> = Vec::new();
    for part in parts {
        let gateway: IpAddr = part.parse().map_err(|_| format!("{part:?} is no gateway's address"))?;
        if gateways.iter().any(|known| known.is_ipv4() == gateway.is_ipv4()) {
            return Err(format!("{gateway} is a second gateway of its kind"));
        }
        gateways.push(gateway);
    }
    Ok((rest, gateways))
}

/// A gateway is on the link, and calls by it come from an address that others know.
fn check_gateways(addresses: &[LinkAddress], gateways: &[IpAddr]) -> Result<(), String> {
    for gateway in gateways {
        if addresses.iter().any(|own| own.ip == *gateway) {
            return Err(format!("the gateway {gateway} is the link's own address"));
        }
        if !addresses.iter().any(|own| own.reaches(*gateway)) {
            return Err(format!("the gateway {gateway} is in none of its networks"));
        }
        if addresses.iter().all(|own| own.ip.is_ipv4() != gateway.is_ipv4() || is_of_a_link(own.ip)) {
            return Err(format!("a host beyond this link can't answer through the gateway {gateway}: add an address"));
        }
    }
    Ok(())
}

fn parse_ports(text: &str) -> Result<PortRange, String> {
    let (first, last) = text.split_once('-').ok_or_else(|| format!("{text:?} is not FIRST-LAST"))?;
    let port =
        |text: &str| text.parse().ok().filter(|port: &u16| *port > 0).ok_or_else(|| format!("{text:?} is no port"));
    let (first, last) = (port(first)?, port(last)?);
    if first > last {
        return Err(format!("port {first} is behind {last}"));
    }
    let count = usize::from(last - first) + 1;
    if count > PortReservation::MOST {
        return Err(format!("{count} ports are more than {}", PortReservation::MOST));
    }
    Ok(PortRange { first, last })
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
    fn by_a_gateway_all_are_called_who_may_be_anywhere() {
        let text = "rail0=10.0.0.77/24,fe80::77/64,fd00::77/64,via=10.0.0.1,via=fe80::1@/run/weft";
        let link: LinkSettings = text.parse().unwrap();
        assert_eq!(link.to_string(), text);
        let source = |remote: &str| link.source_of_stream(remote.parse().unwrap()).map(|own| own.to_string());
        for (remote, own) in [
            ("10.0.0.2", Some("10.0.0.77")),
            ("192.0.2.1", Some("10.0.0.77")),
            ("fe80::2", Some("fe80::77")),
            ("2001:db8::1", Some("fd00::77")),
            ("10.0.0.77", None),
            ("127.0.0.1", None),
            ("169.254.1.1", None),
            ("224.0.0.1", None),
            ("255.255.255.255", None),
            ("0.0.0.0", None),
            ("::1", None),
            ("ff02::1", None),
        ] {
            assert_eq!(source(remote).as_deref(), own, "{remote}");
        }
        assert_eq!(link.source_to("192.0.2.1".parse().unwrap()), None, "datagrams stay on the link");
        let one_kind: LinkSettings = "rail0=10.0.0.77/24,fd00::77/64,via=10.0.0.1".parse().unwrap();
        assert_eq!(one_kind.source_of_stream("2001:db8::1".parse().unwrap()), None);
        let host: LinkSettings = "lo=host:1-2,via=127.0.0.9".parse().unwrap();
        assert_eq!(host.to_string(), "lo=host:1-2,via=127.0.0.9");
        assert!(host.with_addresses_of_host().is_ok());
        let away: LinkSettings = "lo=host:1-2,via=192.0.2.1".parse().unwrap();
        let error = away.with_addresses_of_host().unwrap_err().to_string();
        assert!(error.contains("the gateway 192.0.2.1 is in none of its networks"), "{error}");
    }

    #[test]
    fn ports_of_the_host_s_address_are_text_too() {
        let link: LinkSettings = "lo=host:40000-40255".parse().unwrap();
        assert_eq!((link.to_string().as_str(), link.first()), ("lo=host:40000-40255", None));
        assert_eq!(
            [0, 39_999, 40_000, 40_255, 40_256].map(|port| link.has_port(port)),
            [true, false, true, true, false]
        );
        let found = link.with_addresses_of_host().unwrap();
        assert!(found.addresses.iter().any(|own| own.ip.is_loopback()), "{found:?}");
        let none: LinkSettings = "weft-none=host:1-2".parse().unwrap();
        let error = none.with_addresses_of_host().unwrap_err().to_string();
        assert!(error.contains("no address on weft-none"), "{error}");
        let helped = "lo=host:1-2@/run/weft@lo";
        let parsed: LinkSettings = helped.parse().unwrap();
        assert_eq!((parsed.to_string().as_str(), parsed.helper.unwrap().to_str()), (helped, Some("/run/weft@lo")));
        let usual: LinkSettings = "lo=10.0.0.1/24@/run/weft".parse().unwrap();
        assert_eq!(usual.clone().with_addresses_of_host().unwrap(), usual);
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
            ("eth0=10.0.0.9/24@run/weft", "\"run/weft\" is no path of a helper"),
            ("eth0=host:1-2@", "\"\" is no path of a helper"),
            ("eth0=host", "host has no /BITS"),
            ("eth0=host:", "\"\" is not FIRST-LAST"),
            ("eth0=host:40000", "\"40000\" is not FIRST-LAST"),
            ("eth0=host:0-9", "\"0\" is no port"),
            ("eth0=host:9-x", "\"x\" is no port"),
            ("eth0=host:9-70000", "\"70000\" is no port"),
            ("eth0=host:9-8", "port 9 is behind 8"),
            ("eth0=host:40000-40256", "257 ports are more than 256"),
            ("eth0=fd00::9/64,", "missing"),
            ("eth0=10.0.0.9/24,via=", "\"\" is no gateway's address"),
            ("eth0=10.0.0.9/24,via=10.0.0.1/24", "\"10.0.0.1/24\" is no gateway's address"),
            ("eth0=10.0.0.9/24,via=10.0.0.1,10.0.0.8/24", "is no gateway's address"),
            ("eth0=10.0.0.9/24,via=10.0.0.1,via=10.0.0.2", "10.0.0.2 is a second gateway of its kind"),
            ("eth0=10.0.0.9/24,via=10.0.0.9", "the gateway 10.0.0.9 is the link's own address"),
            ("eth0=10.0.0.9/24,via=10.0.1.1", "the gateway 10.0.1.1 is in none of its networks"),
            ("eth0=10.0.0.9/24,via=fe80::1", "the gateway fe80::1 is in none of its networks"),
            ("eth0=fe80::9/64,via=fe80::1", "a host beyond this link can't answer"),
            ("eth0=via=10.0.0.1", "via=10.0.0.1 has no /BITS"),
            ("eth0=fd00::9/64,10.0.0.9/24,fd00::9/48", "fd00::9 is there twice"),
        ] {
            let error = text.parse::<LinkSettings>().unwrap_err().to_string();
            assert!(error.contains("eth0=10.0.0.9/24,fd00::9/64") && error.contains("eth0=host:40000-40099"));
            assert!(error.contains(&format!("{text:?}")), "{error}");
            assert!(error.contains(wrong), "{text}: {error}");
        }
        let many: Vec<String> = (1..=9).map(|host| format!("10.0.0.{host}/24")).collect();
        let error = format!("eth0={}", many.join(",")).parse::<LinkSettings>().unwrap_err().to_string();
        assert!(error.contains("9 addresses are more than 8"), "{error}");
    }
}
