//! mmap(2) of a board's file.

use core::ptr::{self, NonNull};
use core::slice;
use core::sync::atomic::AtomicU64;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use super::layout::Rows;

/// A board's file in this process's memory. It stays mapped when the file is removed; truncating the file (only the
/// same user may) kills the process.
#[derive(Debug)]
pub(super) struct Mapping {
    start: NonNull<u8>,
    length: usize,
    rows: Rows,
}

// SAFETY: The memory belongs to no thread, and is read and written through atomics alone.
unsafe impl Send for Mapping {}
// SAFETY: As above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the `length` bytes of the file, in which the rows lie.
    pub(super) fn new(file: &File, length: usize, rows: Rows) -> io::Result<Self> {
        assert!(rows.end() <= length && rows.offset.is_multiple_of(align_of::<AtomicU64>()));
        // SAFETY: A new mapping at an address of the kernel's choice overlaps no other memory.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mapped at address 0"))?;
        Ok(Self { start, length, rows })
    }

    /// The counters of one engine, none for an engine that does not exist.
    pub(super) fn row(&self, engine: usize) -> &[AtomicU64] {
        if engine >= self.rows.engines {
            return &[];
        }
        // SAFETY: `new` has checked that all rows lie inside the mapping and begin at a multiple of 8 of it, which
        // itself begins at a page; it stays until drop, which the borrow does not outlive. All writers write whole
        // words through atomics.
        unsafe {
            let row = self.start.add(self.rows.offset_of(engine));
            slice::from_raw_parts(row.cast().as_ptr(), self.rows.counters)
        }
    }

    /// The table rows of one engine, none for an engine that does not exist.
    pub(super) fn table(&self, engine: usize) -> &[AtomicU64] {
        if engine >= self.rows.engines || self.rows.shape.rows == 0 {
            return &[];
        }
        // SAFETY: As above: `Rows::end`, below which all of the table lies, is inside the mapping.
        unsafe {
            let rows = self.start.add(self.rows.table_of(engine));
            slice::from_raw_parts(rows.cast().as_ptr(), self.rows.shape.part())
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: It was mapped with this length, and is no longer borrowed.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}
