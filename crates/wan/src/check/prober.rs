//! The process that sends or receives, as the one that started it has it.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use serde::de::DeserializeOwned;

use super::probe::{ANSWER, Order, READY};
use crate::error::WanError;
use crate::process::CarrierProgram;

/// How often it is checked whether to continue while nothing is said.
pub(crate) const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// The process. It has ended when this has been dropped.
#[derive(Debug)]
pub(crate) struct Prober {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
}

/// Why a case has no end.
#[derive(Debug)]
pub(crate) enum Stop {
    Interrupted,
    Wan(WanError),
}

impl From<WanError> for Stop {
    fn from(error: WanError) -> Self {
        Self::Wan(error)
    }
}

impl Prober {
    /// Starts it by this command, and has it do this.
    pub(crate) fn start(mut command: Command, program: &CarrierProgram, order: &Order) -> Result<Self, WanError> {
        command.args(&program.arguments).envs(program.environment.iter().cloned());
        // As the carrier: Ctrl-C in a terminal is not for it.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().map_err(WanError::while_doing("cannot start a sender or receiver"))?;
        let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(WanError::Carrier("a sender or receiver has no pipes".to_owned()));
        };
        let (said, lines) = channel();
        thread::spawn(move || {
            let answers = BufReader::new(stdout).lines().map_while(Result::ok);
            let mut answers = answers.filter_map(|line| Some(line.split_once(ANSWER)?.1.to_owned()));
            // When nothing waits for them any more they are of no use.
            let _ = answers.try_for_each(|answer| said.send(answer));
        });
        let order = serde_json::to_string(order).expect("plain values become JSON");
        // One that has ended says so by its end.
        let _ = stdin.write_all(format!("{order}\n").as_bytes());
        Ok(Self { child, stdin: Some(stdin), lines })
    }

    /// Waits until packets may come.
    pub(crate) fn is_ready(&self, is_wanted: &dyn Fn() -> bool) -> Result<(), Stop> {
        let said = self.line(is_wanted)?;
        let refused = || WanError::Carrier(format!("a receiver says {said:?}"));
        if said == READY { Ok(()) } else { Err(refused().into()) }
    }

    /// What it answers.
    pub(crate) fn says<T: DeserializeOwned>(&self, is_wanted: &dyn Fn() -> bool) -> Result<T, Stop> {
        let line = self.line(is_wanted)?;
        serde_json::from_str(&line).map_err(|error| WanError::Carrier(error.to_string()).into())
    }

    /// Has a receiver end.
    pub(crate) fn stop(&mut self) {
        self.stdin = None;
    }

    fn line(&self, is_wanted: &dyn Fn() -> bool) -> Result<String, Stop> {
        while is_wanted() {
            match self.lines.recv_timeout(CHECK_INTERVAL) {
                Ok(line) => return Ok(line),
                Err(RecvTimeoutError::Timeout) => (),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(WanError::Carrier("a sender or receiver has ended".to_owned()).into());
                }
            }
        }
        Err(Stop::Interrupted)
    }
}

impl Drop for Prober {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// For how long a process has run on processors, in nanoseconds; `None`: this kernel does not say
/// (CONFIG_SCHED_INFO).
pub(crate) fn processor_time(id: u32) -> Option<f64> {
    let text = fs::read_to_string(format!("/proc/{id}/schedstat")).ok()?;
    text.split(' ').next()?.parse().ok()
}
