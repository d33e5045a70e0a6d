//! TCP in user space on the raw link of a test network, as a plain stream without RDMA: Weft's own, and smoltcp's. Both
//! do what the contestant `sockets` does, over the same kind of packet ring, and spin.

use std::io;
use std::net::{IpAddr, SocketAddr};

use weft::verbs::LinkSettings;

use crate::contestants::sockets::exchange::{drain, ping, pong, pour};
use crate::contestants::sockets::variant::Variant;
use crate::contestants::stream::end::StreamEnd;
use crate::host::versions::{locked, own as own_version};
use crate::model::contestant::{Contestant, Side, other};
use crate::model::job::{Job, Kind, Role, Wait};
use crate::model::measure::Measured;
use own::Own;

mod end;
mod own;
#[cfg(feature = "smoltcp")]
mod smol;

/// Streams of one TCP.
pub(crate) struct Streams {
    name: &'static str,
    make: fn(&LinkSettings, Role) -> io::Result<Box<dyn StreamEnd>>,
}

impl Streams {
    /// Weft's own TCP.
    pub(crate) const OWN: Self = Self { name: "own-tcp", make: |link, role| Ok(Box::new(Own::new(link, role)?)) };
    /// That of smoltcp.
    pub(crate) const SMOLTCP: Self = Self {
        name: "smoltcp",
        #[cfg(feature = "smoltcp")]
        make: |link, role| Ok(Box::new(smol::Smol::new(link, role)?)),
        #[cfg(not(feature = "smoltcp"))]
        make: |_, _| Err(io::ErrorKind::Unsupported.into()),
    };
}

impl Contestant for Streams {
    fn name(&self) -> &'static str {
        self.name
    }

    fn describe(&self) -> &'static str {
        "a TCP in user space on the raw link, as a plain stream; otherwise as sockets, variants included"
    }

    fn available(&self, _: Option<&str>) -> Result<(), String> {
        if self.name == Self::SMOLTCP.name && !cfg!(feature = "smoltcp") {
            return Err("this weft was built without smoltcp: build it with cargo build --features smoltcp".into());
        }
        Ok(())
    }

    fn version(&self, _: &Job) -> Option<String> {
        if self.name == Self::OWN.name {
            return own_version();
        }
        cfg!(feature = "smoltcp").then(|| locked(self.name)).flatten()
    }

    fn supports(&self, job: &Job) -> Result<(), String> {
        let variant = Variant::of(job)?;
        match job.kind {
            Kind::Latency | Kind::Bandwidth | Kind::Rate if job.wait == Wait::Spin => variant.fits(job.kind),
            Kind::Latency | Kind::Bandwidth | Kind::Rate => Err("it only spins".into()),
            _ => Err("latency, bandwidth and rate are all that is measured of it".into()),
        }
    }

    fn open(&self, job: &Job) -> Result<Box<dyn Side>, String> {
        let missing = "it takes a raw link: measure with --lab none, or between two machines with --link on both";
        let link = job.link.as_ref().ok_or(missing)?.parse::<LinkSettings>().map_err(|error| error.to_string())?;
        let own = link.first().ok_or("the link has no address")?;
        let stream = (self.make)(&link, job.role()).map_err(|error| format!("cannot open: {error}"))?;
        Ok(Box::new(StreamSide { stream, own }))
    }
}

struct StreamSide {
    stream: Box<dyn StreamEnd>,
    own: IpAddr,
}

impl Side for StreamSide {
    fn address(&self) -> String {
        SocketAddr::new(self.own, self.stream.port()).to_string()
    }

    fn run(&mut self, job: &Job, addresses: &[String]) -> Result<Measured, String> {
        let variant = Variant::of(job)?;
        let remote = other(job, addresses).parse().map_err(|_| "no address from the peer".to_owned())?;
        let remote = (job.role() == Role::Active).then_some(remote);
        let stream = &mut self.stream;
        stream.open(remote).map_err(|error| format!("cannot connect: {error}"))?;
        let measured = match (job.kind, job.role()) {
            (Kind::Latency, Role::Active) => ping(stream, job, &variant),
            (Kind::Latency, Role::Passive) => pong(stream, job, &variant),
            (_, Role::Active) => pour(stream, job, &variant),
            (_, Role::Passive) => drain(stream, job, &variant),
        };
        stream.finish();
        measured.map_err(|error| format!("the connection failed: {error}"))
    }
}
