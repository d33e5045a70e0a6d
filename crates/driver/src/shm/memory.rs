//! Memory that two processes map.

use core::ptr::{self, NonNull};
use core::sync::atomic::{Ordering, fence};
use std::ffi::CStr;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use weft_base::PortError;
use weft_ring::{BLOCK_BYTES, Block, Capacity, Span};

use super::lending_words::LendingWords;
use crate::error::{from_number, last_error};
use crate::fork;

/// The name in `/proc`, also shown by `weft stat`.
const NAME: &CStr = c"weft-shm";
/// The blocks of both rings, those of the lent runs, and the words for lending, on a page of their own; the rings
/// follow, the caller's first.
const HEAD_BYTES: usize = 4096;
/// Offset of the blocks of the lent runs.
const RUNS_AT: usize = 2 * BLOCK_BYTES;
/// Offset of the words for lending.
const LENDING_WORDS_AT: usize = RUNS_AT + 2 * BLOCK_BYTES;
/// Forbidden changes of the memory: shrinking, after which an access would kill (SIGBUS), and growing, which is never
/// needed.
const SEALS: i32 = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;

const _: () = assert!(
    LENDING_WORDS_AT + 2 * size_of::<LendingWords>() <= HEAD_BYTES
        && LENDING_WORDS_AT.is_multiple_of(align_of::<LendingWords>())
);

/// Makes memory for two empty rings that cannot shrink any more.
pub(super) fn make(capacity: Capacity) -> Result<OwnedFd, PortError> {
    create(length(capacity))
}

/// Makes memory of this many bytes, all zero, that cannot shrink any more.
pub(super) fn create(bytes: usize) -> Result<OwnedFd, PortError> {
    // SAFETY: The name is read during the call alone.
    let fd = unsafe { libc::memfd_create(NAME.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) };
    if fd < 0 {
        return Err(match last_error() {
            // Mostly a container's filter of system calls.
            number @ (libc::EPERM | libc::EACCES | libc::ENOSYS) => PortError::NoSharedMemory(number),
            number => from_number(number),
        });
    }
    // SAFETY: A new descriptor that has no other owner.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    // Allocated at once, so that a lack of memory fails here and not as a signal later.
    // SAFETY: The call touches no memory of this process.
    if unsafe { libc::fallocate(fd.as_raw_fd(), 0, 0, bytes as libc::off_t) } != 0 {
        return Err(from_number(last_error()));
    }
    // SAFETY: As above.
    if unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, SEALS) } != 0 {
        return Err(from_number(last_error()));
    }
    Ok(fd)
}

const fn length(capacity: Capacity) -> usize {
    HEAD_BYTES + 2 * capacity.bytes()
}

/// Which of the two rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// From the caller to the listener.
    ToListener,
    /// From the listener to the caller.
    ToCaller,
}

/// The identity of a file: unique as long as it is open or mapped somewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileId {
    pub(super) device: libc::dev_t,
    pub(super) inode: libc::ino_t,
}

/// The memory of two rings, mapped. The other side can write all of it at any time: there are no references to its
/// bytes.
#[derive(Debug)]
pub(super) struct Mapping {
    start: NonNull<u8>,
    capacity: Capacity,
    file: FileId,
    /// The process in which it is mapped: children by fork(2) have no such mapping, and may have another at the same
    /// address.
    generation: u64,
}

