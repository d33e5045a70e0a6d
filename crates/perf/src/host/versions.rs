//! The versions of what is measured beside Weft.

use std::fs;

/// The crates that this command was built from, and their versions.
const LOCK: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.lock"));

/// Weft's own.
pub(crate) fn own() -> Option<String> {
    Some(env!("CARGO_PKG_VERSION").to_owned())
}

/// That of a crate which is built in.
pub(crate) fn locked(name: &str) -> Option<String> {
    let (_, rest) = LOCK.split_once(&format!("\nname = \"{name}\"\nversion = \""))?;
    rest.split_once('"').map(|(version, _)| version.to_owned())
}

/// That of the kernel which runs.
pub(crate) fn kernel() -> Option<String> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
    Some(format!("Linux {}", release.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_that_is_built_in_has_a_version() {
        let version = locked("serde_json").unwrap();
        assert!(version.starts_with("1.") && version.split('.').count() == 3, "{version}");
        assert_eq!(locked("serde_jso"), None, "a part of a name is no name");
    }
}
