//! Symbols of privately loaded libraries, which the global scope does not contain.

use core::ffi::{CStr, c_int, c_void};
use std::ffi::CString;

/// The symbol `name` of the first loaded object whose file name, without its folders, is `wanted`. Loads nothing.
#[must_use]
pub fn find(name: &CStr, wanted: impl Fn(&[u8]) -> bool) -> Option<*mut c_void> {
    objects().iter().filter(|path| wanted(file_of(path.to_bytes()))).find_map(|path| find_in(path, name))
}

/// A path without its folders.
fn file_of(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}

fn find_in(object: &CStr, name: &CStr) -> Option<*mut c_void> {
    // SAFETY: Both are C strings. Only objects that are already loaded are opened, and they stay loaded: the handle is
    // kept.
    unsafe {
        let handle = libc::dlopen(object.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        if handle.is_null() {
            return None;
        }
        Some(libc::dlsym(handle, name.as_ptr())).filter(|address| !address.is_null())
    }
}

/// The files of all loaded objects.
fn objects() -> Vec<CString> {
    unsafe extern "C" fn note(object: *mut libc::dl_phdr_info, _size: usize, list: *mut c_void) -> c_int {
        // SAFETY: The loader passes an object, whose name is a C string or NULL, and the list of below, which has no
        // other user meanwhile.
        unsafe {
            let (name, list) = ((*object).dlpi_name, &mut *list.cast::<Vec<CString>>());
            if !name.is_null() {
                list.push(CStr::from_ptr(name).to_owned());
            }
        }
        0
    }
    let mut list: Vec<CString> = Vec::new();
    // SAFETY: The function only adds to the list.
    unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut list).cast()) };
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_no_part_of_a_file_s_name() {
        for (path, file) in
            [("/usr/lib/libmpi.so.12", "libmpi.so.12"), ("/libmpi.so.d/libc.so", "libc.so"), ("a", "a"), ("", "")]
        {
            assert_eq!(file_of(path.as_bytes()), file.as_bytes(), "{path}");
        }
    }

    #[test]
    fn only_objects_that_are_wanted_are_searched() {
        let is_libc = |file: &[u8]| file.starts_with(b"libc.so") || file.starts_with(b"ld-musl");
        assert!(find(c"getpid", is_libc).is_some());
        assert_eq!(find(c"a_symbol_that_nobody_has", is_libc), None);
        assert_eq!(find(c"getpid", |_| false), None);
    }
}
