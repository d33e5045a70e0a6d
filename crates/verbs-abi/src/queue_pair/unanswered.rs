//! Work that a peer did not answer because its end of the connection has ended.
//!
//! On a reliable connection such work does not fail at once: the sender retransmits, and gives up when its `timeout`
//! has passed for each of the `retry_cnt` retries. Programs count on it: both ends stop when they have had enough
//! completions, the faster end destroys its queue pairs, and the other end has to poll its last completions before it
//! sees that.

use std::time::Instant;

use crate::abi::ibv_wc;

/// Completions that wait, the oldest first.
#[derive(Default)]
pub(super) struct Unanswered {
    /// When the first of them was not answered.
    pub(super) since: Option<Instant>,
    pub(super) completions: Vec<ibv_wc>,
}

impl Unanswered {
    /// One more waits.
    pub(super) fn push(&mut self, completion: ibv_wc) {
        self.since.get_or_insert_with(Instant::now);
        self.completions.push(completion);
    }

    /// Takes all that wait.
    pub(super) fn take(&mut self) -> Vec<ibv_wc> {
        self.since = None;
        core::mem::take(&mut self.completions)
    }
}
