//! Where the JSON of a measurement goes. It is opened before anything is measured: what can't be written would be lost.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::output;

/// Standard output, or a file.
#[derive(Debug)]
pub enum Destination {
    /// `-` on the command line.
    StandardOutput,
    /// A path.
    File(Awaiting),
}

/// A file that is still as it was before. If it was not there, it goes again when nothing is written to it.
#[derive(Debug)]
pub struct Awaiting {
    file: File,
    path: PathBuf,
    is_new: bool,
}

impl Destination {
    /// A path, or `-`.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        if path == Path::new("-") {
            return Ok(Self::StandardOutput);
        }
        let (file, is_new) = match OpenOptions::new().write(true).create_new(true).open(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                (OpenOptions::new().write(true).open(path), false)
            }
            opened => (opened, true),
        };
        let file = file.map_err(Failure::while_doing(format_args!("cannot write to {}", path.display())))?;
        Ok(Self::File(Awaiting { file, path: path.into(), is_new }))
    }

    /// Writes it all.
    pub fn write(self, text: &str) -> Result<(), Failure> {
        match self {
            Self::StandardOutput => output::print(text),
            Self::File(mut awaiting) => awaiting
                .write(text.as_bytes())
                .map_err(Failure::while_doing(format_args!("cannot write to {}", awaiting.path.display()))),
        }
    }
}

impl Awaiting {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        // Else, as a device or a pipe, it holds nothing from before.
        if self.file.metadata()?.is_file() {
            self.file.set_len(0)?;
        }
        self.is_new = false;
        self.file.write_all(bytes)
    }
}

impl Drop for Awaiting {
    fn drop(&mut self) {
        if self.is_new {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn a_file_changes_when_it_is_written_and_not_before() {
        let folder = Scratch::new().unwrap();
        let path = folder.path().join("file");
        drop(Destination::open(&path).unwrap());
        assert!(!path.exists(), "nothing was written");
        Destination::open(&path).unwrap().write("first, and long").unwrap();
        drop(Destination::open(&path).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "first, and long");
        Destination::open(&path).unwrap().write("second").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "second");
        assert!(matches!(Destination::open(folder.path()), Err(Failure::Runtime(_))));
        assert!(matches!(Destination::open(&path.join("below a file")), Err(Failure::Runtime(_))));
    }
}
