//! The owner's handle of a registered buffer.

use core::fmt;
use core::ops::{Bound, RangeBounds};
use core::ptr::NonNull;
use core::slice;
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::Arc;

use weft_base::{NoDigest, RegionId, Slice, Stag};

use crate::hold::RawSlice;
use crate::memory::Memory;
use crate::{Access, Buffer, MemoryError, Registry, bytes};

/// A registered buffer. When it is dropped, remote access ends at once and the memory is freed as soon as no work in
/// flight uses it; [`Region::deregister`] gives the buffer back.
///
/// Offsets count from the start of the buffer, in bytes.
pub struct Region {
    registry: Registry,
    memory: Arc<Memory>,
}

impl Region {
    pub(crate) fn new(registry: Registry, memory: Arc<Memory>) -> Self {
        Self { registry, memory }
    }

    /// Its name in the registry.
    #[must_use]
    pub fn id(&self) -> RegionId {
        self.memory.id
    }

    /// The name under which peers address it.
    #[must_use]
    pub fn stag(&self) -> Stag {
        self.memory.stag
    }

    /// Bytes.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.memory.length
    }

    /// The tagged offset of the first byte.
    #[must_use]
    pub fn base(&self) -> u64 {
        self.memory.base
    }

    /// The rights that were granted.
    #[must_use]
    pub fn access(&self) -> Access {
        self.memory.access
    }

    /// A piece of it, for work requests.
    ///
    /// # Errors
    /// It reaches outside, or is longer than 2^32 - 1 bytes.
    pub fn slice(&self, range: impl RangeBounds<u64>) -> Result<Slice, MemoryError> {
        let region_length = self.length();
        let outside = |offset, length| MemoryError::OutOfBounds { offset, length, region_length };
        let start = match range.start_bound() {
            Bound::Included(start) => *start,
            Bound::Excluded(before) => before.checked_add(1).ok_or(outside(*before, 0))?,
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(last) => last.checked_add(1).ok_or(outside(start, u64::MAX))?,
            Bound::Excluded(end) => *end,
            Bound::Unbounded => region_length,
        };
        let length = end.checked_sub(start).ok_or(outside(start, 0))?;
        self.memory.locate(start, length)?;
        let length = u32::try_from(length).map_err(|_| MemoryError::TooLong { length })?;
        Ok(Slice { region: self.id(), offset: start, length })
    }

    /// Copies bytes out.
    ///
    /// # Errors
    /// The range reaches outside.
    pub fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), MemoryError> {
        let from = self.memory.locate(offset, out.len() as u64)?;
        // SAFETY: Inside the buffer, which lives as long as this handle. References that a view gave only read, and an
        // edit has the handle for itself.
        unsafe { bytes::copy_out(from.as_ptr(), out, &mut NoDigest) };
        Ok(())
    }

    /// Copies bytes in.
    ///
    /// # Errors
    /// The range reaches outside, or a view is in progress.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), MemoryError> {
        let to = self.writable(offset, bytes.len() as u64)?;
        // SAFETY: Inside the buffer, which lives as long as this handle; `to` keeps views away.
        unsafe { bytes::copy_in(to.pointer().as_ptr(), bytes, &mut NoDigest) };
        Ok(())
    }

    /// All bytes, copied.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.length() as usize];
        // The whole of it is inside.
        let _ = self.read(0, &mut bytes);
        bytes
    }

    /// Sets each byte to what `byte_at` says for its offset.
    ///
    /// # Errors
    /// A view is in progress.
    pub fn fill_with(&self, mut byte_at: impl FnMut(u64) -> u8) -> Result<(), MemoryError> {
        let mut block = [0; 1024];
        let mut offset = 0;
        while offset < self.length() {
            let length = (self.length() - offset).min(block.len() as u64) as usize;
            for (byte, at) in block[..length].iter_mut().zip(offset..) {
                *byte = byte_at(at);
            }
            self.write(offset, &block[..length])?;
            offset += length as u64;
        }
        Ok(())
    }

    /// Reads a byte that a peer may write.
    ///
    /// # Errors
    /// It lies outside.
    pub fn load_u8(&self, offset: u64, ordering: Ordering) -> Result<u8, MemoryError> {
        let at = self.aligned(offset, 1)?;
        // SAFETY: Inside the buffer, which lives as long as this handle.
        Ok(unsafe { AtomicU8::from_ptr(at.as_ptr()) }.load(for_load(ordering)))
    }

    /// Reads 32 bits that a peer may write, whole. An `ordering` that loads don't have counts as [`Ordering::SeqCst`].
    ///
    /// # Errors
    /// They lie outside, or not at a multiple of 4.
    pub fn load_u32(&self, offset: u64, ordering: Ordering) -> Result<u32, MemoryError> {
        let at = self.aligned(offset, 4)?;
        // SAFETY: Inside the buffer, which lives as long as this handle, and aligned.
        Ok(unsafe { AtomicU32::from_ptr(at.as_ptr().cast()) }.load(for_load(ordering)))
    }

    /// Reads 64 bits that a peer may write, whole. An `ordering` that loads don't have counts as [`Ordering::SeqCst`].
    ///
    /// # Errors
    /// They lie outside, or not at a multiple of 8.
    pub fn load_u64(&self, offset: u64, ordering: Ordering) -> Result<u64, MemoryError> {
        let at = self.aligned(offset, 8)?;
        // SAFETY: Inside the buffer, which lives as long as this handle, and aligned.
        Ok(unsafe { AtomicU64::from_ptr(at.as_ptr().cast()) }.load(for_load(ordering)))
    }

    /// Writes a byte.
    ///
    /// # Errors
    /// It lies outside, or a view is in progress.
    pub fn store_u8(&self, offset: u64, value: u8, ordering: Ordering) -> Result<(), MemoryError> {
        let at = self.writable(offset, 1)?;
        // SAFETY: Inside the buffer, which lives as long as this handle; `at` keeps views away.
        unsafe { AtomicU8::from_ptr(at.pointer().as_ptr()) }.store(value, for_store(ordering));
        Ok(())
    }

    /// Writes 32 bits, whole. An `ordering` that stores don't have counts as [`Ordering::SeqCst`].
    ///
    /// # Errors
    /// They lie outside, or not at a multiple of 4, or a view is in progress.
    pub fn store_u32(&self, offset: u64, value: u32, ordering: Ordering) -> Result<(), MemoryError> {
        self.aligned(offset, 4)?;
        let at = self.writable(offset, 4)?;
        // SAFETY: Inside the buffer, which lives as long as this handle, and aligned; `at` keeps views away.
        unsafe { AtomicU32::from_ptr(at.pointer().as_ptr().cast()) }.store(value, for_store(ordering));
        Ok(())
    }

    /// Writes 64 bits, whole. An `ordering` that stores don't have counts as [`Ordering::SeqCst`].
    ///
    /// # Errors
    /// They lie outside, or not at a multiple of 8, or a view is in progress.
    pub fn store_u64(&self, offset: u64, value: u64, ordering: Ordering) -> Result<(), MemoryError> {
        self.aligned(offset, 8)?;
        let at = self.writable(offset, 8)?;
        // SAFETY: Inside the buffer, which lives as long as this handle, and aligned; `at` keeps views away.
        unsafe { AtomicU64::from_ptr(at.pointer().as_ptr().cast()) }.store(value, for_store(ordering));
        Ok(())
    }

    /// Lends the bytes to `look`. Meanwhile no work request can use the region.
    ///
    /// # Errors
    /// Peers may touch the region, or work in flight uses it.
    pub fn view<R>(&self, read: impl FnOnce(&[u8]) -> R) -> Result<R, MemoryError> {
        let lent = Lent::new(self)?;
        // SAFETY: Inside the buffer, which lives as long as this handle. While `lent` lives nothing writes: the
        // registry refuses touches and pins, `writable` refuses the owner's, and an edit needs the handle for itself.
        Ok(read(unsafe { slice::from_raw_parts(lent.pointer()?.as_ptr(), self.length() as usize) }))
    }

    /// Lends the bytes to `change`. Meanwhile no work request can use the region.
    ///
    /// # Errors
    /// Peers may touch the region, or work in flight uses it.
    pub fn edit<R>(&mut self, change: impl FnOnce(&mut [u8]) -> R) -> Result<R, MemoryError> {
        let lent = Lent::new(self)?;
        // SAFETY: Inside the buffer, which lives as long as this handle. While `lent` lives nothing else touches it:
        // the registry refuses touches and pins, and the handle is borrowed exclusively.
        Ok(change(unsafe { slice::from_raw_parts_mut(lent.pointer()?.as_ptr(), self.length() as usize) }))
    }

    /// Ends remote access. Once this returns, no byte lands by it. Local work continues. Returns whether there was
    /// access to end.
    pub fn invalidate(&self) -> bool {
        self.registry.invalidate(self.memory.domain, self.memory.stag).is_ok()
    }

    /// Ends the registration, and every access with it, that of work in flight too, which fails: for memory that its
    /// owner may free or use for something else then. Once this returns, nothing touches it. (Where the bytes belong to
    /// the region, dropping it leaves them to work in flight.)
    pub fn revoke(self) {
        self.registry.revoke(&self.memory);
    }

    /// Ends the registration and gives the buffer back. Once this returns, nothing touches it.
    ///
    /// # Errors
    /// [`MemoryError::InFlight`], with the region as it was.
    pub fn deregister(self) -> Result<Buffer, (Self, MemoryError)> {
        if let Err(error) = self.registry.take_back(&self.memory) {
            return Err((self, error));
        }
        match self.memory.take_buffer() {
            Some(buffer) => Ok(buffer),
            None => unreachable!("a buffer is taken once, by the handle that is consumed for it"),
        }
    }

    /// Keeps the owner of the bytes until nothing uses them, in the place of the foreign buffer that was registered for
    /// it.
    pub(crate) fn keep(&self, owner: Buffer) {
        self.memory.replace_buffer(owner);
    }

    fn aligned(&self, offset: u64, size: u64) -> Result<NonNull<u8>, MemoryError> {
        let at = self.memory.locate(offset, size)?;
        if (at.addr().get() as u64).is_multiple_of(size) {
            Ok(at)
        } else {
            Err(MemoryError::Misaligned { offset, size })
        }
    }

    /// An address to write to, which keeps views away as long as it lives.
    fn writable(&self, offset: u64, length: u64) -> Result<RawSlice, MemoryError> {
        let pointer = self.memory.locate(offset, length)?;
        // First the gate, then the flag: a view sets the flag and then passes the gate, so one of both sees the other.
        let held = RawSlice::new(&self.memory, pointer, length as usize);
        if self.memory.is_borrowed() { Err(MemoryError::Borrowed(self.id())) } else { Ok(held) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if self.memory.standing.is_owned() {
            self.registry.detach(&self.memory);
        }
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Region")
            .field("id", &self.id())
            .field("length", &self.length())
            .field("base", &self.base())
            .field("access", &self.access())
            .finish_non_exhaustive()
    }
}

/// A time in which references to a region's bytes exist. It ends by being dropped, also when the closure panics.
struct Lent<'a>(&'a Region);

impl<'a> Lent<'a> {
    fn new(region: &'a Region) -> Result<Self, MemoryError> {
        region.registry.borrow(&region.memory)?;
        Ok(Self(region))
    }

    fn pointer(&self) -> Result<NonNull<u8>, MemoryError> {
        self.0.memory.locate(0, self.0.length())
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        self.0.registry.end_borrow(&self.0.memory);
    }
}

/// `load` panics on orderings that only stores have.
const fn for_load(ordering: Ordering) -> Ordering {
    match ordering {
        Ordering::Relaxed | Ordering::Acquire => ordering,
        _ => Ordering::SeqCst,
    }
}

/// `store` panics on orderings that only loads have.
const fn for_store(ordering: Ordering) -> Ordering {
    match ordering {
        Ordering::Relaxed | Ordering::Release => ordering,
        _ => Ordering::SeqCst,
    }
}

#[cfg(test)]
mod tests;
