//! Connections of a queue pair: how one is given to it, what the NIC says of its work, and how it ends.

use core::sync::atomic::Ordering;
use core::time::Duration;
use std::sync::MutexGuard;
use std::time::Instant;

use weft::verbs::{
    CompletionKind, ConnectionError, QueuePair as Connection, State, Status, StreamError, TerminateCode, Violation,
    WorkCompletion,
};

use super::conversion::failure;
use super::state::after_failure;
use super::{Post, QueuePair};
use crate::abi::*;
use crate::border::lock;
use crate::nic::Owner;

/// Work waits for a peer that does not answer at least for this time.
const SHORTEST: Duration = Duration::from_secs(2);

/// What became of an attempt to connect.
#[derive(Debug)]
pub(crate) enum Fate {
    /// It stands, or there is none any more: nothing is to be done.
    Settled,
    /// It goes on.
    Pending,
    /// It came to nothing.
    Failed(Option<ConnectionError>),
}

impl QueuePair {
    /// Makes a queue pair of the NIC for a connection of this one.
    ///
    /// # Errors
    /// A limit is reached.
    pub(crate) fn prepare(self: &std::sync::Arc<Self>) -> Result<Connection, weft::verbs::Error> {
        let (domain, depth) = (&self.parts.domain.domain, self.parts.cap.max_send_wr);
        let owner = std::sync::Arc::clone(self) as std::sync::Arc<dyn Owner>;
        let connection = self.parts.nic.queue_pair(domain, &self.receive_queue(), depth, owner)?;
        self.apply_terms_to(&connection, 0);
        Ok(connection)
    }

    /// Gives it a connection that is being set up. Returns it where there is one already, or it is gone.
    pub(crate) fn attach(&self, connection: Connection) -> Option<Connection> {
        let mut post = lock(&self.post);
        if post.is_gone || !self.is_receiving() || post.connection.is_some() {
            return Some(connection);
        }
        // They may have changed since it was made.
        self.apply_terms_to(&connection, post.peer_timer);
        post.connection = Some(connection);
        None
    }

    /// The same for the other end of a queue pair that is connected to itself.
    pub(crate) fn attach_echo(&self, connection: Connection) -> Option<Connection> {
        let mut post = lock(&self.post);
        if post.is_gone || !self.is_receiving() || post.echo.is_some() {
            return Some(connection);
        }
        self.apply_terms_to(&connection, post.peer_timer);
        post.echo = Some(connection);
        None
    }

    /// How the attempt to connect has gone. One that has come to nothing is taken from it. `timer_of` finds the number
    /// of the peer's timer for missing receives in what the peer has said of itself; `None`: that is not the peer.
    pub(crate) fn check_attempt(&self, timer_of: impl FnOnce(&[u8]) -> Option<u8>) -> Fate {
        let mut post = lock(&self.post);
        let Some(connection) = &post.connection else { return Fate::Settled };
        match connection.state() {
            _ if post.is_ready => Fate::Settled,
            State::Ready => {
                let timer = connection.info().and_then(|info| timer_of(&info.private_data));
                let Some(peer_timer) = timer else { return self.drop_attempt(post) };
                self.apply_terms_to(connection, peer_timer);
                post.peer_timer = peer_timer;
                self.flush_backlog(&mut post);
                Fate::Settled
            }
            State::Idle | State::Connecting => Fate::Pending,
            State::Closing | State::Closed | State::Failed => self.drop_attempt(post),
        }
    }

    fn drop_attempt(&self, mut post: MutexGuard<'_, Post>) -> Fate {
        let failed = post.connection.take();
        drop(post);
        let error = failed.as_ref().and_then(Connection::error);
        if let Some(failed) = failed {
            self.parts.nic.end(failed);
        }
        Fate::Failed(error)
    }

    /// How long the oldest request has waited for a connection by now, and how long it may.
    pub(crate) fn patience(&self, now: Instant) -> Option<(Duration, Option<Duration>)> {
        let since = lock(&self.post).waits_since?;
        let attributes = self.attributes();
        Some((now.saturating_duration_since(since), patience(attributes.timeout, attributes.retry_cnt)))
    }

