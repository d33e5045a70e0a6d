//! One side of a stream over all links, in one host of the lab: a process of its own, which says what has arrived when.

use core::ops::AddAssign;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{fmt, thread};

use clap::{Args, Subcommand, ValueEnum};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use socket2::{Domain, Protocol, Socket, Type};
use weft::verbs::laboratory::OutOfOrder;
use weft::verbs::{Access, MemoryRegion, Rails, RemoteMemory, Slice, WorkRequest};

use weft_command::connection::{Depths, Endpoint, Link, LinkError, StreamOptions, failed};
use weft_command::failure::Failure;
use weft_command::interrupt::Interrupt;
use weft_command::output::print_line;
use weft_command::transport::Transport;

use crate::result::Histogram;

/// Name of the subcommand that one side of a stream runs as.
pub const SIDE_COMMAND: &str = "perf-links-side";

/// Bytes of one write where no size is given: as many as a call of plain TCP has. With 48 of them in flight eight links
/// with a queue of 4 ms each are full, as they are with the buffers of a stream on each.
pub(crate) const PIECE: usize = CALL;
/// The largest write.
pub(crate) const LARGEST: usize = 4 << 20;
/// How many writes are in flight, and how many bytes of them, of which there are at least two.
const PIECES: usize = 48;
const UNDER_WAY: usize = 24 << 20;
/// Bytes of a call of plain TCP where no size is given.
const CALL: usize = 256 << 10;
/// Progress is noted in steps of this.
pub(crate) const STEP: Duration = Duration::from_millis(1);
/// Depths of reads and atomics, of which there are none.
const DEPTHS: Depths = Depths { ird: 1, ord: 1 };
/// How long a stream of plain TCP is waited for whose link is cut.
const PATIENCE: Duration = Duration::from_secs(5);

/// What carries the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Carrier {
    /// RDMA writes over Edge, on all rails
    Edge,
    /// RDMA writes over iWARP, which has one
    Iwarp,
    /// A stream of plain TCP on each link
    Tcp,
    /// One stream of multipath TCP, with a subflow on each link
    Mptcp,
}

impl Carrier {
    /// Whether it is Weft's.
    pub(crate) const fn has_engines(self) -> bool {
        matches!(self, Self::Edge | Self::Iwarp)
    }
}

/// Which way messages go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Pattern {
    /// There and back, one at a time
    PingPong,
    /// In one direction, many at a time
    OneWay,
    /// In both directions at once; what is shown is both together
    TwoWay,
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_possible_value().map_or(Ok(()), |value| f.pad(value.get_name()))
    }
}

/// How a side waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Wake {
    /// It asks again and again, on a core of its own
    Poll,
    /// It sleeps at once, and packets wake it
    Interrupt,
}

impl Wake {
    /// How long it polls before it sleeps.
    const fn spin(self) -> Duration {
        match self {
            Self::Poll => Duration::from_secs(3600),
            Self::Interrupt => Duration::ZERO,
        }
    }
}

/// What the receiving side does with what comes out of order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Receive {
    /// It is placed as it comes
    Place,
    /// It is kept until it is in order, and copied to its place then
    Copy,
}

impl From<Receive> for OutOfOrder {
    fn from(receive: Receive) -> Self {
        match receive {
            Receive::Place => Self::Place,
            Receive::Copy => Self::Copy,
        }
    }
}

impl fmt::Display for Receive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_possible_value().map_or(Ok(()), |value| f.pad(value.get_name()))
    }
}

impl fmt::Display for Wake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_possible_value().map_or(Ok(()), |value| f.pad(value.get_name()))
    }
}

impl fmt::Display for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_possible_value().map_or(Ok(()), |value| f.pad(value.get_name()))
    }
}

/// What the process does.
#[derive(Args, Debug)]
pub struct Side {
    #[command(subcommand)]
    role: Role,
}

#[derive(Subcommand, Debug)]
enum Role {
    Receive(Ends),
    Send(Ends),
}

