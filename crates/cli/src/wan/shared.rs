//! What the subcommands of `weft wan` share.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::Duration;

use weft_wan::{CarrierProgram, Report, WanError};

use weft_command::failure::Failure;
use weft_command::output::{complain, print_line};

/// The name of the command that carries packets.
pub(super) const CARRY_COMMAND: &str = "carry";

/// This program, as what carries packets.
pub(super) fn program() -> Result<CarrierProgram, Failure> {
    let program = std::env::current_exe().map_err(Failure::while_doing("cannot find weft"))?;
    Ok(CarrierProgram { program, arguments: this_program(CARRY_COMMAND), environment: Vec::new() })
}

/// The arguments with which this program is one of its hidden commands.
pub(super) fn this_program(command: &str) -> Vec<OsString> {
    ["wan", command].map(Into::into).to_vec()
}

/// A request that makes no sense is an error of the command line.
pub(super) fn failure(error: WanError) -> Failure {
    if error.is_callers() { Failure::Usage(error.to_string()) } else { Failure::Runtime(error.to_string()) }
}

/// A time in seconds.
pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(seconds) if (0.0..=86_400.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("from 0 to 86400 seconds are possible".into()),
    }
}

/// Tells what was carried.
pub(super) fn finish(report: &Report, json: bool, file: Option<&Path>) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(report).expect("plain values become JSON");
    if let Some(file) = file {
        fs::write(file, format!("{text}\n")).map_err(Failure::while_doing(file.display()))?;
    }
    if json {
        return print_line(text);
    }
    complain(report.to_string().trim_end());
    Ok(())
}
