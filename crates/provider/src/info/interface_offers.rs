//! The addresses of infos: one for each interface, and one for all of them together.

use std::net::{IpAddr, SocketAddr, UdpSocket};

use weft::endpoint::{Address, MAX_ADDRESSES};
use weft_libfabric::abi::{FI_ADDR_STR, FI_FORMAT_UNSPEC, FI_SOCKADDR_IN, FI_SOCKADDR_IN6};

use super::hints::Wish;
use crate::addresses::{Format, OWN};
use crate::interfaces::{self, Interface};

/// Name of the fabric and the domain of all interfaces together.
pub(super) const ALL: &str = "weft";

/// The application's hints about addresses.
#[derive(Clone, Debug, Default)]
pub(super) struct Wanted {
    /// Their format.
    pub(super) format: Option<Wish>,
    /// Its own address. An unspecified IP address is any.
    pub(super) source: Option<Address>,
    /// The peer's: those that a name resolves to.
    pub(super) destination: Vec<Address>,
    pub(super) domain: Option<String>,
    pub(super) fabric: Option<String>,
}

/// Names and addresses of one info.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct InterfaceOffer {
    pub(super) domain: String,
    pub(super) fabric: String,
    /// `FI_SOCKADDR_IN` or the like.
    pub(super) format: u32,
    pub(super) source: Vec<u8>,
    pub(super) destination: Vec<u8>,
}

/// All infos for these hints, best first.
pub(super) fn interface_offers(wanted: &Wanted, machine: Vec<Interface>) -> Vec<InterfaceOffer> {
    let destination = wanted.destination.first().and_then(|address| address.paths.first());
    let near = destination.and_then(local_address);
    let machine = nearest_first(machine, near);
    let wide = wide(wanted, &machine);
    let each = machine.iter().filter_map(|interface| narrow(wanted, interface));
    let named = |interface_offer: &InterfaceOffer| {
        wanted.domain.as_ref().is_none_or(|name| *name == interface_offer.domain)
            && wanted.fabric.as_ref().is_none_or(|name| *name == interface_offer.fabric)
    };
    wide.into_iter().chain(each).filter(named).collect()
}

/// All interfaces together, if the format supports that. Hosts of one job must use one format, however many addresses
/// each has, so a host that others can reach has this info even for a single address; only as text it adds nothing to
/// the interface's own.
fn wide(wanted: &Wanted, machine: &[Interface]) -> Option<InterfaceOffer> {
    let (format, least) = match wanted.format {
        None if machine.iter().all(Interface::is_loopback) => return None,
        None => (Format::Packed, 1),
        Some(Wish(Format::Packed)) => (Format::Packed, 1),
        Some(Wish(Format::Text)) => (Format::Text, 2),
        Some(_) => return None,
    };
    let source = match &wanted.source {
        Some(address) if address.paths.len() > 1 => address.clone(),
        Some(address) if format == Format::Packed && wanted.format.is_some() && !is_any(address) => address.clone(),
        Some(address) if !is_any(address) => return None,
        other => {
            let port = other.as_ref().and_then(|address| address.paths.first()).map_or(0, SocketAddr::port);
            let paths = interfaces::reachable(machine).into_iter().take(MAX_ADDRESSES);
            Address { id: 0, paths: paths.map(|ip| SocketAddr::new(ip, port)).collect(), transport: None }
        }
    };
    if source.paths.len() < least {
        return None;
    }
    let number = if format == Format::Packed { OWN } else { FI_ADDR_STR };
    let destination = match wanted.destination.first() {
        Some(address) => format.bytes(address)?,
        None => Vec::new(),
    };
    Some(InterfaceOffer {
        domain: ALL.into(),
        fabric: ALL.into(),
        format: number,
        source: format.bytes(&source)?,
        destination,
    })
}

impl InterfaceOffer {
    /// For an info without an interface.
    pub(super) fn nowhere() -> Self {
        let name = || ALL.to_owned();
        Self { domain: name(), fabric: name(), format: FI_FORMAT_UNSPEC, source: Vec::new(), destination: Vec::new() }
    }
}

