//! `weft wan check`.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use clap::Args;
use weft_wan::{CarrierProgram, CheckPlan, CheckPrograms, CheckProgress, CheckRow, Checks, Kind, Verdict};

use super::shared::{failure, program, this_program};
use weft_command::failure::Failure;
use weft_command::interrupt::Interrupt;
use weft_command::output::{complain, print, print_line};
use weft_command::table::{Align, Table};

/// The largest seed that a scenario has.
const SEEDS: u64 = i64::MAX as u64;
/// The name of the command that sends or receives in a host.
pub(super) const PROBE_COMMAND: &str = "probe";

const EXAMPLES: &str = "\
Examples:
  weft wan check --quick
  weft wan check --only delay,rate --carrier rings
  weft wan check --json > check.json

Each case makes a lab, as weft wan run does, and sends a stream through it, 10 000 packets in a second: the delay of \
half of the packets is within 50 us of what was set, and of 99 of 100 within 200 us; rates are within 1 %, shares \
within 5 standard deviations; TCP keeps to the known formulas. Rates without a pace are told, not judged. On a machine \
that does other things at the same time, times are late. The exit code is 1 if something has failed.";

/// The arguments on the command line.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// Shorter streams: about 80 seconds in all, not 270
    #[arg(long)]
    quick: bool,
    /// Only these cases; --list says which there are
    #[arg(long, value_name = "CASE,...", value_delimiter = ',')]
    only: Vec<String>,
    /// Only these carriers: queue, rings
    #[arg(long, value_name = "KIND,...", value_delimiter = ',')]
    carrier: Vec<Kind>,
    /// Packets of each paced stream [default: 40000, and 8000 with --quick]
    #[arg(long, value_name = "N")]
    packets: Option<u32>,
    /// How long each stream of TCP, or at full rate, is measured [default: 12, and 3 with --quick]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: Option<u64>,
    /// What happens by chance comes from this number
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u64).range(..=SEEDS))]
    seed: u64,
    /// Multiply each tolerance by this: more for a machine that is busy
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = factor)]
    tolerance: f64,
    /// Print JSON, for programs
    #[arg(long)]
    json: bool,
    /// Show the cases and what each is about
    #[arg(long)]
    list: bool,
}

fn factor(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(factor) if (0.0..=1000.0).contains(&factor) => Ok(factor),
        _ => Err("from 0 to 1000 are possible".into()),
    }
}

impl Arguments {
    fn plan(&self) -> CheckPlan {
        let usual = CheckPlan::usual(self.quick);
        CheckPlan {
            carriers: if self.carrier.is_empty() { usual.carriers } else { self.carrier.clone() },
            only: self.only.clone(),
            packets: self.packets.unwrap_or(usual.packets),
            lasts: self.seconds.map_or(usual.lasts, Duration::from_secs),
            seed: self.seed,
            tolerance: self.tolerance,
        }
    }
}

/// Runs the command.
pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.list {
        return list();
    }
    let interrupt = Interrupt::watch()?;
    let probe = CarrierProgram { arguments: this_program(PROBE_COMMAND), ..program()? };
    let programs = CheckPrograms { carrier: program()?, probe };
    let line = Line { is_terminal: io::stderr().is_terminal() };
    let is_wanted = || !interrupt.has_come();
    let checks = weft_wan::check_emulator(&arguments.plan(), &programs, &is_wanted, |progress| line.show(progress));
    line.clear();
    let checks = checks.map_err(failure)?;
    if arguments.json {
        print_line(serde_json::to_string_pretty(&checks).expect("plain values become JSON"))?;
    } else {
        print(table(&checks))?;
        print_line(summary(&checks))?;
    }
    match (checks.is_whole, checks.passed) {
        (false, _) => Err(Failure::Interrupted),
        (true, true) => Ok(()),
        (true, false) => Err(Failure::Exited(1)),
    }
}

fn list() -> Result<(), Failure> {
    let mut table = Table::new(&[("case", Align::Left), ("what", Align::Left)]);
    CheckPlan::names().into_iter().for_each(|(name, what)| table.row([name.to_owned(), what.to_owned()]));
    print(table)
}

/// How far it is, on standard error: one line that changes, or where that is no terminal a line for each case.
struct Line {
    is_terminal: bool,
}

impl Line {
    fn show(&self, progress: &CheckProgress) {
        let CheckProgress { done, of, now, left } = progress;
        let text = format!("{} of {of}: {now}; about {} s left", done + 1, left.as_secs_f64().ceil());
        if self.is_terminal {
            self.write(&text);
        } else {
            complain(text);
        }
    }

    fn clear(&self) {
        if self.is_terminal {
            self.write("");
        }
    }

    fn write(&self, text: &str) {
        // An error of the write is ignored.
        let _ = io::stderr().lock().write_all(format!("\r\x1b[K{text}").as_bytes());
    }
}

fn table(checks: &Checks) -> Table {
    let right = ["asked", "got", "tolerance", "z"].map(|heading| (heading, Align::Right));
    let left = |heading| (heading, Align::Left);
    let columns = [left("carrier"), left("case"), left("what")].into_iter().chain(right);
    let mut table = Table::new(&columns.chain([left("unit"), left("")]).collect::<Vec<_>>());
    for case in &checks.cases {
        for row in &case.rows {
            let CheckRow { what, unit, asked, got, tolerance, z, verdict, .. } = row;
            let [asked, got, tolerance] = [asked, got, tolerance].map(|value| value.map_or("-".to_owned(), number));
            let z = z.map_or_else(String::new, |z| format!("{z:.1}"));
            let names = [&case.carrier, &case.name, what].map(Clone::clone);
            table.row(names.into_iter().chain([asked, got, tolerance, z, unit.clone(), word(*verdict).to_owned()]));
        }
    }
    table
}

/// Four digits of it, so that what is small is not nothing.
fn number(value: f64) -> String {
    let decimals = if value == 0.0 || value.abs() >= 1000.0 { 0 } else { 3 - value.abs().log10().floor() as i32 };
    format!("{value:.*}", decimals.clamp(0, 6) as usize)
}

const fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "PASS",
        Verdict::Fail => "FAIL",
        Verdict::Reported => "told",
    }
}

fn summary(checks: &Checks) -> String {
    let [passed, failed, told] = checks.counts();
    let mut text = format!("\n{passed} passed, {failed} failed, {told} told and not judged; seed {}.", checks.seed);
    if !checks.is_whole {
        text += " It was interrupted.";
    }
    for case in &checks.cases {
        let notes = case.rows.iter().filter_map(|row| row.note.as_ref());
        let lateness = (case.has_failed()).then(|| format!("lateness {}", case.report.forward.lateness));
        for note in notes.cloned().chain(lateness) {
            text += &format!("\n{}, {}: {note}", case.carrier, case.name);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_four_digits() {
        for (value, text) in [
            (0.0, "0"),
            (4.0, "4.000"),
            (0.05, "0.05000"),
            (49.98, "49.98"),
            (1234.5, "1234"),
            (0.000_012_3, "0.000012"),
            (-2.5, "-2.500"),
        ] {
            assert_eq!(number(value), text);
        }
    }
}
