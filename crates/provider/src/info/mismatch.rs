//! Why nothing is offered.

use core::ffi::c_int;
use core::fmt;

/// Why there is no info for an application.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Mismatch {
    /// Unsupported capabilities.
    Capabilities { whose: &'static str, lacking: u64 },
    /// Unsupported bits of an attribute.
    Bits { what: &'static str, lacking: u64 },
    /// More than supported.
    Size { what: &'static str, wanted: u64, most: u64 },
    /// An unsupported value.
    Value { what: &'static str, wanted: u64 },
    /// No such mode of memory registration in the application's version.
    Registration { offered: c_int },
    /// An unsupported address format.
    Format(u32),
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Capabilities { whose, lacking } => write!(f, "{whose}: capabilities {lacking:#x} are not supported"),
            Self::Bits { what, lacking } => write!(f, "{what}: bits {lacking:#x} are not supported"),
            Self::Size { what, wanted, most } => write!(f, "{what}: {wanted} requested, at most {most} supported"),
            Self::Value { what, wanted } => write!(f, "{what}: {wanted} is not supported"),
            Self::Registration { offered } => write!(
                f,
                "domain_attr.mr_mode: {offered:#x} is no mode; FI_MR_BASIC or FI_MR_SCALABLE alone are, and since 1.5 \
                 the others"
            ),
            Self::Format(number) => write!(f, "addr_format: {number} is not supported"),
        }
    }
}
