//! Where results go: a table for people, JSON and CSV for programs.

use std::path::{Path, PathBuf};

use clap::Args;
use weft_command::destination::Destination;
use weft_command::failure::Failure;
use weft_command::output::{columns, complain, print, wrapped};

use crate::report::csv::csv;
use crate::result::Document;

/// What the command line says of it.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Files {
    /// Write the result as JSON to this file; `-` is standard output, and the table goes to standard error
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write each launch of each figure as a line of comma-separated values to this file; `-` as with --json
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
}

impl Files {
    /// Opens what is wanted, before anything is measured: what can't be written would be lost.
    ///
    /// # Errors
    ///
    /// A file can't be written to, or both are to be standard output.
    pub(crate) fn open(&self) -> Result<Outputs, Failure> {
        let is_shown = |path: &Option<PathBuf>| path.as_deref() == Some(Path::new("-"));
        if is_shown(&self.json) && is_shown(&self.csv) {
            return Err(Failure::Usage("--json - --csv -: standard output takes one of them".into()));
        }
        let open = |path: &Option<PathBuf>| path.as_deref().map(Destination::open).transpose();
        Ok(Outputs { json: open(&self.json)?, csv: open(&self.csv)? })
    }
}

/// Destinations that are open.
#[derive(Debug)]
pub(crate) struct Outputs {
    json: Option<Destination>,
    csv: Option<Destination>,
}

impl Outputs {
    /// Writes the document first, then prints the table, to standard error if the document has standard output.
    pub(crate) fn publish(self, document: &Document, table: &str) -> Result<(), Failure> {
        let table = wrapped(table, columns());
        let texts = [(self.json, Document::write as fn(&Document) -> String), (self.csv, |one| csv([one]))];
        let mut is_taken = false;
        for (destination, text) in texts {
            let Some(destination) = destination else { continue };
            if matches!(destination, Destination::StandardOutput) {
                is_taken = true;
                complain(table.trim_end());
            }
            destination.write(&text(document))?;
        }
        if is_taken { Ok(()) } else { print(table) }
    }
}
