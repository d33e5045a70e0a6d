//! Who can be measured. A contestant is one file in `contestants/` and one line in [`all`].

use std::fmt;

use super::contestants::{
    libfabric::Libfabric, matcher::Matching, mpi::Mpi, ring::Ring, sockets::Sockets, stream::Streams, ucx::Ucx,
    weft::Weft, weft::messages::Messages,
};
use super::job::Job;
use super::measure::Measured;
use super::provider::Provider;

/// A way to move bytes between processes.
///
/// One run is two fresh processes, or more. In each, [`open`](Self::open) gives a [`Side`]; the sides' addresses are
/// exchanged; then all [`run`](Side::run) at the same time.
pub(crate) trait Contestant: Sync {
    /// What it is called on the command line, before a colon.
    fn name(&self) -> &'static str;

    /// What it does in each test, in a line for the report.
    fn describe(&self) -> &'static str;

    /// Whether it can run on this machine; otherwise why not and what to install.
    fn available(&self, variant: Option<&str>) -> Result<(), String>;

    /// Whether it has this variant and this kind of run at all; otherwise what it has.
    fn supports(&self, job: &Job) -> Result<(), String>;

    /// Weft's provider of libfabric, when a process needs to be started where libfabric finds it.
    fn provider(&self, _variant: Option<&str>) -> Result<Option<Provider>, String> {
        Ok(None)
    }

    /// Makes one side ready, up to the point where the other side can reach it.
    fn open(&self, job: &Job) -> Result<Box<dyn Side>, String>;
}

/// One side of one run. Dropped only when all sides are done.
pub(crate) trait Side {
    /// What the other side must know to reach this one; may be empty.
    fn address(&self) -> String;

    /// Warms up, then measures. `addresses` are those of all sides, this one included.
    fn run(&mut self, job: &Job, addresses: &[String]) -> Result<Measured, String>;
}

/// The address of the other one of two sides.
pub(crate) fn other<'a>(job: &Job, addresses: &'a [String]) -> &'a str {
    addresses.get(1 - job.rank.min(1)).map_or("", String::as_str)
}

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
        &Messages,
        &Mpi,
        &Matching,
    ]
}

/// Who is measured by default, in tests of what all can do, and then its peers.
pub(crate) fn usual() -> impl Iterator<Item = &'static dyn Contestant> {
    let others = ["edge", "shm", "own-tcp", "smoltcp", Ring::NAME, Messages::NAME, Mpi::NAME, Matching::NAME];
    all().iter().copied().filter(move |contestant| !others.contains(&contestant.name()))
}

/// A contestant, perhaps with a variant: `libfabric:tcp`.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) contestant: &'static dyn Contestant,
    pub(crate) variant: Option<String>,
}

impl Entry {
    /// Finds a contestant by its name on the command line.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (name, variant) = match text.split_once(':') {
            Some((name, variant)) => (name, Some(variant.to_owned())),
            None => (text, None),
        };
        let contestant = all().iter().find(|contestant| contestant.name() == name).ok_or_else(|| {
            let names: Vec<_> = all().iter().map(|contestant| contestant.name()).collect();
            format!("there is no contestant {name:?}; there are {}", names.join(", "))
        })?;
        Ok(Self { contestant: *contestant, variant })
    }

    /// Whom a job is for.
    pub(crate) fn of(job: &Job) -> Result<Self, String> {
        Self::parse(
            &job.variant.as_ref().map_or(job.contestant.clone(), |variant| format!("{}:{variant}", job.contestant)),
        )
    }

    /// Whether the other one need not be measured beside this one: it is the same, or what this one is a variant of.
    pub(crate) fn stands_for(&self, other: &Self) -> bool {
        self.contestant.name() == other.contestant.name() && (other.variant.is_none() || self.variant == other.variant)
    }

    /// Whether it can run here.
    pub(crate) fn available(&self) -> Result<(), String> {
        self.contestant.available(self.variant.as_deref())
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.contestant.name())?;
        self.variant.as_ref().map_or(Ok(()), |variant| write!(f, ":{variant}"))
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Entry({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found() {
        assert_eq!(Entry::parse("sockets").unwrap().to_string(), "sockets");
        assert_eq!(Entry::parse("libfabric:tcp;ofi_rxm").unwrap().variant.as_deref(), Some("tcp;ofi_rxm"));
        let error = Entry::parse("socket").unwrap_err();
        assert!(error.contains("\"socket\"") && error.contains("sockets"), "{error}");
    }

    #[test]
    fn nobody_runs_beside_itself() {
        let [plain, variant, other] = ["iwarp", "iwarp:crc=off", "sockets"].map(|name| Entry::parse(name).unwrap());
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
