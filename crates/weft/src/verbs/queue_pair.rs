//! Queue pairs and shared receive queues.

use core::fmt;
use core::time::Duration;
use std::net::SocketAddr;
use std::sync::Arc;

use weft_base::{Gather, Slice};
use weft_memory::Access;
use weft_nic::{
    ConnectionError, ConnectionInfo, Error, PostError, PostFailure, QueuePair as NicQueuePair, QueuePairNumber,
    ReceiveQueue, State,
};
use weft_rdmap::ReceiveRequest;

use super::connect::ConnectOptions;
use super::context::ProtectionDomain;
use super::event_channel::EventChannel;
use super::work_request::WorkRequest;

/// How deep the queues of a queue pair are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuePairOptions {
    /// Send requests (sends, writes, reads, atomics) that may be in flight.
    pub send_depth: u32,
    /// Receive requests that may wait for a message. Not used with a shared receive queue.
    pub receive_depth: u32,
}

impl Default for QueuePairOptions {
    fn default() -> Self {
        Self { send_depth: 128, receive_depth: 128 }
    }
}

/// A queue pair: the two work queues of a connection. It can be connected once.
///
/// Dropping it breaks its connection; [`QueuePair::disconnect`] closes it gracefully.
pub struct QueuePair {
    queue_pair: Arc<NicQueuePair>,
    domain: ProtectionDomain,
}

impl QueuePair {
    pub(super) fn new(domain: ProtectionDomain, queue_pair: Arc<NicQueuePair>) -> Self {
        Self { queue_pair, domain }
    }

    pub(super) fn shared(&self) -> &Arc<NicQueuePair> {
        &self.queue_pair
    }

    /// Its protection domain.
    #[must_use]
    pub fn domain(&self) -> &ProtectionDomain {
        &self.domain
    }

    /// Its number, which its completions bear.
    #[must_use]
    pub fn number(&self) -> QueuePairNumber {
        self.queue_pair.number()
    }

    /// Where it is in its life.
    #[must_use]
    pub fn state(&self) -> State {
        self.queue_pair.state()
    }

    /// What was agreed with the peer, its private data included; `None` before it is connected.
    #[must_use]
    pub fn info(&self) -> Option<Arc<ConnectionInfo>> {
        self.domain.here().ok()?;
        self.queue_pair.info()
    }

    /// Why it failed; `None` while it has not.
    #[must_use]
    pub fn error(&self) -> Option<ConnectionError> {
        self.domain.here().ok()?;
        self.queue_pair.error()
    }

    /// Has its events reported by a channel from now on, with this token: that its connection is established, or came
    /// to nothing, was closed, or has failed, and why. What has happened before is not reported: call this before it is
    /// connected or accepted.
    ///
    /// # Errors
    /// A channel of another NIC.
    pub fn set_events(&self, channel: &EventChannel, token: u64) -> Result<(), Error> {
        self.queue_pair.set_events(Some(channel.source(self.domain.opened(), token)?));
        Ok(())
    }

    /// Sets what the peer may do to regions of the protection domain from now on, beside what their own rights allow:
    /// everything, at first. Local rights among these say nothing. What the peer does without a right ends the
    /// connection, and its request has the status [`RemoteAccess`](super::Status::RemoteAccess).
    pub fn set_peer_rights(&self, rights: Access) {
        self.domain.nic().set_peer_rights(&self.queue_pair, rights);
    }

    /// The program is done with the queue pair, but what it has posted is still to go out:
    /// [`QueuePair::start_disconnect`] follows. What the peer sends from then on reaches no memory and takes no
    /// receive.
    pub fn retire(&self) {
        self.domain.nic().retire(&self.queue_pair);
    }

    /// Sets how long a Send, or immediate data, for which the peer has no receive is kept waiting over Edge, and over
    /// iWARP and shared memory where [`receipts`](super::Extensions::receipts) were agreed; `None`, as at first: for
    /// ever. Then the connection ends, and the request has the status [`NoReceive`](super::Status::NoReceive). As long
    /// as the peer takes one message after another each has the whole time. Without receipts such a message ends a
    /// connection over iWARP or shared memory at once, whatever is set here.
    pub fn set_receive_wait(&self, wait: Option<Duration>) {
        self.queue_pair.set_receive_wait(wait);
    }

