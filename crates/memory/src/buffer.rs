//! The memory that a region is made of.

use core::fmt;
use core::mem::ManuallyDrop;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use core::slice;
use std::alloc::{Layout, alloc_zeroed, dealloc};

use crate::{MemoryError, guard};

/// Bytes that can be registered and come back from [`Region::deregister`](crate::Region::deregister): what the
/// application gave (`Vec<u8>`, `Box<[u8]>`), or pages of their own ([`Buffer::zeroed`]). To use it, it is a `[u8]`.
pub struct Buffer {
    pointer: NonNull<u8>,
    length: usize,
    origin: Origin,
}

/// Where the bytes came from, and so how they are given back.
#[derive(Clone, Copy)]
enum Origin {
    Vector {
        capacity: usize,
    },
    /// Allocated with this layout.
    Pages(Layout),
    /// Mapped, as pages of their own.
    Mapped,
    Foreign,
}

// SAFETY: A buffer owns its bytes as a `Vec<u8>` does (or its maker promised as much), and `u8` is `Send`.
unsafe impl Send for Buffer {}
// SAFETY: Through a shared buffer the bytes can only be read.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// The alignment of [`Buffer::zeroed`], in bytes: a page.
    pub const PAGE: usize = 4096;

    /// Buffers of this many bytes or more are pages of their own.
    const LARGE: usize = 128 * 1024;

    /// `length` zero bytes that start on a page.
    ///
    /// # Errors
    /// [`MemoryError::OutOfMemory`].
    pub fn zeroed(length: usize) -> Result<Self, MemoryError> {
        if length == 0 {
            return Ok(Vec::new().into());
        }
        let out_of_memory = MemoryError::OutOfMemory { length: length as u64 };
        if length >= Self::LARGE && !cfg!(miri) {
            let pointer = map(length).ok_or(out_of_memory)?;
            return Ok(Self { pointer, length, origin: Origin::Mapped });
        }
        let layout = Layout::from_size_align(length, Self::PAGE).map_err(|_| out_of_memory)?;
        // SAFETY: The layout's size is not zero.
        let pointer = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(out_of_memory)?;
        Ok(Self { pointer, length, origin: Origin::Pages(layout) })
    }

    /// Memory that something else owns. It is never freed here.
    ///
    /// # Safety
    /// Until the buffer is dropped, which includes the time that a region made of it is registered or in flight,
    /// `length` bytes from `pointer` on must be initialised and valid for reads and writes from any thread, and no Rust
    /// reference to them may exist while peers or work in flight may write them.
    #[must_use]
    pub const unsafe fn foreign(pointer: NonNull<u8>, length: usize) -> Self {
        Self { pointer, length, origin: Origin::Foreign }
    }

    /// As [`Buffer::foreign`], if the memory is there now, and can be written if that is wanted: what registration
    /// with an adapter checks, too (ibv_reg_mr(3)). Starts to catch the faults of memory that goes in spite of the
    /// promise ([`watch_faults`](crate::watch_faults)).
    ///
    /// # Errors
    /// [`MemoryError::Unusable`].
    ///
    /// # Safety
    /// As for [`Buffer::foreign`]; but if the memory goes while work uses it, that work fails, and nothing else
    /// happens.
    pub unsafe fn foreign_checked(pointer: NonNull<u8>, length: usize, writable: bool) -> Result<Self, MemoryError> {
        guard::watch_faults();
        guard::check(pointer, length, writable)?;
        // SAFETY: The caller's promise.
        Ok(unsafe { Self::foreign(pointer, length) })
    }

    pub(crate) const fn pointer(&self) -> NonNull<u8> {
        self.pointer
    }

    /// Whether something else owns it, and may unmap it at any time.
    pub(crate) const fn is_foreign(&self) -> bool {
        matches!(self.origin, Origin::Foreign)
    }
}

