//! Latency and bandwidth beside plain TCP between the same two processes, in turns; what counts is the median of the
//! turns.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use weft::verbs::{Access, MemoryRegion, WorkRequest};

use crate::talk::{Answer, Ask, MESSAGE_BYTES, PING, Windows, ask, demand, receive, say, unexpected};
use weft_command::connection::{Link, LinkError, failed};
use weft_command::failure::Failure;

/// How often each measurement is made.
const TURNS: usize = 3;

/// Messages in flight in the bandwidth tests.
const DEPTH: usize = 8;

/// Bytes of a write, and of a read, of plain TCP.
const TCP_WRITE_BYTES: usize = 256 << 10;
pub(crate) const TCP_READ_BYTES: usize = 256 << 10;

/// How long TCP may stall.
const TCP_PATIENCE: Duration = Duration::from_secs(10);

/// Medians. Latencies are halves of a round trip, in microseconds; rates are in 10^9 bytes per second.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measured {
    pub(crate) latency: f64,
    pub(crate) tcp_latency: Option<f64>,
    pub(crate) write: f64,
    pub(crate) read: f64,
    pub(crate) tcp_rate: Option<f64>,
    /// Why there is no TCP to compare with.
    pub(crate) no_tcp: Option<String>,
}

/// A time for the command line.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.001..=60.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("write seconds, from 0.001 to 60".into()),
    }
}

/// Measures everything.
pub(crate) fn run(link: &Link, windows: &Windows, time: Duration) -> Result<Measured, Failure> {
    let region = |access| {
        link.domain.register(vec![0x5a; MESSAGE_BYTES as usize], access).map_err(failed("cannot register memory"))
    };
    let bench = Bench {
        link,
        windows,
        source: region(Access::LOCAL_READ)?,
        sink: region(Access::LOCAL_WRITE | Access::REMOTE_WRITE)?,
        time,
    };
    let bar = bar();
    let (tcp, no_tcp) = match bench.tcp_address() {
        Ok(address) => (Some(address), None),
        Err(LinkError::Interrupted) => return Err(Failure::Interrupted),
        Err(error) => (None, Some(error.to_string())),
    };
    let measured = bench.turns(tcp, &bar).map_err(|error| error.during("measurement"));
    bar.finish_and_clear();
    Ok(Measured { no_tcp, ..measured? })
}

struct Bench<'a> {
    link: &'a Link,
    windows: &'a Windows,
    source: MemoryRegion,
    sink: MemoryRegion,
    time: Duration,
}

impl Bench<'_> {
    fn turns(&self, tcp: Option<SocketAddr>, bar: &ProgressBar) -> Result<Measured, LinkError> {
        let mut results: [Vec<f64>; 5] = Default::default();
        for _ in 0..TURNS {
            let [latency, tcp_latency, write, read, tcp_rate] = &mut results;
            bar.set_message("latency");
            latency.push(self.latency()?);
            bar.inc(1);
            if let Some(address) = tcp {
                tcp_latency.push(self.tcp_latency(address)?);
            }
            bar.set_message("bandwidth");
            bar.inc(1);
            write.push(self.writes()?);
            bar.inc(1);
            read.push(self.reads()?);
            bar.inc(1);
            if let Some(address) = tcp {
                tcp_rate.push(self.tcp_rate(address)?);
            }
            bar.inc(1);
        }
        let [latency, tcp_latency, write, read, tcp_rate] = results.map(|mut turns| median(&mut turns));
        Ok(Measured {
            latency: latency.unwrap_or_default(),
            tcp_latency,
            write: write.unwrap_or_default(),
            read: read.unwrap_or_default(),
            tcp_rate,
            no_tcp: None,
        })
    }

    fn tcp_address(&self) -> Result<SocketAddr, LinkError> {
        let mut address = self.link.info()?.remote;
        match ask(self.link, &Ask::Listen)? {
            Answer::Port(port) => address.set_port(port),
            other => return Err(unexpected(&other)),
        }
        Ok(address)
    }

    fn latency(&self) -> Result<f64, LinkError> {
        say(self.link, &Ask::Echo)?;
        pings(self.time, |ping| {
            self.link.send(ping)?;
            self.link.receive_spinning(ping).map(|_| ())
        })
    }

    fn tcp_latency(&self, address: SocketAddr) -> Result<f64, LinkError> {
        say(self.link, &Ask::TcpEcho)?;
        let half = tcp_pings(address, self.time).map_err(tcp_failed)?;
        self.done()?;
        Ok(half)
    }

    /// RDMA Writes of [`MESSAGE_BYTES`], until the peer has them all.
    fn writes(&self) -> Result<f64, LinkError> {
        let slice = self.source.slice(..).map_err(|error| LinkError::Broken(error.to_string()))?;
        self.stream(|target| WorkRequest::write(slice, self.windows.at(target)), || demand(self.link, &Ask::Fence))
    }

    fn reads(&self) -> Result<f64, LinkError> {
        let slice = self.sink.slice(..).map_err(|error| LinkError::Broken(error.to_string()))?;
        self.stream(|source| WorkRequest::read(slice, self.windows.at(source)), || Ok(()))
    }

    fn stream(
        &self,
        request: impl Fn(usize) -> WorkRequest,
        arrived: impl FnOnce() -> Result<(), LinkError>,
    ) -> Result<f64, LinkError> {
        let start = Instant::now();
        let (mut posted, mut finished) = (0_u64, 0_u64);
        while start.elapsed() < self.time {
            while posted - finished < DEPTH as u64 {
                self.link.post(request(posted as usize % self.windows.count()))?;
                posted += 1;
            }
            self.link.finish()?;
            finished += 1;
        }
        while finished < posted {
            self.link.finish()?;
            finished += 1;
        }
        arrived()?;
        Ok((posted * MESSAGE_BYTES) as f64 / 1e9 / start.elapsed().as_secs_f64())
    }

    fn tcp_rate(&self, address: SocketAddr) -> Result<f64, LinkError> {
        say(self.link, &Ask::TcpDrain)?;
        let rate = tcp_pour(address, self.time).map_err(tcp_failed)?;
        self.done()?;
        Ok(rate)
    }

    fn done(&self) -> Result<(), LinkError> {
        match receive(self.link)? {
            Answer::Done => Ok(()),
            other => Err(unexpected(&other)),
        }
    }
}

