//! Shared memory by the crate iceoryx2: publish and subscribe, between two processes of one host.
//!
//! A message is loaned from the publisher's shared memory, filled (a copy, as a send of sockets is one), and sent; the
//! subscriber reads it where it is, or with the variant `copy` copies it out, as a read of sockets does. Latency: a
//! ping-pong over two services, one each way. Bandwidth and rate: the subscriber's queue holds the window, and the
//! publisher retries while that is full, as iceoryx2 does by default. Both sides poll.

#[cfg(feature = "iceoryx2")]
mod ports;

use std::net::IpAddr;

use crate::host::versions::locked;
use crate::model::contestant::{Contestant, Side};
use crate::model::job::{Job, Kind, Wait};

/// Publishers and subscribers.
pub(crate) struct Iceoryx2;

impl Iceoryx2 {
    pub(crate) const NAME: &str = "iceoryx2";
}

impl Contestant for Iceoryx2 {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn describe(&self) -> &'static str {
        "publish and subscribe in shared memory by the crate iceoryx2: messages are copied in and read in place, or as \
         iceoryx2:copy copied out as well; both sides poll"
    }

    fn available(&self, _: Option<&str>) -> Result<(), String> {
        if cfg!(feature = "iceoryx2") {
            return Ok(());
        }
        Err("this weft was built without iceoryx2: build it with cargo build --features iceoryx2".into())
    }

    fn version(&self, _: &Job) -> Option<String> {
        cfg!(feature = "iceoryx2").then(|| locked(Self::NAME)).flatten()
    }

    fn supports(&self, job: &Job) -> Result<(), String> {
        copies_out(job)?;
        if !job.host.parse().is_ok_and(|host: IpAddr| host.is_loopback()) {
            return Err("iceoryx2 is shared memory of one host: measure it without --lab and without --connect".into());
        }
        match job.kind {
            Kind::Latency | Kind::Bandwidth | Kind::Rate if job.wait == Wait::Spin => Ok(()),
            Kind::Latency | Kind::Bandwidth | Kind::Rate => Err("it only spins".into()),
            _ => Err("iceoryx2 is measured in latency, bandwidth and rate".into()),
        }
    }

    #[cfg(feature = "iceoryx2")]
    fn open(&self, job: &Job) -> Result<Box<dyn Side>, String> {
        ports::PortSide::open(job)
            .map(|side| Box::new(side) as Box<dyn Side>)
            .map_err(|error| format!("cannot open: {error}"))
    }

    #[cfg(not(feature = "iceoryx2"))]
    fn open(&self, _: &Job) -> Result<Box<dyn Side>, String> {
        self.available(None).and(Err("iceoryx2 is missing".into()))
    }
}

/// Whether messages are copied out of shared memory.
fn copies_out(job: &Job) -> Result<bool, String> {
    match job.variant.as_deref() {
        None => Ok(false),
        Some("copy") => Ok(true),
        Some(other) => Err(format!("{other:?} is no variant of iceoryx2; there is copy")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::job::tests::job;

    #[test]
    fn two_hosts_are_refused() {
        assert_eq!(Iceoryx2.supports(&job()), Ok(()));
        for host in ["10.0.0.1", "there"] {
            let refused = Iceoryx2.supports(&Job { host: host.into(), ..job() }).unwrap_err();
            assert!(refused.contains("one host") && refused.contains("--lab"), "{refused}");
        }
    }

    #[test]
    fn what_it_has_not_is_refused() {
        let variant = |name: &str| Iceoryx2.supports(&Job { variant: Some(name.into()), ..job() });
        assert_eq!(variant("copy"), Ok(()));
        assert!(variant("crc").unwrap_err().contains("\"crc\""));
        assert!(Iceoryx2.supports(&Job { wait: Wait::Block, ..job() }).is_err());
        assert!(Iceoryx2.supports(&Job { kind: Kind::Duplex, ..job() }).is_err());
    }

    #[test]
    fn without_it_the_feature_is_named() {
        match Iceoryx2.available(None) {
            Ok(()) => assert!(Iceoryx2.version(&job()).is_some()),
            Err(reason) => assert!(reason.contains("--features iceoryx2"), "{reason}"),
        }
    }
}
