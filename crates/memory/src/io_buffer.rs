//! Memory that an application lends for the time of one operation, without registering it.

use core::fmt;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;

use arrayvec::ArrayVec;
use weft_base::{Digest, DomainId, MAX_GATHER};

use crate::{Access, Buffer, MemoryError, Region, Registry, bytes, guard};

/// Memory lent for one operation: of Rust's own, which comes back with the completion ([`IoBuffer::into_buffer`]), or
/// the caller's, which promises that it stays ([`IoBuffer::foreign`]). Bytes are copied out of it and into it; for
/// one-sided transfers it is registered until they end ([`IoBuffer::register`]).
///
/// When an I/O buffer of Rust's own memory is dropped while work in flight still uses its regions, that memory is freed
/// after the last of that work.
pub struct IoBuffer {
    parts: Parts,
    owner: Option<Buffer>,
    registered: Option<Box<Registered>>,
}

type Regions = ArrayVec<Region, MAX_GATHER>;

/// What is registered of an I/O buffer.
#[derive(Default)]
struct Registered {
    /// Of all of it, piece by piece.
    whole: Regions,
    /// Of ranges of it, by their numbers.
    ranges: Vec<(u64, Regions)>,
}

enum Parts {
    One(Part),
    /// Behind a pointer, for few operations have several.
    Several(Box<ArrayVec<Part, MAX_GATHER>>),
}

#[derive(Clone, Copy)]
struct Part {
    pointer: NonNull<u8>,
    length: usize,
}

// SAFETY: It refers to memory that its I/O buffer owns, or whose lender promised that it can be used from any thread.
unsafe impl Send for Part {}
// SAFETY: As above; and what is done through a shared I/O buffer only reads.
unsafe impl Sync for Part {}

impl IoBuffer {
    /// No bytes.
    #[must_use]
    pub const fn empty() -> Self {
        Self { parts: Parts::One(Part { pointer: NonNull::dangling(), length: 0 }), owner: None, registered: None }
    }

    /// Memory of another owner, in one piece.
    ///
    /// # Safety
    /// Until this is dropped, and no work in flight uses a region that [`IoBuffer::register`] made of it, `length`
    /// bytes from `pointer` on must be initialised and valid for reads from any thread, and nothing else may write them
    /// meanwhile. If the operation writes (a receive, a read, the result of an atomic, or anything that calls
    /// [`IoBuffer::copy_in`], registers with a right to write, or writes through [`IoBuffer::regions`]), they must be
    /// valid for writes, too, and nothing else may read them meanwhile.
    #[must_use]
    pub const unsafe fn foreign(pointer: NonNull<u8>, length: usize) -> Self {
        Self { parts: Parts::One(Part { pointer, length }), owner: None, registered: None }
    }

    /// Memory of another owner, in up to [`MAX_GATHER`] pieces that are one run of bytes to the operation. `None` when
    /// there are more.
    ///
    /// # Safety
    /// As for [`IoBuffer::foreign`], for each piece.
    #[must_use]
    pub unsafe fn foreign_parts(parts: impl IntoIterator<Item = (NonNull<u8>, usize)>) -> Option<Self> {
        let mut all = ArrayVec::<Part, MAX_GATHER>::new();
        for (pointer, length) in parts.into_iter().filter(|(_, length)| *length > 0) {
            all.try_push(Part { pointer, length }).ok()?;
        }
        let parts = match all.as_slice() {
            [] => return Some(Self::empty()),
            [one] => Parts::One(*one),
            _ => Parts::Several(Box::new(all)),
        };
        Some(Self { parts, owner: None, registered: None })
    }

    /// Bytes of all pieces together.
    #[must_use]
    pub fn length(&self) -> usize {
        self.parts().iter().map(|part| part.length).sum()
    }

    /// Whether it is memory of Rust's own, which nothing else uses until it comes back.
    #[must_use]
    pub const fn is_owned(&self) -> bool {
        self.owner.is_some()
    }

    /// The buffer that was lent, if it was one of Rust's own, and no work in flight uses it.
    #[must_use]
    pub fn into_buffer(mut self) -> Option<Buffer> {
        self.unregister().ok()?;
        self.owner.take()
    }

