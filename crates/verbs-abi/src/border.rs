//! The C border: panics stop here, objects that C knows by their address, and who still uses them.
//!
//! A function of the C interface checks what C can't promise, and calls inward. Most return 0 or a positive error
//! number; those that return an object return NULL and set errno.

use core::ffi::c_int;
use core::ops::Deref;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::errno::Errno;
use crate::per_process::PerProcess;

/// The status of a function: 0, or a positive error number.
#[inline]
pub(crate) fn status(work: impl FnOnce() -> Result<(), Errno>) -> c_int {
    match guard(work) {
        Ok(()) => 0,
        Err(Errno(code)) => code,
    }
}

/// The result of a function that returns an object, or NULL with errno.
pub(crate) fn pointer<T>(work: impl FnOnce() -> Result<*mut T, Errno>) -> *mut T {
    guard(work).unwrap_or_else(|error| {
        error.set();
        core::ptr::null_mut()
    })
}

/// The result of a function that returns a number, or -1 with errno.
pub(crate) fn number(work: impl FnOnce() -> Result<c_int, Errno>) -> c_int {
    guard(work).unwrap_or_else(|error| {
        error.set();
        -1
    })
}

/// Runs a function that may panic. A panic is a bug of ours: its message is on stderr.
#[inline]
fn guard<T>(work: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(Err(Errno::BUG))
}

/// Locks something whose content is whole whenever a panic can happen.
#[inline]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The addresses of objects that C owns now: what it destroys twice is no object any more. A child by fork owns none of
/// its parent's.
static GIVEN: PerProcess<Mutex<HashMap<(usize, u8), Stage>>> = PerProcess::new();

/// Where an object is in its life.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    There,
    /// One thread destroys it. Its events can still be acknowledged.
    Ending,
}

/// An object of C's. Its first field is the C structure.
///
/// # Safety
/// The type is `#[repr(C)]`, and its first field is a `C`. `KIND` is its own.
pub(crate) unsafe trait Object: Sized {
    /// C's type.
    type C;
    /// Tells it from other types of objects.
    const KIND: u8;
}

/// Gives an object to C, which owns it until [`take`].
pub(crate) fn give<T: Object>(object: Box<T>) -> *mut T::C {
    let address = Box::into_raw(object);
    note(address.addr(), T::KIND);
    address.cast()
}

/// C owns an object of this kind.
pub(crate) fn note(address: usize, kind: u8) {
    lock(GIVEN.get()).insert((address, kind), Stage::There);
}

/// C does not own it any more. Returns whether it did.
pub(crate) fn forget(address: usize, kind: u8) -> bool {
    lock(GIVEN.get()).remove(&(address, kind)).is_some()
}

/// Whether C owns such an object, and does not destroy it just now.
pub(crate) fn is_noted(address: usize, kind: u8) -> bool {
    lock(GIVEN.get()).get(&(address, kind)) == Some(&Stage::There)
}

/// Borrows an object of C's in a call that has time: one that C has destroyed, or destroys just now, is refused.
///
/// # Errors
/// NULL, or no object of this type.
///
/// # Safety
/// No other thread destroys it meanwhile.
pub(crate) unsafe fn find<'a, T: Object>(object: *mut T::C) -> Result<&'a T, Errno> {
    if !is_noted(object.addr(), T::KIND) {
        return Err(Errno::INVALID);
    }
    // SAFETY: It came from `give`, with this type, and was not taken back.
    Ok(unsafe { &*object.cast::<T>() })
}

/// The same to count its events: also while it is being destroyed, which waits for those that it owes.
///
/// # Errors
/// NULL, or no object of this type.
///
/// # Safety
/// It is not gone before the call returns.
pub(crate) unsafe fn find_to_count<'a, T: Object>(object: *mut T::C) -> Result<&'a T, Errno> {
    if !lock(GIVEN.get()).contains_key(&(object.addr(), T::KIND)) {
        return Err(Errno::INVALID);
    }
    // SAFETY: It came from `give`, with this type, and was not taken back.
    Ok(unsafe { &*object.cast::<T>() })
}

/// Borrows an object of C's on the data path.
///
/// # Errors
/// NULL, or in a child by fork an object of its parent's.
///
/// # Safety
/// NULL, or an object of this type that C owns.
#[inline]
pub(crate) unsafe fn borrow<'a, T: Object>(object: *mut T::C) -> Result<&'a T, Errno> {
    if GIVEN.is_childs() && !is_noted(object.addr(), T::KIND) {
        return Err(Errno::INVALID);
    }
    // SAFETY: The caller's promise.
    unsafe { object.cast::<T>().as_ref() }.ok_or(Errno::INVALID)
}

/// Takes an object back from C, if `may` lets it go. Of threads that do so at the same time one has it.
///
/// # Errors
/// NULL, no object of this type, destroyed before, or what `may` says.
///
/// # Safety
/// C does not use it any more if this succeeds.
pub(crate) unsafe fn take<T: Object>(
    object: *mut T::C,
    may: impl FnOnce(&T) -> Result<(), Errno>,
) -> Result<Box<T>, Errno> {
    // SAFETY: This function has the same contract.
    unsafe { begin_end::<T>(object, may) }?;
    // SAFETY: This thread alone has begun to end it.
    Ok(unsafe { finish_end::<T>(object) })
}

