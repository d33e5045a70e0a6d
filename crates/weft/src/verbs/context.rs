//! An opened NIC, and its protection domains.

use core::fmt;
use core::time::Duration;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use weft_base::{DomainId, PortError, Slice, Waker};
use weft_driver::MonotonicClock;
use weft_driver::board::{Board, Shape};
use weft_link::{LinkNetwork, LinkSettings};
use weft_memory::{Access, MemoryError, RegionAttributes, Registry, SliceList, unguessable_seed};
#[cfg(doc)]
use weft_nic::Progress;
use weft_nic::{CompletionSink, Counters, Error, Nic, NicParts, QueuePairAttributes, RailReport, Settings};

use super::completion_queue::CompletionQueue;
use super::connect::{ListenOptions, Listener};
use super::event_channel::EventChannel;
use super::memory_region::MemoryRegion;
use super::opened::{Opened, SystemNic};
use super::queue_pair::{QueuePair, QueuePairOptions, SharedReceiveQueue};

/// An opened software NIC. Clones are the same NIC; it closes when the last one, and everything made from it, is gone.
#[derive(Clone)]
pub struct Context {
    pub(crate) opened: Arc<Opened>,
}

impl Context {
    /// Opens a NIC with default settings.
    ///
    /// # Errors
    /// The operating system refuses what it needs: descriptors, randomness.
    pub fn open() -> Result<Self, Error> {
        Self::with_settings(Settings::default())
    }

    /// Opens a NIC.
    ///
    /// # Errors
    /// The settings don't go together; or the operating system refuses what it needs: descriptors, randomness, a
    /// thread.
    pub fn with_settings(settings: Settings) -> Result<Self, Error> {
        settings.check()?;
        let registry = Registry::new(unguessable_seed()?, weft_memory::Limits::default());
        let mut networks = Vec::with_capacity(settings.engines);
        for _ in 0..settings.engines {
            networks.push(LinkNetwork::new(registry.clone())?);
        }
        Self::over(networks, registry, settings)
    }

