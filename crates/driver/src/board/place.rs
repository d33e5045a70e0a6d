//! The directory of boards: one of the user's own.

use core::sync::atomic::{AtomicU32, Ordering};
use std::env;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The environment variable that names the directory of boards, in place of the default ones.
pub const DIRECTORY_VARIABLE: &str = "WEFT_BOARDS";

/// The first usable default directory, created if it does not exist.
pub(super) fn own() -> io::Result<PathBuf> {
    let mut outcome = Err(io::Error::other("no directory for boards is known"));
    for directory in candidates() {
        outcome = make(&directory).map(|()| directory);
        if outcome.is_ok() {
            break;
        }
    }
    outcome
}

/// All directories that may have boards of this user: with and without `XDG_RUNTIME_DIR`, since not every process of a
/// user has it.
pub(super) fn candidates() -> Vec<PathBuf> {
    let absolute = |variable| env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    if let Some(directory) = absolute(DIRECTORY_VARIABLE) {
        return vec![directory];
    }
    let runtime = absolute("XDG_RUNTIME_DIR").map(|directory| directory.join("weft"));
    runtime.into_iter().chain([PathBuf::from(format!("/tmp/weft-{}", own_user()))]).collect()
}

pub(super) fn make(directory: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(io::Error::new(error.kind(), format!("{}: {error}", directory.display())))
        }
        _ => check(directory),
    }
}

/// Whether only this user can write to the directory. /tmp is shared: another user may have created it first.
pub(super) fn check(directory: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(directory)?;
    let refuse = |why| {
        let message = format!("{} {why}: remove it, or set {DIRECTORY_VARIABLE}", directory.display());
        Err(io::Error::new(io::ErrorKind::PermissionDenied, message))
    };
    if !found.is_dir() {
        refuse("is not a directory")
    } else if found.uid() != own_user() {
        refuse("belongs to another user")
    } else if found.mode() & 0o022 != 0 {
        refuse("can be written to by other users")
    } else {
        Ok(())
    }
}

pub(super) fn own_user() -> u32 {
    // SAFETY: Takes nothing, returns a number.
    unsafe { libc::geteuid() }
}

/// The name of a board's file.
pub(super) fn name(pid: u32, nic: u32) -> String {
    format!("{pid}-{nic}")
}

/// A unique temporary name: the count distinguishes threads, the time what a dead process with the same id has left.
pub(super) fn draft_name(pid: u32) -> String {
    static DRAFTS: AtomicU32 = AtomicU32::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!(".{pid}-{}-{}", DRAFTS.fetch_add(1, Ordering::Relaxed), now.as_nanos())
}

/// Process and NIC of a board's file; `None` for other files.
pub(super) fn parse(name: &str) -> Option<(u32, u32)> {
    let (pid, nic) = name.split_once('-')?;
    let number = |text: &str| text.parse().ok().filter(|number: &u32| number.to_string() == text);
    Some((number(pid)?, number(nic)?))
}
