//! `scripts/install`, into a directory of its own: every file is where its users expect it, and is removed again.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
const WEFT: &str = env!("CARGO_BIN_EXE_weft");

/// A directory that goes with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("weft-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// All files below it, by their paths from it.
    fn files(&self) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        let mut directories = vec![self.0.clone()];
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
                if entry.file_type().unwrap().is_dir() {
                    directories.push(entry.path());
                } else {
                    found.insert(entry.path().strip_prefix(&self.0).unwrap().to_str().unwrap().to_owned());
                }
            }
        }
        found
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The libraries beside the command: the provider, the one that is preloaded, libibverbs, librdmacm and that of paths.
struct Libraries([PathBuf; 5]);

impl Libraries {
    fn of(scratch: &Scratch) -> Self {
        let names = [
            "libweft_fi.so",
            "libweft_mpi.so",
            "verbs/libibverbs.so.1",
            "verbs/librdmacm.so.1",
            "verbs/libweft-paths.so",
        ];
        Self(names.map(|name| library(scratch, name)))
    }
}

/// A library beside the command; where a test built only the command, any file shows where it goes.
fn library(scratch: &Scratch, name: &str) -> PathBuf {
    let built = Path::new(WEFT).with_file_name(name);
    if built.exists() {
        return built;
    }
    println!("left out: the real library, for {} was not built", built.display());
    let stand_in = scratch.0.join(name);
    fs::create_dir_all(stand_in.parent().unwrap()).unwrap();
    fs::write(&stand_in, "not built").unwrap();
    stand_in
}

fn run(arguments: &[&str], to: &Scratch, libraries: &Libraries) -> Output {
    Command::new("scripts/install")
        .current_dir(ROOT)
        .args(arguments)
        .envs([("PREFIX", "/opt/weft"), ("LIBDIR", "/opt/weft/lib64"), ("WEFT", WEFT)])
        .env("DESTDIR", &to.0)
        .env("PROVIDER", &libraries.0[0])
        .env("PRELOADED", &libraries.0[1])
        .env("VERBS", &libraries.0[2])
        .env("MANAGER", &libraries.0[3])
        .env("PATHS", &libraries.0[4])
        .output()
        .unwrap()
}

#[test]
fn everything_is_installed_where_its_users_look_and_removed() {
    let (built, to) = (Scratch::new("built"), Scratch::new("install"));
    let libraries = Libraries::of(&built);
    let output = run(&[], &to, &libraries);
    assert!(output.status.success(), "{output:?}");

    let files = to.files();
    for file in [
        "bin/weft",
        "lib64/libfabric/libweft-fi.so",
        "lib64/libweft-mpi.so",
        "lib64/weft/verbs/libibverbs.so.1",
        "lib64/weft/verbs/libibverbs.so",
        "lib64/weft/verbs/librdmacm.so.1",
        "lib64/weft/verbs/librdmacm.so",
        "lib64/weft/verbs/libweft-paths.so",
        "lib64/pkgconfig/weft-fi.pc",
        "share/man/man1/weft.1",
        "share/man/man1/weft-perf.1",
        "share/man/man1/weft-lab-up.1",
        "share/man/man7/fi_weft.7",
        "share/bash-completion/completions/weft",
        "share/zsh/site-functions/_weft",
        "share/fish/vendor_completions.d/weft.fish",
    ] {
        assert!(files.contains(&format!("opt/weft/{file}")), "no {file} among {files:?}");
    }
    assert!(!files.iter().any(|file| file.contains("peer")), "hidden subcommands have no pages: {files:?}");
    is_stripped(&to.0.join("opt/weft/bin/weft"), Path::new(WEFT));
    for (installed, built) in ["libfabric/libweft-fi.so", "libweft-mpi.so"].into_iter().zip(&libraries.0) {
        is_stripped(&to.0.join("opt/weft/lib64").join(installed), built);
    }
    let version = Command::new(to.0.join("opt/weft/bin/weft")).arg("--version").output().unwrap();
    assert!(version.status.success(), "{version:?}");
    pkg_config_names_the_directory(&to);

    // What others have put there stays.
    let neighbour = to.0.join("opt/weft/lib64/libfabric/libother-fi.so");
    fs::write(&neighbour, "").unwrap();
    let output = run(&["--remove"], &to, &libraries);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(to.files(), BTreeSet::from(["opt/weft/lib64/libfabric/libother-fi.so".to_owned()]));
}

/// The same program or library, without what is for debuggers. What is neither, or where nothing strips, is as it was.
fn is_stripped(installed: &Path, built: &Path) {
    let [bytes, before] = [installed, built].map(|path| fs::read(path).unwrap());
    if !before.starts_with(b"\x7fELF") || Command::new("strip").arg("--version").output().is_err() {
        println!("left out: whether {} is stripped", installed.display());
        return assert!(bytes == before, "{}", installed.display());
    }
    let has = |bytes: &[u8], section: &[u8]| bytes.windows(section.len()).any(|window| window == section);
    assert!(has(&before, b".symtab\0") && !has(&bytes, b".symtab\0"), "{}", installed.display());
    assert!(bytes.len() < before.len());
}

fn pkg_config_names_the_directory(to: &Scratch) {
    let text = fs::read_to_string(to.0.join("opt/weft/lib64/pkgconfig/weft-fi.pc")).unwrap();
    assert!(!text.contains('@'), "{text}");
    assert!(text.contains(concat!("Version: ", env!("CARGO_PKG_VERSION"), "\n")), "{text}");
    let asked = Command::new("pkg-config")
        .args(["--variable=providerdir", "weft-fi"])
        .env("PKG_CONFIG_PATH", to.0.join("opt/weft/lib64/pkgconfig"))
        .output();
    match asked {
        Ok(output) => {
            assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "/opt/weft/lib64/libfabric", "{output:?}")
        }
        Err(error) => println!("left out: asking pkg-config: {error}"),
    }
}

#[test]
fn what_was_not_built_is_named() {
    let to = Scratch::new("nothing");
    let nothing = Libraries(
        ["fi", "mpi", "verbs", "manager", "paths"].map(|what| format!("/nonexistent/libweft_{what}.so").into()),
    );
    let output = run(&[], &to, &nothing);
    assert_eq!(output.status.code(), Some(1));
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(complaint.contains("/nonexistent/libweft_fi.so") && complaint.contains("make install"), "{complaint}");
    assert!(to.files().is_empty());
}
