//! Writes documents with invented figures into a folder, so that the page can be seen without hours of measuring:
//!
//! ```sh
//! cargo run -p weft-perf --example samples -- /tmp/samples
//! cargo run -p weft-perf --example page -- /tmp/samples/*.json > /tmp/samples/page.html
//! ```

#[path = "../tests/support/mod.rs"]
mod support;

use std::path::PathBuf;
use std::process::ExitCode;
use std::{env, fs, io};

use weft_perf::result::Document;

fn main() -> ExitCode {
    let Some(folder) = env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: samples FOLDER");
        return ExitCode::from(2);
    };
    match write(&folder, &support::all()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("samples: {}: {error}", folder.display());
            ExitCode::FAILURE
        }
    }
}

fn write(folder: &std::path::Path, documents: &[Document]) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    for document in documents {
        fs::write(folder.join(format!("{}.json", document.test)), document.write())?;
        for chart in weft_perf::report::chart::charts(document) {
            fs::write(folder.join(format!("{}.svg", chart.name)), chart.svg())?;
        }
    }
    Ok(())
}