    /// Copies from byte `offset` on into `out`, and feeds it to `digest`.
    ///
    /// # Panics
    /// When `out` reaches past the end: that is a bug of the caller, never of a peer.
    ///
    /// # Errors
    /// [`MemoryError::Fault`]: the lender has unmapped it.
    #[inline]
    pub fn copy_out<D: Digest>(&self, offset: usize, out: &mut [u8], digest: &mut D) -> Result<(), MemoryError> {
        let mut out = out;
        let mut copied = Ok(());
        self.each(offset, out.len(), |pointer, length| {
            let (now, rest) = core::mem::take(&mut out).split_at_mut(length);
            // SAFETY: `each` gives pieces that lie inside, and their lender promised that they can be read. A copy may
            // stop anywhere.
            copied =
                copied.and(unsafe { self.touch(pointer, length, || bytes::copy_out(pointer.as_ptr(), now, digest)) });
            out = rest;
        });
        copied
    }

    /// Copies `bytes` to byte `offset` on.
    ///
    /// # Panics
    /// When they reach past the end: that is a bug of the caller, never of a peer.
    ///
    /// # Errors
    /// [`MemoryError::Fault`]: the lender has unmapped it.
    #[inline]
    pub fn copy_in<D: Digest>(&mut self, offset: usize, bytes: &[u8], digest: &mut D) -> Result<(), MemoryError> {
        let mut rest = bytes;
        let mut copied = Ok(());
        self.each(offset, bytes.len(), |pointer, length| {
            let (now, others) = rest.split_at(length);
            // SAFETY: `each` gives pieces that lie inside, and their lender promised that they can be written. A copy
            // may stop anywhere.
            copied =
                copied.and(unsafe { self.touch(pointer, length, || bytes::copy_in(pointer.as_ptr(), now, digest)) });
            rest = others;
        });
        copied
    }

    /// Runs `work`, which touches a piece of this memory.
    ///
    /// # Safety
    /// As for [`guard::touch`].
    #[inline]
    unsafe fn touch<R>(&self, at: NonNull<u8>, length: usize, work: impl FnOnce() -> R) -> Result<R, MemoryError> {
        if self.is_owned() {
            return Ok(work());
        }
        // SAFETY: The caller's promise.
        unsafe { guard::touch(at, length, work) }.map_err(|_| MemoryError::fault(at, length))
    }

    /// Registers each piece that is not empty, in order: what a peer, or a work request of our own, may use until
    /// [`IoBuffer::unregister`] or the I/O buffer's end. What was registered of all of it before is replaced.
    ///
    /// # Errors
    /// A limit is reached, the domain is unknown, or work in flight uses what was registered before.
    pub fn register(
        &mut self,
        registry: &Registry,
        domain: DomainId,
        access: Access,
    ) -> Result<&[Region], MemoryError> {
        if let Some(registered) = &mut self.registered {
            end(&mut registered.whole)?;
        }
        let regions = self.regions_of(registry, domain, access, 0, self.length())?;
        let registered = self.registered.get_or_insert_default();
        registered.whole = regions;
        Ok(&registered.whole)
    }

    /// Registers `length` bytes from `offset` on and nothing else, until [`IoBuffer::unregister_range`] with this
    /// number, or the I/O buffer's end.
    ///
    /// # Errors
    /// A limit is reached, or the domain is unknown.
    ///
    /// # Panics
    /// When the range reaches past the end: that is a bug of the caller, never of a peer.
    pub fn register_range(
        &mut self,
        registry: &Registry,
        domain: DomainId,
        access: Access,
        (offset, length): (usize, usize),
        number: u64,
    ) -> Result<&[Region], MemoryError> {
        let regions = self.regions_of(registry, domain, access, offset, length)?;
        let ranges = &mut self.registered.get_or_insert_default().ranges;
        ranges.push((number, regions));
        Ok(ranges.last().map_or(&[], |(_, regions)| regions))
    }

    fn regions_of(
        &self,
        registry: &Registry,
        domain: DomainId,
        access: Access,
        offset: usize,
        length: usize,
    ) -> Result<Regions, MemoryError> {
        let mut regions = Regions::new();
        let mut failure = None;
        self.each(offset, length, |pointer, length| {
            if length == 0 || failure.is_some() {
                return;
            }
            // SAFETY: `each` gives pieces that lie inside. Their lender promised as much, for regions made of it too;
            // and what is Rust's own is kept until nothing uses them.
            let memory = unsafe { Buffer::foreign(pointer, length) };
            match registry.register(domain, memory, access, 0) {
                Ok(region) => regions.push(region),
                Err(error) => failure = Some(error),
            }
        });
        failure.map_or(Ok(regions), Err)
    }

