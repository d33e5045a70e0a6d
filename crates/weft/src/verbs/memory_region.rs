//! Registered memory.

use core::fmt;
use core::ops::Deref;

use weft_base::Stag;
use weft_memory::{Buffer, MemoryError, Region};
use weft_rdmap::RemoteTarget;

use super::context::ProtectionDomain;

const ALWAYS_THERE: &str = "a region is there until it is deregistered or dropped";

/// Registered memory. It derefs to [`Region`], which has the ways to read and write it.
///
/// When it is dropped, peers lose access at once; the memory is freed when no work request uses it any more.
pub struct MemoryRegion {
    // First, so that it goes before the domain it lives in. Always there before the end.
    region: Option<Region>,
    domain: ProtectionDomain,
}

impl MemoryRegion {
    pub(super) fn new(domain: ProtectionDomain, region: Region) -> Self {
        Self { region: Some(region), domain }
    }

    /// Its protection domain.
    #[must_use]
    pub fn domain(&self) -> &ProtectionDomain {
        &self.domain
    }

    /// What a peer must know to use this region from byte `offset` on. Send it to the peer by a message of your own.
    #[must_use]
    pub fn remote(&self, offset: u64) -> RemoteMemory {
        RemoteMemory { stag: self.stag(), offset: self.base().wrapping_add(offset) }
    }

    /// Borrows the bytes for the time of a closure, to change them in place: see [`Region::edit`].
    ///
    /// # Errors
    /// Peers may touch the region, or work in flight uses it.
    pub fn edit<R>(&mut self, change: impl FnOnce(&mut [u8]) -> R) -> Result<R, MemoryError> {
        self.region.as_mut().expect(ALWAYS_THERE).edit(change)
    }

    /// Ends the registration, and every access with it, that of work requests in flight too, which fail: for memory of
    /// others ([`Buffer::foreign_checked`]) that may be gone then. Does nothing in a child by fork, in which nothing of
    /// its parent's is registered.
    pub fn revoke(mut self) {
        if self.domain.here().is_ok()
            && let Some(region) = self.region.take()
        {
            region.revoke();
        }
    }

    /// Ends the registration and gives the memory back.
    ///
    /// # Errors
    /// Work requests in flight still use it: then the region is given back as it was. Or this is a child by fork, in
    /// which nothing of its parent's is registered ([`MemoryError::Gone`]).
    pub fn deregister(mut self) -> Result<Buffer, (Self, MemoryError)> {
        if self.domain.here().is_err() {
            let gone = MemoryError::Gone(self.id());
            return Err((self, gone));
        }
        let region = self.region.take().expect(ALWAYS_THERE);
        region.deregister().map_err(|(region, error)| {
            self.region = Some(region);
            (self, error)
        })
    }
}

impl Deref for MemoryRegion {
    type Target = Region;

    fn deref(&self) -> &Region {
        self.region.as_ref().expect(ALWAYS_THERE)
    }
}

impl Drop for MemoryRegion {
    fn drop(&mut self) {
        if self.domain.here().is_err() {
            // A child by fork: the registration is its parent's, and the locks of the table may be held for ever.
            core::mem::forget(self.region.take());
        }
    }
}

impl fmt::Debug for MemoryRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// A place in a peer's memory: steering tag and tagged offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RemoteMemory {
    /// The region, as its owner's [`MemoryRegion::stag`](Region::stag) says.
    pub stag: Stag,
    /// The tagged offset of the first byte.
    pub offset: u64,
}

impl RemoteMemory {
    /// The place `bytes` further on.
    #[must_use]
    pub const fn at(self, bytes: u64) -> Self {
        Self { stag: self.stag, offset: self.offset.wrapping_add(bytes) }
    }

    pub(super) const fn target(self) -> RemoteTarget {
        RemoteTarget { stag: self.stag, offset: self.offset }
    }
}
