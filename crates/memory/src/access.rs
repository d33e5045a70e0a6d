//! Access rights to a region.

use core::fmt;
use core::ops::{BitOr, BitOrAssign};

/// Rights of a region. The owner's queue pairs may always read it; everything else is granted here.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Access(u8);

impl Access {
    /// Nothing but reading by local work requests.
    pub const LOCAL_READ: Self = Self(0);
    /// Local work requests may write: receives, and answers to reads and atomics.
    pub const LOCAL_WRITE: Self = Self(1);
    /// Peers may read.
    pub const REMOTE_READ: Self = Self(2);
    /// Peers may write. The sink of an RDMA read of our own does not need it: its STag on the wire is one for that read
    /// alone.
    pub const REMOTE_WRITE: Self = Self(4);
    /// Peers may do atomic operations.
    pub const REMOTE_ATOMIC: Self = Self(8);

    /// No right, but a promise: nothing changes the bytes while a peer may read them. What a peer reads of such a
    /// region is sent from where it lies; of others it is copied first, because bytes that change between their
    /// checksum and their sending would end the connection.
    pub const STEADY: Self = Self(16);

    /// Every right there is.
    #[must_use]
    pub const fn all() -> Self {
        Self(15)
    }

    /// As a number, which [`Access::from_bits`] takes.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// The rights of a number; bits that are none's are left out.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits & 31)
    }

    /// Whether all of `rights` are among these.
    #[must_use]
    pub const fn contains(self, rights: Self) -> bool {
        self.0 & rights.0 == rights.0
    }

    /// Whether a peer may change the bytes.
    #[must_use]
    pub const fn is_remotely_writable(self) -> bool {
        self.0 & (Self::REMOTE_WRITE.0 | Self::REMOTE_ATOMIC.0) != 0
    }

    /// Whether a peer may do anything at all.
    #[must_use]
    pub const fn is_remote(self) -> bool {
        self.0 & !(Self::LOCAL_WRITE.0 | Self::STEADY.0) != 0
    }
}

impl BitOr for Access {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Access {
    fn bitor_assign(&mut self, other: Self) {
        *self = *self | other;
    }
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let granted = [
            (Self::LOCAL_WRITE, " | LOCAL_WRITE"),
            (Self::REMOTE_READ, " | REMOTE_READ"),
            (Self::REMOTE_WRITE, " | REMOTE_WRITE"),
            (Self::REMOTE_ATOMIC, " | REMOTE_ATOMIC"),
            (Self::STEADY, " | STEADY"),
        ];
        f.write_str("LOCAL_READ")?;
        granted.iter().filter(|(right, _)| self.contains(*right)).try_for_each(|(_, name)| f.write_str(name))
    }
}

/// What a local work request wants to do with a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LocalRight {
    /// Send from it.
    Read,
    /// Receive into it.
    Write,
}

impl LocalRight {
    pub(crate) const fn access(self) -> Access {
        match self {
            Self::Read => Access::LOCAL_READ,
            Self::Write => Access::LOCAL_WRITE,
        }
    }
}

/// What a peer wants to do with a range of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RemoteRight {
    /// RDMA read from it.
    Read,
    /// RDMA write to it, or answer a read into it.
    Write,
    /// An atomic operation on it.
    Atomic,
}

impl RemoteRight {
    /// The right of a region that it needs.
    #[must_use]
    pub const fn access(self) -> Access {
        match self {
            Self::Read => Access::REMOTE_READ,
            Self::Write => Access::REMOTE_WRITE,
            Self::Atomic => Access::REMOTE_ATOMIC,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_combine() {
        let both = Access::LOCAL_WRITE | Access::REMOTE_READ;
        assert!(both.contains(Access::LOCAL_WRITE) && both.contains(Access::REMOTE_READ) && both.is_remote());
        assert!(!both.contains(Access::REMOTE_READ | Access::REMOTE_ATOMIC));
        assert!(!(Access::LOCAL_WRITE | Access::STEADY).is_remote() && !Access::all().contains(Access::STEADY));
        assert_eq!(format!("{both:?}"), "LOCAL_READ | LOCAL_WRITE | REMOTE_READ");
    }
}
