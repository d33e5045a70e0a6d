//! Which paths lead into the folder.

use core::ffi::{CStr, c_char};
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

/// Room for a path, with its zero (`PATH_MAX`).
const ROOM: usize = libc::PATH_MAX as usize;

/// The folder, once it is known: NULL before that, and [`NONE`] where there is none. A copy: programs may write over
/// their environment.
static FOLDER: AtomicPtr<c_char> = AtomicPtr::new(ptr::null_mut());
/// An empty text.
const NONE: &CStr = c"";

/// Where a path of the folder is put together.
pub(super) struct Place([u8; ROOM]);

impl Place {
    pub(super) fn new() -> Self {
        Self([0; ROOM])
    }

    /// The path to use in place of this one.
    ///
    /// # Safety
    /// NULL, or a C string.
    pub(super) unsafe fn of(&mut self, path: *const c_char) -> *const c_char {
        if path.is_null() {
            return path;
        }
        // SAFETY: The caller's promise.
        let said = unsafe { CStr::from_ptr(path) }.to_bytes();
        if !is_shown(said) {
            return path;
        }
        let folder = folder().to_bytes();
        let length = folder.len() + said.len();
        if folder.is_empty() || length >= ROOM {
            return path;
        }
        self.0[..folder.len()].copy_from_slice(folder);
        self.0[folder.len()..length].copy_from_slice(said);
        self.0[length] = 0;
        self.0.as_ptr().cast()
    }
}

/// Whether a path is one of those that adapters have. Slashes may be doubled.
fn is_shown(path: &[u8]) -> bool {
    if path.first() != Some(&b'/') {
        return false;
    }
    let mut parts = path.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".");
    match parts.next() {
        Some(b"sys") => match (parts.next(), parts.next()) {
            (Some(b"class"), Some(part)) => part.starts_with(b"infiniband"),
            // Where the links of a class lead, for programs that follow them one by one.
            (Some(b"devices"), part) => part == Some(b"weft"),
            _ => false,
        },
        Some(b"dev") => parts.next() == Some(b"infiniband"),
        _ => false,
    }
}

/// The folder; empty where there is none.
fn folder() -> &'static CStr {
    let mut known = FOLDER.load(Ordering::Acquire);
    if known.is_null() {
        known = find();
        match FOLDER.compare_exchange(ptr::null_mut(), known, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {}
            // Another thread was first; the copy of this one stays, once in a process.
            Err(first) => known = first,
        }
    }
    // SAFETY: A C string that is never freed.
    unsafe { CStr::from_ptr(known) }
}

fn find() -> *mut c_char {
    // SAFETY: A C string; the environment is whole, or the program has broken it for itself.
    let value = unsafe { libc::getenv(c"WEFT_VERBS_FILES".as_ptr()) };
    // SAFETY: NULL was seen to; what getenv returns is a C string.
    let copy = if value.is_null() { ptr::null_mut() } else { unsafe { libc::strdup(value) } };
    if copy.is_null() { NONE.as_ptr().cast_mut() } else { copy }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_adapters_are_shown() {
        for path in [
            "/sys/class/infiniband",
            "/sys/class/infiniband/weft0/ports/1/state",
            "/sys/class//infiniband_verbs/uverbs0",
            "//sys/./class/infiniband_mad/abi_version",
            "/sys/devices/weft/eth0/infiniband",
            "/dev/infiniband",
            "/dev/infiniband/uverbs0",
        ] {
            assert!(is_shown(path.as_bytes()), "{path}");
        }
        for path in [
            "",
            "sys/class/infiniband",
            "/sys/class/net/lo",
            "/sys/class",
            "/sys/devices/pci0000:00",
            "/dev/infiniband0",
            "/dev/null",
            "/tmp/sys/class/infiniband",
        ] {
            assert!(!is_shown(path.as_bytes()), "{path}");
        }
    }

    #[test]
    fn the_variable_has_the_name_that_is_read() {
        assert_eq!(super::super::FOLDER_VARIABLE, "WEFT_VERBS_FILES");
    }
}
