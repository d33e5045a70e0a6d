//! The memory table of one NIC.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use weft_base::{Digest, DomainId, Gather, MAX_LISTED, NoDigest, RegionId, Slice, Stag};
use weft_lock::{Rank, RwLock};

use crate::combine::{Operands, combine_all};
use crate::hold::RawSlice;
use crate::list::Pieces;
use crate::memory::{Grant, Memory, RegionAttributes};
use crate::slice_list::SliceList;
use crate::table::{BY_STAG, Table};
use crate::{
    Access, AtomicOperation, Buffer, Combine, Element, Limits, LocalRight, MemoryError, Region, RemoteFault,
    RemoteRight, Seed, bytes,
};

/// Touches up to this many bytes are done under the table's lock, which saves entering the gate.
const SHORT: u32 = 4096;

/// The memory table of one NIC. Clones are the same table.
#[derive(Clone)]
pub struct Registry {
    table: Arc<RwLock<Table>>,
    /// Whether there has been a region with a watch.
    is_watched: Arc<AtomicBool>,
}

impl Registry {
    /// An empty table. `seed` decides the STags: [`unguessable_seed`](crate::unguessable_seed) in production, any
    /// number in tests.
    #[must_use]
    pub fn new(seed: impl Into<Seed>, limits: Limits) -> Self {
        let table = RwLock::new(Rank::MemoryTable, Table::new(seed.into(), limits));
        Self { table: Arc::new(table), is_watched: Arc::default() }
    }

    /// A new protection domain.
    ///
    /// # Errors
    /// [`MemoryError::Limit`].
    pub fn allocate_domain(&self) -> Result<DomainId, MemoryError> {
        self.table.write().allocate_domain()
    }

    /// Ends a protection domain. Its number is not used again.
    ///
    /// # Errors
    /// [`MemoryError::DomainInUse`] while regions remain, and [`MemoryError::UnknownDomain`].
    pub fn release_domain(&self, domain: DomainId) -> Result<(), MemoryError> {
        self.table.write().release_domain(domain)
    }

    /// Registers a buffer, which belongs to the region from then on. `base` is the tagged offset of its first byte on
    /// the wire.
    ///
    /// # Errors
    /// A limit, an unknown domain, or a base so high that the end does not fit into 64 bits. The buffer is freed then.
    pub fn register(
        &self,
        domain: DomainId,
        memory: impl Into<Buffer>,
        access: Access,
        base: u64,
    ) -> Result<Region, MemoryError> {
        self.register_with(domain, memory, &RegionAttributes { access, base, ..RegionAttributes::default() })
    }

    /// Registers a buffer, as [`Registry::register`] does, with all its attributes.
    ///
    /// # Errors
    /// As [`Registry::register`], and [`MemoryError::StagInUse`].
    pub fn register_with(
        &self,
        domain: DomainId,
        memory: impl Into<Buffer>,
        attributes: &RegionAttributes,
    ) -> Result<Region, MemoryError> {
        if attributes.watch.is_some() {
            // Before any peer can know of the region.
            self.is_watched.store(true, Ordering::Relaxed);
        }
        let memory = self.table.write().insert(&Grant { domain, attributes }, memory.into())?;
        Ok(Region::new(self.clone(), memory))
    }

    /// Registers `length` zero bytes that start on a page.
    ///
    /// # Errors
    /// As [`Registry::register`], and [`MemoryError::OutOfMemory`].
    pub fn register_zeroed(
        &self,
        domain: DomainId,
        length: usize,
        access: Access,
        base: u64,
    ) -> Result<Region, MemoryError> {
        self.register(domain, Buffer::zeroed(length)?, access, base)
    }

    /// Says that work in flight uses a slice: its memory stays, even when the region is dropped, until the matching
    /// [`Registry::unpin`].
    ///
    /// # Errors
    /// The region is gone, of another domain, without the right, being borrowed, or shorter.
    pub fn pin(&self, domain: DomainId, slice: Slice, need: LocalRight) -> Result<(), MemoryError> {
        self.table.read().pin(domain, &slice, need)
    }

    /// Ends one [`Registry::pin`].
    pub fn unpin(&self, slice: Slice) {
        self.unpin_all(&[slice]);
    }

