//! What became of the packets.

/// What became of a link's packets: `sent + duplicated == delivered + lost + overflowed + cut + too_large`, and those
/// that are still [on the way](crate::Link::in_flight).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Packets that were handed in.
    pub sent: u64,
    /// Copies that were made.
    pub duplicated: u64,
    /// Packets, and copies, that were handed out.
    pub delivered: u64,
    /// Lost by chance.
    pub lost: u64,
    /// Dropped, for the queue was full.
    pub overflowed: u64,
    /// Lost in a partition.
    pub cut: u64,
    /// Larger than the MTU.
    pub too_large: u64,
    /// Of all: marked by the queue.
    pub marked: u64,
    /// Of all: damaged.
    pub corrupted: u64,
    /// Of all: held back, so that others may overtake them.
    pub held_back: u64,
}
