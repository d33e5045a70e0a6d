//! One side of one run: the hidden subcommand that [`session`](crate::runner::session) starts, two or more at a time.
//!
//! Lines of JSON: a [`Job`] comes in, the side's address goes out; a list of all sides' addresses comes in, the figures
//! go out. When standard input ends the process ends, with all that it has started: nothing may keep spinning once no
//! process waits for it.

use std::io::{self, BufRead, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::{Pid, getpgrp, getpid};

use crate::host::distance::stay_on;
use crate::model::job::Job;
use crate::runner::protocol::{LINE_LIMIT, Said};
use crate::runner::registry::entry_of;
use weft_command::failure::Failure;
use weft_command::output::print_line;
use weft_command::scratch;

/// Runs the subcommand.
pub fn run() -> Result<(), Failure> {
    let finished = Arc::new(AtomicBool::new(false));
    let lines = lines_until_the_end(Arc::clone(&finished));
    let outcome = converse(&lines, &finished);
    finished.store(true, Ordering::Release);
    match outcome {
        Ok(()) => Ok(()),
        Err(reason) => {
            say(&Said::Failed(reason.clone()))?;
            Err(Failure::Runtime(reason))
        }
    }
}

fn converse(lines: &Receiver<String>, finished: &AtomicBool) -> Result<(), String> {
    let next = || lines.recv().map_err(|_| "whoever started this side has gone".to_owned());
    let job: Job = serde_json::from_str(&next()?).map_err(|error| format!("this is no job: {error}"))?;
    job.check()?;
    if let Some(core) = job.core {
        stay_on(core)?;
    }
    let entry = entry_of(&job)?;
    entry.contestant.supports(&job)?;
    let mut side = entry.contestant.open(&job)?;
    say(&Said::Address(side.address())).map_err(|failure| failure.to_string())?;
    let addresses: Vec<String> =
        serde_json::from_str(&next()?).map_err(|error| format!("these are no addresses: {error}"))?;
    if addresses.len() != job.ranks {
        return Err(format!("{} addresses came for {} processes", addresses.len(), job.ranks));
    }
    let measured = side.run(&job, &addresses)?;
    finished.store(true, Ordering::Release);
    say(&Said::Measured(measured)).map_err(|failure| failure.to_string())?;
    // The other side may still need this one: it stays until all are done.
    let _ = lines.recv();
    Ok(())
}

fn say(said: &Said) -> Result<(), Failure> {
    print_line(serde_json::to_string(said).expect("plain values become JSON"))
}

/// Reads standard input in a thread of its own, which sleeps all the time, and takes the process with it at the end.
fn lines_until_the_end(finished: Arc<AtomicBool>) -> Receiver<String> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut stdin = io::stdin().lock();
        loop {
            let mut line = String::new();
            match stdin.by_ref().take(LINE_LIMIT).read_line(&mut line) {
                Ok(1..) if sender.send(line.trim_end().to_owned()).is_ok() => {}
                _ => break,
            }
        }
        if !finished.load(Ordering::Acquire) {
            end_with_all_children();
        }
    });
    receiver
}

fn end_with_all_children() {
    scratch::clear_of(std::process::id());
    if getpgrp() == getpid() {
        let _ = killpg(Pid::from_raw(getpid().as_raw()), Signal::SIGKILL);
    }
    std::process::exit(1);
}
