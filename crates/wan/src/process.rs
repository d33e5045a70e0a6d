//! The process that carries packets, as the one that started it has it.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};

use serde::de::DeserializeOwned;

use crate::error::WanError;
use crate::report::Report;
use crate::serve::{ANSWER, Answer, Order, Refusal};

/// Lines that its program may write before it answers.
const OTHER_LINES: usize = 100;

/// How to start a program that calls [`serve`](crate::serve()).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CarrierProgram {
    /// The program, as an absolute path.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Variables of its environment, beside those of this process.
    pub environment: Vec<(OsString, OsString)>,
}

/// The process. It has ended when this has been dropped.
#[derive(Debug)]
pub(crate) struct CarrierProcess {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    stderr: ChildStderr,
}

/// Why it carries nothing.
#[derive(Debug)]
pub(crate) enum StartError {
    Refused(Refusal),
    Wan(WanError),
}

impl From<WanError> for StartError {
    fn from(error: WanError) -> Self {
        Self::Wan(error)
    }
}

impl From<StartError> for WanError {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Refused(Refusal { words, is_right: true, .. }) => Self::Right(words),
            StartError::Refused(Refusal { words, .. }) => Self::Carrier(words),
            StartError::Wan(error) => error,
        }
    }
}

impl CarrierProcess {
    /// Starts it by this command, and has it do this.
    pub(crate) fn start(mut command: Command, program: &CarrierProgram, order: &Order) -> Result<Self, StartError> {
        command.args(&program.arguments).envs(program.environment.iter().cloned());
        // In a process group of its own: Ctrl-C in a terminal is for the one that uses it.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(WanError::while_doing("cannot start the carrier"))?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err(WanError::Carrier("it has no pipes".to_owned()).into());
        };
        let mut process = Self { child, stdin, stdout: BufReader::new(stdout), stderr };
        process.tell(&serde_json::to_string(order).expect("plain values become JSON"))?;
        process.receive::<Answer>()?.map_err(StartError::Refused)?;
        Ok(process)
    }

    /// What it has done until now.
    pub(crate) fn report(&mut self) -> Result<Report, WanError> {
        self.tell("report")?;
        self.receive()
    }

    /// Whether it still runs.
    pub(crate) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    fn tell(&mut self, line: &str) -> Result<(), WanError> {
        let told = self.stdin.write_all(format!("{line}\n").as_bytes());
        // One that has ended has reported why, or its end says so.
        told.map_err(|_| self.ended())
    }

    fn receive<T: DeserializeOwned>(&mut self) -> Result<T, WanError> {
        let mut line = String::new();
        for _ in 0..OTHER_LINES {
            line.clear();
            let length =
                self.stdout.read_line(&mut line).map_err(WanError::while_doing("cannot read from the carrier"))?;
            if length == 0 {
                return Err(self.ended());
            }
            if let Some((_, answer)) = line.split_once(ANSWER) {
                return serde_json::from_str(answer).map_err(|error| WanError::Carrier(error.to_string()));
            }
        }
        Err(WanError::Carrier("it talks of something else".to_owned()))
    }

    /// Why it has ended.
    pub(crate) fn ended(&mut self) -> WanError {
        let _ = self.child.kill();
        let status = self.child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        let mut said = String::new();
        // Without its words its status must do.
        let _ = (&mut self.stderr).take(4096).read_to_string(&mut said);
        let said = said.trim().lines().last().unwrap_or_default();
        let said = said.split_once("failed: ").map_or(said, |(_, words)| words);
        WanError::Carrier(if said.is_empty() { format!("it has ended ({status})") } else { said.to_owned() })
    }
}

impl Drop for CarrierProcess {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
