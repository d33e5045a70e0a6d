//! One run: starts both sides, tells each where the other is, and collects what they saw.

use std::env;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::measure::Measured;
use super::peer::{LINE_LIMIT, PEER_COMMAND, Said};
use super::plan::{Job, Role};
use super::remote::Place;

/// What one run gave.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Run {
    pub(crate) value: f64,
    pub(crate) p99: Option<f64>,
    /// Processor seconds per GB of the side that sends.
    pub(crate) sender_cpu: Option<f64>,
    /// And of the side that receives.
    pub(crate) receiver_cpu: Option<f64>,
    /// Copies of each byte of payload, in user space, by the side that sends.
    pub(crate) sender_copies: Option<f64>,
    /// And by the side that receives.
    pub(crate) receiver_copies: Option<f64>,
}

/// Does one run of a job, whose role is of no matter; gives up after `limit`.
pub(crate) fn run(job: &Job, place: &Place, cores: Option<[usize; 2]>, limit: Duration) -> Result<Run, String> {
    let deadline = Instant::now() + limit;
    let (sender, heard) = channel();
    let mut sides = [
        Conversation::start(Role::Passive, place, sender.clone())?,
        Conversation::start(Role::Active, &Place::Here, sender)?,
    ];
    for (index, side) in sides.iter_mut().enumerate() {
        let local = match side.role {
            Role::Passive => job.local.clone(),
            Role::Active => place.local(),
        };
        let job = Job { role: side.role, core: cores.map(|cores| cores[index]), local, ..job.clone() };
        side.tell(&serde_json::to_string(&job).expect("plain values become JSON"))?;
    }
    let [passive, active] = both(&heard, deadline, |said| match said {
        Said::Address(address) => Some(address),
        _ => None,
    })?;
    sides[0].tell(&active)?;
    sides[1].tell(&passive)?;
    let [passive, active] = both(&heard, deadline, |said| match said {
        Said::Measured(measured) => Some(measured),
        _ => None,
    })?;
    for side in sides {
        side.end();
    }
    join(passive, active)
}

/// The figures of both sides as one.
fn join(passive: Measured, active: Measured) -> Result<Run, String> {
    Ok(Run {
        value: active.value.or(passive.value).ok_or("neither side measured anything")?,
        p99: active.p99.or(passive.p99),
        sender_cpu: active.cpu_s_per_gb,
        receiver_cpu: passive.cpu_s_per_gb,
        sender_copies: active.copies,
        receiver_copies: passive.copies,
    })
}

/// A line that a side said, or that it says no more.
type Heard = (Role, Result<String, String>);

/// Waits for one thing from each side, passive first in the result. The first failure of either ends the wait.
fn both<T>(heard: &Receiver<Heard>, deadline: Instant, wanted: impl Fn(Said) -> Option<T>) -> Result<[T; 2], String> {
    let (mut passive, mut active) = (None, None);
    loop {
        if let (Some(_), Some(_)) = (&passive, &active) {
            break;
        }
        let (role, line) = match heard.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(heard) => heard,
            Err(RecvTimeoutError::Timeout) => return Err("it took too long, see --timeout".into()),
            Err(RecvTimeoutError::Disconnected) => return Err("both sides ended".into()),
        };
        let side = if role == Role::Passive { "passive" } else { "active" };
        let line = line.map_err(|reason| format!("{side} side: {reason}"))?;
        let said = serde_json::from_str(&line).map_err(|error| format!("{side} side said {line:?}: {error}"))?;
        if let Said::Failed(reason) = said {
            return Err(format!("{side} side: {reason}"));
        }
        let value = wanted(said).ok_or_else(|| format!("{side} side said {line:?} out of turn"))?;
        *(if role == Role::Passive { &mut passive } else { &mut active }) = Some(value);
    }
    match (passive, active) {
        (Some(passive), Some(active)) => Ok([passive, active]),
        _ => unreachable!("the loop ends when both are there"),
    }
}

/// A side that was started, here or on the other machine.
struct Conversation {
    role: Role,
    end: End,
}

enum End {
    Process(Process),
    Machine(TcpStream),
}

