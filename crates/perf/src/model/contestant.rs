//! What can be measured: a contestant, and its name with a variant.

use std::fmt;

use weft_command::provider::Provider;

use crate::model::job::Job;
use crate::model::measure::Measured;

/// Why nothing goes through shared memory in a network of their own.
pub(crate) const NOTHING_SHARED: &str = "ranks on two hosts share no memory: --lab off has them on one";

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

    /// The version of what is measured in this job, if it can be known: of a library, of the kernel.
    fn version(&self, _job: &Job) -> Option<String> {
        None
    }

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

/// A contestant, perhaps with a variant: `libfabric:tcp`.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) contestant: &'static dyn Contestant,
    pub(crate) variant: Option<String>,
}

impl Entry {
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
