//! Plain sockets: what a careful program without any library gets out of the kernel's TCP, or MPTCP.
//!
//! Latency: a ping-pong of whole messages. Bandwidth and rate: a stream of writes, read 256 KiB at a time; a write has
//! the size of a message, unless the variant says `batched` (a window of messages in each write) or gives a size
//! (`256K`). With `crc` in the variant both ends compute a CRC-32C of all bytes, before they are written and after they
//! are read: what is left to a protocol that checks its data, as iWARP does. TCP_NODELAY is set; buffers are left to
//! the kernel, which makes them larger as it sees fit, unless the variant says their size (`buffers=4M`).

mod carry;
mod duplex;
pub(crate) mod exchange;
mod fetch;
mod isosurface;
mod overlap;
mod set_up;
pub(crate) mod variant;

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};

use socket2::{Domain, Protocol, Socket, Type};

use crate::contestants::carry::take_core;
use crate::contestants::logp;
use crate::contestants::sockets::exchange::{Messages, drain, ping, pong, pour};
use crate::contestants::sockets::variant::{Variant, buffers};
use crate::host::versions::kernel;
use crate::model::contestant::{Contestant, Side, other};
use crate::model::job::{Job, Kind, Role, Target, Wait};
use crate::model::measure::Measured;

/// Sockets of one protocol.
pub(crate) struct Sockets {
    name: &'static str,
    protocol: Protocol,
}

impl Sockets {
    /// Raw TCP.
    pub(crate) const TCP: Self = Self { name: "sockets", protocol: Protocol::TCP };
    /// Multipath TCP.
    pub(crate) const MPTCP: Self = Self { name: "mptcp", protocol: Protocol::MPTCP };

    fn listen(&self, job: &Job) -> io::Result<TcpListener> {
        let local = job.local.as_deref().unwrap_or("127.0.0.1");
        let mut address = resolve(local, 0)?;
        if self.protocol == Protocol::MPTCP && address.is_ipv4() {
            // Bound to one address, an MPTCP listener would never accept a second path.
            address.set_ip(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        }
        let socket = self.socket(address, job.variant.as_deref())?;
        socket.bind(&address.into())?;
        socket.listen(i32::try_from(job.connections).unwrap_or(i32::MAX))?;
        Ok(socket.into())
    }

    fn connect(&self, job: &Job, port: u16) -> io::Result<TcpStream> {
        let address = resolve(&job.host, port)?;
        let socket = self.socket(address, job.variant.as_deref())?;
        socket.connect(&address.into())?;
        Ok(socket.into())
    }

    /// With the buffers that the variant says: before it connects or listens, for that decides the window.
    fn socket(&self, address: SocketAddr, variant: Option<&str>) -> io::Result<Socket> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(self.protocol))?;
        if let Some(bytes) = variant.and_then(|variant| buffers(variant).ok().flatten()) {
            socket.set_send_buffer_size(bytes)?;
            socket.set_recv_buffer_size(bytes)?;
            // The kernel gives at most what it is allowed to, and says twice as much, for its own needs.
            let given = socket.send_buffer_size()?.min(socket.recv_buffer_size()?) / 2;
            if given < bytes {
                let limits = "sysctl net.core.wmem_max and net.core.rmem_max allow no more";
                return Err(io::Error::other(format!("of buffers of {bytes} bytes it gave {given}: {limits}")));
            }
        }
        Ok(socket)
    }
}

impl Contestant for Sockets {
    fn name(&self) -> &'static str {
        self.name
    }

    fn describe(&self) -> &'static str {
        "plain sockets with TCP_NODELAY; reads of 256 KiB; writes of a message each, or as the variant says; with `crc` both ends compute one of all bytes"
    }

    fn available(&self, variant: Option<&str>) -> Result<(), String> {
        let any = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
        let hint = if self.protocol == Protocol::MPTCP { "; for mptcp: sysctl net.mptcp.enabled=1" } else { "" };
        self.socket(any, variant).map(drop).map_err(|error| format!("this kernel gives no such socket: {error}{hint}"))
    }

    fn version(&self, _: &Job) -> Option<String> {
        kernel()
    }

    fn supports(&self, job: &Job) -> Result<(), String> {
        let variant = Variant::of_sockets(job)?;
        match job.kind {
            Kind::Idle | Kind::AllToAll | Kind::Matching | Kind::Emulator | Kind::Hiding | Kind::Patterns => {
                Err("plain sockets are not measured so".into())
            }
            Kind::Overlap | Kind::Inserted | Kind::Ratio if job.target == Target::Silent => {
                Err("a target that never calls in never answers".into())
            }
            kind => variant.fits(kind),
        }
    }

    fn open(&self, job: &Job) -> Result<Box<dyn Side>, String> {
        if job.kind == Kind::Carry {
            take_core(job)?;
        }
        let listener = match job.role() {
            Role::Passive => Some(self.listen(job).map_err(|error| format!("cannot listen: {error}"))?),
            Role::Active => None,
        };
        Ok(Box::new(SocketSide { sockets: Self { ..*self }, listener, stream: None }))
    }
}

