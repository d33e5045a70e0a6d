//! What became of the packets.

use core::ops::Add;

/// What became of a link's packets: `sent + duplicated` is `delivered + lost + overflowed + codel_dropped + cut +
/// too_large`, and those that are still [in flight](crate::Link::in_flight).
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
    /// Dropped by CoDel, for they had waited for too long.
    pub codel_dropped: u64,
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

impl Add for Statistics {
    type Output = Self;

    /// Of several links together.
    fn add(self, other: Self) -> Self {
        Self {
            sent: self.sent + other.sent,
            duplicated: self.duplicated + other.duplicated,
            delivered: self.delivered + other.delivered,
            lost: self.lost + other.lost,
            overflowed: self.overflowed + other.overflowed,
            codel_dropped: self.codel_dropped + other.codel_dropped,
            cut: self.cut + other.cut,
            too_large: self.too_large + other.too_large,
            marked: self.marked + other.marked,
            corrupted: self.corrupted + other.corrupted,
            held_back: self.held_back + other.held_back,
        }
    }
}