    /// Opens a NIC that has addresses of its own on a raw link, of IPv4, IPv6 or both: what goes there and is iWARP
    /// goes by Weft's own TCP, in user space, what is Edge in Ethernet frames of its own, without IP (between addresses
    /// of IPv4; to others Edge goes by the kernel's UDP); and it listens there when it is given such an address. All
    /// else is as without a link. The link has one engine's connections, so `settings` must ask for one engine. How the
    /// interface must be set says [`weft_link`].
    ///
    /// A link can have a range of ports of the host's own addresses instead ([`LinkSettings::ports`]); Edge goes by the
    /// kernel then.
    ///
    /// # Errors
    /// As [`Context::with_settings`]; there is no such interface, a right is missing (CAP_NET_RAW, for ports of the
    /// host CAP_NET_ADMIN), or an address or port is taken: the message says which.
    pub fn with_link(settings: Settings, link: LinkSettings) -> io::Result<Self> {
        settings.check().map_err(io::Error::other)?;
        if settings.engines != 1 {
            let words = format!("{} engines cannot share the link {link}: ask for one", settings.engines);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, words));
        }
        let seed = unguessable_seed().map_err(io::Error::other)?;
        let registry = Registry::new(seed, weft_memory::Limits::default());
        let network = LinkNetwork::with_link(registry.clone(), link)?;
        Self::over(vec![network], registry, settings).map_err(io::Error::other)
    }

    fn over(networks: Vec<LinkNetwork>, registry: Registry, settings: Settings) -> Result<Self, Error> {
        let readiness = networks[0].poll_fd().try_clone_to_owned().map_err(|_| PortError::Exhausted)?;
        let seed = getrandom::u64().map_err(|_| MemoryError::NoRandomness)?;
        let board = Shown::board(settings.engines);
        let machine = NicParts {
            networks,
            clock: MonotonicClock::new(),
            registry,
            seed,
            process: weft_driver::fork::generation,
            host: weft_driver::host_id(),
            board,
        };
        let nic = Nic::new(machine, settings)?;
        nic.spawn().map_err(|error| PortError::System(error.raw_os_error().unwrap_or(0)))?;
        Ok(Self { opened: Arc::new(Opened::new(nic, readiness)) })
    }

    /// Makes a protection domain.
    ///
    /// # Errors
    /// A limit is reached.
    pub fn allocate_protection_domain(&self) -> Result<ProtectionDomain, Error> {
        self.opened.here()?;
        let id = self.nic().registry().allocate_domain()?;
        Ok(ProtectionDomain { domain: Arc::new(Domain { id, opened: Arc::clone(&self.opened) }) })
    }

    /// Makes a completion queue with room for `capacity` completions: those that wait to be polled and those of work
    /// requests in flight, but for sends that are not signaled. Such sends have a completion only if they fail, and it
    /// comes on top.
    ///
    /// # Errors
    /// A capacity of zero, or above the limit; no more descriptors.
    pub fn create_completion_queue(&self, capacity: usize) -> Result<CompletionQueue, Error> {
        let queue = self.nic().create_completion_queue(capacity)?;
        CompletionQueue::new(Arc::clone(&self.opened), queue)
    }

    /// Makes a channel for events of connections and queues.
    ///
    /// # Errors
    /// No more descriptors.
    pub fn create_event_channel(&self) -> Result<EventChannel, Error> {
        self.opened.here()?;
        EventChannel::new(Arc::clone(&self.opened))
    }

    /// Makes a completion queue without a descriptor of its own: when it was armed and a completion comes, that is an
    /// event of the channel, with this token.
    ///
    /// # Errors
    /// As for [`Context::create_completion_queue`], and a channel of another NIC.
    pub fn create_completion_queue_on(
        &self,
        channel: &EventChannel,
        token: u64,
        capacity: usize,
    ) -> Result<CompletionQueue, Error> {
        let queue = self.nic().create_completion_queue(capacity)?;
        CompletionQueue::on(Arc::clone(&self.opened), queue, channel, token)
    }

    /// Makes a completion queue that keeps nothing: each completion goes to `sink` as it comes, in the thread that runs
    /// the NIC and under its locks. For a layer above that has queues of its own. It has no events, and all sinks of a
    /// NIC have one descriptor, which never becomes readable.
    ///
    /// # Errors
    /// No more descriptors.
    pub fn create_completion_sink(&self, sink: Arc<dyn CompletionSink>) -> Result<CompletionQueue, Error> {
        let queue = self.nic().create_completion_sink(sink)?;
        CompletionQueue::sink(Arc::clone(&self.opened), queue)
    }

    /// Listens for connections. Port number 0 takes a free one: [`Listener::local_address`] tells which.
    ///
    /// # Errors
    /// The address can't be used, or a limit is reached.
    pub fn listen(&self, address: SocketAddr, options: &ListenOptions) -> Result<Listener, Error> {
        let listener = self.nic().listen(address, options.backlog, options.offer)?;
        Ok(Listener::new(Arc::clone(&self.opened), listener))
    }

    /// Runs the NIC for one turn, if no other thread does. Only needed by programs that neither poll nor wait, with
    /// [`Progress::Caller`]. Returns whether anything was done.
    pub fn progress(&self) -> bool {
        self.nic().progress()
    }

    /// Called when a poll was empty: does the calling thread's part of a turn of the NIC. Returns whether anything was
    /// done. Cheaper than [`Context::progress`] where threads of the NIC do everything.
    pub fn progress_as_caller(&self) -> bool {
        self.nic().progress_as_caller()
    }

    /// Waits until `done`, at most for `timeout` (`None`: for ever), and runs the NIC meanwhile if no other thread
    /// does. Returns whether `done`, which is called whenever the NIC has done something, and after [`Context::nudge`].
    /// It can't use a NIC or an endpoint: it is a callback
    /// ([`Completions::complete`](crate::endpoint::Completions::complete) says more).
    pub fn wait_until(&self, timeout: Option<Duration>, done: impl FnMut() -> bool) -> bool {
        self.nic().wait_until(timeout, done)
    }

    /// Has threads that wait in [`Context::wait_until`] ask again whether they are done.
    pub fn nudge(&self) {
        self.nic().nudge();
    }

    /// This thread is about to sleep on a descriptor of its own: something else must run the NIC from now on.
    pub fn watch(&self) {
        self.nic().watch();
    }

    /// This thread has found nothing after [`Context::watch`], and sleeps next. A request that it has posted in between
    /// may have taken the NIC back, and nothing runs it then until the thread counts as away ([`Settings::away`]).
    /// Hands it over again if that is so, and returns whether it was. Queues that are armed do that by themselves.
    pub fn watch_again(&self) -> bool {
        self.nic().watch_again()
    }

    /// What the NIC has done so far; zeros in a callback.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.nic().counters()
    }

    /// Sets what to wake when something has waited for longer than [`Settings::away`] while no thread was in the NIC,
    /// with [`Laboratory::selective_interrupt`](super::laboratory::Laboratory::selective_interrupt). The thread that is
    /// woken should poll, wait, or call [`Context::progress`].
    pub fn set_summons(&self, summons: Arc<dyn Waker>) {
        self.nic().set_summons(summons);
    }

    /// The settings it was opened with.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        self.nic().settings()
    }

    fn nic(&self) -> &SystemNic {
        &self.opened.nic
    }
}