fn resolve(host: &str, port: u16) -> io::Result<SocketAddr> {
    (host, port).to_socket_addrs()?.next().ok_or_else(|| io::Error::new(ErrorKind::NotFound, "the host has no address"))
}

fn port_of(peer: &str) -> io::Result<u16> {
    peer.parse().map_err(|_| io::Error::new(ErrorKind::InvalidInput, "no port from the peer"))
}

struct SocketSide {
    sockets: Sockets,
    listener: Option<TcpListener>,
    stream: Option<TcpStream>,
}

impl Side for SocketSide {
    fn address(&self) -> String {
        let port = self.listener.as_ref().and_then(|listener| listener.local_addr().ok()).map(|address| address.port());
        port.map_or_else(String::new, |port| port.to_string())
    }

    fn run(&mut self, job: &Job, addresses: &[String]) -> Result<Measured, String> {
        let variant = Variant::of_sockets(job)?;
        if matches!(job.kind, Kind::Carry | Kind::Connect) {
            let peer = other(job, addresses);
            let measured = if job.kind == Kind::Carry { self.carry(job, peer) } else { self.set_up(job, peer) };
            return measured.map_err(|error| format!("a connection failed: {error}"));
        }
        let stream = self.stream(job, other(job, addresses)).map_err(|error| format!("cannot connect: {error}"))?;
        match (job.kind, job.role()) {
            (Kind::Latency, Role::Active) => ping(stream, job, &variant),
            (Kind::Latency, Role::Passive) => pong(stream, job, &variant),
            // Both send first, and then read.
            (Kind::PingPing, _) => ping(stream, job, &variant),
            (Kind::Duplex, _) => duplex::run(stream, job),
            (Kind::Isosurface, _) => isosurface::run(stream, job),
            (Kind::LogP, _) => logp::run(job, &mut Messages::new(stream, job)),
            (Kind::Fetch, Role::Active) => fetch::request(stream, job),
            (Kind::Fetch, Role::Passive) => fetch::answer(stream, job),
            (Kind::Overlap, Role::Active) => overlap::search(stream, job),
            (Kind::Ratio, Role::Active) => overlap::ratio(stream, job),
            (Kind::Inserted, Role::Active) => overlap::insert(stream, job),
            (Kind::Overlap | Kind::Inserted | Kind::Ratio, Role::Passive) => overlap::answer(stream, job),
            (_, Role::Active) => pour(stream, job, &variant),
            (_, Role::Passive) => drain(stream, job, &variant),
        }
        .map_err(|error| format!("the connection failed: {error}"))
    }
}

impl SocketSide {
    fn carry(&self, job: &Job, peer: &str) -> io::Result<Measured> {
        match &self.listener {
            Some(listener) => carry::serve(carry::accept(job, listener)?, job),
            None => carry::offer(carry::connect(job, || self.connect(job, peer))?, job),
        }
    }

    fn set_up(&self, job: &Job, peer: &str) -> io::Result<Measured> {
        match &self.listener {
            Some(listener) => set_up::accept(listener, job),
            None => {
                let port = port_of(peer)?;
                set_up::connect(job, || self.sockets.connect(job, port))
            }
        }
    }

    fn connect(&self, job: &Job, peer: &str) -> io::Result<TcpStream> {
        let stream = self.sockets.connect(job, port_of(peer)?)?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    fn stream(&mut self, job: &Job, peer: &str) -> io::Result<&mut TcpStream> {
        let stream = match &self.listener {
            Some(listener) => listener.accept()?.0,
            None => self.connect(job, peer)?,
        };
        stream.set_nodelay(true)?;
        stream.set_nonblocking(job.wait == Wait::Spin)?;
        Ok(self.stream.insert(stream))
    }
}
