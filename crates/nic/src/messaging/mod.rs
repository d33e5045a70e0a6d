//! Message endpoints: `weft-message` joined to queue pairs, in the engine. Whoever runs the engine matches messages, answers peers and executes atomics, so they make progress
//! while the application computes.

mod atomic;
mod buffer_pool;
mod connect;
mod core;
mod ending;
mod host;
mod key;
mod link;
mod loopback;
mod peers;
mod proving;
mod request;
mod sending;
mod transfer;

use ::core::sync::atomic::{AtomicBool, Ordering};
use ::core::time::Duration;
use std::net::SocketAddr;
use std::sync::Arc;

use weft_base::{Clock, DomainId, Network, PeerId};
use weft_memory::Access;
use weft_message::Machine as Messages;

use self::connect::offer;
use self::core::CELLS;
pub(crate) use self::core::Core as EndpointEngine;
use self::host::NicHost;
pub use self::key::{JobKey, KeyError};
pub(crate) use self::link::UpperId;
use self::peers::Peers;
pub use self::request::*;
use crate::engine::Engine;
use crate::engine::listening::Waiting;
use crate::error::Error;
use crate::nic::Nic;
use crate::progress::worker::Runner;
use crate::queues::completion_queue::CompletionQueue;

/// Work requests of all connections of an endpoint together, at most.
const COMPLETIONS: usize = 1 << 18;
/// Connections that may wait at an endpoint to be decided.
const BACKLOG: u32 = 1024;

/// Sizes and limits of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointSettings {
    /// Protocols, credits, and what is kept for unexpected messages.
    pub messages: weft_message::Settings,
    /// Messages and writes up to so many bytes may be injected: copied, so that nobody waits for them. Programs that ask for delivery-complete, as MPICH does, wait for the
    /// peer's answer to all others.
    pub inject_bytes: u32,
    /// Bytes of injected messages that have not gone out, or that stay here until their receives are posted. Beyond them nothing is injected.
    pub injected_bytes: u64,
    /// Operand bytes of one atomic operation, at most.
    pub atomic_bytes: u32,
    /// Sends, transfers and atomics under way, at most, without the sends of `announced_depth`.
    pub send_depth: u32,
    /// Sends that have gone out, or were announced to their peers, and wait for the receives to be posted there, at most. Beyond them nothing is sent until some of them are received.
    pub announced_depth: u32,
    /// Receives posted, at most.
    pub receive_depth: u32,
    /// Peers known, at most.
    pub peers: u32,
    /// How long to try to reach a peer, all its ways together.
    pub connect_timeout: Duration,
    /// How long closing waits until what was accepted is delivered. `None`: as long as the peers' hosts answer, and [`Self::UNTAKEN`] for messages that
    /// peers know of, but have posted no receive for.
    pub linger: Option<Duration>,
}

impl EndpointSettings {
    /// The most bytes that an endpoint keeps because of what its peers send, when so many of them are connected at a time. What the application has posted, and peers as such, are not counted.
    #[must_use]
    pub fn most_kept(&self, connections: u64) -> u64 {
        let packets = 2 * u64::from(link::slots(&self.messages)) * u64::from(self.messages.packet_bytes);
        let spare = buffer_pool::MOST_BYTES as u64;
        self.messages.most_kept(connections).saturating_add(spare).saturating_add(packets.saturating_mul(connections))
    }
}

impl Default for EndpointSettings {
    fn default() -> Self {
        Self {
            messages: weft_message::Settings::default(),
            inject_bytes: 16 * 1024,
            injected_bytes: 1 << 30,
            atomic_bytes: 8192,
            send_depth: 4096,
            announced_depth: 1 << 20,
            receive_depth: 1 << 20,
            peers: 1 << 16,
            connect_timeout: Duration::from_secs(10),
            linger: None,
        }
    }
}

