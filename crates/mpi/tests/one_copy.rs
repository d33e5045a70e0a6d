//! A process has one copy of Weft: `libweft-fi.so` gives libfabric the provider of `libweft-mpi.so` if that is there.

use std::env;
use std::ffi::{CStr, CString, c_int, c_void};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;

/// Loads a library of this build.
fn load(name: &str, scope: c_int) -> *mut c_void {
    let path = env::current_exe().unwrap().with_file_name(name);
    let path = CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: A C string. The libraries are Weft's own, and nothing happens when they are loaded.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | scope) };
    assert!(!handle.is_null(), "{path:?} is not to be loaded");
    handle
}

/// In which library the provider is that libfabric gets from one.
fn library_of_provider(library: *mut c_void) -> String {
    // SAFETY: The library's own entry point, of this type.
    let provider = unsafe {
        let entry = libc::dlsym(library, c"fi_prov_ini".as_ptr());
        assert!(!entry.is_null());
        std::mem::transmute::<*mut c_void, extern "C" fn() -> *mut c_void>(entry)()
    };
    let mut about = MaybeUninit::<libc::Dl_info>::uninit();
    // SAFETY: The structure can be written, and is if the address is known; then the name is a C string.
    let path = unsafe {
        assert_ne!(libc::dladdr(provider, about.as_mut_ptr()), 0);
        CStr::from_ptr(about.assume_init().dli_fname).to_str().unwrap().to_owned()
    };
    path.rsplit('/').next().unwrap().to_owned()
}

#[test]
fn the_provider_is_the_one_that_was_there_first() {
    let provider = load("libweft_fi.so", libc::RTLD_LOCAL);
    assert_eq!(library_of_provider(provider), "libweft_fi.so", "alone it has its own");
    // As a library is that was preloaded: for all others to see.
    load("libweft_mpi.so", libc::RTLD_GLOBAL);
    assert_eq!(library_of_provider(provider), "libweft_mpi.so");
}
