//! Connecting, accepting, and the end of connections as futures.

use core::fmt;
use core::ops::Deref;
use std::net::SocketAddr;
use std::sync::Arc;

use super::source::{Shared, Source};
use crate::verbs::{
    self, ConnectOptions, ConnectionError, ConnectionInfo, Error, IncomingConnection, QueuePair, RefusedStart, State,
};

/// Listens for connections until it is dropped.
pub struct Listener {
    listener: verbs::Listener,
    source: Source,
}

impl Listener {
    pub(super) fn new(shared: &Arc<Shared>, listener: verbs::Listener) -> Result<Self, Error> {
        let source = Source::new(shared);
        listener.set_events(&shared.channel, source.token())?;
        Ok(Self { listener, source })
    }

    /// Where it listens.
    #[must_use]
    pub fn local_address(&self) -> SocketAddr {
        self.listener.local_address()
    }

    /// Waits for a connection whose start-up request has come in. Several tasks may wait. A future that is dropped has
    /// taken none.
    ///
    /// # Errors
    /// The listener has failed, such as with the interface at whose address it was.
    pub async fn accept(&self) -> Result<IncomingConnection, Error> {
        self.source.until(|| self.listener.try_accept().transpose()).await
    }

    /// As [`verbs::Listener::take_refused`].
    #[must_use]
    pub fn take_refused(&self) -> (Vec<RefusedStart>, u64) {
        self.listener.take_refused()
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.listener.fmt(f)
    }
}

/// A queue pair whose connection tasks wait for. It derefs to its [`QueuePair`], to post.
pub struct Connection {
    queue_pair: QueuePair,
    source: Source,
}

impl Connection {
    pub(super) fn new(shared: &Arc<Shared>, queue_pair: QueuePair) -> Result<Self, Error> {
        let source = Source::new(shared);
        queue_pair.set_events(&shared.channel, source.token())?;
        Ok(Self { queue_pair, source })
    }

    /// Connects, and waits until the connection is established, or has failed: at the latest when the NIC's
    /// `start_timeout` is over ([`ConnectOptions::timeout`] is not used). A future that is dropped gives it up.
    ///
    /// # Errors
    /// As for [`QueuePair::connect`](verbs::QueuePair::connect).
    pub async fn connect(&self, remote: SocketAddr, options: &ConnectOptions) -> Result<Arc<ConnectionInfo>, Error> {
        self.queue_pair.start_connect(remote, options)?;
        self.established().await
    }

    /// Accepts a connection, with private data for the peer's application, and waits until it is established: over Edge
    /// that is a round trip later. A future that is dropped gives it up.
    ///
    /// # Errors
    /// The peer is gone, the queue pair is not idle, or the private data is too long.
    pub async fn accept(
        &self,
        incoming: IncomingConnection,
        private_data: &[u8],
    ) -> Result<Arc<ConnectionInfo>, Error> {
        incoming.accept(&self.queue_pair, private_data)?;
        self.established().await
    }

    async fn established(&self) -> Result<Arc<ConnectionInfo>, Error> {
        let _given_up = GiveUp(&self.queue_pair);
        self.source.until(|| (self.state() != State::Connecting).then_some(())).await;
        self.queue_pair.connected()
    }

    /// Waits until the connection has ended, and returns why: `None` if either side has closed it in order.
    pub async fn ended(&self) -> Option<ConnectionError> {
        self.source.until(|| self.state().has_ended().then(|| self.error())).await
    }

    /// Closes the connection, and waits until both sides have closed, as
    /// [`QueuePair::disconnect`](verbs::QueuePair::disconnect). It is being closed when the future is dropped, too.
    ///
    /// # Errors
    /// The connection ended by an error instead.
    pub async fn disconnect(&self) -> Result<(), Error> {
        if self.state() == State::Idle {
            return Ok(());
        }
        self.queue_pair.start_disconnect();
        self.ended().await.map_or(Ok(()), |error| Err(Error::Connection(error)))
    }
}

impl Deref for Connection {
    type Target = QueuePair;

    fn deref(&self) -> &QueuePair {
        &self.queue_pair
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.queue_pair.fmt(f)
    }
}

/// Gives up a connection that is still being set up when its future goes.
struct GiveUp<'a>(&'a QueuePair);

impl Drop for GiveUp<'_> {
    fn drop(&mut self) {
        self.0.abandon();
    }
}
