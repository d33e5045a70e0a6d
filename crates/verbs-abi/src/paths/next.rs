//! The functions of libc that stand behind ours.

use core::ffi::{CStr, c_void};
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

/// The next function of a name, behind that of this library.
pub(super) struct Next {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Next {
    pub(super) const fn new(name: &'static CStr) -> Self {
        Self { name, found: AtomicPtr::new(ptr::null_mut()) }
    }

    /// NULL: no library has it.
    pub(super) fn get(&self) -> *mut c_void {
        let known = self.found.load(Ordering::Relaxed);
        if !known.is_null() {
            return known;
        }
        // SAFETY: A C string.
        let mut found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        if found.is_null() {
            found = oldest(self.name);
        }
        self.found.store(found, Ordering::Relaxed);
        found
    }
}

/// Of the oldest version of glibc, x86-64's or arm64's: functions that new programs do not use have that alone.
#[cfg(target_env = "gnu")]
fn oldest(name: &CStr) -> *mut c_void {
    let versions = [c"GLIBC_2.2.5", c"GLIBC_2.17"];
    // SAFETY: C strings.
    let found = versions.map(|version| unsafe { libc::dlvsym(libc::RTLD_NEXT, name.as_ptr(), version.as_ptr()) });
    found.into_iter().find(|found| !found.is_null()).unwrap_or(ptr::null_mut())
}

/// Other libraries have no versions.
#[cfg(not(target_env = "gnu"))]
fn oldest(_name: &CStr) -> *mut c_void {
    ptr::null_mut()
}
