//! Where results go: a table for people, JSON and CSV for programs.

use std::path::Path;

use weft_command::destination::Destination;
use weft_command::failure::Failure;
use weft_command::output::{complain, print};

use crate::result::Document;

/// Destinations that were opened before anything was measured: what can't be written would be lost.
#[derive(Debug)]
pub(crate) struct Outputs {
    json: Option<Destination>,
}

impl Outputs {
    /// Opens what is wanted; `-` is standard output.
    pub(crate) fn open(json: Option<&Path>) -> Result<Self, Failure> {
        Ok(Self { json: json.map(Destination::open).transpose()? })
    }

    /// Writes the document first, then prints the table, to standard error if the document has standard output.
    pub(crate) fn publish(self, document: &Document, table: &str) -> Result<(), Failure> {
        match self.json {
            None => print(table),
            Some(json @ Destination::StandardOutput) => {
                complain(table.trim_end());
                json.write(&document.write())
            }
            Some(json @ Destination::File(_)) => json.write(&document.write()).and_then(|()| print(table)),
        }
    }
}
