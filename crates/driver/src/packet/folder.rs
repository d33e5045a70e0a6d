//! Which users can put their own socket in place of a helper's: those that can write to its folder, or to one above it.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::user;

/// The folder of a path, with links resolved, so that it cannot be redirected between a check and its use.
pub(super) fn folder_of(path: &Path) -> io::Result<(PathBuf, PathBuf)> {
    let name = path.file_name().ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{}: a path that ends with a name is needed", path.display()),
        )
    })?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = fs::canonicalize(parent)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", parent.display())))?;
    let path = folder.join(name);
    Ok((folder, path))
}

/// Refuses a folder in which others than root and this process's user can replace a socket of this process: such a
/// folder, or one above it, belongs to another user, or others may write to it. Where the sticky bit is set they may
/// add entries, but neither remove nor rename those of others (inode(7)).
pub(super) fn check_own(folder: &Path) -> io::Result<()> {
    for part in folder.ancestors() {
        let found = fs::symlink_metadata(part)?;
        let why = if !is_root(found.uid())? && found.uid() != user::own() {
            format!("belongs to user {}, who could put another socket there", found.uid())
        } else if found.mode() & 0o022 != 0 && found.mode() & libc::S_ISVTX == 0 {
            "can be written to by other users, who could put another socket there".into()
        } else {
            continue;
        };
        let advice = "choose a folder that only its owner can write to, such as one below /run";
        let message = format!("{} {why}: {advice}", part.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
    }
    Ok(())
}

/// Whether a helper that runs as this user can be trusted to be the intended one at this folder: it is root, or this
/// process's user, or the only other user that can write there.
pub(super) fn is_trustworthy(helper: u32, folder: &Path) -> io::Result<bool> {
    Ok(helper == 0 || helper == user::own() || sole_writer(folder)? == Some(helper))
}

/// The owner of the folder if only root and this user can write to it and those above it.
fn sole_writer(folder: &Path) -> io::Result<Option<u32>> {
    let owner = fs::symlink_metadata(folder)?.uid();
    for part in folder.ancestors() {
        let found = fs::symlink_metadata(part)?;
        if found.mode() & 0o022 != 0 || (found.uid() != owner && !is_root(found.uid())?) {
            return Ok(None);
        }
    }
    Ok(Some(owner))
}

/// Root, or in a user namespace that does not map root, the owner of `/`.
fn is_root(uid: u32) -> io::Result<bool> {
    Ok(uid == 0 || uid == fs::symlink_metadata("/")?.uid())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown};

    use super::*;

    #[test]
    fn the_only_user_who_can_write_to_a_folder_is_trusted_there() {
        assert!(is_trustworthy(0, Path::new("/")).unwrap());
        let folder = Path::new("/run").join(format!("weft-folder-{}", std::process::id()));
        if fs::create_dir(&folder).is_err() || chown(&folder, Some(4711), None).is_err() {
            let _ = fs::remove_dir(folder);
            return eprintln!("skipped: only root can make a folder there");
        }
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(is_trustworthy(4711, &folder).unwrap());
        assert!(!is_trustworthy(4712, &folder).unwrap());
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o1777)).unwrap();
        assert!(!is_trustworthy(4711, &folder).unwrap(), "anybody may come first");
        fs::remove_dir(folder).unwrap();
    }
}
