//! The functions of libc that take paths: each leads a path of adapters into the folder.

use core::ffi::{c_char, c_int, c_uint, c_void};
use core::mem::transmute;
use core::ptr;

use libc::{DIR, FILE, dirent, mode_t, size_t, ssize_t, stat, statx};

use super::folder::Place;
use super::next::Next;
use crate::errno::Errno;

/// Chooses entries of a folder, for `scandir`.
pub type Filter = Option<unsafe extern "C" fn(*const dirent) -> c_int>;
/// Compares two of them.
pub type Order = Option<unsafe extern "C" fn(*mut *const dirent, *mut *const dirent) -> c_int>;

/// Makes a function for each line: the name of libc's, its arguments with `PATH` where the path is, what it returns,
/// and what if libc does not have it. `variable`: C declares its last argument as one that may be left out.
macro_rules! redirect {
    ($($function:ident = $name:literal ($($before:ident: $before_kind:ty),*) PATH ($($after:ident: $after_kind:ty),*)
        -> $result:ty, or $missing:expr $(, $dots:tt)?;)*) => {
        $(
            /// # Safety
            /// As libc says of the function of this name.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $function(
                $($before: $before_kind,)* path: *const c_char $(, $after: $after_kind)*
            ) -> $result {
                static NEXT: Next = Next::new($name);
                let next = NEXT.get();
                if next.is_null() {
                    Errno(libc::ENOSYS).set();
                    return $missing;
                }
                let mut place = Place::new();
                // SAFETY: It is NULL or a C string, as libc wants it too.
                let path = unsafe { place.of(path) };
                redirect!(
                    @call next, ($($before: $before_kind,)*), path, ($($after: $after_kind,)*), $result $(, $dots)?
                )
            }
        )*
    };
    (@call $next:ident, ($($before:ident: $before_kind:ty,)*), $path:ident, ($($after:ident: $after_kind:ty,)*),
        $result:ty) => {{
        // SAFETY: A function of this name takes these arguments, everywhere.
        unsafe {
            let next: unsafe extern "C" fn($($before_kind,)* *const c_char $(, $after_kind)*) -> $result =
                transmute($next);
            next($($before,)* $path $(, $after)*)
        }
    }};
    // The same for `open`, whose last argument is one of those that C calls variable.
    (@call $next:ident, ($($before:ident: $before_kind:ty,)*), $path:ident,
        ($flags:ident: $flags_kind:ty, $mode:ident: $mode_kind:ty,), $result:ty, variable) => {{
        // SAFETY: A function of this name takes these arguments, everywhere.
        unsafe {
            let next: unsafe extern "C" fn($($before_kind,)* *const c_char, $flags_kind, ...) -> $result =
                transmute($next);
            next($($before,)* $path, $flags, $mode)
        }
    }};
}

redirect! {
    weft_path_open = c"open" () PATH (flags: c_int, mode: mode_t) -> c_int, or -1, variable;
    weft_path_open64 = c"open64" () PATH (flags: c_int, mode: mode_t) -> c_int, or -1, variable;
    weft_path___open_2 = c"__open_2" () PATH (flags: c_int) -> c_int, or -1;
    weft_path___open64_2 = c"__open64_2" () PATH (flags: c_int) -> c_int, or -1;
    weft_path_openat = c"openat" (folder: c_int) PATH (flags: c_int, mode: mode_t) -> c_int, or -1, variable;
    weft_path_openat64 = c"openat64" (folder: c_int) PATH (flags: c_int, mode: mode_t) -> c_int, or -1, variable;
    weft_path___openat_2 = c"__openat_2" (folder: c_int) PATH (flags: c_int) -> c_int, or -1;
    weft_path___openat64_2 = c"__openat64_2" (folder: c_int) PATH (flags: c_int) -> c_int, or -1;
    weft_path_fopen = c"fopen" () PATH (mode: *const c_char) -> *mut FILE, or ptr::null_mut();
    weft_path_fopen64 = c"fopen64" () PATH (mode: *const c_char) -> *mut FILE, or ptr::null_mut();
    weft_path_opendir = c"opendir" () PATH () -> *mut DIR, or ptr::null_mut();
    weft_path_scandir = c"scandir" () PATH (list: *mut *mut *mut dirent, filter: Filter, order: Order) -> c_int, or -1;
    weft_path_scandir64 = c"scandir64" () PATH (list: *mut *mut *mut dirent, filter: Filter, order: Order)
        -> c_int, or -1;
    weft_path_chdir = c"chdir" () PATH () -> c_int, or -1;
    weft_path_stat = c"stat" () PATH (to: *mut stat) -> c_int, or -1;
    weft_path_stat64 = c"stat64" () PATH (to: *mut stat) -> c_int, or -1;
    weft_path_lstat = c"lstat" () PATH (to: *mut stat) -> c_int, or -1;
    weft_path_lstat64 = c"lstat64" () PATH (to: *mut stat) -> c_int, or -1;
    weft_path_fstatat = c"fstatat" (folder: c_int) PATH (to: *mut stat, flags: c_int) -> c_int, or -1;
    weft_path_fstatat64 = c"fstatat64" (folder: c_int) PATH (to: *mut stat, flags: c_int) -> c_int, or -1;
    weft_path___xstat = c"__xstat" (version: c_int) PATH (to: *mut stat) -> c_int, or -1;
    weft_path___xstat64 = c"__xstat64" (version: c_int) PATH (to: *mut stat) -> c_int, or -1;
    weft_path___lxstat = c"__lxstat" (version: c_int) PATH (to: *mut stat) -> c_int, or -1;
    weft_path___lxstat64 = c"__lxstat64" (version: c_int) PATH (to: *mut stat) -> c_int, or -1;
    weft_path___fxstatat = c"__fxstatat" (version: c_int, folder: c_int) PATH (to: *mut stat, flags: c_int)
        -> c_int, or -1;
    weft_path___fxstatat64 = c"__fxstatat64" (version: c_int, folder: c_int) PATH (to: *mut stat, flags: c_int)
        -> c_int, or -1;
    weft_path_statx = c"statx" (folder: c_int) PATH (flags: c_int, mask: c_uint, to: *mut statx) -> c_int, or -1;
    weft_path_access = c"access" () PATH (mode: c_int) -> c_int, or -1;
    weft_path_eaccess = c"eaccess" () PATH (mode: c_int) -> c_int, or -1;
    weft_path_euidaccess = c"euidaccess" () PATH (mode: c_int) -> c_int, or -1;
    weft_path_faccessat = c"faccessat" (folder: c_int) PATH (mode: c_int, flags: c_int) -> c_int, or -1;
    weft_path_readlink = c"readlink" () PATH (to: *mut c_char, length: size_t) -> ssize_t, or -1;
    weft_path___readlink_chk = c"__readlink_chk" () PATH (to: *mut c_char, length: size_t, room: size_t)
        -> ssize_t, or -1;
    weft_path_readlinkat = c"readlinkat" (folder: c_int) PATH (to: *mut c_char, length: size_t) -> ssize_t, or -1;
    weft_path___readlinkat_chk = c"__readlinkat_chk" (folder: c_int)
        PATH (to: *mut c_char, length: size_t, room: size_t) -> ssize_t, or -1;
    weft_path_realpath = c"realpath" () PATH (to: *mut c_char) -> *mut c_char, or ptr::null_mut();
    weft_path___realpath_chk = c"__realpath_chk" () PATH (to: *mut c_char, room: size_t)
        -> *mut c_char, or ptr::null_mut();
    weft_path_canonicalize_file_name = c"canonicalize_file_name" () PATH () -> *mut c_char, or ptr::null_mut();
}

