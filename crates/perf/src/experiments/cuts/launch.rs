//! One launch: a lab, a process in each of its two hosts, and links that are cut and mended while messages flow.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use std::{env, thread};

use serde::de::DeserializeOwned;
use weft_lab::{Host, Lab, Link, Plan, Way};

use crate::experiments::cuts::analysis::{FULL_FOR_US, Window, recovery_us, speed_before};
use crate::experiments::cuts::contestant::Contestant;
use crate::experiments::cuts::log::{Log, now_us};
use crate::experiments::cuts::schedule::Pair;
use crate::experiments::cuts::side::{Received, SIDE_COMMAND, Sent};
use crate::experiments::links::run::prepare_mptcp;
use weft_command::failure::Failure;
use weft_command::interrupt::Interrupt;

/// How long a link stays cut, and how long a window is.
pub(crate) const CUT: Duration = Duration::from_secs(1);
/// How long full speed is waited for after a link is mended.
pub(crate) const RECOVERY: Duration = Duration::from_secs(5);
/// From the first delivery to the first instant: windows have grown.
const WARM_UP: Duration = Duration::from_millis(1500);
/// How long a stream may deliver nothing: longer than all retransmission timers double to in the time of a cut.
const HANG: Duration = Duration::from_secs(20);
/// How long the two sides may take to say what they have counted.
const LAST_WORDS: Duration = Duration::from_secs(45);
/// How often it is seen to that all is well.
const STEP: Duration = Duration::from_millis(5);
/// And whether a stream is at full speed again.
const RECOVERY_STEP: Duration = Duration::from_millis(50);
/// The port on which streams of TCP are listened for, in hosts where nothing else does.
const PORT: u16 = 7477;
/// The most that is read of a line.
const LINE_LIMIT: u64 = 4096;

/// What is launched.
pub(crate) struct Launch<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) contestant: Contestant,
    /// Bytes of a message.
    pub(crate) size: usize,
    pub(crate) pairs: &'a [Pair],
    pub(crate) interrupt: &'a Interrupt,
}

/// An instant, with a cut or without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Happening {
    pub(crate) way: Way,
    pub(crate) with_cut: bool,
    /// From right before the cut, until right before the mending.
    pub(crate) window: Window,
    /// When the link was whole again; of an instant without a cut its beginning.
    pub(crate) mended_us: u64,
}

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) deliveries: Vec<u64>,
    pub(crate) happenings: Vec<Happening>,
    /// Of both sides, when both have come to their end.
    pub(crate) totals: Option<(Sent, Received)>,
    /// Why it ended before its end: which side, and how.
    pub(crate) broken: Option<String>,
    pub(crate) was_interrupted: bool,
}

/// Why a launch does not continue.
enum Stop {
    Interrupted,
    Broken(String),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Interrupted => Self::Interrupted,
            other => Self::Broken(other.to_string()),
        }
    }
}

