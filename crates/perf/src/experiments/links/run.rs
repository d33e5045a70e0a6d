//! One run: a lab, a process in each of its two hosts, and what happens to the links meanwhile.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use serde_json::Value;
use weft_lab::{Host, Lab, Link, Plan, Shape, Way};

use crate::experiments::links::account::{Costs, Moments, Span, Summary, extra_frames, possible, share, sum_up};
use crate::experiments::links::contestant::{Begins, Beside, Contestant};
use crate::experiments::links::network::{cables, least_delay};
use crate::experiments::links::side::SIDE_COMMAND;
use crate::experiments::links::side::{Account, Carrier, Counts, Pattern, Receive, Wake, step_now};
use crate::result::Late;
use weft_command::failure::Failure;
use weft_command::interrupt::Interrupt;
use weft_command::output::complain;
use weft_command::shape::bridge_program;

/// How often it is shown what the links carry.
const SHOW_INTERVAL: Duration = Duration::from_millis(250);
/// How long a side may take beyond its time.
const PATIENCE: Duration = Duration::from_secs(30);
/// The most that is read of what a side says.
const LINE_LIMIT: u64 = 4 << 20;
/// The port on which plain streams are accepted, in hosts where no other process listens.
const PORT: u16 = 7475;
/// And for those that go beside others.
const PORT_BESIDE: u16 = 7476;
/// The host from which the stream beside goes if its frames have a delay of their own.
const FAR_SENDER: usize = 2;

/// A link that is cut in the second third of the time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    pub(crate) rail: usize,
    pub(crate) way: Way,
}

/// What is run.
pub(crate) struct Case<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) contestant: &'a Contestant,
    /// What a switch does to the frames of each link. Its rate is that of the plan.
    pub(crate) shape: Option<&'a Shape>,
    /// The stream that goes over the same links.
    pub(crate) beside: Option<Beside<'a>>,
    /// Which of both begins.
    pub(crate) begins: Begins,
    /// Of Weft, in each process.
    pub(crate) engines: usize,
    pub(crate) wake: Option<Wake>,
    pub(crate) receive: Receive,
    pub(crate) span: Span,
    pub(crate) cut: Option<Cut>,
    pub(crate) pattern: Pattern,
    /// Bytes of each message; `None`: as the carrier usually has them.
    pub(crate) size: Option<usize>,
    /// Of Edge, over each link.
    pub(crate) flows: u8,
    pub(crate) watch: bool,
    pub(crate) interrupt: &'a Interrupt,
}

/// A process in a host. Dropping it ends it.
struct Process {
    child: Child,
    /// What it says. A thread reads it: the account of a long run is longer than a pipe holds, and the process would
    /// wait for its reader while this side waits for its end.
    lines: Receiver<String>,
}

impl Process {
    fn start(host: &Host, arguments: &[String]) -> Result<Self, Failure> {
        let cannot = || Failure::while_doing("cannot start a side");
        let program = env::current_exe().map_err(cannot())?;
        let mut child = host
            .command(program)
            .arg(SIDE_COMMAND)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(cannot())?;
        let stdout = child.stdout.take().expect("it was asked for");
        let (to, lines) = channel();
        thread::spawn(move || {
            let lines = BufReader::new(stdout.take(LINE_LIMIT)).lines().map_while(Result::ok);
            lines.map(|line| to.send(line)).take_while(Result::is_ok).for_each(drop);
        });
        Ok(Self { child, lines })
    }

    fn line(&mut self) -> Result<String, Failure> {
        self.lines.recv().map_err(|_| self.complaint())
    }

    fn account(&mut self) -> Result<Account, Failure> {
        let line = self.line()?;
        serde_json::from_str(&line).map_err(|error| Failure::Runtime(format!("a side said {line:?}: {error}")))
    }

    fn complaint(&mut self) -> Failure {
        let mut text = String::new();
        if let Some(stderr) = &mut self.child.stderr {
            // Without an explanation the failure itself must do.
            let _ = stderr.take(4096).read_to_string(&mut text);
        }
        let text = text.trim().trim_start_matches("weft: ");
        Failure::Runtime(if text.is_empty() { "a side ended without a word".into() } else { text.into() })
    }

    fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One direction.
struct Stream {
    receiver: Process,
    sender: Process,
}

impl Case<'_> {
    /// Runs it once.
    pub(crate) fn run(&self) -> Result<Summary, Failure> {
        let mut lab = match self.shape {
            None => Lab::up(self.plan)?,
            Some(shape) => self.shaped_lab(shape)?,
        };
        let contestants = [Some(self.contestant), self.beside.map(|beside| beside.contestant)];
        if contestants.into_iter().flatten().any(|one| one.carrier == Carrier::Mptcp) {
            lab.hosts().iter().try_for_each(|host| prepare_mptcp(host, self.pattern == Pattern::TwoWay))?;
        }
        let mut streams = self.streams(&lab)?;
        // Of what connections were made by, nothing is measured.
        let _ = lab.take_lateness();
        let moments = self.attend(&mut lab, &mut streams)?;
        let lateness = lab.take_lateness().ok().flatten();
        let beside = match self.beside {
            Some(Beside { contestant, .. }) => {
                streams.pop().map(|mut stream| stream.arrivals(contestant)).transpose()?
            }
            None => None,
        };
        let (mut arrivals, mut cpu_s, mut counts) = (Account::default(), 0.0, Counts::default());
        for Stream { receiver, sender } in &mut streams {
            let (sent, received) = (sender.account()?, receiver.account()?);
            cpu_s += sent.cpu_s + received.cpu_s;
            counts += sent.counts;
            counts += received.counts;
            let is_received = is_plain(self.contestant.carrier) && self.pattern != Pattern::PingPong;
            arrivals = arrivals.beside(if is_received { received } else { sent });
        }
        let possible = possible(self.plan, self.contestant.carrier) * streams.len() as f64;
        let costs = Costs { cpu_s, counts };
        let mut summary = sum_up(&arrivals, &costs, self.span, possible, moments);
        summary.share = beside.and_then(|other| share(&arrivals, &other, self.span.seconds));
        let delay_beside = self.beside.and_then(|beside| beside.delay);
        let delay = self.shape.map(|shape| least_delay(shape, delay_beside)).unwrap_or_default();
        summary.lateness = lateness.map(|lateness| Late::of(lateness, delay));
        summary.extra_frames = self.frames(&lab).map(|frames| {
            let payload = arrivals.bytes.iter().sum();
            extra_frames(frames, payload, self.size, self.plan, self.contestant.carrier)
        });
        lab.down().map_err(|error| Failure::Runtime(error.to_string()))?;
        Ok(summary)
    }

    /// Starts all streams; the one beside is the last of them.
    fn streams(&self, lab: &Lab) -> Result<Vec<Stream>, Failure> {
        let of = |Beside { contestant, delay, .. }| {
            let from = if delay.is_some() { FAR_SENDER } else { 0 };
            self.start(lab, contestant, from, 1, PORT_BESIDE)
        };
        let beside = || self.beside.map(of).transpose();
        let head_start = || thread::sleep(Duration::from_secs_f64(self.span.seconds / 6.0));
        let mut first = None;
        if self.begins == Begins::Beside {
            first = beside()?;
            head_start();
        }
        let mut streams = vec![self.start(lab, self.contestant, 0, 1, PORT)?];
        if self.pattern == Pattern::TwoWay {
            streams.push(self.start(lab, self.contestant, 1, 0, PORT)?);
        }
        if self.begins == Begins::Own {
            head_start();
        }
        if first.is_none() {
            first = beside()?;
        }
        streams.extend(first);
        Ok(streams)
    }

    /// Frames that the hosts have sent, as their queues count them: what the kernel sends as one is counted as what is
    /// cut from it. `None` where they are not those of this stream alone, or there are no queues.
    fn frames(&self, lab: &Lab) -> Option<u64> {
        if self.shape.is_some() || self.beside.is_some() || self.cut.is_some() {
            return None;
        }
        lab.hosts().iter().map(sent_frames).sum()
    }

