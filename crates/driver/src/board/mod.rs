//! Counters that other processes of the same user can read without asking this one.
//!
//! A [`Board`] is a small file of one NIC that its process maps and writes to; [`boards`] reads those of all processes.
//! The file contains the names of its counters, so a reader need not be of the same version. Only the user that runs
//! the NIC may open it.

mod flaw;
mod layout;
mod limits;
mod mapping;
mod place;
mod process;
mod reader;
mod report;
mod table;

use core::sync::atomic::Ordering;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Once;

use layout::{Heading, Owner};
use mapping::Mapping;

use crate::fork;
use crate::notice::say_once;

pub use flaw::Flaw;
pub use limits::{MAX_COUNTERS, MAX_ENGINES, MAX_ROWS, MAX_WORDS};
pub use place::DIRECTORY_VARIABLE;
pub use reader::{Boards, Skipped, Snapshot, boards};
pub use report::{REPORT_VARIABLE, Report, Reported};
pub use table::{Shape, Table};

/// The maximum number of boards of a process.
const MAX_BOARDS: u32 = 4096;

/// The file in which one NIC publishes its counters. It is removed on drop; if the process dies without that, the next
/// process that reads or makes a board removes it.
#[derive(Debug)]
pub struct Board {
    path: PathBuf,
    rows: Mapping,
    shape: Shape,
    /// Of the process that made it: in a child made by fork(2) it does nothing.
    generation: u64,
}

impl Board {
    /// A board for a NIC with this many engines, each with a counter of each name; all are 0 at first. `title`
    /// describes the NIC in a few words for people. At most [`MAX_ENGINES`] and [`MAX_COUNTERS`]; titles and names
    /// together 64 KiB.
    ///
    /// # Errors
    /// No directory for it can be used, /proc is not mounted, the disk is full, a limit is exceeded, or a name has a
    /// line break. The NIC needs no board: the caller continues without one.
    pub fn create(title: &str, names: &[&str], engines: usize) -> io::Result<Self> {
        Self::with_table(title, names, engines, Shape::default())
    }

    /// As [`Board::create`], with a table of rows for each engine, empty at first: for short-lived things such as
    /// connections.
    ///
    /// # Errors
    /// As there.
    pub fn with_table(title: &str, names: &[&str], engines: usize, shape: Shape) -> io::Result<Self> {
        let directory = report::directory().map_or_else(place::own, Ok)?;
        Self::create_in(&directory, title, names, engines, shape)
    }

    fn create_in(directory: &Path, title: &str, names: &[&str], engines: usize, shape: Shape) -> io::Result<Self> {
        let owner = Owner::this_process()?;
        let heading = Heading {
            owner,
            process: process::name(owner.pid),
            title: title.to_owned(),
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            engines,
            shape,
        };
        let generation = fork::generation();
        reader::sweep(directory);
        let image = heading.encode().map_err(io::Error::other)?;
        let (path, file) = publish_file(directory, owner.pid, &image)?;
        match Mapping::new(&file, image.len(), heading.rows()) {
            Ok(rows) => {
                report::keep(&path);
                Ok(Self { path, rows, shape, generation })
            }
            Err(error) => {
                let _ = fs::remove_file(path);
                Err(error)
            }
        }
    }

    /// Publishes the counts of this engine, in the order of the names. Costs a store each. Excess is ignored: an engine
    /// beyond the board's, values without a name.
    pub fn publish(&self, engine: usize, values: &[u64]) {
        if self.generation != fork::generation() {
            return;
        }
        for (place, value) in self.rows.row(engine).iter().zip(values) {
            place.store(*value, Ordering::Relaxed);
        }
    }

    /// Publishes the rows of this engine's table. Costs a store for each word. Excess is ignored.
    pub fn publish_table<R: AsRef<[u64]>>(&self, engine: usize, rows: &[R]) {
        if self.generation == fork::generation() {
            self.shape.store(self.rows.table(engine), rows);
        }
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        if self.generation == fork::generation() {
            // The file may have been removed already.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Reports on stderr, once, that a NIC has no board, and why: it works without, but `weft stat` does not show it.
pub fn say_missing(error: &io::Error) {
    static SAID: Once = Once::new();
    say_once(&SAID, format_args!("weft stat will not show this process, since its counters have no file: {error}"));
}

/// Publishes a file under the first free number. It has its contents before it gets its name, so that no reader sees a
/// partial file, and all of it is allocated, so that no store into the mapping finds the disk full.
fn publish_file(directory: &Path, pid: u32, image: &[u8]) -> io::Result<(PathBuf, File)> {
    let draft = directory.join(place::draft_name(pid));
    let mut file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&draft)?;
    let published = file.write_all(image).and_then(|()| link(directory, pid, &draft));
    let _ = fs::remove_file(&draft);
    Ok((published?, file))
}

fn link(directory: &Path, pid: u32, draft: &Path) -> io::Result<PathBuf> {
    for nic in 0..MAX_BOARDS {
        let path = directory.join(place::name(pid, nic));
        match fs::hard_link(draft, &path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            done => return done.map(|()| path),
        }
    }
    Err(io::Error::other(format!("{} has {MAX_BOARDS} boards of process {pid}", directory.display())))
}

#[cfg(test)]
mod tests;
