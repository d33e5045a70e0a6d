//! The command line of `weft figures`, and what it does.

use std::path::{Path, PathBuf};

use clap::Args;
use weft_command::failure::Failure;
use weft_command::output::{complain, print, print_line};
use weft_command::table::{Align, Table};

use crate::figures::catalogue::{ALL, Experiment, GROUPS, Scale};
use crate::figures::claims;
use crate::figures::folder::{Folder, read};
use crate::figures::measure;
use crate::report::Claim;
use crate::report::page::{Beside, Entry, Finding};
use crate::result::Document;

const EXAMPLES: &str = "\
Examples:
  weft figures                                        all experiments: an hour, then figures/figures.html
  weft figures --quick --out /tmp/look                whether all works, and how it looks
  weft figures latency bandwidth                      two of them
  weft figures --list                                 what there is, what it asks, how long it takes
  weft figures edge --out /tmp/edge                   a group: all of Edge beside its peers
  weft figures --list links                           what is varied and measured, and the commands
  weft figures --from a.json b.json                   draw what weft perf --json has measured before
  weft figures --claims                               measure what Weft claims of itself, and judge it
  weft figures --claims --from figures/*.json         judge what was measured before

What a folder has already from the same build and command is not measured again: an interrupted run goes on.
Exit codes: 0 all was measured, 1 an experiment failed (the others are drawn) or a claim does not hold, 2 the command
line is wrong, 130 interrupted (what was measured is drawn).";

/// From least to most.
const SCALES: [Scale; 3] = [Scale::Quick, Scale::Usual, Scale::Long];

/// The arguments on the command line.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Figures {
    /// The experiments, or groups of them, by name [default: all; those in brackets in the list only with --long]
    #[arg(value_name = "EXPERIMENT")]
    experiments: Vec<String>,
    /// Less of each, at most 6 minutes for all
    #[arg(long, conflicts_with = "long")]
    quick: bool,
    /// Rare events and many launches: hours
    #[arg(long)]
    long: bool,
    /// The folder for results, charts and the page
    #[arg(long, value_name = "FOLDER", default_value = "figures")]
    out: PathBuf,
    /// Draw these results instead of measuring
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["quick", "long", "experiments", "again"])]
    from: Vec<PathBuf>,
    /// Measure also what the folder has already
    #[arg(long)]
    again: bool,
    /// Measure what Weft claims of itself, and judge each claim
    #[arg(long, conflicts_with = "list")]
    claims: bool,
    /// List the experiments, or say all of those that are named, and end
    #[arg(long)]
    list: bool,
}

impl Figures {
    const fn scale(&self) -> Scale {
        match (self.quick, self.long) {
            (true, _) => Scale::Quick,
            (_, true) => Scale::Long,
            _ => Scale::Usual,
        }
    }

    fn experiments(&self) -> Result<Vec<&'static Experiment>, Failure> {
        if self.experiments.is_empty() {
            let usual = || ALL.iter().filter(|one| self.list || one.is_usual(self.scale())).collect();
            return Ok(if self.claims { claims::experiments() } else { usual() });
        }
        let mut found: Vec<&'static Experiment> = Vec::new();
        for name in &self.experiments {
            let of_name = by_name(name)?.into_iter().filter(|one| found.iter().all(|other| other.name != one.name));
            found.extend(of_name.collect::<Vec<_>>());
        }
        Ok(found)
    }
}

/// The experiment of this name, or those of the group that is called so.
fn by_name(name: &str) -> Result<Vec<&'static Experiment>, Failure> {
    if let Some(one) = ALL.iter().find(|one| one.name == name) {
        return Ok(vec![one]);
    }
    let group = GROUPS.iter().find(|group| group.name == name).map(|group| group.experiments().collect());
    group.ok_or_else(|| {
        let (names, groups) = (ALL.map(|one| one.name).join(", "), GROUPS.map(|group| group.name).join(", "));
        Failure::Usage(format!("there is no experiment {name:?}; there are {names}; and groups: {groups}"))
    })
}

/// Runs the command.
///
/// # Errors
///
/// The command line asks for what there is not, a file can't be read or written, or an experiment failed.
pub fn run(arguments: &Figures) -> Result<(), Failure> {
    let (experiments, scale) = (arguments.experiments()?, arguments.scale());
    if arguments.list {
        return print(if arguments.experiments.is_empty() { list(&experiments) } else { details(&experiments) });
    }
    if !arguments.from.is_empty() {
        let documents = arguments.from.iter().map(|path| Ok((stem(path), read(path)?)));
        let documents: Vec<_> = documents.collect::<Result<_, Failure>>()?;
        let claims = judge(arguments, &experiments, &documents);
        let page = Folder::open(&arguments.out)?.draw(&documents, beside(&documents, claims.clone(), false))?;
        print_line(page.display())?;
        return tell(&claims);
    }
    let folder = Folder::open(&arguments.out)?;
    let outcome = measure::all(&experiments, scale, &folder, arguments.again)?;
    let claims = judge(arguments, &experiments, &outcome.documents);
    if !outcome.documents.is_empty() {
        let page = folder.draw(&outcome.documents, beside(&outcome.documents, claims.clone(), true))?;
        complain(format_args!("{} of {} experiments", outcome.documents.len(), experiments.len()));
        outcome.left_out.iter().for_each(|why| complain(format_args!("left out: {why}")));
        print_line(page.display())?;
    }
    let told = tell(&claims);
    match outcome.failures.first() {
        _ if outcome.is_interrupted => Err(Failure::Interrupted),
        None => told,
        Some(failure) => Err(Failure::Runtime(failure.clone())),
    }
}

/// What was measured of the claims; nothing if that is not wanted.
fn judge(arguments: &Figures, experiments: &[&Experiment], documents: &[(String, Document)]) -> Vec<Claim> {
    if arguments.claims { claims::judge(experiments, arguments.scale(), documents) } else { Vec::new() }
}

/// Prints the claims: each in two lines, and one with the place where a document states it.
fn tell(claims: &[Claim]) -> Result<(), Failure> {
    for claim in claims {
        let minutes = format!("{:.1} minutes", claim.minutes);
        let stated = if claim.stated_in.is_empty() { String::new() } else { format!("\n     {}", claim.stated_in) };
        let lines = format!(
            "{} {}{stated}\n     here {}, expected {}: {}, {minutes}",
            claim.verdict(),
            claim.text,
            claim.measurement(),
            claim.expectation(),
            claim.command
        );
        print_line(lines)?;
    }
    match claims.iter().filter(|claim| !claim.holds()).count() {
        0 => Ok(()),
        failed => Err(Failure::Runtime(format!("{failed} of {} claims do not hold here", claims.len()))),
    }
}

/// What a file is called without its ending.
fn stem(path: &Path) -> String {
    path.file_stem().map_or_else(|| "results".into(), |name| name.to_string_lossy().into_owned())
}

/// What the page says beyond its documents, whose files are beside it or not.
fn beside(documents: &[(String, Document)], claims: Vec<Claim>, are_there: bool) -> Beside {
    let entry = |(name, _): &(String, Document)| {
        let experiment = ALL.iter().find(|one| one.name == name);
        let finding = |one: &Experiment| Some(Finding { text: one.found?.to_owned(), source: one.source.to_owned() });
        Entry {
            name: experiment.map_or_else(String::new, |one| one.name.to_owned()),
            finding: experiment.and_then(finding),
            file: if are_there { format!("{name}.json") } else { String::new() },
        }
    };
    Beside { entries: documents.iter().map(entry).collect(), claims }
}

/// All that is known of these.
fn details(experiments: &[&Experiment]) -> String {
    experiments.iter().map(|one| detail(one)).collect::<Vec<_>>().join("\n")
}

fn detail(one: &Experiment) -> String {
    let mut table = Table::new(&[("", Align::Left), ("", Align::Left)]);
    let mut row = |name: &str, text: String| table.row([name.to_owned(), text]);
    row("asked by", one.source.to_owned());
    row("varied", one.axes.to_owned());
    row("measured", one.metrics.to_owned());
    one.needs.iter().for_each(|needs| row("needs", (*needs).to_owned()));
    for (name, scale) in [("quick", Scale::Quick), ("usual", Scale::Usual), ("long", Scale::Long)] {
        let command = one.command(scale).join(" ");
        row(name, format!("{:.1} minutes: weft perf {command}", one.minutes(scale)));
    }
    // The headings are empty.
    let lines: String = table.to_string().lines().skip(1).map(|line| format!("{line}\n")).collect();
    format!("{}: {}\n{lines}", one.name, one.question)
}

fn list(experiments: &[&Experiment]) -> String {
    let right = Align::Right;
    let mut table = Table::new(&[
        ("experiment", Align::Left),
        ("quick", right),
        ("minutes", right),
        ("long", right),
        ("question", Align::Left),
    ]);
    for one in experiments {
        // In brackets what is made only when it is named.
        let minutes = |scale| {
            let minutes = format!("{:.1}", one.minutes(scale));
            if one.is_usual(scale) { minutes } else { format!("({minutes})") }
        };
        let [quick, usual, long] = SCALES.map(minutes);
        table.row([one.name.to_owned(), quick, usual, long, one.question.to_owned()]);
    }
    format!("{table}\n{}", groups())
}

/// The groups, each with the minutes of all its experiments.
fn groups() -> String {
    let right = Align::Right;
    let mut table = Table::new(&[
        ("group", Align::Left),
        ("quick", right),
        ("minutes", right),
        ("long", right),
        ("of", Align::Left),
    ]);
    for group in &GROUPS {
        let minutes = |scale| format!("{:.1}", group.experiments().map(|one| one.minutes(scale)).sum::<f64>());
        let [quick, usual, long] = SCALES.map(minutes);
        table.row([group.name.to_owned(), quick, usual, long, group.subject.to_owned()]);
    }
    table.to_string()
}
