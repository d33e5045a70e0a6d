//! Buffers of messages, and which code may touch them when.

use core::ffi::c_void;
use core::mem::size_of;
use core::ptr::NonNull;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};

use super::error::Error;
use crate::abi::fi_context2;

/// What is pending on a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A message is being sent from it.
    Send,
    /// A message may be received into it.
    Receive,
}

/// Equal buffers, each for one message at a time. While an operation is pending the provider owns the buffer's bytes
/// and its context, and nothing here gives them out.
#[derive(Debug)]
pub struct Slots {
    bytes: NonNull<u8>,
    layout: Layout,
    slot_bytes: usize,
    contexts: NonNull<fi_context2>,
    pending: Vec<Option<Operation>>,
}

/// Buffers start at page boundaries, as those of a benchmark usually do.
const ALIGNMENT: usize = 4096;

impl Slots {
    /// `count` zeroed buffers of `slot_bytes` bytes.
    ///
    /// # Panics
    /// When there are no slots or more bytes than an address space has.
    #[must_use]
    pub fn new(count: usize, slot_bytes: usize) -> Self {
        assert!(count > 0, "an endpoint needs a slot");
        let stride = slot_bytes.max(1).next_multiple_of(64);
        let total = count.checked_mul(stride).expect("the slots fit an address space");
        let layout = Layout::from_size_align(total, ALIGNMENT).expect("the slots fit an address space");
        let contexts = Layout::array::<fi_context2>(count).expect("one context for each slot");
        // SAFETY: neither layout has size zero, since there is a slot and it has bytes.
        let (bytes, contexts_at) = unsafe { (alloc_zeroed(layout), alloc_zeroed(contexts)) };
        let Some(bytes) = NonNull::new(bytes) else { handle_alloc_error(layout) };
        let Some(contexts) = NonNull::new(contexts_at.cast()) else { handle_alloc_error(contexts) };
        Self { bytes, layout, slot_bytes, contexts, pending: vec![None; count] }
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.pending.len()
    }

    /// Bytes of each.
    #[must_use]
    pub const fn slot_bytes(&self) -> usize {
        self.slot_bytes
    }

    /// What is pending on a slot.
    ///
    /// # Errors
    /// [`Error::NoSuchSlot`].
    pub fn pending(&self, slot: usize) -> Result<Option<Operation>, Error> {
        self.pending.get(slot).copied().ok_or(Error::NoSuchSlot { slot, count: self.count() })
    }

    /// The bytes of a slot without a pending operation.
    ///
    /// # Errors
    /// [`Error::NoSuchSlot`], [`Error::SlotBusy`].
    pub fn bytes(&self, slot: usize) -> Result<&[u8], Error> {
        self.idle(slot)?;
        // SAFETY: the slot lies inside the allocation, its bytes are initialised, and no provider touches them while
        // nothing is pending; to make something pending takes `&mut self`.
        Ok(unsafe { core::slice::from_raw_parts(self.address(slot), self.slot_bytes) })
    }

    /// The bytes of a slot without a pending operation, to write.
    ///
    /// # Errors
    /// [`Error::NoSuchSlot`], [`Error::SlotBusy`].
    pub fn bytes_mut(&mut self, slot: usize) -> Result<&mut [u8], Error> {
        self.idle(slot)?;
        // SAFETY: as in `bytes`, and `&mut self` excludes other references.
        Ok(unsafe { core::slice::from_raw_parts_mut(self.address(slot), self.slot_bytes) })
    }

    /// Address and context of an idle slot that has room for `length` bytes: what an operation is posted with.
    pub(super) fn claim(&self, slot: usize, length: usize) -> Result<(*mut c_void, *mut c_void), Error> {
        self.idle(slot)?;
        if length > self.slot_bytes {
            return Err(Error::TooLong { length, limit: self.slot_bytes });
        }
        // SAFETY: the slot exists, so its context lies inside the allocation.
        let context = unsafe { self.contexts.as_ptr().add(slot) };
        Ok((self.address(slot).cast(), context.cast()))
    }

    /// The provider accepted an operation on the slot.
    pub(super) fn begin(&mut self, slot: usize, operation: Operation) {
        self.pending[slot] = Some(operation);
    }

    /// The provider gave back this context: which slot it is, and what was pending. `None` when it is not one of ours.
    pub(super) fn finish(&mut self, context: *mut c_void) -> Option<(usize, Operation)> {
        let offset = context.addr().checked_sub(self.contexts.as_ptr().addr())?;
        let slot = offset / size_of::<fi_context2>();
        let operation = self.pending.get_mut(slot)?.take()?;
        Some((slot, operation))
    }

    fn idle(&self, slot: usize) -> Result<(), Error> {
        if self.pending(slot)?.is_some() { Err(Error::SlotBusy { slot }) } else { Ok(()) }
    }

    fn address(&self, slot: usize) -> *mut u8 {
        let stride = self.layout.size() / self.count();
        // SAFETY: the slot exists (callers have asked), so this stays inside the allocation.
        unsafe { self.bytes.as_ptr().add(slot * stride) }
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        let contexts = Layout::array::<fi_context2>(self.count()).expect("it was allocated with this layout");
        // SAFETY: both came from the allocator with these layouts. The endpoint that owned the slots is closed, or it
        // has leaked them, so that no provider touches them any more.
        unsafe {
            dealloc(self.bytes.as_ptr(), self.layout);
            dealloc(self.contexts.as_ptr().cast(), contexts);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pending_slot_gives_nothing_out() {
        let mut slots = Slots::new(3, 100);
        slots.bytes_mut(1).unwrap().fill(7);
        let (_, context) = slots.claim(1, 100).unwrap();
        slots.begin(1, Operation::Send);
        assert_eq!(slots.bytes(1), Err(Error::SlotBusy { slot: 1 }));
        assert_eq!(slots.claim(1, 1), Err(Error::SlotBusy { slot: 1 }));
        assert_eq!(slots.bytes(2).unwrap(), &[0; 100], "the neighbour is free");
        assert_eq!(slots.finish(context), Some((1, Operation::Send)));
        assert_eq!(slots.finish(context), None, "an operation finishes once");
        assert_eq!(slots.bytes(1).unwrap(), &[7; 100]);
    }

    #[test]
    fn limits() {
        let mut slots = Slots::new(2, 8);
        assert_eq!(slots.bytes(2), Err(Error::NoSuchSlot { slot: 2, count: 2 }));
        assert_eq!(slots.claim(0, 9), Err(Error::TooLong { length: 9, limit: 8 }));
        assert_eq!(slots.finish(core::ptr::null_mut()), None);
        assert_eq!(slots.finish(core::ptr::without_provenance_mut(usize::MAX)), None);
    }
}
