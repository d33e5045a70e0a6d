//! The NIC as the layers above hold it: they make queue pairs, connect and listen, post, and lend their thread to the event loop.

use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use core::time::Duration;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::{Mutex, MutexGuard};
use slotmap::DefaultKey;
use weft_base::{Clock, DomainId, Listener as _, Network, Random, Time};
use weft_memory::Registry;
use weft_mpa::{Initiator, Offer};
use weft_rdmap::{ReceiveRequest, SendRequest};

use crate::bell::Bell;
use crate::completion::{CompletionQueue, QueuePairNumber};
use crate::connection::{Connection, Ending, within_limits};
use crate::counters::Counters;
use crate::engine::Engine;
use crate::error::{Error, PostError, PostFailure};
use crate::listening::{RequestInfo, RequestKey, Waiting};
use crate::queue_pair::{QueuePair, QueuePairAttributes, State};
use crate::receives::ReceiveQueue;
#[cfg(doc)]
use crate::settings::Progress;
use crate::settings::Settings;
use crate::turnstile::Turnstile;

/// The longest sleep of a thread that waits for another one: a safety net, not a poll interval.
const LONGEST_SLEEP: Duration = Duration::from_millis(500);

/// A software NIC over a network and a clock. Cheap to clone: all clones are the same NIC.
pub struct Nic<N: Network, C: Clock> {
    shared: Arc<Shared<N, C>>,
}

impl<N: Network, C: Clock> Clone for Nic<N, C> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

struct Shared<N: Network, C: Clock> {
    engine: Mutex<Engine<N, C>>,
    clock: C,
    bell: Arc<Bell>,
    turnstile: Arc<Turnstile>,
    registry: Registry,
    settings: Settings,
    queue_pairs: AtomicU32,
    next_number: AtomicU32,
    stop: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// A listener of a NIC, and the requests that wait at it.
#[derive(Clone, Debug)]
pub struct Listener {
    key: DefaultKey,
    address: SocketAddr,
    waiting: Arc<Waiting>,
}

impl Listener {
    /// Where it listens, with the port number that was chosen when 0 was asked for.
    #[must_use]
    pub fn local_address(&self) -> SocketAddr {
        self.address
    }

    /// Takes the oldest incoming connection that waits, if one does.
    ///
    /// # Errors
    /// The listener is closed.
    pub fn next_request(&self) -> Result<Option<(RequestKey, RequestInfo)>, Error> {
        self.waiting.take()
    }
}

impl<N: Network, C: Clock + Clone> Nic<N, C> {
    /// A NIC that only moves when it is driven: by [`Nic::progress`], or by waiting calls. For [`Progress::Thread`] call [`Nic::spawn`]
    /// as well.
    ///
    /// `seed` should be unguessable: from it come the STags under which peers answer reads.
    pub fn new(network: N, clock: C, registry: Registry, settings: Settings, seed: u64) -> Self {
        let bell = Arc::new(Bell::new(network.waker()));
        let turnstile = Arc::new(Turnstile::default());
        let engine = Engine::new(
            network,
            clock.clone(),
            registry.clone(),
            settings.clone(),
            Random::new(seed),
            Arc::clone(&bell),
            Arc::clone(&turnstile),
        );
        let shared = Shared {
            engine: Mutex::new(engine),
            clock,
            bell,
            turnstile,
            registry,
            settings,
            queue_pairs: AtomicU32::new(0),
            next_number: AtomicU32::new(1),
            stop: AtomicBool::new(false),
            thread: Mutex::new(None),
        };
        Self { shared: Arc::new(shared) }
    }

    /// The memory table.
    #[must_use]
    pub fn registry(&self) -> &Registry {
        &self.shared.registry
    }

    /// The settings it was made with.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    /// What it has done so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.command().counters
    }

    /// Makes a completion queue with room for `capacity` completions.
    ///
    /// # Errors
    /// No room at all, or more than the limit.
    pub fn create_completion_queue(&self, capacity: usize) -> Result<Arc<CompletionQueue>, Error> {
        check_depth("completion queue capacity", capacity, self.shared.settings.limits.completion_queue_entries)?;
        Ok(Arc::new(CompletionQueue::new(capacity, Arc::clone(&self.shared.turnstile))))
    }

