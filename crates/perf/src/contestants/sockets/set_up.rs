//! Connections of TCP, one after the other, and a first message and its answer over each.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

use crate::contestants::set_up::SetUps;
use crate::model::job::Job;
use crate::model::measure::Measured;

pub(super) fn connect(job: &Job, connect: impl Fn() -> io::Result<TcpStream>) -> io::Result<Measured> {
    let mut set_ups = SetUps::new(job);
    let mut message = vec![0x5a; job.size];
    for _ in 0..job.warmup + job.iterations {
        let began = Instant::now();
        let mut stream = connect()?;
        let connected = Instant::now();
        stream.set_nodelay(true)?;
        stream.write_all(&message)?;
        stream.read_exact(&mut message)?;
        set_ups.add(began, Some(connected), Instant::now());
    }
    Ok(set_ups.finish())
}

pub(super) fn accept(listener: &TcpListener, job: &Job) -> io::Result<Measured> {
    let mut message = vec![0; job.size];
    for _ in 0..job.warmup + job.iterations {
        let (mut stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        stream.read_exact(&mut message)?;
        stream.write_all(&message)?;
    }
    Ok(Measured::default())
}
