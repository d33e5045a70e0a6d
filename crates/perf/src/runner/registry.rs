//! The contestants. A contestant is one file in `contestants/` and one line in [`all`].

use crate::contestants::emulator::Emulator;
use crate::contestants::iceoryx2::Iceoryx2;
use crate::contestants::libfabric::Libfabric;
use crate::contestants::matcher::Matching;
use crate::contestants::mpi::Mpi;
use crate::contestants::perftest::Perftest;
use crate::contestants::quinn::Quinn;
use crate::contestants::ring::Ring;
use crate::contestants::sockets::Sockets;
use crate::contestants::stream::Streams;
use crate::contestants::ucx::Ucx;
use crate::contestants::weft::Weft;
use crate::contestants::weft::messages::Messages;
use crate::model::contestant::{Contestant, Entry};
use crate::model::job::Job;

/// All contestants.
pub(crate) fn all() -> &'static [&'static dyn Contestant] {
    &[
        &Weft::IWARP,
        &Weft::EDGE,
        &Weft::SHM,
        &Ring,
        &Sockets::TCP,
        &Libfabric,
        &Ucx,
        &Sockets::MPTCP,
        &Streams::OWN,
        &Streams::SMOLTCP,
        &Quinn,
        &Iceoryx2,
        &Messages,
        &Mpi,
        &Matching,
        &Emulator,
        &Perftest,
    ]
}

/// The contestant that is measured by default, in tests of what all can do, and then its peers.
pub(crate) fn usual() -> impl Iterator<Item = &'static dyn Contestant> {
    let others = [
        "edge",
        "shm",
        "own-tcp",
        "smoltcp",
        Quinn::NAME,
        Iceoryx2::NAME,
        Ring::NAME,
        Messages::NAME,
        Mpi::NAME,
        Matching::NAME,
        Emulator::NAME,
        Perftest::NAME,
    ];
    all().iter().copied().filter(move |contestant| !others.contains(&contestant.name()))
}

/// Finds a contestant by its name on the command line.
pub(crate) fn parse(text: &str) -> Result<Entry, String> {
    let (name, variant) = match text.split_once(':') {
        Some((name, variant)) => (name, Some(variant.to_owned())),
        None => (text, None),
    };
    let contestant = all().iter().find(|contestant| contestant.name() == name).ok_or_else(|| {
        let names: Vec<_> = all().iter().map(|contestant| contestant.name()).collect();
        format!("there is no contestant {name:?}; there are {}", names.join(", "))
    })?;
    Ok(Entry { contestant: *contestant, variant })
}

/// The contestant that a job is for.
pub(crate) fn entry_of(job: &Job) -> Result<Entry, String> {
    parse(&job.variant.as_ref().map_or(job.contestant.clone(), |variant| format!("{}:{variant}", job.contestant)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found() {
        assert_eq!(parse("sockets").unwrap().to_string(), "sockets");
        assert_eq!(parse("libfabric:tcp;ofi_rxm").unwrap().variant.as_deref(), Some("tcp;ofi_rxm"));
        let error = parse("socket").unwrap_err();
        assert!(error.contains("\"socket\"") && error.contains("sockets"), "{error}");
    }

    #[test]
    fn no_contestant_runs_beside_itself() {
        let [plain, variant, other] = ["iwarp", "iwarp:crc=off", "sockets"].map(|name| parse(name).unwrap());
        assert!(variant.stands_for(&plain) && variant.stands_for(&variant));
        assert!(!plain.stands_for(&variant) && !plain.stands_for(&other));
    }

    #[test]
    fn names_are_unlike() {
        for (index, contestant) in all().iter().enumerate() {
            assert!(all()[..index].iter().all(|other| other.name() != contestant.name()));
        }
    }
}