    /// Makes a receive queue that queue pairs of one domain can share. What is received from it completes on `completions`.
    ///
    /// # Errors
    /// No room at all, or more than the limit.
    pub fn create_shared_receive_queue(
        &self,
        domain: DomainId,
        depth: usize,
        completions: Arc<CompletionQueue>,
    ) -> Result<Arc<ReceiveQueue>, Error> {
        check_depth("receive queue depth", depth, self.shared.settings.limits.queue_depth)?;
        Ok(Arc::new(ReceiveQueue::new(domain, depth, completions)))
    }

    /// Makes a queue pair.
    ///
    /// # Errors
    /// A limit, a depth that is not possible, or parts that don't belong together.
    pub fn create_queue_pair(&self, attributes: &QueuePairAttributes) -> Result<Arc<QueuePair>, Error> {
        let limits = &self.shared.settings.limits;
        check_depth("send queue depth", attributes.send_depth as usize, limits.queue_depth)?;
        match &attributes.shared_receives {
            None => check_depth("receive queue depth", attributes.receive_depth as usize, limits.queue_depth)?,
            Some(shared) if shared.domain() != attributes.domain => return Err(Error::DomainMismatch),
            Some(shared) if !Arc::ptr_eq(shared.completions(), &attributes.receive_completions) => {
                return Err(Error::CompletionQueueMismatch);
            }
            Some(_) => {}
        }
        let counted = self.shared.queue_pairs.fetch_update(Ordering::AcqRel, Ordering::Acquire, |count| {
            (count < limits.queue_pairs).then_some(count + 1)
        });
        if counted.is_err() {
            return Err(Error::Limit { name: "queue_pairs", limit: u64::from(limits.queue_pairs) });
        }
        let number = QueuePairNumber(self.shared.next_number.fetch_add(1, Ordering::Relaxed));
        Ok(Arc::new(QueuePair::new(number, attributes, Arc::clone(&self.shared.turnstile))))
    }

    /// Ends a queue pair: its connection is broken if it has one, and what is under way is flushed. To close gracefully, call
    /// [`Nic::close`] before and wait.
    pub fn destroy_queue_pair(&self, queue_pair: &QueuePair) {
        {
            let mut engine = self.command();
            if let Some(key) = queue_pair.connection() {
                engine.end_connection(key, Ending::Abrupt);
            }
        }
        if !queue_pair.state().has_ended() {
            queue_pair.finish(&self.shared.registry, Some(crate::ConnectionError::Abandoned));
        }
        self.shared.queue_pairs.fetch_sub(1, Ordering::AcqRel);
    }

    // --- connecting

    /// Begins to connect an idle queue pair. Its state tells when it is ready, or has failed.
    ///
    /// # Errors
    /// The queue pair is not idle, a setting is not possible, a limit is reached, or the operating system refused.
    pub fn connect(
        &self,
        queue_pair: &Arc<QueuePair>,
        remote: SocketAddr,
        local: Option<SocketAddr>,
        offer: Offer,
        private_data: &[u8],
    ) -> Result<(), Error> {
        let offer = within_limits(&offer, &self.shared.settings);
        let (initiator, request) = Initiator::start(offer, private_data)?;
        queue_pair.claim().map_err(|state| Error::State { state, wanted: "idle" })?;
        let mut engine = self.command();
        let options = engine.port_options(local);
        let added = engine.add_connection(|network, deadline| {
            let port = network.connect(remote, options)?;
            Ok(Connection::initiate(port, Arc::clone(queue_pair), initiator, request, deadline))
        });
        match added {
            Ok(key) => {
                queue_pair.begin(key);
                engine.start_connection(key);
                Ok(())
            }
            Err(error) => {
                queue_pair.reset();
                Err(error)
            }
        }
    }

    /// Gives up a connection that is being set up.
    pub fn abandon(&self, queue_pair: &QueuePair) {
        let mut engine = self.command();
        if let Some(key) = queue_pair.connection().filter(|_| queue_pair.state() == State::Connecting) {
            engine.end_connection(key, Ending::Abrupt);
        }
    }

