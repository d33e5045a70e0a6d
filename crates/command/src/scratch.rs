//! Folders for what is needed during a run.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, io, process};

/// A folder of this process, in the one for temporary files. It goes with everything in it when this is dropped. What a
/// killed process leaves is removed by the process that killed it ([`clear_of`]), or by the next that makes such a
/// folder.
#[derive(Debug)]
pub struct Scratch(PathBuf);

/// What their names begin with; then come the process and a number.
const PREFIX: &str = "weft-perf-";

impl Scratch {
    /// Makes one.
    ///
    /// # Errors
    ///
    /// The folder for temporary files takes none.
    pub fn new() -> io::Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        clear(|process| !Path::new("/proc").join(process).exists());
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = env::temp_dir().join(format!("{PREFIX}{}-{number}", process::id()));
        fs::create_dir(&folder)?;
        Ok(Self(folder))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Removes the folders of a process.
pub fn clear_of(process: u32) {
    clear(|owner| owner == process.to_string());
}

/// Removes the folders of these processes.
fn clear(of: impl Fn(&str) -> bool) {
    for entry in fs::read_dir(env::temp_dir()).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if owner(&name.to_string_lossy()).is_some_and(&of) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// The process whose folder has this name.
fn owner(name: &str) -> Option<&str> {
    let (process, number) = name.strip_prefix(PREFIX)?.split_once('-')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (is_number(process) && is_number(number)).then_some(process)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_goes_with_its_owner() {
        let scratch = Scratch::new().unwrap();
        let path = scratch.path().to_owned();
        fs::write(path.join("file"), "").unwrap();
        assert!(Scratch::new().is_ok() && path.exists(), "its process lives");
        drop(scratch);
        assert!(!path.exists());
    }

    #[test]
    fn the_dead_leave_nothing() {
        // No process has this number: they are at most 4194304.
        let left = env::temp_dir().join(format!("{PREFIX}99999999-0"));
        fs::create_dir_all(&left).unwrap();
        let _scratch = Scratch::new().unwrap();
        assert!(!left.exists());
    }

    #[test]
    fn only_own_names_are_touched() {
        assert_eq!(owner("weft-perf-12-0"), Some("12"));
        for other in ["weft-perf-12", "weft-perf-x-0", "weft-perf-12-0-1", "weft-perf--0", "other"] {
            assert_eq!(owner(other), None, "{other}");
        }
    }
}
