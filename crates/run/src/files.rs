//! The files of Weft's devices, for programs that read those of adapters below `/sys/class/infiniband`.

use std::ffi::OsString;
use std::io;
use std::path::Path;

use weft_command::scratch::Scratch;
use weft_command::{output, verbs};
use weft_verbs::paths::FOLDER_VARIABLE;

/// A folder with them. It goes when this is dropped.
pub(crate) struct Files(Scratch);

impl Files {
    /// Makes them, if the library is there that leads programs to them. Without them a program runs all the same, and
    /// the user gets a message.
    pub(crate) fn make(libraries: &Path) -> Option<Self> {
        if !libraries.join(verbs::PATHS).is_file() {
            return None;
        }
        let made = make().map_err(|error| {
            output::complain(format!("programs see no files of Weft's devices, for they cannot be written: {error}"));
        });
        made.ok().map(Self)
    }

    /// What a program finds them by.
    pub(crate) fn variable(&self) -> (&'static str, OsString) {
        (FOLDER_VARIABLE, self.0.path().into())
    }
}

fn make() -> io::Result<Scratch> {
    let scratch = Scratch::new()?;
    weft_verbs::write_files(scratch.path())?;
    Ok(scratch)
}
