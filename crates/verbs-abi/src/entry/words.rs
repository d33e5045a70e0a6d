//! Names of numbers, rates, and files that kernels have for adapters.

use core::ffi::{CStr, c_char, c_int};

use libc::size_t;

use crate::border::number;
use crate::device::read_file;
use crate::errno::Errno;

fn word(words: &'static [&'static CStr], number: c_int, otherwise: &'static CStr) -> *const c_char {
    usize::try_from(number).ok().and_then(|number| words.get(number)).unwrap_or(&otherwise).as_ptr()
}

/// # Safety
/// None.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_ibv_node_type_str(kind: c_int) -> *const c_char {
    const WORDS: [&CStr; 8] = [
        c"unknown",
        c"InfiniBand channel adapter",
        c"InfiniBand switch",
        c"InfiniBand router",
        c"iWARP NIC",
        c"usNIC",
        c"usNIC UDP",
        c"unspecified",
    ];
    word(&WORDS, kind, c"unknown")
}

/// # Safety
/// None.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_ibv_port_state_str(state: c_int) -> *const c_char {
    const WORDS: [&CStr; 6] = [c"no state change (NOP)", c"down", c"init", c"armed", c"active", c"active defer"];
    word(&WORDS, state, c"invalid state")
}

/// # Safety
/// None.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_ibv_event_type_str(event: c_int) -> *const c_char {
    const WORDS: [&CStr; 20] = [
        c"CQ error",
        c"local work queue catastrophic error",
        c"invalid request local work queue error",
        c"local access violation work queue error",
        c"communication established",
        c"send queue drained",
        c"path migrated",
        c"path migration request error",
        c"local catastrophic error",
        c"port active",
        c"port error",
        c"LID change",
        c"P_Key change",
        c"SM change",
        c"SRQ catastrophic error",
        c"SRQ limit reached",
        c"last WQE reached",
        c"client reregistration",
        c"GID table change",
        c"WQ fatal",
    ];
    word(&WORDS, event, c"unknown")
}

/// # Safety
/// None.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_ibv_wc_status_str(status: c_int) -> *const c_char {
    const WORDS: [&CStr; 24] = [
        c"success",
        c"local length error",
        c"local QP operation error",
        c"local EE context operation error",
        c"local protection error",
        c"Work Request Flushed Error",
        c"memory management operation error",
        c"bad response error",
        c"local access error",
        c"remote invalid request error",
        c"remote access error",
        c"remote operation error",
        c"transport retry counter exceeded",
        c"RNR retry counter exceeded",
        c"local RDD violation error",
        c"remote invalid RD request",
        c"aborted error",
        c"invalid EE context number",
        c"invalid EE context state",
        c"fatal error",
        c"response timeout error",
        c"general error",
        c"TM error",
        c"TM software rendezvous",
    ];
    word(&WORDS, status, c"unknown")
}

/// The rates: number, multiple of 2.5 Gb/s (0: none), and Mb/s.
const RATES: [(c_int, c_int, c_int); 23] = [
    (2, 1, 2_500),
    (5, 2, 5_000),
    (3, 4, 10_000),
    (6, 8, 20_000),
    (4, 12, 30_000),
    (7, 16, 40_000),
    (8, 24, 60_000),
    (9, 32, 80_000),
    (10, 48, 120_000),
    (11, 0, 14_062),
    (12, 0, 56_250),
    (13, 0, 112_500),
    (14, 0, 168_750),
    (15, 10, 25_781),
    (16, 0, 103_125),
    (17, 0, 206_250),
    (18, 0, 309_375),
    (19, 0, 28_125),
    (20, 20, 53_125),
    (21, 0, 425_000),
    (22, 0, 637_500),
    (23, 0, 850_000),
    (24, 0, 1_275_000),
];

/// # Safety
/// None.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_ibv_rate_to_mult(rate: c_int) -> c_int {
    RATES.iter().find(|(number, multiple, _)| *number == rate && *multiple > 0).map_or(-1, |(_, multiple, _)| *multiple)
}

