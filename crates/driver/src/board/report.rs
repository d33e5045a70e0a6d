//! Boards that outlive their NICs: for a report on all NICs of a launch after its end.
//!
//! Each board gets a second name in a folder of the launch. The file has its last counts whatever has become of the
//! process: closed, ended without closing, or killed. A name is `PID-NIC-COPY` or `PID-NIC-COPY-RANK`.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::reader::{self, Snapshot};
use super::{place, process};
use crate::job_rank::job_rank;

/// The environment variable that names the folder of a launch. Processes that have it keep their boards there.
pub const REPORT_VARIABLE: &str = "WEFT_REPORT";

/// What the names of folders begin with; then comes the process that made it.
const PREFIX: &str = "report-";

/// The maximum number of boards with the same process and number in a folder: NICs that were open one after the other.
const MAX_COPIES: u32 = 4096;

/// A folder for the boards of a launch, in the directory of boards. It is removed on drop; what a killed process has
/// left is removed by the next one that makes a folder.
#[derive(Debug)]
pub struct Report(PathBuf);

/// The last counts of a NIC of a launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reported {
    /// The rank of its process in its job, if it had a launcher.
    pub rank: Option<u32>,
    /// Its counts.
    pub nic: Snapshot,
}

impl Report {
    /// Makes the folder, for this process.
    ///
    /// # Errors
    /// No directory of boards can be used, or the disk is full.
    pub fn create() -> io::Result<Self> {
        Self::create_in(&place::own()?)
    }

    pub(super) fn create_in(directory: &Path) -> io::Result<Self> {
        let own = process::own_pid()?;
        for entry in fs::read_dir(directory)?.filter_map(Result::ok) {
            let name = entry.file_name();
            let pid = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse().ok());
            if pid.is_some_and(|pid: u32| pid == own || matches!(process::start(pid), Ok(None))) {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
        let folder = directory.join(format!("{PREFIX}{own}"));
        place::make(&folder)?;
        Ok(Self(folder))
    }

    /// The value of [`REPORT_VARIABLE`] for the processes of the launch.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.0
    }

    /// All NICs of the launch that were opened on this host, by rank, process and number; those of processes without a
    /// rank first. Files that cannot be read are left out.
    #[must_use]
    pub fn read(&self) -> Vec<Reported> {
        let entries = fs::read_dir(&self.0).into_iter().flatten().filter_map(Result::ok);
        let mut all: Vec<_> = entries.filter_map(|entry| reported(&entry.path())).collect();
        all.sort_by_key(|reported| (reported.rank, reported.nic.pid, reported.nic.nic, reported.nic.start));
        all
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The directory of boards of the process that made the launch's folder. Boards go there, for a second name is on the
/// same disk. `None`: this process belongs to no launch with a report, or cannot use its directory.
pub(super) fn directory() -> Option<PathBuf> {
    let directory = folder()?.parent()?.to_owned();
    place::check(&directory).is_ok().then_some(directory)
}

/// Gives a new board a second name in the folder of the launch, if this process belongs to one.
pub(super) fn keep(board: &Path) {
    if let Some(folder) = folder() {
        keep_in(&folder, board, job_rank(|name| env::var(name).ok()));
    }
}

fn folder() -> Option<PathBuf> {
    env::var_os(REPORT_VARIABLE).map(PathBuf::from).filter(|folder| folder.is_absolute())
}

/// The report does without a board where that fails: on another host, where the folder is not, or on another disk.
pub(super) fn keep_in(folder: &Path, board: &Path, rank: Option<u32>) {
    let Some(name) = board.file_name().and_then(|name| name.to_str()) else { return };
    if place::check(folder).is_err() {
        return;
    }
    let rank = rank.map(|rank| format!("-{rank}")).unwrap_or_default();
    for copy in 0..MAX_COPIES {
        match fs::hard_link(board, folder.join(format!("{name}-{copy}{rank}"))) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            _ => return,
        }
    }
}

fn reported(path: &Path) -> Option<Reported> {
    let numbers: Option<Vec<u32>> = path.file_name()?.to_str()?.split('-').map(|part| part.parse().ok()).collect();
    let (pid, nic, rank) = match numbers?[..] {
        [pid, nic, _] => (pid, nic, None),
        [pid, nic, _, rank] => (pid, nic, Some(rank)),
        _ => return None,
    };
    Some(Reported { rank, nic: reader::snapshot_of_any(path, pid, nic).ok()? })
}
