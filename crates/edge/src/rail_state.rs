//! The state of a rail, for the user.

use core::time::Duration;
use std::net::SocketAddr;

use weft_base::Time;

/// What a rail can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RailState {
    /// It has no path.
    Closed,
    /// Being validated: no challenge was answered yet, and it carries nothing else.
    Proving,
    /// It carries data.
    Live,
    /// It has not answered in time, and carries only probes.
    Silent,
}

/// Why a rail carries no data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Out {
    /// Challenges were sent and not answered yet.
    Asked,
    /// The peer does not answer on it, but does on others.
    Silent,
    /// The peer does not answer on any rail.
    PeerSilent,
    /// No challenge was answered.
    Unanswered,
    /// One of its addresses was withdrawn.
    Withdrawn,
}

/// Information about a rail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RailInfo {
    /// Its number, the same at both sides.
    pub id: u8,
    /// Its state.
    pub state: RailState,
    /// Why it carries no data; `None` when it does, or was never tried.
    pub out: Option<Out>,
    /// Time of the last acknowledgement on it, if it is silent.
    pub silent_since: Option<Time>,
    /// The local address and the peer's address, possibly not validated yet. Of a closed rail, the last ones.
    pub place: Option<(u8, SocketAddr)>,
    /// Delivery rate in bytes of datagrams per second, smoothed, as acknowledgements show; 0 before it is known. Less
    /// than the path's capacity while there is less to send.
    pub rate: u64,
    /// The round trip, smoothed; `None` before one was measured.
    pub round_trip: Option<Duration>,
    /// Bytes that may be in flight.
    pub window: u64,
    /// Bytes in flight.
    pub in_flight: u64,
    /// Bytes above UDP that a datagram may have.
    pub datagram_size: usize,
    /// Datagrams sent, of any kind.
    pub sent_packets: u64,
    /// Bytes of these, above UDP.
    pub sent_bytes: u64,
    /// Of these datagrams, declared lost.
    pub lost_packets: u64,
    /// Valid datagrams received.
    pub received_packets: u64,
    /// Bytes of these, above UDP.
    pub received_bytes: u64,
}
