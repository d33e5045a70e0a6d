//! Messages over the kernel's streams: one of multipath TCP, or one of TCP on each link. Over several, each message
//! goes where there is room, and the receiver keeps what comes early until its turn.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use socket2::{Domain, Protocol, Socket, Type};

use crate::experiments::cuts::message::sequence;
use crate::experiments::cuts::pipe::ends::{CHECK_INTERVAL, Operations, PATIENCE, Receiving, Sending};
use weft_command::failure::Failure;

/// Bytes of a credit.
const CREDIT: usize = 8;
/// Bytes that are read at a time.
const READ: usize = 64 << 10;
/// How long an end waits before it tries again.
const PAUSE: Duration = Duration::from_millis(1);

fn socket(is_multipath: bool, at: SocketAddr) -> Result<Socket, Failure> {
    let protocol = if is_multipath { Protocol::MPTCP } else { Protocol::TCP };
    Socket::new(Domain::for_address(at), Type::STREAM, Some(protocol))
        .map_err(Failure::while_doing("cannot make a socket"))
}

/// One stream, and what it has not taken or given as a whole yet.
struct Stream {
    socket: TcpStream,
    /// Which one it is, for people.
    name: String,
    /// What the socket has not taken yet.
    pending: Vec<u8>,
    /// What came, up to `filled`.
    buffer: Vec<u8>,
    filled: usize,
    has_ended: bool,
}

impl Stream {
    fn new(socket: TcpStream) -> Result<Self, Failure> {
        let cannot = || Failure::while_doing("cannot set up a socket");
        socket.set_nonblocking(true).and_then(|()| socket.set_nodelay(true)).map_err(cannot())?;
        let name = socket.peer_addr().map_err(cannot())?.to_string();
        Ok(Self { socket, name, pending: Vec::new(), buffer: vec![0; READ], filled: 0, has_ended: false })
    }

    fn lost(&self) -> impl FnOnce(io::Error) -> Failure {
        Failure::while_doing(format!("the stream with {}", self.name))
    }

    /// Bytes that the socket takes now.
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Failure> {
        match self.socket.write(bytes) {
            Err(error) if is_later(&error) => Ok(0),
            written => written.map_err(self.lost()),
        }
    }

    /// Whether nothing is pending any more.
    fn flush(&mut self) -> Result<bool, Failure> {
        if !self.pending.is_empty() {
            let pending = std::mem::take(&mut self.pending);
            let written = self.write(&pending)?;
            self.pending = pending[written..].to_vec();
        }
        Ok(self.pending.is_empty())
    }

    /// Hands over these bytes as a whole, unless there is no room for the first of them.
    fn send(&mut self, bytes: &[u8]) -> Result<bool, Failure> {
        if !self.flush()? {
            return Ok(false);
        }
        let written = self.write(bytes)?;
        if written > 0 {
            self.pending.extend(&bytes[written..]);
        }
        Ok(written > 0)
    }

    /// Reads what is there, and hands over each piece of `size` bytes.
    fn receive(&mut self, size: usize, mut take: impl FnMut(&[u8])) -> Result<(), Failure> {
        self.buffer.resize(READ.max(2 * size), 0);
        match self.socket.read(&mut self.buffer[self.filled..]) {
            Ok(0) => self.has_ended = true,
            Ok(count) => self.filled += count,
            Err(error) if is_later(&error) => {}
            Err(error) => return Err(self.lost()(error)),
        }
        let whole = self.filled / size * size;
        self.buffer[..whole].chunks(size).for_each(&mut take);
        self.buffer.copy_within(whole..self.filled, 0);
        self.filled -= whole;
        Ok(())
    }
}

fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Waits for a moment, at most until one has something, or has room where that is wanted.
fn wait(streams: &[Stream], wants_room: bool) -> Result<(), Failure> {
    let wanted = |stream: &Stream| {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::POLLIN, !stream.has_ended);
        flags.set(PollFlags::POLLOUT, wants_room || !stream.pending.is_empty());
        flags
    };
    let mut all: Vec<_> = streams
        .iter()
        // One that has ended would end each wait at once.
        .filter(|stream| !stream.has_ended || !stream.pending.is_empty())
        .map(|stream| PollFd::new(stream.socket.as_fd(), wanted(stream)))
        .collect();
    let timeout = PollTimeout::try_from(CHECK_INTERVAL).unwrap_or(PollTimeout::ZERO);
    match poll(&mut all, timeout) {
        Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
        Err(error) => Err(Failure::Runtime(format!("cannot wait for sockets: {error}"))),
    }
}

/// The sending end.
pub(crate) struct Sender {
    streams: Vec<Stream>,
    /// Which one is checked for room first.
    turn: usize,
    is_full: bool,
    credit: u64,
}

impl Sender {
    pub(crate) fn connect(is_multipath: bool, to: &[SocketAddr]) -> Result<Self, Failure> {
        let connect = |at: &SocketAddr| {
            let socket = socket(is_multipath, *at)?;
            socket
                .connect_timeout(&(*at).into(), PATIENCE)
                .map_err(Failure::while_doing(format!("cannot connect to {at}")))?;
            Stream::new(socket.into())
        };
        let streams = to.iter().map(connect).collect::<Result<_, _>>()?;
        Ok(Self { streams, turn: 0, is_full: false, credit: 0 })
    }

    fn take_credits(&mut self) -> Result<(), Failure> {
        let mut credit = self.credit;
        for stream in &mut self.streams {
            stream.receive(CREDIT, |word| {
                credit = credit.max(word.try_into().map_or(0, u64::from_le_bytes));
            })?;
        }
        self.credit = credit;
        Ok(())
    }
}

