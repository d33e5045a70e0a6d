//! Links between the two sides: each with a rate, a delay and a queue, and each direction can be cut.

use core::time::Duration;
use std::net::SocketAddr;

use weft_base::{Random, Time};

/// A link between an address of either side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    /// Bits per microsecond, which are megabits per second; 0 for no limit.
    pub(crate) rate: u64,
    pub(crate) delay: Duration,
    /// The maximum length of the queue in bytes; more is dropped.
    pub(crate) queue: u64,
    /// One datagram in this many is lost; 0 for none.
    pub(crate) lose: u64,
    /// Larger datagrams are dropped.
    pub(crate) carries: usize,
    /// Whether packets from a side are lost, for each side.
    pub(crate) cut: [bool; 2],
    pub(crate) busy_until: [Time; 2],
    /// Bytes that have passed, for each side that sent them.
    pub(crate) passed: [u64; 2],
}

impl Link {
    pub(crate) fn new(rate: u64, delay_us: u64) -> Self {
        Self {
            rate,
            delay: Duration::from_micros(delay_us),
            queue: 150_000,
            lose: 0,
            carries: 65_507,
            cut: [false; 2],
            busy_until: [Time::ZERO; 2],
            passed: [0; 2],
        }
    }

    /// The time until it arrives, if it does.
    pub(crate) fn carry(&mut self, side: usize, bytes: usize, now: Time, random: &mut Random) -> Option<Duration> {
        let lost = self.lose > 0 && random.one_in(self.lose);
        let waits = self.busy_until[side].max(now) - now;
        let queued = waits.as_nanos() as u64 * self.rate / 8000;
        if self.cut[side] || lost || bytes > self.carries || queued > self.queue {
            return None;
        }
        // The overhead of Ethernet, IP and UDP.
        let takes = Duration::from_nanos(((bytes as u64 + 66) * 8000).checked_div(self.rate).unwrap_or(0));
        self.busy_until[side] = now + waits + takes;
        self.passed[side] += bytes as u64;
        Some(waits + takes + self.delay)
    }
}

/// The address of a side on a link.
pub(crate) fn address_on(link: usize, side: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, link as u8, 1 + side as u8], 4791))
}

/// The link between two addresses, if both are on one.
pub(crate) fn link_between(from: SocketAddr, to: SocketAddr) -> Option<usize> {
    let network = |address: SocketAddr| match address {
        SocketAddr::V4(address) => Some(usize::from(address.ip().octets()[2])),
        SocketAddr::V6(_) => None,
    };
    network(from).filter(|link| network(to) == Some(*link))
}
