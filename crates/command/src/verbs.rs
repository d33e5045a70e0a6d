//! Weft's libibverbs and librdmacm: where they are, and how programs are led to them.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The library for programs that use RDMA.
pub const LIBRARY: &str = "libibverbs.so.1";
/// The library of the connection manager, beside it.
pub const MANAGER: &str = "librdmacm.so.1";
/// The library that shows programs files of the devices, beside them.
pub const PATHS: &str = "libweft-paths.so";
/// The folder of them, if they are not where `make install` and `make verbs` put them.
pub const FOLDER_VARIABLE: &str = "WEFT_VERBS_FOLDER";

/// The folder of Weft's libibverbs.
///
/// # Errors
/// It is not there: in words, and what to do.
pub fn folder() -> Result<PathBuf, String> {
    let has_it = |folder: &PathBuf| folder.join(LIBRARY).is_file();
    if let Some(said) = env::var_os(FOLDER_VARIABLE) {
        let said = PathBuf::from(said);
        let missing = || format!("{FOLDER_VARIABLE}: there is no {LIBRARY} in {}", said.display());
        return if has_it(&said) { Ok(said) } else { Err(missing()) };
    }
    let own = env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let beside = own.parent().unwrap_or(Path::new("/"));
    let places = ["verbs", "../lib/weft/verbs", "../lib64/weft/verbs"].map(|place| beside.join(place));
    let found = places.iter().find(|folder| has_it(folder)).and_then(|folder| folder.canonicalize().ok());
    found.ok_or_else(|| {
        let places = places.map(|place| place.display().to_string()).join(" or ");
        format!("there is no {LIBRARY} in {places}: build it with `make verbs`, or say its folder in {FOLDER_VARIABLE}")
    })
}

/// The variables that lead programs to the libraries of this folder: they are preloaded, for programs that are linked
/// with them, and their folder comes first among those of libraries, for programs that load them by name. What was
/// there before comes behind.
#[must_use]
pub fn variables(folder: &Path) -> [(&'static str, OsString); 2] {
    preloading(folder, &[MANAGER, LIBRARY])
}

/// The same, and the library that shows files of the devices.
#[must_use]
pub fn variables_with_paths(folder: &Path) -> [(&'static str, OsString); 2] {
    preloading(folder, &[PATHS, MANAGER, LIBRARY])
}

fn preloading(folder: &Path, libraries: &[&str]) -> [(&'static str, OsString); 2] {
    let libraries = libraries.iter().map(|library| folder.join(library));
    let preloaded = libraries.filter(|library| library.is_file());
    let preloaded = preloaded.fold(env::var_os("LD_PRELOAD"), |rest, library| Some(before(library.into(), rest)));
    [
        ("LD_PRELOAD", preloaded.unwrap_or_default()),
        ("LD_LIBRARY_PATH", before(folder.into(), env::var_os("LD_LIBRARY_PATH"))),
    ]
}

/// A list with colons, with `first` before what else was in it.
fn before(first: OsString, rest: Option<OsString>) -> OsString {
    let rest = rest.filter(|rest| !rest.is_empty());
    let others = rest.iter().flat_map(|rest| rest.as_bytes().split(|byte| *byte == b':')).map(OsStr::from_bytes);
    let others: Vec<_> = others.filter(|other| *other != first).collect();
    [&[first.as_os_str()][..], &others[..]].concat().join(OsStr::new(":"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_first_is_there_once() {
        let list = |rest: &str| before("/a".into(), Some(rest.into()));
        assert_eq!(list("/a:/b"), "/a:/b");
        assert_eq!(list("/ab:/a:/c"), "/a:/ab:/c");
        assert_eq!(list(""), "/a");
        assert_eq!(before("/a".into(), None), "/a");
    }

    #[test]
    fn libraries_that_are_there_are_preloaded() {
        let folder = env::temp_dir().join(format!("weft-command-verbs-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let preloaded = || {
            let (name, value) = variables(&folder)[0].clone();
            assert_eq!(name, "LD_PRELOAD");
            value.to_string_lossy().into_owned()
        };
        std::fs::write(folder.join(LIBRARY), "").unwrap();
        assert!(preloaded().contains(LIBRARY) && !preloaded().contains(MANAGER));
        std::fs::write(folder.join(MANAGER), "").unwrap();
        assert!(preloaded().starts_with(&format!("{}:", folder.join(LIBRARY).display())), "{}", preloaded());
        assert!(preloaded().contains(MANAGER));
        std::fs::write(folder.join(PATHS), "").unwrap();
        assert!(!preloaded().contains(PATHS) && variables_with_paths(&folder)[0].1.to_string_lossy().contains(PATHS));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