impl EndpointSettings {
    /// How long closing waits, unless [`Self::linger`] says otherwise, until peers' programs have received what was announced to them.
    pub const UNTAKEN: Duration = Duration::from_secs(2);
}

/// How an endpoint is opened.
#[derive(Clone, Debug)]
pub struct EndpointAttributes {
    /// Where to listen. Port 0 takes a free one.
    pub bind: SocketAddr,
    /// Under which addresses peers reach it, the best first, if it listens on all of the machine's. The port is put in.
    pub ways: Vec<std::net::IpAddr>,
    /// Sizes and limits.
    pub settings: EndpointSettings,
    /// What all endpoints of the job have, and nobody else: those without it are not let in. `None`: whoever reaches the port is.
    pub key: Option<JobKey>,
}

impl EndpointAttributes {
    /// An endpoint at this address alone, with default settings.
    #[must_use]
    pub fn at(bind: SocketAddr) -> Self {
        Self { bind, ways: Vec::new(), settings: EndpointSettings::default(), key: None }
    }
}

/// A message endpoint of a NIC.
pub struct MessageEndpoint<N: Network, C: Clock> {
    nic: Nic<N, C>,
    number: usize,
    address: Address,
    linger: Option<Duration>,
    closed: AtomicBool,
}

impl<N: Network, C: Clock + Clone> MessageEndpoint<N, C> {
    /// Opens an endpoint whose peers reach memory of `domain`, and whose completions go to `completions`. `id` and `seed` should be random.
    ///
    /// # Errors
    /// The address can't be used, or a limit is reached.
    pub fn open(
        nic: &Nic<N, C>,
        domain: DomainId,
        attributes: &EndpointAttributes,
        (id, seed): (u64, u64),
        completions: Arc<dyn Completions>,
    ) -> Result<Self, Error> {
        nic.check_owner()?;
        let EndpointAttributes { bind, ways, settings, key } = attributes;
        let registry = nic.registry();
        let cells = registry.register_zeroed(domain, CELLS as usize * 8, Access::LOCAL_WRITE, 0)?;
        let event_count = nic.event_count();
        let waiting = Arc::new(Waiting::new(Arc::clone(&event_count)));
        let queue = Arc::new(CompletionQueue::growing(COMPLETIONS, Arc::clone(&event_count)));
        let mut engine = nic.front().command();
        let (listener, local) = engine.listen_for(*bind, BACKLOG, offer(nic.settings()), Arc::clone(&waiting))?;
        let address = address_of(id, local, ways);
        let peers = Peers::new(&address, settings.peers);
        let host = NicHost::new(registry.clone(), domain, completions, peers);
        let machine = Messages::new(settings.messages.clone(), seed);
        let number = engine.next_endpoint();
        let core = EndpointEngine::new(
            number,
            machine,
            host,
            settings.clone(),
            (address.clone(), seed),
            key.clone(),
            listener,
            waiting,
            queue,
            event_count,
            cells,
        );
        engine.add_endpoint(Box::new(core));
        drop(engine);
        Ok(Self { nic: nic.clone(), number, address, linger: settings.linger, closed: AtomicBool::new(false) })
    }

    /// Its address, for peers.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The number of the peer with this address, which is new or known.
    ///
    /// # Errors
    /// The address has no way in it, or there are as many peers as there may be.
    pub fn peer(&self, address: &Address) -> Result<PeerId, EndpointError> {
        self.with(|core, _| core.host.peers.find_or_add(address))
    }

    /// The address of a peer.
    #[must_use]
    pub fn peer_address(&self, peer: PeerId) -> Option<Address> {
        self.with(|core, _| Ok(core.host.peers.get(peer).map(|peer| peer.address.clone()))).ok()?
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
        self.with(|core, _| Ok(core.machine.peek(source, matching, claim)))
    }