// SAFETY: The memory is mapped for the whole process, and is accessed by atomic loads and stores, or as bytes that may
// change at any time.
unsafe impl Send for Mapping {}
// SAFETY: As above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps memory that [`make`] has made, here or in another process.
    ///
    /// # Errors
    /// It is invalid: it could shrink, is not memory of the system's usual kind, or has another size. Or the system
    /// refused.
    pub(super) fn map(fd: BorrowedFd<'_>, capacity: Capacity) -> Result<Self, PortError> {
        let file = check(fd, length(capacity))?;
        // SAFETY: A new mapping at an address of the kernel's choice.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                length(capacity),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_POPULATE,
                fd.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(from_number(last_error()));
        }
        let start = NonNull::new(start.cast::<u8>()).ok_or(PortError::Exhausted)?;
        let mapping = Self { start, capacity, file, generation: fork::generation() };
        // SAFETY: The mapping made above, whole.
        if unsafe { libc::madvise(start.as_ptr().cast(), length(capacity), libc::MADV_DONTFORK) } != 0 {
            return Err(from_number(last_error()));
        }
        Ok(mapping)
    }

    pub(super) const fn capacity(&self) -> Capacity {
        self.capacity
    }

    pub(super) const fn file(&self) -> FileId {
        self.file
    }

    /// Whether it is mapped in this process.
    pub(super) fn is_here(&self) -> bool {
        self.generation == fork::generation()
    }

    /// The shared words of a ring.
    #[inline]
    pub(super) fn block(&self, direction: Direction) -> &Block {
        // SAFETY: Inside the mapping, and aligned, for the mapping starts on a page. It consists of atomics, for which
        // all bytes are valid and which others may change at any time, in this process or another. It stays as long as
        // `self`.
        unsafe { self.start.add(direction as usize * BLOCK_BYTES).cast::<Block>().as_ref() }
    }

    /// The shared words of the lent runs.
    #[inline]
    pub(super) fn runs(&self, direction: Direction) -> &Block {
        // SAFETY: As in `block`.
        unsafe { self.start.add(RUNS_AT + direction as usize * BLOCK_BYTES).cast::<Block>().as_ref() }
    }

    /// The words for lending of this direction.
    #[inline]
    pub(super) fn lending_words(&self, direction: Direction) -> &LendingWords {
        // SAFETY: As in `block`; they are atomics too.
        unsafe {
            self.start
                .add(LENDING_WORDS_AT + direction as usize * size_of::<LendingWords>())
                .cast::<LendingWords>()
                .as_ref()
        }
    }

    #[inline]
    fn bytes(&self, direction: Direction, span: Span) -> *mut u8 {
        let capacity = self.capacity.bytes();
        assert!(span.offset <= capacity && span.length <= capacity - span.offset, "{span:?} of {capacity} bytes");
        // SAFETY: Inside the mapping, as checked above.
        unsafe { self.start.as_ptr().add(HEAD_BYTES + direction as usize * capacity + span.offset) }
    }

    /// Copies into a ring.
    ///
    /// # Safety
    /// `from` is valid for reads of as many bytes until this returns. Others may change them meanwhile.
    pub(super) unsafe fn copy_in(&self, direction: Direction, span: Span, from: *const u8) {
        // SAFETY: The destination lies in the mapping, and no reference to it exists; the source is the caller's
        // promise, and is other memory. Where others write either at the same time, the bytes are wrong and nothing
        // else: no decision depends on them here.
        unsafe { ptr::copy_nonoverlapping(from, self.bytes(direction, span), span.length) };
    }

    /// Copies out of a ring.
    ///
    /// # Safety
    /// `to` is valid for writes of as many bytes until this returns. Others may read and write them meanwhile.
    pub(super) unsafe fn copy_out(&self, direction: Direction, span: Span, to: *mut u8) {
        // A polled flag may be among these: it becomes visible after everything that was placed before.
        fence(Ordering::Release);
        // SAFETY: As in `copy_in`, in the other direction.
        unsafe { ptr::copy_nonoverlapping(self.bytes(direction, span), to, span.length) };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.is_here() {
            // SAFETY: Made by `map`, and not used after this.
            unsafe { libc::munmap(self.start.as_ptr().cast(), length(self.capacity)) };
        }
    }
}