    /// What is registered of all of it, piece by piece.
    #[must_use]
    pub fn regions(&self) -> &[Region] {
        self.registered.as_deref().map_or(&[], |registered| &registered.whole)
    }

    /// Ends the registration of the ranges with this number.
    ///
    /// # Errors
    /// Work in flight uses it still: then what is left of it stays.
    pub fn unregister_range(&mut self, number: u64) -> Result<(), MemoryError> {
        let Some(registered) = &mut self.registered else { return Ok(()) };
        for (_, regions) in registered.ranges.iter_mut().filter(|(known, _)| *known == number) {
            end(regions)?;
        }
        registered.ranges.retain(|(_, regions)| !regions.is_empty());
        Ok(())
    }

    /// Ends the registration of all of it, and of all ranges.
    ///
    /// # Errors
    /// Work in flight uses it still: then what is left of it stays.
    pub fn unregister(&mut self) -> Result<(), MemoryError> {
        let Some(registered) = &mut self.registered else { return Ok(()) };
        let Registered { whole, ranges } = &mut **registered;
        // All that can end does, whatever else can't.
        let ended = ranges.iter_mut().map(|(_, regions)| regions).chain([whole]).map(end).fold(Ok(()), Result::and);
        ended?;
        self.registered = None;
        Ok(())
    }

    fn parts(&self) -> &[Part] {
        match &self.parts {
            Parts::One(part) => core::slice::from_ref(part),
            Parts::Several(parts) => parts,
        }
    }

    /// Calls `work` with the address and length of each piece of a range.
    #[inline]
    fn each(&self, mut offset: usize, mut length: usize, mut work: impl FnMut(NonNull<u8>, usize)) {
        for part in self.parts() {
            if length == 0 {
                return;
            }
            if offset >= part.length {
                offset -= part.length;
                continue;
            }
            let now = length.min(part.length - offset);
            // SAFETY: Inside the piece, which is one allocation.
            work(unsafe { part.pointer.add(offset) }, now);
            offset = 0;
            length -= now;
        }
        assert!(length == 0, "{length} bytes past the end of an I/O buffer");
    }
}

/// Ends regions. Those that work in flight uses stay.
fn end(regions: &mut Regions) -> Result<(), MemoryError> {
    while let Some(region) = regions.pop() {
        if let Err((region, error)) = region.deregister() {
            regions.push(region);
            return Err(error);
        }
    }
    Ok(())
}

impl Drop for IoBuffer {
    fn drop(&mut self) {
        // Out of the way first, so that nothing that goes wrong can free it while it is registered.
        let owner = ManuallyDrop::new(self.owner.take());
        let ended = self.unregister();
        let Some(owner) = ManuallyDrop::into_inner(owner) else { return };
        if ended.is_ok() {
            return drop(owner);
        }
        let left = self.registered.take().unwrap_or_default();
        let mut regions = left.ranges.into_iter().flat_map(|(_, regions)| regions).chain(left.whole);
        match (regions.next(), regions.next()) {
            (Some(region), None) => region.keep(owner),
            // Work in flight uses several regions of it, and which of them is the last is unknown.
            _ => core::mem::forget(owner),
        }
    }
}

impl From<Buffer> for IoBuffer {
    fn from(buffer: Buffer) -> Self {
        let part = Part { pointer: buffer.pointer(), length: buffer.len() };
        Self { parts: Parts::One(part), owner: Some(buffer), registered: None }
    }
}

impl From<Vec<u8>> for IoBuffer {
    fn from(bytes: Vec<u8>) -> Self {
        Buffer::from(bytes).into()
    }
}

impl fmt::Debug for IoBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IoBuffer({} bytes)", self.length())
    }
}

#[cfg(test)]
mod tests {
    use weft_base::NoDigest;

    use super::*;
    use crate::{Limits, LocalRight, RemoteRight};

    fn registry() -> (Registry, DomainId) {
        let registry = Registry::new(7, Limits::default());
        let domain = registry.allocate_domain().unwrap();
        (registry, domain)
    }

