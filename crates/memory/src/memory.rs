//! One registered buffer, and the flags that say what may touch it now.

use core::ptr::NonNull;
use core::sync::atomic::AtomicU32;

use std::sync::Arc;

use weft_base::{DomainId, RegionId, Stag};
use weft_lock::{Mutex, Rank};

use crate::borrows::Borrows;
use crate::standing::Standing;
use crate::{Access, Buffer, MemoryError, RemoteRight, guard};

/// One registered buffer.
pub(crate) struct Memory {
    pub(crate) id: RegionId,
    pub(crate) stag: Stag,
    /// Whether the owner has chosen the STag.
    pub(crate) is_stag_chosen: bool,
    pub(crate) domain: DomainId,
    pub(crate) access: Access,
    /// The tagged offset of the first byte.
    pub(crate) base: u64,
    pub(crate) length: u64,
    pointer: NonNull<u8>,
    /// Something else owns the bytes, and may unmap them at any time.
    is_foreign: bool,
    /// Taken by deregistration, else freed with this.
    buffer: Mutex<Option<Buffer>>,
    pub(crate) standing: Standing,
    borrows: Borrows,
    pub(crate) watch: Option<Arc<dyn Watch>>,
    /// Held shared during long touches; passed exclusively by a thread that waits for their end.
    pub(crate) gate: parking_lot::RwLock<()>,
}

// SAFETY: The pointer belongs to `buffer`, which is `Send`; code that dereferences it says there why it may.
unsafe impl Send for Memory {}
// SAFETY: As above; all other fields are `Sync`.
unsafe impl Sync for Memory {}

/// What decides how a new region may be used.
pub(crate) struct Grant<'a> {
    pub(crate) domain: DomainId,
    pub(crate) attributes: &'a RegionAttributes,
}

/// Gets a call for each access of a peer to a region.
pub trait Watch: Send + Sync {
    /// A peer's message has done this to the region: a write has been placed whole, a read was requested, an atomic
    /// operation was executed. `owner` is what that peer is connected to: the id of an endpoint, or 0.
    ///
    /// Called by the thread that runs the NIC, under its locks: it may only note the access, and wake the thread that
    /// does the rest.
    fn accessed(&self, right: RemoteRight, owner: u64);
}

/// How a region is registered.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct RegionAttributes {
    /// The access rights.
    pub access: Access,
    /// The tagged offset of its first byte on the wire.
    pub base: u64,
    /// A STag of the owner's own choice, if no other region of the NIC has it. `None`: one that no peer can guess, as
    /// RFC 5042 section 6.1.1 wants it. One that is chosen can be guessed, so that every peer with a connection in the
    /// same protection domain reaches the region; and it may be chosen again as soon as the region is gone.
    pub stag: Option<Stag>,
    /// Gets a call for each access of a peer to it.
    pub watch: Option<Arc<dyn Watch>>,
}

impl RegionAttributes {
    /// These rights, the first byte at tagged offset 0, and a STag that no peer can guess.
    #[must_use]
    pub fn new(access: Access) -> Self {
        Self { access, ..Self::default() }
    }
}

impl Memory {
    pub(crate) fn new(id: RegionId, stag: Stag, grant: &Grant<'_>, buffer: Buffer) -> Self {
        Self {
            id,
            stag,
            is_stag_chosen: grant.attributes.stag.is_some(),
            domain: grant.domain,
            access: grant.attributes.access,
            base: grant.attributes.base,
            length: buffer.len() as u64,
            pointer: buffer.pointer(),
            is_foreign: buffer.is_foreign(),
            buffer: Mutex::new(Rank::RegionBuffer, Some(buffer)),
            standing: Standing::new(),
            borrows: Borrows::new(AtomicU32::new(0)),
            watch: grant.attributes.watch.clone(),
            gate: parking_lot::RwLock::new(()),
        }
    }

    /// The address of a range, when it lies inside.
    #[inline]
    pub(crate) fn locate(&self, offset: u64, length: u64) -> Result<NonNull<u8>, MemoryError> {
        if offset.checked_add(length).is_none_or(|end| end > self.length) {
            return Err(MemoryError::OutOfBounds { offset, length, region_length: self.length });
        }
        // SAFETY: `offset` is at most the buffer's length, so the result lies inside the allocation or just behind it.
        Ok(unsafe { self.pointer.add(offset as usize) })
    }

    /// Runs `work`, which touches `length` bytes from `at` on, as [`Memory::locate`] has found them.
    ///
    /// # Errors
    /// They are not there any more.
    ///
    /// # Safety
    /// As for [`guard::touch`].
    #[inline]
    pub(crate) unsafe fn touch<R>(
        &self,
        at: NonNull<u8>,
        length: usize,
        work: impl FnOnce() -> R,
    ) -> Result<R, MemoryError> {
        if !self.is_foreign {
            return Ok(work());
        }
        // SAFETY: The caller's promise.
        unsafe { guard::touch(at, length, work) }.map_err(|_| MemoryError::fault(at, length))
    }

    /// Where it begins.
    pub(crate) fn address(&self) -> u64 {
        self.pointer.addr().get() as u64
    }

    /// Whether any peer may touch bytes now.
    pub(crate) fn is_exposed(&self) -> bool {
        self.standing.is_remote_open() && self.access.is_remote()
    }

    pub(crate) fn is_borrowed(&self) -> bool {
        self.borrows.is_any()
    }

    /// A reference comes. Only under the table's write lock, so that no thread is between its check and its touch.
    pub(crate) fn borrow(&self) {
        self.borrows.begin();
    }

    /// A reference has gone. A thread that takes the table's lock after its owner released it sees what was done
    /// through it.
    pub(crate) fn end_borrow(&self) {
        self.borrows.end();
    }

    /// Waits until every long touch that has begun is over.
    pub(crate) fn drain(&self) {
        let _entered = Rank::RegionGate.enter();
        drop(self.gate.write());
    }

    /// Puts another owner of these bytes, and perhaps of others around them, in the place of the buffer.
    pub(crate) fn replace_buffer(&self, buffer: Buffer) {
        let before = self.pointer.addr().get().checked_sub(buffer.pointer().addr().get());
        let is_inside = before.is_some_and(|before| before as u64 + self.length <= buffer.len() as u64);
        assert!(is_inside, "other bytes");
        *self.buffer.lock() = Some(buffer);
    }

    /// Gives the buffer out. Only when nothing can reach this memory any more.
    pub(crate) fn take_buffer(&self) -> Option<Buffer> {
        self.buffer.lock().take()
    }
}
