//! The bootstrap server: a thread to which each rank has a TCP connection, and which hands the bytes of all to all.
//!
//! ```text
//! a rank, first:     | "WEFTGRP1" | token 16 | rank u32 | size u32 |
//! a rank, each time: | length u32 | bytes |
//! the answer:        | 0 u8 | of each rank: length u32, bytes |     or     | 1 u8 | length u32 | what is wrong |
//! ```

use core::fmt;
use core::time::Duration;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Instant;

use super::{Group, GroupError};

const MAGIC: &[u8; 8] = b"WEFTGRP1";
const HELLO: usize = 32;
/// Connections beyond those of the ranks, which may be of anybody, at a time.
const STRANGERS: usize = 64;
/// The longest that a bootstrap server says when something is wrong, in bytes.
const LONGEST: usize = 1024;
/// How often it looks who has come, and a rank whether the bootstrap server is there.
const PAUSE: Duration = Duration::from_millis(2);
/// How much longer than the bootstrap server a rank waits, so that it hears who is missing.
const GRACE: Duration = Duration::from_secs(10);

/// What the ranks of a launch know, and nobody else.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Token(u128);

impl Token {
    pub(super) const NONE: Self = Self(0);

    pub(super) fn random() -> Result<Self, GroupError> {
        let half = || {
            let failed = |error: getrandom::Error| io::Error::other(error.to_string());
            let wrap = |error| GroupError::Io { what: "get a random number", address: None, error };
            getrandom::u64().map(u128::from).map_err(failed).map_err(wrap)
        };
        Ok(Self(half()? << 64 | half()?))
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        u128::from_str_radix(text, 16).ok().map(Self)
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// A rank's connection to the bootstrap server.
pub(super) struct Client {
    stream: TcpStream,
    address: SocketAddr,
    patience: Duration,
}

impl Client {
    pub(super) fn connect(
        address: SocketAddr,
        rank: usize,
        size: usize,
        token: Token,
        limit: Duration,
    ) -> Result<Self, GroupError> {
        let wrap = |error| GroupError::Io { what: "speak with the bootstrap server", address: Some(address), error };
        let start = Instant::now();
        let mut stream = loop {
            match TcpStream::connect_timeout(&address, limit) {
                Ok(stream) => break stream,
                Err(_) if start.elapsed() < limit => thread::sleep(PAUSE),
                Err(_) => return Err(GroupError::NoAnswer { address, waited_for: limit }),
            }
        };
        let patience = limit * 2 + GRACE;
        stream.set_nodelay(true).and_then(|()| stream.set_read_timeout(Some(patience))).map_err(wrap)?;
        let (rank, size) = (rank as u32, size as u32);
        let token = token.0.to_be_bytes();
        let hello = [&MAGIC[..], &token, &rank.to_be_bytes(), &size.to_be_bytes()].concat();
        stream.write_all(&hello).map_err(wrap)?;
        Ok(Self { stream, address, patience })
    }

    pub(super) fn all_gather(&mut self, bytes: &[u8], size: usize) -> Result<Vec<Vec<u8>>, GroupError> {
        let frame = [&(bytes.len() as u32).to_be_bytes()[..], bytes].concat();
        // When it fails the bootstrap server may have said why.
        let sent = self.stream.write_all(&frame);
        let answer = self.take_answer(size);
        answer.map_err(|error| match (sent, error) {
            (_, Failure::Group(error)) => error,
            (Err(error), _) | (Ok(()), Failure::Io(error)) => self.explain(error),
        })
    }

    fn take_answer(&mut self, size: usize) -> Result<Vec<Vec<u8>>, Failure> {
        let [kind] = take(&mut self.stream)?;
        match kind {
            0 => (0..size).map(|_| take_frame(&mut self.stream, Group::MOST_BYTES)).collect(),
            1 => {
                let text = take_frame(&mut self.stream, LONGEST)?;
                Err(Failure::Group(GroupError::Told(String::from_utf8_lossy(&text).into_owned())))
            }
            other => Err(Failure::Group(GroupError::Protocol(format!("an answer of kind {other}")))),
        }
    }

    fn explain(&self, error: io::Error) -> GroupError {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                GroupError::NoAnswer { address: self.address, waited_for: self.patience }
            }
            _ => GroupError::Io { what: "speak with the bootstrap server", address: Some(self.address), error },
        }
    }
}