    /// Batches doorbells from now on: while at least `from` requests are in flight, one that is posted is sent at the
    /// next poll, at the latest when sixteen wait or one that is in flight completes. One system call carries as many
    /// as fit. `usize::MAX`, as at first: each is sent at once.
    pub fn batch_doorbells(&self, from: usize) {
        self.queue_pair.batch_doorbells(from);
    }

    /// Send requests that are in flight.
    #[must_use]
    pub fn sends_under_way(&self) -> usize {
        self.queue_pair.sends_under_way()
    }

    /// Connects, and waits until the connection is established.
    ///
    /// # Errors
    /// No process listens there, the peer rejects ([`ConnectionError::Start`], with its private data), it does not
    /// speak MPA, or it is too slow.
    pub fn connect(&self, remote: SocketAddr, options: &ConnectOptions) -> Result<Arc<ConnectionInfo>, Error> {
        self.start_connect(remote, options)?;
        self.wait_connected(options.timeout)
    }

    /// Begins to connect; [`QueuePair::state`] tells what came of it.
    ///
    /// # Errors
    /// The queue pair has been connected before, a setting is not possible, or the operating system refuses.
    pub fn start_connect(&self, remote: SocketAddr, options: &ConnectOptions) -> Result<(), Error> {
        self.domain.nic().connect(&self.queue_pair, remote, options.local, options.offer, &options.private_data)
    }

    /// Waits until a connection that was begun, or accepted, is established.
    ///
    /// # Errors
    /// It came to nothing, or not within `timeout` (`None`: the time that the NIC's settings give a start-up); then it
    /// is given up.
    pub fn wait_connected(&self, timeout: Option<Duration>) -> Result<Arc<ConnectionInfo>, Error> {
        self.domain.opened().may_wait()?;
        let nic = self.domain.nic();
        let done = nic.wait_until(timeout, || self.state() != State::Connecting);
        if !done {
            self.abandon();
            return Err(Error::TimedOut(timeout.unwrap_or_default()));
        }
        self.connected()
    }

    /// What has become of a connection that was begun, or accepted.
    pub(crate) fn connected(&self) -> Result<Arc<ConnectionInfo>, Error> {
        if let Some(error) = self.error() {
            return Err(Error::Connection(error));
        }
        self.info().ok_or_else(|| Error::State { state: self.state(), wanted: "connecting" })
    }

    /// Gives up a connection that is being set up, which is an error of the queue pair then
    /// ([`ConnectionError::Abandoned`]). Does nothing in any other state, and in a callback.
    pub fn abandon(&self) {
        self.domain.nic().abandon(&self.queue_pair);
    }

    /// Posts one send request. A Send needs a receive at the peer: [what happens without
    /// one](super::receives_and_credits#a-message-that-finds-none).
    ///
    /// # Errors
    /// It was not taken, and nothing of it happens.
    pub fn post(&self, request: WorkRequest) -> Result<(), PostError> {
        self.domain.nic().post_one(&self.queue_pair, request.request())
    }

    /// Posts send requests as one batch: small ones go out together, in one system call.
    ///
    /// # Errors
    /// One was not taken; those before it were.
    pub fn post_list(&self, requests: impl IntoIterator<Item = WorkRequest>) -> Result<(), PostFailure> {
        self.domain.nic().post_send(&self.queue_pair, requests.into_iter().map(WorkRequest::into_request))
    }

    /// Posts a receive: a message of the peer will go into these slices. No slices: for a message without bytes, or
    /// immediate data.
    ///
    /// # Errors
    /// It was not taken.
    pub fn post_receive(&self, id: u64, sink: &[Slice]) -> Result<(), PostError> {
        self.domain.nic().post_receive(&self.queue_pair, receive_request(id, sink)?)
    }