    /// Takes the oldest message that matches and throws it away.
    ///
    /// # Errors
    /// The endpoint is closed.
    pub fn discard(&self, source: Option<PeerId>, matching: Option<Match>) -> Result<Option<Peek>, EndpointError> {
        self.with(|core, engine| {
            let found = core.machine.discard(source, matching, &mut core.host);
            core.flush(engine);
            Ok(found)
        })
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
        self.with(|core, engine| {
            let found = core.machine.discard_claimed(claim, &mut core.host);
            core.flush(engine);
            found.ok_or(EndpointError::NotClaimed(claim))
        })
    }

    /// Cancels the oldest receive with this context that no message has matched, or else the oldest send of which nothing was sent. It completes as
    /// canceled. Returns whether there was one.
    pub fn cancel(&self, context: u64) -> bool {
        self.with(|core, _| Ok(core.cancel(context))).unwrap_or(false)
    }

    /// Whether it has no connection, and needs none now.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.with(|core, _| Ok(core.is_idle())).unwrap_or(true)
    }

    /// Closes it. What was accepted still goes out, to peers that are not connected yet too, and this waits until the peers' hosts have it
    /// ([`EndpointSettings::linger`]); what is under way then fails.
    ///
    /// # Errors
    /// Not everything was delivered.
    pub fn close(&self) -> Result<(), Undelivered> {
        if !self.nic.is_owner_process() || self.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let untaken = self.linger.unwrap_or(EndpointSettings::UNTAKEN);
        self.ask(|core, _| core.begin_close());
        self.nic.wait_until_slowly(self.linger, || self.ask(|core, _| !core.owes()).unwrap_or(true));
        self.nic.wait_until_slowly(Some(untaken), || self.ask(|core, _| core.is_quiet()).unwrap_or(true));
        self.ask(|core, engine| core.begin_end(engine));
        // A connection that waits for its peer to close ends by itself when the peer's host has everything.
        self.nic.wait_until_slowly(self.linger, || self.ask(|core, _| core.has_ended(true)).unwrap_or(true));
        self.nic.wait_until_slowly(Some(untaken), || self.ask(|core, _| core.has_ended(false)).unwrap_or(true));
        self.ask(|core, engine| core.end(engine));
        let undelivered = self.ask(|core, _| core.undelivered()).flatten();
        let removed = self.nic.front().command().remove_endpoint(self.number);
        drop(removed);
        undelivered.map_or(Ok(()), Err)
    }

    /// Does something with the endpoint, and with what follows from it.
    fn with<R>(
        &self,
        act: impl FnOnce(&mut EndpointEngine, &mut Engine<N, C>) -> Result<R, EndpointError>,
    ) -> Result<R, EndpointError> {
        if !self.nic.is_owner_process() {
            return Err(Error::Forked.into());
        }
        if self.closed.load(Ordering::Acquire) {
            return Err(EndpointError::Closed);
        }
        self.ask(act).unwrap_or(Err(EndpointError::Closed))
    }

    fn ask<R>(&self, act: impl FnOnce(&mut EndpointEngine, &mut Engine<N, C>) -> R) -> Option<R> {
        let worker = self.nic.front();
        // Where callers run the engine they take it if nobody has it; else its thread must be told, for it may sleep.
        let visited = self.nic.settings().progress.caller_runs().then(|| worker.visit(Runner::Visitor)).flatten();
        let mut held = visited.unwrap_or_else(|| worker.command());
        let result = held.with_endpoint(self.number, act);
        if held.beats() {
            held.turn();
        }
        result
    }
}

fn address_of(id: u64, local: SocketAddr, ways: &[std::net::IpAddr]) -> Address {
    let mut all: arrayvec::ArrayVec<SocketAddr, MAX_ADDRESSES> = arrayvec::ArrayVec::new();
    for way in ways.iter().take(MAX_ADDRESSES) {
        all.push(SocketAddr::new(*way, local.port()));
    }
    if all.is_empty() {
        all.push(local);
    }
    Address { id: id.max(1), ways: all }
}
