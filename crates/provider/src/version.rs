//! The version of this provider.

use weft_libfabric::abi::fi_version;

/// This provider's own version, in one word.
pub(crate) const VERSION: u32 = {
    // Numbers of a version are digits and nothing else.
    const fn number(text: &str) -> u16 {
        match u16::from_str_radix(text, 10) {
            Ok(number) => number,
            Err(_) => panic!("a version number"),
        }
    }
    fi_version(number(env!("CARGO_PKG_VERSION_MAJOR")), number(env!("CARGO_PKG_VERSION_MINOR")))
};
