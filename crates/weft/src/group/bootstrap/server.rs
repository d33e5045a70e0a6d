//! The server's side: threads that read what ranks say, and one that answers.

use core::time::Duration;
use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Instant;

use super::super::limits::MOST_BYTES;
use super::tree::parent_of;
use super::wire::{Hello, PAUSE, STRANGERS, Token, complaint, frame, kind, take_frame};

/// What the threads that read tell the one that answers.
enum News {
    /// With the port at which it listens for its children in the tree.
    Joined(usize, TcpStream, u16),
    Bytes(usize, Vec<u8>),
    Left(usize),
}

/// The bootstrap server.
pub(in super::super) struct Server {
    size: usize,
    limit: Duration,
    news: Receiver<News>,
    streams: Vec<Option<TcpStream>>,
    ports: Vec<u16>,
    /// How many of them are here.
    joined: usize,
    /// Bytes go from rank to rank, and this only says when a round begins.
    is_by_tree: bool,
    /// What each rank has given in this round; a rank may be one round ahead of one that reads late, and no more.
    given: Vec<Option<Vec<u8>>>,
    /// Ranks that have given something.
    givers: usize,
}

impl Server {
    /// Starts it in a thread of its own, which ends when all ranks have left or something is wrong.
    pub(in super::super) fn start(listener: TcpListener, size: usize, token: Token, limit: Duration) -> io::Result<()> {
        listener.set_nonblocking(true)?;
        let (sender, news) = channel();
        let server = Self::new(size, limit, news);
        thread::Builder::new().name("weft-bootstrap".into()).spawn(move || server.run(listener, sender, token))?;
        Ok(())
    }

    fn new(size: usize, limit: Duration, news: Receiver<News>) -> Self {
        Self {
            size,
            limit,
            news,
            streams: (0..size).map(|_| None).collect(),
            ports: vec![0; size],
            joined: 0,
            is_by_tree: false,
            given: vec![None; size],
            givers: 0,
        }
    }

    fn run(mut self, listener: TcpListener, sender: Sender<News>, token: Token) {
        if let Err(text) = self.gather_ranks(&listener, &sender, token) {
            return self.tell_all(&listener, &sender, token, &text);
        }
        drop((listener, sender));
        let outcome = self.arrange().and_then(|mut goes_on| {
            while goes_on {
                goes_on = self.round()?;
            }
            Ok(())
        });
        if let Err(text) = outcome {
            self.tell(&text);
        }
    }

    /// Reports an error to all ranks, also to those that join later.
    fn tell_all(&mut self, listener: &TcpListener, sender: &Sender<News>, token: Token, text: &str) {
        self.tell(text);
        let (start, guests) = (Instant::now(), Arc::new(AtomicUsize::new(0)));
        let mut told = self.streams.iter().flatten().count();
        while told < self.size && start.elapsed() < self.limit {
            if let Ok((stream, _)) = listener.accept() {
                self.let_in(stream, sender, token, &guests);
            }
            if let Ok(News::Joined(_, mut stream, _)) = self.news.recv_timeout(PAUSE) {
                told += 1;
                let _ = stream.write_all(&complaint(text));
            }
        }
    }

    /// Lets the ranks in.
    fn gather_ranks(&mut self, listener: &TcpListener, sender: &Sender<News>, token: Token) -> Result<(), String> {
        let (start, guests) = (Instant::now(), Arc::new(AtomicUsize::new(0)));
        while self.joined < self.size {
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
            if let Ok(Hello { rank, port, .. }) = take_hello(&stream, size, token, limit) {
                listen_to(rank, port, stream, &sender, limit);
            }
            guests.fetch_sub(1, Ordering::Relaxed);
        };
        // Without a thread the rank is not let in, and named as missing.
        let _ = thread::Builder::new().name("weft-bootstrap".into()).spawn(body);
    }

    fn note(&mut self, news: News) -> Result<(), String> {
        match news {
            News::Joined(rank, stream, port) if self.streams[rank].is_none() => {
                (self.streams[rank], self.ports[rank]) = (Some(stream), port);
                self.joined += 1;
            }
            News::Joined(rank, mut stream, _) => {
                let _ = stream.write_all(&complaint(&format!("rank {rank} has come before: give each rank once")));
            }
            News::Bytes(rank, bytes) => self.givers += usize::from(self.given[rank].replace(bytes).is_none()),
            News::Left(rank) => return Err(format!("rank {rank} has left while others wait for it")),
        }
        Ok(())
    }

    /// Tells each rank where its parent in the tree is. If all reach theirs, bytes go by the tree. Returns whether a
    /// round can follow.
    fn arrange(&mut self) -> Result<bool, String> {
        let session = Token::random().map_err(|error| error.to_string())?;
        let places: Vec<Vec<u8>> = (0..self.size).map(|rank| self.place(rank, session)).collect();
        for (stream, place) in self.streams.iter_mut().zip(places) {
            // A rank that is gone is missed in the next round.
            let _ = stream.as_mut().map(|stream| stream.write_all(&place));
        }
        if !self.collect()? {
            return Ok(false);
        }
        self.is_by_tree = self.take_given().iter().all(|given| given[..] == [1]);
        self.say(&[if self.is_by_tree { kind::BY_TREE } else { kind::BY_SERVER }]);
        Ok(true)
    }

