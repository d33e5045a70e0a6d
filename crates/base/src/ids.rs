//! Names of things: each its own type, so that one can't be taken for another.

use core::fmt;

/// A protection domain of one NIC. Regions, queue pairs and shared receive queues belong to exactly one; a queue pair
/// reaches only regions of its own domain (RFC 5042 section 2.2: the STag is checked against the stream's protection
/// domain).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DomainId(pub u32);

impl DomainId {
    /// A domain that is none: no region belongs to it, and no other one has this number.
    pub const NONE: Self = Self(u32::MAX);
}

/// A registered memory region, named locally. Unlike a [`Stag`] it is never sent on the wire, and it is never reused:
/// the generation is part of it, so a stale id is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RegionId {
    /// Position in the registry's table.
    pub index: u32,
    /// How many regions had this position before.
    pub generation: u32,
}

impl RegionId {
    /// Set in the generation of an id that names a list of slices of regions, not a region.
    pub const LIST: u32 = 1 << 30;

    /// Whether it names a list of slices.
    #[must_use]
    #[inline]
    pub const fn is_list(self) -> bool {
        self.generation & Self::LIST != 0
    }
}

/// A steering tag: the name under which a peer addresses a region on the wire (RFC 5040 section 1.2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Stag(pub u32);

impl fmt::Debug for Stag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stag({:#010x})", self.0)
    }
}

impl fmt::Display for Stag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#010x}", self.0)
    }
}

/// What a [`Network`](crate::Network) gives back with readiness, to say which port or listener is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token(pub u64);

/// A peer of a message endpoint, numbered by that endpoint as they become known. It is never sent on the wire. When a
/// peer is forgotten, another one gets its place, with another number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PeerId(pub u32);

impl PeerId {
    /// How many places there can be.
    pub const PLACES: u32 = 1 << 20;

    /// Its place.
    #[must_use]
    pub const fn place(self) -> usize {
        (self.0 % Self::PLACES) as usize
    }

    /// The number of the peer that has its place after it. The same number comes again after 4096 of them.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.wrapping_add(Self::PLACES))
    }
}

/// Which host something runs on: equal for two programs that can share memory, and for no others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HostId {
    /// The machine, and the boot that it is from: another one after each start.
    pub boot: [u8; 16],
    /// The network namespace, within that boot: containers and virtual hosts on one machine are hosts of their own.
    pub network: u64,
}
