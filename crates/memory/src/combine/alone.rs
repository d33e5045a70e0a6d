//! Updates of elements that no machine word holds.

use core::ptr::NonNull;

use weft_lock::{Mutex, Rank};

use crate::guard::{self, Fault};

/// Locks for the elements that no machine word holds: one for all whose addresses have the same remainder. They are of
/// the process and not of a registry, for the same memory may be registered with several.
static LOCKS: [Mutex<()>; 64] = [const { Mutex::new(Rank::WideElement, ()) }; 64];

/// Runs `work`, which touches the `length` bytes of the element at `at`, while no other update of that element runs.
/// A fault ends here, so that it leaves the lock.
///
/// # Errors
/// The element is not there any more.
///
/// # Safety
/// As for [`guard::touch`].
pub(super) unsafe fn alone<R>(at: *mut u8, length: usize, work: impl FnOnce() -> R) -> Result<R, Fault> {
    // An address is a multiple of 4 at least.
    let _alone = LOCKS[(at.addr() / 4) % LOCKS.len()].lock();
    // SAFETY: The caller's promise.
    unsafe { guard::touch(NonNull::new(at).ok_or(Fault)?, length, work) }
}
