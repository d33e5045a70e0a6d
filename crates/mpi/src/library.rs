//! The functions of the MPI library, found at run time in whichever one the program has loaded.
#![allow(non_snake_case, reason = "MPI's names")]
#![allow(clippy::too_many_arguments, reason = "MPI's functions")]

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr;
use std::sync::OnceLock;

use weft_fi::loaded;

use crate::abi::{Aint, Count, Handle};

/// Declares functions, each as one that finds the library's when it is called first.
macro_rules! functions {
    ($($name:ident($($argument:ident: $kind:ty),*);)*) => {
        $(
            /// The MPI library's function of this name, with `PMPI_` before it.
            ///
            /// # Safety
            /// As MPI says for it.
            pub(crate) unsafe fn $name($($argument: $kind),*) -> c_int {
                static AT: OnceLock<usize> = OnceLock::new();
                let name = concat!("PMPI_", stringify!($name), "\0");
                let at = *AT.get_or_init(|| required(name));
                // SAFETY: It has these arguments in MPI's C interface. A handle that is an `int` there takes a whole
                // register or stack slot as an argument (System V ABI of x86-64, AAPCS64), whose lower half is read.
                let function = unsafe {
                    core::mem::transmute::<usize, unsafe extern "C" fn($($kind),*) -> c_int>(at)
                };
                // SAFETY: The caller's promise.
                unsafe { function($($argument),*) }
            }
        )*
    };
}

/// Declares functions with large counts, which MPI has since version 4.0, and for each the one to use where the library
/// has no such: if the counts fit. If not, the handle that is named gets an error.
macro_rules! large_functions {
    ($($raise:ident($on:ident) {
        $($name:ident or $small:ident($($argument:ident: $kind:ty),*);)*
    })*) => { $($(
        /// The MPI library's function of this name, with `PMPI_` before it, or the one without large counts.
        ///
        /// # Safety
        /// As MPI says for it.
        pub(crate) unsafe fn $name($($argument: $kind),*) -> c_int {
            static AT: OnceLock<usize> = OnceLock::new();
            let at = *AT.get_or_init(|| optional(concat!("PMPI_", stringify!($name), "\0")));
            if at == 0 {
                // SAFETY: The caller's promise: the arguments mean the same to both.
                let small = || Some(unsafe { $small($($argument.narrow()?),*) });
                return small().unwrap_or_else(|| {
                    let code = too_large(concat!("MPI_", stringify!($name)));
                    // SAFETY: The caller's handle.
                    unsafe { $raise($on, code) };
                    code
                });
            }
            // SAFETY: As for the other functions.
            let function = unsafe {
                core::mem::transmute::<usize, unsafe extern "C" fn($($kind),*) -> c_int>(at)
            };
            // SAFETY: The caller's promise.
            unsafe { function($($argument),*) }
        }
    )*)* };
}

type In = *const c_void;
type Out = *mut c_void;
type Ints = *mut c_int;

