//! Messages between many peers: tagged and untagged, one-sided transfers and atomics, without queue pairs to manage.
//!
//! | here | what it is |
//! |---|---|
//! | [`Endpoint`] | has an [`Address`] by which any peer reaches it. Connections open when they are needed |
//! | [`PeerId`] | a peer, as this endpoint has numbered it: [`Endpoint::peer`], [`Endpoint::peers`] |
//! | [`SendPost`], [`ReceivePost`], [`TransferPost`], [`AtomicPost`] | the requests that can be posted |
//! | [`IoBuffer`] | memory lent for one request: a `Vec<u8>` or a [`Buffer`], which comes back with the completion |
//! | [`EventQueue`] | where completions are read: by polling, by waiting, or with a file descriptor |
//!
//! A message goes to the oldest receive that matches it, a receive takes the oldest message that matches; messages from
//! one peer are matched in the order in which it has sent them. The NIC continues matching, long transfers and atomics
//! while the application computes.
//!
//! # Example
//! Two endpoints of one program.
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//! use weft::endpoint::{Endpoint, EndpointAttributes, EventQueue, Match, ReceivePost, SendPost};
//! use weft::verbs::Context;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let context = Context::open()?;
//! let domain = context.allocate_protection_domain()?;
//! let events = EventQueue::new(&context)?;
//! let here = EndpointAttributes::at("127.0.0.1:0".parse()?);
//! let alice = Endpoint::open(&domain, &here, Arc::new(events.clone()))?;
//! let bob = Endpoint::open(&domain, &here, Arc::new(events.clone()))?;
//!
//! bob.receive(ReceivePost::new(vec![0; 64]).matching(Match { tag: 7, ignore: 0 }).context(1))?;
//! let to_bob = alice.peer(&bob.address())?;
//! alice.send(SendPost::new(to_bob, b"hello, bob".to_vec()).tag(7).context(2))?;
//!
//! let received = events.wait_for(|event| event.context == 1, Some(Duration::from_secs(1)))?;
//! let buffer = received.buffer.ok_or("the buffer comes back")?;
//! assert_eq!(&buffer[..received.length as usize], b"hello, bob");
//! # Ok(())
//! # }
//! ```

mod queue;

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

pub use queue::{EventError, EventQueue};
pub use weft_base::{PeerId, Stag};
pub use weft_memory::{Buffer, Combine, Element, IoBuffer, watch_faults};
pub use weft_message::Settings as MessageSettings;
use weft_nic::MessageEndpoint;
pub use weft_nic::{
    Address, AtomicPost, Attempt, AttemptFailure, Attempts, Completed, Completions, EndpointAttributes, EndpointError,
    EndpointFailure, EndpointSettings, Event, JobKey, KeyError, Level, MAX_ADDRESSES, Match, Peek, ReceivePost,
    RemotePiece, RemotePlace, SendPost, TransferPost, Undelivered, Warning,
};

use crate::verbs::{Error, MemoryError, Opened, ProtectionDomain};

/// An endpoint. Many peers reach it under one address; connections open when they are needed.
///
/// Dropping it closes it, as [`Endpoint::close`] does; in a callback ([`Completions::complete`]) on another
/// thread, soon after.
pub struct Endpoint {
    // Before the domain, which it uses.
    endpoint: Arc<MessageEndpoint<weft_link::LinkNetwork, weft_driver::MonotonicClock>>,
    domain: ProtectionDomain,
}

impl Endpoint {
    /// Opens an endpoint whose peers reach memory of `domain`, and whose completions go to `completions`.
    ///
    /// # Errors
    /// The address can't be used, or a limit is reached; [`Error::InCallback`].
    pub fn open(
        domain: &ProtectionDomain,
        attributes: &EndpointAttributes,
        completions: Arc<dyn Completions>,
    ) -> Result<Self, Error> {
        let random = || getrandom::u64().map_err(|_| MemoryError::NoRandomness);
        let seeds = (random()?, random()?);
        let endpoint = MessageEndpoint::open(&domain.opened().nic, domain.id(), attributes, seeds, completions)?;
        Ok(Self { endpoint: Arc::new(endpoint), domain: domain.clone() })
    }

    /// Its address, for peers.
    #[must_use]
    pub fn address(&self) -> Address {
        self.endpoint.address().clone()
    }

    /// The number of the peer with this address, which is new or known.
    ///
    /// # Errors
    /// The address has no path in it, or there are as many peers as there may be.
    pub fn peer(&self, address: &Address) -> Result<PeerId, EndpointError> {
        self.endpoint.peer(address)
    }

