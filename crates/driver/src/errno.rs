//! From the operating system's error numbers to [`PortError`]: the one place.

use std::io;

use weft_base::PortError;

/// What an error of a socket call means.
pub(crate) fn port_error(error: &io::Error) -> PortError {
    let Some(number) = error.raw_os_error() else { return PortError::System(0) };
    match number {
        libc::ECONNRESET | libc::EPIPE | libc::ECONNABORTED | libc::ENOTCONN => PortError::Reset,
        libc::ECONNREFUSED => PortError::Refused,
        libc::ETIMEDOUT => PortError::TimedOut,
        libc::ENETUNREACH | libc::EHOSTUNREACH | libc::ENETDOWN | libc::EHOSTDOWN => PortError::Unreachable,
        libc::EADDRINUSE => PortError::AddressInUse,
        libc::EADDRNOTAVAIL => PortError::AddressNotLocal,
        libc::EACCES | libc::EPERM => PortError::NotPermitted,
        libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM | libc::ENOSPC => PortError::Exhausted,
        other => PortError::System(other),
    }
}

/// The result of a system call that returns a count, or -1 and an error number. Calls that were interrupted, or would have had to wait, moved
/// nothing: `None`.
pub(crate) fn moved(result: isize) -> Result<Option<usize>, PortError> {
    if let Ok(count) = usize::try_from(result) {
        return Ok(Some(count));
    }
    let error = io::Error::last_os_error();
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
        _ => Err(port_error(&error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_its_meaning() {
        for (number, meaning) in [
            (libc::ECONNRESET, PortError::Reset),
            (libc::EPIPE, PortError::Reset),
            (libc::ECONNREFUSED, PortError::Refused),
            (libc::ETIMEDOUT, PortError::TimedOut),
            (libc::EHOSTUNREACH, PortError::Unreachable),
            (libc::ENETUNREACH, PortError::Unreachable),
            (libc::EADDRINUSE, PortError::AddressInUse),
            (libc::EADDRNOTAVAIL, PortError::AddressNotLocal),
            (libc::EACCES, PortError::NotPermitted),
            (libc::EMFILE, PortError::Exhausted),
            (libc::EIO, PortError::System(libc::EIO)),
        ] {
            assert_eq!(port_error(&io::Error::from_raw_os_error(number)), meaning);
        }
    }
}
