//! Descriptors that the parent process has left open for this one.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::sync::{Mutex, PoisonError};

/// The numbers that were taken.
static TAKEN: Mutex<BTreeSet<RawFd>> = Mutex::new(BTreeSet::new());

/// Takes a descriptor that was inherited under this number, which launchers give in the environment (PMI_FD). It closes
/// on exec from now on.
///
/// # Errors
/// No descriptor has this number, it is one of the three standard ones, or it was taken before.
pub fn take_inherited(number: RawFd) -> io::Result<OwnedFd> {
    if number <= 2 {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a standard descriptor"));
    }
    // SAFETY: fcntl checks the number, and this command changes a flag of that descriptor alone.
    if unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
        return Err(io::Error::last_os_error());
    }
    if !TAKEN.lock().unwrap_or_else(PoisonError::into_inner).insert(number) {
        return Err(io::Error::new(io::ErrorKind::ResourceBusy, "taken before"));
    }
    // SAFETY: It is open, the parent process has made it for this one, and it is taken only once here.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::IntoRawFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_descriptor_is_taken_once_and_standard_ones_never() {
        let (one, _other) = UnixStream::pair().unwrap();
        let number = one.into_raw_fd();
        let taken = take_inherited(number).unwrap();
        assert_eq!(take_inherited(number).unwrap_err().to_string(), "taken before");
        drop(taken);
        assert_eq!(take_inherited(1).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert_eq!(take_inherited(1 << 25).unwrap_err().raw_os_error(), Some(libc::EBADF));
    }
}
