//! Functions that refuse, and say which.

use core::ffi::{c_int, c_void};
use core::ptr;

use crate::errno::Errno;
use crate::log;

/// Not there, in a slot of a table or under a name that returns an error number.
///
/// # Safety
/// None: it reads none of its arguments.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_verbs_refuse() -> c_int {
    log::info(format_args!("refused: a function that this library does not have (EOPNOTSUPP)"));
    Errno::UNSUPPORTED.0
}

/// The same, where -1 and errno are returned.
///
/// # Safety
/// None: it reads none of its arguments.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_verbs_refuse_negative() -> c_int {
    // SAFETY: None is needed.
    unsafe { weft_verbs_refuse() };
    Errno::UNSUPPORTED.set();
    -1
}

/// The same, where NULL and errno are returned.
///
/// # Safety
/// None: it reads none of its arguments.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_verbs_refuse_pointer() -> *mut c_void {
    // SAFETY: None is needed.
    unsafe { weft_verbs_refuse() };
    Errno::UNSUPPORTED.set();
    ptr::null_mut()
}

/// Of the ABI 1.0, whose structures are others.
///
/// # Safety
/// None: it reads none of its arguments.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_verbs_old() -> c_int {
    log::say(format_args!("the program wants version IBVERBS_1.0 of a function, which this library does not have"));
    libc::ENOSYS
}

/// The same, where NULL and errno are returned.
///
/// # Safety
/// None: it reads none of its arguments.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_verbs_old_pointer() -> *mut c_void {
    // SAFETY: None is needed.
    unsafe { weft_verbs_old() };
    Errno(libc::ENOSYS).set();
    ptr::null_mut()
}

/// Does nothing, and returns 0 where somebody reads it.
///
/// # Safety
/// None: it reads none of its arguments.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_verbs_nothing() -> *mut c_void {
    ptr::null_mut()
}