    #[test]
    fn a_range_spans_pieces() {
        let (mut first, mut second) = (vec![1u8, 2, 3], vec![4u8, 5]);
        let pieces = [&mut first, &mut second].map(|piece| (NonNull::new(piece.as_mut_ptr()).unwrap(), piece.len()));
        // SAFETY: Both outlive the I/O buffer, and nothing touches them meanwhile.
        let mut io_buffer = unsafe { IoBuffer::foreign_parts(pieces) }.unwrap();
        assert_eq!(io_buffer.length(), 5);
        let mut out = [0; 3];
        io_buffer.copy_out(1, &mut out, &mut NoDigest).unwrap();
        assert_eq!(out, [2, 3, 4]);
        io_buffer.copy_in(2, &[9, 8, 7], &mut NoDigest).unwrap();
        drop(io_buffer);
        assert_eq!((first, second), (vec![1, 2, 9], vec![8, 7]));
    }

    #[test]
    fn a_buffer_comes_back() {
        let mut io_buffer = IoBuffer::from(vec![0; 4]);
        assert!(io_buffer.is_owned() && !IoBuffer::empty().is_owned());
        io_buffer.copy_in(0, b"weft", &mut NoDigest).unwrap();
        assert_eq!(&*io_buffer.into_buffer().unwrap(), b"weft");
        assert!(IoBuffer::empty().into_buffer().is_none());
    }

    #[test]
    #[should_panic(expected = "past the end")]
    fn past_the_end_is_a_bug() {
        IoBuffer::from(vec![0; 4]).copy_out(2, &mut [0; 3], &mut NoDigest).unwrap();
    }

    #[test]
    fn too_many_pieces_are_refused() {
        let mut byte = 0u8;
        let pointer = NonNull::from(&mut byte);
        // SAFETY: Never touched.
        assert!(unsafe { IoBuffer::foreign_parts([(pointer, 1); MAX_GATHER + 1]) }.is_none());
        // SAFETY: As above.
        assert_eq!(unsafe { IoBuffer::foreign_parts([]) }.unwrap().length(), 0);
    }

    #[test]
    fn each_piece_is_a_region_until_the_loan_ends() {
        let (registry, domain) = registry();
        let (mut first, mut second) = (vec![1u8; 8], vec![2u8; 16]);
        let pieces = [&mut first, &mut second].map(|piece| (NonNull::new(piece.as_mut_ptr()).unwrap(), piece.len()));
        // SAFETY: Both outlive the I/O buffer, and nothing touches them meanwhile.
        let mut io_buffer = unsafe { IoBuffer::foreign_parts(pieces) }.unwrap();
        let regions = io_buffer.register(&registry, domain, Access::all()).unwrap();
        assert_eq!(regions.iter().map(Region::length).collect::<Vec<_>>(), [8, 16]);
        let stags: Vec<_> = regions.iter().map(Region::stag).collect();
        let place = registry.check_remote(domain, stags[1], 4, 2, RemoteRight::Write).unwrap();
        registry.copy_in(&place, &[9, 9], &mut NoDigest).unwrap();
        let mut seen = [0; 3];
        io_buffer.copy_out(8 + 3, &mut seen, &mut NoDigest).unwrap();
        assert_eq!(seen, [2, 9, 9]);
        drop(io_buffer);
        assert!(stags.iter().all(|stag| registry.check_remote(domain, *stag, 0, 1, RemoteRight::Read).is_err()));
        assert!(registry.copy_in(&place, &[0, 0], &mut NoDigest).is_err());
        assert_eq!(second[4..6], [9, 9]);
    }