impl Conversation {
    fn start(role: Role, place: &Place, sender: Sender<Heard>) -> Result<Self, String> {
        let (end, from): (End, Box<dyn Read + Send>) = match place {
            Place::Here => {
                let (process, stdout) = Process::start().map_err(|error| format!("cannot start a process: {error}"))?;
                (End::Process(process), Box::new(stdout))
            }
            Place::There(target) => {
                let stream = target.connect()?;
                let reader = stream.try_clone().map_err(|error| error.to_string())?;
                (End::Machine(stream), Box::new(reader))
            }
        };
        thread::spawn(move || listen(role, from, &sender));
        Ok(Self { role, end })
    }

    fn tell(&mut self, line: &str) -> Result<(), String> {
        let line = format!("{line}\n");
        match &mut self.end {
            End::Process(process) => process.tell(line.as_bytes()),
            End::Machine(stream) => stream.write_all(line.as_bytes()),
        }
        .map_err(|error| format!("{:?} side is gone: {error}", self.role))
    }

    /// Both are done: lets the side go in peace.
    fn end(self) {
        match self.end {
            End::Process(process) => process.end(),
            End::Machine(stream) => drop(stream.shutdown(Shutdown::Write)),
        }
    }
}

/// Passes on what a side says, until it says no more.
fn listen(role: Role, from: impl Read, sender: &Sender<Heard>) {
    let mut reader = BufReader::new(from);
    loop {
        let mut line = String::new();
        let heard = match reader.by_ref().take(LINE_LIMIT).read_line(&mut line) {
            Ok(0) => Err("it ended without a result".into()),
            Ok(_) => Ok(line.trim_end().to_owned()),
            Err(error) => Err(error.to_string()),
        };
        let over = heard.is_err();
        if sender.send((role, heard)).is_err() || over {
            return;
        }
    }
}

/// A process of this command that plays one side, with a process group of its own. Killed with all it started when dropped.
pub(super) struct Process {
    child: Child,
    stdin: Option<ChildStdin>,
}

impl Process {
    /// Starts one; gives also what it says.
    pub(super) fn start() -> io::Result<(Self, ChildStdout)> {
        let mut child = Command::new(env::current_exe()?)
            .arg(PEER_COMMAND)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // What a side has to say comes as `Said::Failed`; libraries may chat.
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        Ok((Self { child, stdin }, stdout))
    }

    /// Writes to its standard input.
    pub(super) fn tell(&mut self, line: &[u8]) -> io::Result<()> {
        self.stdin.as_mut().ok_or(io::ErrorKind::BrokenPipe)?.write_all(line)
    }

    /// Its standard input, to be written by somebody else.
    pub(super) fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.stdin.take()
    }

    /// Ends its standard input, upon which it ends.
    pub(super) fn end(mut self) {
        self.stdin = None;
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let (Ok(None), Ok(group)) = (self.child.try_wait(), i32::try_from(self.child.id())) {
            let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
            let _ = self.child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(lines: Vec<Heard>) -> Result<[String; 2], String> {
        let (sender, receiver) = channel();
        lines.into_iter().for_each(|line| sender.send(line).unwrap());
        drop(sender);
        both(&receiver, Instant::now() + Duration::from_secs(60), |said| match said {
            Said::Address(address) => Some(address),
            _ => None,
        })
    }

    #[test]
    fn both_sides_are_heard_in_any_order() {
        let passive = (Role::Passive, Ok(r#"{"address":"p"}"#.into()));
        let active = (Role::Active, Ok(r#"{"address":"a"}"#.into()));
        assert_eq!(heard(vec![active.clone(), passive.clone()]), Ok(["p".into(), "a".into()]));
        assert_eq!(heard(vec![passive.clone(), active.clone()]), Ok(["p".into(), "a".into()]));
        let failed = (Role::Active, Ok(r#"{"failed":"no luck"}"#.into()));
        assert_eq!(heard(vec![failed]), Err("active side: no luck".into()), "nobody waits for the other");
        assert!(heard(vec![passive.clone(), (Role::Active, Err("gone".into()))]).unwrap_err().contains("gone"));
        assert!(heard(vec![(Role::Active, Ok("garbage".into()))]).unwrap_err().contains("garbage"));
        assert!(heard(vec![passive]).is_err(), "the other never spoke");
    }
}
