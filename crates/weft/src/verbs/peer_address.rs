//! Addresses as people write them.

use core::fmt;
use core::str::FromStr;
use std::io;
use std::net::{Ipv6Addr, SocketAddr, ToSocketAddrs};

use weft_driver::interface_names;
use weft_nic::{NamedRails, ParseRailsError, Rails, Settings, Transport};

/// The names of transports, as schemes.
const SCHEMES: [(&str, Transport); 6] = [
    ("iwarp", Transport::Iwarp),
    ("edge", Transport::Edge),
    ("shm", Transport::SharedMemory),
    ("shm+iwarp", Transport::SharedMemoryOrIwarp),
    ("shm+edge", Transport::SharedMemoryOrEdge),
    ("auto", Transport::Auto),
];

/// Where a peer is, what carries the connection, and over which interfaces of this host it goes:
/// `edge://192.0.2.1:7470?rails=eth0,eth1`.
///
/// Before `://` comes `iwarp`, `edge`, `shm`, `shm+iwarp`, `shm+edge` or `auto` ([`Transport`]); behind it a name or an
/// address, those of IPv6 in brackets if a port follows; `rails` is what [`Rails`] reads (`eth0*4`: four flows over
/// it), for `edge`, `shm+edge` and `auto`. All but the host may be missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerAddress {
    /// What carries the connection, if the address says.
    pub transport: Option<Transport>,
    /// A name or an address, without brackets.
    pub host: String,
    /// The port, if the address says.
    pub port: Option<u16>,
    /// The interfaces that its rails leave by, if the address says.
    pub rails: Option<Rails>,
}

impl PeerAddress {
    /// The first address of the host; `port` where there is none in it.
    ///
    /// # Errors
    /// There is no such host, or no resolver to ask.
    pub fn resolve(&self, port: u16) -> io::Result<SocketAddr> {
        let mut found = (self.host.as_str(), self.port.unwrap_or(port)).to_socket_addrs()?;
        found.next().ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the name has no address"))
    }

    /// The settings with the rails of this address.
    ///
    /// # Errors
    /// An interface of which this host has none: the words say which there are.
    pub fn settings(&self, settings: Settings) -> Result<Settings, ParseAddressError> {
        let Some(rails) = &self.rails else { return Ok(settings) };
        let there = interface_names();
        let unknown = |one: &&NamedRails| !there.is_empty() && !there.contains(&one.interface);
        if let Rails::Named(named) = rails
            && let Some(one) = named.iter().find(unknown)
        {
            return Err(ParseAddressError::Interface { name: one.interface.clone(), there });
        }
        Ok(Settings { rails: rails.clone(), ..settings })
    }
}

impl FromStr for PeerAddress {
    type Err = ParseAddressError;

    fn from_str(text: &str) -> Result<Self, ParseAddressError> {
        let (transport, rest) = match text.split_once("://") {
            Some((scheme, rest)) => (Some(transport(scheme)?), rest),
            None => (None, text),
        };
        let (place, query) = rest.split_once('?').map_or((rest, None), |(place, query)| (place, Some(query)));
        let (host, port) = host_and_port(place)?;
        let mut rails = None;
        for pair in query.iter().flat_map(|query| query.split('&')) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            if key != "rails" {
                return Err(ParseAddressError::Key(key.to_owned()));
            }
            rails = Some(value.parse().map_err(ParseAddressError::Rails)?);
        }
        if rails.is_some()
            && !matches!(transport, None | Some(Transport::Edge | Transport::SharedMemoryOrEdge | Transport::Auto))
        {
            return Err(ParseAddressError::NoRails(text.to_owned()));
        }
        Ok(Self { transport, host: host.to_owned(), port, rails })
    }
}

fn transport(scheme: &str) -> Result<Transport, ParseAddressError> {
    let known = SCHEMES.iter().find(|(name, _)| *name == scheme);
    known.map(|(_, transport)| *transport).ok_or_else(|| ParseAddressError::Scheme(scheme.to_owned()))
}

fn host_and_port(place: &str) -> Result<(&str, Option<u16>), ParseAddressError> {
    let (host, port) = match place.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, "")) => (host, None),
        Some((host, rest)) => (host, Some(rest.strip_prefix(':').unwrap_or(rest))),
        // An address of IPv6 has several colons, and behind a % perhaps the interface of which it is (RFC 4007).
        None if place.split('%').next().is_some_and(|bare| bare.parse::<Ipv6Addr>().is_ok()) => (place, None),
        None => place.split_once(':').map_or((place, None), |(host, port)| (host, Some(port))),
    };
    if host.is_empty() {
        return Err(ParseAddressError::Host(place.to_owned()));
    }
    let number = |port: &str| port.parse().map_err(|_| ParseAddressError::Port(port.to_owned()));
    Ok((host, port.map(number).transpose()?))
}

