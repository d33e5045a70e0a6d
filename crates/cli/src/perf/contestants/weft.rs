//! Weft itself, over its verbs: RDMA writes, sends and reads on one queue pair in each process.
//!
//! Latency: a ping-pong. Sends find a receive that was posted ahead; a write is seen by its target when the last byte of its own memory
//! changes; a read is one round trip. Bandwidth and rate: lists of requests, of which each last one is signaled, until as many messages as
//! the window (and the caches) allow are under way; for sends that is until the receiver has posted again what it used. The passive side
//! says when it has everything.

mod latency;
mod link;
mod settings;
mod transfer;

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weft::verbs::{Access, Context, Listener, MemoryRegion, PortError, ProtectionDomain, RemoteMemory, Stag};

use super::super::contestant::{Contestant, Side};
use super::super::measure::Measured;
use super::super::plan::{Job, Operation, Role, Test};
use link::Link;
use settings::Settings;

/// How long the other side may take to connect.
const CONNECT_LIMIT: Duration = Duration::from_secs(60);

/// Weft, on one of its transports.
pub(crate) struct Weft {
    name: &'static str,
}

impl Weft {
    /// iWARP over the kernel's TCP.
    pub(crate) const IWARP: Self = Self { name: "iwarp" };
}

impl Contestant for Weft {
    fn name(&self) -> &'static str {
        self.name
    }

    fn describe(&self) -> &'static str {
        "Weft's verbs, one queue pair; sends, RDMA writes (the default in bandwidth) or reads; requests in lists, the last of each signaled; the variant is settings"
    }

    fn available(&self, _: Option<&str>) -> Result<(), String> {
        Ok(())
    }

    fn supports(&self, job: &Job) -> Result<(), String> {
        Settings::of(job).map(drop)
    }

    fn open(&self, job: &Job) -> Result<Box<dyn Side>, String> {
        let side = WeftSide::open(job, Settings::of(job)?).map_err(|error| format!("cannot open: {error}"))?;
        Ok(Box::new(side))
    }
}

/// The operation that carries the data.
fn operation(job: &Job) -> Operation {
    job.operation.unwrap_or(if job.test == Test::Bandwidth { Operation::Write } else { Operation::Send })
}

/// Messages that this side receives into at a time.
fn receive_slots(job: &Job) -> usize {
    match (operation(job), job.test, job.role) {
        (Operation::Send, Test::Latency, _) => 2,
        (Operation::Send, _, Role::Passive) => job.buffers(),
        _ => 0,
    }
}

struct WeftSide {
    context: Context,
    domain: ProtectionDomain,
    settings: Settings,
    /// Messages come in here, by receives or by the peer's writes; reads of the peer are answered from here.
    inbox: MemoryRegion,
    listener: Option<Listener>,
    /// Kept until both sides are done.
    link: Option<Link>,
}

/// What the other side must know.
#[derive(Serialize, Deserialize)]
struct Address {
    port: Option<u16>,
    stag: u32,
    offset: u64,
}

impl WeftSide {
    fn open(job: &Job, settings: Settings) -> Result<Self, Box<dyn std::error::Error>> {
        let context = Context::with_settings(settings.of_context())?;
        let domain = context.allocate_protection_domain()?;
        let slots = receive_slots(job).max(1);
        let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ;
        let inbox = domain.allocate(slots * job.size, access)?;
        let listener = match job.role {
            Role::Passive => {
                let local = resolve(job.local.as_deref().unwrap_or("127.0.0.1"), 0)?;
                Some(context.listen(local, &settings.of_listener())?)
            }
            Role::Active => None,
        };
        Ok(Self { context, domain, settings, inbox, listener, link: None })
    }

    fn connect(&mut self, job: &Job, peer: &Address) -> Result<Link, Box<dyn std::error::Error>> {
        let link = Link::new(&self.domain, &self.inbox, &self.context, job)?;
        match (&self.listener, peer.port) {
            (Some(listener), _) => {
                listener.accept(Some(CONNECT_LIMIT))?.accept(link.queue_pair(), &[])?;
                link.queue_pair().wait_connected(Some(CONNECT_LIMIT))?;
            }
            (None, Some(port)) => {
                link.queue_pair().connect(resolve(&job.host, port)?, &self.settings.of_connection())?;
            }
            (None, None) => return Err("the peer told no port".into()),
        }
        Ok(link)
    }
}

impl Side for WeftSide {
    fn address(&self) -> String {
        let port = self.listener.as_ref().map(|listener| listener.local_address().port());
        let RemoteMemory { stag, offset } = self.inbox.remote(0);
        serde_json::to_string(&Address { port, stag: stag.0, offset }).expect("plain values become JSON")
    }

    fn run(&mut self, job: &Job, peer: &str) -> Result<Measured, String> {
        let peer: Address = serde_json::from_str(peer).map_err(|error| format!("the peer's address: {error}"))?;
        let link = self.connect(job, &peer).map_err(|error| format!("cannot connect: {error}"))?;
        let link = self.link.insert(link);
        let target = RemoteMemory { stag: Stag(peer.stag), offset: peer.offset };
        match job.test {
            Test::Latency => latency::run(link, &self.inbox, target, job),
            Test::Bandwidth | Test::Rate => transfer::run(link, &self.inbox, target, job),
        }
        .map_err(|error| link.explain(&error))
    }
}

fn resolve(host: &str, port: u16) -> io::Result<SocketAddr> {
    let none = || io::Error::new(io::ErrorKind::NotFound, PortError::Unreachable.to_string());
    (host, port).to_socket_addrs()?.next().ok_or_else(none)
}
