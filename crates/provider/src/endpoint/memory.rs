//! The application's memory of one operation.

use core::ffi::c_void;
use core::ptr::NonNull;

use libc::iovec;
use weft::endpoint::IoBuffer;
use weft::verbs::MAX_GATHER;
use weft_libfabric::abi::errno::FI_EMSGSIZE;
use weft_libfabric::abi::fi_ioc;

use crate::errno::Errno;

/// More bytes than an operation may have.
pub(super) const TOO_LONG: Errno = Errno(FI_EMSGSIZE);

/// One piece of memory. Without bytes the address is ignored.
///
/// # Errors
/// NULL with a length.
///
/// # Safety
/// As for [`IoBuffer::foreign`], or NULL.
#[inline]
pub(super) unsafe fn lend(buffer: *const c_void, length: usize) -> Result<IoBuffer, Errno> {
    if length == 0 {
        return Ok(IoBuffer::empty());
    }
    let start = NonNull::new(buffer.cast_mut().cast()).ok_or(Errno::INVALID)?;
    // SAFETY: The caller promises it.
    Ok(unsafe { IoBuffer::foreign(start, length) })
}

/// Several pieces.
///
/// # Errors
/// NULL with a count or length; more than [`MAX_GATHER`] pieces.
///
/// # Safety
/// `pieces` is NULL or an array of `count`, and for each [`IoBuffer::foreign`] holds, or it is NULL.
pub(super) unsafe fn lend_all(pieces: *const iovec, count: usize) -> Result<IoBuffer, Errno> {
    // SAFETY: The caller promises an array.
    let pieces = unsafe { array(pieces, count) }?;
    if let [one] = pieces {
        // SAFETY: The caller promises it for each.
        return unsafe { lend(one.iov_base, one.iov_len) };
    }
    // SAFETY: The caller promises it for each.
    unsafe { lend_pieces(pieces.iter().map(|piece| (piece.iov_base, piece.iov_len))) }
}

/// The start of memory that is in one piece.
///
/// # Safety
/// `pieces` is NULL or an array of `count`.
pub(super) unsafe fn start(pieces: *const iovec, count: usize) -> Option<*mut c_void> {
    // SAFETY: Not NULL, so the caller promises one.
    (count == 1 && !pieces.is_null()).then(|| unsafe { (&raw const (*pieces).iov_base).read() })
}

/// Several pieces of elements.
///
/// # Errors
/// As for [`lend_all`].
///
/// # Safety
/// As for [`lend_all`], with `size` bytes for each element.
pub(super) unsafe fn lend_elements(pieces: *const fi_ioc, count: usize, size: usize) -> Result<IoBuffer, Errno> {
    // SAFETY: The caller promises an array.
    let pieces = unsafe { array(pieces, count) }?;
    // SAFETY: The caller promises it for each; a length that wraps is refused where lengths are compared.
    unsafe { lend_pieces(pieces.iter().map(|piece| (piece.addr, piece.count.saturating_mul(size)))) }
}

/// The bytes of several pieces of elements.
///
/// # Errors
/// NULL with a count or length; more than [`MAX_GATHER`] pieces; more than `most` bytes.
///
/// # Safety
/// `pieces` is NULL or an array of `count`, each of which is NULL or has `size` readable bytes for each element.
pub(super) unsafe fn copy_elements(
    pieces: *const fi_ioc,
    count: usize,
    size: usize,
    most: usize,
) -> Result<Vec<u8>, Errno> {
    let mut bytes = Vec::new();
    // SAFETY: The caller promises an array.
    for piece in unsafe { array(pieces, count) }? {
        let length = piece.count.saturating_mul(size);
        if length > most - bytes.len() {
            return Err(TOO_LONG);
        }
        if length > 0 {
            let start = NonNull::new(piece.addr.cast::<u8>()).ok_or(Errno::INVALID)?;
            // SAFETY: The caller promises this many readable bytes.
            bytes.extend_from_slice(unsafe { core::slice::from_raw_parts(start.as_ptr(), length) });
        }
    }
    Ok(bytes)
}

