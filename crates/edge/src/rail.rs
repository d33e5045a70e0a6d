//! One rail: a flow of datagrams between two addresses.

use core::time::Duration;
use std::net::SocketAddr;

use weft_base::Time;
use weft_congestion::{EcnValidation, Pacer};

use crate::acks::Received;
use crate::mtu::Mtu;
use crate::round_trip::RoundTrip;
use crate::sent::Sent;
use crate::settings::Settings;
use crate::window::Window;

/// A new address of the peer is challenged so often.
const MAX_CHALLENGES: u8 = 5;

/// An address at which the peer was seen, and which is not proved yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub(crate) address: SocketAddr,
    /// What must come back from there.
    pub(crate) challenge: [u8; 8],
    /// When it is sent (again).
    pub(crate) due: Time,
    pub(crate) left: u8,
}

impl Candidate {
    pub(crate) fn new(address: SocketAddr, challenge: [u8; 8], now: Time) -> Self {
        Self { address, challenge, due: now, left: MAX_CHALLENGES }
    }
}

/// The state of a rail.
#[derive(Debug)]
pub(crate) struct Rail {
    pub(crate) id: u8,
    pub(crate) to: SocketAddr,
    pub(crate) candidate: Option<Candidate>,
    /// A challenge that the peer waits for, and where it came from.
    pub(crate) response: Option<([u8; 8], SocketAddr)>,
    pub(crate) sent: Sent,
    pub(crate) received: Received,
    pub(crate) trip: RoundTrip,
    pub(crate) window: Window,
    pub(crate) pacer: Pacer,
    pub(crate) mtu: Mtu,
    /// Bytes that the peer lets be under way.
    pub(crate) credit: u64,
    /// Times that the peer was probed since it last acknowledged something.
    pub(crate) backoff: u32,
    /// Packets that may leave whatever the window says: probes.
    pub(crate) probes: u32,
    /// The window was the limit since the last acknowledgement.
    pub(crate) was_full: bool,
    /// Something waits for the pacer.
    pub(crate) paced_until: Option<Time>,
    /// Whether packets are sent with ECT(0).
    pub(crate) ecn: EcnValidation,
    pub(crate) peer_largest: Option<u64>,
    pub(crate) peer_overflows: u32,
}

impl Rail {
    pub(crate) fn new(id: u8, to: SocketAddr, limit: usize, credit: u32, settings: &Settings) -> Self {
        Self {
            id,
            to,
            candidate: None,
            response: None,
            sent: Sent::new(settings.sent_packets),
            received: Received::default(),
            trip: RoundTrip::new(settings.initial_round_trip),
            window: Window::new(settings.initial_window),
            pacer: Pacer::default(),
            mtu: Mtu::new(limit, settings.raise_after),
            credit: u64::from(credit),
            backoff: 0,
            probes: 0,
            was_full: false,
            paced_until: None,
            ecn: EcnValidation::default(),
            peer_largest: None,
            peer_overflows: 0,
        }
    }

    /// The congestion controller hears what an acknowledgement or the time has shown. A window that is larger than the
    /// peer's credit is not what holds anything back.
    pub(crate) fn settle(&mut self, now: Time) {
        let full = self.was_full && self.window.bytes() <= self.credit;
        self.window.settle(self.trip.least(), self.mtu.current() as u32, full, now);
    }

    /// Bytes that may be under way. One datagram always may: a credit of nothing would never be renewed.
    pub(crate) fn limit(&self) -> u64 {
        self.window.bytes().min(self.credit).max(self.mtu.current() as u64)
    }

    /// Whether a datagram with segments may leave as far as the window goes.
    pub(crate) fn window_is_open(&self) -> bool {
        self.probes > 0 || self.sent.in_flight() + self.mtu.current() as u64 <= self.limit()
    }

    /// When the peer is probed for want of an acknowledgement. `peer_delay`: how long it may put one off.
    pub(crate) fn probe_at(&self, peer_delay: Duration, most: Duration) -> Option<Time> {
        let wait = self.trip.probe_timeout() + peer_delay;
        let wait = wait.saturating_mul(1 << self.backoff.min(20)).min(most.max(wait));
        self.sent.is_flying().then(|| self.sent.last_sent() + wait)
    }
}
