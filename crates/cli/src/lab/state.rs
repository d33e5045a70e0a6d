//! What is written down of labs: a file for each, in a directory of the user's own.

use std::fmt;
use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;
use serde::{Deserialize, Serialize};
use weft_lab::{Host, Plan, Process};

use super::control;
use weft_command::failure::Failure;
use weft_command::output::complain;

/// The longest name of a lab, in bytes.
const LONGEST_NAME: usize = 32;

/// How the files' names end.
const SUFFIX: &str = ".lab";

/// How the name of the directory ends where MPI's launchers find what a lab has for them.
const MPI_SUFFIX: &str = "mpi";

/// Tell a program in a host where it is.
pub(super) const LAB_VARIABLE: &str = "WEFT_LAB";
pub(super) const HOST_VARIABLE: &str = "WEFT_LAB_HOST";
/// And where what must be remembered of its lab is: in there its user has another number.
pub(super) const DIRECTORY_VARIABLE: &str = "WEFT_LAB_DIRECTORY";

/// A lab's name: letters, digits, `-` and `_`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Name(String);

/// A lab, as other processes know it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct State {
    pub(super) name: Name,
    /// The process on which everything depends.
    pub(super) keeper: Process,
    pub(super) plan: Plan,
    pub(super) hosts: Vec<Host>,
}

impl FromStr for Name {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if (1..=LONGEST_NAME).contains(&text.len()) && !text.starts_with('-') && text.bytes().all(good) {
            return Ok(Self(text.to_owned()));
        }
        Err(format!("{text:?} is no name; up to {LONGEST_NAME} letters, digits, - and _ are one"))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Name {
    /// The option that names this lab on a command line; empty for the usual one.
    pub(super) fn option(&self) -> String {
        if self.0 == "lab" { String::new() } else { format!("--name {self} ") }
    }
}

impl State {
    /// The lab of this name, if it is up.
    pub(super) fn find(name: &Name) -> Result<Option<Self>, Failure> {
        Ok(Self::all()?.into_iter().find(|state| state.name == *name))
    }

    /// The lab of this name, which must be up.
    pub(super) fn get(name: &Name) -> Result<Self, Failure> {
        let none = || format!("there is no lab {name}; make it with weft lab up {}", name.option());
        Self::find(name)?.ok_or_else(|| Failure::Runtime(none().trim_end().to_owned()))
    }

    /// The lab of this name, which must be up, and where its keeper listens.
    pub(super) fn locate(name: &Name) -> Result<(Self, PathBuf), Failure> {
        let state = Self::get(name)?;
        let path = own_directory()?.join(format!("{name}{}", control::SUFFIX));
        if path.exists() {
            return Ok((state, path));
        }
        Err(Failure::Runtime(format!("lab {name} is not ready yet, or was made by another version of weft")))
    }

    /// The host of this name or number, which must be up.
    pub(super) fn host(&self, wanted: &str) -> Result<&Host, Failure> {
        let is_meant = |host: &&Host| {
            host.name() == wanted || wanted.parse() == Ok(host.index()) || wanted.parse() == Ok(host.address(0))
        };
        let Some(host) = self.hosts.iter().find(is_meant) else {
            let (name, last, names) = (&self.name, self.hosts.len() - 1, self.host_names());
            let words = format!("lab {name} has no host {wanted}; its hosts are 0 to {last}, or by name {names}");
            return Err(Failure::Usage(words));
        };
        if host.is_up() {
            return Ok(host);
        }
        let option = self.name.option();
        let words = format!("host {wanted} of lab {} has died; weft lab down {option}and up again", self.name);
        Err(Failure::Runtime(words))
    }

    /// The names of its hosts: the first and the last of each cluster.
    fn host_names(&self) -> String {
        let of_cluster = |cluster: usize| {
            let mut hosts = self.hosts.iter().filter(move |host| host.cluster() == cluster);
            let first = hosts.next()?;
            let text = |host: &Host| host.name().to_owned();
            Some(hosts.next_back().map_or_else(|| text(first), |last| format!("{} to {}", text(first), text(last))))
        };
        (0..self.plan.clusters.len().max(1)).filter_map(of_cluster).collect::<Vec<_>>().join(", ")
    }

    /// The directory where MPI's launchers find what this lab has for them. It goes with what is remembered of the lab.
    pub(super) fn mpi_directory(&self) -> Result<PathBuf, Failure> {
        Ok(own_directory()?.join(format!("{}.{MPI_SUFFIX}", self.name)))
    }

    /// All labs that are up, by name: those of this user with the same `XDG_RUNTIME_DIR`, for commands for all labs are
    /// meant for these. The files of labs whose keeper has died are removed: they went with it.
    pub(super) fn all() -> Result<Vec<Self>, Failure> {
        let mut labs = all_in(&own_directory()?)?;
        labs.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(labs)
    }

    /// Writes it down. Of two labs that get the same name at the same time, one comes too late.
    pub(super) fn publish(&self) -> Result<PathBuf, Failure> {
        let directory = own_directory()?;
        let path = directory.join(format!("{}{SUFFIX}", self.name));
        let draft = directory.join(format!(".{}-{}", self.name, self.keeper.id));
        let written = self.write(&draft).and_then(|()| fs::hard_link(&draft, &path));
        // It may not have been made.
        let _ = fs::remove_file(&draft);
        match written {
            Ok(()) => Ok(path),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(self.taken()),
            Err(error) => Err(Failure::while_doing(path.display())(error)),
        }
    }

