//! What two ends of a stream of bytes do: a ping-pong, or a flood in one direction.

use std::io::{self, ErrorKind, Read, Write};

use crate::contestants::logp::Exchange;
use crate::contestants::sockets::variant::Variant;
use crate::model::job::{Job, Kind};
use crate::model::measure::{Figure, Measured, Parts, RoundTrips, Watch};

/// Bytes that a receiver asks for at a time.
pub(crate) const READ_BYTES: usize = 256 << 10;

pub(crate) fn ping(stream: &mut (impl Read + Write), job: &Job, variant: &Variant) -> io::Result<Measured> {
    let mut message = vec![0x5a; job.size];
    let mut trips = RoundTrips::new(job.warmup, job.iterations);
    for _ in 0..job.warmup + job.iterations {
        variant.check(&message);
        write_all(stream, &message)?;
        read_exact(stream, &mut message)?;
        variant.check(&message);
        trips.lap();
    }
    Ok(trips.finish(job.share_of_round_trip()))
}

pub(crate) fn pong(stream: &mut (impl Read + Write), job: &Job, variant: &Variant) -> io::Result<Measured> {
    let mut message = vec![0; job.size];
    for _ in 0..job.warmup + job.iterations {
        read_exact(stream, &mut message)?;
        variant.check(&message);
        variant.check(&message);
        write_all(stream, &message)?;
    }
    Ok(Measured::default())
}

pub(crate) fn pour(stream: &mut (impl Read + Write), job: &Job, variant: &Variant) -> io::Result<Measured> {
    let message = vec![0x5a; variant.write_bytes()];
    let first = Watch::start();
    send(stream, &message, job.warmup * job.size as u64, variant)?;
    let watch = Watch::start();
    send(stream, &message, job.bytes(), variant)?;
    let (seconds, with_start) = (watch.seconds(), job.bytes_with_start() as f64 / 1e9 / first.seconds());
    let value = match job.kind {
        Kind::Rate => job.iterations as f64 / seconds,
        _ => job.bytes() as f64 / 1e9 / seconds,
    };
    Ok(Measured {
        value: Some(value),
        cpu_s_per_gb: Some(watch.cpu_s_per_gb(job.bytes())),
        figures: [(Figure::WithStart, with_start), (Figure::ThroughKernel, 1.0)].into(),
        ..Measured::default()
    })
}

/// A stream whose two ends know how long each message is.
pub(crate) struct Messages<'a, S> {
    stream: &'a mut S,
    message: Vec<u8>,
}

impl<'a, S: Read + Write> Messages<'a, S> {
    pub(crate) fn new(stream: &'a mut S, job: &Job) -> Self {
        Self { stream, message: vec![0x5a; job.size] }
    }
}

impl<S: Read + Write> Exchange for Messages<'_, S> {
    type Error = io::Error;

    fn send(&mut self, bytes: usize) -> io::Result<()> {
        write_all(self.stream, &self.message[..bytes])
    }

    fn receive(&mut self, bytes: usize) -> io::Result<()> {
        read_exact(self.stream, &mut self.message[..bytes])
    }

    fn settle(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Sends this many bytes, and waits until the peer says that it has them.
fn send(stream: &mut (impl Read + Write), message: &[u8], mut bytes: u64, variant: &Variant) -> io::Result<()> {
    while bytes > 0 {
        let part = &message[..message.len().min(usize::try_from(bytes).unwrap_or(usize::MAX))];
        variant.check(part);
        write_all(stream, part)?;
        bytes -= part.len() as u64;
    }
    read_exact(stream, &mut [0])
}

pub(crate) fn drain(stream: &mut (impl Read + Write), job: &Job, variant: &Variant) -> io::Result<Measured> {
    let mut buffer = vec![0; READ_BYTES];
    let warmup = job.warmup * job.size as u64;
    receive(stream, &mut buffer, &mut Parts::start(warmup), warmup, variant)?;
    write_all(stream, &[0])?;
    let watch = Watch::start();
    let mut parts = Parts::start(job.bytes());
    receive(stream, &mut buffer, &mut parts, job.bytes(), variant)?;
    let cpu_s_per_gb = Some(watch.cpu_s_per_gb(job.bytes()));
    write_all(stream, &[0])?;
    let unit = if job.kind == Kind::Rate { job.size as f64 } else { 1e9 };
    let p99 = parts.slow().map(|bytes_per_second| bytes_per_second / unit);
    let figures = [(Figure::ThroughKernel, 1.0)].into();
    Ok(Measured { p99, cpu_s_per_gb, figures, ..Measured::default() })
}

fn receive(
    stream: &mut impl Read,
    buffer: &mut [u8],
    parts: &mut Parts,
    bytes: u64,
    variant: &Variant,
) -> io::Result<()> {
    let mut done = 0;
    while done < bytes {
        match stream.read(buffer) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                variant.check(&buffer[..count]);
                done += count as u64;
                parts.reach(done);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Writes all of it; on a non-blocking socket it spins.
pub(crate) fn write_all(stream: &mut impl Write, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Fills the buffer; on a non-blocking socket it spins.
pub(crate) fn read_exact(stream: &mut impl Read, buffer: &mut [u8]) -> io::Result<()> {
    let mut filled = 0;
    while filled < buffer.len() {
        match stream.read(&mut buffer[filled..]) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => filled += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
