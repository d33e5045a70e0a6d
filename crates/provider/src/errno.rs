//! Maps every error of this crate, and of Weft beneath it, to the code in libfabric's manual pages.

use core::ffi::c_int;
use core::fmt;

use weft::endpoint::{Attempt, AttemptFailure, Attempts, EndpointError, EndpointFailure};
use weft::verbs::{Closed, ConnectionError, Error, MemoryError, PortError, StartReason, StreamError};
use weft_libfabric::abi::errno::*;

/// A positive code of `rdma/fi_errno.h`. Functions of the C interface return it negated.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Errno(pub(crate) c_int);

impl Errno {
    /// An invalid argument.
    pub(crate) const INVALID: Self = Self(FI_EINVAL);
    /// Not supported by this provider.
    pub(crate) const NOT_HERE: Self = Self(FI_ENOSYS);
    /// Not supported by this object.
    pub(crate) const UNSUPPORTED: Self = Self(FI_EOPNOTSUPP);
    /// Others still use the object.
    pub(crate) const BUSY: Self = Self(FI_EBUSY);
    /// Unknown flags.
    pub(crate) const BAD_FLAGS: Self = Self(FI_EBADFLAGS);
    /// No match.
    pub(crate) const NO_DATA: Self = Self(FI_ENODATA);
    /// No memory left.
    pub(crate) const NO_MEMORY: Self = Self(FI_ENOMEM);
    /// Not now: read completions, and retry.
    pub(crate) const AGAIN: Self = Self(FI_EAGAIN);
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Errno({})", self.0)
    }
}

impl From<Error> for Errno {
    fn from(error: Error) -> Self {
        Self(of_error(&error))
    }
}

impl From<EndpointError> for Errno {
    fn from(error: EndpointError) -> Self {
        Self(match &error {
            EndpointError::Again => FI_EAGAIN,
            EndpointError::UnknownPeer(_) | EndpointError::Invalid(_) => FI_EINVAL,
            EndpointError::TooLong { .. } => FI_EMSGSIZE,
            EndpointError::NotClaimed(_) => FI_ENOMSG,
            EndpointError::Closed | EndpointError::InCallback => FI_EOPBADSTATE,
            EndpointError::Nic(error) => of_error(error),
        })
    }
}

impl From<MemoryError> for Errno {
    fn from(error: MemoryError) -> Self {
        Self(of_memory(&error))
    }
}

/// The code of a request that was accepted and failed: `err` of its completion.
pub(crate) fn of_failure(failure: &EndpointFailure) -> c_int {
    match failure {
        EndpointFailure::Truncated { .. } => FI_ETRUNC,
        EndpointFailure::Canceled | EndpointFailure::Closed => FI_ECANCELED,
        EndpointFailure::Unreachable(attempts) => of_attempts(attempts),
        EndpointFailure::Lost(error) => of_connection(error),
        EndpointFailure::Access => FI_EACCES,
        EndpointFailure::Operation => FI_EOPNOTSUPP,
        EndpointFailure::NoMemory => FI_ENOMEM,
        EndpointFailure::Fault => libc::EFAULT,
        EndpointFailure::Refused => FI_EREMOTEIO,
        EndpointFailure::InCallback => FI_EOPBADSTATE,
    }
}

/// The code of the path that came closest: an answer says more than silence.
fn of_attempts(attempts: &Attempts) -> c_int {
    attempts.0.iter().map(of_attempt).max_by_key(|code| *code != FI_ETIMEDOUT).unwrap_or(FI_EHOSTUNREACH)
}

fn of_attempt(attempt: &Attempt) -> c_int {
    match &attempt.failure {
        AttemptFailure::Connection(error) => of_connection(error),
        AttemptFailure::SomebodyElse | AttemptFailure::Foreign | AttemptFailure::Itself | AttemptFailure::Elsewhere => {
            FI_ECONNREFUSED
        }
        AttemptFailure::KeyWanted | AttemptFailure::NoKey | AttemptFailure::WrongKey => FI_EACCES,
        AttemptFailure::Version { .. } | AttemptFailure::Extension | AttemptFailure::Transport { .. } => FI_EPROTO,
        AttemptFailure::Full | AttemptFailure::Exhausted => FI_ENOBUFS,
    }
}

fn of_error(error: &Error) -> c_int {
    match error {
        Error::Limit { .. } => FI_ENOSPC,
        Error::Depth { .. } | Error::DomainMismatch | Error::OtherNic | Error::Settings(_) | Error::Start(_) => {
            FI_EINVAL
        }
        Error::State { .. } | Error::ListenerGone | Error::Forked | Error::InCallback => FI_EOPBADSTATE,
        Error::RequestGone => FI_ECONNABORTED,
        Error::Port(error) => of_port(error),
        Error::Memory(error) => of_memory(error),
        Error::TimedOut(_) => FI_ETIMEDOUT,
        Error::Connection(error) => of_connection(error),
        _ => FI_EOTHER,
    }
}