/// Begins to destroy an object, if `may` lets it go: from now on it is found by those alone who count its events.
/// [`finish_end`] follows. `may` runs under the lock of all objects.
///
/// # Errors
/// As for [`take`].
///
/// # Safety
/// C does not use it any more if this succeeds, but for its events.
pub(crate) unsafe fn begin_end<'a, T: Object>(
    object: *mut T::C,
    may: impl FnOnce(&T) -> Result<(), Errno>,
) -> Result<&'a T, Errno> {
    let mut given = lock(GIVEN.get());
    let stage = given.get_mut(&(object.addr(), T::KIND)).filter(|stage| **stage == Stage::There);
    let stage = stage.ok_or(Errno::INVALID)?;
    // SAFETY: It came from `give`, with this type, and who takes it back changes the stage before, under this lock.
    let found = unsafe { &*object.cast::<T>() };
    may(found)?;
    *stage = Stage::Ending;
    Ok(found)
}

/// The object is C's no longer.
///
/// # Safety
/// The calling thread has begun to end it, and nothing else uses it.
pub(crate) unsafe fn finish_end<T: Object>(object: *mut T::C) -> Box<T> {
    forget(object.addr(), T::KIND);
    // SAFETY: It came from `Box::into_raw`, and one thread alone can begin to end it.
    unsafe { Box::from_raw(object.cast::<T>()) }
}

/// What counts those that need it.
pub(crate) trait Counted {
    /// The count.
    fn users(&self) -> &Users;
}

/// How many need something.
#[derive(Debug, Default)]
pub(crate) struct Users(AtomicUsize);

impl Users {
    /// # Errors
    /// [`Errno::BUSY`]: something needs it.
    pub(crate) fn none(&self) -> Result<(), Errno> {
        if self.0.load(Ordering::Acquire) == 0 { Ok(()) } else { Err(Errno::BUSY) }
    }
}

/// Something that can't be destroyed until this is dropped.
pub(crate) struct Using<T: Counted>(Arc<T>);

impl<T: Counted> Using<T> {
    pub(crate) fn new(used: &Arc<T>) -> Self {
        used.users().0.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(used))
    }

    pub(crate) fn shared(&self) -> &Arc<T> {
        &self.0
    }
}

impl<T: Counted> Deref for Using<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Counted> Drop for Using<T> {
    fn drop(&mut self) {
        self.0.users().0.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each test has a kind of its own: an address that one has freed may be another's.
    #[repr(C)]
    struct Thing<const KIND: u8> {
        c: u64,
        users: Users,
    }

    // SAFETY: repr(C), and its first field is the u64.
    unsafe impl<const KIND: u8> Object for Thing<KIND> {
        type C = u64;
        const KIND: u8 = KIND;
    }

    impl<const KIND: u8> Counted for Thing<KIND> {
        fn users(&self) -> &Users {
            &self.users
        }
    }

    #[test]
    fn an_object_is_destroyed_once() {
        let thing = give(Box::new(Thing::<250> { c: 7, users: Users::default() }));
        // SAFETY: The object is C's until it is taken, and only its address is used afterwards.
        unsafe {
            assert_eq!(find::<Thing<250>>(thing).map(|thing| thing.c), Ok(7));
            assert_eq!(take::<Thing<250>>(thing, |_| Err(Errno::BUSY)).map(drop), Err(Errno::BUSY));
            assert!(take::<Thing<250>>(thing, |thing| thing.users.none()).is_ok());
            assert_eq!(take::<Thing<250>>(thing, |_| Ok(())).map(drop), Err(Errno::INVALID));
            assert_eq!(find::<Thing<250>>(core::ptr::null_mut()).map(|thing| thing.c), Err(Errno::INVALID));
        }
    }

    #[test]
    fn of_threads_that_destroy_an_object_one_does() {
        for _ in 0..200 {
            let thing = give(Box::new(Thing::<251> { c: 7, users: Users::default() }));
            let address = thing.expose_provenance();
            let destroy = move || {
                let thing = core::ptr::with_exposed_provenance_mut::<u64>(address);
                // SAFETY: Only its address is used unless this thread has it.
                unsafe { begin_end::<Thing<251>>(thing, |thing| thing.users.none()) }?;
                // SAFETY: As above.
                assert_eq!(unsafe { find::<Thing<251>>(thing) }.map(|thing| thing.c), Err(Errno::INVALID));
                // SAFETY: This thread alone frees it.
                assert_eq!(unsafe { find_to_count::<Thing<251>>(thing) }.map(|thing| thing.c), Ok(7));
                // SAFETY: This thread has begun to end it.
                Ok(unsafe { finish_end::<Thing<251>>(thing) }.c)
            };
            let threads: Vec<_> = (0..16).map(|_| std::thread::spawn(destroy)).collect();
            let ended: Vec<Result<u64, Errno>> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
            assert_eq!(ended.iter().filter(|ended| **ended == Ok(7)).count(), 1);
            assert_eq!(ended.iter().filter(|ended| **ended == Err(Errno::INVALID)).count(), 15);
        }
    }

    #[test]
    fn what_is_used_is_busy() {
        let thing = Arc::new(Thing::<252> { c: 0, users: Users::default() });
        let using = Using::new(&thing);
        assert_eq!(thing.users.none(), Err(Errno::BUSY));
        drop(using);
        assert_eq!(thing.users.none(), Ok(()));
    }

    #[test]
    fn a_panic_stops_at_the_border() {
        assert_eq!(status(|| panic!("a bug, made for this test")), Errno::BUG.0);
        assert!(pointer::<u8>(|| panic!("a bug, made for this test")).is_null());
        assert_eq!(number(|| Err(Errno::INVALID)), -1);
        assert_eq!(Errno::last(), Errno::INVALID);
    }
}
