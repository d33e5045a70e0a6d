//! Reads the boards of all processes of this user.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::flaw::Flaw;
use super::layout::{self, Owner};
use super::table::Table;
use super::{place, process};

/// A file is read this many times, while a row of its table is just being written.
const READS: u32 = 4;

/// A snapshot of one NIC's counters, each as it was at one moment, all of them within some microseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The process id.
    pub pid: u32,
    /// When the process started, in clock ticks since boot: distinguishes two processes of the same id.
    pub start: u64,
    /// The NIC's index in its process, from 0.
    pub nic: u32,
    /// The name of the process.
    pub process: String,
    /// The purpose of the NIC.
    pub title: String,
    /// The counters' names.
    pub names: Vec<String>,
    /// The counts of each engine, in the order of the names.
    pub engines: Vec<Vec<u64>>,
    /// The table after the counts; empty where there is none.
    pub table: Table,
}

impl Snapshot {
    /// A counter's sum over all engines. `None`: this NIC has no such counter.
    #[must_use]
    pub fn total(&self, name: &str) -> Option<u64> {
        self.names.iter().position(|known| known == name).map(|at| self.sum(at))
    }

    /// All counters with their sums, in the NIC's order.
    pub fn totals(&self) -> impl Iterator<Item = (&str, u64)> {
        self.names.iter().enumerate().map(|(at, name)| (name.as_str(), self.sum(at)))
    }

    fn sum(&self, at: usize) -> u64 {
        self.engines.iter().fold(0, |sum, counts| sum.wrapping_add(counts[at]))
    }
}

/// A file, or a whole directory, that was skipped.
#[derive(Debug)]
pub struct Skipped {
    /// The file or directory.
    pub path: PathBuf,
    /// Why, and what to do.
    pub reason: io::Error,
}

/// The result of [`boards`].
#[derive(Debug, Default)]
pub struct Boards {
    /// The boards of NICs that exist now, by process and NIC.
    pub live: Vec<Snapshot>,
    /// Files named like boards that could not be read.
    pub skipped: Vec<Skipped>,
}

/// The boards of all NICs of this user's processes. Files of ended processes are removed; those of other pid namespaces
/// (a container that shares the directory) are left alone.
#[must_use]
pub fn boards() -> Boards {
    boards_in(&place::candidates())
}

pub(super) fn boards_in(directories: &[PathBuf]) -> Boards {
    let mut found = Boards::default();
    for directory in directories {
        match files(directory) {
            Ok(files) => files.for_each(|(path, name)| found.add(path, &name)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(reason) => found.skipped.push(Skipped { path: directory.clone(), reason }),
        }
    }
    found.live.sort_by_key(|board| (board.pid, board.nic));
    found
}

/// Removes files of ended processes.
pub(super) fn sweep(directory: &Path) {
    for (path, name) in files(directory).into_iter().flatten() {
        // Files of running processes, which are most, need not be opened.
        let pid = name.trim_start_matches('.').split('-').next().and_then(|pid| pid.parse().ok());
        if pid.is_some_and(|pid: u32| matches!(process::start(pid), Ok(None))) {
            let _ = read(&path).and_then(|image| judge(&path, &image));
        }
    }
}

fn files(directory: &Path) -> io::Result<impl Iterator<Item = (PathBuf, String)>> {
    place::check(directory)?;
    let entries = fs::read_dir(directory)?.filter_map(Result::ok);
    Ok(entries.filter_map(|entry| Some((entry.path(), entry.file_name().into_string().ok()?))))
}

impl Boards {
    fn add(&mut self, path: PathBuf, name: &str) {
        let Some((pid, nic)) = place::parse(name) else { return };
        match snapshot(&path, pid, nic) {
            Ok(board) => self.live.extend(board),
            // Its NIC was closed in the meantime.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(reason) => self.skipped.push(Skipped { path, reason }),
        }
    }
}

/// `None`: its process has ended, and the file is removed; or it is of another pid namespace.
fn snapshot(path: &Path, pid: u32, nic: u32) -> io::Result<Option<Snapshot>> {
    let image = read(path)?;
    if judge(path, &image)? != Life::Live {
        return Ok(None);
    }
    decode(path, pid, nic, &image).map(Some)
}

/// The same, whether its process runs or not.
pub(super) fn snapshot_of_any(path: &Path, pid: u32, nic: u32) -> io::Result<Snapshot> {
    decode(path, pid, nic, &read(path)?)
}

fn decode(path: &Path, pid: u32, nic: u32, image: &[u8]) -> io::Result<Snapshot> {
    let mut found = layout::decode(image).map_err(io::Error::other)?;
    for _ in 1..READS {
        if !found.2.1 {
            break;
        }
        found = layout::decode(&read(path)?).map_err(io::Error::other)?;
    }
    let (heading, engines, (table, _)) = found;
    if heading.owner.pid != pid {
        return Err(io::Error::other(Flaw::OtherProcess(heading.owner.pid)));
    }
    let (start, process) = (heading.owner.start, heading.process);
    Ok(Snapshot { pid, start, nic, process, title: heading.title, names: heading.names, engines, table })
}

/// Reads a whole file: mapping one that is truncated meanwhile would kill this process. At most as much as a board may
/// have.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let open = |path: &Path| -> io::Result<File> {
        OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)
    };
    let file = open(path).map_err(|error| match error.raw_os_error() {
        Some(libc::ELOOP | libc::ENXIO) => io::Error::other(Flaw::NotOurs),
        _ => error,
    })?;
    let found = file.metadata()?;
    if !found.is_file() || found.uid() != place::own_user() {
        return Err(io::Error::other(Flaw::NotOurs));
    }
    let mut image = Vec::with_capacity((found.len() as usize).min(layout::MAX_FILE));
    file.take(layout::MAX_FILE as u64).read_to_end(&mut image)?;
    Ok(image)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Live,
    Gone,
    Elsewhere,
}

/// Whether the file's process runs. If it has ended, removes the file.
fn judge(path: &Path, image: &[u8]) -> io::Result<Life> {
    let owner = layout::decode_owner(image).map_err(io::Error::other)?;
    let life = life(owner)?;
    if life == Life::Gone {
        // Another process may have been faster.
        let _ = fs::remove_file(path);
    }
    Ok(life)
}

fn life(owner: Owner) -> io::Result<Life> {
    if owner.namespace != process::namespace()? {
        return Ok(Life::Elsewhere);
    }
    let is_same = |start| process::is_same_start(start, owner.start);
    Ok(if process::start(owner.pid)?.is_some_and(is_same) { Life::Live } else { Life::Gone })
}
