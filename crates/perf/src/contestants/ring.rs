//! Shared memory alone: a stream of bytes through Weft's rings between two processes of this host, without a NIC.
//!
//! It does what plain sockets do, over memory in place of the kernel's TCP: what is left to a program that has no
//! messages, completions, rights or peers to manage. Both sides poll.

use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;

use weft_base::{Backlog, Listener, Network, Piece, Port, PortError, PortOptions, ReceivePiece, Received};
use weft_driver::{HostListener, HostNetwork, HostPort};

use crate::contestants::sockets::exchange::{drain, ping, pong, pour};
use crate::contestants::sockets::variant::Variant;
use crate::host::versions::own;
use crate::model::contestant::{Contestant, Side, other};
use crate::model::job::{Job, Kind, Role};
use crate::model::measure::Measured;

/// The rings of shared memory.
pub(crate) struct Ring;

impl Ring {
    pub(crate) const NAME: &str = "ring";
}

impl Contestant for Ring {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn describe(&self) -> &'static str {
        "bytes through rings in shared memory, without a NIC; both sides poll; writes as those of sockets"
    }

    fn available(&self, _: Option<&str>) -> Result<(), String> {
        Ok(())
    }

    fn version(&self, _: &Job) -> Option<String> {
        own()
    }

    fn supports(&self, job: &Job) -> Result<(), String> {
        match job.kind {
            Kind::Latency | Kind::PingPing | Kind::Bandwidth | Kind::Rate => Variant::of(job)?.fits(job.kind),
            _ => Err("the rings alone are measured in latency, ping-ping, bandwidth and rate".into()),
        }
    }

    fn open(&self, job: &Job) -> Result<Box<dyn Side>, String> {
        RingSide::open(job).map(|side| Box::new(side) as Box<dyn Side>).map_err(|error| format!("cannot open: {error}"))
    }
}

/// Nothing is registered with it: all bytes are the program's own.
fn network() -> Result<HostNetwork, PortError> {
    HostNetwork::new(weft_memory::Registry::new(0, weft_memory::Limits::default()))
}

const SHARED: PortOptions = PortOptions { local: None, buffer_bytes: None, peer_timeout: None, shared_memory: true };

struct RingSide {
    network: HostNetwork,
    listener: Option<HostListener>,
}

impl RingSide {
    fn open(job: &Job) -> Result<Self, PortError> {
        let mut network = network()?;
        let local = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = match job.role() {
            Role::Passive => Some(network.listen(local, Backlog(1), SHARED)?),
            Role::Active => None,
        };
        Ok(Self { network, listener })
    }

    fn stream(&mut self, peer: &str) -> Result<Stream, String> {
        let Some(listener) = &mut self.listener else {
            let peer = peer.parse().map_err(|_| format!("the peer has no address: {peer:?}"))?;
            return self.network.connect(peer, SHARED).map(Stream).map_err(|error| error.to_string());
        };
        loop {
            if let Some(port) = listener.accept().map_err(|error| error.to_string())? {
                return Ok(Stream(port));
            }
            std::thread::yield_now();
        }
    }
}

impl Side for RingSide {
    fn address(&self) -> String {
        self.listener.as_ref().map_or_else(String::new, |listener| listener.local_address().to_string())
    }

    fn run(&mut self, job: &Job, addresses: &[String]) -> Result<Measured, String> {
        let variant = Variant::of(job)?;
        let mut stream = self.stream(other(job, addresses))?;
        match (job.kind, job.role()) {
            (Kind::Latency, Role::Passive) => pong(&mut stream, job, &variant),
            (Kind::Latency, Role::Active) | (Kind::PingPing, _) => ping(&mut stream, job, &variant),
            (_, Role::Active) => pour(&mut stream, job, &variant),
            (_, Role::Passive) => drain(&mut stream, job, &variant),
        }
        .map_err(|error| format!("the connection failed: {error}"))
    }
}

/// A port as a stream that never blocks.
struct Stream(HostPort);

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.receive(&mut [ReceivePiece::Staging(buffer)]).map_err(io::Error::other)? {
            Received::Bytes(count) => Ok(count),
            Received::Nothing => Err(ErrorKind::WouldBlock.into()),
            Received::End => Ok(0),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.send(&[Piece::Bytes(bytes)]).map_err(io::Error::other)? {
            0 if !bytes.is_empty() => Err(ErrorKind::WouldBlock.into()),
            count => Ok(count),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