functions! {
    Finalize();
    Query_thread(level: Ints);
    Comm_dup(comm: Handle, to: *mut Handle);
    Comm_call_errhandler(comm: Handle, code: c_int);
    Comm_free(comm: *mut Handle);
    Comm_rank(comm: Handle, rank: Ints);
    Comm_size(comm: Handle, size: Ints);
    Comm_test_inter(comm: Handle, flag: Ints);
    Allgather(from: In, count: c_int, kind: Handle, to: Out, to_count: c_int, to_kind: Handle, comm: Handle);
    Iallgather(
        from: In, count: c_int, kind: Handle, to: Out, to_count: c_int, to_kind: Handle, comm: Handle,
        request: *mut Handle
    );
    Ibarrier(comm: Handle, request: *mut Handle);
    Test(request: *mut Handle, flag: Ints, status: Out);
    Iprobe(source: c_int, tag: c_int, comm: Handle, flag: Ints, status: Out);
    Isend(from: In, count: c_int, kind: Handle, to: c_int, tag: c_int, comm: Handle, request: Out);
    Info_get(info: Handle, key: *const c_char, length: c_int, value: *mut c_char, flag: Ints);
    Group_size(group: Handle, size: Ints);
    Group_free(group: *mut Handle);
    Group_translate_ranks(group: Handle, count: c_int, ranks: *const c_int, other: Handle, to: Ints);
    Type_size(kind: Handle, size: Ints);
    Type_get_extent(kind: Handle, lower: *mut Aint, extent: *mut Aint);
    Type_get_envelope(kind: Handle, integers: Ints, addresses: Ints, kinds: Ints, combiner: Ints);
    Type_get_contents(
        kind: Handle, integers: c_int, addresses: c_int, kinds: c_int, to: Ints, at: *mut Aint, of: Out
    );
    Type_free(kind: *mut Handle);
    Win_call_errhandler(win: Handle, code: c_int);
    Win_get_group(win: Handle, group: *mut Handle);
    Win_create(base: Out, size: Aint, unit: c_int, info: Handle, comm: Handle, win: Out);
    Win_allocate(size: Aint, unit: c_int, info: Handle, comm: Handle, base: Out, win: Out);
    Win_free(win: Out);
    Win_fence(assert: c_int, win: Handle);
    Win_post(group: Handle, assert: c_int, win: Handle);
    Win_start(group: Handle, assert: c_int, win: Handle);
    Win_complete(win: Handle);
    Win_wait(win: Handle);
    Win_test(win: Handle, flag: Ints);
    Win_lock(kind: c_int, rank: c_int, assert: c_int, win: Handle);
    Win_unlock(rank: c_int, win: Handle);
    Win_lock_all(assert: c_int, win: Handle);
    Win_unlock_all(win: Handle);
    Win_flush(rank: c_int, win: Handle);
    Win_flush_local(rank: c_int, win: Handle);
    Win_flush_all(win: Handle);
    Win_flush_local_all(win: Handle);
    Win_sync(win: Handle);
    Put(o: In, n: c_int, k: Handle, rank: c_int, at: Aint, m: c_int, l: Handle, win: Handle);
    Get(o: Out, n: c_int, k: Handle, rank: c_int, at: Aint, m: c_int, l: Handle, win: Handle);
    Accumulate(o: In, n: c_int, k: Handle, rank: c_int, at: Aint, m: c_int, l: Handle, op: Handle, win: Handle);
    Rput(o: In, n: c_int, k: Handle, rank: c_int, at: Aint, m: c_int, l: Handle, win: Handle, q: Out);
    Rget(o: Out, n: c_int, k: Handle, rank: c_int, at: Aint, m: c_int, l: Handle, win: Handle, q: Out);
    Raccumulate(
        o: In, n: c_int, k: Handle, rank: c_int, at: Aint, m: c_int, l: Handle, op: Handle, win: Handle, q: Out
    );
    Get_accumulate(
        o: In, n: c_int, k: Handle, r: Out, p: c_int, j: Handle, rank: c_int, at: Aint, m: c_int, l: Handle,
        op: Handle, win: Handle
    );
    Rget_accumulate(
        o: In, n: c_int, k: Handle, r: Out, p: c_int, j: Handle, rank: c_int, at: Aint, m: c_int, l: Handle,
        op: Handle, win: Handle, q: Out
    );
    Fetch_and_op(o: In, r: Out, k: Handle, rank: c_int, at: Aint, op: Handle, win: Handle);
    Compare_and_swap(o: In, c: In, r: Out, k: Handle, rank: c_int, at: Aint, win: Handle);
}

large_functions! {
    Comm_call_errhandler(comm) {
        Win_create_c or Win_create(base: Out, size: Aint, unit: Count, info: Handle, comm: Handle, win: Out);
        Win_allocate_c or Win_allocate(size: Aint, unit: Count, info: Handle, comm: Handle, base: Out, win: Out);
    }
    Win_call_errhandler(win) {
        Put_c or Put(o: In, n: Count, k: Handle, rank: c_int, at: Aint, m: Count, l: Handle, win: Handle);
        Get_c or Get(o: Out, n: Count, k: Handle, rank: c_int, at: Aint, m: Count, l: Handle, win: Handle);
        Accumulate_c or Accumulate(
            o: In, n: Count, k: Handle, rank: c_int, at: Aint, m: Count, l: Handle, op: Handle, win: Handle
        );
        Rput_c or Rput(o: In, n: Count, k: Handle, rank: c_int, at: Aint, m: Count, l: Handle, win: Handle, q: Out);
        Rget_c or Rget(o: Out, n: Count, k: Handle, rank: c_int, at: Aint, m: Count, l: Handle, win: Handle, q: Out);
        Raccumulate_c or Raccumulate(
            o: In, n: Count, k: Handle, rank: c_int, at: Aint, m: Count, l: Handle, op: Handle, win: Handle, q: Out
        );
        Get_accumulate_c or Get_accumulate(
            o: In, n: Count, k: Handle, r: Out, p: Count, j: Handle, rank: c_int, at: Aint, m: Count, l: Handle,
            op: Handle, win: Handle
        );
        Rget_accumulate_c or Rget_accumulate(
            o: In, n: Count, k: Handle, r: Out, p: Count, j: Handle, rank: c_int, at: Aint, m: Count, l: Handle,
            op: Handle, win: Handle, q: Out
        );
    }
}

/// What an argument of a function with large counts is for the function without: the same, but for counts.
trait Narrow {
    type Narrow;

