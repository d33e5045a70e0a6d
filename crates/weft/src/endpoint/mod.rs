//! Messages between many peers: tagged and untagged, one-sided transfers and atomics, without queue pairs to look after.

use core::time::Duration;
use std::sync::Arc;

pub use weft_base::{PeerId, Stag};
pub use weft_memory::{Buffer, Combine, Element, Loan};
pub use weft_nic::{
    Address, AtomicPost, Attempt, AttemptFailure, Attempts, Completed, Completions, EndpointAttributes, EndpointError,
    EndpointFailure, EndpointSettings, Event, Level, MAX_ADDRESSES, Match, Peek, ReceivePost, RemotePlace, SendPost,
    TransferPost,
};

use crate::verbs::{Error, ProtectionDomain};

/// An endpoint. Many peers reach it under one address; connections open when they are needed.
pub struct Endpoint {
    domain: ProtectionDomain,
}

#[expect(unused_variables, reason = "the interface, before its implementation")]
impl Endpoint {
    /// Opens an endpoint whose peers reach memory of `domain`, and whose completions go to `completions`.
    ///
    /// # Errors
    /// The address can't be used, or a limit is reached.
    pub fn open(
        domain: &ProtectionDomain,
        attributes: &EndpointAttributes,
        completions: Arc<dyn Completions>,
    ) -> Result<Self, Error> {
        Ok(Self { domain: domain.clone() })
    }

    /// Its address, for peers.
    #[must_use]
    pub fn address(&self) -> Address {
        Address { id: 0, ways: Default::default() }
    }

    /// The number of the peer with this address, which is new or known.
    ///
    /// # Errors
    /// The address has no way in it, or there are as many peers as there may be.
    pub fn peer(&self, address: &Address) -> Result<PeerId, EndpointError> {
        Err(EndpointError::Closed)
    }

    /// The address of a peer.
    #[must_use]
    pub fn peer_address(&self, peer: PeerId) -> Option<Address> {
        None
    }

    /// Sends a message.
    ///
    /// # Errors
    /// The request was not taken, and there will be no completion.
    pub fn send(&self, post: SendPost) -> Result<(), EndpointError> {
        Err(EndpointError::Closed)
    }

    /// Posts a receive.
    ///
    /// # Errors
    /// The request was not taken, and there will be no completion.
    pub fn receive(&self, post: ReceivePost) -> Result<(), EndpointError> {
        Err(EndpointError::Closed)
    }

    /// Writes to a peer's memory.
    ///
    /// # Errors
    /// The request was not taken, and there will be no completion.
    pub fn write(&self, post: TransferPost) -> Result<(), EndpointError> {
        Err(EndpointError::Closed)
    }

    /// Reads from a peer's memory.
    ///
    /// # Errors
    /// The request was not taken, and there will be no completion.
    pub fn read(&self, post: TransferPost) -> Result<(), EndpointError> {
        Err(EndpointError::Closed)
    }

    /// Does an atomic operation on a peer's memory.
    ///
    /// # Errors
    /// The request was not taken, and there will be no completion.
    pub fn atomic(&self, post: AtomicPost) -> Result<(), EndpointError> {
        Err(EndpointError::Closed)
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
        Err(EndpointError::Closed)
    }

    /// Takes the oldest message that matches and throws it away.
    ///
    /// # Errors
    /// The endpoint is closed.
    pub fn discard(&self, source: Option<PeerId>, matching: Option<Match>) -> Result<Option<Peek>, EndpointError> {
        Err(EndpointError::Closed)
    }

    /// Receives a message that was set aside.
    ///
    /// # Errors
    /// The request was not taken: nothing was set aside under this number, for example.
    pub fn receive_claimed(&self, claim: u64, post: ReceivePost) -> Result<(), EndpointError> {
        Err(EndpointError::Closed)
    }

    /// Throws a message away that was set aside.
    ///
    /// # Errors
    /// Nothing was set aside under this number.
    pub fn discard_claimed(&self, claim: u64) -> Result<(), EndpointError> {
        Err(EndpointError::Closed)
    }

    /// Cancels the oldest receive with this context that no message has matched, or else the oldest send of which nothing was sent. It completes as canceled. Returns whether there was one.
    pub fn cancel(&self, context: u64) -> bool {
        false
    }

    /// Lends the calling thread to the NIC for one turn, where callers run it. Returns whether anything was done.
    pub fn progress(&self) -> bool {
        false
    }

    /// Waits until `done`, at most for `timeout` (`None`: for ever), and runs the NIC meanwhile if nobody else does. Returns whether `done`, which is asked after each completion.
    pub fn wait_until(&self, timeout: Option<Duration>, done: impl FnMut() -> bool) -> bool {
        false
    }

    /// This thread is about to sleep on a descriptor that [`Completions::complete`] makes readable: something else must run the NIC from now on.
    pub fn watch(&self) {}

    /// Closes it: what was sent still goes out, for as long as the settings say; what is under way then fails.
    pub fn close(&self) {}
}