/// Why a text is no address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParseAddressError {
    /// The part before `://` is no transport.
    Scheme(String),
    /// There is no host in it.
    Host(String),
    /// No number from 0 to 65535.
    Port(String),
    /// Something other than `rails` behind the question mark.
    Key(String),
    /// The rails can't be read.
    Rails(ParseRailsError),
    /// Rails are for `edge://` and `auto://`.
    NoRails(String),
    /// This host has no such interface.
    Interface {
        /// The name.
        name: String,
        /// Those that there are.
        there: Vec<String>,
    },
}

impl fmt::Display for ParseAddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scheme(scheme) => {
                let names = SCHEMES.map(|(name, _)| format!("{name}://")).join(", ");
                write!(f, "there is no {scheme}://; an address begins with one of {names}, or with the host")
            }
            Self::Host(place) => write!(f, "{place:?} names no host"),
            Self::Port(port) => write!(f, "{port:?} is no port: write a number from 0 to 65535"),
            Self::Key(key) => write!(f, "there is nothing to say of {key:?}; behind the ? there may be rails=..."),
            Self::Rails(error) => error.fmt(f),
            Self::NoRails(text) => write!(f, "{text:?} has rails, which are for edge:// and auto:// alone"),
            Self::Interface { name, there } => {
                write!(f, "this host has no interface {name:?}; it has {}", there.join(", "))
            }
        }
    }
}

impl std::error::Error for ParseAddressError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<PeerAddress, ParseAddressError> {
        text.parse()
    }

    #[test]
    fn addresses_are_read() {
        let whole = parse("edge://192.0.2.1:7470?rails=eth0,eth1").unwrap();
        let rails = Some(Rails::named(["eth0", "eth1"]));
        let host = "192.0.2.1".into();
        assert_eq!(whole, PeerAddress { transport: Some(Transport::Edge), host, port: Some(7470), rails });
        for (text, host, port) in [
            ("host", "host", None),
            ("host:1", "host", Some(1)),
            ("shm://::1", "::1", None),
            ("[::1]", "::1", None),
            ("fe80::1%eth0", "fe80::1%eth0", None),
            ("[fe80::1%eth0]:7", "fe80::1%eth0", Some(7)),
            ("auto://[fd77::2]:65535?rails=one", "fd77::2", Some(65_535)),
        ] {
            let address = parse(text).unwrap();
            assert_eq!((&address.host[..], address.port), (host, port), "{text}");
        }
    }

    #[test]
    fn each_fault_is_named() {
        for (text, words) in [
            (
                "rdma://a",
                "there is no rdma://; an address begins with one of iwarp://, edge://, shm://, shm+iwarp://, ",
            ),
            ("edge://", "\"\" names no host"),
            ("edge://:80", "\":80\" names no host"),
            ("a:70000", "\"70000\" is no port"),
            ("a:b:c", "\"b:c\" is no port"),
            ("[::1]80x", "\"80x\" is no port"),
            ("edge://a?rail=eth0", "nothing to say of \"rail\""),
            ("edge://a?rails=", "names no interface"),
            ("edge://a?rails=x,,y", "names no interface"),
            ("iwarp://a?rails=eth0", "rails, which are for edge://"),
            ("shm://a?rails=eth0", "rails, which are for edge://"),
            ("shm+iwarp://a?rails=eth0", "rails, which are for edge://"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn interfaces_must_be_there() {
        let settings = |text: &str| parse(text).unwrap().settings(Settings::default());
        assert_eq!(settings("edge://a?rails=lo").unwrap().rails, Rails::named(["lo"]));
        assert_eq!(settings("edge://a").unwrap().rails, Rails::ALL);
        let error = settings("edge://a?rails=lo,nowhere7").unwrap_err().to_string();
        assert!(
            error.starts_with("this host has no interface \"nowhere7\"; it has ") && error.contains("lo"),
            "{error}"
        );
    }

    #[test]
    fn a_number_needs_nobody_to_ask() {
        assert_eq!(parse("edge://[::1]").unwrap().resolve(5).unwrap(), "[::1]:5".parse().unwrap());
        assert_eq!(parse("127.0.0.1:9").unwrap().resolve(5).unwrap(), "127.0.0.1:9".parse().unwrap());
    }
}