    #[test]
    fn a_range_is_registered_for_itself_until_it_ends() {
        let (registry, domain) = registry();
        let (mut first, mut second) = (vec![1u8; 8], vec![2u8; 16]);
        let pieces = [&mut first, &mut second].map(|piece| (NonNull::new(piece.as_mut_ptr()).unwrap(), piece.len()));
        // SAFETY: Both outlive the I/O buffer, and nothing touches them meanwhile.
        let mut io_buffer = unsafe { IoBuffer::foreign_parts(pieces) }.unwrap();
        let stags =
            |regions: &[Region]| regions.iter().map(|region| (region.stag(), region.length())).collect::<Vec<_>>();
        let one = stags(io_buffer.register_range(&registry, domain, Access::all(), (6, 5), 6).unwrap());
        let other = stags(io_buffer.register_range(&registry, domain, Access::all(), (11, 13), 11).unwrap());
        assert_eq!(one.iter().chain(&other).map(|(_, length)| *length).collect::<Vec<_>>(), [2, 3, 13]);
        assert!(io_buffer.register_range(&registry, domain, Access::all(), (24, 0), 24).unwrap().is_empty());
        let good = |stag, length| registry.check_remote(domain, stag, 0, length, RemoteRight::Write).is_ok();
        assert!(good(one[1].0, 3) && !good(one[1].0, 4), "the next byte is the other's");
        let place = registry.check_remote(domain, one[1].0, 0, 3, RemoteRight::Write).unwrap();
        registry.copy_in(&place, &[9; 3], &mut NoDigest).unwrap();
        io_buffer.register(&registry, domain, Access::LOCAL_WRITE).unwrap();
        assert!(good(one[0].0, 2) && good(other[0].0, 13), "all of it is something else");
        io_buffer.unregister_range(6).unwrap();
        assert!(!good(one[0].0, 1) && !good(one[1].0, 1) && good(other[0].0, 13));
        assert_eq!(io_buffer.regions().len(), 2);
        io_buffer.unregister().unwrap();
        assert!(!good(other[0].0, 1) && io_buffer.regions().is_empty());
        drop(io_buffer);
        assert_eq!((second[..4].to_vec(), registry.release_domain(domain)), (vec![9, 9, 9, 2], Ok(())));
    }

    #[test]
    fn a_range_in_flight_outlives_the_loan() {
        let (registry, domain) = registry();
        let mut io_buffer = IoBuffer::from(vec![7; 8]);
        let slice =
            io_buffer.register_range(&registry, domain, Access::LOCAL_READ, (2, 4), 1).unwrap()[0].slice(..).unwrap();
        registry.pin(domain, slice, LocalRight::Read).unwrap();
        assert_eq!(io_buffer.unregister_range(1), Err(MemoryError::InFlight { pins: 1 }));
        assert_eq!(io_buffer.unregister(), Err(MemoryError::InFlight { pins: 1 }));
        drop(io_buffer);
        let mut seen = [0; 4];
        registry.copy_out(&slice, &mut seen, &mut NoDigest).unwrap();
        assert_eq!(seen, [7; 4]);
        registry.unpin(slice);
        assert_eq!(registry.release_domain(domain), Ok(()));
    }

    #[test]
    fn memory_in_flight_outlives_the_loan() {
        let (registry, domain) = registry();
        let mut io_buffer = IoBuffer::from(vec![7; 8]);
        let slice = io_buffer.register(&registry, domain, Access::LOCAL_READ).unwrap()[0].slice(..).unwrap();
        registry.pin(domain, slice, LocalRight::Read).unwrap();
        assert_eq!(io_buffer.unregister(), Err(MemoryError::InFlight { pins: 1 }));
        assert!(io_buffer.register(&registry, domain, Access::LOCAL_READ).is_err());
        assert_eq!(io_buffer.regions().len(), 1);
        drop(io_buffer);
        let mut seen = [0; 8];
        registry.copy_out(&slice, &mut seen, &mut NoDigest).unwrap();
        assert_eq!(seen, [7; 8]);
        registry.unpin(slice);
        assert_eq!(registry.release_domain(domain), Ok(()));
    }

    #[test]
    fn a_registration_that_fails_leaves_nothing() {
        let registry = Registry::new(7, Limits { regions: 1, ..Limits::default() });
        let domain = registry.allocate_domain().unwrap();
        let (mut first, mut second) = ([0u8; 8], [0u8; 8]);
        let pieces = [&mut first, &mut second].map(|piece| (NonNull::from(piece).cast(), 8));
        // SAFETY: Both outlive the I/O buffer, and nothing touches them meanwhile.
        let mut io_buffer = unsafe { IoBuffer::foreign_parts(pieces) }.unwrap();
        assert!(matches!(
            io_buffer.register(&registry, domain, Access::LOCAL_READ),
            Err(MemoryError::Limit { name: "regions", .. })
        ));
        assert!(io_buffer.regions().is_empty());
        assert_eq!(registry.release_domain(domain), Ok(()));
    }
}