    /// `None`: a count that does not fit.
    fn narrow(self) -> Option<Self::Narrow>;
}

impl Narrow for Count {
    type Narrow = c_int;

    fn narrow(self) -> Option<c_int> {
        self.try_into().ok()
    }
}

macro_rules! as_it_is {
    ($($kind:ty)*) => { $(
        impl Narrow for $kind {
            type Narrow = Self;

            fn narrow(self) -> Option<Self> {
                Some(self)
            }
        }
    )* };
}

as_it_is!(c_int Aint Handle In Out);

/// An argument does not fit the only function that the library has.
fn too_large(name: &str) -> c_int {
    crate::report::say(&format!(
        "{name}: a count or displacement unit of 2^31 or more, and the MPI library has no functions for such (MPI-4)"
    ));
    crate::abi::abi().classes.count
}

/// The address of a function without which nothing is possible: the program has called its other half.
fn required(name: &str) -> usize {
    match optional(name) {
        0 => {
            let name = name.trim_end_matches('\0');
            crate::report::say(&format!("no MPI library with {name} is loaded: preload this only for MPI programs"));
            std::process::abort()
        }
        at => at,
    }
}

/// The address of a function; 0 where the library has none of this name.
fn optional(name: &str) -> usize {
    let name = CStr::from_bytes_with_nul(name.as_bytes()).expect("names end in a zero");
    find(name).map_or(0, |at| at as usize)
}

/// A symbol of the MPI library: behind this one in the global scope, or, where the program has loaded the library for
/// itself alone (Python's extension modules do so), in a loaded object that is called so.
pub(crate) fn find(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: A C string.
    let next = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    let found = Some(next).filter(|address| !address.is_null());
    found.or_else(|| loaded::find(name, is_mpi))
}

/// Data of the MPI library. A program that was linked with it may have it in itself, where the library finds it, too.
pub(crate) fn find_data(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: A C string.
    let global = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    Some(global).filter(|address| !address.is_null()).or_else(|| find(name))
}

fn is_mpi(file: &[u8]) -> bool {
    [&b"libmpi.so"[..], b"libmpich.so", b"libmpi_abi.so"].iter().any(|name| file.starts_with(name))
}

/// Whether several threads of the program may call MPI at the same time.
pub(crate) fn has_threads() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| {
        let mut level = 0;
        // SAFETY: It can be written.
        (unsafe { Query_thread(&raw mut level) }) == 0 && level >= crate::abi::abi().thread_multiple
    })
}

/// The version of MPI's standard ABI that the library has, if it is that.
pub(crate) fn abi_version() -> Option<c_int> {
    let (mut major, mut minor) = (-1, -1);
    let at = find(c"PMPI_Abi_get_version")?;
    // SAFETY: It has these arguments (MPI 5.0 section 20.2.2), may be called at any time, and both can be written.
    let code = unsafe {
        core::mem::transmute::<*mut c_void, unsafe extern "C" fn(Ints, Ints) -> c_int>(at)(
            &raw mut major,
            &raw mut minor,
        )
    };
    // -1: it has an ABI of its own.
    (code == 0 && major > 0).then_some(major)
}

/// The name of the symbol that is exactly at this address, if one is.
pub(crate) fn name_of(address: usize) -> Option<&'static CStr> {
    let mut about = libc::Dl_info {
        dli_fname: ptr::null(),
        dli_fbase: ptr::null_mut(),
        dli_sname: ptr::null(),
        dli_saddr: ptr::null_mut(),
    };
    // SAFETY: The structure can be written, and the address is only looked up.
    let found = unsafe { libc::dladdr(address as *const c_void, &raw mut about) } != 0;
    if !found || about.dli_sname.is_null() || about.dli_saddr as usize != address {
        return None;
    }
    // SAFETY: A name in the symbols of an MPI library, which is never unloaded while a program uses its handles.
    Some(unsafe { CStr::from_ptr(about.dli_sname) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_count_stays_and_a_count_must_fit() {
        assert_eq!((Count::from(c_int::MAX)).narrow(), Some(c_int::MAX));
        assert_eq!((Count::from(c_int::MAX) + 1).narrow(), None);
        assert_eq!(Aint::MAX.narrow(), Some(Aint::MAX));
    }

    #[test]
    fn an_mpi_library_is_known_by_its_file_and_this_one_is_none() {
        for file in ["libmpi.so.12", "libmpi.so", "libmpich.so.12", "libmpi_abi.so.1"] {
            assert!(is_mpi(file.as_bytes()), "{file}");
        }
        for file in ["libweft-mpi.so", "libfabric.so", "", "libmpicxx.so.12"] {
            assert!(!is_mpi(file.as_bytes()), "{file}");
        }
    }
}
