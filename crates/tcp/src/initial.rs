//! First sequence numbers that nobody can guess (RFC 6528).

use std::net::{IpAddr, SocketAddr};

use hmac::{Hmac, Mac};
use sha2::Sha256;
use weft_base::Time;

use crate::Flow;

/// What first sequence numbers are made with.
#[derive(Clone)]
pub struct InitialNumbers {
    keyed: Hmac<Sha256>,
}

impl core::fmt::Debug for InitialNumbers {
    /// The key is nobody's business.
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

    /// The number for a connection that begins now: a clock of 4 us and a keyed digest of the two ends (RFC 6528
    /// section 3), so that a later connection between the same ends begins further on, and other connections tell
    /// nothing about it.
    #[must_use]
    pub fn of(&self, flow: &Flow, now: Time) -> u32 {
        let mut mac = self.keyed.clone();
        for end in [flow.local, flow.remote] {
            update(&mut mac, end);
        }
        let digest = mac.finalize().into_bytes();
        let start = u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]]);
        start.wrapping_add((now.as_nanos() / 4000) as u32)
    }
}

fn update(mac: &mut Hmac<Sha256>, end: SocketAddr) {
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
        assert_eq!(numbers.of(&flow(7), Time::from_nanos(8000)), first.wrapping_add(2));
        assert_ne!(numbers.of(&flow(8), Time::ZERO), first);
        assert_ne!(others.of(&flow(7), Time::ZERO), first);
    }
}