    /// Closes the connection of a queue pair gracefully: what was posted still goes out, then the peer is told.
    pub fn close(&self, queue_pair: &QueuePair) {
        let mut engine = self.command();
        if let Some(key) = queue_pair.connection() {
            engine.end_connection(key, Ending::Graceful);
        }
    }

    /// Listens for connections. At most `backlog` of them wait to be accepted.
    ///
    /// # Errors
    /// A limit is reached, or the address can't be used.
    pub fn listen(&self, address: SocketAddr, backlog: u32, offer: Offer) -> Result<Listener, Error> {
        let limits = &self.shared.settings.limits;
        check_depth("listener backlog", backlog as usize, limits.connections)?;
        let mut engine = self.command();
        if engine.listener_count() >= limits.listeners as usize {
            return Err(Error::Limit { name: "listeners", limit: u64::from(limits.listeners) });
        }
        let listener = engine.listen(address, backlog)?;
        let address = listener.local_address();
        let waiting = Arc::new(Waiting::new(Arc::clone(&self.shared.turnstile)));
        let key = engine.add_listener(listener, offer, backlog as usize, Arc::clone(&waiting));
        Ok(Listener { key, address, waiting })
    }

    /// Stops listening. Connections that wait to be accepted are broken.
    pub fn close_listener(&self, listener: &Listener) {
        self.command().remove_listener(listener.key);
    }

    /// Accepts an incoming connection on an idle queue pair.
    ///
    /// # Errors
    /// The connection is gone, the queue pair is not idle, or the private data is too long: then the request still waits.
    pub fn accept(
        &self,
        request: RequestKey,
        queue_pair: &Arc<QueuePair>,
        private_data: &[u8],
        depths: Option<(u16, u16)>,
    ) -> Result<(), Error> {
        queue_pair.claim().map_err(|state| Error::State { state, wanted: "idle" })?;
        let mut engine = self.command();
        let accepted = engine.decide(request.0, |connection, cx| {
            let waiting = connection.take_request().ok_or(Error::RequestGone)?;
            let waiting = match depths {
                Some((ird, ord)) => waiting.with_depths(ird, ord),
                None => waiting,
            };
            match waiting.accept(private_data) {
                Ok((agreement, reply)) => {
                    queue_pair.begin(request.0);
                    connection.accept(Arc::clone(queue_pair), agreement, &reply, cx);
                    Ok(())
                }
                Err((waiting, misuse)) => {
                    connection.put_back(waiting);
                    Err(Error::Start(misuse))
                }
            }
        });
        if accepted.is_err() {
            queue_pair.reset();
        }
        accepted
    }

    /// Rejects an incoming connection.
    ///
    /// # Errors
    /// The connection is gone, or the private data is too long: then the request still waits.
    pub fn reject(&self, request: RequestKey, private_data: &[u8]) -> Result<(), Error> {
        self.command().decide(request.0, |connection, cx| {
            let waiting = connection.take_request().ok_or(Error::RequestGone)?;
            match waiting.reject(private_data) {
                Ok(reply) => {
                    connection.reject(&reply, cx);
                    Ok(())
                }
                Err((waiting, misuse)) => {
                    connection.put_back(waiting);
                    Err(Error::Start(misuse))
                }
            }
        })
    }

    // --- work requests

    /// Posts send requests (sends, writes, reads, atomics) and starts on them: one system call may carry many.
    ///
    /// # Errors
    /// A request could not be taken; those before it were.
    pub fn post_send(
        &self,
        queue_pair: &QueuePair,
        requests: impl IntoIterator<Item = SendRequest>,
    ) -> Result<(), PostFailure> {
        let (posted, failure, ring) = queue_pair.submit(&self.shared.registry, requests);
        if let Some(connection) = ring {
            self.start_on(connection);
        }
        match failure {
            None => Ok(()),
            Some(error) => Err(PostFailure { posted, error }),
        }
    }

    /// Posts a receive request to a queue pair's own receive queue.
    ///
    /// # Errors
    /// It could not be taken.
    pub fn post_receive(&self, queue_pair: &QueuePair, request: ReceiveRequest) -> Result<(), PostError> {
        queue_pair.post_receive(&self.shared.registry, request)
    }