#[derive(Args, Debug)]
struct Ends {
    #[arg(value_enum)]
    carrier: Carrier,
    /// Where to listen, or whom to call: one for each stream
    #[arg(long, value_delimiter = ',')]
    at: Vec<SocketAddr>,
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Bytes of each message
    #[arg(long)]
    size: Option<usize>,
    /// Each message is answered by one of the same size before the next one
    #[arg(long)]
    ping_pong: bool,
    /// Edge's flows over each link
    #[arg(long, default_value_t = 1)]
    flows: u8,
    /// Engines of its NIC
    #[arg(long, default_value_t = 1)]
    engines: usize,
    /// How it waits
    #[arg(long, value_enum)]
    wake: Option<Wake>,
    /// TCP's congestion control
    #[arg(long)]
    congestion: Option<String>,
    /// What it does with what comes out of order
    #[arg(long, value_enum, default_value_t = Receive::Place)]
    receive: Receive,
}

impl Ends {
    fn time(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }

    /// Bytes of each write of RDMA, and how many are in flight.
    fn writes(&self) -> (usize, usize) {
        let size = self.size.unwrap_or(PIECE).clamp(1, LARGEST);
        (size, (UNDER_WAY / size).clamp(2, PIECES))
    }
}

/// What has arrived in each step of time, and what it has cost.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Account {
    /// The first step, counted from the machine's start.
    pub(crate) first_step: u64,
    /// Bytes that arrived in each step.
    pub(crate) bytes: Vec<u64>,
    /// Processor time of the process.
    pub(crate) cpu_s: f64,
    /// Of Weft's, what its NIC has counted.
    pub(crate) counts: Counts,
    /// Half of the time of each round trip in microseconds, of a ping-pong.
    pub(crate) half_round_trips: Option<Histogram>,
}

/// What a NIC has counted, of both sides together or of one.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Counts {
    /// System calls that sent, and that received something.
    pub(crate) sends: u64,
    pub(crate) receives: u64,
    /// Times that a thread slept, and was woken: one that calls, or the NIC's.
    pub(crate) wake_ups: u64,
    /// Segments that came, and those that were placed before their turn.
    pub(crate) segments: u64,
    pub(crate) early_segments: u64,
    /// Bytes that were kept until their turn.
    pub(crate) kept_bytes: u64,
}

impl Counts {
    fn of(endpoint: &Endpoint) -> Self {
        let counters = endpoint.counters();
        Self {
            sends: counters.sends + counters.served_sends,
            receives: counters.receives + counters.served_receives,
            wake_ups: counters.parks + counters.wake_ups,
            segments: counters.received_frames,
            early_segments: counters.early_frames,
            kept_bytes: counters.kept_bytes,
        }
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.sends += other.sends;
        self.receives += other.receives;
        self.wake_ups += other.wake_ups;
        self.segments += other.segments;
        self.early_segments += other.early_segments;
        self.kept_bytes += other.kept_bytes;
    }
}

impl Account {
    /// What both have brought.
    pub(crate) fn beside(self, other: Self) -> Self {
        if self.bytes.is_empty() {
            return other;
        }
        let (mut early, late) = if self.first_step <= other.first_step { (self, other) } else { (other, self) };
        let ahead = (late.first_step - early.first_step) as usize;
        early.bytes.resize(early.bytes.len().max(ahead + late.bytes.len()), 0);
        early.bytes[ahead..].iter_mut().zip(&late.bytes).for_each(|(bytes, more)| *bytes += more);
        early.cpu_s += late.cpu_s;
        early.counts += late.counts;
        early.half_round_trips = early.half_round_trips.or(late.half_round_trips);
        early
    }
}

/// The present step, counted from the machine's start.
pub(crate) fn step_now() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |time| time.num_microseconds());
    u64::try_from(now).unwrap_or_default() / STEP.as_micros() as u64
}

fn cpu_s() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_SELF).map(|usage| usage.user_time() + usage.system_time());
    usage.map_or(0.0, |time| time.num_microseconds() as f64 / 1e6)
}

/// Bytes by steps, counted by any thread.
struct Tally {
    first_step: u64,
    bytes: Vec<AtomicU64>,
    cpu_s: f64,
}

impl Tally {
    fn begin(time: Duration) -> Self {
        let steps = (time + 2 * PATIENCE).as_micros() / STEP.as_micros();
        Self { first_step: step_now(), bytes: (0..steps).map(|_| AtomicU64::new(0)).collect(), cpu_s: cpu_s() }
    }

