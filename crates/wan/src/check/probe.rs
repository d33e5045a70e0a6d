//! The process that sends or receives in a host of the lab, driven through standard input and output: one line of JSON
//! says what to do, and it answers with one or two. A receiver ends when its standard input does.

use std::ffi::OsString;
use std::io::{self, BufRead, IoSliceMut, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::prctl;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use socket2::{Domain, SockRef, Socket, Type};
use weft_driver::allowed_processors;

use super::samples::{Flow, Stream};
use crate::error::WanError;

/// What its answers begin with, so that whatever else the program writes is not taken for one.
pub(crate) const ANSWER: &str = "weft-wan-check: ";
/// What it answers when packets may come.
pub(crate) const READY: &str = "\"ready\"";

/// What it is to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Receive numbered datagrams; a [`Stream`] is the answer.
    Receive { local: SocketAddr },
    /// Send them, with this many bytes of IP each; how many were sent is the answer.
    Pace { remote: SocketAddr, packets: u32, gap_ns: u64, bytes: usize },
    /// Receive a stream of TCP; a [`Flow`] is the answer. `is_second`: a short one comes before.
    Drain { local: SocketAddr, is_second: bool },
    /// Send one for this long; [`Filled`] is the answer.
    Fill { remote: SocketAddr, control: Option<String>, lasts: Duration, is_second: bool },
    /// Receive datagrams and count their bytes; a [`Flow`] is the answer.
    Count { local: SocketAddr },
    /// Send datagrams as fast as it goes for this long; how many were sent is the answer.
    Flood { remote: SocketAddr, lasts: Duration },
}

/// What a stream of TCP was sent with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Filled {
    /// Bytes of payload in a segment.
    pub(crate) segment_bytes: u32,
    /// Whether this kernel lacks the congestion control that was wanted.
    pub(crate) lacks_control: bool,
}

/// Headers of IPv4 and UDP.
const HEADERS: usize = 28;
/// Bytes of a datagram that have its number and the time.
const STAMP: usize = 16;
/// Bytes of payload of a datagram that fills a link.
const FULL: usize = 1500 - HEADERS;
/// Room that a socket asks for, in bytes. The kernel may give less (sysctl net.core.rmem_max).
const BUFFER: usize = 8 << 20;
/// How often a receiver to which nothing comes sees whether it is to end.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// How far the points of a flow are apart.
const POINT: Duration = Duration::from_millis(10);
/// How late the kernel may fire a timer of this thread, in nanoseconds.
const TIMER_SLACK_NS: u64 = 1;
/// How long the next hop may take to say its address.
const FIND: Duration = Duration::from_millis(150);
/// Datagrams that are sent between two reads of the clock.
const BATCH: usize = 64;

/// Does what standard input says, in a host of a lab that a check has made.
///
/// # Errors
/// Standard input says what is not understood, or the operating system refused something.
pub fn serve_probe() -> Result<(), WanError> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).map_err(WanError::while_doing("standard input"))?;
    let order: Order = serde_json::from_str(&line)
        .map_err(|error| WanError::Impossible(format!("this is nothing to send or receive: {error}")))?;
    // Without it paces are less even.
    let _ = prctl::set_timerslack(TIMER_SLACK_NS);
    if matches!(order, Order::Receive { .. } | Order::Pace { .. }) {
        leave_a_processor();
    }
    obey(order).map_err(WanError::while_doing("cannot send or receive"))
}

/// Stays on the first processor, where there are more: then the emulator has one for itself, as it would where sender
/// and receiver are other machines.
fn leave_a_processor() {
    let [first, _, ..] = allowed_processors()[..] else { return };
    let mut one = CpuSet::new();
    if one.set(first as usize).is_ok() {
        // If the system refuses, paces are less even.
        let _ = sched_setaffinity(Pid::from_raw(0), &one);
    }
}

