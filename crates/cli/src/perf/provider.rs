//! Weft's own provider of libfabric: where its file is, and how libfabric is made to find it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, process};

/// The name of the file for libfabric, which loads what ends in `-fi.so`.
const FILE: &str = "libweft-fi.so";
/// As cargo builds it.
const BUILT: &str = "libweft_fi.so";

/// A folder where libfabric finds the provider. One that was made for this goes when this is dropped.
#[derive(Debug)]
pub(crate) struct Provider {
    folder: PathBuf,
    is_made: bool,
}

impl Provider {
    /// What the provider is called.
    pub(crate) const NAME: &str = "weft";

    /// Whether it is on this machine; otherwise where it was looked for.
    pub(crate) fn available() -> Result<(), String> {
        find().map(drop)
    }

    /// Whether a list of providers, as in libfabric's `tcp;ofi_rxm`, names it.
    pub(crate) fn is_meant(name: &str) -> bool {
        name.split(';').any(|part| part == Self::NAME)
    }

    /// Finds it.
    pub(crate) fn open() -> Result<Self, String> {
        let file = find()?;
        if file.file_name() == Some(OsStr::new(FILE)) {
            let folder = file.parent().unwrap_or(Path::new("/")).to_owned();
            return Ok(Self { folder, is_made: false });
        }
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = env::temp_dir().join(format!("weft-perf-provider-{}-{number}", process::id()));
        fs::create_dir(&folder)
            .and_then(|()| std::os::unix::fs::symlink(&file, folder.join(FILE)))
            .map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(Self { folder, is_made: true })
    }

    /// For `FI_PROVIDER_PATH`.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        if self.is_made {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

fn find() -> Result<PathBuf, String> {
    let folders = folders();
    let files = folders.iter().flat_map(|folder| [folder.join(FILE), folder.join(BUILT)]);
    let found = files.clone().find(|file| file.is_file());
    found.and_then(|file| fs::canonicalize(&file).ok().filter(|whole| is_named(whole)).or(Some(file))).ok_or_else(
        || {
            let names: Vec<_> = folders.iter().map(|folder| folder.display().to_string()).collect();
            format!("{FILE} is not in {}; build it, or set FI_PROVIDER_PATH", names.join(", "))
        },
    )
}

fn is_named(file: &Path) -> bool {
    [FILE, BUILT].iter().any(|name| file.file_name() == Some(OsStr::new(name)))
}

/// `FI_PROVIDER_PATH`, beside this command (or where cargo leaves it when it builds tests alone), and where it is installed.
fn folders() -> Vec<PathBuf> {
    let mut folders: Vec<_> = env::var_os("FI_PROVIDER_PATH").iter().flat_map(env::split_paths).collect();
    if let Some(beside) = env::current_exe().ok().as_deref().and_then(Path::parent) {
        folders.extend([beside.to_owned(), beside.join("deps")]);
        folders
            .extend(beside.parent().into_iter().flat_map(|prefix| [prefix.join("lib/libfabric"), prefix.join("lib")]));
    }
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_meant_by_its_name() {
        assert!(Provider::is_meant("weft") && Provider::is_meant("weft;ofi_rxm"));
        assert!(!Provider::is_meant("tcp") && !Provider::is_meant("weft2"));
    }

    #[test]
    fn who_looks_in_vain_is_told_where() {
        if let Err(reason) = Provider::available() {
            assert!(reason.contains(FILE) && reason.contains("FI_PROVIDER_PATH"), "{reason}");
        }
    }
}
