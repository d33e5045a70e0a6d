//! What an acknowledgement or a time-out has shown.

use core::time::Duration;

use weft_base::Time;

use crate::delivery::RateSample;

/// What one acknowledgement or time-out has shown of the path: the one thing that a congestion controller learns from.
/// All sums are of this call alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Feedback {
    /// When.
    pub now: Time,
    /// Bytes under way before the call, what it acknowledged included.
    pub in_flight_before: u64,
    /// Bytes under way after it.
    pub in_flight: u64,
    /// Bytes, and packets, that are newly acknowledged, late ones included.
    pub acked_bytes: u64,
    /// See `acked_bytes`.
    pub acked_packets: u32,
    /// When the newest packet among them was sent.
    pub sent_at: Option<Time>,
    /// Packets among them that were sent with an ECN mark.
    pub acked_marked: u32,
    /// Bytes, and packets, given up as lost.
    pub lost_bytes: u64,
    /// See `lost_bytes`.
    pub lost_packets: u32,
    /// Packets that had been given up and are acknowledged now.
    pub late_packets: u32,
    /// The round trip of this acknowledgement, when it gave a sample.
    pub rtt: Option<Duration>,
    /// How fast the path delivered.
    pub rate: Option<RateSample>,
    /// A round trip has ended.
    pub round: bool,
    /// Packets that routers have newly marked as having met congestion.
    pub ce: u64,
    /// A new episode of congestion begins, by loss or by mark: cut once, and not again before the next.
    pub congested: bool,
    /// Everything that was given up in this episode has arrived: take its cut back.
    pub undo: bool,
    /// Nothing came through for three probe time-outs (RFC 9002 section 7.6): begin again.
    pub persistent: bool,
}
