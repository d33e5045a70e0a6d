//! How connections come about.

use core::fmt;
use core::time::Duration;
use std::net::SocketAddr;
use std::sync::Arc;

use weft_nic::offer::{Extensions, ReadyKinds};
use weft_nic::{Error, Listener as NicListener, MpaOffer, Offer, RefusedStart, RequestInfo, RequestKey};

use super::event_channel::EventChannel;
use super::opened::Opened;
use super::queue_pair::QueuePair;

/// What the active side wants of a connection.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// The address to connect from. `None`: the operating system chooses.
    pub local: Option<SocketAddr>,
    /// Bytes for the peer's application, up to about 496 (a plain Linux siw takes 256 in all).
    pub private_data: Vec<u8>,
    /// How long [`QueuePair::connect`] waits. `None`: as long as the NIC's settings give a start-up.
    pub timeout: Option<Duration>,
    /// What to agree on with the peer. By default 16 reads each way; over MPA CRCs, and all that only two Weft peers
    /// do and that costs nothing where it is not used: [`receipts`](super::Extensions::receipts) apart.
    pub offer: Offer,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        let mpa = MpaOffer { extensions: Extensions::usual(), ..MpaOffer::default() };
        Self { local: None, private_data: Vec::new(), timeout: None, offer: Offer { mpa, ..Offer::default() } }
    }
}

/// What the passive side takes.
#[derive(Clone, Debug)]
pub struct ListenOptions {
    /// Connections that may wait to be accepted; further ones wait in the operating system.
    pub backlog: u32,
    /// What to agree on with peers. By default [`Offer::READS`] each way; over MPA CRCs, peer-to-peer of any kind, and
    /// what two Weft peers do as in [`ConnectOptions::offer`].
    pub offer: Offer,
}

impl Default for ListenOptions {
    fn default() -> Self {
        let ready_to_receive = Some(ReadyKinds::all());
        let mpa = MpaOffer { extensions: Extensions::usual(), ready_to_receive, ..MpaOffer::default() };
        Self { backlog: 128, offer: Offer { mpa, ..Offer::default() } }
    }
}

/// Listens for connections until it is dropped.
pub struct Listener {
    opened: Arc<Opened>,
    listener: NicListener,
}

impl Listener {
    pub(super) fn new(opened: Arc<Opened>, listener: NicListener) -> Self {
        Self { opened, listener }
    }

    /// Where it listens.
    #[must_use]
    pub fn local_address(&self) -> SocketAddr {
        self.listener.local_address()
    }

    /// Has its events reported by a channel from now on, with this token: requests that wait, callers that were
    /// refused, a listener that is full, and its failure. What waits already is reported at once.
    ///
    /// # Errors
    /// A channel of another NIC.
    pub fn set_events(&self, channel: &EventChannel, token: u64) -> Result<(), Error> {
        self.listener.set_events(Some(channel.source(&self.opened, token)?));
        Ok(())
    }

    /// Waits for a connection whose start-up request has come in, at most for `timeout` (`None`: for ever).
    ///
    /// # Errors
    /// None came in time.
    pub fn accept(&self, timeout: Option<Duration>) -> Result<IncomingConnection, Error> {
        self.opened.may_wait()?;
        let mut next = Ok(None);
        self.opened.nic.wait_until(timeout, || {
            next = self.listener.next_request();
            !matches!(next, Ok(None))
        });
        let (key, info) = next?.ok_or(Error::TimedOut(timeout.unwrap_or_default()))?;
        Ok(IncomingConnection { opened: Arc::clone(&self.opened), key, info, decided: false })
    }

    /// Takes the oldest connection whose start-up request has come in, if there is one. Does no work of the NIC.
    ///
    /// # Errors
    /// The listener has failed, such as with the interface at whose address it was.
    pub fn try_accept(&self) -> Result<Option<IncomingConnection>, Error> {
        self.opened.here()?;
        let next = self.listener.next_request()?;
        let incoming = |(key, info)| IncomingConnection { opened: Arc::clone(&self.opened), key, info, decided: false };
        Ok(next.map(incoming))
    }

    /// Callers that were refused before there was anything to accept, since the last call of this: the oldest 64 of
    /// them, and how many more there were. A refusal may be reported some seconds late, when the caller has received
    /// its last bytes.
    #[must_use]
    pub fn take_refused(&self) -> (Vec<RefusedStart>, u64) {
        self.listener.take_refused()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if self.opened.nic.is_owner_process() {
            self.listener.set_events(None);
        }
        let listener = self.listener.clone();
        self.opened.end(move |nic| nic.close_listener(&listener));
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Listener").field(&self.local_address()).finish()
    }
}

/// A peer that wants to connect. Dropping it rejects.
pub struct IncomingConnection {
    opened: Arc<Opened>,
    key: RequestKey,
    info: RequestInfo,
    decided: bool,
}

impl IncomingConnection {
    /// The caller, and its private data.
    #[must_use]
    pub fn info(&self) -> &RequestInfo {
        &self.info
    }

    /// Accepts on an idle queue pair, with private data for the peer's application. Requests may be posted from then
    /// on; what is posted goes out when the peer has spoken first, as the standard has it. Over a stream the queue pair
    /// is ready at once. Over Edge it is [`State::Connecting`](weft_nic::State::Connecting) until the caller has
    /// confirmed, a round trip later, for its address may be false: [`QueuePair::wait_connected`] waits for that. A
    /// caller that does not confirm within the NIC's `start_timeout` is an error of the queue pair.
    ///
    /// # Errors
    /// The peer is gone, the queue pair is not idle, or the private data is too long.
    pub fn accept(mut self, queue_pair: &QueuePair, private_data: &[u8]) -> Result<(), Error> {
        self.opened.nic.accept(self.key, queue_pair.shared(), private_data, None)?;
        self.decided = true;
        Ok(())
    }

    /// As [`IncomingConnection::accept`], with limits for reads and atomics of this connection.
    ///
    /// # Errors
    /// As there.
    pub fn accept_with_depths(
        mut self,
        queue_pair: &QueuePair,
        private_data: &[u8],
        ird: u16,
        ord: u16,
    ) -> Result<(), Error> {
        self.opened.nic.accept(self.key, queue_pair.shared(), private_data, Some((ird, ord)))?;
        self.decided = true;
        Ok(())
    }

    /// Rejects, with private data for the peer's application.
    ///
    /// # Errors
    /// The peer is gone, or the private data is too long.
    pub fn reject(mut self, private_data: &[u8]) -> Result<(), Error> {
        self.opened.nic.reject(self.key, private_data)?;
        self.decided = true;
        Ok(())
    }
}

impl Drop for IncomingConnection {
    fn drop(&mut self) {
        if !self.decided {
            let key = self.key;
            // When the peer is gone already, there is no peer to notify.
            self.opened.end(move |nic| drop(nic.reject(key, &[])));
        }
    }
}

impl fmt::Debug for IncomingConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("IncomingConnection").field(&self.info).finish()
    }
}
