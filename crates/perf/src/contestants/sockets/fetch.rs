//! Requests to a server whose application computes before it answers: nothing else can answer for it.

use std::io::{self, ErrorKind};
use std::net::{Shutdown, TcpStream};

use crate::contestants::fetch;
use crate::contestants::sockets::exchange::{read_exact, write_all};
use crate::host::work::Work;
use crate::model::job::Job;
use crate::model::measure::Measured;

/// Bytes of a request: what names a piece of memory needs no less.
const REQUEST: usize = 16;

/// The client: asks, and waits for the answer.
pub(crate) fn request(stream: &mut TcpStream, job: &Job) -> io::Result<Measured> {
    let mut answer = vec![0; job.size];
    let measured = fetch::measure(job, || -> io::Result<()> {
        write_all(stream, &[0x5a; REQUEST])?;
        read_exact(stream, &mut answer)
    })?;
    stream.shutdown(Shutdown::Write)?;
    Ok(measured)
}

/// The server: computes, then answers, until no more requests come.
pub(crate) fn answer(stream: &mut TcpStream, job: &Job) -> io::Result<Measured> {
    let work = Work::calibrate();
    let answer = vec![0x5a; job.size];
    loop {
        match read_exact(stream, &mut [0; REQUEST]) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(Measured::default()),
            Err(error) => return Err(error),
        }
        work.compute(job.computation_us.into(), || {});
        write_all(stream, &answer)?;
    }
}
