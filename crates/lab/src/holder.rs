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
/// namespace: a namespace goes when the last process in it has. It checks again until it finds no process, for about
/// five seconds. Ctrl-C is not for it.
///
/// First it takes its host name, puts the lab's names into `/etc/hosts` and its own interfaces below `/sys`, and routes
/// what is not for itself: each of these if its environment says so, and as far as the system allows it. Bridges do not
/// pass frames through the packet filter (br_netfilter), which took a fifth of what a frame costs. It sets the
/// congestion control of its namespace, to the first of its arguments that the kernel takes. Then it says whether it
/// has the names, whether it routes, and which congestion control there is.
///
/// The file of names is on a file system in memory of which nothing but this file is mounted any more, in mounts that
/// only this host sees. So it goes with the last process there.
const SCRIPT: &str = r#"
trap '' INT TERM HUP QUIT
if [ -n "$LAB_NAME" ]; then
    hostname "$LAB_NAME" || echo "$LAB_NAME" >/proc/sys/kernel/hostname
fi 2>/dev/null
names=-
if [ -n "$LAB_HOSTS" ]; then
    mount -t sysfs sysfs /sys
    mount -t tmpfs weft-lab /tmp && printf %s "$LAB_HOSTS" >/tmp/hosts &&
        mount --bind /tmp/hosts /etc/hosts && umount /tmp && names=names
fi >/dev/null 2>&1
routes=-
if [ -n "$LAB_ROUTES" ]; then
    echo 1 >/proc/sys/net/ipv4/ip_forward && routes=routes
    echo 1 >/proc/sys/net/ipv6/conf/all/forwarding
fi 2>/dev/null
for setting in /proc/sys/net/bridge/bridge-nf-call-*; do
    echo 0 >"$setting"
done 2>/dev/null
setting=/proc/sys/net/ipv4/tcp_congestion_control
for name do
    echo "$name" >$setting && break
done 2>/dev/null
name=
read -r name <$setting
echo "up $names $routes $name"
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

/// What a namespace is for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Role {
    /// The host name of its programs; empty: that of the process that starts them.
    pub(crate) name: String,
    /// What `/etc/hosts` says to its programs; empty: what it says to the process that starts them.
    pub(crate) hosts: String,
    /// Whether it passes on what is not for itself.
    pub(crate) routes: bool,
}

/// A network namespace, kept by a process of this one.
#[derive(Debug)]
pub(crate) struct Holder {
    shell: Shell,
    process: Process,
    told: Told,
}

/// What a holder says once it is there.
#[derive(Debug, PartialEq, Eq)]
struct Told {
    knows_names: bool,
    routes: bool,
    congestion_control: String,
}

/// A holder that is starting.
pub(crate) struct Starting(Shell);

/// The process. It has ended when this has been dropped.
#[derive(Debug)]
struct Shell(Child);

impl Holder {
    /// The first of a lab: it has a user namespace of its own, to which the others belong.
    pub(crate) fn start_first(role: &Role, plan: &Plan, tools: &Tools) -> Result<Self, LabError> {
        let mut command = Command::new(&tools.unshare);
        command.args(["--user", "--map-root-user"]);
        Self::start(command, role, plan, tools)?.finish(true)
    }

    /// A further one, in the user namespace of the first.
    pub(crate) fn start_beside(first: &Self, role: &Role, plan: &Plan, tools: &Tools) -> Result<Starting, LabError> {
        let mut command = Command::new(&tools.nsenter);
        command.args(["--target", &first.process.id.to_string(), "--user", "--preserve-credentials", "--"]);
        command.arg(&tools.unshare);
        Self::start(command, role, plan, tools)
    }

    fn start(mut command: Command, role: &Role, plan: &Plan, tools: &Tools) -> Result<Starting, LabError> {
        if !role.name.is_empty() {
            command.arg("--uts");
        }
        if !role.hosts.is_empty() {
            // What is mounted elsewhere later, is seen here where it is shared.
            command.args(["--mount", "--propagation", "slave"]);
        }
        let routes = if role.routes { "1" } else { "" };
        command.env("LAB_NAME", &role.name).env("LAB_HOSTS", &role.hosts).env("LAB_ROUTES", routes);
        command.args(["--net", "--"]).arg(&tools.sh).args(["-c", SCRIPT, "weft-lab"]).args(plan.congestion_controls());
        // In a process group of its own: Ctrl-C in a terminal reaches the user of the lab, and the lab goes after that.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().map(Shell).map(Starting).map_err(LabError::while_doing("cannot start unshare"))
    }

    /// Which process it is; its namespaces are those of the lab.
    pub(crate) fn process(&self) -> Process {
        self.process
    }

    /// TCP's congestion control in its namespace.
    pub(crate) fn congestion_control(&self) -> &str {
        &self.told.congestion_control
    }

    /// Whether its programs find the lab's names in `/etc/hosts`.
    pub(crate) fn knows_names(&self) -> bool {
        self.told.knows_names
    }

    /// Whether it passes on what is not for itself.
    pub(crate) fn routes(&self) -> bool {
        self.told.routes
    }

    /// Lets it end: it is notified at once, and [`Holder::wait`] waits for it.
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
                // By a signal: it could not clear its namespace.
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
        // No caller is there that could handle an error.
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
        match (Process::find(child.id()), told(&line)) {
            (Some(process), Some(told)) => Ok(Holder { shell: self.0, process, told }),
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

/// What a whole line of a holder says.
fn told(line: &str) -> Option<Told> {
    let (names, rest) = line.strip_suffix('\n')?.strip_prefix("up ")?.split_once(' ')?;
    let (routes, name) = rest.split_once(' ')?;
    Some(Told { knows_names: names == "names", routes: routes == "routes", congestion_control: name.trim().to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_holder_says_is_read() {
        let told_of =
            |knows_names, routes, name: &str| Some(Told { knows_names, routes, congestion_control: name.to_owned() });
        assert_eq!(told("up names - cubic\n"), told_of(true, false, "cubic"));
        assert_eq!(told("up - routes \n"), told_of(false, true, ""));
        for line in ["", "up", "up - -", "up names - cubic", "down - - cubic\n"] {
            assert_eq!(told(line), None, "{line:?}");
        }
    }
}
