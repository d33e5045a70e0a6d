//! The C boundary: objects that C knows by the address of the `fid` at their beginning, their ownership, panics that
//! are caught here, and functions that are not supported.
//!
//! A function of the C interface has this form, and does no more:
//! ```ignore
//! unsafe extern "C" fn lookup(av: *mut fid_av, address: fi_addr_t, to: *mut c_void, length: *mut usize) -> c_int {
//!     status(|| {
//!         // SAFETY: libfabric's callers pass what fi_av_open gave, or NULL.
//!         let vector = unsafe { borrow::<AddressVector>(av) }?;
//!         ...
//!         Ok(())
//!     })
//! }
//! ```

use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};
use core::ops::Deref;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use libc::ssize_t;
use weft_libfabric::abi::errno::{FI_ENOSYS, FI_EOTHER};
use weft_libfabric::abi::{fi_ops, fid};

use crate::errno::Errno;

/// An object of this provider that C knows by its address.
///
/// C owns it from [`give`] to [`close`]. An object that needs it longer, as a child needs its parent, [`hold`]s it:
/// then it cannot be closed.
///
/// # Safety
/// The type is `#[repr(C)]`, its first field is a [`Header`] of `Fid`, and the first field of `Fid` is a [`fid`] (true
/// for all structures of the C headers with such names). `CLASS` is the one that the object's `fid` has, and no other
/// type has the same.
pub(crate) unsafe trait Object: Sized + Send + Sync + 'static {
    /// C's type of it: `fid_domain`, for example.
    type Fid;
    /// Its `FI_CLASS_*`.
    const CLASS: usize;

    /// The count of its holders.
    fn users(&self) -> &Users;
}

/// The C structure at the beginning of an object. C reads it, and may write the application's context into it, so that
/// Rust makes no reference to its contents.
#[repr(transparent)]
pub(crate) struct Header<F>(UnsafeCell<F>);

// SAFETY: It points to the application's context, which is only ever returned to it, and to tables of functions, which
// are never written.
unsafe impl<F> Send for Header<F> {}
// SAFETY: As above, and only C accesses its contents.
unsafe impl<F> Sync for Header<F> {}

impl<F> Header<F> {
    pub(crate) const fn new(content: F) -> Self {
        Self(UnsafeCell::new(content))
    }

    /// C's structure, to set fields of it that have no other user now: `mem_desc` and `key` of a region, tables of an
    /// endpoint that is not yet enabled.
    pub(crate) const fn as_ptr(&self) -> *mut F {
        self.0.get()
    }
}

/// The beginning of every object.
pub(crate) const fn head<T: Object>(context: *mut c_void, ops: &'static fi_ops) -> fid {
    fid { fclass: T::CLASS, context, ops: table(ops) }
}

/// The address of a table of functions, in C's type. C only reads it.
pub(crate) const fn table<T>(table: &'static T) -> *mut T {
    core::ptr::from_ref(table).cast_mut()
}

/// Counts the holders of an object.
#[derive(Default)]
pub(crate) struct Users(AtomicUsize);

/// An object that cannot be closed until this is dropped.
pub(crate) struct Held<T: Object>(Arc<T>);

impl<T: Object> Held<T> {
    fn new(object: Arc<T>) -> Self {
        object.users().0.fetch_add(1, Ordering::Relaxed);
        Self(object)
    }

    /// C's address of it.
    pub(crate) fn fid(&self) -> *mut T::Fid {
        Arc::as_ptr(&self.0).cast_mut().cast()
    }
}

impl<T: Object> Clone for Held<T> {
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.0))
    }
}

impl<T: Object> Deref for Held<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Object> Drop for Held<T> {
    fn drop(&mut self) {
        self.0.users().0.fetch_sub(1, Ordering::Release);
    }
}

/// Gives an object to C, which owns it until [`close`].
///
/// # Errors
/// NULL in place of room for its address.
///
/// # Safety
/// `to` is NULL or can be written.
pub(crate) unsafe fn give<T: Object>(object: T, to: *mut *mut T::Fid) -> Result<(), Errno> {
    let to = NonNull::new(to).ok_or(Errno::INVALID)?;
    let address = Arc::into_raw(Arc::new(object)).cast_mut().cast::<T::Fid>();
    // SAFETY: Not NULL, and then it can be written by this function's contract.
    unsafe { to.write(address) };
    Ok(())
}

/// Borrows an object of C's.
///
/// # Errors
/// NULL, or an object of another class.
///
/// # Safety
/// `object` is NULL, or the address of a `fid` of this provider that has not been closed and stays so for `'a`.
pub(crate) unsafe fn borrow<'a, T: Object>(object: *mut T::Fid) -> Result<&'a T, Errno> {
    if object.is_null() {
        return Err(Errno::INVALID);
    }
    // SAFETY: Not NULL, so it is the beginning of one of our objects, and all of those begin with a `fid`, whose class
    // C does not write.
    if unsafe { (&raw const (*object.cast::<fid>()).fclass).read() } != T::CLASS {
        return Err(Errno::INVALID);
    }
    // SAFETY: The class says that it is a `T`, whose address `give` gave to C, and which lives until it is closed.
    Ok(unsafe { &*object.cast::<T>() })
}

