//! Which port a caller takes (RFC 6056): one that a host that does not see the connection cannot guess, and each in its
//! turn.

use std::net::{IpAddr, SocketAddr};

use hmac::{Hmac, Mac};
use sha2::Sha256;

use crate::initial::update;

/// Counters; an attacker that finds one out learns how many calls went to 1 of 256 of all peers (RFC 6056 section 3.3.4
/// has 10).
const COUNTERS: usize = 256;

/// What ports of callers are chosen with: algorithm 4 of RFC 6056, double-hash. To one peer they count up, so that a
/// port is taken again as late as can be; what other peers see tells nothing about where.
pub struct CallerPorts {
    keyed: Hmac<Sha256>,
    counters: [u16; COUNTERS],
}

impl core::fmt::Debug for CallerPorts {
    /// The key is secret.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("CallerPorts").finish_non_exhaustive()
    }
}

/// Where the search for a free port begins, for calls from an address to a peer's address and port.
#[derive(Clone, Copy, Debug)]
pub struct PortSearch {
    offset: u16,
    counter: usize,
}

impl CallerPorts {
    /// From 32 bytes of the operating system's random numbers, which nothing else is made of.
    #[must_use]
    pub fn new(key: &[u8; 32]) -> Self {
        let Ok(keyed) = Hmac::new_from_slice(key) else { unreachable!("HMAC takes keys of any length") };
        Self { keyed, counters: [0; COUNTERS] }
    }

    /// The search for calls to a peer.
    #[must_use]
    pub fn search(&self, local: IpAddr, remote: SocketAddr) -> PortSearch {
        let mut mac = self.keyed.clone();
        update(&mut mac, SocketAddr::new(local, 0));
        update(&mut mac, remote);
        let digest = mac.finalize().into_bytes();
        PortSearch { offset: u16::from_be_bytes([digest[0], digest[1]]), counter: usize::from(digest[2]) % COUNTERS }
    }

    /// The port to be tried at a step, from 0 on, counted from the first of `count` ports; none is tried twice in
    /// `count` steps.
    #[must_use]
    pub fn candidate(&self, search: &PortSearch, step: u16, count: u16) -> u16 {
        let place = u64::from(search.offset) + u64::from(self.counters[search.counter]) + u64::from(step);
        (place % u64::from(count.max(1))) as u16
    }

    /// The candidate of that step was taken.
    pub const fn take(&mut self, search: &PortSearch, step: u16) {
        let counter = &mut self.counters[search.counter];
        *counter = counter.wrapping_add(step).wrapping_add(1);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const LOCAL: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const COUNT: u16 = 16_384;

    fn peer(last: u8) -> SocketAddr {
        ([10, 0, 0, last], 80).into()
    }

    fn next(ports: &mut CallerPorts, remote: SocketAddr) -> u16 {
        let search = ports.search(LOCAL, remote);
        let port = ports.candidate(&search, 0, COUNT);
        ports.take(&search, 0);
        port
    }

    #[test]
    fn to_one_peer_ports_come_in_turn_and_each_peer_has_another_begin() {
        let mut ports = CallerPorts::new(&[1; 32]);
        let first = next(&mut ports, peer(2));
        assert_eq!(next(&mut ports, peer(2)), (first + 1) % COUNT);
        let begins: HashSet<u16> = (2..102).map(|last| next(&mut ports, peer(last))).collect();
        assert!(begins.len() > 95, "{} begins of 100 peers", begins.len());
        let steps = begins.iter().filter(|begin| begins.contains(&((*begin + 1) % COUNT))).count();
        assert!(steps < 10, "they don't follow each other");
        assert_ne!(next(&mut CallerPorts::new(&[2; 32]), peer(2)), first);
    }

    #[test]
    fn a_search_tries_each_port_once() {
        let ports = CallerPorts::new(&[1; 32]);
        let search = ports.search(LOCAL, peer(2));
        let tried: HashSet<u16> = (0..100).map(|step| ports.candidate(&search, step, 100)).collect();
        assert_eq!((tried.len(), tried.iter().max()), (100, Some(&99)));
    }
}
