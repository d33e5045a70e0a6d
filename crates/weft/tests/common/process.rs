//! Other processes of a test: its own program once more, in another role.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

/// Where a process finds its role.
const ROLE: &str = "WEFT_TEST_ROLE";
/// The mark of lines for the other process: the test harness prints too.
const MARK: &str = "weft> ";
/// Nothing here takes this long, on a machine that is busy with other things either.
const PATIENCE: Duration = Duration::from_secs(600);

/// The role of this process; `None` in the one that the user has started.
pub(crate) fn role() -> Option<String> {
    env::var(ROLE).ok()
}

/// In a role: says a line to the process that started this one.
pub(crate) fn say(line: &str) {
    println!("{MARK}{line}");
}

/// In a role: the next line from the process that started this one, which is awaited in a read of a pipe.
pub(crate) fn read_line() -> String {
    let mut line = String::new();
    assert!(std::io::stdin().read_line(&mut line).unwrap() > 0, "the other process has gone");
    line.trim_end().to_owned()
}

/// A process in a role. It ends with this handle at the latest.
pub(crate) struct Process {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
}

impl Process {
    /// Starts this program once more, to run nothing but `test`, which finds its [`role`].
    pub(crate) fn start(test: &str, role: &str) -> Self {
        let mut child = Command::new(env::current_exe().unwrap())
            .args([test, "--exact", "--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (heard, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if let Some((_, said)) = line.split_once(MARK) {
                    // No thread receives any more when the test has failed.
                    let _ = heard.send(said.to_owned());
                }
            }
        });
        Self { child, input, lines }
    }

    /// Says a line to it.
    pub(crate) fn tell(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
    }

    /// The next line that it says.
    pub(crate) fn ask(&self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("a line from the other process")
    }

    /// Kills it.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for its end.
    pub(crate) fn end(&mut self) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(start.elapsed() < PATIENCE, "the other process does not end");
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