/// One address of one interface, if it is permitted.
fn narrow(wanted: &Wanted, interface: &Interface) -> Option<InterfaceOffer> {
    let mut own = interface.address;
    if let Some(source) = &wanted.source {
        let [path] = source.paths.as_slice() else { return None };
        if !path.ip().is_unspecified() && !is_at(path.ip(), interface) {
            return None;
        }
        if !path.ip().is_unspecified() {
            own.set_ip(path.ip());
        }
        own.set_port(path.port());
    }
    let format = match wanted.format {
        None => {
            if own.is_ipv4() {
                Format::Ip4
            } else {
                Format::Ip6
            }
        }
        Some(Wish(Format::Packed)) => return None,
        Some(Wish(format)) => format,
    };
    if !format.takes(&own) {
        return None;
    }
    let peer = |address: &&Address| address.paths.iter().any(|path| path.is_ipv4() == own.is_ipv4());
    let destination = match (wanted.destination.is_empty(), wanted.destination.iter().find(peer)) {
        (true, _) => Vec::new(),
        (false, Some(address)) => format.bytes(address)?,
        (false, None) => return None,
    };
    Some(InterfaceOffer {
        domain: interface.name.clone(),
        fabric: interface.network(),
        format: match format {
            Format::Text => FI_ADDR_STR,
            _ if own.is_ipv4() => FI_SOCKADDR_IN,
            _ => FI_SOCKADDR_IN6,
        },
        source: format.bytes(&Address::from(own))?,
        destination,
    })
}

/// Whether an address belongs to this interface. The loopback's whole network does.
fn is_at(ip: IpAddr, interface: &Interface) -> bool {
    let own = interface.address.ip();
    own == ip || (own.is_loopback() && ip.is_loopback() && own.is_ipv4() == ip.is_ipv4())
}

fn is_any(address: &Address) -> bool {
    address.paths.iter().all(|path| path.ip().is_unspecified())
}

/// The interface with this address, and then the others.
fn nearest_first(mut machine: Vec<Interface>, near: Option<IpAddr>) -> Vec<Interface> {
    machine.sort_by_key(|interface| Some(interface.address.ip()) != near);
    machine
}