    /// Pins all slices, or none.
    ///
    /// # Errors
    /// Those of [`Registry::pin`], for the first slice that can't be pinned.
    pub fn pin_all(&self, domain: DomainId, slices: &[Slice], need: LocalRight) -> Result<(), MemoryError> {
        let table = self.table.read();
        if let [slice] = slices {
            return table.pin(domain, slice, need);
        }
        for (pinned, slice) in slices.iter().enumerate() {
            if let Err(error) = table.pin(domain, slice, need) {
                // No owner can have gone meanwhile, for that takes the write lock: there is nothing to sweep.
                slices[..pinned].iter().for_each(|slice| {
                    table.unpin(slice);
                });
                return Err(error);
            }
        }
        Ok(())
    }

    /// Ends one [`Registry::pin_all`].
    pub fn unpin_all(&self, slices: &[Slice]) {
        let table = self.table.read();
        let leftover = slices.iter().fold(false, |leftover, slice| table.unpin(slice) | leftover);
        drop(table);
        if leftover {
            slices.iter().for_each(|slice| self.sweep(slice));
        }
    }

    /// Makes a list of slices, of any regions of one protection domain, which is one slice for work requests. Empty
    /// ones are left out. Which regions there are, and what rights they have, is checked when the list is pinned.
    ///
    /// # Errors
    /// More than [`MAX_LISTED`] slices, a list among them, or more bytes than a message can have.
    pub fn list(&self, slices: &[Slice]) -> Result<SliceList, MemoryError> {
        let mut pieces = Pieces::new();
        let mut length = 0u64;
        for slice in slices.iter().filter(|slice| slice.length > 0) {
            if slice.region.is_list() {
                return Err(MemoryError::NestedList);
            }
            pieces.try_push(*slice).map_err(|_| MemoryError::ListTooLong { most: MAX_LISTED })?;
            length += u64::from(slice.length);
        }
        let length = u32::try_from(length).map_err(|_| MemoryError::TooLong { length })?;
        let region = self.table.write().insert_list(pieces, false)?;
        Ok(SliceList::new(&self.table, Slice { region, offset: 0, length }))
    }

    /// A list of `length` bytes that are nowhere: it is pinned as others are, and every touch fails. For a request that
    /// is to be taken though its memory can't be used, and to fail when its turn comes.
    ///
    /// # Errors
    /// [`MemoryError::Limit`].
    pub fn void(&self, length: u32) -> Result<SliceList, MemoryError> {
        let region = self.table.write().insert_list(Pieces::new(), true)?;
        Ok(SliceList::new(&self.table, Slice { region, offset: 0, length }))
    }

    /// The slices of regions that make up a slice of a list; a slice of a region is its own.
    ///
    /// # Errors
    /// There is no such list, or it is shorter.
    #[cold]
    pub fn pieces(&self, slice: &Slice) -> Result<Pieces, MemoryError> {
        if !slice.region.is_list() {
            return Ok(core::iter::once(*slice).collect());
        }
        self.table.read().pieces(slice)
    }

    /// Whether a peer on a connection of `domain` may touch this range, and where it is. These are the checks before a
    /// byte is placed or read: RFC 5041 section 7.1, RFC 5040 section 7.1, RFC 5042 section 6.
    ///
    /// The slice is a remote access: touching it fails once that has ended, even while work in flight pins the region.
    /// Its [`RegionId`](weft_base::RegionId) therefore differs from [`Region::id`].
    ///
    /// # Errors
    /// What the peer did wrong.
    pub fn check_remote(
        &self,
        domain: DomainId,
        stag: Stag,
        tagged_offset: u64,
        length: u32,
        need: RemoteRight,
    ) -> Result<Slice, RemoteFault> {
        self.locate_remote(domain, stag, tagged_offset, length, need).map(|(slice, _)| slice)
    }

    /// As [`Registry::check_remote`], and the address of the first byte: for telling whether two ranges share memory,
    /// which they may under different STags.
    ///
    /// # Errors
    /// Those of [`Registry::check_remote`].
    pub fn locate_remote(
        &self,
        domain: DomainId,
        stag: Stag,
        tagged_offset: u64,
        length: u32,
        need: RemoteRight,
    ) -> Result<(Slice, u64), RemoteFault> {
        self.table.read().locate_remote(domain, stag, tagged_offset, length, need)
    }