enum Failure {
    Io(io::Error),
    Group(GroupError),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

fn take<const N: usize>(stream: &mut TcpStream) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn take_frame(stream: &mut TcpStream, most: usize) -> Result<Vec<u8>, Failure> {
    let length = u32::from_be_bytes(take(stream)?) as usize;
    if length > most {
        return Err(Failure::Group(GroupError::Protocol(format!("{length} bytes where at most {most} may be"))));
    }
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// What the threads that read tell the one that answers.
enum News {
    Joined(usize, TcpStream),
    Bytes(usize, Vec<u8>),
    Left(usize),
}

/// The bootstrap server.
pub(super) struct Server {
    size: usize,
    limit: Duration,
    news: Receiver<News>,
    streams: Vec<Option<TcpStream>>,
    /// What each rank has given in this round; a rank may be one round ahead of who reads late, and no more.
    given: Vec<Option<Vec<u8>>>,
}

impl Server {
    /// Starts it in a thread of its own, which ends when all ranks have left or something is wrong.
    pub(super) fn start(listener: TcpListener, size: usize, token: Token, limit: Duration) -> io::Result<()> {
        listener.set_nonblocking(true)?;
        let (sender, news) = channel();
        let streams = (0..size).map(|_| None).collect();
        let server = Self { size, limit, news, streams, given: vec![None; size] };
        thread::Builder::new().name("weft-bootstrap".into()).spawn(move || server.run(listener, sender, token))?;
        Ok(())
    }

    fn run(mut self, listener: TcpListener, sender: Sender<News>, token: Token) {
        if let Err(text) = self.gather_ranks(&listener, &sender, token) {
            return self.tell_all(&listener, &sender, token, &text);
        }
        drop((listener, sender));
        let outcome = loop {
            match self.round() {
                Ok(true) => {}
                other => break other,
            }
        };
        if let Err(text) = outcome {
            self.tell(&text);
        }
    }

    /// What is wrong also those must hear that come later.
    fn tell_all(&mut self, listener: &TcpListener, sender: &Sender<News>, token: Token, text: &str) {
        self.tell(text);
        let (start, guests) = (Instant::now(), Arc::new(AtomicUsize::new(0)));
        let mut told = self.streams.iter().flatten().count();
        while told < self.size && start.elapsed() < self.limit {
            if let Ok((stream, _)) = listener.accept() {
                self.let_in(stream, sender, token, &guests);
            }
            if let Ok(News::Joined(_, mut stream)) = self.news.recv_timeout(PAUSE) {
                told += 1;
                let _ = stream.write_all(&complaint(text));
            }
        }
    }

    /// Lets the ranks in.
    fn gather_ranks(&mut self, listener: &TcpListener, sender: &Sender<News>, token: Token) -> Result<(), String> {
        let (start, guests) = (Instant::now(), Arc::new(AtomicUsize::new(0)));
        while self.streams.iter().any(Option::is_none) {
            if let Ok((stream, _)) = listener.accept() {
                self.let_in(stream, sender, token, &guests);
                continue;
            }
            match self.news.recv_timeout(PAUSE) {
                Ok(news) => drop(self.note(news)?),
                Err(_) if start.elapsed() > self.limit => {
                    return Err(self.missing("have not come", |rank| self.streams[rank].is_some()));
                }
                Err(_) => {}
            }
        }
        Ok(())
    }

    fn let_in(&self, stream: TcpStream, sender: &Sender<News>, token: Token, guests: &Arc<AtomicUsize>) {
        if guests.load(Ordering::Relaxed) >= self.size + STRANGERS {
            return;
        }
        let (size, sender, limit, guests) = (self.size, sender.clone(), self.limit, Arc::clone(guests));
        guests.fetch_add(1, Ordering::Relaxed);
        let body = move || {
            if let Ok(rank) = take_hello(&stream, size, token, limit) {
                listen_to(rank, stream, &sender, limit);
            }
            guests.fetch_sub(1, Ordering::Relaxed);
        };
        // Without a thread the rank is not let in, and named as missing.
        let _ = thread::Builder::new().name("weft-bootstrap".into()).spawn(body);
    }

    fn note(&mut self, news: News) -> Result<(), String> {
        match news {
            News::Joined(rank, stream) if self.streams[rank].is_none() => self.streams[rank] = Some(stream),
            News::Joined(rank, mut stream) => {
                let _ = stream.write_all(&complaint(&format!("rank {rank} has come before: give each rank once")));
            }
            News::Bytes(rank, bytes) => self.given[rank] = Some(bytes),
            News::Left(rank) => return Err(format!("rank {rank} has left while others wait for it")),
        }
        Ok(())
    }

    /// Hands out the bytes of one round. Returns whether there can be another one.
    fn round(&mut self) -> Result<bool, String> {
        let mut deadline: Option<Instant> = None;
        let mut left = 0;
        while self.given.iter().any(Option::is_none) {
            if self.given.iter().any(Option::is_some) {
                deadline.get_or_insert_with(|| Instant::now() + self.limit);
            }
            let news = match deadline {
                None => self.news.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(until) => self.news.recv_timeout(until.saturating_duration_since(Instant::now())),
            };
            match news {
                // Whoever has all it needs may leave, as long as nobody waits for it.
                Ok(News::Left(_)) if deadline.is_none() && left + 1 < self.size => left += 1,
                Ok(News::Left(_)) if deadline.is_none() => return Ok(false),
                Ok(News::Bytes(rank, _)) if left > 0 => {
                    return Err(format!("rank {rank} wants to exchange more when {left} ranks have left"));
                }
                Ok(news) => self.note(news)?,
                Err(RecvTimeoutError::Disconnected) => return Ok(false),
                Err(RecvTimeoutError::Timeout) => {
                    return Err(self.missing("are late", |rank| self.given[rank].is_some()));
                }
            }
        }
        self.answer();
        Ok(true)
    }

    fn answer(&mut self) {
        let mut bytes = vec![0u8];
        for given in self.given.iter_mut().filter_map(Option::take) {
            bytes.extend_from_slice(&(given.len() as u32).to_be_bytes());
            bytes.extend_from_slice(&given);
        }
        self.say(&bytes);
    }

    /// Rank 0 comes last: the bootstrap server may be in its process, which may end as soon as it has its answer.
    fn say(&mut self, bytes: &[u8]) {
        // Who is gone is missed in the next round.
        self.streams.iter_mut().rev().flatten().for_each(|stream| drop(stream.write_all(bytes)));
    }

    fn missing(&self, what: &str, is_there: impl Fn(usize) -> bool) -> String {
        let missing: Vec<String> =
            (0..self.size).filter(|&rank| !is_there(rank)).map(|rank| rank.to_string()).collect();
        let few = missing[..missing.len().min(16)].join(", ");
        format!("{} of {} ranks {what} within {:?}: {few}", missing.len(), self.size, self.limit)
    }

    fn tell(&mut self, text: &str) {
        self.say(&complaint(text));
    }
}

fn complaint(text: &str) -> Vec<u8> {
    let text = &text.as_bytes()[..text.len().min(LONGEST)];
    [&[1][..], &(text.len() as u32).to_be_bytes(), text].concat()
}

/// Who calls. Others than ranks of this group are told so, or nothing.
fn take_hello(stream: &TcpStream, size: usize, token: Token, limit: Duration) -> io::Result<usize> {
    let mut stream = stream.try_clone()?;
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(limit))?;
    stream.set_write_timeout(Some(limit))?;
    let hello: [u8; HELLO] = take(&mut stream)?;
    let word = |at: usize| u32::from_be_bytes([hello[at], hello[at + 1], hello[at + 2], hello[at + 3]]) as usize;
    let (rank, its_size) = (word(24), word(28));
    let stranger = || io::Error::other("a stranger");
    if &hello[..8] != MAGIC || hello[8..24] != token.0.to_be_bytes() {
        return Err(stranger());
    }
    if its_size != size || rank >= size {
        let text = format!("rank {rank} says that there are {its_size} ranks, and rank 0 waits for {size}");
        stream.write_all(&complaint(&text))?;
        return Err(stranger());
    }
    stream.set_read_timeout(None)?;
    Ok(rank)
}

fn listen_to(rank: usize, mut stream: TcpStream, sender: &Sender<News>, limit: Duration) {
    let Ok(other) = stream.try_clone() else { return };
    let mut news = Some(News::Joined(rank, other));
    while let Some(one) = news.take() {
        let has_left = matches!(one, News::Left(_));
        if sender.send(one).is_err() {
            return drain(stream, limit);
        }
        if has_left {
            return;
        }
        let bytes = take_frame(&mut stream, Group::MOST_BYTES);
        news = Some(bytes.map_or(News::Left(rank), |bytes| News::Bytes(rank, bytes)));
    }
}

/// A connection that is closed while bytes wait to be read is reset, and what was said on it last is lost: so they are
/// read until the rank has closed it.
fn drain(mut stream: TcpStream, limit: Duration) {
    let (start, mut bytes) = (Instant::now(), [0; 1024]);
    let _ = stream.set_read_timeout(Some(limit));
    while start.elapsed() < limit && matches!(stream.read(&mut bytes), Ok(1..)) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What no socket's buffers hold.
    const LONG: usize = 16 << 20;

    #[test]
    fn the_rank_whose_process_may_end_then_is_answered_last() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let pair = |_| (TcpStream::connect(listener.local_addr().unwrap()).unwrap(), listener.accept().unwrap().0);
        let [(mut first, its), (mut last, others)] = [0, 1].map(pair);
        let (limit, streams) = (Duration::from_secs(60), vec![Some(its), Some(others)]);
        let mut server = Server { size: 2, limit, news: channel().1, streams, given: vec![None; 2] };
        let says = thread::spawn(move || server.say(&vec![7; LONG]));
        // The last rank takes nothing yet, so nobody else is told anything.
        first.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        let waits = first.peek(&mut [0]).unwrap_err().kind();
        assert!(matches!(waits, io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut), "{waits:?}");
        first.set_read_timeout(Some(limit)).unwrap();
        for stream in [&mut last, &mut first] {
            stream.read_exact(&mut vec![0; LONG]).unwrap();
        }
        says.join().unwrap();
    }
}
