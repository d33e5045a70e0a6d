//! Both ways at once.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::thread;

use crate::contestants::sockets::exchange::{READ_BYTES, read_exact, write_all};
use crate::model::job::{Job, Wait};
use crate::model::measure::{Measured, Watch};

/// Sends as many messages as it receives.
///
/// With large messages in flight both ways, a side of `ping` could wait for room while the other does: neither reads.
/// So here reads and writes take turns, or have a thread each.
pub(crate) fn run(stream: &mut TcpStream, job: &Job) -> io::Result<Measured> {
    let message = vec![0x5a; job.size];
    let mut buffer = vec![0; READ_BYTES];
    both_ways(stream, job, &message, &mut buffer, job.warmup)?;
    let watch = Watch::start();
    both_ways(stream, job, &message, &mut buffer, job.iterations)?;
    let value = 2.0 * job.bytes() as f64 / 1e9 / watch.seconds();
    Ok(Measured { value: Some(value), cpu_s_per_gb: Some(watch.cpu_s_per_gb(2 * job.bytes())), ..Measured::default() })
}

fn both_ways(stream: &mut TcpStream, job: &Job, message: &[u8], buffer: &mut [u8], count: u64) -> io::Result<()> {
    match job.wait {
        Wait::Spin => in_turns(stream, message, buffer, count),
        Wait::Block => at_once(stream, message, buffer, count),
    }?;
    // Neither side begins to measure before the other has it all.
    write_all(stream, &[0])?;
    read_exact(stream, &mut [0])
}

fn in_turns(stream: &mut TcpStream, message: &[u8], buffer: &mut [u8], count: u64) -> io::Result<()> {
    let bytes = count * message.len() as u64;
    let (mut sent, mut received) = (0, 0);
    while sent < bytes || received < bytes {
        if sent < bytes {
            let at = (sent % message.len() as u64) as usize;
            sent += unless_blocked(stream.write(&message[at..]))?;
        }
        if received < bytes {
            let most = buffer.len().min(usize::try_from(bytes - received).unwrap_or(usize::MAX));
            received += unless_blocked(stream.read(&mut buffer[..most]))?;
        }
    }
    Ok(())
}

/// Bytes moved, none when it would have to wait.
fn unless_blocked(moved: io::Result<usize>) -> io::Result<u64> {
    match moved {
        Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
        Ok(count) => Ok(count as u64),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
        Err(error) => Err(error),
    }
}

fn at_once(stream: &mut TcpStream, message: &[u8], buffer: &mut [u8], count: u64) -> io::Result<()> {
    let mut writer = stream.try_clone()?;
    thread::scope(|scope| {
        let sending = scope.spawn(move || (0..count).try_for_each(|_| write_all(&mut writer, message)));
        let mut left = count * message.len() as u64;
        while left > 0 {
            let most = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            left -= unless_blocked(stream.read(&mut buffer[..most]))?;
        }
        sending.join().map_err(|_| io::Error::from(ErrorKind::Other))?
    })
}
