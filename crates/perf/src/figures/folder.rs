//! The folder of the results: documents, charts, the page.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use weft_command::failure::Failure;

use crate::report::chart::charts;
use crate::report::csv::csv;
use crate::report::page::{Beside, page};
use crate::result::Document;

/// Where all is written.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Makes it, and finds out that it can be written to, before anything is measured.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let cannot =
            |error: io::Error| Failure::Runtime(format!("cannot write to the folder {}: {error}", path.display()));
        fs::create_dir_all(path).map_err(cannot)?;
        let probe = path.join(".weft-figures");
        fs::write(&probe, [0_u8; 4096]).and_then(|()| fs::remove_file(&probe)).map_err(cannot)?;
        Ok(Self(path.to_owned()))
    }

    /// The document of an experiment.
    pub(crate) fn document(&self, name: &str) -> PathBuf {
        self.0.join(format!("{name}.json"))
    }

    /// What its command says.
    pub(crate) fn log(&self, name: &str) -> PathBuf {
        self.0.join(format!("{name}.log"))
    }

    /// Writes the charts of each document, the page of all, and all values; returns the page's path. A document comes
    /// with the name of its file in this folder, without its ending.
    pub(crate) fn draw(&self, documents: &[(String, Document)], beside: Beside) -> Result<PathBuf, Failure> {
        for (name, document) in documents {
            for (at, chart) in charts(document).iter().enumerate() {
                self.write(&format!("{name}-{}.svg", at + 1), &chart.svg())?;
            }
        }
        let all: Vec<Document> = documents.iter().map(|(_, document)| document.clone()).collect();
        self.write("figures.csv", &csv(&all))?;
        self.write("figures.html", &page(&all, &beside))?;
        Ok(self.0.join("figures.html"))
    }

    fn write(&self, name: &str, text: &str) -> Result<(), Failure> {
        let path = self.0.join(name);
        fs::write(&path, text).map_err(Failure::while_doing(format_args!("cannot write {}", path.display())))
    }
}

/// Reads a document.
pub(crate) fn read(path: &Path) -> Result<Document, Failure> {
    let text = fs::read_to_string(path).map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))?;
    Document::read(&text).map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))
}