    /// Tells the watch of a region, if it has one, that a peer has done this to it: a whole message, not each of its
    /// segments. `owner` is what the peer is connected to. No lock is held meanwhile.
    #[inline]
    pub fn report_access(&self, domain: DomainId, stag: Stag, right: RemoteRight, owner: u64) {
        if self.is_watched.load(Ordering::Relaxed) {
            self.tell_watch(domain, stag, right, owner);
        }
    }

    #[inline(never)]
    fn tell_watch(&self, domain: DomainId, stag: Stag, right: RemoteRight, owner: u64) {
        let watch = self.table.read().granted(domain, stag).ok().and_then(|memory| memory.watch.clone());
        if let Some(watch) = watch {
            watch.accessed(right, owner);
        }
    }

    /// Whether the bytes of a slice do not change while peers may read them ([`Access::STEADY`]).
    #[must_use]
    pub fn is_steady(&self, slice: &Slice) -> bool {
        self.table.read().reach(slice.region).is_ok_and(|memory| memory.access.contains(Access::STEADY))
    }

    /// Ends remote access to a region for the peer's Send with Invalidate (RFC 5040 section 5.3), as
    /// [`Registry::invalidate`] does.
    ///
    /// # Errors
    /// Those of [`Registry::invalidate`], and [`RemoteFault::NoRights`]: peers have none to it that could be ended.
    pub fn invalidate_remote(&self, domain: DomainId, stag: Stag) -> Result<(), RemoteFault> {
        if !self.table.read().granted(domain, stag)?.access.is_remote() {
            return Err(RemoteFault::NoRights);
        }
        self.invalidate(domain, stag)
    }

    /// Ends remote access to a region. Once this returns, no byte lands by remote access. Local work continues.
    ///
    /// # Errors
    /// No region has this STag, or it has been invalidated before, or it is of another domain.
    pub fn invalidate(&self, domain: DomainId, stag: Stag) -> Result<(), RemoteFault> {
        let table = self.table.write();
        let memory = Arc::clone(table.granted(domain, stag)?);
        memory.standing.close_remote();
        drop(table);
        memory.drain();
        Ok(())
    }

    /// Copies `bytes` into a slice of the same length and feeds them to `digest`, in one pass.
    ///
    /// # Errors
    /// The slice can't be touched (any more), or has another length.
    #[inline]
    pub fn copy_in<D: Digest>(&self, slice: &Slice, bytes: &[u8], digest: &mut D) -> Result<(), MemoryError> {
        same_length(slice.length, bytes.len())?;
        // SAFETY: `touch` vouches for as many bytes as the slice has. A copy and a checksum may stop anywhere.
        match unsafe { self.touch(slice, |pointer| bytes::copy_in(pointer.as_ptr(), bytes, digest)) } {
            Err(MemoryError::Gone(region)) if region.is_list() => self.copy_in_list(slice, bytes, digest),
            copied => copied,
        }
    }

    #[cold]
    fn copy_in_list<D: Digest>(&self, slice: &Slice, bytes: &[u8], digest: &mut D) -> Result<(), MemoryError> {
        let mut rest = bytes;
        for piece in self.pieces(slice)? {
            let (now, later) = rest.split_at(piece.length as usize);
            self.copy_in(&piece, now, digest)?;
            rest = later;
        }
        Ok(())
    }

    /// Copies a slice into `out`, which has the same length, and feeds what arrived there to `digest`, in one pass.
    ///
    /// # Errors
    /// The slice can't be touched (any more), or has another length.
    #[inline]
    pub fn copy_out<D: Digest>(&self, slice: &Slice, out: &mut [u8], digest: &mut D) -> Result<(), MemoryError> {
        same_length(slice.length, out.len())?;
        // SAFETY: `touch` vouches for as many bytes as the slice has. A copy and a checksum may stop anywhere.
        match unsafe { self.touch(slice, |pointer| bytes::copy_out(pointer.as_ptr(), out, digest)) } {
            Err(MemoryError::Gone(region)) if region.is_list() => self.copy_out_list(slice, out, digest),
            copied => copied,
        }
    }

