//! Sizes and limits of an endpoint.

use core::time::Duration;

/// Sizes and limits of an endpoint. What a peer may make it keep is at most `unexpected_bytes` for all peers together, of which each message takes 256 bytes beside its own (rounded up to a power of two), and for each peer
/// `(data_credits + control_credits) * packet_bytes`, and as much again of what it left behind when its connection was lost (again with 256 bytes for each message, of which a packet has
/// at most 256).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The most bytes of a packet: one RDMAP Send, with whatever messages fit into it.
    pub packet_bytes: u32,
    /// Packets with messages that a peer may have under way to us.
    pub data_credits: u16,
    /// Packets without messages (answers, acknowledgements) that a peer may have under way to us.
    pub control_credits: u16,
    /// Messages up to this many bytes are sent at once, in a packet, but to a peer that is short of memory. At most what fits into one.
    pub short_bytes: u32,
    /// Messages up to this many bytes are sent at once too, in as many packets as they need. What the credits do not suffice for follows when they come back. Longer ones are asked for first.
    pub stream_bytes: u64,
    /// Of these, messages longer than this are sent at once only while no more than two requests to their peer (sends, transfers, atomics) are under way. Else the receiver reads them:
    /// who sends many wants throughput, and what is read goes straight to its place.
    pub alone_bytes: u64,
    /// Messages up to this many bytes are sent as soon as the receiver has said where to: into the receive's memory, or into a buffer. Longer ones wait for
    /// their receive, which reads them.
    pub eager_bytes: u64,
    /// Long messages are read in pieces of this many bytes. A packet of ours waits behind a piece that we are sending.
    pub fragment_bytes: u64,
    /// Pieces of one message that are read at a time.
    pub fragments_under_way: u16,
    /// Bytes of messages that nobody waits for, kept for all peers together. From half of it on peers are told to ask before they send more than 256 bytes; beyond, they are slowed down:
    /// their credits are kept back.
    pub unexpected_bytes: u64,
    /// A connection on which nothing is under way is closed after this time. `None`: never.
    pub idle_timeout: Option<Duration>,
}

impl Settings {
    /// Bytes of a packet that are not payload, at most.
    pub const PACKET_OVERHEAD: u32 = 128;
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            packet_bytes: 16 * 1024 + Self::PACKET_OVERHEAD,
            data_credits: 16,
            control_credits: 8,
            short_bytes: 16 * 1024,
            stream_bytes: 128 * 1024,
            alone_bytes: 64 * 1024,
            eager_bytes: 128 * 1024,
            fragment_bytes: 1024 * 1024,
            fragments_under_way: 8,
            unexpected_bytes: 64 * 1024 * 1024,
            idle_timeout: None,
        }
    }
}
