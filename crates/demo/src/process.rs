//! The passive side as a second process of this machine. It never outlives the first.

use std::env;
use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use clap::ValueEnum;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::unistd::{Pid, getppid};

use weft_command::failure::Failure;
use weft_command::transport::Transport;

/// Name of the subcommand.
pub const PEER_COMMAND: &str = "demo-peer";

/// Where the passive process listens: any free port.
pub(crate) const LOOPBACK: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0));

/// Tells the passive process whose it is.
const PARENT: &str = "WEFT_DEMO_PARENT";

/// The passive process. Dropping it ends it.
pub(crate) struct Peer {
    child: Child,
    address: SocketAddr,
}

impl Peer {
    /// Starts it, and waits until it listens.
    pub(crate) fn start(transport: Transport) -> Result<Self, Failure> {
        let cannot = || Failure::while_doing("cannot start the second process");
        let mut child = Command::new(env::current_exe().map_err(cannot())?)
            .arg(PEER_COMMAND)
            .arg(transport.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned()))
            .env(PARENT, std::process::id().to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A group of its own: Ctrl-C is for this process, which ends the other one.
            .process_group(0)
            .spawn()
            .map_err(cannot())?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout.take(LINE_LIMIT)).read_line(&mut line).map_err(cannot())?;
        }
        let mut peer = Self { child, address: LOOPBACK };
        match line.trim().parse() {
            Ok(address) => peer.address = address,
            Err(_) => return Err(peer.explain(Failure::Runtime("the second process does not listen".into()))),
        }
        Ok(peer)
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its end.
    pub(crate) fn finish(&mut self) -> Result<(), Failure> {
        let status = self.child.wait().map_err(Failure::while_doing("the second process"))?;
        if status.success() {
            return Ok(());
        }
        Err(Failure::Runtime(format!("the second process ended with {status}: {}", self.complaint())))
    }

    /// The failure, with the output of the process.
    pub(crate) fn explain(&mut self, failure: Failure) -> Failure {
        let Failure::Runtime(message) = failure else { return failure };
        thread::sleep(LAST_WORDS);
        let ended = self.child.try_wait().ok().flatten();
        self.end();
        match (self.complaint(), ended) {
            (complaint, _) if !complaint.is_empty() => {
                Failure::Runtime(format!("{message} (the second process says: {complaint})"))
            }
            (_, Some(status)) => Failure::Runtime(format!("{message} (the second process ended with {status})")),
            (_, None) => Failure::Runtime(message),
        }
    }

    /// What it has written to standard error. It must have ended.
    fn complaint(&mut self) -> String {
        let mut text = String::new();
        if let Some(stderr) = &mut self.child.stderr {
            // Without an explanation the failure itself must do.
            let _ = stderr.take(LINE_LIMIT).read_to_string(&mut text);
        }
        text.trim().trim_start_matches("weft: ").to_owned()
    }

    fn end(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.end();
    }
}

/// The most that is read of what the process says.
const LINE_LIMIT: u64 = 4096;

/// A process that has broken the connection needs a moment to say why.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// In the passive process: from now on it is killed when the process that started it ends.
pub(crate) fn end_with_parent() -> Result<(), Failure> {
    set_pdeathsig(Signal::SIGKILL).map_err(|error| Failure::while_doing("prctl")(error.into()))?;
    let parent = env::var(PARENT).ok().and_then(|parent| parent.parse().ok()).map(Pid::from_raw);
    if parent.is_some_and(|parent| parent != getppid()) {
        return Err(Failure::Runtime("the process that started this one has gone".into()));
    }
    Ok(())
}
