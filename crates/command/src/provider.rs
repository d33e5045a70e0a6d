//! Weft's own provider of libfabric: where its file is, and how libfabric is made to find it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use crate::scratch::Scratch;

/// The name of the file for libfabric, which loads what ends in `-fi.so`.
const FILE: &str = "libweft-fi.so";
/// As cargo builds it.
const BUILT: &str = "libweft_fi.so";

/// A folder where libfabric finds the provider. One that was made for this goes when this is dropped.
#[derive(Debug)]
pub struct Provider {
    folder: PathBuf,
    /// Its owner, if it was made.
    _made: Option<Scratch>,
}

impl Provider {
    /// The provider's name.
    pub const NAME: &str = "weft";

    /// Whether it is on this machine.
    ///
    /// # Errors
    /// In words, with the folders that were searched.
    pub fn available() -> Result<(), String> {
        find().map(drop)
    }

    /// Whether a list of providers, as in libfabric's `tcp;ofi_rxm`, names it.
    #[must_use]
    pub fn is_meant(name: &str) -> bool {
        name.split(';').any(|part| part == Self::NAME)
    }

    /// Finds it.
    ///
    /// # Errors
    /// In words: it is not there, or no folder can be made for it.
    pub fn open() -> Result<Self, String> {
        let file = find()?;
        if file.file_name() == Some(OsStr::new(FILE)) {
            let folder = file.parent().unwrap_or(Path::new("/")).to_owned();
            return Ok(Self { folder, _made: None });
        }
        let failed = |error: io::Error| format!("{}: {error}", env::temp_dir().display());
        let scratch = Scratch::new().map_err(failed)?;
        std::os::unix::fs::symlink(&file, scratch.path().join(FILE)).map_err(failed)?;
        Ok(Self { folder: scratch.path().to_owned(), _made: Some(scratch) })
    }

    /// For `FI_PROVIDER_PATH`.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
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

/// `FI_PROVIDER_PATH`, beside this command (or where cargo leaves it when it builds tests alone), and where it is
/// installed.
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
    fn a_failed_search_lists_where_it_searched() {
        if let Err(reason) = Provider::available() {
            assert!(reason.contains(FILE) && reason.contains("FI_PROVIDER_PATH"), "{reason}");
        }
    }
}