    #[cold]
    fn copy_out_list<D: Digest>(&self, slice: &Slice, out: &mut [u8], digest: &mut D) -> Result<(), MemoryError> {
        let mut rest = out;
        for piece in self.pieces(slice)? {
            let (now, later) = rest.split_at_mut(piece.length as usize);
            self.copy_out(&piece, now, digest)?;
            rest = later;
        }
        Ok(())
    }

    /// Feeds a slice to `digest` without a copy. Bytes that are written meanwhile make the checksum wrong.
    ///
    /// # Errors
    /// The slice can't be touched (any more).
    #[inline]
    pub fn digest<D: Digest>(&self, slice: &Slice, digest: &mut D) -> Result<(), MemoryError> {
        // SAFETY: `touch` vouches for as many bytes as the slice has. A checksum may stop anywhere.
        let done =
            unsafe { self.touch(slice, |pointer| bytes::digest(pointer.as_ptr(), slice.length as usize, digest)) };
        match done {
            Err(MemoryError::Gone(region)) if region.is_list() => {
                self.pieces(slice)?.iter().try_for_each(|piece| self.digest(piece, digest))
            }
            done => done,
        }
    }

    /// Copies `bytes` into a gather list, from byte `skip` of it on.
    ///
    /// # Errors
    /// They reach past its end, or a slice can't be touched (any more); slices before that one are written then.
    pub fn copy_in_gather<D: Digest>(
        &self,
        gather: &Gather,
        skip: u32,
        mut bytes: &[u8],
        digest: &mut D,
    ) -> Result<(), MemoryError> {
        for slice in part_of(gather, skip, bytes.len())?.slices() {
            let (now, rest) = bytes.split_at(slice.length as usize);
            self.copy_in(slice, now, digest)?;
            bytes = rest;
        }
        Ok(())
    }

    /// Copies `bytes` to the beginning of a gather list whose slices are pinned, and ends the pins, as
    /// [`Registry::copy_in_gather`] and [`Registry::unpin_all`] do one after the other.
    ///
    /// # Errors
    /// As [`Registry::copy_in_gather`]. The pins are as they were then.
    pub fn fill_pinned(&self, gather: &Gather, bytes: &[u8]) -> Result<(), MemoryError> {
        let [slice] = gather.slices() else { return self.fill_pinned_parts(gather, bytes) };
        if bytes.is_empty() || bytes.len() > SHORT as usize || bytes.len() > slice.length as usize {
            return self.fill_pinned_parts(gather, bytes);
        }
        let table = self.table.read();
        let memory = match table.reach(slice.region) {
            Ok(memory) => memory,
            Err(_) => {
                drop(table);
                return self.fill_pinned_parts(gather, bytes);
            }
        };
        let pointer = memory.locate(slice.offset, bytes.len() as u64)?;
        // SAFETY: The region is held by the table's lock, and has as many bytes there; a copy may stop anywhere.
        unsafe {
            memory.touch(pointer, bytes.len(), || bytes::copy_in(pointer.as_ptr(), bytes, &mut NoDigest))?;
        }
        let leftover = table.unpin(slice);
        drop(table);
        if leftover {
            self.sweep(slice);
        }
        Ok(())
    }

    #[cold]
    fn fill_pinned_parts(&self, gather: &Gather, bytes: &[u8]) -> Result<(), MemoryError> {
        self.copy_in_gather(gather, 0, bytes, &mut NoDigest)?;
        self.unpin_all(gather.slices());
        Ok(())
    }

    /// A region may be over. The lock is released before the memory is freed.
    #[cold]
    fn sweep(&self, slice: &Slice) {
        if slice.region.is_list() {
            let freed = self.table.write().sweep_list(slice.region);
            return drop(freed);
        }
        let freed = self.table.write().sweep(slice.region);
        drop(freed);
    }

    /// Copies from a gather list into `out`, from byte `skip` of the list on.
    ///
    /// # Errors
    /// `out` is longer than what is left, or a slice can't be touched (any more).
    pub fn copy_out_gather<D: Digest>(
        &self,
        gather: &Gather,
        skip: u32,
        mut out: &mut [u8],
        digest: &mut D,
    ) -> Result<(), MemoryError> {
        if let ([slice], 0) = (gather.slices(), skip)
            && slice.length as usize == out.len()
        {
            return self.copy_out(slice, out, digest);
        }
        for slice in part_of(gather, skip, out.len())?.slices() {
            let (now, rest) = out.split_at_mut(slice.length as usize);
            self.copy_out(slice, now, digest)?;
            out = rest;
        }
        Ok(())
    }

