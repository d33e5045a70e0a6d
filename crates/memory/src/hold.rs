//! A long touch: memory kept alive, and access to it kept from ending, while bytes move.

use core::marker::PhantomData;
use core::mem;
use core::ptr::NonNull;
use std::sync::Arc;

use parking_lot::RwLockReadGuard;

use weft_base::Digest;
use weft_lock::{Entered, Rank};

use crate::memory::Memory;
use crate::{MemoryError, bytes};

/// A [`Slice`](weft_base::Slice) as an address, for a system call that must not block: until this is dropped the memory
/// is alive, and a thread that ends an access to it (invalidate, deregister, drop, view, edit) waits.
///
/// Do not call anything of [`Registry`](crate::Registry) or [`Region`](crate::Region) that ends an access while holding
/// one: that would wait for itself.
pub struct RawSlice {
    pointer: NonNull<u8>,
    length: usize,
    memory: Arc<Memory>,
    // The gate must be left by the thread that entered it, or lock debugging gets confused.
    not_send: PhantomData<RwLockReadGuard<'static, ()>>,
    _entered: Entered,
}

impl RawSlice {
    /// Enters the gate. Only under a lock under which the flags of `memory` were checked, and `pointer` located in it.
    pub(crate) fn new(memory: &Arc<Memory>, pointer: NonNull<u8>, length: usize) -> Self {
        let memory = Arc::clone(memory);
        // Recursive, for one system call may use several slices of a region while a thread waits to pass the gate.
        mem::forget(memory.gate.read_recursive());
        // Also under the table's lock, which comes after the gate: a thread that passes the gate alone waits for
        // nothing then, so no thread that enters it waits for a thread that waits.
        let entered = Rank::RegionGate.enter_unblocked();
        Self { pointer, length, memory, not_send: PhantomData, _entered: entered }
    }

    /// The address of the first byte: valid for reads and writes of [`RawSlice::length`] bytes as long as this lives,
    /// and no reference to those bytes may be made. The code that pinned or checked the slice decided whether writing
    /// is right.
    #[must_use]
    pub const fn pointer(&self) -> NonNull<u8> {
        self.pointer
    }

    /// Bytes.
    #[must_use]
    pub const fn length(&self) -> usize {
        self.length
    }

    /// Copies `bytes` to byte `offset` on and feeds them to `digest`, in one pass: for a slice that is filled piece by
    /// piece, where [`Registry::copy_in`](crate::Registry::copy_in) would look it up each time.
    ///
    /// # Panics
    /// When they reach past the end: that is a bug of the caller, never of a peer.
    ///
    /// # Errors
    /// [`MemoryError::Fault`].
    #[inline]
    pub fn copy_in<D: Digest>(&self, offset: usize, bytes: &[u8], digest: &mut D) -> Result<(), MemoryError> {
        let to = self.at(offset, bytes.len());
        // SAFETY: `at` has checked that these bytes are within, and they are valid while this lives; a copy may stop
        // anywhere.
        unsafe { self.touch(to, bytes.len(), || bytes::copy_in(to.as_ptr(), bytes, digest)) }
    }

    /// As [`RawSlice::copy_in`] without a digest, in one piece.
    ///
    /// # Panics
    /// As there.
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub(crate) fn place(&self, offset: usize, bytes: &[u8]) -> Result<(), MemoryError> {
        let to = self.at(offset, bytes.len());
        // SAFETY: As for a copy with a digest.
        unsafe { self.touch(to, bytes.len(), || bytes::place(to.as_ptr(), bytes)) }
    }

    /// Copies from byte `offset` on into `out` and feeds what arrived there to `digest`, in one pass.
    ///
    /// # Panics
    /// When `out` reaches past the end.
    ///
    /// # Errors
    /// [`MemoryError::Fault`].
    #[inline]
    pub fn copy_out<D: Digest>(&self, offset: usize, out: &mut [u8], digest: &mut D) -> Result<(), MemoryError> {
        let from = self.at(offset, out.len());
        // SAFETY: `at` has checked that these bytes are within, and they are valid while this lives; a copy may stop
        // anywhere.
        unsafe { self.touch(from, out.len(), || bytes::copy_out(from.as_ptr(), out, digest)) }
    }

    /// Runs `work`, which touches `length` bytes from `at` on, inside of the slice.
    ///
    /// # Safety
    /// As for [`guard::touch`](crate::guard::touch).
    #[inline]
    pub(crate) unsafe fn touch<R>(
        &self,
        at: NonNull<u8>,
        length: usize,
        work: impl FnOnce() -> R,
    ) -> Result<R, MemoryError> {
        // SAFETY: The caller's promise.
        unsafe { self.memory.touch(at, length, work) }
    }

    fn at(&self, offset: usize, length: usize) -> NonNull<u8> {
        assert!(
            offset.checked_add(length).is_some_and(|end| end <= self.length),
            "{length} bytes at {offset} of a slice of {}",
            self.length
        );
        // SAFETY: It is inside the memory, which is one allocation, or right behind its last byte.
        unsafe { self.pointer.add(offset) }
    }
}

impl Drop for RawSlice {
    fn drop(&mut self) {
        // SAFETY: `new` entered the gate once, on this thread (this type is not `Send`), and forgot the guard.
        unsafe { self.memory.gate.force_unlock_read() };
    }
}
