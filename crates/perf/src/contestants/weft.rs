//! Weft itself, over its verbs: RDMA writes, sends and reads on one queue pair in each process.
//!
//! Latency: a ping-pong. Sends find a receive that was posted ahead; a write is seen by its target when the last byte
//! of its own memory changes; a read is one round trip. Bandwidth and rate: lists of requests, of which each last one
//! is signaled, until as many messages as the window (and the caches) allow are in flight; for sends that is until the
//! receiver has posted again what it used. The passive side says when it has everything.

mod all_to_all;
mod carry;
mod demands;
mod endpoints;
mod fetch;
mod first_message;
mod idle;
mod isosurface;
mod latency;
mod link;
mod logp;
pub(crate) mod messages;
mod overlap;
mod set_up;
mod settings;
mod transfer;

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};
use weft::verbs::{Access, Context, Listener, MemoryRegion, ProtectionDomain, RemoteMemory, Stag};

use crate::contestants::weft::demands::{CONNECT_LIMIT, flag_at, operation, resolve};
use crate::host::versions::own;
use crate::model::contestant::{Contestant, Side, other};
use crate::model::job::{Job, Kind, Operation, Role, Target};
use crate::model::measure::Measured;
use link::Link;
use settings::Settings;

/// Weft, on one of its transports.
pub(crate) struct Weft {
    name: &'static str,
}

impl Weft {
    /// iWARP over the kernel's TCP.
    pub(crate) const IWARP: Self = Self { name: "iwarp" };
    /// Edge over UDP.
    pub(crate) const EDGE: Self = Self { name: "edge" };
    /// Shared memory.
    pub(crate) const SHM: Self = Self { name: "shm" };
}

impl Contestant for Weft {
    fn name(&self) -> &'static str {
        self.name
    }

    fn describe(&self) -> &'static str {
        "Weft's verbs, one queue pair; sends, RDMA writes (the default in bandwidth), notified writes, reads or \
         atomics; requests in lists, the last of each signaled; the variant is settings"
    }

    fn available(&self, _: Option<&str>) -> Result<(), String> {
        Ok(())
    }

    fn version(&self, _: &Job) -> Option<String> {
        own()
    }

    fn supports(&self, job: &Job) -> Result<(), String> {
        let settings = Settings::of(job)?;
        match (job.kind, operation(job)) {
            (Kind::Idle | Kind::AllToAll | Kind::Carry, _) if settings.is_raw() => {
                Err("a raw link is for two processes".into())
            }
            (Kind::Connect, _) if settings.is_raw() => Err("connections are not set up over a raw link here".into()),
            _ if settings.has_unused_key() => {
                Err("queue pairs prove a key over Edge alone: transport edge or auto".into())
            }
            (kind, Operation::Atomic) if kind != Kind::Rate || job.size != 8 => {
                Err("atomics have 8 bytes, and are measured in rate".into())
            }
            (kind, Operation::Notify) if kind != Kind::Latency => Err("a notified put is measured in latency".into()),
            (Kind::PingPing, Operation::Write | Operation::Read) => {
                Err("in an exchange both sides send; a write or a read has no place in it".into())
            }
            (Kind::Duplex, Operation::Send) => {
                Err("both ways at once are written or read; a message would take the receive of a word".into())
            }
            (Kind::Overlap | Kind::Inserted | Kind::Ratio, _)
                if job.target == Target::Silent && !settings.is_automatic() =>
            {
                Err("without a thread of its own the NIC of a silent target does nothing".into())
            }
            (Kind::Carry, _) if !settings.is_automatic() => {
                Err("without a thread of its own the NIC does nothing while the application computes".into())
            }
            _ => Ok(()),
        }
    }

    fn open(&self, job: &Job) -> Result<Box<dyn Side>, String> {
        let settings = Settings::of(job)?;
        let side: Result<Box<dyn Side>, Box<dyn std::error::Error>> = match job.kind {
            Kind::Idle => idle::open(job, settings),
            Kind::Connect => set_up::open(job, settings),
            Kind::AllToAll => all_to_all::open(job, settings),
            Kind::Carry => carry::open(job, settings),
            _ => WeftSide::open(job, settings).map(|side| Box::new(side) as Box<dyn Side>),
        };
        side.map_err(|error| format!("cannot open: {error}"))
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
    /// Where it listens, if that is not the host that was named.
    host: Option<IpAddr>,
    stag: u32,
    offset: u64,
}

impl WeftSide {
    fn open(job: &Job, settings: Settings) -> Result<Self, Box<dyn std::error::Error>> {
        let (context, own) = settings.open(job)?;
        let domain = context.allocate_protection_domain()?;
        let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC;
        let inbox = domain.allocate(flag_at(job) + 8, access)?;
        let listener = match job.role() {
            Role::Passive => {
                let local = match own {
                    Some(own) => SocketAddr::new(own, 0),
                    None => resolve(job.local.as_deref().unwrap_or("127.0.0.1"), 0)?,
                };
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
                let remote =
                    peer.host.map_or_else(|| resolve(&job.host, port), |host| Ok(SocketAddr::new(host, port)))?;
                link.queue_pair().connect(remote, &self.settings.of_connection())?;
            }
            (None, None) => return Err("the peer told no port".into()),
        }
        Ok(link)
    }
}

impl Side for WeftSide {
    fn address(&self) -> String {
        let local = self.listener.as_ref().map(Listener::local_address);
        let port = local.map(|local| local.port());
        let host = local.map(|local| local.ip()).filter(|_| self.settings.is_raw());
        let RemoteMemory { stag, offset } = self.inbox.remote(0);
        serde_json::to_string(&Address { port, host, stag: stag.0, offset }).expect("plain values become JSON")
    }

    fn run(&mut self, job: &Job, addresses: &[String]) -> Result<Measured, String> {
        let peer: Address =
            serde_json::from_str(other(job, addresses)).map_err(|error| format!("the peer's address: {error}"))?;
        let link = self.connect(job, &peer).map_err(|error| format!("cannot connect: {error}"))?;
        let link = self.link.insert(link);
        let target = RemoteMemory { stag: Stag(peer.stag), offset: peer.offset };
        match job.kind {
            Kind::Latency | Kind::PingPing => latency::run(link, &self.inbox, target, job),
            Kind::Overlap | Kind::Inserted | Kind::Ratio => overlap::run(link, &self.inbox, target, job),
            Kind::Fetch => fetch::run(link, &self.inbox, target, job),
            Kind::Isosurface => isosurface::run(link, &self.inbox, target, job),
            Kind::LogP => logp::run(link, &self.inbox, job),
            _ => transfer::run(link, &self.inbox, target, job),
        }
        .map_err(|error| link.explain(&error))
    }
}
