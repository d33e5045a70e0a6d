//! A long touch: memory kept alive, and access to it kept from ending, while bytes move.

use core::marker::PhantomData;
use core::mem;
use core::ptr::NonNull;
use std::sync::Arc;

use parking_lot::RwLockReadGuard;

use crate::memory::Memory;

/// A [`Slice`](weft_base::Slice) as an address, for a system call that must not block: until this is dropped the memory is alive, and whoever ends
/// an access to it (invalidate, deregister, drop, view, edit) waits.
///
/// Do not call anything of [`Registry`](crate::Registry) or [`Region`](crate::Region) that ends an access while holding one: that would wait for itself.
pub struct RawSlice {
    pointer: NonNull<u8>,
    length: usize,
    memory: Arc<Memory>,
    // The gate must be left by the thread that entered it, or lock debugging gets confused.
    not_send: PhantomData<RwLockReadGuard<'static, ()>>,
}

impl RawSlice {
    /// Enters the gate. Only under a lock under which the flags of `memory` were looked at, and `pointer` located in it.
    pub(crate) fn new(memory: &Arc<Memory>, pointer: NonNull<u8>, length: usize) -> Self {
        let memory = Arc::clone(memory);
        // Recursive, for one system call may use several slices of a region while somebody waits to pass the gate.
        mem::forget(memory.gate.read_recursive());
        Self { pointer, length, memory, not_send: PhantomData }
    }

    /// The address of the first byte: valid for reads and writes of [`RawSlice::length`] bytes as long as this lives, and no reference
    /// to those bytes may be made. Whether writing is right was decided by who pinned or checked the slice.
    #[must_use]
    pub const fn pointer(&self) -> NonNull<u8> {
        self.pointer
    }

    /// Bytes.
    #[must_use]
    pub const fn length(&self) -> usize {
        self.length
    }
}

impl Drop for RawSlice {
    fn drop(&mut self) {
        // SAFETY: `new` entered the gate once, on this thread (this type is not `Send`), and forgot the guard.
        unsafe { self.memory.gate.force_unlock_read() };
    }
}