impl Sending for Sender {
    fn try_send(&mut self, _sequence: u64, message: &[u8]) -> Result<bool, Failure> {
        let count = self.streams.len();
        for place in (0..count).map(|after| (self.turn + after) % count) {
            if self.streams[place].send(message)? {
                self.turn = place + 1;
                return Ok(true);
            }
        }
        self.is_full = true;
        Ok(false)
    }

    fn wait(&mut self) -> Result<u64, Failure> {
        wait(&self.streams, std::mem::take(&mut self.is_full))?;
        for stream in &mut self.streams {
            stream.flush()?;
        }
        self.take_credits()?;
        if let Some(stream) = self.streams.iter().find(|stream| stream.has_ended) {
            return Err(Failure::Runtime(format!("{} closed its stream before the end", stream.name)));
        }
        Ok(self.credit)
    }

    fn close(mut self: Box<Self>) -> Result<Option<Operations>, Failure> {
        let until = Instant::now() + PATIENCE;
        let mut open: Vec<bool> = vec![true; self.streams.len()];
        while !self.streams.iter().all(|stream| stream.has_ended) {
            for (stream, is_open) in self.streams.iter_mut().zip(&mut open) {
                if stream.flush()? && std::mem::take(is_open) {
                    stream.socket.shutdown(Shutdown::Write).map_err(stream.lost())?;
                }
            }
            self.take_credits()?;
            if Instant::now() > until {
                return Err(Failure::Runtime(format!("the streams did not end within {PATIENCE:?}")));
            }
            std::thread::sleep(PAUSE);
        }
        Ok(None)
    }
}

/// The receiving end.
pub(crate) struct Receiver {
    streams: Vec<Stream>,
    size: usize,
    order: Order,
    /// The newest credit, and the credit that each stream got last.
    credit: u64,
    told: Vec<u64>,
}

/// Puts messages of several streams in order.
#[derive(Debug, Default)]
struct Order {
    next: u64,
    /// By number: what came, and came again.
    early: BTreeMap<u64, Vec<Vec<u8>>>,
}

impl Order {
    fn take(&mut self, message: &[u8], deliver: &mut dyn FnMut(&[u8])) {
        match sequence(message) {
            Some(sequence) if sequence > self.next => {
                self.early.entry(sequence).or_default().push(message.to_vec());
                return;
            }
            Some(sequence) if sequence == self.next => self.next += 1,
            // What comes again is handed over again: it is counted there.
            _ => {}
        }
        deliver(message);
        while let Some(copies) = self.early.remove(&self.next) {
            self.next += 1;
            copies.iter().for_each(|message| deliver(message));
        }
    }
}

impl Receiver {
    pub(crate) fn accept(
        is_multipath: bool,
        at: &[SocketAddr],
        size: usize,
        announce: impl FnOnce(&[u16]) -> Result<(), Failure>,
    ) -> Result<Self, Failure> {
        let cannot = || Failure::while_doing("cannot listen");
        let mut listeners = Vec::new();
        for at in at {
            let socket = socket(is_multipath, *at)?;
            // Bound to one address, a listener of multipath TCP would never accept a second path.
            let any = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), at.port());
            let bound = if is_multipath { any } else { *at };
            socket.bind(&bound.into()).and_then(|()| socket.listen(4)).map_err(cannot())?;
            listeners.push(TcpListener::from(socket));
        }
        let port = |listener: &TcpListener| listener.local_addr().map(|at| at.port());
        announce(&listeners.iter().map(port).collect::<Result<Vec<_>, _>>().map_err(cannot())?)?;
        let accept = |listener: &TcpListener| {
            let (socket, _) = listener.accept().map_err(Failure::while_doing("cannot accept"))?;
            Stream::new(socket)
        };
        let streams: Vec<_> = listeners.iter().map(accept).collect::<Result<_, _>>()?;
        let told = vec![0; streams.len()];
        Ok(Self { streams, size, order: Order::default(), credit: 0, told })
    }

    /// Tells each stream of the newest credit, as far as there is room.
    fn tell(&mut self) -> Result<(), Failure> {
        let open = self.streams.iter_mut().zip(&mut self.told).filter(|(stream, _)| !stream.has_ended);
        for (stream, told) in open {
            if stream.flush()? && *told < self.credit && stream.send(&self.credit.to_le_bytes())? {
                *told = self.credit;
            }
        }
        Ok(())
    }
}

impl Receiving for Receiver {
    fn receive(&mut self, deliver: &mut dyn FnMut(&[u8])) -> Result<bool, Failure> {
        wait(&self.streams, false)?;
        let (order, is_alone) = (&mut self.order, self.streams.len() == 1);
        for stream in self.streams.iter_mut().filter(|stream| !stream.has_ended) {
            stream
                .receive(self.size, |message| if is_alone { deliver(message) } else { order.take(message, deliver) })?;
        }
        self.tell()?;
        Ok(!self.streams.iter().all(|stream| stream.has_ended))
    }

    fn credit(&mut self, taken: u64) -> Result<(), Failure> {
        self.credit = taken;
        self.tell()
    }

    fn close(self: Box<Self>) -> Result<Option<u64>, Failure> {
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::cuts::message::{HEAD, Writer};

    #[test]
    fn several_streams_are_put_in_order() {
        let (mut writer, mut order, mut seen) = (Writer::new(HEAD), Order::default(), Vec::new());
        for number in [1, 0, 3, 3, 2, 2, 4] {
            order.take(writer.message(number), &mut |message| seen.extend(sequence(message)));
        }
        assert_eq!(seen, [0, 1, 2, 3, 3, 2, 4], "what came twice is handed over twice");
        assert!(order.early.is_empty());
    }
}