/// The counters, where other processes of this user see them.
struct Shown(Board);

impl Shown {
    /// `None` when there is no place for them: a NIC works without, and says so once.
    fn board(engines: usize) -> Option<Arc<dyn weft_nic::Board>> {
        let shape = Shape { format: RailReport::FORMAT, rows: RailReport::MOST, words: RailReport::WORDS };
        let board = Board::with_table("verbs", Counters::NAMES, engines, shape);
        let board = board.inspect_err(weft_driver::board::say_missing).ok()?;
        Some(Arc::new(Self(board)))
    }
}

impl weft_nic::Board for Shown {
    fn publish(&self, engine: usize, values: &[u64]) {
        self.0.publish(engine, values);
    }

    fn publish_rails(&self, engine: usize, rails: &[[u64; RailReport::WORDS]]) {
        self.0.publish_table(engine, rails);
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").finish_non_exhaustive()
    }
}

struct Domain {
    id: DomainId,
    opened: Arc<Opened>,
}

impl Drop for Domain {
    fn drop(&mut self) {
        if self.opened.nic.is_owner_process() {
            // Regions and queue pairs hold their domain, so it is empty now.
            let _ = self.opened.nic.registry().release_domain(self.id);
        }
    }
}

/// What belongs together: a queue pair, and the peer behind it, reach only regions of the same domain (RFC 5042
/// section 6.1). Clones are the same domain.
#[derive(Clone)]
pub struct ProtectionDomain {
    domain: Arc<Domain>,
}

impl ProtectionDomain {
    /// Registers memory, which from then on belongs to the region. [`MemoryRegion::deregister`] gives it back.
    ///
    /// # Errors
    /// A limit is reached.
    pub fn register(&self, memory: impl Into<weft_memory::Buffer>, access: Access) -> Result<MemoryRegion, Error> {
        self.register_at(memory, access, 0)
    }

    /// Registers memory whose first byte has the tagged offset `base` on the wire. With [`ProtectionDomain::register`]
    /// that is 0; programs that exchange virtual addresses choose something else.
    ///
    /// # Errors
    /// A limit is reached, or the region would pass the end of the 64-bit offsets.
    pub fn register_at(
        &self,
        memory: impl Into<weft_memory::Buffer>,
        access: Access,
        base: u64,
    ) -> Result<MemoryRegion, Error> {
        let mut attributes = RegionAttributes::new(access);
        attributes.base = base;
        self.register_with(memory, &attributes)
    }

    /// Registers memory with all its attributes, the STag included.
    ///
    /// # Errors
    /// As for [`ProtectionDomain::register_at`], and another region has the STag ([`MemoryError::StagInUse`]).
    pub fn register_with(
        &self,
        memory: impl Into<weft_memory::Buffer>,
        attributes: &RegionAttributes,
    ) -> Result<MemoryRegion, Error> {
        self.domain.opened.here()?;
        let region = self.nic().registry().register_with(self.id(), memory, attributes)?;
        Ok(MemoryRegion::new(self.clone(), region))
    }

