//! Touching memory that this library does not own, and that may have gone: an error of the work, not the end of the
//! process.
//!
//! A program may unmap memory, or truncate the file behind it, while work in flight uses it. An adapter then reports
//! a protection error; a copy by the processor raises SIGSEGV or SIGBUS. So each touch of foreign memory runs with a
//! *recovery point*: the signal handler continues there when the fault lies in the range that is being touched, and
//! the touch fails. All other faults go to the handler that was installed before ([`signals`]).
//!
//! System calls that get such memory answer EFAULT by themselves.

#[cfg(all(target_arch = "aarch64", target_os = "linux", not(miri)))]
#[path = "aarch64.rs"]
mod arch;
#[cfg(any(not(any(target_arch = "x86_64", target_arch = "aarch64")), not(target_os = "linux"), miri))]
#[path = "none.rs"]
mod arch;
#[cfg(all(target_arch = "x86_64", target_os = "linux", not(miri)))]
#[path = "x86_64.rs"]
mod arch;
mod probe;
mod signals;

use core::ffi::c_void;
use core::ptr::NonNull;

pub(crate) use probe::check;
pub use signals::watch_faults;
pub(crate) use touch_foreign as touch;

/// The memory is not there, or not with this right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault;

/// Runs `work`, which touches `length` bytes from `start` on. A fault in them ends it where it is.
///
/// # Errors
/// There was a fault. What `work` has done before it stays done.
///
/// # Safety
/// `work` may be abandoned at any touch of the range: it takes no lock, owns nothing that must be dropped, and does
/// not panic.
#[inline]
pub unsafe fn touch_foreign<R>(start: NonNull<u8>, length: usize, work: impl FnOnce() -> R) -> Result<R, Fault> {
    let mut call = Call { work: Some(work), result: None };
    let first = start.addr().get();
    // SAFETY: `run` gets the value that it is made for. The caller permits that it does not return.
    unsafe { arch::call(run_of(&call), (&raw mut call).cast(), first, first.wrapping_add(length)) };
    call.result.ok_or(Fault)
}

/// A closure on its way through a function pointer, and what it has returned.
struct Call<W, R> {
    work: Option<W>,
    result: Option<R>,
}

/// The instance of [`run`] for this closure.
fn run_of<W: FnOnce() -> R, R>(_: &Call<W, R>) -> unsafe extern "C" fn(*mut c_void) {
    run::<W, R>
}

/// # Safety
/// `call` is a `Call<W, R>` that nothing else uses meanwhile.
unsafe extern "C" fn run<W: FnOnce() -> R, R>(call: *mut c_void) {
    // SAFETY: The caller's promise.
    let call = unsafe { &mut *call.cast::<Call<W, R>>() };
    call.result = call.work.take().map(|work| work());
}

/// A recovery point, as it lies on the stack.
#[repr(C)]
struct Point {
    /// The one that this replaces.
    outer: *const Point,
    /// The addresses whose faults end at this point.
    start: usize,
    end: usize,
}

impl Point {
    /// Where execution continues when the fault at `address` of this thread is one that a touch has to expect.
    fn of_fault(address: usize) -> Option<NonNull<Self>> {
        let mut point = NonNull::new(arch::point());
        while let Some(this) = point {
            // SAFETY: Points lie on the stack of this thread, which has not left the calls that made them.
            let Self { outer, start, end } = unsafe { this.read() };
            if (start..end).contains(&address) {
                return Some(this);
            }
            point = NonNull::new(outer.cast_mut());
        }
        None
    }
}

#[cfg(test)]
mod tests;
