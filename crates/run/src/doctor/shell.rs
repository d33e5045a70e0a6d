//! The variables of a shell.

use std::collections::BTreeMap;
use std::env;
use std::path::PathBuf;

/// The variables that programs of a shell get. Bytes that are no UTF-8 are replaced.
#[derive(Clone, Debug, Default)]
pub(super) struct Shell(BTreeMap<String, String>);

impl Shell {
    /// Those of this process, which are its shell's.
    pub(super) fn of_this_process() -> Self {
        let lossy = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
        Self(env::vars_os().map(|(name, value)| (lossy(name), lossy(value))).collect())
    }

    /// The value of a variable without spaces around it. `None`: it is not set, or empty.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|value| value.trim()).filter(|value| !value.is_empty())
    }

    /// The paths of a list with colons. Of `LD_PRELOAD` spaces separate them as well (ld.so(8)).
    pub(super) fn paths(&self, name: &str) -> Vec<PathBuf> {
        let is_between = |letter: char| letter == ':' || (letter == ' ' && name == "LD_PRELOAD");
        let parts = self.get(name).into_iter().flat_map(|value| value.split(is_between));
        parts.filter(|part| !part.is_empty()).map(PathBuf::from).collect()
    }

    /// All variables, with their values.
    pub(super) fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Names of variables that are set and begin so, without that beginning.
    pub(super) fn with_prefix<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a str> {
        self.0
            .iter()
            .filter(|(_, value)| !value.trim().is_empty())
            .filter_map(move |(name, _)| name.strip_prefix(prefix))
    }

    #[cfg(test)]
    pub(super) fn with<const N: usize>(variables: [(&str, &str); N]) -> Self {
        Self(variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_the_loader_reads_them() {
        let shell = Shell::with([("LD_PRELOAD", " /a/b.so /c.so:/d.so "), ("LD_LIBRARY_PATH", "/x y::/z"), ("E", " ")]);
        assert_eq!(shell.paths("LD_PRELOAD"), ["/a/b.so", "/c.so", "/d.so"].map(PathBuf::from));
        assert_eq!(shell.paths("LD_LIBRARY_PATH"), ["/x y", "/z"].map(PathBuf::from));
        assert!(shell.get("E").is_none() && shell.paths("F").is_empty());
        assert_eq!(shell.with_prefix("LD_").collect::<Vec<_>>(), ["LIBRARY_PATH", "PRELOAD"]);
    }
}