    /// Feeds `length` bytes of a gather list to `digest`, from byte `skip` on.
    ///
    /// # Errors
    /// They reach past its end, or a slice can't be touched (any more).
    pub fn digest_gather<D: Digest>(
        &self,
        gather: &Gather,
        skip: u32,
        length: u32,
        digest: &mut D,
    ) -> Result<(), MemoryError> {
        part_of(gather, skip, length as usize)?.slices().iter().try_for_each(|slice| self.digest(slice, digest))
    }

    /// Does an atomic operation on 8 bytes, in the machine's byte order, and returns what they were before. It is
    /// atomic against other such operations and against [`Region`]'s loads and stores of 64 bits.
    ///
    /// # Errors
    /// The slice can't be touched (any more), is not 8 bytes long, or does not start at a multiple of 8: nothing is
    /// modified then (RFC 7306 section 5.1.1 and 5.1.2).
    pub fn atomic(&self, slice: &Slice, operation: AtomicOperation) -> Result<u64, MemoryError> {
        same_length(slice.length, 8)?;
        let work = |pointer: NonNull<u8>| {
            if !pointer.addr().get().is_multiple_of(8) {
                return Err(MemoryError::Misaligned { offset: slice.offset, size: 8 });
            }
            // SAFETY: `touch` vouches for 8 bytes, and they are aligned.
            Ok(unsafe { bytes::operate(pointer.as_ptr(), operation) })
        };
        // SAFETY: An atomic operation has been done, or not.
        unsafe { self.touch(slice, work) }?
    }

    /// Does an operation on each element of a slice. `operand` has as many elements ([`Combine::has_operand`]; else it
    /// is empty), `compare` too ([`Combine::compares`]; else empty), and `result` takes what they were before, unless
    /// it is empty. All are in the machine's byte order.
    ///
    /// Each element changes as one: against this and [`Registry::atomic`] by any registry of this process, and against
    /// [`Region`]'s loads and stores of its size. A [`Element::ComplexF64`], and an [`Element::ComplexF32`] that does
    /// not start at a multiple of 8, does so only against this; for others its parts change one after the other.
    ///
    /// # Errors
    /// The slice can't be touched (any more), the elements do not have the operation, the slice does not start at a
    /// multiple of [`Element::alignment`], or a length is wrong: nothing is modified then.
    pub fn combine(
        &self,
        slice: &Slice,
        element: Element,
        operation: Combine,
        operand: &[u8],
        compare: &[u8],
        result: &mut [u8],
    ) -> Result<(), MemoryError> {
        if !operation.applies_to(element) {
            return Err(MemoryError::Inapplicable { element, operation });
        }
        let count = slice.length as usize / element.size();
        same_length(slice.length, count * element.size())?;
        same_length(if operation.has_operand() { slice.length } else { 0 }, operand.len())?;
        same_length(if operation.compares() { slice.length } else { 0 }, compare.len())?;
        same_length(if result.is_empty() { 0 } else { slice.length }, result.len())?;
        let work = |pointer: NonNull<u8>| {
            if !pointer.addr().get().is_multiple_of(element.alignment()) {
                return Err(MemoryError::Misaligned { offset: slice.offset, size: element.alignment() as u64 });
            }
            let operands = Operands { operand, compare, result };
            // SAFETY: `touch` vouches for as many bytes as the slice has, and they are aligned.
            unsafe { combine_all(pointer.as_ptr(), count, element, operation, operands) }
                .map_err(|_| MemoryError::fault(pointer, slice.length as usize))
        };
        // SAFETY: Elements have been changed, or not; no lock is held when `combine_all` is abandoned.
        unsafe { self.touch(slice, work) }?
    }