    /// Closes the connection: what was posted is still sent, then the peer is notified. Waits until both sides have
    /// closed, at most for `timeout`. What the peer sends until then is still received. Over Edge, and where receipts
    /// were agreed, a Send for which the peer posts no receive may wait
    /// [`close_timeout`](crate::verbs::Settings::close_timeout) (5 seconds) since the last one was taken; then the
    /// connection is given up.
    ///
    /// # Errors
    /// The connection ended by an error instead ([`NoReceive`](weft_rdmap::Closed::NoReceive) where a receive was
    /// missing), or not in time.
    pub fn disconnect(&self, timeout: Option<Duration>) -> Result<(), Error> {
        self.domain.opened().may_wait()?;
        self.start_disconnect();
        if !self.domain.nic().wait_until(timeout, || self.state().has_ended() || self.state() == State::Idle) {
            return Err(Error::TimedOut(timeout.unwrap_or_default()));
        }
        self.error().map_or(Ok(()), |error| Err(Error::Connection(error)))
    }

    /// Begins to close the connection. Does nothing in a callback.
    pub fn start_disconnect(&self) {
        self.domain.nic().close(&self.queue_pair);
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        if self.domain.here().is_ok() {
            self.queue_pair.set_events(None);
        }
        let (queue_pair, domain) = (Arc::clone(&self.queue_pair), self.domain.clone());
        self.domain.opened().end(move |nic| {
            nic.destroy_queue_pair(&queue_pair);
            drop(domain);
        });
    }
}

impl fmt::Debug for QueuePair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.queue_pair.fmt(f)
    }
}

/// A receive queue that several queue pairs take from. Clones are the same queue.
#[derive(Clone, Debug)]
pub struct SharedReceiveQueue {
    queue: Arc<ReceiveQueue>,
    domain: ProtectionDomain,
}

impl SharedReceiveQueue {
    pub(super) fn new(domain: ProtectionDomain, queue: Arc<ReceiveQueue>) -> Self {
        Self { queue, domain }
    }

    pub(super) fn shared(&self) -> Arc<ReceiveQueue> {
        Arc::clone(&self.queue)
    }

    /// Its protection domain.
    #[must_use]
    pub fn domain(&self) -> &ProtectionDomain {
        &self.domain
    }

    /// Posts a receive, for whichever queue pair needs it first.
    ///
    /// # Errors
    /// It was not taken.
    pub fn post_receive(&self, id: u64, sink: &[Slice]) -> Result<(), PostError> {
        self.domain.nic().post_shared_receive(&self.queue, receive_request(id, sink)?)
    }

    /// Says that no more than one of the queue pairs that take from it at a time gets messages. Over iWARP and shared
    /// memory, where [`receipts`](super::Extensions::receipts) were agreed, its peer is promised all receives then, as
    /// soon as they are posted. Else peers are promised as many as they have messages to send, and a message waits for
    /// its sender's request: a round trip more.
    pub fn set_serves_one(&self) {
        if self.domain.here().is_ok() {
            self.queue.set_serves_one();
        }
    }

    /// Has [`EventKind::ReceivesLow`](super::EventKind::ReceivesLow) reported by a channel from now on, with this
    /// token, whenever a mark was set.
    ///
    /// # Errors
    /// A channel of another NIC.
    pub fn set_events(&self, channel: &EventChannel, token: u64) -> Result<(), Error> {
        self.queue.set_events(Some(channel.source(self.domain.opened(), token)?));
        Ok(())
    }

    /// Sets the low-water mark: when fewer receives than `low_water` are left that is an event, at once if it is so
    /// already. It comes once, and the mark is 0 from then on: post receives, then set it again. 0: no event.
    pub fn set_low_water(&self, low_water: usize) {
        if self.domain.here().is_ok() {
            self.queue.set_low_water(low_water);
        }
    }

    /// Ends the queue: it takes no more receives, and those that wait are given up without a completion. Returns their
    /// ids, the oldest first. It has no more events.
    pub fn close(&self) -> Vec<u64> {
        if self.domain.here().is_ok() {
            self.queue.set_events(None);
        }
        self.domain.nic().close_shared_receives(&self.queue)
    }

    /// How many receives wait for a message.
    #[must_use]
    pub fn len(&self) -> usize {
        if self.domain.here().is_ok() { self.queue.len() } else { 0 }
    }

    /// Whether no receive waits for a message.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn receive_request(id: u64, sink: &[Slice]) -> Result<ReceiveRequest, PostError> {
    Ok(ReceiveRequest { id, sink: Gather::new(sink).ok_or(PostError::TooLong)? })
}