impl Launch<'_> {
    /// Launches it. `done` is called after each cut.
    ///
    /// # Errors
    /// There is no lab.
    pub(crate) fn run(&self, done: impl Fn()) -> Result<Outcome, Failure> {
        let mut lab = Lab::up(self.plan)?;
        let mut outcome = Outcome::default();
        let stop = match self.begin(&lab) {
            Ok(mut stream) => {
                let stopped = self.attend(&mut lab, &mut stream, &mut outcome.happenings, done).err();
                // One that was interrupted can still say what it has counted.
                let stopped = match (stopped, stream.end()) {
                    (stopped @ (None | Some(Stop::Interrupted)), Ok(totals)) => {
                        outcome.totals = Some(totals);
                        stopped
                    }
                    (stopped, Err(stop)) => stopped.or(Some(stop)),
                    (stopped, Ok(_)) => stopped,
                };
                outcome.deliveries = stream.log.take();
                stopped
            }
            Err(stop) => Some(stop),
        };
        match stop {
            None => {}
            Some(Stop::Interrupted) => outcome.was_interrupted = true,
            Some(Stop::Broken(why)) => outcome.broken = Some(why),
        }
        lab.down()?;
        Ok(outcome)
    }

    fn begin(&self, lab: &Lab) -> Result<Stream, Stop> {
        if self.contestant == Contestant::Mptcp {
            lab.hosts().iter().try_for_each(|host| prepare_mptcp(host, false))?;
        }
        let (is_kernels, links) = (matches!(self.contestant, Contestant::Mptcp | Contestant::Tcp), self.plan.links);
        let (streams, port) = match self.contestant {
            Contestant::Tcp => (links, PORT),
            _ => (1, if is_kernels { PORT } else { 0 }),
        };
        let arguments = |role: &str, ports: &[u16]| {
            let at = |rail: usize| format!("{}:{}", lab.host(1).address(rail), ports[rail.min(ports.len() - 1)]);
            let at: Vec<_> = (0..streams).map(at).collect();
            let (contestant, size) = (self.contestant.to_string(), self.size.to_string());
            [role, &contestant, "--at", &at.join(","), "--size", &size].map(str::to_owned)
        };
        let (mut receiver, mut lines) = Process::start("receiver", lab.host(1), &arguments("receive", &[port]))?;
        let said = line(&mut lines).ok_or_else(|| receiver.complaint())?;
        let ports: Option<Vec<u16>> = said.split(',').map(|port| port.parse().ok()).collect();
        let ports = ports.ok_or_else(|| Stop::Broken(format!("the receiver said {said:?}, and no ports")))?;
        let log = Log::default();
        let received = {
            let log = log.clone();
            said_later(move || {
                log.read(&mut lines).ok()?;
                line(&mut lines)
            })
        };
        let (sender, mut lines) = Process::start("sender", lab.host(0), &arguments("send", &ports))?;
        let sent = said_later(move || line(&mut lines));
        Ok(Stream { receiver, sender, log, received, sent })
    }

    /// Cuts and mends.
    fn attend(
        &self,
        lab: &mut Lab,
        stream: &mut Stream,
        happenings: &mut Vec<Happening>,
        done: impl Fn(),
    ) -> Result<(), Stop> {
        let began = Instant::now();
        self.pass(stream, |stream| {
            let has_begun = stream.log.with(|deliveries| !deliveries.is_empty());
            has_begun || began.elapsed() > HANG
        })?;
        self.wait(stream, WARM_UP)?;
        for pair in self.pairs {
            self.wait(stream, pair.wait)?;
            let Pair { way, rail, .. } = *pair;
            let from_us = now_us();
            // The programs that would cut a link start, and change nothing: what they cost the machine is in both.
            (0..programs(way)).try_for_each(|_| check_link(lab.host(0), rail))?;
            self.wait_until(stream, from_us + us(CUT))?;
            let window = Window { from_us, to_us: from_us + us(CUT) };
            happenings.push(Happening { way, with_cut: false, window, mended_us: from_us });

            self.wait(stream, pair.wait_for_cut)?;
            let link = Link { host: matches!(way, Way::Send | Way::Receive).then_some(0), rail };
            let from_us = now_us();
            lab.cut(link, way).map_err(Failure::from)?;
            self.wait_until(stream, from_us + us(CUT))?;
            let window = Window { from_us, to_us: now_us() };
            lab.mend(link).map_err(Failure::from)?;
            let mended_us = now_us();
            happenings.push(Happening { way, with_cut: true, window, mended_us });
            self.wait_for_full_speed(stream, from_us, mended_us)?;
            done();
        }
        Ok(())
    }

    fn wait_for_full_speed(&self, stream: &mut Stream, cut_us: u64, mended_us: u64) -> Result<(), Stop> {
        let full = stream.log.with(|deliveries| speed_before(deliveries, cut_us));
        let mut next_us = mended_us + FULL_FOR_US;
        self.pass(stream, |stream| {
            let now = now_us();
            if now < next_us {
                return false;
            }
            next_us = now + us(RECOVERY_STEP);
            let is_full = || stream.log.with(|deliveries| recovery_us(deliveries, mended_us, full)).is_some();
            now > mended_us + us(RECOVERY) || is_full()
        })
    }

    fn wait(&self, stream: &mut Stream, time: Duration) -> Result<(), Stop> {
        self.wait_until(stream, now_us() + us(time))
    }

    fn wait_until(&self, stream: &mut Stream, instant_us: u64) -> Result<(), Stop> {
        self.pass(stream, |_| now_us() >= instant_us)
    }

    /// Lets time pass until something is the case, while all goes well.
    fn pass(&self, stream: &mut Stream, mut is_over: impl FnMut(&Stream) -> bool) -> Result<(), Stop> {
        let began_us = now_us();
        while !is_over(stream) {
            if self.interrupt.has_come() {
                return Err(Stop::Interrupted);
            }
            stream.check(began_us)?;
            thread::sleep(STEP);
        }
        Ok(())
    }
}

