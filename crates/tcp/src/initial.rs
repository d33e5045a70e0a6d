//! First sequence numbers and timestamps that no peer can guess (RFC 6528, RFC 7323 section 5.4).

use std::net::{IpAddr, SocketAddr};

use hmac::{Hmac, Mac};
use sha2::Sha256;
use weft_base::Time;

use crate::Flow;

/// What a connection begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Initial {
    /// The first sequence number: that of the SYN.
    pub number: u32,
    /// What the clock of timestamps would have shown at time zero. A later connection between the same ends has the
    /// same, so that its SYN is known to be newer (RFC 6191 section 2).
    pub stamp: u32,
}

impl From<u32> for Initial {
    /// A clock that does not show how far the stream is.
    fn from(number: u32) -> Self {
        Self { number, stamp: number.rotate_left(16) ^ 0x9e37_79b9 }
    }
}

/// What first sequence numbers are made with.
#[derive(Clone)]
pub struct InitialNumbers {
    keyed: Hmac<Sha256>,
}

impl core::fmt::Debug for InitialNumbers {
    /// The key is secret.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("InitialNumbers").finish_non_exhaustive()
    }
}

impl InitialNumbers {
    /// From 32 bytes of the operating system's random numbers, one key for a host.
    #[must_use]
    pub fn new(key: &[u8; 32]) -> Self {
        let Ok(keyed) = Hmac::new_from_slice(key) else { unreachable!("HMAC takes keys of any length") };
        Self { keyed }
    }

    /// For a connection that begins now: the number is a clock of 4 us and a keyed digest of the two ends (RFC 6528
    /// section 3), so that a later connection between the same ends begins further on, and other connections tell
    /// nothing about it. Timestamps begin at another part of the digest.
    #[must_use]
    pub fn of(&self, flow: &Flow, now: Time) -> Initial {
        let mut mac = self.keyed.clone();
        for end in [flow.local, flow.remote] {
            update(&mut mac, end);
        }
        let digest = mac.finalize().into_bytes();
        let part = |at: usize| u32::from_be_bytes([digest[at], digest[at + 1], digest[at + 2], digest[at + 3]]);
        Initial { number: part(0).wrapping_add((now.as_nanos() / 4000) as u32), stamp: part(4) }
    }
}

pub(crate) fn update(mac: &mut Hmac<Sha256>, end: SocketAddr) {
    match end.ip() {
        IpAddr::V4(ip) => mac.update(&ip.to_ipv6_mapped().octets()),
        IpAddr::V6(ip) => mac.update(&ip.octets()),
    }
    mac.update(&end.port().to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_on_for_a_flow_and_differ_between_flows_and_keys() {
        let flow = |port| Flow { local: ([10, 0, 0, 1], port).into(), remote: ([10, 0, 0, 2], 80).into() };
        let (numbers, others) = (InitialNumbers::new(&[1; 32]), InitialNumbers::new(&[2; 32]));
        let first = numbers.of(&flow(7), Time::ZERO);
        let later = Initial { number: first.number.wrapping_add(2), ..first };
        assert_eq!(numbers.of(&flow(7), Time::from_nanos(8000)), later);
        for other in [numbers.of(&flow(8), Time::ZERO), others.of(&flow(7), Time::ZERO)] {
            assert!(other.number != first.number && other.stamp != first.stamp);
        }
    }
}
