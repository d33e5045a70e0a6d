//! Failures in libfabric's terms: a code, a number of this provider, and a text.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr;

use weft::endpoint::EndpointFailure;
use weft_libfabric::abi::errno::*;

use crate::errno::of_failure;

/// Why an operation has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// `fi_cq_err_entry::err`.
    pub(crate) code: c_int,
    /// `fi_cq_err_entry::prov_errno`.
    pub(crate) kind: Kind,
    /// Bytes that did not fit into a receive's memory.
    pub(crate) overflow: u64,
    /// An explanation for people.
    pub(crate) text: Box<str>,
}

/// The provider's own numbers for failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Kind {
    Truncated = 1,
    Canceled = 2,
    Unreachable = 3,
    Lost = 4,
    Access = 5,
    Operation = 6,
    NoMemory = 7,
    Refused = 8,
    Closed = 9,
    NoMessage = 10,
    Overrun = 11,
    Fault = 12,
}

impl Kind {
    const ALL: [Self; 12] = [
        Self::Truncated,
        Self::Canceled,
        Self::Unreachable,
        Self::Lost,
        Self::Access,
        Self::Operation,
        Self::NoMemory,
        Self::Refused,
        Self::Closed,
        Self::NoMessage,
        Self::Overrun,
        Self::Fault,
    ];

    /// The explanation when only the number is known.
    pub(crate) const fn text(self) -> &'static core::ffi::CStr {
        match self {
            Self::Truncated => c"the message was longer than the receive's memory",
            Self::Canceled => c"canceled",
            Self::Unreachable => c"the peer can't be reached",
            Self::Lost => c"the connection to the peer was lost",
            Self::Access => c"the peer grants no such access: no such key, right or range",
            Self::Operation => c"the peer does not support this operation there",
            Self::NoMemory => c"this side's memory table is full",
            Self::Refused => c"the peer refused: it has no memory for it",
            Self::Closed => c"the endpoint was closed",
            Self::NoMessage => c"no message matches",
            Self::Overrun => c"completions were lost, because the queue was not read",
            Self::Fault => c"the memory was unmapped, or its file truncated, before the operation completed",
        }
    }

    /// From a number that an application passes.
    pub(crate) fn from_number(number: c_int) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as c_int == number)
    }
}

impl Failure {
    /// No message matches a peek.
    pub(crate) fn no_message() -> Self {
        Self::plain(FI_ENOMSG, Kind::NoMessage)
    }

    /// More completions than a queue could keep.
    pub(crate) fn overrun() -> Self {
        Self::plain(FI_EOVERRUN, Kind::Overrun)
    }

    /// Whether programs expect it: after a peek, or a cancel.
    pub(crate) const fn is_expected(&self) -> bool {
        matches!(self.kind, Kind::NoMessage | Kind::Canceled)
    }

    fn plain(code: c_int, kind: Kind) -> Self {
        Self { code, kind, overflow: 0, text: kind.text().to_string_lossy().into() }
    }
}

impl From<&EndpointFailure> for Failure {
    fn from(failure: &EndpointFailure) -> Self {
        let kind = match failure {
            EndpointFailure::Truncated { .. } => Kind::Truncated,
            EndpointFailure::Canceled => Kind::Canceled,
            EndpointFailure::Unreachable(_) => Kind::Unreachable,
            EndpointFailure::Lost(_) => Kind::Lost,
            EndpointFailure::Access => Kind::Access,
            EndpointFailure::Operation => Kind::Operation,
            EndpointFailure::NoMemory => Kind::NoMemory,
            EndpointFailure::Fault => Kind::Fault,
            EndpointFailure::Refused => Kind::Refused,
            // No request fails with the latter: only a close does.
            EndpointFailure::Closed | EndpointFailure::InCallback => Kind::Closed,
        };
        let overflow = match failure {
            EndpointFailure::Truncated { length, room } => length.saturating_sub(*room),
            _ => 0,
        };
        Self { code: of_failure(failure), kind, overflow, text: failure.to_string().into() }
    }
}

/// The text of a failure: its explanation if there is one, otherwise that of its number; in `buffer`, if there is one.
///
/// # Safety
/// `explanation` is NULL or a C string, `buffer` is NULL or has `length` bytes.
pub(super) unsafe fn words(
    number: c_int,
    explanation: *const c_void,
    buffer: *mut c_char,
    length: usize,
) -> *const c_char {
    let text = if explanation.is_null() {
        Kind::from_number(number).map_or(c"an unknown error number of this provider", Kind::text)
    } else {
        // SAFETY: The caller promises a C string.
        unsafe { CStr::from_ptr(explanation.cast()) }
    };
    if buffer.is_null() || length == 0 {
        return text.as_ptr();
    }
    let copied = text.count_bytes().min(length - 1);
    // SAFETY: The caller promises that many bytes.
    unsafe {
        ptr::copy(text.as_ptr(), buffer, copied);
        buffer.add(copied).write(0);
    }
    buffer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_words() {
        for (failure, code) in
            [(EndpointFailure::Truncated { length: 9, room: 4 }, FI_ETRUNC), (EndpointFailure::Canceled, FI_ECANCELED)]
        {
            assert_eq!(Failure::from(&failure).code, code, "{failure}");
            assert_eq!(&*Failure::from(&failure).text, failure.to_string());
        }
        assert_eq!(Failure::from(&EndpointFailure::Truncated { length: 9, room: 4 }).overflow, 5);
    }

    #[test]
    fn numbers_have_words() {
        for kind in Kind::ALL {
            assert_eq!(Kind::from_number(kind as c_int), Some(kind));
            assert!(!kind.text().is_empty());
        }
        assert_eq!(Kind::from_number(0), None);
    }
}
