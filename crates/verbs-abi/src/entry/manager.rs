//! The names of `librdmacm.so.1`: the connection manager is not built yet, and each says so.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr;
use core::sync::atomic::{AtomicBool, Ordering};

use crate::errno::Errno;
use crate::log;

/// Names of the events of the connection manager, by number (`rdma_cma.h`, `enum rdma_cm_event_type`).
const EVENTS: [&CStr; 16] = [
    c"RDMA_CM_EVENT_ADDR_RESOLVED",
    c"RDMA_CM_EVENT_ADDR_ERROR",
    c"RDMA_CM_EVENT_ROUTE_RESOLVED",
    c"RDMA_CM_EVENT_ROUTE_ERROR",
    c"RDMA_CM_EVENT_CONNECT_REQUEST",
    c"RDMA_CM_EVENT_CONNECT_RESPONSE",
    c"RDMA_CM_EVENT_CONNECT_ERROR",
    c"RDMA_CM_EVENT_UNREACHABLE",
    c"RDMA_CM_EVENT_REJECTED",
    c"RDMA_CM_EVENT_ESTABLISHED",
    c"RDMA_CM_EVENT_DISCONNECTED",
    c"RDMA_CM_EVENT_DEVICE_REMOVAL",
    c"RDMA_CM_EVENT_MULTICAST_JOIN",
    c"RDMA_CM_EVENT_MULTICAST_ERROR",
    c"RDMA_CM_EVENT_ADDR_CHANGE",
    c"RDMA_CM_EVENT_TIMEWAIT_EXIT",
];

/// A function that is not built yet, as `scripts/link-verbs` lays it out: whether it has been said, and its name with
/// the zero at its end.
#[repr(C)]
pub struct Absent {
    is_said: AtomicBool,
    name: [c_char; 0],
}

/// Not built yet: says so, once for each name, but to libfabric under `WEFT_VERBS_LOG=info` alone: its provider `verbs`
/// tries the connection manager in each program, also in those that use another provider. Returns -1, and sets errno to
/// `ENOSYS`.
///
/// # Safety
/// `function` is one that `scripts/link-verbs` has laid out.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_rdma_absent(function: *const Absent, caller: *const c_void) -> isize {
    // SAFETY: By the contract of this function it can be read, and stays; the name is behind the flag, and ends with a
    // zero.
    let (is_said, name) = unsafe { (&(*function).is_said, CStr::from_ptr((&raw const (*function).name).cast())) };
    if is_libfabric(&file_of(caller)) {
        log::info(format_args!("{}", words(name)));
    } else if !is_said.swap(true, Ordering::Relaxed) {
        log::say(format_args!("{}", words(name)));
    }
    Errno(libc::ENOSYS).set();
    -1
}

/// The same, where NULL is returned.
///
/// # Safety
/// As [`weft_rdma_absent`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_rdma_absent_pointer(function: *const Absent, caller: *const c_void) -> *mut c_void {
    // SAFETY: By the contract of this function.
    unsafe { weft_rdma_absent(function, caller) };
    ptr::null_mut()
}

/// That this function is not built yet.
fn words(function: &CStr) -> String {
    format!(
        "{}: the connection manager is not built yet (ENOSYS); programs that exchange GID and queue pair number \
         themselves work",
        function.to_string_lossy()
    )
}

/// The library or program that has this address in it, as it was loaded; nothing if there is none.
fn file_of(address: *const c_void) -> Vec<u8> {
    let mut about = MaybeUninit::<libc::Dl_info>::uninit();
    // SAFETY: The place can be written. Any address may be given.
    if unsafe { libc::dladdr(address, about.as_mut_ptr()) } == 0 {
        return Vec::new();
    }
    // SAFETY: It has been written, for the call succeeded.
    let name = unsafe { about.assume_init() }.dli_fname;
    if name.is_null() {
        return Vec::new();
    }
    // SAFETY: The name of a file that is loaded, with a zero at its end. It stays while its code runs: the caller's.
    unsafe { CStr::from_ptr(name) }.to_bytes().to_owned()
}

/// Whether a file is libfabric, or a provider that it loads (`libverbs-fi.so`).
fn is_libfabric(path: &[u8]) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    name.starts_with(b"libfabric") || name.ends_with(b"-fi.so")
}

/// No devices: not built yet. That there are none is an answer, so it is said under `WEFT_VERBS_LOG=info` alone.
/// libfabric reads the number, whatever is returned.
///
/// # Safety
/// `number` is null, or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_rdma_get_devices(number: *mut c_int) -> *mut c_void {
    if !number.is_null() {
        // SAFETY: By the contract of this function.
        unsafe { *number = 0 };
    }
    log::info(format_args!("{}", words(c"rdma_get_devices")));
    Errno(libc::ENOSYS).set();
    ptr::null_mut()
}

/// The name of an event.
///
/// # Safety
/// None: it takes a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_rdma_event_str(event: c_int) -> *const c_char {
    let name = usize::try_from(event).ok().and_then(|event| EVENTS.get(event));
    name.map_or(c"UNKNOWN EVENT".as_ptr(), |name| name.as_ptr())
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    /// Laid out as by the linker's script.
    #[repr(C)]
    struct Laid(AtomicBool, [u8; 5]);

    #[test]
    fn what_is_absent_says_so_once_and_fails_each_time() {
        let laid = Laid(AtomicBool::new(false), *b"name\0");
        let function = (&raw const laid).cast::<Absent>();
        let caller = events_have_names as *const c_void;
        for _ in 0..2 {
            // SAFETY: Laid out as it has to be.
            let (failed, nothing) =
                unsafe { (weft_rdma_absent(function, caller), weft_rdma_absent_pointer(function, caller)) };
            assert!(failed == -1 && nothing.is_null());
            assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::ENOSYS));
        }
        assert!(laid.0.load(Ordering::Relaxed));
    }

    #[test]
    fn libfabric_is_known_by_the_file_of_its_code() {
        for path in
            ["/usr/lib/libfabric.so.1", "libfabric-0b7a83a3.so.1.20.0", "/opt/mpi/libfabric/libverbs-1.12-fi.so"]
        {
            assert!(is_libfabric(path.as_bytes()), "{path}");
        }
        for path in ["", "/usr/lib/libfabric/test", "/usr/bin/rping", "/usr/lib/ucx/libuct_rdmacm.so.0"] {
            assert!(!is_libfabric(path.as_bytes()), "{path}");
        }
        let own = std::env::current_exe().unwrap();
        assert_eq!(
            file_of(is_libfabric as *const c_void).rsplit(|byte| *byte == b'/').next(),
            own.file_name().map(OsStrExt::as_bytes)
        );
        assert!(file_of(ptr::null()).is_empty());
    }

    #[test]
    fn there_are_no_devices_and_their_number_says_so() {
        let mut number = 7;
        // SAFETY: Null, and a place that can be written.
        let (none, again) = unsafe { (weft_rdma_get_devices(&raw mut number), weft_rdma_get_devices(ptr::null_mut())) };
        assert!(none.is_null() && again.is_null() && number == 0);
    }

    #[test]
    fn events_have_names() {
        // SAFETY: It takes a number, and gives a text that stays.
        let name = |event| unsafe { CStr::from_ptr(weft_rdma_event_str(event)) };
        assert_eq!(name(0), c"RDMA_CM_EVENT_ADDR_RESOLVED");
        assert_eq!(name(9), c"RDMA_CM_EVENT_ESTABLISHED");
        assert_eq!([-1, 16].map(name), [c"UNKNOWN EVENT"; 2]);
    }
}
