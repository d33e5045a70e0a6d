//! What was seen, and what changed in between.

use std::time::{Duration, Instant};

use weft_driver::board::{Skipped, Snapshot, boards};

use weft_command::failure::Failure;

/// What was seen at one moment.
pub(super) struct Sample {
    pub(super) at: Instant,
    /// The NICs that were requested.
    pub(super) nics: Vec<Snapshot>,
    /// Files that could not be read.
    pub(super) skipped: Vec<Skipped>,
    /// All processes that have a NIC.
    pids: Vec<u32>,
}

impl Sample {
    /// Reads the counters of all NICs, or of those of one process.
    pub(super) fn now(pid: Option<u32>) -> Self {
        let mut found = boards();
        let pids = processes(&found.live);
        found.live.retain(|nic| pid.is_none_or(|pid| nic.pid == pid));
        Self { at: Instant::now(), nics: found.live, skipped: found.skipped, pids }
    }

    #[cfg(test)]
    pub(super) fn made_up(at: Instant, nics: Vec<Snapshot>) -> Self {
        Self { at, pids: processes(&nics), nics, skipped: Vec::new() }
    }

    /// That the process is there.
    pub(super) fn require(&self, pid: u32) -> Result<(), Failure> {
        if self.pids.contains(&pid) {
            return Ok(());
        }
        let others: Vec<_> = self.pids.iter().map(u32::to_string).collect();
        Err(Failure::Runtime(if others.is_empty() {
            format!("process {pid} has no NIC that shows its counters, and no other process of this user has one")
        } else {
            format!("process {pid} has no NIC that shows its counters; those that have one: {}", others.join(", "))
        }))
    }

    fn find(&self, nic: &Snapshot) -> Option<&Snapshot> {
        let key = |nic: &Snapshot| (nic.pid, nic.start, nic.nic);
        self.nics.iter().find(|known| key(known) == key(nic))
    }
}

/// Each once. They are sorted.
fn processes(nics: &[Snapshot]) -> Vec<u32> {
    let mut pids: Vec<_> = nics.iter().map(|nic| nic.pid).collect();
    pids.dedup();
    pids
}

/// A reading, and the one before it if there is one.
pub(super) struct Changes<'a> {
    before: Option<&'a Sample>,
    now: &'a Sample,
}

impl<'a> Changes<'a> {
    /// A first reading: there are no rates.
    pub(super) const fn of_one(now: &'a Sample) -> Self {
        Self { before: None, now }
    }

    pub(super) const fn between(before: &'a Sample, now: &'a Sample) -> Self {
        Self { before: Some(before), now }
    }

    /// Time between the two.
    pub(super) fn time(&self) -> Option<Duration> {
        self.before.map(|before| self.now.at.duration_since(before.at))
    }

    pub(super) fn nics(&self) -> impl Iterator<Item = Change<'a>> {
        self.now.nics.iter().map(|nic| {
            let before = self.before.and_then(|before| before.find(nic)).zip(self.time());
            Change { nic, before }
        })
    }

    pub(super) fn skipped(&self) -> &'a [Skipped] {
        &self.now.skipped
    }

    /// A line for each file that was skipped.
    pub(super) fn complaints(&self) -> String {
        let line = |skipped: &Skipped| format!("passed over {}: {}\n", skipped.path.display(), skipped.reason);
        self.skipped().iter().map(line).collect()
    }
}

/// One NIC, with its values at the reading before if it was there.
#[derive(Clone, Copy)]
pub(super) struct Change<'a> {
    pub(super) nic: &'a Snapshot,
    pub(super) before: Option<(&'a Snapshot, Duration)>,
}

impl Change<'_> {
    /// How much a counter has grown per second. A NIC that was closed and opened again in between begins at 0.
    pub(super) fn per_second(&self, name: &str) -> Option<f64> {
        let (before, time) = self.before?;
        let grown = self.nic.total(name)?.saturating_sub(before.total(name)?);
        (!time.is_zero()).then(|| grown as f64 / time.as_secs_f64())
    }
}