    /// The numbers of the peers with these addresses, in this order: for programs that count their peers as ranks.
    ///
    /// # Errors
    /// As [`Endpoint::peer`].
    pub fn peers<'a>(&self, addresses: impl IntoIterator<Item = &'a Address>) -> Result<Vec<PeerId>, EndpointError> {
        addresses.into_iter().map(|address| self.peer(address)).collect()
    }

    /// The address of a peer. `None` in a callback.
    #[must_use]
    pub fn peer_address(&self, peer: PeerId) -> Option<Address> {
        self.endpoint.peer_address(peer)
    }

    /// Whether a peer runs on this host: the same boot of the same machine, in the same network namespace. `None` while
    /// the peer has not said where it runs, or where that is unknown; and in a callback.
    #[must_use]
    pub fn is_on_this_host(&self, peer: PeerId) -> Option<bool> {
        self.endpoint.is_on_this_host(peer)
    }

    /// Sends a message.
    ///
    /// # Errors
    /// The request was not taken, and there will be no completion.
    pub fn send(&self, post: SendPost) -> Result<(), EndpointError> {
        self.endpoint.send(post)
    }

    /// Posts a receive.
    ///
    /// # Errors
    /// The request was not taken, and there will be no completion.
    pub fn receive(&self, post: ReceivePost) -> Result<(), EndpointError> {
        self.endpoint.receive(post)
    }

    /// Writes to a peer's memory.
    ///
    /// # Errors
    /// The request was not taken, and there will be no completion.
    pub fn write(&self, post: TransferPost) -> Result<(), EndpointError> {
        self.endpoint.write(post)
    }

    /// Reads from a peer's memory.
    ///
    /// # Errors
    /// The request was not taken, and there will be no completion.
    pub fn read(&self, post: TransferPost) -> Result<(), EndpointError> {
        self.endpoint.read(post)
    }

    /// Does an atomic operation on a peer's memory.
    ///
    /// # Errors
    /// The request was not taken, and there will be no completion.
    pub fn atomic(&self, post: AtomicPost) -> Result<(), EndpointError> {
        self.endpoint.atomic(post)
    }

    /// The oldest message that matches and has come unexpected. With `claim` it is set aside under that number.
    ///
    /// # Errors
    /// The endpoint is closed.
    pub fn peek(
        &self,
        source: Option<PeerId>,
        matching: Option<Match>,
        claim: Option<u64>,
    ) -> Result<Option<Peek>, EndpointError> {
        self.endpoint.peek(source, matching, claim)
    }

    /// Takes the oldest message that matches and throws it away.
    ///
    /// # Errors
    /// The endpoint is closed.
    pub fn discard(&self, source: Option<PeerId>, matching: Option<Match>) -> Result<Option<Peek>, EndpointError> {
        self.endpoint.discard(source, matching)
    }

    /// Receives a message that was set aside.
    ///
    /// # Errors
    /// The request was not taken: nothing was set aside under this number, for example.
    pub fn receive_claimed(&self, claim: u64, post: ReceivePost) -> Result<(), EndpointError> {
        self.endpoint.receive_claimed(claim, post)
    }

    /// Throws a message away that was set aside. Returns what it was.
    ///
    /// # Errors
    /// Nothing was set aside under this number.
    pub fn discard_claimed(&self, claim: u64) -> Result<Peek, EndpointError> {
        self.endpoint.discard_claimed(claim)
    }

    /// Cancels the oldest receive with this context that no message has matched, or else the oldest send of which
    /// nothing was sent. It completes as canceled. Returns whether there was one; in a callback it cancels nothing.
    pub fn cancel(&self, context: u64) -> bool {
        self.endpoint.cancel(context)
    }

    /// Runs the NIC for one turn, where callers run it. Returns whether anything was done.
    pub fn progress(&self) -> bool {
        self.opened().nic.progress_as_caller()
    }

    /// Waits until `done`, at most for `timeout` (`None`: for ever), and runs the NIC meanwhile if no other thread
    /// does. Returns whether `done`, which is called whenever the NIC has done something, and can't use an endpoint or
    /// a NIC: it is a callback ([`Completions::complete`]).
    pub fn wait_until(&self, timeout: Option<Duration>, done: impl FnMut() -> bool) -> bool {
        self.opened().nic.wait_until(timeout, done)
    }

    /// This thread is about to sleep on a descriptor that [`Completions::complete`] makes readable: something else must
    /// run the NIC from now on.
    pub fn watch(&self) {
        self.opened().nic.watch();
    }

    /// Whether it has no connection, and needs none now: connections open when they are needed, and close when they are
    /// idle for as long as [`MessageSettings::idle_timeout`] says. No in a callback.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.endpoint.is_idle()
    }

    /// Closes it. What was accepted is still sent, to peers that are not connected yet too, and this waits until the
    /// peers' hosts have it, as long as something moves ([`EndpointSettings::linger`]); what is in flight then fails.
    ///
    /// # Errors
    /// Not everything was delivered. In a callback it stays open, and the reason is [`EndpointFailure::InCallback`].
    pub fn close(&self) -> Result<(), Undelivered> {
        self.endpoint.close()
    }

    fn opened(&self) -> &Opened {
        self.domain.opened()
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        let (endpoint, domain) = (Arc::clone(&self.endpoint), self.domain.clone());
        self.domain.opened().end(move |_| {
            // A caller that needs the outcome calls `close`.
            let _ = endpoint.close();
            drop(domain);
        });
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Endpoint").field(self.endpoint.address()).finish()
    }
}
