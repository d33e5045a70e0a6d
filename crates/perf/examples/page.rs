//! Writes the page of results to standard output:
//!
//! ```sh
//! cargo run -p weft-perf --example page -- latency.json bandwidth.json > page.html
//! ```

use std::path::Path;
use std::process::ExitCode;
use std::{env, fs};

use weft_perf::report::page::{Beside, Entry, page};
use weft_perf::result::Document;

fn main() -> ExitCode {
    let paths: Vec<String> = env::args().skip(1).collect();
    if paths.is_empty() {
        eprintln!("usage: page FILE...");
        return ExitCode::from(2);
    }
    match paths.iter().map(|path| read(path)).collect::<Result<Vec<Document>, String>>() {
        Ok(documents) => {
            let entries = paths.iter().map(|path| Entry { file: name(path), ..Entry::default() }).collect();
            print!("{}", page(&documents, &Beside { entries, ..Beside::default() }));
            ExitCode::SUCCESS
        }
        Err(complaint) => {
            eprintln!("page: {complaint}");
            ExitCode::FAILURE
        }
    }
}

fn read(path: &str) -> Result<Document, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    Document::read(&text).map_err(|error| format!("{path}: {error}"))
}

/// The page links to the files by name: it belongs into their folder.
fn name(path: &str) -> String {
    Path::new(path).file_name().unwrap_or_default().to_string_lossy().into_owned()
}
