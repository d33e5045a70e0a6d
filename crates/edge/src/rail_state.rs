//! What is known of a rail.

use core::time::Duration;
use std::net::SocketAddr;

use weft_base::Time;

/// What a rail can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RailState {
    /// It leads nowhere.
    Closed,
    /// No challenge was answered from where it would lead: it carries nothing else.
    Proving,
    /// It carries data.
    Live,
    /// It has not answered in time, and carries only probes.
    Silent,
}

/// Why a rail carries no data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Out {
    /// The peer is challenged there.
    Asked,
    /// The peer does not answer on it, and does on others.
    Silent,
    /// The peer does not answer on any rail.
    PeerSilent,
    /// No challenge was answered.
    Unanswered,
    /// One of its addresses is offered no more.
    Withdrawn,
}

/// What is known of a rail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RailInfo {
    /// Its number, the same at both sides.
    pub id: u8,
    /// What it can do.
    pub state: RailState,
    /// Why it carries no data; `None` when it does, or was never tried.
    pub out: Option<Out>,
    /// When something was acknowledged on it last, if it is silent.
    pub silent_since: Option<Time>,
    /// By which of this side's addresses it leaves, and where the peer is; or may be, as long as it is being proved. Of
    /// a closed one, where it has led, or was to lead.
    pub place: Option<(u8, SocketAddr)>,
    /// Bytes of datagrams per second that it delivers, smoothed, as acknowledgements show; 0 before that is known. Less
    /// than the path can do while there is less to send.
    pub rate: u64,
    /// The round trip, smoothed; `None` before one was measured.
    pub round_trip: Option<Duration>,
    /// Bytes that may be under way.
    pub window: u64,
    /// Bytes that are.
    pub in_flight: u64,
    /// Bytes above UDP that a datagram may have.
    pub datagram_size: usize,
    /// Datagrams that were sent, of any kind.
    pub sent_packets: u64,
    /// Bytes of these, above UDP.
    pub sent_bytes: u64,
    /// Of these datagrams, held to be lost.
    pub lost_packets: u64,
    /// Datagrams that came and were good.
    pub received_packets: u64,
    /// Bytes of these, above UDP.
    pub received_bytes: u64,
}