/// Zeroed pages, which the system takes when they are touched first. An allocator does not leave them alone: what it
/// gives out as zeroed it may have zeroed itself.
fn map(length: usize) -> Option<NonNull<u8>> {
    let (rights, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: A new mapping, wherever there is room: nothing is mapped there.
    let start = unsafe { libc::mmap(core::ptr::null_mut(), length, rights, kind, -1, 0) };
    if start == libc::MAP_FAILED { None } else { NonNull::new(start.cast()) }
}

impl From<Vec<u8>> for Buffer {
    fn from(bytes: Vec<u8>) -> Self {
        let mut bytes = ManuallyDrop::new(bytes);
        let origin = Origin::Vector { capacity: bytes.capacity() };
        // SAFETY: A vector's pointer is never null.
        let pointer = unsafe { NonNull::new_unchecked(bytes.as_mut_ptr()) };
        Self { pointer, length: bytes.len(), origin }
    }
}

impl From<Box<[u8]>> for Buffer {
    fn from(bytes: Box<[u8]>) -> Self {
        bytes.into_vec().into()
    }
}

impl From<Buffer> for Vec<u8> {
    /// Costs nothing for what was a `Vec<u8>` or `Box<[u8]>` before; else a copy.
    fn from(buffer: Buffer) -> Self {
        match buffer.origin {
            Origin::Vector { capacity } => {
                let buffer = ManuallyDrop::new(buffer);
                // SAFETY: These three came from one vector, which was forgotten then as this buffer is now.
                unsafe { Self::from_raw_parts(buffer.pointer.as_ptr(), buffer.length, capacity) }
            }
            Origin::Pages(_) | Origin::Mapped | Origin::Foreign => buffer.to_vec(),
        }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: The bytes are valid and initialised (zeroed, from a vector, or promised); the holder of the buffer
        // has exclusive access to them, for a registered buffer is out of reach inside its region.
        unsafe { slice::from_raw_parts(self.pointer.as_ptr(), self.length) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: As for `deref`, and the buffer is borrowed exclusively.
        unsafe { slice::from_raw_parts_mut(self.pointer.as_ptr(), self.length) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        match self.origin {
            Origin::Vector { capacity } => {
                // SAFETY: These three came from one vector that was forgotten; nothing uses them after this.
                drop(unsafe { Vec::from_raw_parts(self.pointer.as_ptr(), self.length, capacity) });
            }
            // SAFETY: Allocated in `zeroed` with this layout; nothing uses it after this.
            Origin::Pages(layout) => unsafe { dealloc(self.pointer.as_ptr(), layout) },
            Origin::Mapped => {
                // SAFETY: Mapped in `zeroed`, with this length; nothing uses it after this.
                unsafe { libc::munmap(self.pointer.as_ptr().cast(), self.length) };
            }
            Origin::Foreign => {}
        }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of this process that are in memory.
    fn resident() -> usize {
        let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
        pages.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * Buffer::PAGE
    }

    #[test]
    #[cfg_attr(miri, ignore = "it has no pages")]
    fn large_buffers_start_on_a_page_and_take_pages_when_they_are_touched() {
        const LENGTH: usize = 256 << 20;
        let before = resident();
        let buffer = Buffer::zeroed(LENGTH).unwrap();
        assert!(resident().saturating_sub(before) < LENGTH / 2, "{before} bytes before");
        assert_eq!((buffer.pointer().addr().get() % Buffer::PAGE, buffer.len()), (0, LENGTH));
        for length in [1, Buffer::PAGE, Buffer::LARGE - 1, Buffer::LARGE, Buffer::LARGE + 1] {
            let buffer = Buffer::zeroed(length).unwrap();
            assert_eq!((buffer.pointer().addr().get() % Buffer::PAGE, buffer.len()), (0, length));
            assert!(buffer.iter().all(|byte| *byte == 0));
        }
    }

    #[test]
    fn a_vector_comes_back_as_itself() {
        let mut bytes = Vec::with_capacity(100);
        bytes.extend_from_slice(b"hello");
        let address = bytes.as_ptr();
        let mut buffer = Buffer::from(bytes);
        buffer[0] = b'j';
        let bytes = Vec::from(buffer);
        assert_eq!((bytes.as_slice(), bytes.as_ptr(), bytes.capacity()), (&b"jello"[..], address, 100));
    }

    #[test]
    fn pages_are_aligned_and_zero() {
        let buffer = Buffer::zeroed(5000).unwrap();
        assert_eq!(buffer.as_ptr().addr() % Buffer::PAGE, 0);
        assert!(buffer.len() == 5000 && buffer.iter().all(|byte| *byte == 0));
        assert_eq!(Vec::from(buffer), vec![0; 5000]);
        assert!(Buffer::zeroed(0).unwrap().is_empty());
        assert_eq!(Buffer::zeroed(usize::MAX).unwrap_err(), MemoryError::OutOfMemory { length: u64::MAX });
    }

    #[test]
    fn foreign_memory_is_not_freed() {
        let mut owner = vec![7u8; 10];
        let pointer = NonNull::new(owner.as_mut_ptr()).unwrap();
        // SAFETY: `owner` outlives the buffer and is not touched meanwhile.
        let buffer = unsafe { Buffer::foreign(pointer, 10) };
        assert_eq!(buffer[9], 7);
        drop(buffer);
        assert_eq!(owner, [7; 10]);
    }
}