/// # Safety
/// As for [`lend_all`].
unsafe fn lend_pieces(pieces: impl Iterator<Item = (*mut c_void, usize)> + Clone) -> Result<IoBuffer, Errno> {
    if pieces.clone().any(|(start, length)| start.is_null() && length > 0) {
        return Err(Errno::INVALID);
    }
    let pieces = pieces.filter_map(|(start, length)| Some((NonNull::new(start.cast())?, length)));
    // SAFETY: The caller promises it for each.
    unsafe { IoBuffer::foreign_parts(pieces) }.ok_or(Errno::INVALID)
}

/// An array of C's: at most [`MAX_GATHER`] long, NULL only if it is empty.
///
/// # Safety
/// It is NULL or has `count` elements, which live as long as they are used.
unsafe fn array<'a, T>(start: *const T, count: usize) -> Result<&'a [T], Errno> {
    if count == 0 {
        return Ok(&[]);
    }
    if start.is_null() || count > MAX_GATHER {
        return Err(Errno::INVALID);
    }
    // SAFETY: The caller promises this many.
    Ok(unsafe { core::slice::from_raw_parts(start, count) })
}

#[cfg(test)]
mod tests {
    use core::ptr;

    use super::*;

    fn piece(bytes: &mut [u8]) -> iovec {
        iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() }
    }

    #[test]
    fn null_is_for_no_bytes() {
        // SAFETY: NULL, or not touched.
        unsafe {
            assert_eq!(lend(ptr::null(), 0).unwrap().length(), 0);
            assert_eq!(lend(ptr::null(), 1).err(), Some(Errno::INVALID));
            assert_eq!(lend_all(ptr::null(), 0).unwrap().length(), 0);
            assert_eq!(lend_all(ptr::null(), 1).err(), Some(Errno::INVALID));
            let nowhere = iovec { iov_base: ptr::null_mut(), iov_len: 3 };
            assert_eq!(lend_all([nowhere, nowhere].as_ptr(), 2).err(), Some(Errno::INVALID));
            let empty = iovec { iov_base: ptr::null_mut(), iov_len: 0 };
            assert_eq!(lend_all([empty, empty].as_ptr(), 2).unwrap().length(), 0);
        }
    }

    #[test]
    fn up_to_four_pieces() {
        let mut bytes = [1, 2, 3];
        let pieces = [(); 5].map(|()| piece(&mut bytes));
        // SAFETY: The bytes outlive the loans.
        unsafe {
            assert_eq!(lend_all(pieces.as_ptr(), 4).unwrap().length(), 12);
            assert_eq!(lend_all(pieces.as_ptr(), 5).err(), Some(Errno::INVALID));
        }
    }

    #[test]
    fn elements_are_copied_up_to_a_limit() {
        let (mut one, mut two) = ([1u16, 2], [3u16]);
        let pieces =
            [fi_ioc { addr: one.as_mut_ptr().cast(), count: 2 }, fi_ioc { addr: two.as_mut_ptr().cast(), count: 1 }];
        // SAFETY: The elements are there.
        unsafe {
            let bytes = copy_elements(pieces.as_ptr(), 2, 2, 6).unwrap();
            assert_eq!(bytes, [1u16, 2, 3].map(u16::to_ne_bytes).concat());
            assert_eq!(copy_elements(pieces.as_ptr(), 2, 2, 5).err(), Some(TOO_LONG));
            assert_eq!(lend_elements(pieces.as_ptr(), 2, 2).unwrap().length(), 6);
            let endless = [fi_ioc { addr: one.as_mut_ptr().cast(), count: usize::MAX }];
            assert_eq!(copy_elements(endless.as_ptr(), 1, 2, 64).err(), Some(TOO_LONG));
        }
    }
}
