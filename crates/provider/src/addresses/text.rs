//! Addresses as text: `FI_ADDR_STR` of `fi_getinfo(3)`, with Weft's additions after a question mark.

use core::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};

use weft::endpoint::{Address, MAX_ADDRESSES};
use weft::verbs::Transport;

const FOUR: &str = "fi_sockaddr_in://";
const SIX: &str = "fi_sockaddr_in6://";
const ANY: &str = "fi_sockaddr://";

/// The text of an address: the first path as libfabric writes it, then, if there are more, the others' addresses
/// (`also`), the endpoint's id (`id`, hexadecimal) and transport (`by`). `None` without a path.
pub(crate) fn write(address: &Address) -> Option<String> {
    let (first, others) = address.paths.split_first()?;
    let mut text = format!("{}{first}", if first.is_ipv4() { FOUR } else { SIX });
    let mut mark = '?';
    for (number, other) in others.iter().enumerate() {
        let before = if number == 0 { "?also=" } else { "," };
        let _ = write!(text, "{before}{}", other.ip());
        mark = '&';
    }
    if address.id != 0 {
        let _ = write!(text, "{mark}id={:x}", address.id);
        mark = '&';
    }
    if let Some(transport) = address.transport {
        let _ = write!(text, "{mark}by={}", transport.name());
    }
    Some(text)
}

/// Parses an address. `None` when it is invalid.
pub(crate) fn read(text: &str) -> Option<Address> {
    let (path, options) = text.split_once('?').unwrap_or((text, ""));
    let first = first(path)?;
    let mut address = Address::from(first);
    for option in options.split('&').filter(|option| !option.is_empty()) {
        match option.split_once('=')? {
            ("id", id) => address.id = u64::from_str_radix(id, 16).ok()?,
            ("by", transport) => address.transport = Some(Transport::of_name(transport)?),
            ("also", others) => {
                for other in others.split(',') {
                    let ip: IpAddr = other.parse().ok()?;
                    address.paths.try_push(SocketAddr::new(ip, first.port())).ok()?;
                }
            }
            _ => return None,
        }
    }
    Some(address)
}

/// Whether a text is an address rather than a node name.
pub(crate) fn is_address(text: &str) -> bool {
    [FOUR, SIX, ANY].iter().any(|start| text.starts_with(start))
}

fn first(text: &str) -> Option<SocketAddr> {
    if let Some(four) = text.strip_prefix(FOUR) {
        return four.parse().ok().filter(SocketAddr::is_ipv4);
    }
    if let Some(six) = text.strip_prefix(SIX) {
        return six.parse().ok().filter(SocketAddr::is_ipv6);
    }
    text.strip_prefix(ANY)?.parse().ok()
}

const _: () = assert!(MAX_ADDRESSES >= 2);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn there_and_back() {
        for text in [
            "fi_sockaddr_in://192.0.2.1:5000",
            "fi_sockaddr_in6://[2001:db8::7]:1",
            "fi_sockaddr_in://192.0.2.1:5000?also=198.51.100.1,2001:db8::1",
            "fi_sockaddr_in://192.0.2.1:5000?id=1f",
            "fi_sockaddr_in://192.0.2.1:5000?by=edge",
            "fi_sockaddr_in://192.0.2.1:5000?id=1f&by=shm+iwarp",
            "fi_sockaddr_in://192.0.2.1:5000?also=198.51.100.1&id=ffffffffffffffff",
        ] {
            assert_eq!(write(&read(text).unwrap()).unwrap(), text);
        }
        assert_eq!(read("fi_sockaddr://192.0.2.1:5000"), read("fi_sockaddr_in://192.0.2.1:5000"));
    }

    proptest! {
        #[test]
        fn any_text_is_an_address_or_none(
            text in "(fi_sockaddr(_in|_in6)?://)?[0-9a-f.:\\[\\]]{0,20}(\\?(also|id)=[0-9a-f.,:&=]{0,20})?",
        ) {
            if let Some(address) = read(&text) {
                let again = read(&write(&address).unwrap());
                prop_assert_eq!(again, Some(address));
            }
        }
    }

    #[test]
    fn what_is_none_is_refused() {
        for text in [
            "",
            "192.0.2.1:5000",
            "fi_sockaddr_in://",
            "fi_sockaddr_in://192.0.2.1",
            "fi_sockaddr_in://[2001:db8::7]:1",
            "fi_sockaddr_in6://192.0.2.1:5000",
            "fi_sockaddr_in://192.0.2.1:5000?also=",
            "fi_sockaddr_in://192.0.2.1:5000?also=host",
            "fi_sockaddr_in://192.0.2.1:5000?id=xyz",
            "fi_sockaddr_in://192.0.2.1:5000?colour=blue",
            "fi_sockaddr_in://192.0.2.1:5000?also=10.0.0.1,10.0.0.2,10.0.0.3,10.0.0.4",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
