//! Tells the command which commit it was built from, so that a measurement can name it.
#![forbid(unsafe_code)]

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rustc-env=WEFT_COMMIT={}", commit().unwrap_or_else(|| "unknown".into()));
    println!("cargo::rerun-if-changed=build.rs");
    // The log of HEAD grows with every commit and every change of branch.
    let log = Path::new("../../.git/logs/HEAD");
    if log.exists() {
        println!("cargo::rerun-if-changed={}", log.display());
    }
}

/// The commit that is checked out; `None` outside a repository.
fn commit() -> Option<String> {
    let output = Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
}