    fn add(&self, bytes: u64) {
        if let Some(step) = self.bytes.get((step_now() - self.first_step) as usize) {
            step.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    fn account(&self) -> Account {
        let mut bytes: Vec<u64> = self.bytes.iter().map(|step| step.load(Ordering::Relaxed)).collect();
        bytes.truncate((step_now() - self.first_step) as usize + 1);
        let cpu_s = cpu_s() - self.cpu_s;
        Account { first_step: self.first_step, bytes, cpu_s, ..Account::default() }
    }
}

/// Runs one side, and prints its account.
pub fn run(side: &Side) -> Result<(), Failure> {
    let account = match &side.role {
        Role::Receive(ends) => receive(ends)?,
        Role::Send(ends) => send(ends)?,
    };
    print_line(serde_json::to_string(&account).expect("plain values become JSON"))
}

fn receive(ends: &Ends) -> Result<Account, Failure> {
    match ends.carrier {
        Carrier::Edge => receive_writes(Transport::Edge, ends),
        Carrier::Iwarp => receive_writes(Transport::Iwarp, ends),
        Carrier::Tcp | Carrier::Mptcp => receive_streams(ends),
    }
}

fn send(ends: &Ends) -> Result<Account, Failure> {
    match ends.carrier {
        Carrier::Edge => send_writes(Transport::Edge, ends),
        Carrier::Iwarp => send_writes(Transport::Iwarp, ends),
        Carrier::Tcp | Carrier::Mptcp => send_streams(ends),
    }
}

/// The end of a stream's time, counted as [`step_now`] does.
fn last_step(tally: &Tally, time: Duration) -> u64 {
    tally.first_step + (time.as_micros() / STEP.as_micros()) as u64
}

// --- RDMA

fn endpoint(transport: Transport, ends: &Ends) -> Result<Endpoint, Failure> {
    let (rails, spin) = (Some(Rails::All { flows: ends.flows }), ends.wake.map(Wake::spin));
    let (engines, out_of_order) = (ends.engines, ends.receive.into());
    let options = StreamOptions { transport, rails, spin, engines, out_of_order, ..StreamOptions::usual() };
    Endpoint::open(&options, DEPTHS, &Interrupt::watch()?)
}

fn broken(error: LinkError) -> Failure {
    error.during("stream")
}

/// Where the peer writes to: a key and an offset.
fn tell_place(link: &Link, place: RemoteMemory) -> Result<(), Failure> {
    let mut words = [0; 12];
    words[..4].copy_from_slice(&place.stag.0.to_be_bytes());
    words[4..].copy_from_slice(&place.offset.to_be_bytes());
    link.send(&words).map_err(broken)
}

fn hear_place(link: &Link) -> Result<RemoteMemory, Failure> {
    let mut words = [0; 12];
    link.receive(&mut words).map_err(broken)?;
    let stag = weft::verbs::Stag(u32::from_be_bytes(words[..4].try_into().expect("four bytes")));
    let offset = u64::from_be_bytes(words[4..].try_into().expect("eight bytes"));
    Ok(RemoteMemory { stag, offset })
}

fn inbox(link: &Link, bytes: usize) -> Result<MemoryRegion, Failure> {
    let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
    link.domain.register(vec![0; bytes], access).map_err(failed("cannot register memory"))
}

fn receive_writes(transport: Transport, ends: &Ends) -> Result<Account, Failure> {
    let endpoint = endpoint(transport, ends)?;
    let listener = endpoint.listen(ends.at[0])?;
    print_line(listener.local_address())?;
    let request = endpoint.next_request(&listener)?;
    let link = endpoint.accept(request)?;
    let (size, count) = ends.writes();
    let region = inbox(&link, size * count)?;
    // Over iWARP the side that has connected speaks first (RFC 5044 section 7.1.2).
    let place = hear_place(&link)?;
    let tally = Tally::begin(ends.time());
    tell_place(&link, region.remote(0))?;
    if ends.ping_pong {
        answer_writes(&link, size, place)?;
    } else {
        await_writes(&link, ends.wake);
    }
    link.close().map_err(broken)?;
    Ok(Account { counts: Counts::of(&endpoint), ..tally.account() })
}

/// Until the peer has written all.
fn await_writes(link: &Link, wake: Option<Wake>) {
    while !link.has_come() && !link.queue_pair.state().has_ended() {
        match wake {
            // Another thread's core receives, if packets wake it; or this one does nothing else.
            None | Some(Wake::Interrupt) => thread::sleep(Duration::from_millis(5)),
            Some(Wake::Poll) => link.poll(),
        }
    }
}

/// Answers each write that notifies by one, until the peer closes.
fn answer_writes(link: &Link, size: usize, place: RemoteMemory) -> Result<(), Failure> {
    let source =
        link.domain.register(vec![0x5a; size], Access::LOCAL_READ).map_err(failed("cannot register memory"))?;
    let slice = source.slice(..).map_err(|error| Failure::Runtime(error.to_string()))?;
    loop {
        match link.await_notice() {
            Err(LinkError::Closed) => return Ok(()),
            outcome => outcome.map_err(broken)?,
        }
        link.post(WorkRequest::write(slice, place).notify()).map_err(broken)?;
        link.finish().map_err(broken)?;
    }
}

fn send_writes(transport: Transport, ends: &Ends) -> Result<Account, Failure> {
    let (to, endpoint) = (ends.at[0], endpoint(transport, ends)?);
    let link = endpoint.connect(to, None)?;
    let (size, count) = ends.writes();
    let region = inbox(&link, if ends.ping_pong { size } else { 1 })?;
    tell_place(&link, region.remote(0))?;
    let place = hear_place(&link)?;
    let source =
        link.domain.register(vec![0x5a; size], Access::LOCAL_READ).map_err(failed("cannot register memory"))?;
    let slice = source.slice(..).map_err(|error| Failure::Runtime(error.to_string()))?;
    let account = if ends.ping_pong {
        let tally = Tally::begin(ends.time());
        let trips = ping(&tally, last_step(&tally, ends.time()), size, || {
            link.post(WorkRequest::write(slice, place).notify()).map_err(broken)?;
            link.await_notice().map_err(broken)?;
            link.finish().map(|_| ()).map_err(broken)
        })?;
        Account { half_round_trips: Some(trips), ..tally.account() }
    } else {
        let tally = Tally::begin(ends.time());
        write_all(&link, slice, place, (size, count), &tally, ends.time())?;
        tally.account()
    };
    let account = Account { counts: Counts::of(&endpoint), ..account };
    link.close().map_err(broken)?;
    Ok(account)
}

/// Writes until the time is over, with this many in flight.
fn write_all(
    link: &Link,
    slice: Slice,
    place: RemoteMemory,
    (size, count): (usize, usize),
    tally: &Tally,
    time: Duration,
) -> Result<(), Failure> {
    let (size, count, end) = (size as u64, count as u64, last_step(tally, time));
    let (mut posted, mut finished) = (0_u64, 0_u64);
    while step_now() < end {
        while posted - finished < count {
            let place = RemoteMemory { offset: place.offset + posted % count * size, ..place };
            link.post(WorkRequest::write(slice, place)).map_err(broken)?;
            posted += 1;
        }
        link.finish().map_err(broken)?;
        finished += 1;
        tally.add(size);
    }
    while finished < posted {
        link.finish().map_err(broken)?;
        finished += 1;
    }
    Ok(())
}

/// Sends messages of this size there and back until a step, by `turn`; tells half of each round trip in microseconds.
fn ping(
    tally: &Tally,
    end: u64,
    size: usize,
    mut turn: impl FnMut() -> Result<(), Failure>,
) -> Result<Histogram, Failure> {
    let mut times = Vec::new();
    while step_now() < end {
        let start = Instant::now();
        turn()?;
        times.push(start.elapsed().as_secs_f64() * 1e6 / 2.0);
        tally.add(2 * size as u64);
    }
    Ok(Histogram::of(&times))
}

// --- plain streams

fn socket(ends: &Ends, at: SocketAddr) -> Result<Socket, Failure> {
    let protocol = if ends.carrier == Carrier::Mptcp { Protocol::MPTCP } else { Protocol::TCP };
    let socket = Socket::new(Domain::for_address(at), Type::STREAM, Some(protocol))
        .map_err(Failure::while_doing("cannot make a socket"))?;
    set_congestion(&socket, ends)?;
    Ok(socket)
}

/// Before a connection, and after it: the route may name another congestion control (ip-route(8), `congctl`), as those
/// of a lab do, which takes the place of what was set before.
fn set_congestion(socket: &Socket, ends: &Ends) -> Result<(), Failure> {
    let Some(name) = &ends.congestion else { return Ok(()) };
    let cannot = || Failure::while_doing(format!("congestion control {name}"));
    socket.set_tcp_congestion(name.as_bytes()).map_err(cannot())
}

/// A stream that sends by another congestion control than the one that was named measures something else.
fn check_congestion(socket: &Socket, ends: &Ends) -> Result<(), Failure> {
    let Some(name) = &ends.congestion else { return Ok(()) };
    let used = socket.tcp_congestion().map_err(Failure::while_doing("cannot read the congestion control"))?;
    let used = String::from_utf8_lossy(&used);
    let used = used.trim_end_matches('\0');
    if used == name {
        return Ok(());
    }
    Err(Failure::Runtime(format!(
        "the stream has the congestion control {used}, not {name}: does its route name one (ip route, congctl)?"
    )))
}

fn receive_streams(ends: &Ends) -> Result<Account, Failure> {
    let time = ends.time();
    let cannot = || Failure::while_doing("cannot listen");
    let mut listeners = Vec::new();
    for at in &ends.at {
        let socket = socket(ends, *at)?;
        // Bound to one address, a listener of multipath TCP would never accept a second path.
        let any = IpAddr::from_str("0.0.0.0").expect("an address");
        let bound = if ends.carrier == Carrier::Mptcp { SocketAddr::new(any, at.port()) } else { *at };
        socket.bind(&bound.into()).and_then(|()| socket.listen(4)).map_err(cannot())?;
        listeners.push(TcpListener::from(socket));
    }
    let ports: Result<Vec<_>, _> = listeners.iter().map(TcpListener::local_addr).collect();
    let ports: Vec<_> = ports.map_err(cannot())?.iter().map(|at| at.port().to_string()).collect();
    print_line(ports.join(","))?;
    let streams: Result<Vec<_>, _> =
        listeners.iter().map(|listener| listener.accept().map(|(stream, _)| stream)).collect();
    let (streams, tally) = (streams.map_err(Failure::while_doing("cannot accept"))?, Arc::new(Tally::begin(time)));
    if let (true, [stream]) = (ends.ping_pong, &streams[..]) {
        answer(stream, ends.size.unwrap_or(CALL)).map_err(Failure::while_doing("stream"))?;
        return Ok(tally.account());
    }
    let readers: Vec<_> = streams
        .into_iter()
        .map(|stream| {
            let tally = Arc::clone(&tally);
            thread::spawn(move || drain(stream, &tally, time))
        })
        .collect();
    for reader in readers {
        // A stream whose link is cut ends by its time-out, and what it has brought counts.
        let _ = reader.join();
    }
    Ok(tally.account())
}

fn drain(mut stream: TcpStream, tally: &Tally, time: Duration) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut buffer = vec![0; CALL];
    let end = tally.first_step + ((time + PATIENCE).as_micros() / STEP.as_micros()) as u64;
    while step_now() < end {
        match stream.read(&mut buffer)? {
            0 => break,
            count => tally.add(count as u64),
        }
    }
    Ok(())
}

/// Answers each message by one of the same size, until the peer closes.
fn answer(mut stream: &TcpStream, size: usize) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = vec![0; size];
    loop {
        match stream.read_exact(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            outcome => outcome?,
        }
        stream.write_all(&buffer)?;
    }
}

