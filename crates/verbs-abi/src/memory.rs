//! Protection domains and memory regions: the program's memory, where it lies.

use core::ffi::c_uint;
use core::ptr::NonNull;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, PoisonError, RwLock};

use weft::verbs::{Access, Buffer, MemoryRegion, ProtectionDomain, RegionAttributes, Slice, Stag};

use crate::abi::{
    IBV_ACCESS_HUGETLB, IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_MW_BIND, IBV_ACCESS_OPTIONAL_RANGE,
    IBV_ACCESS_REMOTE_ATOMIC, IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_ZERO_BASED, ibv_sge,
};
use crate::border::{Counted, Users, Using};
use crate::errno::Errno;

/// A protection domain.
pub(crate) struct Domain {
    pub(crate) domain: ProtectionDomain,
    keys: RwLock<HashMap<u32, Key, BuildHasherDefault<KeyHasher>>>,
    users: Users,
}

/// What stands behind an `lkey`.
#[derive(Clone, Copy)]
struct Key {
    /// The whole region; its length in `length`, for a slice has 32 bits.
    region: Slice,
    base: u64,
    length: u64,
}

impl Counted for Domain {
    fn users(&self) -> &Users {
        &self.users
    }
}

/// The memory of a request is not there: no such key, or the range reaches outside. It is an error of the work, not of
/// its posting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadKey;

impl Domain {
    pub(crate) fn new(domain: ProtectionDomain) -> Self {
        Self { domain, keys: RwLock::default(), users: Users::default() }
    }

    /// The slice of a scatter or gather entry.
    ///
    /// # Errors
    /// [`BadKey`].
    #[inline]
    pub(crate) fn slice(&self, entry: &ibv_sge) -> Result<Slice, BadKey> {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        let key = keys.get(&entry.lkey).ok_or(BadKey)?;
        let offset = entry.addr.checked_sub(key.base).ok_or(BadKey)?;
        let end = offset.checked_add(entry.length.into()).ok_or(BadKey)?;
        if end > key.length {
            return Err(BadKey);
        }
        Ok(Slice { offset, length: entry.length, ..key.region })
    }

    fn add(&self, region: &MemoryRegion) {
        let whole = Slice { region: region.id(), offset: 0, length: 0 };
        let key = Key { region: whole, base: region.base(), length: region.length() };
        self.keys.write().unwrap_or_else(PoisonError::into_inner).insert(region.stag().0, key);
    }

    fn remove(&self, key: u32) {
        self.keys.write().unwrap_or_else(PoisonError::into_inner).remove(&key);
    }
}

/// STags, and numbers of the NIC's queue pairs, are of our own making: they spread as they are.
#[derive(Default)]
pub(crate) struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0 << 8 ^ self.0 >> 56 ^ u64::from(*byte));
    }

    fn write_u32(&mut self, key: u32) {
        self.0 = u64::from(key) << 32 | u64::from(key);
    }
}

/// A memory region.
pub(crate) struct Registration {
    // Before the domain, which it lives in. Always there before the end.
    region: Option<MemoryRegion>,
    domain: Using<Domain>,
    place: Place,
    key: u32,
}

/// Where a region lies, and what it may be used for, as a program says it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) address: usize,
    pub(crate) length: usize,
    /// The address by which work requests name its first byte.
    pub(crate) base: u64,
    pub(crate) access: c_uint,
}

impl Registration {
    /// Registers memory of the program.
    ///
    /// # Errors
    /// It is not mapped, or can't be written though that is wanted; rights that don't go together or are not had; a
    /// limit.
    ///
    /// # Safety
    /// The memory is the program's, which keeps libibverbs' rules: only the NIC writes there while work
    /// uses it. It may unmap it at any time.
    pub(crate) unsafe fn new(domain: Using<Domain>, place: Place) -> Result<Self, Errno> {
        // SAFETY: The caller's promise.
        let buffer = unsafe { buffer(&place) }?;
        Self::of(domain, place, buffer, None)
    }

    /// The same under the keys of this one, which ends first.
    ///
    /// # Errors
    /// As for [`Registration::new`], with this one as it was; or without it, where a limit is reached.
    ///
    /// # Safety
    /// As for [`Registration::new`].
    pub(crate) unsafe fn replaced(self, domain: Using<Domain>, place: Place) -> Result<Self, (Option<Self>, Errno)> {
        // SAFETY: The caller's promise.
        let buffer = match unsafe { buffer(&place) } {
            Ok(buffer) => buffer,
            Err(error) => return Err((Some(self), error)),
        };
        let stag = Stag(self.key());
        drop(self);
        Self::of(domain, place, buffer, Some(stag)).map_err(|error| (None, error))
    }

    fn of(domain: Using<Domain>, place: Place, buffer: Buffer, stag: Option<Stag>) -> Result<Self, Errno> {
        let mut attributes = RegionAttributes::new(access(place.access)?);
        attributes.base = if place.access & IBV_ACCESS_ZERO_BASED != 0 { 0 } else { place.base };
        attributes.stag = stag;
        let region = domain.domain.register_with(buffer, &attributes)?;
        domain.add(&region);
        let key = region.stag().0;
        Ok(Self { region: Some(region), key, domain, place })
    }

