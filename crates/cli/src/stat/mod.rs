//! `weft stat`: what the NICs of this user's processes have done, and are doing.

mod data;
mod detail;
mod groups;
mod keys;
mod list;
mod rails;
mod sample;
mod screen;

use std::thread;
use std::time::{Duration, Instant};

use clap::Args;

use weft_command::failure::Failure;
use weft_command::interrupt::Interrupt;
use weft_command::output::print;

use sample::{Changes, Sample};
use screen::Screen;

const EXAMPLES: &str = "\
Examples:
  weft stat
  weft stat 4711 --watch
  weft stat --watch 0.5
  weft stat --json | jq '.nics[] | {pid, sent: .counters.sent_wire_bytes}'

Bytes are those of the wire unless a line says otherwise. K, M, G count in steps of 1024 for bytes, of 1000 for all else. \
On a terminal, space, b and the arrow keys scroll what --watch shows, and q ends it. The processes are not asked: \
a NIC that hangs shows what it counted last. WEFT_BOARDS names the directory where NICs show \
their counters, in place of $XDG_RUNTIME_DIR/weft and /tmp/weft-UID.";

/// The arguments on the command line.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Show every counter of this process's NICs; without it, a line for each NIC of all processes
    pid: Option<u32>,
    /// Read again at this interval until Ctrl-C, and show rates; a PID comes before it
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1", value_parser = interval)]
    watch: Option<Duration>,
    /// Print JSON, for programs; with --watch one line for each reading
    #[arg(long)]
    json: bool,
}

/// Seconds between two readings.
fn interval(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(seconds) if (0.1..=3600.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("from 0.1 to 3600 seconds are possible".into()),
    }
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let first = Sample::now(arguments.pid);
    if let Some(pid) = arguments.pid {
        first.require(pid)?;
    }
    match arguments.watch {
        Some(interval) => watch(arguments, interval, first),
        None => print(page(arguments, &Changes::of_one(&first), screen::width())),
    }
}

/// Ctrl-C is how this ends, so it is no failure; neither is a reader that goes away, or the process that was watched.
fn watch(arguments: &Arguments, interval: Duration, first: Sample) -> Result<(), Failure> {
    let interrupt = Interrupt::watch()?;
    let mut screen = if arguments.json { Screen::plain() } else { Screen::of_standard_output() };
    let mut before = first;
    let mut shown = screen.show(&page(arguments, &Changes::of_one(&before), screen::width()))?;
    while shown && sleep(interval, &interrupt, &mut screen)? {
        let now = Sample::now(arguments.pid);
        if let Some(pid) = arguments.pid.filter(|_| now.nics.is_empty()) {
            screen.end(&format!("process {pid} has no NIC any more\n"), arguments.json)?;
            return Ok(());
        }
        shown = screen.show(&page(arguments, &Changes::between(&before, &now), screen::width()))?;
        before = now;
    }
    Ok(())
}

/// For a terminal of this width; `None`: as wide as it is.
fn page(arguments: &Arguments, changes: &Changes<'_>, width: Option<usize>) -> String {
    match (arguments.json, arguments.pid, arguments.watch) {
        (true, _, watch) => data::page(changes, watch.is_some()),
        (false, Some(_), _) => detail::page(changes, width),
        (false, None, _) => list::page(changes, width),
    }
}

/// Whether the time passed without an interrupt, or a key that ends it, which are looked for every now and then.
fn sleep(time: Duration, interrupt: &Interrupt, screen: &mut Screen) -> Result<bool, Failure> {
    let begun = Instant::now();
    while !interrupt.has_come() && screen.obey()? {
        match time.checked_sub(begun.elapsed()) {
            None | Some(Duration::ZERO) => return Ok(true),
            Some(left) => thread::sleep(left.min(Duration::from_millis(50))),
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests;