    fn place(&self, rank: usize, session: Token) -> Vec<u8> {
        let address = |parent: usize| {
            let mut address = self.streams[parent].as_ref()?.peer_addr().ok()?;
            address.set_port(self.ports[parent]);
            Some(address.to_string())
        };
        // A rank that cannot be reached is at port 0, where nothing answers.
        let parent = parent_of(rank).map(|parent| address(parent).unwrap_or_else(|| "0.0.0.0:0".into()));
        [&[kind::PLACE][..], &session.to_bytes(), &frame(parent.unwrap_or_default().as_bytes())].concat()
    }

    /// Lets one round happen. Returns whether there can be another one.
    fn round(&mut self) -> Result<bool, String> {
        if !self.collect()? {
            return Ok(false);
        }
        let given = self.take_given();
        let answer = if self.is_by_tree { announce(&given)? } else { hand_out(&given) };
        self.say(&answer);
        Ok(true)
    }

    fn take_given(&mut self) -> Vec<Vec<u8>> {
        self.givers = 0;
        self.given.iter_mut().filter_map(Option::take).collect()
    }

    /// Takes something of each rank. Returns whether all are there: else all have left.
    fn collect(&mut self) -> Result<bool, String> {
        let mut deadline: Option<Instant> = None;
        let mut left = 0;
        while self.givers < self.size {
            if self.givers > 0 {
                deadline.get_or_insert_with(|| Instant::now() + self.limit);
            }
            let news = match deadline {
                None => self.news.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(until) => self.news.recv_timeout(until.saturating_duration_since(Instant::now())),
            };
            match news {
                Ok(News::Bytes(_, bytes)) if self.is_by_tree && bytes.first() == Some(&1) => {
                    return Err(String::from_utf8_lossy(&bytes[1..]).into_owned());
                }
                // A rank that has all it needs may leave, as long as no other waits for it.
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
        Ok(true)
    }

    /// Rank 0 comes last: the bootstrap server may be in its process, which may end as soon as it has its answer.
    fn say(&mut self, bytes: &[u8]) {
        // The next round reports a rank whose connection is lost.
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

/// The answer where bytes go from rank to rank: how many there are.
fn announce(given: &[Vec<u8>]) -> Result<Vec<u8>, String> {
    let mut total = 0;
    for (rank, given) in given.iter().enumerate() {
        let wrong = || format!("rank {rank} has announced `{}` where it must say how many bytes", given.escape_ascii());
        let length = match given[..] {
            [0, a, b, c, d] => u32::from_be_bytes([a, b, c, d]),
            _ => return Err(wrong()),
        };
        if length as usize > MOST_BYTES {
            return Err(wrong());
        }
        total += length;
    }
    Ok([&[kind::ROUND][..], &total.to_be_bytes()].concat())
}

/// The answer where all bytes go through here.
fn hand_out(given: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = vec![kind::ROUND];
    given.iter().for_each(|given| bytes.extend_from_slice(&frame(given)));
    bytes
}

/// Reads a caller's hello. A caller that is no rank of this group gets an error, or no answer.
fn take_hello(stream: &TcpStream, size: usize, token: Token, limit: Duration) -> io::Result<Hello> {
    let mut stream = stream.try_clone()?;
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(limit))?;
    stream.set_write_timeout(Some(limit))?;
    let hello = Hello::take(&mut stream, token)?;
    if hello.size != size || hello.rank >= size {
        let (rank, its_size) = (hello.rank, hello.size);
        let text = format!("rank {rank} says that there are {its_size} ranks, and rank 0 waits for {size}");
        stream.write_all(&complaint(&text))?;
        return Err(io::Error::other("a stranger"));
    }
    stream.set_read_timeout(None)?;
    Ok(hello)
}

fn listen_to(rank: usize, port: u16, mut stream: TcpStream, sender: &Sender<News>, limit: Duration) {
    let Ok(other) = stream.try_clone() else { return };
    let mut news = Some(News::Joined(rank, other, port));
    while let Some(one) = news.take() {
        let has_left = matches!(one, News::Left(_));
        if sender.send(one).is_err() {
            return drain(stream, limit);
        }
        if has_left {
            return;
        }
        let bytes = take_frame(&mut stream, MOST_BYTES);
        news = Some(bytes.map_or(News::Left(rank), |bytes| News::Bytes(rank, bytes)));
    }
}

/// A connection that is closed while bytes wait to be read is reset, and the last bytes that were sent on it are lost:
/// so they are read until the rank has closed it.
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
        let limit = Duration::from_secs(60);
        let mut server = Server::new(2, limit, channel().1);
        server.streams = vec![Some(its), Some(others)];
        let says = thread::spawn(move || server.say(&vec![7; LONG]));
        // The last rank takes nothing yet, so no other rank is notified.
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
