//! Where programs are, and words of a shell.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Where a program is, as a shell finds it. `None`: there is none of this name.
pub(crate) fn find_program(program: &OsStr) -> Option<PathBuf> {
    let path = Path::new(program);
    if path.components().count() > 1 {
        return path.is_file().then(|| path.to_owned());
    }
    let folders = env::var_os("PATH")?;
    env::split_paths(&folders).map(|folder| folder.join(path)).find(|path| path.is_file())
}

/// As a word of a shell.
pub(crate) fn quoted(value: &OsStr) -> String {
    format!("'{}'", value.to_string_lossy().replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_values_as_they_are() {
        assert_eq!(quoted(OsStr::new("/a b/$c")), "'/a b/$c'");
        assert_eq!(quoted(OsStr::new("it's")), r"'it'\''s'");
    }

    #[test]
    fn programs_are_found_as_a_shell_finds_them() {
        assert!(find_program(OsStr::new("sh")).is_some_and(|path| path.is_absolute()));
        assert_eq!(find_program(OsStr::new("no-such-program-at-all")), None);
        assert_eq!(find_program(OsStr::new("./no-such-program")), None);
    }
}