fn send_streams(ends: &Ends) -> Result<Account, Failure> {
    let tally = Tally::begin(ends.time());
    let (end, size) = (last_step(&tally, ends.time()), ends.size.unwrap_or(CALL));
    let mut writers = Vec::new();
    for at in &ends.at {
        let socket = socket(ends, *at)?;
        socket.connect(&(*at).into()).map_err(Failure::while_doing(format!("cannot connect to {at}")))?;
        set_congestion(&socket, ends)?;
        check_congestion(&socket, ends)?;
        if ends.ping_pong {
            let trips = ping_stream(socket.into(), &tally, end, size)?;
            return Ok(Account { half_round_trips: Some(trips), ..tally.account() });
        }
        writers.push(thread::spawn(move || pour(socket.into(), end, size)));
    }
    for writer in writers {
        let _ = writer.join();
    }
    Ok(tally.account())
}

fn ping_stream(mut stream: TcpStream, tally: &Tally, end: u64, size: usize) -> Result<Histogram, Failure> {
    let cannot = || Failure::while_doing("stream");
    stream.set_nodelay(true).map_err(cannot())?;
    let (message, mut answer) = (vec![0x5a; size], vec![0; size]);
    ping(tally, end, size, || {
        stream.write_all(&message).and_then(|()| stream.read_exact(&mut answer)).map_err(cannot())
    })
}

fn pour(mut stream: TcpStream, end: u64, size: usize) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let buffer = vec![0x5a; size];
    while step_now() < end {
        stream.write_all(&buffer)?;
    }
    Ok(())
}
