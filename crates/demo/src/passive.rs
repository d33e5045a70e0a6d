//! The passive side: gives memory, and answers requests.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};
use weft::verbs::{Access, Listener, MemoryRegion};

use crate::measure::{TCP_READ_BYTES, read_exact, write_all};
use crate::talk::{Answer, Ask, MESSAGE_BYTES, PING, await_ask, check_open, say};
use crate::transfer::{UNTOUCHED, digest_regions, hexadecimal};
use weft_command::connection::{Endpoint, Link, LinkError};
use weft_command::failure::Failure;

/// How long a TCP connection that was announced may take to come.
const TCP_PATIENCE: Duration = Duration::from_secs(10);

/// Serves one active side, until it disconnects.
pub(crate) fn serve_one(
    endpoint: &Endpoint,
    address: SocketAddr,
    announce: impl FnOnce(&Listener) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let listener = endpoint.listen(address)?;
    announce(&listener)?;
    let link = endpoint.accept(endpoint.next_request(&listener)?)?;
    let mut side = Passive { link, windows: Vec::new(), digest: Sha256::new(), tcp: None };
    loop {
        match await_ask(&side.link) {
            Ok(ask) => side.handle(ask)?,
            Err(LinkError::Closed) => return Ok(()),
            Err(error) => return Err(error.during("waiting for the active side")),
        }
    }
}

struct Passive {
    link: Link,
    windows: Vec<MemoryRegion>,
    digest: Sha256,
    tcp: Option<TcpListener>,
}

impl Passive {
    fn handle(&mut self, ask: Ask) -> Result<(), Failure> {
        let done = match ask {
            Ask::Open { version, windows, bytes } => return self.open(&version, windows, bytes),
            Ask::Echo => return self.echo().map_err(|error| error.during("echo")),
            Ask::Fence => Ok(Answer::Done),
            Ask::Digest(length) => {
                let mut buffer = vec![0; MESSAGE_BYTES as usize];
                digest_regions(&self.windows, length, &mut self.digest, &mut buffer).map(|()| Answer::Done)
            }
            Ask::Finish => Ok(Answer::Digest(hexadecimal(std::mem::take(&mut self.digest)))),
            Ask::Listen => self.listen(),
            Ask::TcpEcho => {
                self.accept().and_then(|stream| tcp_echo(stream).map_err(tcp_failed)).map(|()| Answer::Done)
            }
            Ask::TcpDrain => {
                self.accept().and_then(|stream| tcp_drain(stream).map_err(tcp_failed)).map(|()| Answer::Done)
            }
        };
        self.answer(&done.unwrap_or_else(|failure| Answer::Refused(failure.to_string())))
    }

    fn answer(&self, answer: &Answer) -> Result<(), Failure> {
        say(&self.link, answer).map_err(|error| error.during("answer"))
    }

    fn open(&mut self, version: &str, windows: u32, bytes: u64) -> Result<(), Failure> {
        let (windows, bytes) = match check_open(version, windows, bytes) {
            Ok(checked) => checked,
            Err(why) => return self.answer(&Answer::Refused(why)),
        };
        let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ;
        self.windows.clear();
        for _ in 0..windows {
            let window = match self.link.domain.register(vec![UNTOUCHED; bytes], access) {
                Ok(window) => window,
                Err(error) => return self.answer(&Answer::Refused(error.to_string())),
            };
            let remote = window.remote(0);
            self.answer(&Answer::Window { stag: remote.stag.0, offset: remote.offset })?;
            self.windows.push(window);
        }
        Ok(())
    }

    fn echo(&self) -> Result<(), LinkError> {
        let mut ping = [0; PING];
        loop {
            let length = self.link.receive_spinning(&mut ping)?;
            self.link.send(&ping[..length])?;
            if ping == [0; PING] {
                return Ok(());
            }
        }
    }

    fn listen(&mut self) -> Result<Answer, Failure> {
        let info = self.link.info().map_err(|error| error.during("TCP"))?;
        let mut local = info.local;
        local.set_port(0);
        let listener = TcpListener::bind(local).map_err(Failure::while_doing("cannot listen for TCP"))?;
        listener.set_nonblocking(true).map_err(Failure::while_doing("TCP"))?;
        let port = listener.local_addr().map_err(Failure::while_doing("TCP"))?.port();
        self.tcp = Some(listener);
        Ok(Answer::Port(port))
    }

    fn accept(&self) -> Result<TcpStream, Failure> {
        let listener = self.tcp.as_ref().ok_or_else(|| Failure::Runtime("nothing listens for TCP".into()))?;
        let until = Instant::now() + TCP_PATIENCE;
        loop {
            match listener.accept() {
                Ok((stream, _)) => return Ok(stream),
                Err(error) if error.kind() == ErrorKind::WouldBlock && Instant::now() < until => {
                    thread::sleep(Duration::from_millis(1));
                }
                Err(error) => return Err(Failure::while_doing("no TCP connection came")(error)),
            }
        }
    }
}

fn tcp_failed(error: std::io::Error) -> Failure {
    Failure::while_doing("TCP")(error)
}

fn tcp_echo(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    let mut ping = [0; PING];
    loop {
        read_exact(&mut stream, &mut ping)?;
        write_all(&mut stream, &ping)?;
        if ping == [0; PING] {
            return Ok(());
        }
    }
}

fn tcp_drain(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    let mut buffer = vec![0; TCP_READ_BYTES];
    while stream.read(&mut buffer)? > 0 {}
    stream.write_all(&[0])
}