    /// The bottleneck is in the switch, and no host knows of it.
    fn shaped_lab(&self, shape: &Shape) -> Result<Lab, weft_lab::LabError> {
        // Contestants may send frames of their own, and the emulator has the rate and its queue.
        let carrier = Some(weft_lab::Carrier::Rings);
        let delay_beside = self.beside.and_then(|beside| beside.delay);
        let hosts = if delay_beside.is_some() { FAR_SENDER + 1 } else { self.plan.hosts };
        let plan = Plan { hosts, rate: None, rates: Vec::new(), switch: true, carrier, ..self.plan.clone() };
        let (mut lab, program) = (Lab::up(&plan)?, bridge_program()?);
        for rail in 0..plan.links {
            for (host, shape) in cables(shape, delay_beside) {
                lab.shape(Link { host, rail }, &shape, &program)?;
            }
        }
        Ok(lab)
    }

    /// Starts a stream from one host to another; one of plain TCP is listened for on this port.
    fn start(&self, lab: &Lab, contestant: &Contestant, from: usize, to: usize, port: u16) -> Result<Stream, Failure> {
        let carrier = contestant.carrier;
        let is_ping_pong = self.pattern == Pattern::PingPong;
        let streams = if carrier == Carrier::Tcp && !is_ping_pong { self.plan.links } else { 1 };
        let port = if is_plain(carrier) { port } else { 0 };
        let addresses = |ports: &[String]| {
            let one = |rail: usize| format!("{}:{}", lab.host(to).address(rail), ports[rail.min(ports.len() - 1)]);
            (0..streams).map(one).collect::<Vec<_>>().join(",")
        };
        let arguments = |role: &str, at: String| {
            let (carrier, seconds, flows) =
                (carrier.to_string(), self.span.seconds.to_string(), self.flows.to_string());
            let engines = self.engines.to_string();
            let mut all: Vec<_> = [role, &carrier, "--at", &at, "--seconds", &seconds, "--flows", &flows].into();
            all.extend(["--engines", &engines]);
            let size = self.size.map(|size| size.to_string());
            size.iter().for_each(|size| all.extend(["--size", size]));
            all.extend(is_ping_pong.then_some("--ping-pong"));
            let receive = self.receive.to_string();
            all.extend(["--receive", &receive]);
            contestant.congestion.iter().for_each(|name| all.extend(["--congestion", name]));
            let wake = self.wake.map(|wake| wake.to_string());
            wake.iter().for_each(|wake| all.extend(["--wake", wake]));
            all.into_iter().map(str::to_owned).collect::<Vec<_>>()
        };
        let mut receiver = Process::start(lab.host(to), &arguments("receive", addresses(&[port.to_string()])))?;
        let said = receiver.line()?;
        let ports: Vec<String> = said.split(',').map(|one| one.rsplit(':').next().unwrap_or(one).to_owned()).collect();
        let sender = Process::start(lab.host(from), &arguments("send", addresses(&ports)))?;
        Ok(Stream { receiver, sender })
    }

