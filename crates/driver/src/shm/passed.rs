//! Passes copies of lent bytes to a borrower that cannot read them any more.
//!
//! A process can become unreadable for its peer while something is lent: it gives up privileges or becomes not dumpable
//! (setuid(2), prctl(2)), or the peer loses the permission to read it. Nothing is lent from then on. The lender copies
//! the runs that are already lent to memory of its own, and passes it over the socket, one descriptor for each run, in
//! order.

use core::time::Duration;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use socket2::Socket;
use weft_base::{Lent, PortError, Slice};
use weft_memory::Registry;

use super::memory::{self, check};
use super::places::Places;
use crate::error::{from_number, would_block};
use crate::passing;
use crate::vectors::uninterrupted;

/// The byte that comes with a descriptor. A wake-up is 0, and 1 declines.
pub(super) const PASSED: u8 = 2;
/// How long the lender may take. The engine waits meanwhile, as it does for a page fault of the lender; per connection
/// that happens for the few lent runs, and never again.
const PATIENCE: Duration = Duration::from_secs(1);

/// A copy of lent bytes, to be passed.
pub(super) fn copy_of(run: &[Lent]) -> Result<OwnedFd, PortError> {
    let bytes = run.iter().map(|lent| lent.length as usize).sum();
    let copy = memory::create(bytes)?;
    let mut at = 0;
    for lent in run {
        let mut from = (lent.address, lent.length as usize);
        while from.1 > 0 {
            // SAFETY: The lender keeps these bytes in place until they are returned; the kernel reads them.
            let written = uninterrupted(|| unsafe {
                let (fd, start) = (copy.as_raw_fd(), from.0 as *const libc::c_void);
                libc::pwrite(fd, start, from.1, at as libc::off_t) as libc::c_long
            });
            let written = written.map_err(from_number)?;
            from = (from.0 + written as u64, from.1 - written);
            at += written;
        }
    }
    Ok(copy)
}

/// Waits for the next passed run, and reads it into its place. Meanwhile `pass` passes runs that the other side waits
/// for in turn: both may have become unreadable.
pub(super) fn take(
    socket: &Socket,
    mut pass: impl FnMut(),
    registry: &Registry,
    into: &[Slice],
) -> Result<(), PortError> {
    let until = Instant::now() + PATIENCE;
    loop {
        pass();
        let mut word = [0; 8];
        match passing::receive_with(socket, &mut word) {
            Ok((0, _)) => return Err(PortError::Reset),
            Ok((_, Some(passed))) if word[0] == PASSED => return read(passed.as_fd(), registry, into),
            // A wake-up.
            Ok(_) => {}
            Err(number) if would_block(number) => {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Err(PortError::Unreadable(libc::EPERM));
                }
                passing::wait_readable(socket, left);
            }
            Err(_) => return Err(PortError::Reset),
        }
    }
}

/// Reads a passed copy, which must have exactly this length, in memory that cannot shrink: reading it never blocks.
fn read(passed: BorrowedFd<'_>, registry: &Registry, into: &[Slice]) -> Result<(), PortError> {
    check(passed, into.iter().map(|slice| slice.length as usize).sum())?;
    let mut places = Places::default();
    places.add(registry, into)?;
    let mut at = 0;
    for place in &places.vectors {
        let mut done = 0;
        while done < place.iov_len {
            // SAFETY: The place is valid for writes while it is held, and no references to it exist.
            let read = uninterrupted(|| unsafe {
                let to = place.iov_base.cast::<u8>().add(done).cast();
                libc::pread(passed.as_raw_fd(), to, place.iov_len - done, at as libc::off_t) as libc::c_long
            });
            match read.map_err(from_number)? {
                0 => return Err(PortError::System(libc::EPROTO)),
                read => (done, at) = (done + read, at + read),
            }
        }
    }
    Ok(())
}