    /// Allocates `length` zeroed bytes on page boundaries and registers them.
    ///
    /// # Errors
    /// A limit is reached, or there is no memory.
    pub fn allocate(&self, length: usize, access: Access) -> Result<MemoryRegion, Error> {
        self.register(weft_memory::Buffer::zeroed(length)?, access)
    }

    /// Makes a list of slices that work requests take as one slice ([`SliceList::slice`]): for those that gather from
    /// or scatter to more than [`MAX_GATHER`](super::MAX_GATHER) slices. A list may be used again and again, and
    /// requests that are in flight keep it when it is dropped. Their regions and rights are checked at each post.
    ///
    /// # Errors
    /// More than [`MAX_LISTED`](super::MAX_LISTED) slices, a list among them, or 2^32 bytes and more.
    pub fn list(&self, slices: &[Slice]) -> Result<SliceList, Error> {
        self.domain.opened.here()?;
        Ok(self.nic().registry().list(slices)?)
    }

    /// Makes a list of `length` bytes that are nowhere. A work request with it is taken, and fails when it comes to its
    /// bytes: for programs in which memory that can't be used is an error of the work, not of its posting.
    ///
    /// # Errors
    /// A limit is reached.
    pub fn void(&self, length: u32) -> Result<SliceList, Error> {
        self.domain.opened.here()?;
        Ok(self.nic().registry().void(length)?)
    }

    /// Makes a queue pair that completes everything on one queue.
    ///
    /// # Errors
    /// A limit is reached, or a depth is zero or above the limit.
    pub fn create_queue_pair(
        &self,
        completions: &CompletionQueue,
        options: &QueuePairOptions,
    ) -> Result<QueuePair, Error> {
        self.create_queue_pair_with(completions, completions, None, options)
    }

    /// Makes a queue pair with a completion queue for sends and one for receives, and on demand with receives that it
    /// shares with others. Receives that it takes from a shared queue complete on `receive_completions`, too. Where
    /// that is another one than the shared queue was made with, and is full when a message comes, it is as if no
    /// receive were posted.
    ///
    /// # Errors
    /// As before; or the shared receive queue belongs to another domain.
    pub fn create_queue_pair_with(
        &self,
        send_completions: &CompletionQueue,
        receive_completions: &CompletionQueue,
        shared_receives: Option<&SharedReceiveQueue>,
        options: &QueuePairOptions,
    ) -> Result<QueuePair, Error> {
        let queue_pair = self.nic().create_queue_pair(&QueuePairAttributes {
            domain: self.id(),
            send_completions: send_completions.shared(),
            receive_completions: receive_completions.shared(),
            send_depth: options.send_depth,
            receive_depth: options.receive_depth,
            shared_receives: shared_receives.map(SharedReceiveQueue::shared),
        })?;
        Ok(QueuePair::new(self.clone(), queue_pair))
    }

    /// Makes a receive queue that queue pairs of this domain can share. What is posted takes a place in `completions`,
    /// where it completes, too, for queue pairs that receive there.
    ///
    /// # Errors
    /// A depth of zero, or above the limit.
    pub fn create_shared_receive_queue(
        &self,
        completions: &CompletionQueue,
        depth: usize,
    ) -> Result<SharedReceiveQueue, Error> {
        let queue = self.nic().create_shared_receive_queue(self.id(), depth, completions.shared())?;
        Ok(SharedReceiveQueue::new(self.clone(), queue))
    }

    pub(super) fn nic(&self) -> &SystemNic {
        &self.domain.opened.nic
    }

    /// The NIC that it is of.
    pub(crate) fn opened(&self) -> &Arc<Opened> {
        &self.domain.opened
    }

    /// Whether this process may use it.
    pub(super) fn here(&self) -> Result<(), Error> {
        self.domain.opened.here()
    }

    pub(crate) fn id(&self) -> DomainId {
        self.domain.id
    }
}

impl fmt::Debug for ProtectionDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ProtectionDomain").field(&self.domain.id.0).finish()
    }
}