fn of_connection(error: &ConnectionError) -> c_int {
    match error {
        ConnectionError::Port(error) | ConnectionError::Connect { error, .. } => of_port(error),
        ConnectionError::NoAnswer { .. } => FI_ETIMEDOUT,
        ConnectionError::Local(error) => of_error(error),
        ConnectionError::Start(error) => match error.reason {
            StartReason::Rejected { .. } => FI_ECONNREFUSED,
            StartReason::TimedOut { .. } => FI_ETIMEDOUT,
            StartReason::ClosedEarly => FI_ECONNRESET,
            _ => FI_EPROTO,
        },
        ConnectionError::Stream(StreamError::Lost(Closed::TimedOut)) => FI_ETIMEDOUT,
        ConnectionError::Stream(StreamError::Lost(Closed::InterfaceGone(_))) => FI_ENETDOWN,
        ConnectionError::Stream(StreamError::Lost(_)) => FI_ECONNRESET,
        ConnectionError::Stream(StreamError::Below(_)) => FI_ECRC,
        ConnectionError::Stream(StreamError::Aborted) | ConnectionError::Abandoned => FI_ECONNABORTED,
        ConnectionError::Stream(_) | ConnectionError::Protocol => FI_EPROTO,
        ConnectionError::Closed => FI_ECONNRESET,
        _ => FI_EOTHER,
    }
}

fn of_port(error: &PortError) -> c_int {
    match error {
        PortError::Reset => FI_ECONNRESET,
        PortError::Refused | PortError::NotShared | PortError::Declined => FI_ECONNREFUSED,
        PortError::TimedOut => FI_ETIMEDOUT,
        PortError::Unreachable | PortError::NoGateway => FI_EHOSTUNREACH,
        PortError::InterfaceGone(_) => FI_ENETDOWN,
        PortError::NoPort => FI_EINVAL,
        PortError::SmallMtu { .. } => FI_EMSGSIZE,
        PortError::AddressInUse => FI_EADDRINUSE,
        PortError::AddressNotLocal => FI_EADDRNOTAVAIL,
        PortError::NotPermitted | PortError::NoSharedMemory(_) => FI_EACCES,
        PortError::Exhausted => FI_EMFILE,
        PortError::Memory(_) => FI_EINVAL,
        PortError::Unreadable(number) | PortError::System(number) => *number,
    }
}

fn of_memory(error: &MemoryError) -> c_int {
    match error {
        MemoryError::Limit { .. } => FI_ENOSPC,
        MemoryError::StagInUse(_) => FI_ENOKEY,
        MemoryError::OutOfMemory { .. } | MemoryError::NoRandomness => FI_ENOMEM,
        MemoryError::InFlight { .. } | MemoryError::Borrowed(_) | MemoryError::DomainInUse { .. } => FI_EBUSY,
        MemoryError::NotPermitted { .. } => FI_EACCES,
        MemoryError::Unusable { .. } | MemoryError::Fault { .. } => libc::EFAULT,
        MemoryError::WrongDomain { .. } | MemoryError::UnknownDomain(_) => FI_EDOMAIN,
        MemoryError::TooLong { .. } => FI_EMSGSIZE,
        _ => FI_EINVAL,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn the_path_with_an_answer_gives_the_reason() {
        let attempt = |error| Attempt {
            local: None,
            remote: "192.0.2.1:7".parse().unwrap(),
            failure: AttemptFailure::Connection(ConnectionError::Port(error)),
        };
        let failure = |errors: Vec<PortError>| {
            of_failure(&EndpointFailure::Unreachable(Arc::new(Attempts(errors.into_iter().map(attempt).collect()))))
        };
        assert_eq!(failure(vec![PortError::TimedOut, PortError::Refused]), FI_ECONNREFUSED);
        assert_eq!(failure(vec![PortError::TimedOut]), FI_ETIMEDOUT);
        assert_eq!(failure(vec![]), FI_EHOSTUNREACH);
    }

    #[test]
    fn a_peer_that_is_gone_is_named_so() {
        let lost = |error| of_failure(&EndpointFailure::Lost(error));
        assert_eq!(lost(ConnectionError::Closed), FI_ECONNRESET);
        assert_eq!(lost(ConnectionError::Protocol), FI_EPROTO);
    }

    #[test]
    fn a_call_from_a_callback_comes_at_the_wrong_time() {
        let codes = [
            Errno::from(EndpointError::InCallback),
            Error::InCallback.into(),
            EndpointError::Nic(Error::InCallback).into(),
        ];
        assert_eq!(codes, [Errno(FI_EOPBADSTATE); 3]);
    }

    #[test]
    fn full_queues_are_worth_another_try() {
        assert_eq!(Errno::from(EndpointError::Again), Errno::AGAIN);
    }
}
