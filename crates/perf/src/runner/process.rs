//! A process that plays one side of a run.

use std::env;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::runner::protocol::PEER_COMMAND;
use weft_command::provider::Provider;
use weft_command::scratch;

/// A process of this command that plays one side, with a process group of its own. Killed with all it started when
/// dropped.
pub(crate) struct Process {
    child: Child,
    stdin: Option<ChildStdin>,
}

impl Process {
    /// The command that starts one on this machine.
    pub(crate) fn command() -> io::Result<Command> {
        Ok(Command::new(env::current_exe()?))
    }

    /// Starts one; gives also what it says.
    pub(crate) fn start(mut command: Command, provider: Option<&Provider>) -> io::Result<(Self, ChildStdout)> {
        if let Some(provider) = provider {
            command.env("FI_PROVIDER_PATH", provider.folder());
        }
        let mut child = command
            .arg(PEER_COMMAND)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // What a side has to report comes as `Said::Failed`; libraries may chat.
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        Ok((Self { child, stdin }, stdout))
    }

    /// Writes to its standard input.
    pub(crate) fn tell(&mut self, line: &[u8]) -> io::Result<()> {
        self.stdin.as_mut().ok_or(io::ErrorKind::BrokenPipe)?.write_all(line)
    }

    /// Its standard input, to be written by another thread.
    pub(crate) fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.stdin.take()
    }

    /// Ends its standard input, upon which it ends.
    pub(crate) fn end(mut self) {
        self.stdin = None;
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let (Ok(None), Ok(group)) = (self.child.try_wait(), i32::try_from(self.child.id())) {
            let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
            let _ = self.child.wait();
            scratch::clear_of(self.child.id());
        }
    }
}