    /// What happens while the stream runs.
    fn attend(&self, lab: &mut Lab, streams: &mut [Stream]) -> Result<Option<Moments>, Failure> {
        let began = Instant::now();
        let third = Duration::from_secs_f64(self.span.seconds / 3.0);
        let (mut cut, mut mended) = (None, None);
        let mut carried = Carried::read(lab.host(1));
        while !streams.iter_mut().all(|stream| stream.sender.has_ended()) {
            if self.interrupt.has_come() {
                return Err(Failure::Interrupted);
            }
            if began.elapsed() > Duration::from_secs_f64(self.span.seconds) + PATIENCE {
                return Err(Failure::Runtime(format!("{} does not come to an end", self.contestant)));
            }
            if let Some(Cut { rail, way }) = self.cut {
                let link = Link { host: matches!(way, Way::Send | Way::Receive).then_some(0), rail };
                if cut.is_none() && began.elapsed() > third {
                    cut = Some(step_now());
                    lab.cut(link, way)?;
                } else if mended.is_none() && began.elapsed() > 2 * third {
                    lab.mend(link)?;
                    mended = Some(step_now());
                }
            }
            if self.watch && carried.at.elapsed() >= SHOW_INTERVAL {
                let now = Carried::read(lab.host(1));
                complain(now.since(&carried, began.elapsed(), cut.is_some() && mended.is_none()));
                carried = now;
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(cut.zip(mended).map(|(cut, mended)| Moments { cut, mended }))
    }
}

impl Stream {
    /// What arrived when, known at the end where it is said.
    fn arrivals(&mut self, contestant: &Contestant) -> Result<Account, Failure> {
        let (sent, received) = (self.sender.account()?, self.receiver.account()?);
        Ok(if is_plain(contestant.carrier) { received } else { sent })
    }
}

/// Frames that a host has sent over all its rails.
fn sent_frames(host: &Host) -> Option<u64> {
    let output = host.command("tc").args(["-s", "-j", "qdisc", "show"]).stdin(Stdio::null()).output().ok()?;
    let queues: Value = serde_json::from_slice(&output.stdout).ok()?;
    let is_of_rail = |queue: &&Value| {
        queue["root"] == true && host.rails().iter().any(|rail| queue["dev"] == rail.interface.as_str())
    };
    let frames: Vec<u64> =
        queues.as_array()?.iter().filter(is_of_rail).filter_map(|it| it["packets"].as_u64()).collect();
    (frames.len() == host.rails().len()).then(|| frames.iter().sum())
}

fn is_plain(carrier: Carrier) -> bool {
    matches!(carrier, Carrier::Tcp | Carrier::Mptcp)
}

/// What the links to a host have carried.
struct Carried {
    at: Instant,
    bytes: Vec<u64>,
}

impl Carried {
    fn read(host: &Host) -> Self {
        let text = fs::read_to_string(format!("/proc/{}/net/dev", host.holder().id)).unwrap_or_default();
        let received = |interface: &str| {
            let line = text.lines().find_map(|line| line.trim().strip_prefix(interface)?.strip_prefix(':'))?;
            line.split_whitespace().next()?.parse().ok()
        };
        let bytes = host.rails().iter().map(|rail| received(&rail.interface).unwrap_or(0)).collect();
        Self { at: Instant::now(), bytes }
    }

    fn since(&self, before: &Self, time: Duration, is_cut: bool) -> String {
        let seconds = (self.at - before.at).as_secs_f64();
        let rates =
            self.bytes.iter().zip(&before.bytes).map(|(now, then)| now.saturating_sub(*then) as f64 / seconds / 1e6);
        let rails: Vec<_> = rates.enumerate().map(|(rail, rate)| format!("rail{rail} {rate:7.1}")).collect();
        let cut = if is_cut { "  (cut)" } else { "" };
        format!("{:6.2} s  MB/s: {}{cut}", time.as_secs_f64(), rails.join("  "))
    }
}

/// Multipath TCP learns of a host's addresses from its administrator.
pub(in super::super) fn prepare_mptcp(host: &Host, two_way: bool) -> Result<(), Failure> {
    let ip = |arguments: &[&str]| {
        let mut command: Command = host.command("ip");
        let output = command.args(arguments).stdin(Stdio::null()).output().map_err(Failure::while_doing("ip mptcp"))?;
        if output.status.success() {
            return Ok(());
        }
        let words = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(Failure::Runtime(format!("ip {}: {words}", arguments.join(" "))))
    };
    ip(&["mptcp", "limits", "set", "subflow", "8", "add_addr_accepted", "8"])?;
    // The side that calls makes paths, the other one says where to.
    let kind: &[&str] = match host.index() {
        _ if two_way => &["subflow", "signal"],
        1 => &["signal"],
        _ => &["subflow"],
    };
    for rail in host.rails().iter().skip(1) {
        let address = rail.ipv4.to_string();
        ip(&[&["mptcp", "endpoint", "add", &address, "dev", &rail.interface], kind].concat())?;
    }
    Ok(())
}