/// Holds an object of C's, for longer than a call.
///
/// # Errors
/// NULL, or an object of another class.
///
/// # Safety
/// As for [`borrow`].
pub(crate) unsafe fn hold<T: Object>(object: *mut T::Fid) -> Result<Held<T>, Errno> {
    // SAFETY: This function has the same contract. The reference is not used after the check.
    unsafe { borrow::<T>(object) }?;
    let address = object.cast::<T>().cast_const();
    // SAFETY: It came from `Arc::into_raw`, and C's count is still there, for it has not been closed.
    let object = unsafe {
        Arc::increment_strong_count(address);
        Arc::from_raw(address)
    };
    Ok(Held::new(object))
}

/// Takes an object back from C, and drops it.
///
/// # Errors
/// It is held; or NULL, or an object of another class.
///
/// # Safety
/// As for [`borrow`]; and C does not use it any more if this succeeds.
pub(crate) unsafe fn close<T: Object>(object: *mut fid) -> Result<(), Errno> {
    // SAFETY: This function has the same contract. The reference is not used after it.
    let users = unsafe { borrow::<T>(object.cast()) }?.users().0.load(Ordering::Acquire);
    if users > 0 {
        return Err(Errno::BUSY);
    }
    // SAFETY: It came from `Arc::into_raw` in `give`, and C gives it back only once.
    drop(unsafe { Arc::from_raw(object.cast::<T>()) });
    Ok(())
}

/// The `close` function of a type.
pub(crate) unsafe extern "C" fn close_object<T: Object>(object: *mut fid) -> c_int {
    // SAFETY: C passes an object of ours, or NULL, and does not use it any more when it is closed.
    status(|| unsafe { close::<T>(object) })
}

/// The status of a function. A panic is caught here.
pub(crate) fn status(work: impl FnOnce() -> Result<(), Errno>) -> c_int {
    match guard(work) {
        Ok(()) => 0,
        Err(Errno(code)) => -code,
    }
}

/// The result of a function that returns a small number.
pub(crate) fn number(work: impl FnOnce() -> Result<c_int, Errno>) -> c_int {
    guard(work).unwrap_or_else(|Errno(code)| -code)
}

/// The result of a function that returns a count, or of a data operation, which returns 0.
#[inline]
pub(crate) fn count(work: impl FnOnce() -> Result<usize, Errno>) -> ssize_t {
    match guard(work) {
        Ok(count) => count.cast_signed(),
        Err(Errno(code)) => -(code as ssize_t),
    }
}

/// The result of a function that cannot report an error: `otherwise`, then.
pub(crate) fn value<T>(otherwise: T, work: impl FnOnce() -> Result<T, Errno>) -> T {
    guard(work).unwrap_or(otherwise)
}

/// Runs a function that may panic. A panic is a bug of ours: its message is on stderr, and C gets `FI_EOTHER`.
#[inline]
fn guard<T>(work: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
    let _whole = Uncanceled::begin();
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(Err(Errno(FI_EOTHER)))
}

/// Disables cancellation: a thread that is canceled (pthread_cancel(3)) inside of a call ends when the call has
/// returned. Many system calls are cancellation points, and cancellation unwinds the stack in a way that makes Rust
/// abort the process.
struct Uncanceled(c_int);

unsafe extern "C" {
    /// POSIX. Sets the state of the calling thread, and returns the previous one.
    safe fn pthread_setcancelstate(state: c_int, before: &mut c_int) -> c_int;
}

impl Uncanceled {
    #[inline]
    fn begin() -> Self {
        /// `PTHREAD_CANCEL_DISABLE` of glibc and musl.
        const DISABLE: c_int = 1;
        let mut before = 0;
        pthread_setcancelstate(DISABLE, &mut before);
        Self(before)
    }
}

impl Drop for Uncanceled {
    #[inline]
    fn drop(&mut self) {
        pthread_setcancelstate(self.0, &mut 0);
    }
}

/// A function for a slot that this provider does not support: it returns `-FI_ENOSYS`. No slot may be NULL, for the
/// inline functions of the headers do not check.
pub(crate) const fn no<F: Refuses>() -> Option<F> {
    Some(F::REFUSE)
}

/// Function types with an unsupported version.
pub(crate) trait Refuses {
    /// Such a function.
    const REFUSE: Self;
}

/// Result types of unsupported functions.
pub(crate) trait Refusal {
    /// `-FI_ENOSYS`, or nothing.
    const REFUSAL: Self;
}

impl Refusal for c_int {
    const REFUSAL: Self = -FI_ENOSYS;
}

impl Refusal for ssize_t {
    const REFUSAL: Self = -(FI_ENOSYS as Self);
}

