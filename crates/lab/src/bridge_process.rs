//! The process of the switch in user space, as the lab's process has it.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::{Mutex, PoisonError};

use crate::bridge::{ANSWER, Answer, Order, PortPlan};
use crate::error::LabError;
use crate::host;
use crate::lateness::Lateness;
use crate::process::Process;

/// Lines that its program may write before it answers.
const OTHER_LINES: usize = 100;

/// How to start a program that calls [`serve_bridge`](crate::serve_bridge).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BridgeProgram {
    /// The program, as an absolute path.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Variables of its environment, beside those of this process.
    pub environment: Vec<(OsString, OsString)>,
}

/// The process. It has ended when this has been dropped.
#[derive(Debug)]
pub(crate) struct BridgeProcess {
    child: Child,
    pipes: Mutex<Pipes>,
}

#[derive(Debug)]
struct Pipes {
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl BridgeProcess {
    /// Starts it in the switch's namespace.
    pub(crate) fn start(program: &BridgeProgram, nsenter: &Path, switch: Process) -> Result<Self, LabError> {
        let mut command = host::enter(nsenter, switch, program.program.as_os_str());
        command.args(&program.arguments).envs(program.environment.iter().cloned());
        // As the holders: Ctrl-C is not for it.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(LabError::while_doing("cannot start the bridge"))?;
        match (child.stdin.take(), child.stdout.take()) {
            (Some(stdin), Some(stdout)) => {
                let pipes = Mutex::new(Pipes { stdin, stdout: BufReader::new(stdout) });
                Ok(Self { child, pipes })
            }
            _ => Err(LabError::Bridge("it has no pipes".to_owned())),
        }
    }

    /// Tells it all its ports, and waits until it has them.
    pub(crate) fn set_ports(&self, ports: Vec<PortPlan>) -> Result<(), LabError> {
        self.tell(&Order::Ports(ports)).map(drop)
    }

    /// How late frames were since the last call; `None`: there were none.
    pub(crate) fn take_lateness(&self) -> Result<Option<Lateness>, LabError> {
        self.tell(&Order::Lateness)
    }

    fn tell(&self, order: &Order) -> Result<Option<Lateness>, LabError> {
        let mut pipes = self.pipes.lock().unwrap_or_else(PoisonError::into_inner);
        let Pipes { stdin, stdout } = &mut *pipes;
        let mut line = serde_json::to_string(order).expect("plain values become JSON");
        line.push('\n');
        stdin.write_all(line.as_bytes()).map_err(LabError::while_doing("cannot tell the bridge anything"))?;
        for _ in 0..OTHER_LINES {
            line.clear();
            let length = stdout.read_line(&mut line).map_err(LabError::while_doing("cannot read from the bridge"))?;
            if length == 0 {
                break;
            }
            if let Some((_, answer)) = line.split_once(ANSWER) {
                let answer: Answer =
                    serde_json::from_str(answer).map_err(|error| LabError::Bridge(error.to_string()))?;
                return answer.map_err(LabError::Bridge);
            }
        }
        Err(LabError::Bridge("it has ended, or talks of something else".to_owned()))
    }

    /// Which process it is, while it runs.
    pub(crate) fn process(&self) -> Option<Process> {
        Process::find(self.child.id())
    }
}

impl Drop for BridgeProcess {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
