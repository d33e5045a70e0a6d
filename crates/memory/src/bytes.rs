//! The touches themselves, on addresses that were checked.

use core::ptr;
use core::slice;
use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

use weft_base::Digest;

use crate::AtomicOperation;

/// Copy and checksum alternate in blocks of this size, so that the second pass finds the bytes in the first-level
/// cache.
const BLOCK: usize = 2048;

/// Copies `bytes` to `to` and feeds them to `digest`, which sees the private source and not what a peer may change.
///
/// # Safety
/// `to` is valid for writes of as many bytes, for any thread's sake until this returns.
pub(crate) unsafe fn copy_in<D: Digest>(to: *mut u8, bytes: &[u8], digest: &mut D) {
    let mut done = 0;
    for block in bytes.chunks(BLOCK) {
        // SAFETY: The caller's promise, for a part of it.
        unsafe { place(to.add(done), block) };
        digest.update(block);
        done += block.len();
    }
}

/// Copies from `from` into `out` and feeds `digest` with what arrived there.
///
/// # Safety
/// `from` is valid for reads of as many bytes, for any thread's sake until this returns.
#[inline]
pub(crate) unsafe fn copy_out<D: Digest>(from: *const u8, out: &mut [u8], digest: &mut D) {
    if out.len() > BLOCK {
        // SAFETY: The caller's promise.
        return unsafe { copy_out_blocks(from, out, digest) };
    }
    // SAFETY: The caller's promise.
    unsafe { fetch(from, out) };
    digest.update(out);
}

/// As [`copy_out`], in blocks.
///
/// # Safety
/// As there.
unsafe fn copy_out_blocks<D: Digest>(from: *const u8, out: &mut [u8], digest: &mut D) {
    let mut done = 0;
    for block in out.chunks_mut(BLOCK) {
        // SAFETY: The caller's promise, for a part of it.
        unsafe { fetch(from.add(done), block) };
        digest.update(block);
        done += block.len();
    }
}

/// Feeds `length` bytes at `from` to `digest`, where they are.
///
/// # Safety
/// `from` is valid for reads of `length` bytes, for any thread's sake until this returns.
pub(crate) unsafe fn digest<D: Digest>(from: *const u8, length: usize, digest: &mut D) {
    // SAFETY: Valid by the caller's promise. This is the one place that makes a slice of bytes which something else
    // might write at the same time (a peer with REMOTE_WRITE, the application through `Region::write`). It lives for
    // this call alone and goes to a checksum that reads each byte once, decides nothing by it and returns a number: a
    // race can make that number wrong and nothing else. It would be just as wrong for the frame if the bytes changed
    // between checksum and sending, which no copy prevents either; the receiver's check finds both.
    digest.update(unsafe { slice::from_raw_parts(from, length) });
}

/// Writes `bytes` so that a thread that sees them sees all that this thread placed before; 1, 2, 4 or 8 of them at an
/// aligned address are seen whole.
///
/// # Safety
/// As for [`copy_in`].
pub(crate) unsafe fn place(to: *mut u8, bytes: &[u8]) {
    let aligned = |size| to.addr().is_multiple_of(size);
    match *bytes {
        [a] => {
            // SAFETY: One byte is valid by the caller's promise.
            unsafe { AtomicU8::from_ptr(to) }.store(a, Ordering::Release);
        }
        [a, b] if aligned(2) => {
            // SAFETY: Two bytes are valid by the caller's promise, and aligned.
            unsafe { AtomicU16::from_ptr(to.cast()) }.store(u16::from_ne_bytes([a, b]), Ordering::Release);
        }
        [a, b, c, d] if aligned(4) => {
            // SAFETY: Four bytes are valid by the caller's promise, and aligned.
            unsafe { AtomicU32::from_ptr(to.cast()) }.store(u32::from_ne_bytes([a, b, c, d]), Ordering::Release);
        }
        [a, b, c, d, e, f, g, h] if aligned(8) => {
            let value = u64::from_ne_bytes([a, b, c, d, e, f, g, h]);
            // SAFETY: Eight bytes are valid by the caller's promise, and aligned.
            unsafe { AtomicU64::from_ptr(to.cast()) }.store(value, Ordering::Release);
        }
        _ => {
            fence(Ordering::Release);
            // SAFETY: Valid by the caller's promise; no reference to a region's bytes exists while they are touched, so
            // `bytes` is other memory.
            unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        }
    }
}

/// The counterpart of [`place`].
///
/// # Safety
/// As for [`copy_out`].
#[inline]
unsafe fn fetch(from: *const u8, out: &mut [u8]) {
    let aligned = |size| from.addr().is_multiple_of(size);
    let from = from.cast_mut();
    match *out {
        [ref mut a] => {
            // SAFETY: One byte is valid by the caller's promise; it is only read.
            *a = unsafe { AtomicU8::from_ptr(from) }.load(Ordering::Acquire);
        }
        [_, _] if aligned(2) => {
            // SAFETY: Two bytes are valid by the caller's promise, and aligned; they are only read.
            let value = unsafe { AtomicU16::from_ptr(from.cast()) }.load(Ordering::Acquire);
            out.copy_from_slice(&value.to_ne_bytes());
        }
        [_, _, _, _] if aligned(4) => {
            // SAFETY: Four bytes are valid by the caller's promise, and aligned; they are only read.
            let value = unsafe { AtomicU32::from_ptr(from.cast()) }.load(Ordering::Acquire);
            out.copy_from_slice(&value.to_ne_bytes());
        }
        [_, _, _, _, _, _, _, _] if aligned(8) => {
            // SAFETY: Eight bytes are valid by the caller's promise, and aligned; they are only read.
            let value = unsafe { AtomicU64::from_ptr(from.cast()) }.load(Ordering::Acquire);
            out.copy_from_slice(&value.to_ne_bytes());
        }
        _ => {
            // SAFETY: Valid by the caller's promise; `out` is borrowed exclusively, so it is other memory.
            unsafe { ptr::copy_nonoverlapping(from, out.as_mut_ptr(), out.len()) };
            fence(Ordering::Acquire);
        }
    }
}

/// Does `operation` on the 64 bits at `at` and returns what was there before.
///
/// # Safety
/// `at` is a multiple of 8 and valid for reads and writes of 8 bytes, for any thread's sake until this returns.
pub(crate) unsafe fn operate(at: *mut u8, operation: AtomicOperation) -> u64 {
    // SAFETY: The caller's promise.
    let value = unsafe { AtomicU64::from_ptr(at.cast()) };
    let mut before = value.load(Ordering::Acquire);
    loop {
        match value.compare_exchange_weak(before, operation.apply(before), Ordering::AcqRel, Ordering::Acquire) {
            Ok(before) => return before,
            Err(changed) => before = changed,
        }
    }
}
