//! A rank's side of the bootstrap server.

use core::time::Duration;
use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Instant;

use super::super::error::GroupError;
use super::super::limits::MOST_BYTES;
use super::tree::Tree;
use super::wire::{Failure, Hello, LONGEST, PAUSE, Token, frame, kind, take, take_frame};

/// A rank waits this much longer than the bootstrap server, so that the server's list of missing ranks arrives.
const GRACE: Duration = Duration::from_secs(10);
/// The longest text of an address, in bytes.
const LONGEST_ADDRESS: usize = 64;

/// A rank's connection to the bootstrap server.
pub(in super::super) struct Client {
    stream: TcpStream,
    address: SocketAddr,
    patience: Duration,
    limit: Duration,
    rank: usize,
    size: usize,
    route: Route,
}

/// The path that bytes take.
enum Route {
    /// That is decided in the first round. The rank's children will connect here.
    Open(Option<TcpListener>),
    Tree(Tree),
    Server,
}

impl Client {
    pub(in super::super) fn connect(
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
        // Without it bytes go by the server.
        let listener = listen_beside(&stream).ok();
        let own = listener.as_ref().and_then(|listener| listener.local_addr().ok());
        let hello = Hello { token, rank, size, port: own.map_or(0, |own| own.port()) };
        stream.write_all(&hello.emit()).map_err(wrap)?;
        Ok(Self { stream, address, patience, limit, rank, size, route: Route::Open(listener) })
    }

    pub(in super::super) fn all_gather(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, GroupError> {
        self.exchange(bytes).map_err(|failure| match failure {
            Failure::Group(error) => error,
            Failure::Io(error) => self.explain(error),
        })
    }

    fn exchange(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, Failure> {
        if let Route::Open(listener) = &mut self.route {
            let listener = listener.take();
            self.route = self.find_route(listener)?;
        }
        let Route::Tree(tree) = &mut self.route else {
            self.say(bytes, kind::ROUND)?;
            return (0..self.size).map(|_| take_frame(&mut self.stream, MOST_BYTES)).collect();
        };
        let announced = [&[0][..], &(bytes.len() as u32).to_be_bytes()].concat();
        say(&mut self.stream, &announced, kind::ROUND)?;
        let total = u32::from_be_bytes(take(&mut self.stream)?) as usize;
        if total == 0 {
            return Ok(vec![Vec::new(); self.size]);
        }
        tree.all_gather(bytes, total).or_else(|lost| {
            // The server reports the first loss that it learns of to all ranks, this one included.
            let text = lost.to_string();
            say(&mut self.stream, &[&[1], text.as_bytes()].concat(), kind::COMPLAINT)?;
            Err(Failure::Group(GroupError::Told(text)))
        })
    }

    /// Learns which ranks are beside this one in the tree, and whether all ranks have reached theirs.
    fn find_route(&mut self, listener: Option<TcpListener>) -> Result<Route, Failure> {
        expect(&mut self.stream, kind::PLACE)?;
        let session = Token::from_bytes(take(&mut self.stream)?);
        let parent = take_frame(&mut self.stream, LONGEST_ADDRESS)?;
        let parent = match &parent[..] {
            [] => None,
            text => Some(parse_address(text)?),
        };
        let place = (self.rank, self.size);
        let tree = listener.and_then(|listener| Tree::join(place, parent, listener, session, self.limit).ok());
        self.stream.write_all(&frame(&[u8::from(tree.is_some())]))?;
        match (take_kind(&mut self.stream)?, tree) {
            (kind::BY_TREE, Some(tree)) => Ok(Route::Tree(tree)),
            (kind::BY_SERVER, _) => Ok(Route::Server),
            (other, _) => Err(unexpected(other)),
        }
    }

    fn say(&mut self, bytes: &[u8], answer: u8) -> Result<(), Failure> {
        say(&mut self.stream, bytes, answer)
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

/// A listener at the address by which the server is reached.
fn listen_beside(stream: &TcpStream) -> io::Result<TcpListener> {
    let mut own = stream.local_addr()?;
    own.set_port(0);
    TcpListener::bind(own)
}

/// Sends a message, and waits for an answer of that kind. When the send fails the server may have sent the reason.
fn say(stream: &mut TcpStream, bytes: &[u8], answer: u8) -> Result<(), Failure> {
    let sent = stream.write_all(&frame(bytes));
    expect(stream, answer).map_err(|failure| match (sent, failure) {
        (Err(error), Failure::Io(_)) => Failure::Io(error),
        (_, failure) => failure,
    })
}

fn expect(stream: &mut TcpStream, wanted: u8) -> Result<(), Failure> {
    let came = take_kind(stream)?;
    if came == wanted { Ok(()) } else { Err(unexpected(came)) }
}

/// The kind of what the server says, unless it is that something is wrong.
fn take_kind(stream: &mut TcpStream) -> Result<u8, Failure> {
    let [came] = take(stream)?;
    if came == kind::COMPLAINT {
        let text = take_frame(stream, LONGEST)?;
        return Err(Failure::Group(GroupError::Told(String::from_utf8_lossy(&text).into_owned())));
    }
    Ok(came)
}

fn unexpected(came: u8) -> Failure {
    Failure::Group(GroupError::Protocol(format!("an answer of kind {came}")))
}

fn parse_address(text: &[u8]) -> Result<SocketAddr, Failure> {
    let text = String::from_utf8_lossy(text);
    text.parse().map_err(|_| Failure::Group(GroupError::Protocol(format!("`{text}` is no address of a rank"))))
}
