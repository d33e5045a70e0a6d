//! What can go wrong between a process and its launcher's PMIx.

use core::fmt;

/// Why a call of PMIx has not given what was wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// libpmix cannot be loaded.
    NotInstalled {
        /// What the dynamic loader says.
        reason: String,
    },
    /// libpmix lacks a function: it is older than PMIx 3.
    Unusable {
        /// The function.
        missing: &'static str,
    },
    /// A call has failed.
    Call {
        /// The function.
        function: &'static str,
        /// What it was about: a key, or nothing.
        about: String,
        /// Its status (`pmix_status_t`).
        status: i32,
        /// libpmix's words for that.
        text: String,
    },
    /// An answer is not what it must be.
    Answer {
        /// The key that was asked for, and of which rank.
        about: String,
        /// What came.
        came: String,
        /// What would be right.
        wanted: String,
    },
    /// The process has left its job: its last client was dropped.
    HasLeft,
    /// A key that is longer than PMIx's keys may be, or has a zero in it.
    Key(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotInstalled { reason } => write!(
                f,
                "the launcher speaks PMIx, and libpmix.so.2 cannot be loaded: {reason}; install it (Debian: apt \
                 install libpmix2), or name its folder in LD_LIBRARY_PATH"
            ),
            Self::Unusable { missing } => write!(f, "libpmix has no {missing}: PMIx 3 or newer is needed"),
            Self::Call { function, about, status, text } if about.is_empty() => {
                write!(f, "{function} has failed: {text} ({status})")
            }
            Self::Call { function, about, status, text } => {
                write!(f, "{function} of {about} has failed: {text} ({status})")
            }
            Self::Answer { about, came, wanted } => write!(f, "PMIx gives {came} as {about}, where {wanted} must be"),
            Self::HasLeft => f.write_str(
                "this process has left its PMIx job when its last group was dropped: keep one as long as it is needed",
            ),
            Self::Key(key) => write!(f, "`{key}` is no key of PMIx: at most 511 bytes, and none of them 0"),
        }
    }
}

impl core::error::Error for Error {}
