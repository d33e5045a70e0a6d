//! Computation beside a transfer: what fits into the kernel's buffer is in flight while the program computes; the rest,
//! and the answer, need the program.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;

use crate::contestants::overlap::{CALLS_IN_EVERY_US, Insertion, Ratio, Search, Transfer};
use crate::contestants::sockets::exchange::{READ_BYTES, write_all};
use crate::host::work::Work;
use crate::model::job::{Job, Target, Wait};
use crate::model::measure::{Measured, Watch};

/// Finds out how much computation fits.
pub(crate) fn search(stream: &mut TcpStream, job: &Job) -> io::Result<Measured> {
    Search::new(job).run(&mut Exchange::new(stream, job)?)
}

/// Computes beside each message.
pub(crate) fn ratio(stream: &mut TcpStream, job: &Job) -> io::Result<Measured> {
    Ratio::new(job).run(&mut Exchange::new(stream, job)?)
}

/// Streams with computation after each message.
pub(crate) fn insert(stream: &mut TcpStream, job: &Job) -> io::Result<Measured> {
    Insertion::new(job).run(&mut Exchange::new(stream, job)?)
}

/// Messages out, a byte back for each.
struct Exchange<'a> {
    stream: &'a mut TcpStream,
    message: Vec<u8>,
    /// Bytes that are posted and not written.
    unwritten: u64,
    posted: u64,
    answered: u64,
    block: bool,
}

impl<'a> Exchange<'a> {
    fn new(stream: &'a mut TcpStream, job: &Job) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let message = vec![0x5a; job.size];
        Ok(Self { stream, message, unwritten: 0, posted: 0, answered: 0, block: job.wait == Wait::Block })
    }

    /// Writes what the kernel takes. Whether it takes more is another question.
    fn push(&mut self) -> io::Result<()> {
        while self.unwritten > 0 {
            let length = self.message.len() as u64;
            let at = ((length - self.unwritten % length) % length) as usize;
            match self.stream.write(&self.message[at..]) {
                Ok(count) => self.unwritten -= count as u64,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn take_answers(&mut self) -> io::Result<()> {
        match self.stream.read(&mut [0; 256]) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                self.answered += count as u64;
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error),
        }
    }
}

impl Transfer for Exchange<'_> {
    type Error = io::Error;

    fn post(&mut self) -> io::Result<()> {
        self.unwritten += self.message.len() as u64;
        self.posted += 1;
        self.push()
    }

    fn poll(&mut self) -> io::Result<()> {
        self.push()?;
        self.take_answers()
    }

    fn under_way(&self) -> u64 {
        self.posted - self.answered
    }

    fn finish(&mut self, most: u64) -> io::Result<()> {
        self.stream.set_nonblocking(!self.block)?;
        while self.under_way() > most {
            self.poll()?;
        }
        self.stream.set_nonblocking(true)
    }

    fn wait_blocking(&mut self, block: bool) {
        self.block = block;
    }

    fn end(&mut self) -> io::Result<()> {
        self.stream.shutdown(std::net::Shutdown::Write)
    }
}

/// The passive side: a byte for each message, until no more come.
pub(crate) fn answer(stream: &mut TcpStream, job: &Job) -> io::Result<Measured> {
    let mut buffer = vec![0; READ_BYTES];
    let work = Work::calibrate();
    let computes = job.target == Target::Computing;
    stream.set_nonblocking(computes || job.wait == Wait::Spin)?;
    let watch = Watch::start();
    let (mut received, mut answered) = (0, 0);
    loop {
        if computes {
            work.compute(CALLS_IN_EVERY_US, || {});
        }
        received += match take(stream, &mut buffer, computes)? {
            Some(count) => count,
            None => break,
        };
        while answered < received / job.size as u64 {
            write_all(stream, &[0])?;
            answered += 1;
        }
    }
    // What computes uses a whole core for that.
    let cpu = (!computes).then(|| watch.cpu_s_per_gb(received));
    Ok(Measured { cpu_s_per_gb: cpu, ..Measured::default() })
}

/// Takes what is there; without `all`, one read of it. `None` at the end.
fn take(stream: &mut TcpStream, buffer: &mut [u8], all: bool) -> io::Result<Option<u64>> {
    let mut taken = 0;
    loop {
        match stream.read(buffer) {
            Ok(0) => return Ok((taken > 0).then_some(taken)),
            Ok(count) => taken += count as u64,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Some(taken)),
            Err(error) => return Err(error),
        }
        if !all {
            return Ok(Some(taken));
        }
    }
}
