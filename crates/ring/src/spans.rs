//! Which bytes of the ring are meant.

use core::fmt;

/// Bytes that a ring holds: a power of two, [`Capacity::LEAST`] to [`Capacity::MOST`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity(u32);

impl Capacity {
    /// The smallest ring.
    pub const LEAST: u32 = 64;
    /// The largest ring: what one connection may take of the machine's memory in one direction.
    pub const MOST: u32 = 1 << 24;

    /// `None` if it is not a power of two, too small or too large.
    #[must_use]
    pub const fn new(bytes: u32) -> Option<Self> {
        if bytes.is_power_of_two() && bytes >= Self::LEAST && bytes <= Self::MOST { Some(Self(bytes)) } else { None }
    }

    /// Bytes.
    #[must_use]
    pub const fn bytes(self) -> usize {
        self.0 as usize
    }

    /// The most that an end can wait for. If a producer could wait for more room than half, and a consumer for more
    /// bytes than half, both could wait for each other.
    #[must_use]
    pub const fn half(self) -> usize {
        self.bytes() / 2
    }

    pub(crate) const fn wide(self) -> u64 {
        self.0 as u64
    }
}

impl fmt::Display for Capacity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0)
    }
}

/// Bytes that lie side by side, by their place in the ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// The first one, from the start of the ring.
    pub offset: usize,
    /// How many.
    pub length: usize,
}

/// Bytes that follow each other in the ring, of which the second part is behind the ring's end, at its beginning. It
/// may be empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spans(pub [Span; 2]);

impl Spans {
    /// `length` bytes from `position` on. The caller has seen to it that there are no more than the ring holds.
    pub(crate) fn at(position: u64, length: usize, capacity: Capacity) -> Self {
        assert!(length <= capacity.bytes(), "{length} bytes of a ring of {capacity}");
        let offset = (position & (capacity.wide() - 1)) as usize;
        let first = length.min(capacity.bytes() - offset);
        Self([Span { offset, length: first }, Span { offset: 0, length: length - first }])
    }
}