macro_rules! refuses {
    ($($argument:ident)*) => {
        impl<$($argument,)* R: Refusal> Refuses for unsafe extern "C" fn($($argument),*) -> R {
            const REFUSE: Self = {
                unsafe extern "C" fn refuse<$($argument,)* R: Refusal>($(_: $argument),*) -> R {
                    R::REFUSAL
                }
                refuse::<$($argument,)* R>
            };
        }
    };
}
refuses!(A);
refuses!(A B);
refuses!(A B C);
refuses!(A B C D);
refuses!(A B C D E);
refuses!(A B C D E F);
refuses!(A B C D E F G);
refuses!(A B C D E F G H);
refuses!(A B C D E F G H I);
refuses!(A B C D E F G H I J);
refuses!(A B C D E F G H I J K);
refuses!(A B C D E F G H I J K L);
refuses!(A B C D E F G H I J K L M);
refuses!(A B C D E F G H I J K L M N);
refuses!(A B C D E F G H I J K L M N O);

#[cfg(test)]
mod tests {
    use core::ptr;

    use weft_libfabric::abi::{FI_CLASS_AV, FI_CLASS_CQ, fid_cq};

    use super::*;

    #[repr(C)]
    struct Queue {
        header: Header<fid_cq>,
        users: Users,
    }

    // SAFETY: repr(C), and the header is first.
    unsafe impl Object for Queue {
        type Fid = fid_cq;
        const CLASS: usize = FI_CLASS_CQ;

        fn users(&self) -> &Users {
            &self.users
        }
    }

    #[repr(C)]
    struct Vector {
        header: Header<fid>,
        users: Users,
    }

    // SAFETY: repr(C), and the header is first.
    unsafe impl Object for Vector {
        type Fid = fid;
        const CLASS: usize = FI_CLASS_AV;

        fn users(&self) -> &Users {
            &self.users
        }
    }

    static OPS: fi_ops = fi_ops {
        size: size_of::<fi_ops>(),
        close: Some(close_object::<Queue>),
        bind: no(),
        control: no(),
        ops_open: no(),
        tostr: no(),
        ops_set: no(),
    };

    fn queue() -> *mut fid_cq {
        let header = Header::new(fid_cq { fid: head::<Queue>(ptr::null_mut(), &OPS), ops: ptr::null_mut() });
        let mut address = ptr::null_mut();
        // SAFETY: The address can be written.
        unsafe { give(Queue { header, users: Users::default() }, &raw mut address) }.unwrap();
        address
    }

    #[test]
    fn an_object_that_is_held_is_not_closed() {
        let queue = queue();
        // SAFETY: An object that is not closed; it is closed once.
        unsafe {
            let held = hold::<Queue>(queue).unwrap();
            let again = held.clone();
            assert_eq!(held.fid(), queue);
            assert_eq!(close::<Queue>(queue.cast()), Err(Errno::BUSY));
            drop(held);
            assert_eq!(close::<Queue>(queue.cast()), Err(Errno::BUSY));
            drop(again);
            let ops = (*queue).fid.ops;
            assert_eq!((*ops).close.unwrap()(queue.cast()), 0);
        }
    }

    #[test]
    fn null_and_another_kind_are_refused() {
        let queue = queue();
        // SAFETY: NULL, or an object that is not closed, and in the end closed once.
        unsafe {
            assert!(borrow::<Queue>(ptr::null_mut()).is_err());
            assert!(hold::<Queue>(ptr::null_mut()).is_err());
            assert_eq!(borrow::<Vector>(queue.cast()).err(), Some(Errno::INVALID));
            assert_eq!(close_object::<Vector>(queue.cast()), -Errno::INVALID.0);
            assert_eq!(close_object::<Queue>(ptr::null_mut()), -Errno::INVALID.0);
            let vector = Vector { header: Header::new(head::<Vector>(ptr::null_mut(), &OPS)), users: Users::default() };
            assert_eq!(give(vector, ptr::null_mut()), Err(Errno::INVALID));
            close::<Queue>(queue.cast()).unwrap();
        }
    }

    #[test]
    fn a_panic_stops_at_the_border() {
        assert_eq!(status(|| panic!("a bug, made for this test")), -FI_EOTHER);
        assert_eq!(count(|| panic!("a bug, made for this test")), -(FI_EOTHER as ssize_t));
        assert_eq!(value(7, || panic!("a bug, made for this test")), 7);
        assert_eq!(number(|| Ok(3)), 3);
        assert_eq!(count(|| Err(Errno::AGAIN)), -(Errno::AGAIN.0 as ssize_t));
    }

    #[test]
    fn a_slot_without_a_function_says_so() {
        // SAFETY: It reads none of its arguments.
        assert_eq!(unsafe { OPS.bind.unwrap()(ptr::null_mut(), ptr::null_mut(), 0) }, -FI_ENOSYS);
    }
}