/// # Safety
/// None.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_mult_to_ibv_rate(multiple: c_int) -> c_int {
    RATES.iter().find(|(_, of, _)| *of == multiple && *of > 0).map_or(0, |(number, ..)| *number)
}

/// # Safety
/// None.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_ibv_rate_to_mbps(rate: c_int) -> c_int {
    RATES.iter().find(|(number, ..)| *number == rate).map_or(-1, |(.., megabits)| *megabits)
}

/// # Safety
/// None.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_mbps_to_ibv_rate(megabits: c_int) -> c_int {
    RATES.iter().find(|(.., of)| *of == megabits).map_or(0, |(number, ..)| *number)
}

/// # Safety
/// None.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_ibv_get_sysfs_path() -> *const c_char {
    c"/sys".as_ptr()
}

/// The files of this host's devices, as `weft run` shows them, without the end of the line. Returns the length, as far
/// as there is room.
///
/// # Safety
/// NULL or C strings, and `length` bytes that can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_ibv_read_sysfs_file(
    folder: *const c_char,
    file: *const c_char,
    to: *mut c_char,
    length: size_t,
) -> c_int {
    number(|| {
        if folder.is_null() || file.is_null() || to.is_null() {
            return Err(Errno::INVALID);
        }
        // SAFETY: The caller's promise.
        let parts = unsafe { [CStr::from_ptr(folder), CStr::from_ptr(file)] };
        let [folder, file] = parts.map(CStr::to_string_lossy);
        let text = read_file(&format!("{folder}/{file}")).ok_or(Errno(libc::ENOENT))?;
        let taken = text.len().min(length);
        // SAFETY: The caller's promise.
        unsafe { to.copy_from_nonoverlapping(text.as_ptr().cast(), taken) };
        if taken < length {
            // SAFETY: There is room for it.
            unsafe { to.add(taken).write(0) };
        }
        Ok(taken as c_int)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(pointer: *const c_char) -> &'static str {
        // SAFETY: A constant C string.
        unsafe { CStr::from_ptr(pointer) }.to_str().unwrap()
    }

    #[test]
    fn numbers_beyond_the_tables_have_a_word_too() {
        // SAFETY: They read nothing but numbers.
        unsafe {
            assert_eq!(text(weft_ibv_wc_status_str(12)), "transport retry counter exceeded");
            assert_eq!(text(weft_ibv_wc_status_str(-1)), "unknown");
            assert_eq!(text(weft_ibv_event_type_str(20)), "unknown");
            assert_eq!(text(weft_ibv_node_type_str(-1)), "unknown");
            assert_eq!(text(weft_ibv_port_state_str(4)), "active");
        }
    }

    #[test]
    fn files_are_read_as_far_as_there_is_room() {
        let mut to = [b'x' as c_char; 4];
        let mut read = |file: &CStr, length| {
            let folder = c"/sys/class/infiniband_verbs";
            // SAFETY: C strings, and room for four bytes.
            (unsafe { weft_ibv_read_sysfs_file(folder.as_ptr(), file.as_ptr(), to.as_mut_ptr(), length) }, to)
        };
        let [x, six] = [b'x', b'6'].map(|byte| byte as c_char);
        // This host has a device: the loopback at least.
        assert_eq!(read(c"abi_version", 1), (1, [six, x, x, x]));
        assert_eq!(read(c"abi_version", 4), (1, [six, 0, x, x]));
        assert_eq!(read(c"no-such-file", 4).0, -1);
        assert_eq!(Errno::last(), Errno(libc::ENOENT));
    }

    #[test]
    fn rates_go_both_ways() {
        // SAFETY: They read nothing but numbers.
        unsafe {
            assert_eq!((weft_ibv_rate_to_mult(3), weft_mult_to_ibv_rate(4)), (4, 3));
            assert_eq!((weft_ibv_rate_to_mbps(12), weft_mbps_to_ibv_rate(56_250)), (56_250, 12));
            assert_eq!((weft_ibv_rate_to_mult(11), weft_ibv_rate_to_mbps(99)), (-1, -1));
            assert_eq!((weft_mult_to_ibv_rate(0), weft_mbps_to_ibv_rate(1)), (0, 0));
        }
    }
}
