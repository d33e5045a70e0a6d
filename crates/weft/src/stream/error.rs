//! What went wrong, as sockets say it.

use std::io::{Error as IoError, ErrorKind};

use weft_base::PortError;
use weft_nic::Error;

/// The error of a socket for one of the NIC.
pub(super) fn of_nic(error: Error) -> IoError {
    let kind = match &error {
        Error::Port(PortError::System(number)) => return IoError::from_raw_os_error(*number),
        Error::Port(error) => of_port(*error),
        Error::Limit { .. } => ErrorKind::QuotaExceeded,
        Error::Depth { .. } => ErrorKind::InvalidInput,
        Error::ListenerGone => ErrorKind::NotConnected,
        Error::TimedOut(_) => ErrorKind::TimedOut,
        Error::InCallback => ErrorKind::Deadlock,
        _ => ErrorKind::Other,
    };
    IoError::new(kind, error)
}

fn of_port(error: PortError) -> ErrorKind {
    match error {
        PortError::Reset => ErrorKind::ConnectionReset,
        PortError::Refused | PortError::NotShared | PortError::Declined => ErrorKind::ConnectionRefused,
        PortError::TimedOut => ErrorKind::TimedOut,
        PortError::Unreachable | PortError::NoGateway => ErrorKind::HostUnreachable,
        PortError::InterfaceGone(_) => ErrorKind::NetworkDown,
        PortError::NoPort => ErrorKind::InvalidInput,
        PortError::SmallMtu { .. } => ErrorKind::NetworkUnreachable,
        PortError::AddressInUse => ErrorKind::AddrInUse,
        PortError::AddressNotLocal => ErrorKind::AddrNotAvailable,
        PortError::NotPermitted | PortError::NoSharedMemory(_) => ErrorKind::PermissionDenied,
        PortError::Exhausted => ErrorKind::QuotaExceeded,
        PortError::Memory(_) | PortError::Unreadable(_) | PortError::System(_) => ErrorKind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_has_its_kind_and_keeps_its_words() {
        for (error, kind) in [
            (PortError::Refused, ErrorKind::ConnectionRefused),
            (PortError::Reset, ErrorKind::ConnectionReset),
            (PortError::TimedOut, ErrorKind::TimedOut),
            (PortError::AddressInUse, ErrorKind::AddrInUse),
            (PortError::AddressNotLocal, ErrorKind::AddrNotAvailable),
            (PortError::Unreachable, ErrorKind::HostUnreachable),
            (PortError::System(13), ErrorKind::PermissionDenied),
        ] {
            let shown = of_nic(Error::Port(error));
            assert_eq!(shown.kind(), kind, "{error}");
            assert_eq!(shown.to_string(), error.to_string());
        }
        let limit = of_nic(Error::Limit { name: "connections", limit: 7 });
        assert!(limit.kind() == ErrorKind::QuotaExceeded && limit.to_string().contains("`connections` of 7"));
    }
}
