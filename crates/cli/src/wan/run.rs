//! `weft wan run`.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use weft_wan::{Kind, Plan, Wan};

use super::board;
use super::options::Options;
use super::shared::{failure, finish, program, seconds};
use weft_command::failure::Failure;
use weft_command::interrupt::Interrupt;

/// What lies between the two programs.
const AND: &str = "--and";
/// How often programs are checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// Tell a program where it is: its own address, and the other host's.
const OWN_VARIABLE: &str = "WEFT_WAN_ADDRESS";
const OTHER_VARIABLE: &str = "WEFT_WAN_PEER";

const EXAMPLES: &str = "\
Examples:
  weft wan run --delay 4ms -- ping -c 3 10.1.0.2
  weft wan run --delay 10ms --normal 1ms --rate 100M --codel -- iperf3 -c 10.1.0.2 --and -- iperf3 -s -1
  weft wan run --loss 0.5 --burst 4 --reverse rate=10M -- ping -c 9 10.1.0.2
  weft wan run --scenario wan.toml --json -- sh -c 'ping -q -c 50 -i 0.1 $WEFT_WAN_PEER >&2'

The first program runs in the first host, 10.0.0.1, the second in the second, 10.1.0.2. A router is between them, or \
with --carrier rings a cable. The second program is started first. When the first has ended the second has --linger to \
end, too; the exit code is the first's, or else the second's. The programs see your files, and their user id is 0. \
WEFT_WAN_ADDRESS and WEFT_WAN_PEER have the addresses.";

/// The arguments on the command line.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    #[command(flatten)]
    options: Options,
    /// What carries packets: queue, a router with the kernel's packet queues, for IP; rings, a cable, for every frame
    #[arg(long, value_name = "KIND", default_value = "queue")]
    carrier: Kind,
    /// The MTU of both hosts' interfaces, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 1500)]
    link_mtu: u32,
    /// How much earlier the second program is started
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "0.2")]
    head_start: Duration,
    /// How long the second program may run on when the first has ended
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "1")]
    linger: Duration,
    /// Write what was carried, and how late, to standard output as JSON
    #[arg(long)]
    json: bool,
    /// Write it to this file
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// The first program and its arguments; then --and -- and the second
    #[arg(value_name = "PROGRAM", required = true, last = true)]
    programs: Vec<OsString>,
}

/// Runs the command.
pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let [first, second] = split(&arguments.programs)?;
    let source = arguments.options.source()?;
    let Arguments { carrier, link_mtu, .. } = arguments;
    let plan = Plan { kind: *carrier, scenario: source.text.clone(), folder: source.folder.clone(), mtu: *link_mtu };
    let interrupt = Interrupt::watch()?;
    let wan = Wan::up(&plan, &program()?).map_err(|error| source.failure(error))?;
    let wan = Shared(Arc::new(Mutex::new(Some(wan))));
    let shared = wan.clone();
    board::serve(move || shared.with(|wan| wan.report().ok()).flatten())?;
    let done = run_programs(arguments, &wan, &interrupt, first, second);
    let report = wan.with(Wan::report).transpose();
    wan.down()?;
    // Whatever became of the programs, the figures of what was carried are shown.
    if let Ok(Some(report)) = &report {
        finish(report, arguments.json, arguments.report.as_deref())?;
    }
    let code = done?;
    report.map_err(failure)?;
    if code == 0 { Ok(()) } else { Err(Failure::Exited(code)) }
}

/// What several threads use until it is taken down.
#[derive(Clone)]
struct Shared(Arc<Mutex<Option<Wan>>>);

impl Shared {
    fn with<T>(&self, act: impl FnOnce(&mut Wan) -> T) -> Option<T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).as_mut().map(act)
    }

    fn down(&self) -> Result<(), Failure> {
        let wan = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        wan.map_or(Ok(()), |wan| wan.down().map_err(failure))
    }
}

/// The programs, split where the second begins; it may be missing.
fn split(programs: &[OsString]) -> Result<[&[OsString]; 2], Failure> {
    let at = programs.iter().position(|word| word == AND);
    let (first, rest) = at.map_or((programs, &[][..]), |at| (&programs[..at], &programs[at + 1..]));
    let second = rest.strip_prefix(&[OsString::from("--")]).unwrap_or(rest);
    if first.is_empty() || (at.is_some() && second.is_empty()) {
        return Err(Failure::Usage("a program is missing; write -- PROGRAM --and -- PROGRAM".to_owned()));
    }
    Ok([first, second])
}