    /// Posts a receive request to a shared receive queue.
    ///
    /// # Errors
    /// It could not be taken.
    pub fn post_shared_receive(&self, queue: &ReceiveQueue, request: ReceiveRequest) -> Result<(), PostError> {
        queue.post(&self.shared.registry, request)
    }

    // --- progress

    /// Lends the calling thread to the event loop for one turn, if nobody else runs it. Returns whether anything was done.
    pub fn progress(&self) -> bool {
        self.try_hold().is_some_and(|mut engine| engine.turn())
    }

    /// Has the operating system watch all connections, so that the network's own descriptor becomes readable when one of them has something
    /// to do: for a thread that is about to sleep on descriptors, with [`Progress::Caller`].
    pub fn watch(&self) {
        self.command().cool_all();
    }

    /// When something has to happen by itself next: for a simulation, which lets time jump to it.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        self.command().next_deadline()
    }

    /// Waits until `done`, at most for `timeout` (`None`: for ever), and runs the event loop meanwhile if nobody else does. Returns
    /// whether `done`.
    pub fn wait_until(&self, timeout: Option<Duration>, mut done: impl FnMut() -> bool) -> bool {
        if done() {
            return true;
        }
        let mut patience = Patience::new(self.shared.clock.now(), timeout, self.shared.settings.spin);
        loop {
            let held = if self.shared.settings.progress.caller_runs() { self.try_hold() } else { None };
            let over = match held {
                Some(mut engine) => run(&mut engine, &self.shared.bell, &mut patience, &mut done),
                None => self.wait_for_others(&mut patience, &mut done),
            };
            if let Some(result) = over {
                return result;
            }
        }
    }

    /// Waits while another thread runs the loop: looks for a while, then sleeps.
    fn wait_for_others(&self, patience: &mut Patience, done: &mut impl FnMut() -> bool) -> Option<bool> {
        if done() {
            return Some(true);
        }
        let left = match patience.after_turn(false, self.shared.clock.now()) {
            Next::GiveUp => return Some(false),
            Next::Look => {
                core::hint::spin_loop();
                return None;
            }
            Next::Sleep(left) => left.map_or(LONGEST_SLEEP, |left| left.min(LONGEST_SLEEP)),
        };
        let mut finished = false;
        self.shared.turnstile.wait(left, || {
            finished = done();
            let free = self.shared.settings.progress.caller_runs() && !self.shared.engine.is_locked();
            finished || free
        });
        finished.then_some(true)
    }

    /// A connection has new work: do it here, or ring for whoever will.
    fn start_on(&self, connection: DefaultKey) {
        let shared = &self.shared;
        if shared.settings.progress.caller_runs() {
            if let Some(mut engine) = self.try_hold() {
                return engine.send_posted(connection);
            }
            shared.bell.ring(connection);
            return shared.attend();
        }
        shared.bell.ring(connection);
        shared.bell.wake();
    }

    fn try_hold(&self) -> Option<Held<'_, N, C>> {
        self.shared.try_hold()
    }

    /// The engine, for a command: whoever runs the loop lets go of it for us.
    fn command(&self) -> Held<'_, N, C> {
        let _commander = self.shared.bell.command();
        let mut held = Held { guard: Some(self.shared.engine.lock()), shared: &self.shared };
        held.look_at_clock();
        held
    }
}

impl<N: Network, C: Clock + Clone> Nic<N, C>
where
    N: Send + 'static,
    N::Port: Send,
    N::Listener: Send,
    C: Send + Sync + 'static,
{
    /// Starts the NIC's own thread, for [`Progress::Thread`]. It ends with [`Nic::shut_down`].
    ///
    /// # Errors
    /// The operating system has no thread for us.
    pub fn spawn(&self) -> std::io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::Builder::new().name("weft-nic".into()).spawn(move || serve(&shared))?;
        *self.shared.thread.lock() = Some(thread);
        Ok(())
    }
}

impl<N: Network, C: Clock + Clone> Nic<N, C> {
    /// Breaks all connections, flushes what is under way and ends the NIC's thread.
    pub fn shut_down(&self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.command().close();
        let thread = self.shared.thread.lock().take();
        if let Some(thread) = thread {
            // A thread that has panicked has nothing left to shut down.
            let _ = thread.join();
        }
    }
}

