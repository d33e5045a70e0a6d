//! The process that keeps a namespace alive.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::LabError;
use crate::plan::Plan;
use crate::process::Process;
use crate::tools::{self, Tools};

/// What a holder does. It ends when its standard input does, and before that kills whatever else is in its network
/// namespace: a namespace goes when the last process in it has. It looks again until it finds nobody, for about five
/// seconds. Ctrl-C is not for it.
///
/// First it sets the congestion control of its namespace, to the first of its arguments that the kernel takes, and says
/// which one there is then.
const SCRIPT: &str = r#"
trap '' INT TERM HUP QUIT
setting=/proc/sys/net/ipv4/tcp_congestion_control
for name do
    echo "$name" >$setting && break
done 2>/dev/null
name=
read -r name <$setting
echo "up $name"
read -r _
passes=0 found=yes
while [ $found = yes ] && [ $passes -lt 500 ]; do
    found=no passes=$((passes + 1))
    for process in /proc/[0-9]*; do
        id=${process#/proc/}
        if [ "$id" != $$ ] && [ "$process/ns/net" -ef /proc/$$/ns/net ]; then
            kill -KILL "$id" && found=yes
        fi
    done
    [ $found = no ] || sleep 0.01
done 2>/dev/null
[ $found = no ]
"#;

/// How long a holder may take to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// A network namespace, kept by a process of this one.
#[derive(Debug)]
pub(crate) struct Holder {
    shell: Shell,
    process: Process,
    congestion_control: String,
}

/// A holder that is starting.
pub(crate) struct Starting(Shell);

/// The process. It has ended when this has been dropped.
#[derive(Debug)]
struct Shell(Child);

impl Holder {
    /// The first of a lab: it has a user namespace of its own, to which the others belong.
    pub(crate) fn start_first(plan: &Plan, tools: &Tools) -> Result<Self, LabError> {
        let mut command = Command::new(&tools.unshare);
        command.args(["--user", "--map-root-user"]);
        Self::start(command, plan, tools)?.finish(true)
    }

    /// A further one, in the user namespace of the first.
    pub(crate) fn start_beside(first: &Self, plan: &Plan, tools: &Tools) -> Result<Starting, LabError> {
        let mut command = Command::new(&tools.nsenter);
        command.args(["--target", &first.process.id.to_string(), "--user", "--preserve-credentials", "--"]);
        command.arg(&tools.unshare);
        Self::start(command, plan, tools)
    }

    fn start(mut command: Command, plan: &Plan, tools: &Tools) -> Result<Starting, LabError> {
        command.args(["--net", "--"]).arg(&tools.sh).args(["-c", SCRIPT, "weft-lab"]).args(plan.congestion_controls());
        // In a process group of its own: Ctrl-C in a terminal reaches who uses the lab, and the lab goes after that.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().map(Shell).map(Starting).map_err(LabError::while_doing("cannot start unshare"))
    }

    /// Which process it is; its namespaces are those of the lab.
    pub(crate) fn process(&self) -> Process {
        self.process
    }

    /// TCP's congestion control in its namespace.
    pub(crate) fn congestion_control(&self) -> &str {
        &self.congestion_control
    }

    /// Lets it end: it hears so at once, and [`Holder::wait`] waits for it.
    pub(crate) fn release(&mut self) {
        self.shell.release();
    }

    /// Waits until it has ended, which must have been allowed by [`Holder::release`]. An error when something
    /// else in its namespace may not have.
    pub(crate) fn wait(&mut self) -> Result<(), LabError> {
        self.shell.wait()
    }
}

impl Shell {
    fn release(&mut self) {
        drop(self.0.stdin.take());
    }

    fn wait(&mut self) -> Result<(), LabError> {
        let until = Instant::now() + PATIENCE;
        loop {
            match self.0.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                // By a signal: who killed it did not let it see to its namespace.
                Ok(Some(status)) if status.code().is_none() => return Err(LabError::Lost(self.0.id())),
                Ok(None) if Instant::now() < until => thread::sleep(Duration::from_millis(2)),
                _ => break,
            }
        }
        // It cannot be refused: the process is a child of this one.
        let _ = self.0.kill();
        let _ = self.0.wait();
        Err(LabError::Left(self.0.id()))
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        self.release();
        // Nobody is there who could do anything about it.
        let _ = self.wait();
    }
}

impl Starting {
    /// Waits until it is in its namespace. `first`: whether it is the one that shows whether this system allows
    /// namespaces.
    pub(crate) fn finish(mut self, first: bool) -> Result<Holder, LabError> {
        let child = &mut self.0.0;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            let cannot = LabError::while_doing("cannot read what a holder says");
            BufReader::new(stdout.take(64)).read_line(&mut line).map_err(cannot)?;
        }
        match (Process::find(child.id()), line.strip_prefix("up ").filter(|name| name.ends_with('\n'))) {
            (Some(process), Some(name)) => {
                Ok(Holder { shell: self.0, process, congestion_control: name.trim().to_owned() })
            }
            _ => Err(self.explain(first)),
        }
    }

    fn explain(mut self, first: bool) -> LabError {
        self.0.release();
        let child = &mut self.0.0;
        let mut said = String::new();
        if let Some(stderr) = child.stderr.take() {
            // Without its words the failure itself must do.
            let _ = stderr.take(4096).read_to_string(&mut said);
        }
        let said = said.trim().replace('\n', "; ");
        if first || said.contains("unshare") { tools::barred(said) } else { LabError::Lost(child.id()) }
    }
}
