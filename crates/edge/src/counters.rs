//! What a connection has counted.

/// Since the connection began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Datagrams that were sent.
    pub packets_sent: u64,
    /// Datagrams that were taken.
    pub packets_received: u64,
    /// Segments that were sent, each time.
    pub segments_sent: u64,
    /// Of these, again.
    pub segments_repeated: u64,
    /// Packets whose segments were sent again over a faster rail that had nothing else to do.
    pub overtaken: u64,
    /// Packets that are held to be lost.
    pub packets_lost: u64,
    /// Of these, acknowledged later after all.
    pub spurious_losses: u64,
    /// Times that the peer was probed because it was silent.
    pub probes: u64,
    /// Datagrams that could not be read: damaged, cut off, of another version.
    pub unreadable: u64,
    /// Datagrams that came again, or too late: a replay, or the network's copy.
    pub repeated: u64,
    /// Datagrams for another connection, or of a rail that there is not.
    pub astray: u64,
    /// Datagrams with segments from a caller that has not confirmed.
    pub early: u64,
    /// Acknowledgements of packets that were never sent.
    pub false_acks: u64,
    /// Other frames that can't be true.
    pub false_frames: u64,
    /// Messages of ICMP that quote no packet under way.
    pub false_hints: u64,
    /// Segments whose payload was damaged.
    pub bad_payloads: u64,
    /// Segments that were put off by the sink.
    pub put_off: u64,
    /// Segments that found no posted receive.
    pub not_ready: u64,
    /// Segments that had been placed before.
    pub duplicates: u64,
    /// Refusals by the peer for want of a posted receive.
    pub held: u64,
    /// Datagrams that the peer's socket has dropped, as the peer says: not the network's loss.
    pub peer_overflows: u64,
    /// Packets that arrived with the mark of congestion, as the peer says.
    pub congestion_marks: u64,
    /// Times that datagrams of a size did not pass any more, and smaller ones did (RFC 8899 section 4.3).
    pub black_holes: u64,
    /// Times that the peer was found at another address.
    pub moves: u64,
    /// Rails beside the first that were proved.
    pub rails_opened: u64,
    /// Times that a rail was silent while others answered, and what was under way on it was sent again on them.
    pub rails_left: u64,
}