/// The local address of packets to a peer, by the routing table; sends nothing.
fn local_address(peer: &SocketAddr) -> Option<IpAddr> {
    let any: IpAddr = if peer.is_ipv4() { [0, 0, 0, 0].into() } else { [0u16; 8].into() };
    let socket = UdpSocket::bind(SocketAddr::new(any, 0)).ok()?;
    let port = if peer.port() == 0 { 9 } else { peer.port() };
    socket.connect(SocketAddr::new(peer.ip(), port)).ok()?;
    socket.local_addr().ok().map(|local| local.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(name: &str, address: &str, prefix: u8) -> Interface {
        Interface {
            name: name.into(),
            address: SocketAddr::new(address.parse().unwrap(), 0),
            prefix,
            default_route: false,
        }
    }

    fn machine() -> Vec<Interface> {
        vec![interface("eth0", "192.0.2.5", 24), interface("eth0", "2001:db8::5", 64), interface("lo", "127.0.0.1", 8)]
    }

    fn address(path: &str) -> Address {
        Address::from(path.parse::<SocketAddr>().unwrap())
    }

    fn show(wanted: &Wanted) -> Vec<String> {
        interface_offers(wanted, machine())
            .iter()
            .map(|interface_offer| {
                let format = Format::from_number(interface_offer.format).unwrap();
                // SAFETY: These are the bytes of an address in this format.
                let source = unsafe { format.read(interface_offer.source.as_ptr().cast()) }.unwrap();
                format!("{} {} {source}", interface_offer.domain, interface_offer.fabric)
            })
            .collect()
    }

    #[test]
    fn one_for_all_and_one_for_each() {
        assert_eq!(
            show(&Wanted::default()),
            [
                "weft weft 192.0.2.5:0,[2001:db8::5]:0",
                "eth0 192.0.2.0/24 192.0.2.5:0",
                "eth0 2001:db8::/64 [2001:db8::5]:0",
                "lo 127.0.0.0/8 127.0.0.1:0",
            ]
        );
    }

    #[test]
    fn a_host_with_one_address_and_a_host_with_two_write_them_in_one_way() {
        let one = vec![interface("eth0", "192.0.2.5", 24), interface("lo", "127.0.0.1", 8)];
        let one = interface_offers(&Wanted::default(), one);
        let formats: Vec<_> = one.iter().map(|interface_offer| interface_offer.format).collect();
        assert_eq!(formats, [OWN, FI_SOCKADDR_IN, FI_SOCKADDR_IN]);
        let two = interface_offers(&Wanted::default(), machine());
        assert_eq!((one[0].format, &one[0].domain), (two[0].format, &two[0].domain));
    }

    #[test]
    fn the_loopback_alone_has_an_address() {
        let interface_offers =
            interface_offers(&Wanted::default(), vec![interface("lo", "127.0.0.1", 8), interface("lo", "::1", 128)]);
        assert_eq!(interface_offers.len(), 2);
        assert_eq!((interface_offers[0].domain.as_str(), interface_offers[0].source.len()), ("lo", 16));
    }

    #[test]
    fn a_source_address_is_that_interface() {
        let wanted = Wanted { source: Some(address("192.0.2.5:7")), ..Wanted::default() };
        assert_eq!(show(&wanted), ["eth0 192.0.2.0/24 192.0.2.5:7"]);
        let wanted = Wanted { source: Some(address("127.0.0.9:7")), ..Wanted::default() };
        assert_eq!(show(&wanted), ["lo 127.0.0.0/8 127.0.0.9:7"]);
        let wanted = Wanted { source: Some(address("198.51.100.1:7")), ..Wanted::default() };
        assert_eq!(show(&wanted), [""; 0]);
        let wanted = Wanted { source: Some(address("0.0.0.0:7")), ..Wanted::default() };
        assert_eq!(show(&wanted)[0], "weft weft 192.0.2.5:7,[2001:db8::5]:7");
        assert_eq!(show(&wanted)[1], "eth0 192.0.2.0/24 192.0.2.5:7");
    }

    #[test]
    fn a_format_leaves_what_it_can_write() {
        let format = |format| Wanted { format: Some(Wish(format)), ..Wanted::default() };
        assert_eq!(show(&format(Format::Ip4)), ["eth0 192.0.2.0/24 192.0.2.5:0", "lo 127.0.0.0/8 127.0.0.1:0"]);
        assert_eq!(show(&format(Format::Ip6)), ["eth0 2001:db8::/64 [2001:db8::5]:0"]);
        assert_eq!(show(&format(Format::Ip)).len(), 3);
        assert_eq!(show(&format(Format::Packed)), ["weft weft 192.0.2.5:0,[2001:db8::5]:0"]);
        assert_eq!(show(&format(Format::Text)).len(), 4);
    }

    #[test]
    fn an_info_that_comes_back_as_hints_is_found_again() {
        let first = &interface_offers(&Wanted::default(), machine())[0];
        // SAFETY: These are the bytes of an address in this format.
        let source = unsafe { Format::Packed.read(first.source.as_ptr().cast()) }.unwrap();
        let wanted = Wanted {
            format: Some(Wish(Format::Packed)),
            source: Some(source),
            domain: Some(first.domain.clone()),
            fabric: Some(first.fabric.clone()),
            ..Wanted::default()
        };
        assert_eq!(interface_offers(&wanted, machine()), std::slice::from_ref(first));
    }

    #[test]
    fn a_destination_is_of_the_family() {
        let wanted = Wanted { destination: vec![address("127.0.0.1:9")], ..Wanted::default() };
        let all = interface_offers(&wanted, machine());
        let domains: Vec<_> = all.iter().map(|interface_offer| interface_offer.domain.as_str()).collect();
        assert_eq!(domains, ["weft", "lo", "eth0"]);
        assert!(all.iter().all(|interface_offer| !interface_offer.destination.is_empty()));
    }

    #[test]
    fn names_choose() {
        let wanted = Wanted { domain: Some("lo".into()), ..Wanted::default() };
        assert_eq!(show(&wanted), ["lo 127.0.0.0/8 127.0.0.1:0"]);
        let wanted = Wanted { fabric: Some("192.0.2.0/24".into()), ..Wanted::default() };
        assert_eq!(show(&wanted), ["eth0 192.0.2.0/24 192.0.2.5:0"]);
    }
}
