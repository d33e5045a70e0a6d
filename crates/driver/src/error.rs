//! Error numbers of the operating system, as [`PortError`]s.

use std::io;

use weft_base::PortError;

/// The error of this thread's last system call.
pub(crate) fn last_error() -> i32 {
    number_of(&io::Error::last_os_error())
}

pub(crate) fn port_error(error: &io::Error) -> PortError {
    from_number(number_of(error))
}

fn number_of(error: &io::Error) -> i32 {
    // All errors come from system calls; what the standard library itself refuses (a zero byte in a name) counts as
    // EINVAL.
    error.raw_os_error().unwrap_or(libc::EINVAL)
}

/// Whether the call need only be retried later.
pub(crate) const fn would_block(number: i32) -> bool {
    number == libc::EAGAIN || number == libc::EWOULDBLOCK
}

pub(crate) const fn from_number(number: i32) -> PortError {
    match number {
        libc::ECONNRESET | libc::EPIPE | libc::ECONNABORTED | libc::ENOTCONN => PortError::Reset,
        libc::ECONNREFUSED => PortError::Refused,
        libc::ETIMEDOUT => PortError::TimedOut,
        libc::ENETUNREACH | libc::EHOSTUNREACH | libc::EHOSTDOWN | libc::ENETDOWN | libc::ENONET => {
            PortError::Unreachable
        }
        libc::EADDRINUSE => PortError::AddressInUse,
        libc::EADDRNOTAVAIL => PortError::AddressNotLocal,
        libc::EACCES | libc::EPERM => PortError::NotPermitted,
        libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM | libc::ENOSPC => PortError::Exhausted,
        number => PortError::System(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_errors() {
        let table = [
            (libc::ECONNRESET, PortError::Reset),
            (libc::EPIPE, PortError::Reset),
            (libc::ECONNABORTED, PortError::Reset),
            (libc::ENOTCONN, PortError::Reset),
            (libc::ECONNREFUSED, PortError::Refused),
            (libc::ETIMEDOUT, PortError::TimedOut),
            (libc::ENETUNREACH, PortError::Unreachable),
            (libc::EHOSTUNREACH, PortError::Unreachable),
            (libc::EHOSTDOWN, PortError::Unreachable),
            (libc::ENETDOWN, PortError::Unreachable),
            (libc::ENONET, PortError::Unreachable),
            (libc::EADDRINUSE, PortError::AddressInUse),
            (libc::EADDRNOTAVAIL, PortError::AddressNotLocal),
            (libc::EACCES, PortError::NotPermitted),
            (libc::EPERM, PortError::NotPermitted),
            (libc::EMFILE, PortError::Exhausted),
            (libc::ENFILE, PortError::Exhausted),
            (libc::ENOBUFS, PortError::Exhausted),
            (libc::ENOMEM, PortError::Exhausted),
            (libc::ENOSPC, PortError::Exhausted),
            (libc::EINVAL, PortError::System(libc::EINVAL)),
            (libc::EFAULT, PortError::System(libc::EFAULT)),
        ];
        for (number, error) in table {
            assert_eq!(from_number(number), error, "error number {number}");
            assert_eq!(port_error(&io::Error::from_raw_os_error(number)), error);
        }
        assert!(would_block(libc::EAGAIN) && !would_block(libc::EINTR));
    }
}
