//! The passive side: a listener, the start-ups that have begun at it, and the requests that wait for the application.

use core::sync::atomic::{AtomicUsize, Ordering};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use slotmap::DefaultKey;
use weft_base::Port;
use weft_mpa::Offer;

use crate::connection::Connection;
use crate::error::Error;
use crate::turnstile::Turnstile;

/// An incoming connection that waits to be accepted or rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestKey(pub(crate) DefaultKey);

/// What an incoming connection says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestInfo {
    /// Who asks.
    pub remote: SocketAddr,
    /// The address that was asked.
    pub local: SocketAddr,
    /// MPA revision.
    pub revision: u8,
    /// The peer's IRD, [`weft_mpa::startup::NOT_NEGOTIATED`] when it does not say (revisions 0 and 1).
    pub peer_ird: u16,
    /// The peer's ORD.
    pub peer_ord: u16,
    /// The peer application's private data.
    pub private_data: Vec<u8>,
}

impl RequestInfo {
    pub(crate) fn of<P: Port>(connection: &Connection<P>) -> Option<Self> {
        let request = connection.request()?;
        let remote = connection.port.remote_address();
        Some(Self {
            remote,
            local: connection.port.local_address().unwrap_or(remote),
            revision: request.revision(),
            peer_ird: request.peer_ird(),
            peer_ord: request.peer_ord(),
            private_data: request.private_data().to_vec(),
        })
    }
}

/// Requests that have come in whole and wait for the application, oldest first. It lies outside the engine, so that whoever waits for
/// one need not hold the engine.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// `None` once the listener is closed.
    requests: Mutex<Option<VecDeque<(RequestKey, RequestInfo)>>>,
    /// How many there may be: looked at without the lock.
    count: AtomicUsize,
    turnstile: Arc<Turnstile>,
}

impl Waiting {
    pub(crate) fn new(turnstile: Arc<Turnstile>) -> Self {
        Self { requests: Mutex::new(Some(VecDeque::new())), count: AtomicUsize::new(0), turnstile }
    }

    pub(crate) fn take(&self) -> Result<Option<(RequestKey, RequestInfo)>, Error> {
        let mut requests = self.requests.lock();
        let taken = requests.as_mut().map(VecDeque::pop_front).ok_or(Error::ListenerGone)?;
        self.count.store(requests.as_ref().map_or(0, VecDeque::len), Ordering::Release);
        Ok(taken)
    }

    /// Whether a request may be waiting.
    pub(crate) fn has_some(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0
    }

    fn add(&self, key: DefaultKey, info: RequestInfo) {
        if let Some(requests) = &mut *self.requests.lock() {
            requests.push_back((RequestKey(key), info));
            self.count.store(requests.len(), Ordering::Release);
        }
        self.turnstile.turn();
    }

    fn remove(&self, key: DefaultKey) {
        if let Some(requests) = &mut *self.requests.lock() {
            requests.retain(|(waiting, _)| waiting.0 != key);
        }
    }

    fn close(&self) {
        *self.requests.lock() = None;
        self.turnstile.turn();
    }
}

/// A listener of an engine.
pub(crate) struct Listening<L> {
    pub(crate) listener: L,
    pub(crate) offer: Offer,
    backlog: usize,
    /// Start-ups under way, and requests that wait for the application.
    pending: Vec<DefaultKey>,
    waiting: Arc<Waiting>,
}

impl<L> Listening<L> {
    pub(crate) fn new(listener: L, offer: Offer, backlog: usize, waiting: Arc<Waiting>) -> Self {
        Self { listener, offer, backlog, pending: Vec::new(), waiting }
    }

    /// Whether another start-up may begin.
    pub(crate) fn has_room(&self) -> bool {
        self.pending.len() < self.backlog
    }

    /// A start-up begins.
    pub(crate) fn begin(&mut self, connection: DefaultKey) {
        self.pending.push(connection);
    }

    /// A request has come in whole.
    pub(crate) fn announce(&self, connection: DefaultKey, info: RequestInfo) {
        self.waiting.add(connection, info);
    }

    /// A connection is decided, or gone.
    pub(crate) fn forget(&mut self, connection: DefaultKey) {
        self.pending.retain(|pending| *pending != connection);
        self.waiting.remove(connection);
    }

    /// No more requests. What is pending is the caller's to end.
    pub(crate) fn close(self) -> Vec<DefaultKey> {
        self.waiting.close();
        self.pending
    }
}