fn tcp_failed(error: io::Error) -> LinkError {
    LinkError::Broken(format!("plain TCP beside it failed: {error}"))
}

/// Half of the median round trip, in microseconds. The last ping is zero: it ends the echo.
fn pings<E>(time: Duration, mut round_trip: impl FnMut(&mut [u8; PING]) -> Result<(), E>) -> Result<f64, E> {
    let mut trips = Vec::with_capacity(1 << 16);
    let end = Instant::now() + time;
    let mut last = Instant::now();
    let mut over = false;
    while !over {
        over = last >= end;
        round_trip(&mut if over { [0; PING] } else { [0x5a; PING] })?;
        let now = Instant::now();
        trips.push((now - last).as_secs_f64() * 1e6 / 2.0);
        last = now;
    }
    Ok(median(&mut trips).unwrap_or_default())
}

fn tcp_pings(address: SocketAddr, time: Duration) -> io::Result<f64> {
    let mut stream = tcp_connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    pings(time, |ping| {
        write_all(&mut stream, ping)?;
        read_exact(&mut stream, ping)
    })
}

fn tcp_pour(address: SocketAddr, time: Duration) -> io::Result<f64> {
    let mut stream = tcp_connect(address)?;
    stream.set_read_timeout(Some(TCP_PATIENCE))?;
    stream.set_write_timeout(Some(TCP_PATIENCE))?;
    let message = vec![0x5a; TCP_WRITE_BYTES];
    let start = Instant::now();
    let mut bytes = 0;
    while start.elapsed() < time {
        stream.write_all(&message)?;
        bytes += message.len();
    }
    stream.shutdown(Shutdown::Write)?;
    stream.read_exact(&mut [0])?;
    Ok(bytes as f64 / 1e9 / start.elapsed().as_secs_f64())
}

fn tcp_connect(address: SocketAddr) -> io::Result<TcpStream> {
    TcpStream::connect_timeout(&address, TCP_PATIENCE)
}

/// Writes all of it to a non-blocking stream; it spins.
pub(crate) fn write_all(stream: &mut TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    let start = Instant::now();
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => still_in_time(start)?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Fills the buffer from a non-blocking stream; it spins.
pub(crate) fn read_exact(stream: &mut TcpStream, buffer: &mut [u8]) -> io::Result<()> {
    let start = Instant::now();
    let mut filled = 0;
    while filled < buffer.len() {
        match stream.read(&mut buffer[filled..]) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => filled += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => still_in_time(start)?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn still_in_time(start: Instant) -> io::Result<()> {
    if start.elapsed() < TCP_PATIENCE { Ok(()) } else { Err(ErrorKind::TimedOut.into()) }
}

fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// A bar on standard error, when that is a terminal.
fn bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{msg:10} {bar:40} {pos} of {len}").expect("the template is well formed");
    ProgressBar::new(TURNS as u64 * 5).with_style(style)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ping_is_zero() {
        let mut sent = Vec::new();
        let half = pings(Duration::ZERO, |ping| {
            sent.push(*ping);
            Ok::<_, ()>(())
        });
        assert_eq!(sent, [[0; PING]]);
        assert!(half.unwrap() >= 0.0);
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&mut []), None);
    }
}
