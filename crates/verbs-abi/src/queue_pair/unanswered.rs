//! Work that a peer did not answer because its end of the connection has ended.
//!
//! On a reliable connection such work does not fail at once: the sender retransmits, and gives up after (`retry_cnt` +
//! 1) times its `timeout`. Programs count on it: both ends stop when they have had enough completions, the faster end
//! destroys its queue pairs, and the other end has to poll its last completions before it sees that.

use core::time::Duration;
use std::time::Instant;

use super::QueuePair;
use super::ending::patience;
use crate::abi::*;
use crate::border::lock;

/// Work with a timeout of 0, which stands for no limit, fails after this time: that the peer has ended is certain.
const WITHOUT_LIMIT: Duration = Duration::from_secs(2);

/// Completions that wait, the oldest first.
#[derive(Default)]
pub(super) struct Unanswered {
    since: Option<Instant>,
    completions: Vec<ibv_wc>,
}

impl QueuePair {
    /// Keeps the completion of a request that was not answered, unless the queue pair has failed already. Returns
    /// whether it was kept.
    pub(super) fn keep_unanswered(&self, completion: ibv_wc) -> bool {
        let mut unanswered = lock(&self.unanswered);
        if matches!(self.state(), IBV_QPS_ERR | IBV_QPS_SQE | IBV_QPS_RESET) {
            return false;
        }
        unanswered.since.get_or_insert_with(Instant::now);
        unanswered.completions.push(completion);
        drop(unanswered);
        // The thread of the rendezvous counts the time from here.
        self.parts.nic.bell().ring(self.number());
        true
    }

    /// How many requests wait.
    pub(super) fn unanswered(&self) -> usize {
        lock(&self.unanswered).completions.len()
    }

    /// When the requests that wait fail, if there are any.
    pub(crate) fn unanswered_until(&self) -> Option<Instant> {
        let since = lock(&self.unanswered).since?;
        let attributes = self.attributes();
        Some(since + patience(attributes.timeout, attributes.retry_cnt).unwrap_or(WITHOUT_LIMIT))
    }

    /// The time of the requests that wait is up: the first fails, the others are flushed, and the queue pair fails.
    pub(crate) fn fail_unanswered(&self) {
        // No request is posted between the change of the state and the completions of those before it.
        let post = lock(&self.post);
        self.flush_unanswered(IBV_WC_RETRY_EXC_ERR);
        drop(post);
        self.settle();
    }

    /// Hands over what waits: the first with `status`, the others flushed. The queue pair has failed, or fails now.
    pub(super) fn flush_unanswered(&self, status: i32) {
        let mut unanswered = lock(&self.unanswered);
        if unanswered.since.take().is_none() {
            return;
        }
        let mut status = if self.break_down() { status } else { IBV_WC_WR_FLUSH_ERR };
        for completion in core::mem::take(&mut unanswered.completions) {
            self.parts.send_completions.push(ibv_wc { status, ..completion }, true);
            status = IBV_WC_WR_FLUSH_ERR;
        }
    }

    /// The program wants to know nothing of it any more.
    pub(super) fn forget_unanswered(&self) {
        *lock(&self.unanswered) = Unanswered::default();
    }
}