/// How many programs a cut starts: `ip` or `tc` at each end that is changed.
fn programs(way: Way) -> usize {
    if way == Way::Silent { 2 } else { 1 }
}

fn check_link(host: &Host, rail: usize) -> Result<(), Failure> {
    let mut show: Command = host.command("tc");
    show.args(["qdisc", "show", "dev", &host.rails()[rail].interface]).stdin(Stdio::null());
    show.output().map(drop).map_err(Failure::while_doing("tc qdisc show"))
}

fn us(time: Duration) -> u64 {
    time.as_micros() as u64
}

/// The two sides, and what they say.
struct Stream {
    receiver: Process,
    sender: Process,
    log: Log,
    received: Receiver<String>,
    sent: Receiver<String>,
}

impl Stream {
    /// Whether both sides live, and messages come; `since_us` is when that was first wanted.
    fn check(&mut self, since_us: u64) -> Result<(), Stop> {
        for side in [&mut self.receiver, &mut self.sender] {
            if side.has_ended() {
                return Err(side.complaint());
            }
        }
        let last = self.log.with(|deliveries| deliveries.last().copied()).unwrap_or(since_us);
        if now_us() > last.max(since_us) + us(HANG) {
            let words = format!("the receiver has delivered nothing for {} s; one side hangs", HANG.as_secs());
            return Err(Stop::Broken(words));
        }
        Ok(())
    }

    /// Ends the stream, and has both sides say what they have counted.
    fn end(&mut self) -> Result<(Sent, Received), Stop> {
        drop(self.sender.child.stdin.take());
        let until = Instant::now() + LAST_WORDS;
        let sent = self.sender.last_words(&self.sent, until)?;
        let received = self.receiver.last_words(&self.received, until)?;
        Ok((sent, received))
    }
}

/// A side in a host. Dropping it ends it.
struct Process {
    name: &'static str,
    child: Child,
}

impl Process {
    fn start(name: &'static str, host: &Host, arguments: &[String]) -> Result<(Self, BufReader<ChildStdout>), Failure> {
        let cannot = || Failure::while_doing(format!("cannot start the {name}"));
        let program = env::current_exe().map_err(cannot())?;
        let mut child = host
            .command(program)
            .arg(SIDE_COMMAND)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Ctrl-C is for the process that measures: the sides still say what they have counted.
            .process_group(0)
            .spawn()
            .map_err(cannot())?;
        let stdout = child.stdout.take().expect("it was asked for");
        Ok((Self { name, child }, BufReader::new(stdout)))
    }

    fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Why it has ended, or is about to.
    fn complaint(&mut self) -> Stop {
        let mut text = String::new();
        let _ = self.child.kill();
        if let Some(stderr) = &mut self.child.stderr {
            // Without an explanation the end itself must do.
            let _ = stderr.take(LINE_LIMIT).read_to_string(&mut text);
        }
        let text = text.trim().trim_start_matches("weft: ");
        let words = if text.is_empty() { "it ended without a word" } else { text };
        Stop::Broken(format!("{}: {words}", self.name))
    }

    fn last_words<T: DeserializeOwned>(&mut self, from: &Receiver<String>, until: Instant) -> Result<T, Stop> {
        let line = match from.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => {
                let words = format!("the {} did not end within {} s", self.name, LAST_WORDS.as_secs());
                return Err(Stop::Broken(words));
            }
            Err(RecvTimeoutError::Disconnected) => return Err(self.complaint()),
        };
        serde_json::from_str(&line).map_err(|error| Stop::Broken(format!("the {} said {line:?}: {error}", self.name)))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The next line, if it is whole.
fn line(from: &mut BufReader<ChildStdout>) -> Option<String> {
    let mut line = String::new();
    from.take(LINE_LIMIT).read_line(&mut line).ok()?;
    line.ends_with('\n').then(|| line.trim_end().to_owned())
}

/// What a thread of its own reads; nothing, when there is nothing more to read.
fn said_later(read: impl FnOnce() -> Option<String> + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    thread::spawn(move || read().map(|line| sender.send(line)));
    receiver
}