/// A program that runs in a host. It has ended when this has been dropped.
struct Running {
    child: Child,
    status: Option<ExitStatus>,
}

impl Running {
    fn start(wan: &Shared, host: usize, words: &[OsString]) -> Result<Self, Failure> {
        let command = wan.with(|wan| {
            let mut command = wan.host(host).command(&words[0]);
            command.args(&words[1..]);
            command.env(OWN_VARIABLE, wan.address(host).to_string());
            command.env(OTHER_VARIABLE, wan.address(1 - host).to_string());
            command
        });
        let Some(mut command) = command else { return Err(Failure::Interrupted) };
        let shown = Path::new(&words[0]).display();
        let child = command.spawn().map_err(Failure::while_doing(format_args!("cannot run {shown}")))?;
        Ok(Self { child, status: None })
    }

    fn status(&mut self) -> Result<Option<ExitStatus>, Failure> {
        if self.status.is_none() {
            self.status = self.child.try_wait().map_err(Failure::while_doing("cannot wait for a program"))?;
        }
        Ok(self.status)
    }

    /// Asks it to end.
    fn terminate(&self) {
        if self.status.is_none()
            && let Ok(id) = i32::try_from(self.child.id())
        {
            // It may have ended.
            let _ = kill(Pid::from_raw(id), Signal::SIGTERM);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.status.is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Runs the programs to their end. Their exit code.
fn run_programs(
    arguments: &Arguments,
    wan: &Shared,
    interrupt: &Interrupt,
    first: &[OsString],
    second: &[OsString],
) -> Result<u8, Failure> {
    let mut second = match second {
        [] => None,
        words => Some(Running::start(wan, 1, words)?),
    };
    if second.is_some() {
        thread::sleep(arguments.head_start);
    }
    let mut first = Running::start(wan, 0, first)?;
    let mut until = None;
    loop {
        if interrupt.has_come() {
            return Err(Failure::Interrupted);
        }
        if let Some(error) = wan.with(|wan| (!wan.is_whole()).then(|| wan.failure())).flatten() {
            return Err(failure(error));
        }
        let ends = [first.status()?, second.as_mut().map_or(Ok(None), Running::status)?];
        match (ends, &second) {
            ([Some(end), None], None) => return Ok(code(end)),
            ([Some(end), Some(other)], _) => return Ok(if end.success() { code(other) } else { code(end) }),
            // The first has nothing to talk to.
            ([None, Some(other)], _) if !other.success() => return Ok(code(other)),
            ([Some(end), None], Some(other)) => {
                let until = *until.get_or_insert_with(|| Instant::now() + arguments.linger);
                if !end.success() || Instant::now() > until {
                    // One that serves until it is ended has done well.
                    other.terminate();
                    return Ok(code(end));
                }
            }
            _ => (),
        }
        thread::sleep(CHECK_INTERVAL);
    }
}

/// As a shell has it: 128 and the number of a signal.
fn code(status: ExitStatus) -> u8 {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
    u8::try_from(code).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    fn words(text: &str) -> Vec<OsString> {
        text.split_whitespace().map(Into::into).collect()
    }

    #[test]
    fn programs_are_split() {
        for (text, wanted) in
            [("a -b", ["a -b", ""]), ("a -b --and -- c --and", ["a -b", "c --and"]), ("a --and c", ["a", "c"])]
        {
            let all = words(text);
            let shown = split(&all).unwrap().map(|words| words.join(OsStr::new(" ")).into_string().unwrap());
            assert_eq!(shown, wanted);
        }
        for text in ["--and -- c", "a --and", "a --and --"] {
            assert!(matches!(split(&words(text)), Err(Failure::Usage(_))), "{text}");
        }
    }

    #[test]
    fn a_signal_is_a_code() {
        assert_eq!((code(ExitStatus::from_raw(9)), code(ExitStatus::from_raw(3 << 8))), (137, 3));
    }
}
