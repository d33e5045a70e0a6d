//! What a connection has counted.

/// Counters since the connection was established.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Datagrams sent.
    pub packets_sent: u64,
    /// Datagrams accepted.
    pub packets_received: u64,
    /// Segments sent, retransmissions included.
    pub segments_sent: u64,
    /// Of these, retransmissions.
    pub segments_repeated: u64,
    /// Packets whose segments were retransmitted over a faster idle rail.
    pub overtaken: u64,
    /// Packets declared lost.
    pub packets_lost: u64,
    /// Of these, acknowledged later.
    pub spurious_losses: u64,
    /// Probes of a silent peer.
    pub probes: u64,
    /// Datagrams that could not be parsed: damaged, truncated, of another version.
    pub unreadable: u64,
    /// Datagrams received twice, or too late: replays, or copies made by the network.
    pub repeated: u64,
    /// Datagrams for another connection, or of an unknown rail.
    pub astray: u64,
    /// Datagrams with segments from a caller that has not confirmed.
    pub early: u64,
    /// Acknowledgements of packets that were never sent.
    pub false_acks: u64,
    /// Other frames with impossible contents.
    pub false_frames: u64,
    /// ICMP messages that quote no packet in flight.
    pub false_hints: u64,
    /// Segments whose payload was damaged.
    pub bad_payloads: u64,
    /// Segments that the sink put off.
    pub put_off: u64,
    /// Segments that found no posted receive.
    pub not_ready: u64,
    /// Segments that were already placed.
    pub duplicates: u64,
    /// Refusals by the peer for want of a posted receive.
    pub held: u64,
    /// Datagrams that the peer's socket dropped, as the peer reports: not the network's loss.
    pub peer_overflows: u64,
    /// Packets that arrived with a congestion mark, as the peer reports.
    pub congestion_marks: u64,
    /// Black holes: a size no longer passed while smaller ones did (RFC 8899 section 4.3).
    pub black_holes: u64,
    /// Changes of the peer's address.
    pub moves: u64,
    /// Rails besides the first that were validated.
    pub rails_opened: u64,
    /// Times that a rail was silent while others answered, and its packets were retransmitted on those.
    pub rails_left: u64,
}