impl<N: Network, C: Clock> Shared<N, C> {
    fn try_hold(&self) -> Option<Held<'_, N, C>> {
        self.engine.try_lock().map(|guard| Held { guard: Some(guard), shared: self })
    }

    /// Does what the bell was rung for, unless somebody else holds the engine: who lets go of it looks at the bell.
    fn attend(&self) {
        while self.bell.has_rung() {
            match self.try_hold() {
                Some(mut engine) => engine.attend_bell(),
                None => return self.bell.wake(),
            }
        }
    }
}

/// The engine, held by this thread. Letting go wakes whoever waits for it.
struct Held<'a, N: Network, C: Clock> {
    guard: Option<MutexGuard<'a, Engine<N, C>>>,
    shared: &'a Shared<N, C>,
}

impl<N: Network, C: Clock> Deref for Held<'_, N, C> {
    type Target = Engine<N, C>;

    fn deref(&self) -> &Engine<N, C> {
        self.guard.as_ref().expect("held until it is dropped")
    }
}

impl<N: Network, C: Clock> DerefMut for Held<'_, N, C> {
    fn deref_mut(&mut self) -> &mut Engine<N, C> {
        self.guard.as_mut().expect("held until it is dropped")
    }
}

impl<N: Network, C: Clock> Drop for Held<'_, N, C> {
    fn drop(&mut self) {
        if let Some(guard) = self.guard.take() {
            if self.shared.bell.is_wanted() {
                MutexGuard::unlock_fair(guard);
            } else {
                drop(guard);
            }
        }
        self.shared.turnstile.turn();
        if self.shared.bell.has_rung() && self.shared.settings.progress.caller_runs() {
            self.shared.attend();
        }
    }
}

/// Runs the loop as its only runner, until `done` or out of time; `None` when another thread wants the engine.
fn run<N: Network, C: Clock>(
    engine: &mut Engine<N, C>,
    bell: &Bell,
    patience: &mut Patience,
    done: &mut impl FnMut() -> bool,
) -> Option<bool> {
    loop {
        let progress = engine.turn();
        if done() {
            return Some(true);
        }
        if bell.is_wanted() {
            return None;
        }
        match patience.after_turn(progress, engine.now()) {
            Next::GiveUp => return Some(false),
            Next::Look => {}
            Next::Sleep(left) => engine.park(left),
        }
    }
}

/// The NIC's own thread.
fn serve<N: Network, C: Clock>(shared: &Shared<N, C>) {
    while !shared.stop.load(Ordering::SeqCst) {
        let mut engine = Held { guard: Some(shared.engine.lock()), shared };
        let mut patience = Patience::new(engine.now(), None, shared.settings.spin);
        let stopped = || shared.stop.load(Ordering::SeqCst);
        run(&mut engine, &shared.bell, &mut patience, &mut { stopped });
    }
}

/// How long to look in vain before sleeping, and how long to wait at all.
struct Patience {
    until: Option<Time>,
    spin: Duration,
    idle_since: Option<Time>,
}

/// What to do after a turn.
enum Next {
    /// Time is up.
    GiveUp,
    /// Look again at once.
    Look,
    /// Sleep, at most this long.
    Sleep(Option<Duration>),
}

impl Patience {
    fn new(now: Time, timeout: Option<Duration>, spin: Duration) -> Self {
        Self { until: timeout.map(|timeout| now + timeout), spin, idle_since: None }
    }

    fn after_turn(&mut self, progress: bool, now: Time) -> Next {
        if self.until.is_some_and(|until| until <= now) {
            return Next::GiveUp;
        }
        if progress {
            self.idle_since = None;
            return Next::Look;
        }
        let idle_since = *self.idle_since.get_or_insert(now);
        if now.since(idle_since) < self.spin {
            return Next::Look;
        }
        Next::Sleep(self.until.map(|until| until.since(now)))
    }
}

fn check_depth(name: &'static str, asked: usize, most: u32) -> Result<(), Error> {
    if asked == 0 || asked > most as usize {
        return Err(Error::Depth { name, asked: asked as u64, most: u64::from(most) });
    }
    Ok(())
}
