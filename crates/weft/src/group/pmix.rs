//! PMIx, by which Open MPI's launchers and Slurm tell processes who they are: `weft-pmix` speaks it.

use core::sync::atomic::{AtomicU32, Ordering};

use weft_pmix::Client;

use super::error::GroupError;
use super::limits::{LIMIT, MOST_BYTES};

/// Groups that this process has had: values of one must not be taken for another's.
static GROUPS: AtomicU32 = AtomicU32::new(0);

/// A rank as a client of its launcher.
pub(super) struct Pmix {
    client: Client,
    group: u32,
    exchanges: u64,
}

impl Pmix {
    pub(super) fn connect() -> Result<Self, GroupError> {
        let client = Client::connect().map_err(GroupError::Pmix)?;
        Ok(Self { client, group: GROUPS.fetch_add(1, Ordering::Relaxed), exchanges: 0 })
    }

    pub(super) fn rank(&self) -> usize {
        self.client.rank() as usize
    }

    pub(super) fn size(&self) -> usize {
        self.client.size() as usize
    }

    pub(super) fn all_gather(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, GroupError> {
        let key = format!("weft.{}.{}", self.group, self.exchanges);
        self.exchanges += 1;
        self.client.put(&key, bytes).map_err(GroupError::Pmix)?;
        self.client.fence(LIMIT).map_err(GroupError::Pmix)?;
        (0..self.client.size()).map(|rank| self.client.get(rank, &key, MOST_BYTES).map_err(GroupError::Pmix)).collect()
    }
}