fn obey(order: Order) -> io::Result<()> {
    match order {
        Order::Receive { local } => say(&receive(local)?),
        Order::Pace { remote, packets, gap_ns, bytes } => say(&pace(remote, packets, gap_ns, bytes)?),
        Order::Drain { local, is_second } => say(&drain(local, is_second)?),
        Order::Fill { remote, control, lasts, is_second } => {
            if is_second {
                introduce(remote)?;
            }
            say(&fill(remote, control, lasts)?)
        }
        Order::Count { local } => say(&count(local)?),
        Order::Flood { remote, lasts } => say(&flood(remote, lasts)?),
    }
}

fn say<T: Serialize>(what: &T) -> io::Result<()> {
    say_line(&serde_json::to_string(what)?)
}

fn say_line(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{ANSWER}{line}")?;
    out.flush()
}

/// Says that packets may come, and becomes true when standard input ends.
fn ready() -> io::Result<Arc<AtomicBool>> {
    let is_over = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&is_over);
    thread::spawn(move || {
        // An error is an end, too.
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        told.store(true, Ordering::Relaxed);
    });
    say_line(READY)?;
    Ok(is_over)
}

/// The time of day, which the kernel stamps packets with.
fn now_ns() -> io::Result<u64> {
    Ok(nanos(clock_gettime(ClockId::CLOCK_REALTIME)?))
}

fn nanos(time: TimeSpec) -> u64 {
    time.tv_sec().unsigned_abs() * 1_000_000_000 + time.tv_nsec().unsigned_abs()
}

fn receiver(local: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(local)?;
    SockRef::from(&socket).set_recv_buffer_size(BUFFER)?;
    socket.set_read_timeout(Some(CHECK_INTERVAL))?;
    Ok(socket)
}

fn is_empty(error: Errno) -> bool {
    matches!(error, Errno::EAGAIN | Errno::EINTR)
}

fn receive(local: SocketAddr) -> io::Result<Stream> {
    let socket = receiver(local)?;
    setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?;
    setsockopt(&socket, sockopt::RxqOvfl, &1)?;
    let (mut stream, mut bytes) = (Stream::default(), [0; 2048]);
    let mut control = nix::cmsg_space!(TimeSpec, u32);
    let is_over = ready()?;
    while !is_over.load(Ordering::Relaxed) {
        let mut pieces = [IoSliceMut::new(&mut bytes)];
        let message = recvmsg::<()>(socket.as_raw_fd(), &mut pieces, Some(&mut control), MsgFlags::empty());
        let (length, came) = match message {
            Err(error) if is_empty(error) => continue,
            Err(error) => return Err(error.into()),
            Ok(message) => {
                let mut came = None;
                for control in message.cmsgs()? {
                    match control {
                        ControlMessageOwned::ScmTimestampns(time) => came = Some(nanos(time)),
                        ControlMessageOwned::RxqOvfl(missed) => stream.missed = missed.into(),
                        _ => (),
                    }
                }
                (message.bytes, came)
            }
        };
        let number = |at: usize| u64::from_be_bytes(core::array::from_fn(|index| bytes[at + index]));
        if length < STAMP {
            continue;
        }
        stream.numbers.push(number(0));
        stream.sent_ns.push(number(8));
        stream.came_ns.push(came.map_or_else(now_ns, Ok)?);
        stream.bytes += (length + HEADERS) as u64;
    }
    Ok(stream)
}

fn sender(remote: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    SockRef::from(&socket).set_send_buffer_size(BUFFER)?;
    socket.connect(remote)?;
    Ok(socket)
}

fn pace(remote: SocketAddr, packets: u32, gap_ns: u64, bytes: usize) -> io::Result<u64> {
    let socket = sender(remote)?;
    // The address of the next hop is resolved before, so that no packet waits for it. To this port nothing listens.
    let _ = socket.send(&[]);
    thread::sleep(FIND);
    let mut datagram = vec![0; bytes.saturating_sub(HEADERS).max(STAMP)];
    let begun = Instant::now();
    let mut sent = 0;
    for number in 0..u64::from(packets) {
        let due = Duration::from_nanos(gap_ns * number);
        if let Some(left) = due.checked_sub(begun.elapsed()) {
            thread::sleep(left);
        }
        datagram[..8].copy_from_slice(&number.to_be_bytes());
        datagram[8..STAMP].copy_from_slice(&now_ns()?.to_be_bytes());
        socket.send(&datagram)?;
        sent += 1;
    }
    Ok(sent)
}

