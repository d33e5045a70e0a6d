//! The kernel's TCP at the end of the link: it has no markers, and keeps what comes early. In real time, in a host of a
//! test network; all but the kernel is in this process, the link's disorder too.

use std::io::{ErrorKind, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::Stdio;
use std::time::{Duration, Instant};
use std::{env, io};

use clap::Args;
use serde::{Deserialize, Serialize};
use weft_base::{Clock, Time};
use weft_driver::{FrameTest, MonotonicClock, PacketRing, RingFrame, received_memory};
use weft_lab::{Host, Lab, Plan};
use weft_simulate::{FarEnd, StreamReport, StreamScenario};
use weft_tcp::{Arrived, Checksum, EthernetLink, FRAME_OVERHEAD, Flow, MAX_HEADER, Segment};

use weft_command::failure::Failure;
use weft_command::output::print_line;

/// Name of the hidden subcommand.
pub const DISORDER_COMMAND: &str = "perf-disorder-side";

/// The two ends of the cable: the kernel's, and that of this process.
const KERNELS: &str = "disorder0";
const OURS: &str = "disorder1";
const KERNEL_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
const OUR_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
const OUR_PORT: u16 = 50_000;
/// The link's time and the sender's pass this many times slower, so that a busy machine, too, is fast enough for it.
pub(crate) const SLOWER: u64 = 10;
/// Sent without a copy of what a segment is, at most.
const LONGEST: usize = FRAME_OVERHEAD + MAX_HEADER + (1 << 16);
const PATIENCE: Duration = Duration::from_secs(5);

/// What the process in the host runs. Shares are of a million.
#[derive(Args, Debug)]
pub struct Side {
    late: u32,
    lost: u32,
    cut: u32,
    fpdus: u32,
}

/// What it says.
#[derive(Debug, Serialize, Deserialize)]
struct Seen {
    bytes: u64,
    elapsed: Duration,
    median: Duration,
    p99: Duration,
    most_buffered: u64,
    early: u64,
    resent: u64,
}

/// Hosts in which the kernel receives.
pub(crate) struct Kernels(Lab);

impl Kernels {
    /// A test network, of which one host is enough.
    pub(crate) fn new() -> Result<Self, Failure> {
        let lab = Lab::up(&Plan { rate: None, ..Plan::default() });
        let lab = lab.map_err(|error| {
            Failure::Runtime(format!("the kernel's TCP is measured in a test network, which cannot be had: {error}"))
        })?;
        let host = lab.host(0);
        for words in [
            format!("link add {KERNELS} type veth peer name {OURS}"),
            format!("address add {KERNEL_ADDRESS}/24 dev {KERNELS}"),
            format!("link set {KERNELS} up"),
            format!("link set {OURS} up"),
        ] {
            ip(host, &words)?;
        }
        Ok(Self(lab))
    }

    /// One run.
    pub(crate) fn run(&self, scenario: &StreamScenario) -> Result<StreamReport, Failure> {
        let cannot = || Failure::while_doing("cannot run a side");
        let mut command = self.0.host(0).command(env::current_exe().map_err(cannot())?);
        let StreamScenario { late, lost, cut, fpdus, .. } = *scenario;
        command.arg(DISORDER_COMMAND).args([late, lost, cut, fpdus].map(|number| number.to_string()));
        let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output().map_err(cannot())?;
        if !output.status.success() {
            return Err(Failure::Runtime(format!("the kernel's side: {}", output.status)));
        }
        let seen: Seen = serde_json::from_slice(&output.stdout).map_err(|error| cannot()(error.into()))?;
        let Seen { bytes, elapsed, median, p99, most_buffered, early, resent } = seen;
        Ok(StreamReport { bytes, elapsed, median, p99, most_buffered, early, resent })
    }
}

fn ip(host: &Host, words: &str) -> Result<(), Failure> {
    let output = host.command("ip").args(words.split(' ')).output().map_err(Failure::while_doing("cannot run ip"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(Failure::Runtime(format!("ip {words}: {}", String::from_utf8_lossy(&output.stderr).trim())))
}

/// Runs the hidden subcommand.
pub fn run_side(side: &Side) -> Result<(), Failure> {
    let Side { late, lost, cut, fpdus } = *side;
    let scenario = StreamScenario { late, lost, cut, fpdus, ..StreamScenario::default() };
    let mut kernel = Kernel::new().map_err(Failure::while_doing("cannot begin"))?;
    let clock = MonotonicClock::new();
    let report = scenario
        .run_to(&mut kernel, &mut || Time::from_nanos(clock.now().as_nanos() / SLOWER))
        .map_err(Failure::Runtime)?;
    let StreamReport { bytes, elapsed, median, p99, most_buffered, early, resent } = report;
    let seen = Seen { bytes, elapsed, median, p99, most_buffered, early, resent };
    print_line(serde_json::to_string(&seen).expect("plain values become JSON"))
}

/// The kernel, as the sender's side of the cable sees it.
struct Kernel {
    ring: PacketRing,
    link: EthernetLink,
    listener: TcpListener,
    stream: Option<TcpStream>,
    flow: Flow,
    frame: Vec<u8>,
    out: Vec<u8>,
}

impl Kernel {
    fn new() -> io::Result<Self> {
        let tests = [FrameTest::Half(12, 0x0806)];
        let tcp = [FrameTest::Half(12, 0x0800), FrameTest::Word(30, OUR_ADDRESS.to_bits())];
        let ring = PacketRing::open_for(OURS, &[&tests, &tcp])?;
        let link = EthernetLink::new(ring.hardware(), OUR_ADDRESS, 4);
        let listener = TcpListener::bind((KERNEL_ADDRESS, 0))?;
        listener.set_nonblocking(true)?;
        let local = SocketAddr::new(OUR_ADDRESS.into(), OUR_PORT);
        let flow = Flow { local, remote: listener.local_addr()? };
        let mut kernel = Self { ring, link, listener, stream: None, flow, frame: Vec::new(), out: vec![0; LONGEST] };
        kernel.find()?;
        Ok(kernel)
    }

    /// Asks for the kernel's hardware address until it answers.
    fn find(&mut self) -> io::Result<()> {
        let until = Instant::now() + PATIENCE;
        while !self.link.knows(KERNEL_ADDRESS) {
            if Instant::now() > until {
                return Err(ErrorKind::HostUnreachable.into());
            }
            let question = self.link.question(KERNEL_ADDRESS);
            self.ring.send(&question)?;
            std::thread::sleep(Duration::from_millis(10));
            while self.receive()?.is_some() {}
        }
        Ok(())
    }

    /// The next segment, if one is there; a host that asks for our address is answered.
    fn receive(&mut self) -> io::Result<Option<Segment>> {
        while let Some(came) = self.ring.receive(&mut self.frame) {
            if came != RingFrame::Whole {
                continue;
            }
            match self.link.parse(&self.frame, Checksum::Verify) {
                Arrived::Segment(_, segment, _) => return Ok(Some(segment)),
                Arrived::Answer(answer) => {
                    self.ring.send(&answer)?;
                }
                _ => {}
            }
        }
        Ok(None)
    }
}

fn failed(error: impl ToString) -> String {
    error.to_string()
}

impl FarEnd for Kernel {
    fn flow(&self) -> Flow {
        self.flow
    }

    fn arrive(&mut self, segment: &Segment, payload: &[u8]) -> Result<(), String> {
        let length = self.link.emit(&self.flow, segment, payload, &mut self.out).map_err(failed)?;
        // There is room as soon as the kernel has taken the one before.
        while !self.ring.send(&self.out[..length]).map_err(failed)? {}
        Ok(())
    }

    fn poll_transmit(&mut self) -> Result<Option<Segment>, String> {
        self.receive().map_err(failed)
    }

    fn read(&mut self, to: &mut [u8]) -> Result<usize, String> {
        let Some(stream) = &mut self.stream else {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    stream.set_nonblocking(true).map_err(failed)?;
                    self.stream = Some(stream);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(failed(error)),
            }
            return Ok(0);
        };
        match stream.read(to) {
            Ok(0) => Err("the stream has ended".into()),
            Ok(length) => Ok(length),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
            Err(error) => Err(failed(error)),
        }
    }

    fn kept(&mut self) -> u64 {
        self.stream.as_ref().and_then(received_memory).unwrap_or(0)
    }
}
