//! Streams on plain sockets beside a computation: a thread of the server's application reads them all.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::{self, JoinHandle};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::contestants::carry::{self, Carried, Offered};
use crate::contestants::sockets::exchange::{READ_BYTES, write_all};
use crate::model::job::Job;
use crate::model::measure::Measured;

/// Connects all streams, the first before the others: on it the server tells the phase.
pub(crate) fn connect(job: &Job, connect: impl Fn() -> io::Result<TcpStream> + Sync) -> io::Result<Vec<TcpStream>> {
    let mut streams = vec![connect()?];
    // At a distance each takes a round trip.
    let others: Vec<_> = thread::scope(|scope| {
        let begun: Vec<_> = (1..job.connections).map(|_| scope.spawn(&connect)).collect();
        begun.into_iter().map(|one| one.join().unwrap_or_else(|_| Err(ErrorKind::Other.into()))).collect()
    });
    for stream in others {
        streams.push(stream?);
    }
    Ok(streams)
}

/// Accepts all streams.
pub(crate) fn accept(job: &Job, listener: &TcpListener) -> io::Result<Vec<TcpStream>> {
    let accept = |_| listener.accept().map(|(stream, _): (TcpStream, SocketAddr)| stream);
    (0..job.connections).map(accept).collect()
}

/// The client: offers the load.
pub(crate) fn offer(streams: Vec<TcpStream>, job: &Job) -> io::Result<Measured> {
    streams.iter().try_for_each(|stream| stream.set_nonblocking(true))?;
    let unsent = vec![(0, 0); streams.len()];
    let mut offered = Sender { streams, message: vec![0; job.size], told: carry::NONE, unsent };
    let measured = carry::offer(job, &mut offered)?;
    offered.streams.iter().try_for_each(|stream| stream.shutdown(Shutdown::Write))?;
    Ok(measured)
}

/// The server: computes, and a thread of it reads meanwhile.
pub(crate) fn serve(streams: Vec<TcpStream>, job: &Job) -> io::Result<Measured> {
    let phase = Arc::new(AtomicU8::new(carry::NONE));
    let told = streams[0].try_clone()?;
    let reader = thread::spawn({
        let phase = Arc::clone(&phase);
        move || read_all(&streams, &phase)
    });
    let mut receiver = Receiver { told, phase, reader: Some(reader) };
    let measured = carry::serve(job, &mut receiver)?;
    receiver.end()?;
    Ok(measured)
}

/// Streams that are written.
struct Sender {
    streams: Vec<TcpStream>,
    message: Vec<u8>,
    told: u8,
    /// Of each stream: bytes of its last message that it has not taken yet, and which byte they are.
    unsent: Vec<(usize, u8)>,
}

impl Sender {
    /// Writes what is left of a stream's last message. Returns whether nothing is left.
    fn push(&mut self, stream: usize) -> io::Result<bool> {
        let (left, phase) = self.unsent[stream];
        if left > 0 {
            if self.message[0] != phase {
                self.message.fill(phase);
            }
            match self.streams[stream].write(&self.message[..left]) {
                Ok(count) => self.unsent[stream].0 -= count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(self.unsent[stream].0 == 0)
    }
}

impl Offered for Sender {
    type Error = io::Error;

    fn told(&mut self) -> io::Result<u8> {
        let mut words = [0; 64];
        match self.streams[0].read(&mut words) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => self.told = words[count - 1],
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        Ok(self.told)
    }

    fn send(&mut self, stream: usize, phase: u8) -> io::Result<bool> {
        let has_room = self.push(stream)?;
        if has_room {
            self.unsent[stream] = (self.message.len(), phase);
            self.push(stream)?;
        }
        Ok(has_room)
    }

    fn drain(&mut self) -> io::Result<()> {
        for stream in 0..self.streams.len() {
            while !self.push(stream)? {}
        }
        Ok(())
    }
}

/// Streams that are read by a thread.
struct Receiver {
    told: TcpStream,
    phase: Arc<AtomicU8>,
    reader: Option<JoinHandle<io::Result<()>>>,
}

impl Receiver {
    /// Waits until the client has ended its streams.
    fn end(&mut self) -> io::Result<()> {
        let reader = self.reader.take().map(JoinHandle::join);
        reader.unwrap_or(Ok(Ok(()))).unwrap_or_else(|_| Err(io::Error::other("the thread that reads panicked")))
    }
}

impl Carried for Receiver {
    type Error = io::Error;

    fn tell(&mut self, phase: u8) -> io::Result<()> {
        write_all(&mut self.told, &[phase])
    }

    fn phase(&mut self) -> io::Result<u8> {
        if self.reader.as_ref().is_some_and(JoinHandle::is_finished) {
            self.end()?;
            return Err(ErrorKind::UnexpectedEof.into());
        }
        Ok(self.phase.load(Ordering::Acquire))
    }
}

/// Reads all streams until they end; asleep while nothing comes.
fn read_all(streams: &[TcpStream], phase: &AtomicU8) -> io::Result<()> {
    let mut buffer = vec![0; READ_BYTES];
    let mut ready: Vec<_> = streams.iter().map(|stream| PollFd::new(stream.as_fd(), PollFlags::POLLIN)).collect();
    let mut open = streams.len();
    while open > 0 {
        poll(&mut ready, PollTimeout::NONE)?;
        for (at, mut stream) in streams.iter().enumerate() {
            if !ready[at].any().unwrap_or(true) {
                continue;
            }
            match stream.read(&mut buffer)? {
                0 => {
                    ready[at].set_events(PollFlags::empty());
                    open -= 1;
                }
                count if at == 0 => phase.store(buffer[count - 1], Ordering::Release),
                _ => {}
            }
        }
    }
    Ok(())
}