/// Checks that a passed descriptor is memory of this length that cannot shrink.
pub(super) fn check(fd: BorrowedFd<'_>, length: usize) -> Result<FileId, PortError> {
    let refused = Err(PortError::System(libc::EPROTO));
    // SAFETY: The call touches no memory.
    let seals = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GET_SEALS) };
    if seals < 0 || seals & libc::F_SEAL_SHRINK == 0 {
        return refused;
    }
    // Huge pages, for example, can run out on access.
    // SAFETY: All zero is a `statfs`, which is written during the call alone.
    let mut system: libc::statfs = unsafe { core::mem::zeroed() };
    // Neither type is the same with every C library.
    // SAFETY: As above.
    if unsafe { libc::fstatfs(fd.as_raw_fd(), &raw mut system) } != 0
        || i128::from(system.f_type) != i128::from(libc::TMPFS_MAGIC)
    {
        return refused;
    }
    // SAFETY: All zero is a `stat`, which is written during the call alone.
    let mut file: libc::stat = unsafe { core::mem::zeroed() };
    // SAFETY: As above.
    if unsafe { libc::fstat(fd.as_raw_fd(), &raw mut file) } != 0 || file.st_size != length as libc::off_t {
        return refused;
    }
    Ok(FileId { device: file.st_dev, inode: file.st_ino })
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use weft_ring::{Word, Words};

    use super::*;
    use crate::forbidden::forbid;
    use crate::fork::in_child;

    fn capacity() -> Capacity {
        Capacity::new(4096).unwrap()
    }

    fn memfd(flags: u32, bytes: i64, seals: i32) -> OwnedFd {
        // SAFETY: Calls that access no memory but a name; the descriptor has no other owner.
        unsafe {
            let fd = libc::memfd_create(NAME.as_ptr(), libc::MFD_ALLOW_SEALING | flags);
            assert!(fd >= 0);
            assert_eq!(libc::ftruncate(fd, bytes), 0);
            assert_eq!(libc::fcntl(fd, libc::F_ADD_SEALS, seals), 0);
            OwnedFd::from_raw_fd(fd)
        }
    }

    #[test]
    fn two_mappings_are_the_same_memory() {
        let fd = make(capacity()).unwrap();
        let (one, other) =
            (Mapping::map(fd.as_fd(), capacity()).unwrap(), Mapping::map(fd.as_fd(), capacity()).unwrap());
        one.block(Direction::ToCaller).store(Word::Consumed, 7);
        assert_eq!(other.block(Direction::ToCaller).load(Word::Consumed), 7);
        assert_eq!(other.block(Direction::ToListener).load(Word::Consumed), 0);
        let (span, mut read) = (Span { offset: 4090, length: 6 }, [0; 6]);
        // SAFETY: Arrays as long as the span.
        unsafe { one.copy_in(Direction::ToListener, span, b"at end".as_ptr()) };
        // SAFETY: As above.
        unsafe { other.copy_out(Direction::ToListener, span, read.as_mut_ptr()) };
        assert_eq!(&read, b"at end");
        // SAFETY: As above.
        unsafe { other.copy_out(Direction::ToCaller, Span { offset: 0, length: 6 }, read.as_mut_ptr()) };
        assert_eq!(read, [0; 6], "the rings do not overlap");
    }

    #[test]
    fn memory_that_was_made_here_does_not_shrink() {
        let fd = make(capacity()).unwrap();
        // SAFETY: The call touches no memory.
        assert_eq!(unsafe { libc::ftruncate(fd.as_raw_fd(), 0) }, -1);
    }

    #[test]
    fn what_could_kill_at_a_touch_is_refused() {
        let bytes = length(capacity()) as i64;
        let refused = |fd: &OwnedFd| Mapping::map(fd.as_fd(), capacity()).unwrap_err();
        let broken = PortError::System(libc::EPROTO);
        assert_eq!(refused(&memfd(0, bytes, libc::F_SEAL_GROW)), broken, "it can shrink");
        assert_eq!(refused(&memfd(0, bytes - 1, SEALS)), broken, "it is too short");
        assert_eq!(refused(&memfd(0, 2 * bytes, SEALS)), broken, "it is too long");
        let (pipe, _other) = std::io::pipe().unwrap();
        assert_eq!(refused(&pipe.into()), broken, "it is no memory");
        assert_eq!(refused(&memfd(0, bytes, SEALS | libc::F_SEAL_WRITE)), PortError::NotPermitted);
        assert!(Mapping::map(memfd(0, bytes, SEALS).as_fd(), capacity()).is_ok());
    }

    #[test]
    fn a_system_that_gives_none_is_told_from_one_that_has_no_more() {
        let made = std::thread::spawn(|| {
            forbid(&[libc::SYS_memfd_create]);
            make(capacity())
        });
        let error = made.join().unwrap().unwrap_err();
        assert_eq!(error, PortError::NoSharedMemory(libc::EPERM));
        assert!(error.to_string().contains("memfd_create"), "{error}");
    }

    #[test]
    fn a_child_does_not_have_it() {
        let fd = make(capacity()).unwrap();
        let mapping = Mapping::map(fd.as_fd(), capacity()).unwrap();
        let (start, mut pages) = (mapping.start.as_ptr(), [0u8; 1]);
        let outcome = in_child(|| {
            // mincore(2) fails where nothing is mapped.
            // SAFETY: One byte is written for one page.
            let mapped = unsafe { libc::mincore(start.cast(), HEAD_BYTES, pages.as_mut_ptr()) } == 0;
            i32::from(mapped) * 2 + i32::from(mapping.is_here())
        });
        assert_eq!(outcome, 0);
        assert!(mapping.is_here());
    }
}
