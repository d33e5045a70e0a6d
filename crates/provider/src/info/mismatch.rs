//! Why nothing is offered.

use core::ffi::c_int;
use core::fmt;

/// Why there is nothing for an application.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Mismatch {
    /// Capabilities that are not here.
    Capabilities { whose: &'static str, lacking: u64 },
    /// Bits of an attribute that are not here.
    Bits { what: &'static str, lacking: u64 },
    /// More than possible.
    Size { what: &'static str, wanted: u64, most: u64 },
    /// A value that is not here.
    Value { what: &'static str, wanted: u64 },
    /// No such mode of memory registration is there in the application's version.
    Registration { offered: c_int },
    /// An address format that is not here.
    Format(u32),
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Capabilities { whose, lacking } => write!(f, "{whose}: capabilities {lacking:#x} are not here"),
            Self::Bits { what, lacking } => write!(f, "{what}: bits {lacking:#x} are not possible"),
            Self::Size { what, wanted, most } => write!(f, "{what}: {wanted} wanted, {most} is the most"),
            Self::Value { what, wanted } => write!(f, "{what}: {wanted} is not possible"),
            Self::Registration { offered } => write!(
                f,
                "domain_attr.mr_mode: {offered:#x} is no mode; FI_MR_BASIC or FI_MR_SCALABLE alone are, and since 1.5 \
                 the others"
            ),
            Self::Format(number) => write!(f, "addr_format: {number} is not here"),
        }
    }
}
