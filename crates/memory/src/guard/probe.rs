//! Whether memory can be registered: it is mapped, and can be written if peers are to write it.

use core::ptr::NonNull;
use std::fs::File;
use std::io::{BufRead, BufReader};

use crate::MemoryError;

/// Memory of at most this many bytes is probed page by page, which brings it into memory, as registration with an
/// adapter does. Longer memory is looked up in the table of mappings (0.1 ms) and stays as sparse as it is.
const SHORT: usize = 256 << 10;

/// # Errors
/// A part of it is not mapped, or can't be written though that is wanted.
pub(crate) fn check(start: NonNull<u8>, length: usize, writable: bool) -> Result<(), MemoryError> {
    let first = start.addr().get();
    let refused = MemoryError::Unusable { address: first as u64, length: length as u64, writable };
    let end = first.checked_add(length).ok_or(refused)?;
    let is_there = match populate(first, end, writable) {
        Some(populated) => populated,
        // Without /proc this is unknown; a later fault ends the work that meets it.
        None => mapped(first, end, writable).unwrap_or(true),
    };
    if is_there { Ok(()) } else { Err(refused) }
}

/// Brings the pages into memory. `None` where the range is long or the kernel is older than 5.14.
fn populate(first: usize, end: usize, writable: bool) -> Option<bool> {
    if end - first > SHORT || cfg!(miri) {
        return None;
    }
    // SAFETY: A constant of the system.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok()?;
    let from = first - first % page;
    let advice = if writable { libc::MADV_POPULATE_WRITE } else { libc::MADV_POPULATE_READ };
    // SAFETY: This advice changes no content, whatever is there.
    let populated = unsafe { libc::madvise(core::ptr::without_provenance_mut(from), end - from, advice) } == 0;
    if populated {
        return Some(true);
    }
    match std::io::Error::last_os_error().raw_os_error() {
        // Not mapped; or without the right; or beyond the end of its file.
        Some(libc::ENOMEM | libc::EFAULT) => Some(false),
        // EINVAL: an older kernel, or a mapping without the right.
        _ => None,
    }
}

/// Whether `/proc/self/maps` has all of it, with the right. `None` without that file.
fn mapped(first: usize, end: usize, writable: bool) -> Option<bool> {
    covers(BufReader::new(File::open("/proc/self/maps").ok()?).lines().map_while(Result::ok), first, end, writable)
}

fn covers(lines: impl Iterator<Item = String>, first: usize, end: usize, writable: bool) -> Option<bool> {
    let mut at = first;
    for line in lines {
        let (range, rest) = line.split_once(' ')?;
        let (from, to) = range.split_once('-')?;
        let (from, to) = (usize::from_str_radix(from, 16).ok()?, usize::from_str_radix(to, 16).ok()?);
        if at >= to {
            continue;
        }
        let rights = rest.as_bytes();
        let is_permitted = rights.first() == Some(&b'r') && (!writable || rights.get(1) == Some(&b'w'));
        if from > at || !is_permitted {
            return Some(false);
        }
        at = to;
        if at >= end {
            return Some(true);
        }
    }
    Some(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covered(first: usize, end: usize, writable: bool) -> Option<bool> {
        let lines = ["1000-3000 rw-p 0 00:00 0", "3000-4000 r--p 0 00:00 0 /f", "5000-6000 ---p 0 00:00 0"];
        covers(lines.iter().map(ToString::to_string), first, end, writable)
    }

    #[test]
    fn each_byte_has_to_be_mapped_with_the_right() {
        assert_eq!(covered(0x1000, 0x3000, true), Some(true));
        assert_eq!(covered(0x1800, 0x3800, false), Some(true));
        assert_eq!(covered(0x1800, 0x3800, true), Some(false), "the second mapping is read-only");
        assert_eq!(covered(0x3800, 0x4001, false), Some(false), "a hole follows");
        assert_eq!(covered(0x0800, 0x1800, false), Some(false));
        assert_eq!(covered(0x5000, 0x5001, false), Some(false), "no right at all");
        assert_eq!(covered(0x7000, 0x7001, false), Some(false), "behind all of them");
    }
}