    /// Its `lkey` and `rkey`.
    pub(crate) fn key(&self) -> u32 {
        self.key
    }

    /// Where it lies.
    pub(crate) fn place(&self) -> Place {
        self.place
    }

    /// Its domain.
    pub(crate) fn domain(&self) -> &Arc<Domain> {
        self.domain.shared()
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.domain.remove(self.key());
        // The program may free the memory now, whatever is posted with it.
        if let Some(region) = self.region.take() {
            region.revoke();
        }
    }
}

/// The memory of a place, if it is there.
///
/// # Errors
/// It is not mapped, or can't be written though that is wanted; or rights that are not had.
///
/// # Safety
/// As for [`Registration::new`].
unsafe fn buffer(place: &Place) -> Result<Buffer, Errno> {
    let is_writable = access(place.access)?.contains(Access::LOCAL_WRITE);
    let start = NonNull::new(core::ptr::with_exposed_provenance_mut::<u8>(place.address)).ok_or(Errno::FAULT)?;
    if place.length == 0 {
        return Err(Errno::INVALID);
    }
    // SAFETY: The caller's promise.
    Ok(unsafe { Buffer::foreign_checked(start, place.length, is_writable) }?)
}

/// The NIC's rights for those of `ibv_access_flags`. Optional ones are ignored.
///
/// # Errors
/// Peers may write and the program may not, or a right that is not had here.
pub(crate) fn access(flags: c_uint) -> Result<Access, Errno> {
    const GRANTED: [(c_uint, Access); 4] = [
        (IBV_ACCESS_LOCAL_WRITE, Access::LOCAL_WRITE),
        (IBV_ACCESS_REMOTE_WRITE, Access::REMOTE_WRITE),
        (IBV_ACCESS_REMOTE_READ, Access::REMOTE_READ),
        (IBV_ACCESS_REMOTE_ATOMIC, Access::REMOTE_ATOMIC),
    ];
    // Windows bound to a region would need the right; there are none, so it changes nothing.
    const WITHOUT_EFFECT: c_uint =
        IBV_ACCESS_MW_BIND | IBV_ACCESS_HUGETLB | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_OPTIONAL_RANGE;
    let mut access = Access::LOCAL_READ;
    let mut left = flags & !WITHOUT_EFFECT;
    for (flag, right) in GRANTED {
        if flags & flag != 0 {
            access |= right;
            left &= !flag;
        }
    }
    if left != 0 {
        return Err(Errno::UNSUPPORTED);
    }
    if access.is_remotely_writable() && !access.contains(Access::LOCAL_WRITE) {
        return Err(Errno::INVALID);
    }
    Ok(access)
}

/// What a peer may do, of `qp_access_flags`. Others among them say nothing.
pub(crate) fn peer_rights(flags: c_uint) -> Access {
    const REMOTE: [(c_uint, Access); 3] = [
        (IBV_ACCESS_REMOTE_WRITE, Access::REMOTE_WRITE),
        (IBV_ACCESS_REMOTE_READ, Access::REMOTE_READ),
        (IBV_ACCESS_REMOTE_ATOMIC, Access::REMOTE_ATOMIC),
    ];
    let granted = REMOTE.into_iter().filter(|(flag, _)| flags & flag != 0);
    granted.fold(Access::LOCAL_READ, |rights, (_, right)| rights | right)
}

#[cfg(test)]
mod tests {
    use crate::abi::IBV_ACCESS_ON_DEMAND;

    use super::*;

    #[test]
    fn rights_are_the_nics_own() {
        assert_eq!(access(0), Ok(Access::LOCAL_READ));
        assert_eq!(access(0b1111), Ok(Access::all()));
        assert_eq!(access(IBV_ACCESS_REMOTE_READ), Ok(Access::REMOTE_READ));
        assert_eq!(access(IBV_ACCESS_LOCAL_WRITE | 1 << 20 | IBV_ACCESS_HUGETLB), Ok(Access::LOCAL_WRITE));
        assert_eq!(access(IBV_ACCESS_REMOTE_WRITE), Err(Errno::INVALID), "peers may, the program may not");
        assert_eq!(access(IBV_ACCESS_REMOTE_ATOMIC), Err(Errno::INVALID));
        assert_eq!(access(IBV_ACCESS_ON_DEMAND), Err(Errno::UNSUPPORTED));
    }

    #[test]
    fn rights_of_queue_pairs_are_those_of_peers() {
        assert_eq!(peer_rights(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND), Access::LOCAL_READ);
        assert_eq!(peer_rights(IBV_ACCESS_REMOTE_WRITE), Access::REMOTE_WRITE);
        assert_eq!(peer_rights(!0), Access::REMOTE_READ | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC);
    }

    #[test]
    fn keys_are_spread() {
        let hash = |key: u32| {
            let mut hasher = KeyHasher::default();
            hasher.write_u32(key);
            hasher.finish()
        };
        assert_ne!(hash(1), hash(2));
        assert_ne!(hash(1) >> 57, hash(1 << 31) >> 57, "the top bits tell keys apart as well");
    }
}