    /// No connection comes: what was posted fails.
    pub(crate) fn give_up(&self) {
        let mut post = lock(&self.post);
        // None waits any more where the program has reset it meanwhile, and may have begun anew.
        if post.waits_since.take().is_none() {
            return;
        }
        let backlog = core::mem::take(&mut post.backlog);
        self.break_down();
        self.fail_backlog(backlog, IBV_WC_RETRY_EXC_ERR);
        drop(post);
        self.settle();
    }

    /// The work has failed: the state is that of errors, and the thread of the rendezvous does the rest. Returns
    /// whether it is the first failure.
    pub(super) fn break_down(&self) -> bool {
        let is_first = self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, after_failure).is_ok();
        // One that was reset meanwhile has nothing to do with what failed.
        if self.state() != IBV_QPS_RESET {
            self.is_broken.store(true, Ordering::Release);
        }
        self.parts.nic.bell().ring(self.number());
        is_first
    }

    /// Something has happened to the connection: if it has ended for good, what is left is flushed. A peer that has
    /// gone leaves posted receives alone, as on a reliable connection: only work fails.
    pub(crate) fn settle(&self) {
        let post = lock(&self.post);
        let error = post.connection.as_ref().and_then(Connection::error);
        if let Some(ConnectionError::Stream(StreamError::Below(code))) = &error
            && is_memory_gone(*code)
        {
            crate::log::info(format_args!("queue pair {:#x}: memory of its work is not there any more", self.number()));
            self.flush_unanswered(IBV_WC_LOC_PROT_ERR);
        }
        if let Some(ConnectionError::Stream(StreamError::Violation(violation))) = error
            && !self.is_broken.swap(true, Ordering::AcqRel)
        {
            crate::log::info(format_args!("queue pair {:#x}: {violation}", self.number()));
            // The program may be about to reset it.
            let _ = self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, after_failure);
            let is_access = matches!(
                violation,
                Violation::WriteTarget { .. } | Violation::ReadSource { .. } | Violation::AtomicTarget { .. }
            );
            self.push_event(if is_access { IBV_EVENT_QP_ACCESS_ERR } else { IBV_EVENT_QP_REQ_ERR });
        }
        drop(post);
        let _ending = lock(&self.ending);
        // A program may have reset it meanwhile, and posted anew.
        if self.is_broken.load(Ordering::Acquire) {
            self.flush_all();
        }
    }

    /// Ends the connection and flushes all that is posted.
    pub(crate) fn fail(&self) {
        let _ending = lock(&self.ending);
        self.flush_all();
    }

    fn flush_all(&self) {
        let (connections, backlog) = {
            let mut post = lock(&self.post);
            post.is_ready = false;
            (self.detach(&mut post), core::mem::take(&mut post.backlog))
        };
        connections.into_iter().flatten().for_each(|connection| self.parts.nic.end(connection));
        self.flush_unanswered(IBV_WC_WR_FLUSH_ERR);
        self.fail_backlog(backlog, IBV_WC_WR_FLUSH_ERR);
        self.give_up_receives(true);
        self.is_broken.store(false, Ordering::Release);
    }

    /// Ends the connection and gives up all that is posted. Returns the connections, which may still have something
    /// to tell their peers; nothing that ends there is told any more.
    pub(crate) fn reset(&self, is_gone: bool) -> Vec<Connection> {
        let _ending = lock(&self.ending);
        let connections = {
            let mut post = lock(&self.post);
            post.is_ready = false;
            post.is_gone |= is_gone;
            post.backlog.clear();
            self.detach(&mut post)
        };
        let connections: Vec<_> = connections.into_iter().flatten().collect();
        for connection in &connections {
            connection.retire();
            self.parts.nic.disown(connection.number());
        }
        self.is_broken.store(false, Ordering::Release);
        lock(&self.unanswered).take();
        self.give_up_receives(false);
        self.parts.send_completions.forget(self.number());
        self.receive_completions().forget(self.number());
        connections
    }

    fn detach(&self, post: &mut Post) -> [Option<Connection>; 2] {
        post.waits_since = None;
        [post.connection.take(), post.echo.take()]
    }

    /// Its events that the program has not read go.
    pub(crate) fn withdraw_events(&self) {
        let address = self.address.swap(0, Ordering::AcqRel);
        self.parts.events.withdraw(address);
    }

    /// Keeps the completion of a request that was not answered, unless the queue pair has failed already. Returns
    /// whether it was kept.
    pub(super) fn keep_unanswered(&self, completion: ibv_wc) -> bool {
        let mut unanswered = lock(&self.unanswered);
        if after_failure(self.state()).is_none() {
            return false;
        }
        unanswered.push(completion);
        drop(unanswered);
        // The thread of the rendezvous counts the time from here.
        self.parts.nic.bell().ring(self.number());
        true
    }

    /// When the requests that a peer has left unanswered fail, if there are any.
    pub(crate) fn unanswered_until(&self) -> Option<Instant> {
        let since = lock(&self.unanswered).since?;
        let attributes = self.attributes();
        // A timeout of 0 is no limit; but it is certain that the peer has ended.
        Some(since + patience(attributes.timeout, attributes.retry_cnt).unwrap_or(SHORTEST))
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
    fn flush_unanswered(&self, status: i32) {
        let mut unanswered = lock(&self.unanswered);
        if unanswered.since.is_none() {
            return;
        }
        let mut status = if self.break_down() { status } else { IBV_WC_WR_FLUSH_ERR };
        for completion in unanswered.take() {
            self.parts.send_completions.push(ibv_wc { status, ..completion }, true);
            status = IBV_WC_WR_FLUSH_ERR;
        }
    }

    fn sent(&self, completion: &WorkCompletion) {
        let status = match (completion.status, failure(completion.status)) {
            (Status::Success, _) => IBV_WC_SUCCESS,
            (_, Some(reason)) if self.break_down() => reason,
            // What the first failure takes with it is flushed.
            (_, Some(_)) => IBV_WC_WR_FLUSH_ERR,
            // The connection ended before an answer.
            (_, None) if self.keep_unanswered(self.completion(completion, IBV_WC_WR_FLUSH_ERR)) => return,
            (_, None) => IBV_WC_WR_FLUSH_ERR,
        };
        self.parts.send_completions.push(self.completion(completion, status), status != IBV_WC_SUCCESS);
    }

    fn received(&self, completion: &WorkCompletion) {
        if let Some(shared) = self.shared_receives() {
            shared.note_taken();
        }
        let status = match (completion.status, failure(completion.status)) {
            (Status::Success, _) => IBV_WC_SUCCESS,
            (_, reason) => {
                let is_first = self.break_down();
                reason.filter(|_| is_first).unwrap_or(IBV_WC_WR_FLUSH_ERR)
            }
        };
        let wakes = completion.solicited || status != IBV_WC_SUCCESS;
        self.receive_completions().push(self.completion(completion, status), wakes);
    }
}

