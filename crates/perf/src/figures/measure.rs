//! One experiment after the other, each by a command of its own.

use std::env;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use weft_command::failure::Failure;
use weft_command::interrupt::Interrupt;
use weft_command::output::complain;
use weft_command::{COMMIT, VERSION};

use crate::figures::catalogue::{Experiment, Scale};
use crate::figures::folder::{Folder, read};
use crate::result::Document;

/// How often a command is polled for its end.
const POLL: Duration = Duration::from_millis(100);
/// A command is ended after this many times its minutes, and this much: a machine may be slow, or busy.
const MOST_TIMES: f64 = 8.0;
const LEAST_LIMIT: Duration = Duration::from_secs(300);
/// How long a command may take to keep what it has when it is interrupted.
const LAST_WORDS: Duration = Duration::from_secs(20);

/// What came of all.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// What was measured, now or before, by the experiment's name.
    pub(crate) documents: Vec<(String, Document)>,
    /// What failed, and why.
    pub(crate) failures: Vec<String>,
    /// What this machine can't measure, and why.
    pub(crate) left_out: Vec<String>,
    pub(crate) is_interrupted: bool,
}

/// Measures all that this folder does not have yet from the same command and commit.
pub(crate) fn all(experiments: &[&Experiment], scale: Scale, folder: &Folder, again: bool) -> Result<Outcome, Failure> {
    let (interrupt, mut outcome) = (Interrupt::watch()?, Outcome::default());
    let kept = |one: &Experiment| (!again).then(|| kept(one, scale, folder)).flatten();
    let open = experiments.iter().filter(|one| kept(one).is_none());
    let open = open.fold(0.0, |sum, one| sum + one.minutes(scale));
    complain(format_args!("{} experiments, about {:.0} minutes", experiments.len(), open.ceil()));
    let bar = progress(open);
    for one in experiments {
        if let Some(document) = kept(one) {
            complain(format_args!("{}: measured before", one.name));
            outcome.documents.push(named(one, document));
            continue;
        }
        bar.set_message(one.name);
        let ended = measure(one, scale, folder, &interrupt);
        // What was measured before it failed, or was interrupted, counts.
        let document = read(&folder.document(one.name)).ok();
        if let Err(why) = ended {
            let why = format!("{}: {why}", one.name);
            complain(&why);
            let is_absent = one.needs.is_some() && document.is_none() && !interrupt.has_come();
            if is_absent { outcome.left_out.push(why) } else { outcome.failures.push(why) }
        }
        outcome.documents.extend(document.map(|document| named(one, document)));
        bar.inc((one.minutes(scale) * 60.0) as u64);
        if interrupt.has_come() {
            outcome.is_interrupted = true;
            break;
        }
    }
    bar.finish_and_clear();
    Ok(outcome)
}

/// A document under the name of its experiment, with its question: a test has the same one in all.
fn named(experiment: &Experiment, document: Document) -> (String, Document) {
    (experiment.name.to_owned(), Document { question: experiment.question.to_owned(), ..document })
}

/// What this folder has of an experiment, if the same build has measured the same whole.
fn kept(experiment: &Experiment, scale: Scale, folder: &Folder) -> Option<Document> {
    let document = read(&folder.document(experiment.name)).ok()?;
    let command = experiment.command(scale);
    let is_same = document.command.get(2..).is_some_and(|words| words.starts_with(&command));
    let is_whole = !document.is_cut_short && (document.version.as_str(), document.commit.as_str()) == (VERSION, COMMIT);
    (is_same && is_whole).then_some(document)
}

fn measure(experiment: &Experiment, scale: Scale, folder: &Folder, interrupt: &Interrupt) -> Result<(), String> {
    let (path, log) = (folder.document(experiment.name), folder.log(experiment.name));
    let open = |error| format!("{}: {error}", log.display());
    let file = File::create(&log).map_err(open)?;
    let errors = file.try_clone().map_err(open)?;
    // What an older command has left is not what this one measures.
    let _ = fs::remove_file(&path);
    let program = env::current_exe().map_err(|error| format!("this program: {error}"))?;
    let mut child = Command::new(program)
        .arg("perf")
        .args(experiment.command(scale))
        .arg("--json")
        .arg(&path)
        .stdin(Stdio::null())
        .stdout(file)
        .stderr(errors)
        .process_group(0)
        .spawn()
        .map_err(|error| format!("cannot start: {error}"))?;
    let limit = Duration::from_secs_f64(experiment.minutes(scale) * 60.0 * MOST_TIMES).max(LEAST_LIMIT);
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            let words = || format!("{status}: {} ({} says more)", last_line(&log), log.display());
            return if status.success() { Ok(()) } else { Err(words()) };
        }
        if interrupt.has_come() {
            end(&mut child, Signal::SIGINT);
            return Err("interrupted".into());
        }
        if began.elapsed() > limit {
            end(&mut child, Signal::SIGINT);
            return Err(format!("it had not ended after {} minutes", limit.as_secs() / 60));
        }
        thread::sleep(POLL);
    }
}

/// The last output of a command, which is its error when it has failed.
fn last_line(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing").to_owned()
}

/// Ends a command and all that it has started: it may keep what it has.
fn end(child: &mut Child, signal: Signal) {
    let group = Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX));
    let _ = killpg(group, signal);
    let until = Instant::now() + LAST_WORDS;
    while matches!(child.try_wait(), Ok(None)) && Instant::now() < until {
        thread::sleep(POLL);
    }
    let _ = killpg(group, Signal::SIGKILL);
    let _ = child.wait();
}

fn progress(minutes: f64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {elapsed} of about {duration}  {msg}")
        .expect("the template is well formed");
    ProgressBar::new((minutes * 60.0) as u64).with_style(style)
}
