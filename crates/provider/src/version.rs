//! The version of this provider.

use weft_libfabric::abi::fi_version;

/// This provider's own version, in one word.
pub(crate) const VERSION: u32 =
    fi_version(number(env!("CARGO_PKG_VERSION_MAJOR")), number(env!("CARGO_PKG_VERSION_MINOR")));

/// The same with all its parts, 16 bits each.
pub(crate) const WHOLE_VERSION: u64 = (VERSION as u64) << 16 | number(env!("CARGO_PKG_VERSION_PATCH")) as u64;

/// Numbers of a version are digits and nothing else.
const fn number(text: &str) -> u16 {
    match u16::from_str_radix(text, 10) {
        Ok(number) => number,
        Err(_) => panic!("a version number"),
    }
}