fn drain(local: SocketAddr, is_second: bool) -> io::Result<Flow> {
    let listener = TcpListener::bind(local)?;
    let is_over = ready()?;
    if is_second {
        io::copy(&mut listener.accept()?.0, &mut io::sink())?;
    }
    let (mut stream, _) = listener.accept()?;
    stream.set_read_timeout(Some(CHECK_INTERVAL))?;
    let mut buffer = vec![0; 1 << 18];
    points(&is_over, || match stream.read(&mut buffer) {
        Ok(0) => Ok(None),
        Ok(length) => Ok(Some(length as u64)),
        Err(error) => waited(error),
    })
}

fn count(local: SocketAddr) -> io::Result<Flow> {
    let socket = receiver(local)?;
    let is_over = ready()?;
    let mut buffer = [0; 2048];
    points(&is_over, || match socket.recv(&mut buffer) {
        Ok(length) => Ok(Some((length + HEADERS) as u64)),
        Err(error) => waited(error),
    })
}

/// Nothing has come by now, or it has failed.
fn waited(error: io::Error) -> io::Result<Option<u64>> {
    let is_nothing = [io::ErrorKind::WouldBlock, io::ErrorKind::TimedOut, io::ErrorKind::Interrupted];
    if is_nothing.contains(&error.kind()) { Ok(Some(0)) } else { Err(error) }
}

/// What `next` says that has come, until it says that this is all, or standard input has ended.
fn points(is_over: &AtomicBool, mut next: impl FnMut() -> io::Result<Option<u64>>) -> io::Result<Flow> {
    let mut flow = Flow::default();
    let (mut begun, mut told, mut bytes) = (None, Duration::ZERO, 0);
    while !is_over.load(Ordering::Relaxed) {
        let Some(more) = next()? else { break };
        if more == 0 {
            continue;
        }
        bytes += more;
        let begun: Instant = *begun.get_or_insert_with(Instant::now);
        let since = begun.elapsed();
        if flow.points.is_empty() || since - told >= POINT {
            told = since;
            flow.points.push((u64::try_from(since.as_nanos()).unwrap_or(u64::MAX), bytes));
        }
    }
    Ok(flow)
}

/// A short stream. The kernel keeps what it has found of the way there, and with it what the route says of windows,
/// which it heeds of the next stream on (tcp_metrics).
fn introduce(remote: SocketAddr) -> io::Result<()> {
    let mut stream = TcpStream::connect(remote)?;
    stream.write_all(&[7; 1 << 14])?;
    stream.shutdown(Shutdown::Write)?;
    io::copy(&mut stream, &mut io::sink()).map(drop)
}

fn fill(remote: SocketAddr, control: Option<String>, lasts: Duration) -> io::Result<Filled> {
    let socket = Socket::new(Domain::for_address(remote), Type::STREAM, None)?;
    let control = control.map(OsString::from);
    let lacks_control = control.is_some_and(|control| setsockopt(&socket, sockopt::TcpCongestion, &control).is_err());
    socket.connect(&remote.into())?;
    let mut stream = TcpStream::from(socket);
    stream.set_write_timeout(Some(CHECK_INTERVAL))?;
    let (begun, block) = (Instant::now(), vec![7; 1 << 16]);
    while begun.elapsed() < lasts {
        if let Err(error) = stream.write(&block) {
            waited(error)?;
        }
    }
    let segment_bytes = nix::sys::socket::getsockopt(&stream, sockopt::TcpMaxSeg)?;
    Ok(Filled { segment_bytes, lacks_control })
}

fn flood(remote: SocketAddr, lasts: Duration) -> io::Result<u64> {
    let socket = sender(remote)?;
    let (begun, datagram) = (Instant::now(), [7; FULL]);
    let mut sent = 0;
    while begun.elapsed() < lasts {
        // What an interface has no room for is not sent.
        sent += (0..BATCH).filter(|_| socket.send(&datagram).is_ok()).count() as u64;
    }
    Ok(sent)
}
