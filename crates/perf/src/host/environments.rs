//! Python environments, from which peers may come: a wheel brings a library and its programs to where no root installs
//! packages.

use std::path::{Path, PathBuf};
use std::{env, fs};

/// The folders that `variable` names, or else `cache` in the working directory and above it. Each is an environment, or
/// has environments in it.
pub(crate) fn folders(variable: &str, cache: &str) -> Vec<PathBuf> {
    if let Some(folders) = env::var_os(variable) {
        return env::split_paths(&folders).collect();
    }
    let here = env::current_dir().unwrap_or_default();
    here.ancestors().map(|folder| folder.join(cache)).filter(|folder| folder.is_dir()).collect()
}

/// A folder, made absolute, and those in it.
pub(crate) fn with_members(folder: &Path) -> Vec<PathBuf> {
    let folder = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    let mut all = members(&folder);
    all.insert(0, folder);
    all
}

/// Where an environment keeps what this package of Python brings, whichever Python it is of.
pub(crate) fn package(environment: &Path, name: &str) -> Option<PathBuf> {
    let versions = members(&environment.join("lib"));
    versions.into_iter().map(|python| python.join("site-packages").join(name)).find(|folder| folder.is_dir())
}

/// A program of this name that can be started.
pub(crate) fn in_path(program: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// The folders in a folder, sorted.
fn members(folder: &Path) -> Vec<PathBuf> {
    let members = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut all: Vec<_> = members.filter(|path| path.is_dir()).collect();
    all.sort();
    all
}
