//! What can go wrong, sorted by whose fault it is.

use core::ffi::c_int;
use core::fmt;

use super::library::Library;

/// Why an operation on libfabric failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// `libfabric.so.1` could not be loaded.
    NotInstalled {
        /// What the dynamic loader said.
        reason: String,
    },
    /// The library lacks a function of the interface.
    Unusable {
        /// The function.
        missing: &'static str,
    },
    /// A call of libfabric failed.
    Call {
        /// The function.
        call: &'static str,
        /// The code, positive.
        code: c_int,
        /// libfabric's words for it.
        text: String,
    },
    /// An operation was accepted and failed later. Its slot is idle again.
    Completion {
        /// The slot, when the provider said which.
        slot: Option<usize>,
        /// The code, positive.
        code: c_int,
        /// The provider's own code.
        provider_code: c_int,
        /// libfabric's words for it.
        text: String,
    },
    /// The caller named a slot that does not exist.
    NoSuchSlot {
        /// The number given.
        slot: usize,
        /// How many there are.
        count: usize,
    },
    /// The caller touched a slot whose operation is still pending.
    SlotBusy {
        /// The slot.
        slot: usize,
    },
    /// The caller wants more bytes than there is room for.
    TooLong {
        /// Bytes requested.
        length: usize,
        /// Bytes of a slot, or what can be injected.
        limit: usize,
    },
    /// A name holds a zero byte, so C cannot read it.
    BadName {
        /// The name.
        name: String,
    },
}

impl Error {
    /// The error of a call that returned `result`, which is negative.
    pub(super) fn of_call(library: &Library, call: &'static str, result: isize) -> Self {
        let code = c_int::try_from(result.unsigned_abs()).unwrap_or(c_int::MAX);
        Self::Call { call, code, text: library.describe(code) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotInstalled { reason } => {
                write!(f, "libfabric is not installed ({reason}); on Debian: apt install libfabric1")
            }
            Self::Unusable { missing } => write!(f, "this libfabric has no {missing}; version 1.17 or later is needed"),
            Self::Call { call, code, text } => write!(f, "{call} failed: {text} ({code})"),
            Self::Completion { slot, code, provider_code, text } => {
                f.write_str("a libfabric operation ")?;
                if let Some(slot) = slot {
                    write!(f, "on slot {slot} ")?;
                }
                write!(f, "failed: {text} ({code}, the provider's code {provider_code})")
            }
            Self::NoSuchSlot { slot, count } => write!(f, "slot {slot} of {count} does not exist"),
            Self::SlotBusy { slot } => write!(f, "slot {slot} has a pending operation; wait for its completion"),
            Self::TooLong { length, limit } => write!(f, "{length} bytes are more than the limit of {limit}"),
            Self::BadName { name } => write!(f, "the name {name:?} has a zero byte in it"),
        }
    }
}

impl core::error::Error for Error {}
