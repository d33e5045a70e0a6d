//! A message endpoint as the layers above hold it: each call takes the engine that the endpoint is on.

use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use weft_base::{Clock, DomainId, PeerId};

use crate::callback::in_callback;
use crate::error::Error;
use crate::ids::Runner;
use crate::lower::Carrier;
use crate::messaging::{
    Address, AtomicPost, Closable, Closing, Completions, EndpointAttributes, EndpointEngine, EndpointError,
    EndpointFailure, EndpointSettings, Engine, Match, Movement, Opening, Peek, ReceivePost, SendPost, TransferPost,
    Undelivered, offer,
};
use crate::nic::{Nic, Worker};

/// A message endpoint of a NIC.
pub struct MessageEndpoint<N: Carrier, C: Clock> {
    nic: Nic<N, C>,
    /// The number of its engine.
    engine: usize,
    number: usize,
    address: Address,
    settings: EndpointSettings,
    closed: AtomicBool,
}

impl<N: Carrier, C: Clock + Clone> MessageEndpoint<N, C> {
    /// Opens an endpoint whose peers reach memory of `domain`, and whose completions go to `completions`. `id` and
    /// `seed` should be random.
    ///
    /// # Errors
    /// The address can't be used, or a limit is reached; [`Error::InCallback`].
    pub fn open(
        nic: &Nic<N, C>,
        domain: DomainId,
        attributes: &EndpointAttributes,
        (id, seed): (u64, u64),
        completions: Arc<dyn Completions>,
    ) -> Result<Self, Error> {
        nic.check_callable()?;
        let worker = match attributes.engine {
            None => nic.front(),
            Some(number) => nic.engine(number).ok_or(Error::NoEngine { asked: number, engines: nic.engines() })?,
        };
        let parts = Opening {
            registry: nic.registry(),
            event_count: nic.event_count(),
            domain,
            offer: offer(attributes.settings.transport, nic.settings()),
            host: nic.host(),
        };
        let (number, address) =
            EndpointEngine::open_on(&mut worker.command(), parts, attributes, (id, seed), completions)?;
        let (settings, engine) = (attributes.settings.clone(), worker.index);
        Ok(Self { nic: nic.clone(), engine, number, address, settings, closed: AtomicBool::new(false) })
    }

    /// Its address, for peers.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The number of the peer with this address, which is new or known.
    ///
    /// # Errors
    /// The address has no path in it, or there are as many peers as there may be.
    pub fn peer(&self, address: &Address) -> Result<PeerId, EndpointError> {
        self.with(|core, _| core.find_peer(address))
    }

    /// The address of a peer. `None` in a callback.
    #[must_use]
    pub fn peer_address(&self, peer: PeerId) -> Option<Address> {
        self.with(|core, _| Ok(core.peer_address(peer))).ok()?
    }

    /// Whether a peer runs on this host: the same boot of the same machine, in the same network namespace. `None` while
    /// the peer has not announced where it runs, or does not know; and in a callback.
    #[must_use]
    pub fn is_on_this_host(&self, peer: PeerId) -> Option<bool> {
        self.with(|core, _| Ok(core.is_on_this_host(peer))).ok()?
    }

    /// Sends a message.
    ///
    /// # Errors
    /// The request was not taken, and there will be no completion.
    pub fn send(&self, post: SendPost) -> Result<(), EndpointError> {
        self.with(|core, engine| core.send(post, engine))
    }

    /// Posts a receive.
    ///
    /// # Errors
    /// The request was not taken, and there will be no completion.
    pub fn receive(&self, post: ReceivePost) -> Result<(), EndpointError> {
        self.with(|core, engine| core.receive(post, None, engine))
    }

    /// Writes to a peer's memory.
    ///
    /// # Errors
    /// The request was not taken, and there will be no completion.
    pub fn write(&self, post: TransferPost) -> Result<(), EndpointError> {
        self.with(|core, engine| core.transfer(post, false, engine))
    }

    /// Reads from a peer's memory.
    ///
    /// # Errors
    /// The request was not taken, and there will be no completion.
    pub fn read(&self, post: TransferPost) -> Result<(), EndpointError> {
        self.with(|core, engine| core.transfer(post, true, engine))
    }

    /// Does an atomic operation on a peer's memory.
    ///
    /// # Errors
    /// The request was not taken, and there will be no completion.
    pub fn atomic(&self, post: AtomicPost) -> Result<(), EndpointError> {
        self.with(|core, engine| core.atomic(post, engine))
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
        self.with(|core, _| Ok(core.peek(source, matching, claim)))
    }

