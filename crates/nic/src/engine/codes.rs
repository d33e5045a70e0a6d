//! Codes that are made of secrets, by HMAC-SHA-256.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use hmac::{Hmac, Mac};
use sha2::Sha256;
use weft_base::HostId;

/// The code of these parts, one behind the other.
pub(super) fn code(key: &[u8], what: &[&[u8]]) -> [u8; 32] {
    let mut code = <Hmac<Sha256> as Mac>::new_from_slice(key).expect("HMAC takes a key of any length");
    what.iter().for_each(|part| code.update(part));
    code.finalize().into_bytes().into()
}

/// The key of a host, which a program that is started anew has again; of this process where the host is not known.
pub(super) fn host_key(host: Option<HostId>, secret: &[u8; 32]) -> [u8; 32] {
    match host {
        Some(host) => code(&host.boot, &[b"Weft Edge reset ", &host.network.to_be_bytes()]),
        None => code(secret, &[b"Weft Edge reset "]),
    }
}

/// The key of reset tokens at the port that is bound to an address. A program at another one has another key: otherwise
/// it could be made to reset a connection that it does not know and another program of this host still has (RFC 9000
/// section 21.11).
pub(super) fn reset_key(host: &[u8; 32], bound: Option<SocketAddr>) -> [u8; 32] {
    let bound = bound.unwrap_or(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)));
    let ip = match bound.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    };
    code(host, &[b"port ", &ip, &bound.port().to_be_bytes()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_at_another_port_has_another_reset_key_and_one_that_is_started_anew_the_same() {
        let host = |boot: u8, network| host_key(Some(HostId { boot: [boot; 16], network }), &[boot; 32]);
        let key = |host: [u8; 32], bound: &str| reset_key(&host, Some(bound.parse().unwrap()));
        let own = key(host(1, 2), "10.0.0.1:4791");
        assert_eq!(own, key(host(1, 2), "10.0.0.1:4791"), "started anew");
        let others = [
            key(host(1, 2), "10.0.0.1:4792"),
            key(host(1, 2), "10.0.0.2:4791"),
            key(host(1, 2), "[::1]:4791"),
            key(host(1, 3), "10.0.0.1:4791"),
            key(host(2, 2), "10.0.0.1:4791"),
            reset_key(&host(1, 2), None),
        ];
        assert!(others.iter().all(|other| *other != own), "{others:?}");
    }

    #[test]
    fn where_the_host_is_not_known_each_process_has_a_key_of_its_own() {
        assert_ne!(host_key(None, &[1; 32]), host_key(None, &[2; 32]));
    }
}