/// `glob_t` of glob(3), with the functions that it may bring along.
#[repr(C)]
pub struct Glob {
    _count: size_t,
    _paths: *mut *mut c_char,
    _offset: size_t,
    flags: c_int,
    functions: [*mut c_void; 5],
}

/// `GLOB_ALTDIRFUNC`: the structure has functions.
const WITH_FUNCTIONS: c_int = 1 << 6;
/// `GLOB_ABORTED`: a folder could not be read.
const ABORTED: c_int = 2;

/// Told of folders that cannot be read.
pub type GlobError = Option<unsafe extern "C" fn(*const c_char, c_int) -> c_int>;
type GlobFunction = unsafe extern "C" fn(*const c_char, c_int, GlobError, *mut Glob) -> c_int;

/// Has `glob` read folders by these functions: what it finds keeps the names that the program knows.
///
/// # Safety
/// As libc says of `glob`.
unsafe fn glob_by(next: *mut c_void, pattern: *const c_char, flags: c_int, error: GlobError, glob: *mut Glob) -> c_int {
    if next.is_null() {
        return ABORTED;
    }
    // SAFETY: A function of this name takes these arguments, everywhere.
    let next: GlobFunction = unsafe { transmute(next) };
    if flags & WITH_FUNCTIONS != 0 || glob.is_null() {
        // SAFETY: The caller's promise.
        return unsafe { next(pattern, flags, error, glob) };
    }
    // SAFETY: Not NULL, so a structure that the caller has given.
    let before = unsafe { (*glob).functions };
    let functions = [
        libc::closedir as *mut c_void,
        libc::readdir as *mut c_void,
        weft_path_opendir as *mut c_void,
        weft_path_lstat as *mut c_void,
        weft_path_stat as *mut c_void,
    ];
    // SAFETY: The same; the functions take what glob gives them.
    unsafe {
        (*glob).functions = functions;
        let result = next(pattern, flags | WITH_FUNCTIONS, error, glob);
        (*glob).functions = before;
        (*glob).flags &= !WITH_FUNCTIONS;
        result
    }
}

/// # Safety
/// As libc says of the function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_path_glob(
    pattern: *const c_char,
    flags: c_int,
    error: GlobError,
    to: *mut Glob,
) -> c_int {
    static NEXT: Next = Next::new(c"glob");
    // SAFETY: The caller's promise.
    unsafe { glob_by(NEXT.get(), pattern, flags, error, to) }
}

/// # Safety
/// As libc says of the function of this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_path_glob64(
    pattern: *const c_char,
    flags: c_int,
    error: GlobError,
    to: *mut Glob,
) -> c_int {
    static NEXT: Next = Next::new(c"glob64");
    // SAFETY: The caller's promise.
    unsafe { glob_by(NEXT.get(), pattern, flags, error, to) }
}