    /// Takes the oldest message that matches and throws it away.
    ///
    /// # Errors
    /// The endpoint is closed.
    pub fn discard(&self, source: Option<PeerId>, matching: Option<Match>) -> Result<Option<Peek>, EndpointError> {
        self.with(|core, engine| Ok(core.discard(source, matching, engine)))
    }

    /// Receives a message that was set aside.
    ///
    /// # Errors
    /// The request was not taken: nothing was set aside under this number, for example.
    pub fn receive_claimed(&self, claim: u64, post: ReceivePost) -> Result<(), EndpointError> {
        self.with(|core, engine| core.receive(post, Some(claim), engine))
    }

    /// Throws a message away that was set aside. Returns what it was.
    ///
    /// # Errors
    /// Nothing was set aside under this number.
    pub fn discard_claimed(&self, claim: u64) -> Result<Peek, EndpointError> {
        self.with(|core, engine| core.discard_claimed(claim, engine))
    }

    /// Cancels the oldest receive with this context that no message has matched, or else the oldest send of which
    /// nothing was sent. It completes as canceled. Returns whether there was one; in a callback it cancels nothing.
    pub fn cancel(&self, context: u64) -> bool {
        self.with(|core, _| Ok(core.cancel(context))).unwrap_or(false)
    }

    /// Whether it has no connection, and needs none now. No in a callback.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.with(|core, _| Ok(core.is_idle())).unwrap_or_else(|error| error != EndpointError::InCallback)
    }

    /// Closes it. What was accepted still goes out, to peers that are not connected yet too, and this waits until the
    /// peers' hosts have it, as long as something moves ([`EndpointSettings::linger`]); what is under way then fails.
    ///
    /// # Errors
    /// Not everything was delivered. In a callback it stays open, and the reason is [`EndpointFailure::InCallback`].
    pub fn close(&self) -> Result<(), Undelivered> {
        if in_callback() {
            return Err(Undelivered { requests: 0, reason: Some(EndpointFailure::InCallback) });
        }
        if !self.nic.is_owner_process() || self.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        self.ask(|core, _| core.begin_close());
        let (mut view, mut closing) = (self, None);
        self.nic.wait_until_slowly(|now| {
            closing.get_or_insert_with(|| Closing::new(&self.settings, &mut view, now)).poll(&mut view, now)
        });
        self.ask(|core, engine| core.end(engine));
        let undelivered = self.ask(|core, _| core.undelivered()).flatten();
        let removed = self.worker().command().remove_endpoint(self.number);
        drop(removed);
        undelivered.map_or(Ok(()), Err)
    }

    fn worker(&self) -> &Worker<N, C> {
        self.nic.engine(self.engine).unwrap_or(self.nic.front())
    }

    /// Does something with the endpoint, and with what follows from it.
    fn with<R>(
        &self,
        act: impl FnOnce(&mut EndpointEngine, &mut Engine<N, C>) -> Result<R, EndpointError>,
    ) -> Result<R, EndpointError> {
        if !self.nic.is_owner_process() {
            return Err(Error::Forked.into());
        }
        if in_callback() {
            return Err(EndpointError::InCallback);
        }
        if self.closed.load(Ordering::Acquire) {
            return Err(EndpointError::Closed);
        }
        self.ask(act).unwrap_or(Err(EndpointError::Closed))
    }

    /// As [`MessageEndpoint::with`], for an endpoint that is being closed. Not in a callback.
    fn ask<R>(&self, act: impl FnOnce(&mut EndpointEngine, &mut Engine<N, C>) -> R) -> Option<R> {
        let worker = self.worker();
        // Where callers run the engine they take it if no thread has it; else they must command its thread, for it may
        // sleep.
        let visited = self.nic.settings().progress.caller_runs().then(|| worker.visit(Runner::Visitor)).flatten();
        let mut held = visited.unwrap_or_else(|| worker.command());
        let result = held.with_endpoint(self.number, act);
        if held.is_heartbeat() {
            held.turn();
        }
        result
    }
}

/// While it is being closed. An endpoint that its engine does not know any more has nothing to wait for.
impl<N: Carrier, C: Clock + Clone> Closable for &MessageEndpoint<N, C> {
    fn owes(&mut self) -> bool {
        self.ask(|core, _| core.owes()).unwrap_or(false)
    }

    fn is_quiet(&mut self) -> bool {
        self.ask(|core, _| core.is_quiet()).unwrap_or(true)
    }

    fn begin_end(&mut self) {
        self.ask(|core, engine| core.begin_end(engine));
    }

    fn has_ended(&mut self, known: bool) -> bool {
        self.ask(|core, _| core.has_ended(known)).unwrap_or(true)
    }

    fn movement(&mut self) -> Movement {
        self.ask(|core, engine| core.movement(engine)).unwrap_or_default()
    }
}
