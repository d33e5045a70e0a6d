//! Machines without recovery points: a fault ends the process, as it does in any program.

use core::ffi::c_void;
use core::ptr;

use super::Point;

/// Calls `work` with `argument`.
///
/// # Safety
/// `work` may be called with `argument`.
pub(super) unsafe fn call(work: unsafe extern "C" fn(*mut c_void), argument: *mut c_void, _: usize, _: usize) {
    // SAFETY: The caller's promise.
    unsafe { work(argument) }
}

/// There is none.
pub(super) fn point() -> *mut Point {
    ptr::null_mut()
}

/// Nothing continues anywhere: there are no points.
pub(super) fn resume(_: &mut libc::ucontext_t, _: *mut Point) {}
