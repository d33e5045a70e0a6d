//! Batches of doorbells: requests that are posted while others are under way wait for each other.

use core::sync::atomic::{Ordering, fence};

use weft_memory::Registry;
use weft_rdmap::SendRequest;

use super::{AGREED_RECEIPTS, QueuePair};
use crate::error::PostError;
use crate::ids::ConnectionHandle;

impl QueuePair {
    /// Batches doorbells from now on: while at least this many requests are under way, one that is posted goes out
    /// at the next poll, or with others when a batch is full ([`Nic::post_one`](crate::Nic::post_one)). A program that
    /// has that many under way polls, so the wait is short; and what is under way ends, which is a turn too. Long
    /// requests wait as well: what goes out together shares system calls and the last packet of each. Reads and atomics
    /// wait while one request is under way. At first no request waits.
    pub fn batch_doorbells(&self, from: usize) {
        self.batches_from.store(from, Ordering::Relaxed);
    }

    /// Whether a request that is posted now may wait for others. One that is answered does so as soon as one is under
    /// way: where answers come as fast as requests are posted there are never many, and each would be a packet of its
    /// own.
    #[inline]
    pub(crate) fn may_wait(&self, request: &SendRequest) -> bool {
        let from = self.batches_from.load(Ordering::Relaxed);
        let from = if request.operation.is_answered() && from < usize::MAX { from.min(1) } else { from };
        self.sends_under_way.load(Ordering::Relaxed) >= from
    }

    /// Puts a request that may wait into the queue. Returns the connection whose doorbell is to be rung, and how many
    /// requests wait now.
    pub(crate) fn submit_waiting(
        &self,
        registry: &Registry,
        request: &SendRequest,
    ) -> Result<(Option<ConnectionHandle>, usize), PostError> {
        let mut submission = self.submission.lock();
        self.admit(registry, request, submission.open)?;
        submission.requests.push_back(*request);
        let waiting = submission.requests.len();
        Ok((self.note_posted(&mut submission), waiting))
    }

    /// Whether something that the engine has taken of this queue pair ends without more being posted: so the engine has
    /// a turn, in which it finds what waits. To be asked when the doorbell has been rung: what has ended before may
    /// have been the last, and the engine sleep. Where receipts were agreed, no receipt is requested for requests that
    /// are not signaled until half of the queue is taken.
    pub(crate) fn brings_a_turn(&self) -> bool {
        fence(Ordering::SeqCst);
        let submission = self.submission.lock();
        let waiting = &submission.requests;
        if self.agreed.load(Ordering::Acquire) & AGREED_RECEIPTS == 0 {
            return self.sends_under_way.load(Ordering::Acquire) > waiting.len();
        }
        self.places.load(Ordering::Acquire) > waiting.iter().filter(|request| request.signaled).count()
    }
}
