//! Sequence numbers of the wire.

use core::fmt;
use core::ops::Add;

/// How many bytes of one direction of a stream came before this point. MPA counts from the first byte after the
/// start-up frames (RFC 5044 section 4.3), so that markers are where the position is a multiple of their spacing. 64
/// bits never wrap in practice: at 100 Gb/s that takes 46 years.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamPosition(pub u64);

impl StreamPosition {
    /// Bytes from `earlier` to here. Zero when `earlier` is in fact later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<u64> for StreamPosition {
    type Output = Self;

    fn add(self, bytes: u64) -> Self {
        Self(self.0 + bytes)
    }
}

/// The message sequence number of an untagged DDP queue: starts at 1, wraps after 2^32 messages
/// (RFC 5041 section 4.3 and 5.3.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct MessageNumber(pub u32);

impl MessageNumber {
    /// The number of the first message of a queue.
    pub const FIRST: Self = Self(1);

    /// The number after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }

    /// How many messages after `earlier` this one is; numbers in the half before `earlier` come out negative.
    #[must_use]
    pub const fn distance_from(self, earlier: Self) -> i32 {
        self.0.wrapping_sub(earlier.0).cast_signed()
    }
}

impl fmt::Debug for MessageNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MessageNumber({})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_numbers_wrap() {
        let last = MessageNumber(u32::MAX);
        assert_eq!(last.next(), MessageNumber(0));
        assert_eq!(MessageNumber(3).distance_from(last), 4);
        assert_eq!(last.distance_from(MessageNumber(3)), -4);
    }

    #[test]
    fn positions_do_not_go_below_zero() {
        assert_eq!(StreamPosition(3).since(StreamPosition(5)), 0);
        assert_eq!((StreamPosition(3) + 4).since(StreamPosition(5)), 2);
    }
}