    /// That there is a lab of this name already.
    pub(super) fn taken(&self) -> Failure {
        let Self { name, .. } = self;
        Failure::Runtime(format!(
            "lab {name} is up already; end it with weft lab down {}or choose another --name",
            name.option()
        ))
    }

    fn write(&self, path: &Path) -> io::Result<()> {
        let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
        file.write_all(&serde_json::to_vec(self)?)
    }
}

fn all_in(directory: &Path) -> Result<Vec<State>, Failure> {
    let mut labs = Vec::new();
    for entry in fs::read_dir(directory).map_err(Failure::while_doing(directory.display()))? {
        let path = entry.map_err(Failure::while_doing(directory.display()))?.path();
        if path.extension().is_none_or(|extension| extension != &SUFFIX[1..]) {
            continue;
        }
        match fs::read(&path).map(|text| serde_json::from_slice::<State>(&text)) {
            Ok(Ok(state)) if state.keeper.is_alive() => labs.push(state),
            Ok(_) => {
                complain(format_args!("weft: removing {}, of a lab whose keeper has died", path.display()));
                forget(&path)?;
            }
            // It went down meanwhile.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(Failure::while_doing(path.display())(error)),
        }
    }
    Ok(labs)
}

/// Removes what MPI's launchers had of a lab, its keeper's socket and what was written down of it, in this order: a
/// process that finds no lab finds nothing of it.
pub(super) fn forget(path: &Path) -> Result<(), Failure> {
    let mpi = path.with_extension(MPI_SUFFIX);
    fs::remove_dir_all(&mpi).or_else(gone).map_err(Failure::while_doing(mpi.display()))?;
    for path in [&*socket(path), path] {
        fs::remove_file(path).or_else(gone).map_err(Failure::while_doing(path.display()))?;
    }
    Ok(())
}

/// Where the keeper of the lab with this file listens.
pub(super) fn socket(path: &Path) -> PathBuf {
    path.with_extension(&control::SUFFIX[1..])
}

/// What is not there need not be removed.
pub(super) fn gone(error: io::Error) -> io::Result<()> {
    if error.kind() == ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

/// Where labs may be written down.
fn directories() -> Result<Vec<PathBuf>, Failure> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from).filter(|path: &PathBuf| path.is_absolute());
    let (told, runtime) = (variable(DIRECTORY_VARIABLE), variable("XDG_RUNTIME_DIR"));
    let user = user().map_err(|error| {
        let advice = "weft lab needs /proc: mount -t proc proc /proc";
        Failure::Runtime(format!("/proc does not show this process ({error}); {advice}"))
    })?;
    let usual = runtime.map(|path| path.join("weft")).into_iter().chain([PathBuf::from(format!("/tmp/weft-{user}"))]);
    Ok(told.into_iter().chain(usual).collect())
}

/// The first of them that can be used, made if it is not there.
pub(super) fn own_directory() -> Result<PathBuf, Failure> {
    let mut refused = Vec::new();
    for directory in directories()? {
        let made = match DirBuilder::new().mode(0o700).create(&directory) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            other => other,
        };
        match made.and_then(|()| check(&directory)) {
            Ok(()) => return Ok(directory),
            Err(error) => refused.push(format!("{}: {error}", directory.display())),
        }
    }
    Err(Failure::Runtime(format!("no directory for what must be remembered of a lab: {}", refused.join("; "))))
}

/// Whether only this user may write to a directory. /tmp is writable for all: another user may have been there first.
fn check(directory: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(directory)?;
    let refuse = |why: &str| Err(io::Error::new(ErrorKind::PermissionDenied, format!("{why}: remove it")));
    match () {
        () if !found.is_dir() => refuse("it is no directory"),
        () if found.uid() != user()? => refuse("it belongs to another user"),
        () if found.mode() & 0o022 != 0 => refuse("other users can write to it"),
        () => Ok(()),
    }
}

/// The user that this process runs for.
fn user() -> io::Result<u32> {
    fs::metadata("/proc/self").map(|data| data.uid())
}

/// Which lab is meant.
#[derive(Args, Debug)]
pub(super) struct Lab {
    /// The lab's name [default: the lab that this runs in, or else lab]
    #[arg(long, value_name = "NAME")]
    name: Option<Name>,
}

impl Lab {
    /// The name that was typed; or that of the lab in whose host this process is; or the usual one.
    pub(super) fn name(&self) -> Name {
        let here = || std::env::var(LAB_VARIABLE).ok()?.parse().ok();
        self.name.clone().or_else(here).unwrap_or_else(|| Name("lab".to_owned()))
    }
}

/// Which lab is to be made.
#[derive(Args, Debug)]
pub(super) struct NewLab {
    /// The lab's name
    #[arg(long, value_name = "NAME", default_value = "lab")]
    pub(super) name: Name,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_names_of_files() {
        for name in ["lab", "a", "A-1_b", &"x".repeat(32)] {
            assert_eq!(name.parse::<Name>().unwrap().to_string(), name);
        }
        for name in ["", ".", "../x", "a/b", "a b", "-a", "é", &"x".repeat(33)] {
            assert!(name.parse::<Name>().is_err(), "{name:?}");
        }
    }

    #[test]
    fn the_option_is_left_out_where_it_is_not_needed() {
        assert_eq!("lab".parse::<Name>().unwrap().option(), "");
        assert_eq!("slow".parse::<Name>().unwrap().option(), "--name slow ");
    }
}
