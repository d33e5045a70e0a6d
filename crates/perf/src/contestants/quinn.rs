//! Streams over QUIC, by the crate quinn: one bidirectional stream over UDP, encrypted, as QUIC always is.
//!
//! It does what the contestant `sockets` does, with the same writes and reads. One thread of each process runs both the
//! program and quinn; spinning, that thread never sleeps in the kernel. GSO and GRO are quinn's own; congestion control
//! is its default (CUBIC), and so is the discovery of the path's MTU; windows and socket buffers are as large as those
//! that the kernel's TCP may have. The server is known by its public key (RFC 7250), of which each run makes a new one.

#[cfg(feature = "quinn")]
mod keys;
#[cfg(feature = "quinn")]
mod stream;

use crate::contestants::sockets::variant::Variant;
use crate::host::versions::locked;
use crate::model::contestant::{Contestant, Side};
use crate::model::job::{Job, Kind};

/// Streams over QUIC.
pub(crate) struct Quinn;

impl Quinn {
    pub(crate) const NAME: &str = "quinn";
}

impl Contestant for Quinn {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn describe(&self) -> &'static str {
        "one stream over QUIC (UDP, TLS 1.3 with AES-GCM) by the crate quinn, in one thread; otherwise as sockets, \
         variants included"
    }

    fn available(&self, _: Option<&str>) -> Result<(), String> {
        if cfg!(feature = "quinn") {
            return Ok(());
        }
        Err("this weft was built without quinn: build it with cargo build --features quinn (a C compiler is needed)"
            .into())
    }

    fn version(&self, _: &Job) -> Option<String> {
        cfg!(feature = "quinn").then(|| locked(Self::NAME)).flatten()
    }

    fn supports(&self, job: &Job) -> Result<(), String> {
        let variant = Variant::of(job)?;
        match job.kind {
            Kind::Latency | Kind::PingPing | Kind::Bandwidth | Kind::Rate | Kind::Duplex => variant.fits(job.kind),
            _ => Err("quinn is measured in latency, bandwidth, rate and ping-ping".into()),
        }
    }

    #[cfg(feature = "quinn")]
    fn open(&self, job: &Job) -> Result<Box<dyn Side>, String> {
        stream::QuinnSide::open(job)
            .map(|side| Box::new(side) as Box<dyn Side>)
            .map_err(|error| format!("cannot open: {error}"))
    }

    #[cfg(not(feature = "quinn"))]
    fn open(&self, _: &Job) -> Result<Box<dyn Side>, String> {
        self.available(None).and(Err("quinn is missing".into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::job::tests::job;

    #[test]
    fn it_has_the_tests_and_variants_of_streams() {
        let supports =
            |kind, variant: Option<&str>| Quinn.supports(&Job { kind, variant: variant.map(str::to_owned), ..job() });
        assert_eq!(supports(Kind::Duplex, None), Ok(()));
        assert_eq!(supports(Kind::Rate, Some("batched")), Ok(()));
        assert!(supports(Kind::Idle, None).unwrap_err().contains("latency"));
        assert!(supports(Kind::Rate, Some("fast")).unwrap_err().contains("\"fast\""));
    }

    #[test]
    fn without_it_the_feature_is_named() {
        match Quinn.available(None) {
            Ok(()) => assert!(Quinn.version(&job()).is_some()),
            Err(reason) => assert!(reason.contains("--features quinn"), "{reason}"),
        }
    }
}