impl Owner for QueuePair {
    fn complete(&self, completion: &WorkCompletion) {
        match completion.kind {
            CompletionKind::Receive | CompletionKind::ReceiveImmediate => self.received(completion),
            _ => self.sent(completion),
        }
    }

    fn number(&self) -> u32 {
        self.parts.number
    }
}

/// Whether a connection has ended because memory was not there that work here was to read or to write.
const fn is_memory_gone(code: TerminateCode) -> bool {
    matches!(code, TerminateCode::ProtectionInvalidStag | TerminateCode::LocalCatastrophic)
}

/// How long work waits for a peer that does not answer: (`retries` + 1) times 4.096 us times 2^`timeout`, at least two
/// seconds. `None` for `timeout` 0: without a limit.
fn patience(timeout: u8, retries: u8) -> Option<Duration> {
    if timeout == 0 {
        return None;
    }
    let each = Duration::from_nanos(4096 << timeout.min(31));
    Some((each * (u32::from(retries) + 1)).max(SHORTEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_is_that_of_a_reliable_connection() {
        assert_eq!(patience(0, 7), None);
        assert_eq!(patience(1, 0), Some(Duration::from_secs(2)), "at least");
        assert_eq!(patience(20, 1), Some(Duration::from_nanos(2 * 4096 * (1 << 20))));
        assert!(patience(31, 7).is_some_and(|patience| patience > Duration::from_secs(60_000)));
    }
}