    /// The address of a slice, for a system call.
    ///
    /// # Errors
    /// The slice can't be touched (any more).
    pub fn resolve(&self, slice: &Slice) -> Result<RawSlice, MemoryError> {
        let table = self.table.read();
        let memory = table.reach(slice.region)?;
        let pointer = memory.locate(slice.offset, u64::from(slice.length))?;
        Ok(RawSlice::new(memory, pointer, slice.length as usize))
    }

    /// The same bytes under the rights of their pins: they can be read until the pins end, also when the right of the
    /// peer that requested them is revoked meanwhile. For what has begun to be sent, and may have to be retransmitted.
    #[must_use]
    pub fn as_pinned(&self, gather: &Gather) -> Gather {
        gather.map(|slice| {
            let generation = slice.region.generation & !BY_STAG;
            Slice { region: RegionId { generation, ..slice.region }, ..slice }
        })
    }

    /// Calls `work` with the address of a slice, which is valid for its length during the call.
    ///
    /// # Safety
    /// As for [`guard::touch`](crate::guard::touch).
    #[inline]
    unsafe fn touch<R>(&self, slice: &Slice, work: impl FnOnce(NonNull<u8>) -> R) -> Result<R, MemoryError> {
        if slice.length > SHORT {
            let raw = self.resolve(slice)?;
            let pointer = raw.pointer();
            // SAFETY: The caller's promise.
            return unsafe { raw.touch(pointer, raw.length(), || work(pointer)) };
        }
        let table = self.table.read();
        let memory = table.reach(slice.region)?;
        let pointer = memory.locate(slice.offset, u64::from(slice.length))?;
        // SAFETY: The caller's promise.
        unsafe { memory.touch(pointer, slice.length as usize, || work(pointer)) }
    }

    /// The owner's handle goes: remote access ends, and the memory with the last pin.
    pub(crate) fn detach(&self, memory: &Memory) {
        let freed = self.table.write().detach(memory);
        drop(freed);
        memory.drain();
    }

    /// As [`Registry::detach`], and nothing touches the bytes any more, pinned or not.
    pub(crate) fn revoke(&self, memory: &Memory) {
        let mut table = self.table.write();
        // It never ends: as if its owner had a reference from now on.
        memory.borrow();
        let freed = table.detach(memory);
        drop(table);
        drop(freed);
        memory.drain();
    }

    /// As [`Registry::detach`], for an owner that wants the buffer back: refused while work in flight uses it.
    pub(crate) fn take_back(&self, memory: &Memory) -> Result<(), MemoryError> {
        let mut table = self.table.write();
        match memory.standing.pins() {
            0 => drop(table.detach(memory)),
            pins => return Err(MemoryError::InFlight { pins }),
        }
        drop(table);
        memory.drain();
        Ok(())
    }

    /// Begins a time in which references to the bytes exist, if nothing else can touch them.
    pub(crate) fn borrow(&self, memory: &Memory) -> Result<(), MemoryError> {
        let table = self.table.write();
        if memory.is_exposed() {
            return Err(MemoryError::Exposed(memory.id));
        }
        match memory.standing.pins() {
            0 => memory.borrow(),
            pins => return Err(MemoryError::InFlight { pins }),
        }
        drop(table);
        memory.drain();
        Ok(())
    }

    /// Ends such a time.
    pub(crate) fn end_borrow(&self, memory: &Memory) {
        // The lock orders what was done through the reference before what comes next.
        let _table = self.table.write();
        memory.end_borrow();
    }
}

impl core::fmt::Debug for Registry {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Registry").finish_non_exhaustive()
    }
}

fn same_length(slice: u32, given: usize) -> Result<(), MemoryError> {
    if slice as usize == given {
        Ok(())
    } else {
        Err(MemoryError::LengthMismatch { slice: u64::from(slice), given: given as u64 })
    }
}

/// A part of a gather list, where [`Gather::part`] would panic for one that does not lie inside.
fn part_of(gather: &Gather, skip: u32, length: usize) -> Result<Gather, MemoryError> {
    let (whole, length) = (u64::from(gather.length()), length as u64);
    match u32::try_from(length) {
        Ok(part) if u64::from(skip) + length <= whole => Ok(gather.part(skip, part)),
        _ => Err(MemoryError::OutOfBounds { offset: u64::from(skip), length, region_length: whole }),
    }
}

mod parts;

#[cfg(test)]
mod tests;
