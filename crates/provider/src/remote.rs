//! `FI_RMA_EVENT`: counters of peers' operations on this side's memory.
//!
//! A counter counts for a region, or for an endpoint: operations over its connections on regions of its domain. Each
//! RDMA message counts, so that a transfer of several pieces at the peer, or of more than 1 GiB, counts more than once,
//! and a read of no bytes not at all. Atomic operations count as writes, whether they return the old value or not: the
//! executing side does not always know.

use std::sync::{Arc, OnceLock};

use weft::verbs::{RemoteRight, Watch};
use weft_lock::{Rank, RwLock};

use crate::queue::Tally;

/// The tallies of one endpoint or region.
#[derive(Clone, Default)]
pub(crate) struct RemoteTallies {
    /// Reads.
    pub(crate) read: Option<Arc<Tally>>,
    /// Writes and atomic operations.
    pub(crate) write: Option<Arc<Tally>>,
}

impl RemoteTallies {
    fn of(&self, right: RemoteRight) -> Option<&Arc<Tally>> {
        match right {
            RemoteRight::Read => self.read.as_ref(),
            RemoteRight::Write | RemoteRight::Atomic => self.write.as_ref(),
        }
    }

    /// Whether there is none.
    pub(crate) const fn is_empty(&self) -> bool {
        self.read.is_none() && self.write.is_none()
    }
}

/// The endpoints of a domain that count, by their ids.
pub(crate) struct RemoteCounters(RwLock<Vec<(u64, RemoteTallies)>>);

impl Default for RemoteCounters {
    fn default() -> Self {
        Self(RwLock::new(Rank::RemoteCounters, Vec::new()))
    }
}

impl RemoteCounters {
    /// Sets the tallies of this endpoint.
    pub(crate) fn set(&self, endpoint: u64, tallies: RemoteTallies) {
        let mut all = self.0.write();
        match all.iter_mut().find(|(other, _)| *other == endpoint) {
            Some((_, present)) => *present = tallies,
            None => all.push((endpoint, tallies)),
        }
    }

    /// Removes those of this endpoint.
    pub(crate) fn remove(&self, endpoint: u64) {
        self.0.write().retain(|(other, _)| *other != endpoint);
    }

    fn tally(&self, endpoint: u64, right: RemoteRight) -> Option<Arc<Tally>> {
        let all = self.0.read();
        all.iter().find(|(other, _)| *other == endpoint).and_then(|(_, tallies)| tallies.of(right)).cloned()
    }
}

/// Watches a region.
pub(crate) struct RegionWatch {
    endpoints: Arc<RemoteCounters>,
    /// Those bound to the region itself.
    own: [OnceLock<Arc<Tally>>; 2],
}

impl RegionWatch {
    /// One that knows the endpoints of its domain.
    pub(crate) fn new(endpoints: &Arc<RemoteCounters>) -> Self {
        Self { endpoints: Arc::clone(endpoints), own: Default::default() }
    }

    /// Counts for the region from now on. Returns whether nothing did before.
    pub(crate) fn bind(&self, right: RemoteRight, tally: &Arc<Tally>) -> bool {
        self.place(right).set(Arc::clone(tally)).is_ok()
    }

    fn place(&self, right: RemoteRight) -> &OnceLock<Arc<Tally>> {
        &self.own[usize::from(right != RemoteRight::Read)]
    }
}

impl Watch for RegionWatch {
    fn accessed(&self, right: RemoteRight, owner: u64) {
        let own = self.place(right).get().cloned();
        // No lock is held meanwhile.
        for tally in [own, self.endpoints.tally(owner, right)].into_iter().flatten() {
            tally.complete(true);
        }
    }
}
