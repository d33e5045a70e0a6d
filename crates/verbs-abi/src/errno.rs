//! Error numbers, and the words of those that a program can't tell apart by them.

use weft::verbs::{Error, MemoryError, PortError, PostError};

use crate::log;

/// A number of errno(3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Errno(pub(crate) i32);

impl Errno {
    pub(crate) const INVALID: Self = Self(libc::EINVAL);
    pub(crate) const BUSY: Self = Self(libc::EBUSY);
    pub(crate) const NO_MEMORY: Self = Self(libc::ENOMEM);
    pub(crate) const FAULT: Self = Self(libc::EFAULT);
    pub(crate) const UNSUPPORTED: Self = Self(libc::EOPNOTSUPP);
    /// A bug of this library: a panic, whose words are on stderr.
    pub(crate) const BUG: Self = Self(libc::ENOTRECOVERABLE);

    /// Of the calling thread.
    pub(crate) fn last() -> Self {
        Self(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
    }

    /// Makes it the calling thread's.
    pub(crate) fn set(self) {
        // SAFETY: The thread's own number can be written.
        unsafe { *libc::__errno_location() = self.0 };
    }
}

impl From<MemoryError> for Errno {
    fn from(error: MemoryError) -> Self {
        match error {
            MemoryError::Unusable { .. } | MemoryError::Fault { .. } => Self::FAULT,
            MemoryError::Limit { .. } | MemoryError::OutOfMemory { .. } => Self::NO_MEMORY,
            _ => Self::INVALID,
        }
    }
}

impl From<Error> for Errno {
    fn from(error: Error) -> Self {
        log::info(format_args!("refused: {error}"));
        match error {
            Error::Memory(error) => error.into(),
            Error::Limit { .. } => Self::NO_MEMORY,
            Error::Port(PortError::Exhausted) => Self(libc::EMFILE),
            Error::Port(_) => Self(libc::EIO),
            Error::Forked => Self(libc::ENODEV),
            _ => Self::INVALID,
        }
    }
}

impl From<PostError> for Errno {
    fn from(error: PostError) -> Self {
        match error {
            PostError::QueueFull { .. } | PostError::CompletionQueueFull { .. } => Self::NO_MEMORY,
            PostError::NotAgreed => Self::UNSUPPORTED,
            PostError::Memory(error) => error.into(),
            _ => Self::INVALID,
        }
    }
}
