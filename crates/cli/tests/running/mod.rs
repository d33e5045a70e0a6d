//! The command in processes of its own, which end with the test in any case.
#![allow(dead_code, reason = "each file of tests uses its part")]

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A process that takes longer hangs. The machine may be busy with other things.
const PATIENCE: Duration = Duration::from_secs(120);

/// A command that was started. Dropping it kills it.
pub(crate) struct Running {
    child: Child,
    lines: Receiver<String>,
    seen: std::cell::RefCell<String>,
}

/// How a command has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// `None`: by a signal.
    pub(crate) code: Option<i32>,
    /// What it wrote to standard output and standard error, line by line as it came.
    pub(crate) text: String,
}

/// Runs a command to its end.
pub(crate) fn weft(arguments: &[&str]) -> Ended {
    Running::start(arguments).end()
}

/// The words of a line.
pub(crate) fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

impl Running {
    /// Starts a command.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::start_by(Command::new(env!("CARGO_BIN_EXE_weft")), arguments)
    }

    /// Starts a command by something that runs it elsewhere.
    pub(crate) fn start_by(mut command: Command, arguments: &[&str]) -> Self {
        let mut child =
            command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = channel();
        let streams: [Box<dyn Read + Send>; 2] =
            [Box::new(child.stdout.take().unwrap()), Box::new(child.stderr.take().unwrap())];
        for stream in streams {
            let sender = sender.clone();
            thread::spawn(move || {
                for line in BufReader::new(stream).lines().map_while(Result::ok) {
                    if sender.send(line).is_err() {
                        break;
                    }
                }
            });
        }
        Self { child, lines, seen: String::new().into() }
    }

    /// The port that it says it listens on.
    pub(crate) fn port(&self) -> String {
        let line = self.await_text("listening on ");
        line.rsplit_once(':').unwrap().1.to_owned()
    }

    /// Waits for a line that contains `wanted`.
    pub(crate) fn await_text(&self, wanted: &str) -> String {
        let until = Instant::now() + PATIENCE;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left).unwrap_or_else(|error| {
                panic!("no line with {wanted:?} ({error}), but: {}", self.seen.borrow());
            });
            // Lines may come faster than time passes.
            assert!(!left.is_zero(), "no line with {wanted:?} in time");
            *self.seen.borrow_mut() += &format!("{line}\n");
            if line.contains(wanted) {
                return line;
            }
        }
    }

    /// Its process id.
    pub(crate) fn id(&self) -> Pid {
        Pid::from_raw(self.child.id().try_into().unwrap())
    }

    /// As Ctrl-C does.
    pub(crate) fn interrupt(&self) {
        kill(self.id(), Signal::SIGINT).unwrap();
    }

    /// Makes it fall silent.
    pub(crate) fn stop(&self) {
        kill(self.id(), Signal::SIGSTOP).unwrap();
    }

    /// Kills it without a warning.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
    }

    /// Waits for its end.
    pub(crate) fn end(mut self) -> Ended {
        let until = Instant::now() + PATIENCE;
        // Both streams end with the process.
        while let Ok(line) = self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
            *self.seen.borrow_mut() += &format!("{line}\n");
        }
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return Ended { code: status.code(), text: self.seen.take() };
            }
            assert!(Instant::now() < until, "it does not end; so far: {}", self.seen.borrow());
            thread::yield_now();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended already in most cases.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
