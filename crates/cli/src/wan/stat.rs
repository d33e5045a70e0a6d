//! `weft wan stat`.

use clap::Args;

use super::board;
use weft_command::failure::Failure;
use weft_command::output::print_line;

/// The arguments on the command line.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  weft wan stat\n  weft wan stat --json | jq '.[].report.forward.lateness.p99_ns'")]
pub(super) struct Arguments {
    /// Print JSON, for programs
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let all = board::all()?;
    if arguments.json {
        let all: Vec<_> = all.iter().map(|(pid, report)| serde_json::json!({ "pid": pid, "report": report })).collect();
        return print_line(serde_json::to_string_pretty(&all).expect("plain values become JSON"));
    }
    if all.is_empty() {
        return print_line("No weft wan runs.");
    }
    all.iter().try_for_each(|(pid, report)| print_line(format_args!("process {pid}: {report}")))
}
