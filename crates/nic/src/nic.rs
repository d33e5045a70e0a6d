//! The NIC as the layers above hold it: they make queue pairs, connect and listen, post, and run the event loop.

mod calling;
mod laboratory;

use core::sync::atomic::{AtomicU32, Ordering};
use std::net::SocketAddr;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use slotmap::DefaultKey;
use weft_base::{Clock, DomainId, HostId, Random};
use weft_lock::{Mutex, Rank};
use weft_memory::{Access, Registry};
use weft_rdmap::{ReceiveRequest, SendRequest};

use self::calling::Posting;
use crate::callback::in_callback;
use crate::connection::{Ending, within_limits};
use crate::counters::{Board, Counters};
use crate::engine::ConnectTimeout;
use crate::engine::Engine;
use crate::engine::doorbell::Doorbell;
use crate::engine::listening::{RequestKey, Waiting};
use crate::engine::served_port::PortServer;
use crate::error::{Error, PostError, PostFailure, RefusedStart};
use crate::ids::ConnectionHandle;
use crate::ids::State;
use crate::lower::{Carrier, MOST_PASSED, Route, Setup};
use crate::messaging::EndpointEngine;
use crate::offer::{Offer, RequestInfo};
use crate::policy::constants::DOORBELL_BATCH;
use crate::progress::worker::{self, Common};
use crate::queues::completion_queue::{CompletionQueue, CompletionSink, QueuePairNumber};
use crate::queues::event_channel::{EventChannel, EventSource, Signal};
use crate::queues::event_count::EventCount;
use crate::queues::queue_pair::{QueuePair, QueuePairAttributes};
use crate::queues::receive_queue::ReceiveQueue;
#[cfg(doc)]
use crate::settings::Progress;
use crate::settings::Settings;

/// A worker, on whose engine message endpoints stand.
pub(crate) type Worker<N, C> = worker::Worker<N, C, EndpointEngine>;

/// What a NIC is made of.
pub struct NicParts<N, C> {
    /// A network for each engine ([`Settings::engines`]).
    pub networks: Vec<N>,
    /// The clock.
    pub clock: C,
    /// The memory table that the networks' ports resolve slices in.
    pub registry: Registry,
    /// Should be unguessable: from it come the STags under which peers answer reads.
    pub seed: u64,
    /// Identifies the process; differs in a forked child.
    pub process: fn() -> u64,
    /// The host that this runs on, if that is known: message endpoints tell their peers.
    pub host: Option<HostId>,
    /// Where the counters are shown.
    pub board: Option<Arc<dyn Board>>,
}

/// A software NIC over a network and a clock. Cheap to clone: all clones are the same NIC.
pub struct Nic<N: Carrier, C: Clock> {
    shared: Arc<Shared<N, C>>,
}

impl<N: Carrier, C: Clock> Clone for Nic<N, C> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

struct Shared<N: Carrier, C: Clock> {
    workers: Box<[Arc<Worker<N, C>>]>,
    common: Arc<Common<C>>,
    registry: Registry,
    queue_pairs: AtomicU32,
    next_number: AtomicU32,
    threads: Mutex<Vec<JoinHandle<()>>>,
    posting: Posting,
    process: fn() -> u64,
    maker: u64,
    host: Option<HostId>,
}

/// A listener of a NIC, and the requests that wait at it.
#[derive(Clone, Debug)]
pub struct Listener {
    key: DefaultKey,
    address: SocketAddr,
    waiting: Arc<Waiting>,
}

impl Listener {
    /// The address it listens at, with the chosen port number if 0 was requested.
    #[must_use]
    pub fn local_address(&self) -> SocketAddr {
        self.address
    }

    /// Takes the oldest incoming connection that waits, if one does.
    ///
    /// # Errors
    /// The listener is closed, or has failed, such as with the interface at whose address it was.
    pub fn next_request(&self) -> Result<Option<(RequestKey, RequestInfo)>, Error> {
        self.waiting.take()
    }

    /// The queue that gets its events from now on, if any. Waiting events go there at once.
    pub fn set_events(&self, source: Option<Arc<EventSource>>) {
        self.waiting.set_events(source);
    }

    /// Callers whose set-up has failed since the last call, the oldest first, 64 at most; and how many more there
    /// were. A failure may be reported some seconds later, after its Terminate or rejecting reply was sent.
    #[must_use]
    pub fn take_refused(&self) -> (Vec<RefusedStart>, u64) {
        self.waiting.take_refused()
    }
}

impl<N: Carrier, C: Clock + Clone> Nic<N, C> {
    /// A NIC that only moves when it is driven: by [`Nic::progress`], or by waiting calls. Where [`Progress`] has a
    /// thread, call [`Nic::spawn`] as well.
    ///
    /// # Errors
    /// The settings don't go together, or a network has nothing to sleep on.
    ///
    /// # Panics
    /// When there is not a network for each engine.
    pub fn new(machine: NicParts<N, C>, settings: Settings) -> Result<Self, Error> {
        settings.check()?;
        let posting = Posting::of(&settings);
        assert_eq!(machine.networks.len(), settings.engines, "a network for each engine");
        let NicParts { networks, clock, registry, seed, process, host, board } = machine;
        let common = Arc::new(Common::new(clock.clone(), settings.clone(), board));
        let mut random = Random::new(seed);
        let mut workers = Vec::with_capacity(networks.len());
        let doorbells: Vec<_> = networks.iter().map(|network| Arc::new(Doorbell::new(network.waker()))).collect();
        let port_servers: Arc<[_]> =
            doorbells.iter().map(|doorbell| Arc::new(PortServer::new(Arc::clone(doorbell)))).collect();
        for ((index, network), doorbell) in networks.into_iter().enumerate().zip(doorbells) {
            let watch = network.watch()?;
            let engine = Engine::new(
                index,
                network,
                clock.clone(),
                registry.clone(),
                settings.clone(),
                random.fork(),
                host,
                Arc::clone(&port_servers),
                Arc::clone(&common.event_count),
            );
            workers.push(Arc::new(Worker::new(index, engine, doorbell, watch, Arc::clone(&common))));
        }
        let shared = Shared {
            workers: workers.into(),
            common,
            registry,
            queue_pairs: AtomicU32::new(0),
            next_number: AtomicU32::new(1),
            threads: Mutex::new(Rank::Threads, Vec::new()),
            posting,
            process,
            maker: process(),
            host,
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Whether this is the process that made the NIC. In a child of it, by `fork`, the NIC is not there: commands fail,
    /// and nothing else happens.
    #[must_use]
    pub fn is_owner_process(&self) -> bool {
        (self.shared.process)() == self.shared.maker
    }

    pub(crate) fn check_owner(&self) -> Result<(), Error> {
        if self.is_owner_process() { Ok(()) } else { Err(Error::Forked) }
    }

    /// Whether this thread may wait for an engine.
    pub(crate) fn check_callable(&self) -> Result<(), Error> {
        self.check_owner()?;
        if in_callback() { Err(Error::InCallback) } else { Ok(()) }
    }

    fn is_callable(&self) -> bool {
        self.check_callable().is_ok()
    }

    /// The memory table.
    #[must_use]
    pub fn registry(&self) -> &Registry {
        &self.shared.registry
    }

    /// The settings it was made with.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.shared.common.settings
    }

    /// What it has done so far. In a callback nothing but zeros: it can't ask the engines.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let mut sum = Counters::default();
        if self.is_callable() {
            self.shared.workers.iter().for_each(|worker| sum += worker.command().counters);
        }
        sum
    }

    /// Makes a completion queue with room for `capacity` completions.
    ///
    /// # Errors
    /// No room at all, or more than the limit.
    pub fn create_completion_queue(&self, capacity: usize) -> Result<Arc<CompletionQueue>, Error> {
        self.check_owner()?;
        check_depth(
            "completion queue capacity",
            capacity,
            self.shared.common.settings.limits.completion_queue_entries,
        )?;
        Ok(Arc::new(CompletionQueue::new(capacity, Arc::clone(&self.shared.common.event_count))))
    }

    /// Makes a completion queue that keeps nothing: each completion goes to `sink` as it comes.
    ///
    /// # Errors
    /// [`Error::Forked`].
    pub fn create_completion_sink(&self, sink: Arc<dyn CompletionSink>) -> Result<Arc<CompletionQueue>, Error> {
        self.check_owner()?;
        Ok(Arc::new(CompletionQueue::into_sink(sink, Arc::clone(&self.shared.common.event_count))))
    }

    /// Makes a channel for events, which sets `signal` while it has one.
    ///
    /// # Errors
    /// [`Error::Forked`].
    pub fn create_event_channel(&self, signal: Arc<dyn Signal>) -> Result<Arc<EventChannel>, Error> {
        self.check_owner()?;
        Ok(Arc::new(EventChannel::new(signal, Arc::clone(&self.shared.common.event_count))))
    }

    /// Makes a receive queue that queue pairs of one domain can share. What is received from it completes on
    /// `completions`, or on the receive completion queue of its queue pair where that is another one.
    ///
    /// # Errors
    /// No room at all, or more than the limit.
    pub fn create_shared_receive_queue(
        &self,
        domain: DomainId,
        depth: usize,
        completions: Arc<CompletionQueue>,
    ) -> Result<Arc<ReceiveQueue>, Error> {
        self.check_owner()?;
        check_depth("receive queue depth", depth, self.shared.common.settings.limits.queue_depth)?;
        Ok(Arc::new(ReceiveQueue::new(domain, depth, completions)))
    }

    /// Makes a queue pair.
    ///
    /// # Errors
    /// A limit, a depth that is not possible, or parts that don't belong together.
    pub fn create_queue_pair(&self, attributes: &QueuePairAttributes) -> Result<Arc<QueuePair>, Error> {
        self.check_owner()?;
        let limits = &self.shared.common.settings.limits;
        check_depth("send queue depth", attributes.send_depth as usize, limits.queue_depth)?;
        match &attributes.shared_receives {
            None => check_depth("receive queue depth", attributes.receive_depth as usize, limits.queue_depth)?,
            Some(shared) if shared.domain() != attributes.domain => return Err(Error::DomainMismatch),
            Some(_) => {}
        }
        let counted = self.shared.queue_pairs.fetch_update(Ordering::AcqRel, Ordering::Acquire, |count| {
            (count < limits.queue_pairs).then_some(count + 1)
        });
        if counted.is_err() {
            return Err(Error::Limit { name: "queue_pairs", limit: u64::from(limits.queue_pairs) });
        }
        let number = QueuePairNumber(self.shared.next_number.fetch_add(1, Ordering::Relaxed));
        Ok(Arc::new(QueuePair::new(number, attributes, Arc::clone(&self.shared.common.event_count))))
    }

    /// Ends a queue pair: its connection is broken if it has one, and what is under way is flushed. To close
    /// gracefully, call [`Nic::close`] before and wait. Does nothing in a callback.
    pub fn destroy_queue_pair(&self, queue_pair: &QueuePair) {
        if !self.is_callable() {
            return;
        }
        self.end(queue_pair, Ending::Abrupt);
        if !queue_pair.state().has_ended() {
            queue_pair.finish(&self.shared.registry, Some(crate::error::ConnectionError::Abandoned));
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
        self.check_callable()?;
        let offer = within_limits(&offer, &self.shared.common.settings);
        let opening = N::Lower::prepare(&offer, private_data)?;
        queue_pair.claim().map_err(|state| Error::State { state, wanted: "idle" })?;
        let worker = self.least_loaded();
        let route = Route { local, remote };
        let connected = worker.command().connect(queue_pair, route, opening, ConnectTimeout::default());
        if connected.is_err() {
            queue_pair.reset();
        }
        connected.map(drop)
    }

    /// Gives up a connection that is being set up. Does nothing in a callback.
    pub fn abandon(&self, queue_pair: &QueuePair) {
        if self.is_callable() && queue_pair.state() == State::Connecting {
            self.end(queue_pair, Ending::Abrupt);
        }
    }

    /// Closes the connection of a queue pair gracefully: what was posted still goes out, then the close is sent to the
    /// peer. Does nothing in a callback.
    pub fn close(&self, queue_pair: &QueuePair) {
        if self.is_callable() {
            self.end(queue_pair, Ending::Graceful);
        }
    }

    fn end(&self, queue_pair: &QueuePair, ending: Ending) {
        let Some(place) = queue_pair.connection() else { return };
        self.worker(place).command().end_connection(place.key, ending);
    }

    /// Listens for connections. At most `backlog` of them wait to be accepted.
    ///
    /// # Errors
    /// A limit is reached, or the address can't be used.
    pub fn listen(&self, address: SocketAddr, backlog: u32, offer: Offer) -> Result<Listener, Error> {
        self.check_callable()?;
        let limits = &self.shared.common.settings.limits;
        check_depth("listener backlog", backlog as usize, limits.connections)?;
        let waiting = Arc::new(Waiting::new(Arc::clone(&self.shared.common.event_count)));
        let (key, address) = self.front().command().listen_for(address, backlog, offer, Arc::clone(&waiting))?;
        Ok(Listener { key, address, waiting })
    }

    /// Stops listening. Connections that wait to be accepted are broken. Does nothing in a callback.
    pub fn close_listener(&self, listener: &Listener) {
        if self.is_callable() {
            self.front().command().remove_listener(listener.key);
        }
    }

    /// Accepts an incoming connection on an idle queue pair.
    ///
    /// # Errors
    /// The connection is gone, the queue pair is not idle, or the private data is too long: then the request still
    /// waits.
    pub fn accept(
        &self,
        request: RequestKey,
        queue_pair: &Arc<QueuePair>,
        private_data: &[u8],
        depths: Option<(u16, u16)>,
    ) -> Result<(), Error> {
        self.check_callable()?;
        queue_pair.claim().map_err(|state| Error::State { state, wanted: "idle" })?;
        let place = ConnectionHandle { worker: self.front().index, key: request.0 };
        let accepted = self.front().command().accept(request, queue_pair, private_data, depths);
        match accepted {
            Ok(()) => self.relocate(queue_pair, place),
            Err(_) => queue_pair.reset(),
        }
        accepted
    }

    /// An accepted connection goes where there are fewest.
    fn relocate(&self, queue_pair: &QueuePair, from: ConnectionHandle) {
        let to = self.least_loaded();
        if to.index == from.worker {
            return;
        }
        let Some(connection) = self.worker(from).command().detach(from.key) else { return };
        let mut engine = to.command();
        let key = engine.adopt(connection);
        queue_pair.move_to(ConnectionHandle { worker: to.index, key });
        // What was posted for the old place is taken here.
        engine.start_connection(key);
    }

    /// Rejects an incoming connection.
    ///
    /// # Errors
    /// The connection is gone, or the private data is too long: then the request still waits.
    pub fn reject(&self, request: RequestKey, private_data: &[u8]) -> Result<(), Error> {
        self.check_callable()?;
        self.front().command().reject(request, private_data)
    }

    // --- work requests

    /// Posts send requests (sends, writes, reads, atomics) and starts on them: one system call may carry many.
    ///
    /// # Errors
    /// A request could not be taken; those before it were.
    pub fn post_send(
        &self,
        queue_pair: &Arc<QueuePair>,
        requests: impl IntoIterator<Item = SendRequest>,
    ) -> Result<(), PostFailure> {
        self.may_post().map_err(|error| PostFailure { posted: 0, error })?;
        let (posted, failure, ring) = queue_pair.submit(&self.shared.registry, requests);
        if posted > 0 {
            self.ring(queue_pair, ring);
        }
        match failure {
            None => Ok(()),
            Some(error) => Err(PostFailure { posted, error }),
        }
    }

    /// Posts one send request, as [`Nic::post_send`].
    ///
    /// # Errors
    /// It was not taken.
    #[inline]
    pub fn post_one(&self, queue_pair: &Arc<QueuePair>, request: &SendRequest) -> Result<(), PostError> {
        self.may_post()?;
        if queue_pair.may_wait(request) {
            return self.post_waiting(queue_pair, request);
        }
        if request.operation.short_payload(MOST_PASSED).is_some()
            && let Some(place) = queue_pair.connection()
            && self.runs(place.worker)
            && let Some(result) = self.worker(place).post_short(place.key, queue_pair, request)
        {
            return result;
        }
        let ring = queue_pair.submit_one(&self.shared.registry, request)?;
        self.ring(queue_pair, ring);
        Ok(())
    }

    /// Posts a request that may wait for others: the next turn of the engine takes it, or this call when a batch of
    /// them waits. ([`QueuePair::batch_doorbells`])
    fn post_waiting(&self, queue_pair: &Arc<QueuePair>, request: &SendRequest) -> Result<(), PostError> {
        let (first, waiting) = queue_pair.submit_waiting(&self.shared.registry, request)?;
        let is_full = waiting >= DOORBELL_BATCH;
        match (first, queue_pair.connection()) {
            (_, Some(place)) if is_full => self.worker(place).start_on(place.key, self.runs(place.worker)),
            (Some(place), _) => {
                let worker = self.worker(place);
                worker.doorbell.ring(place.key);
                if !queue_pair.brings_a_turn() {
                    worker.start_on(place.key, self.runs(place.worker));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn may_post(&self) -> Result<(), PostError> {
        if !self.is_owner_process() {
            return Err(PostError::Forked);
        }
        if in_callback() { Err(PostError::InCallback) } else { Ok(()) }
    }

    /// Something was posted: the calling thread does its stage of it, or has the engine of this connection start on it.
    fn ring(&self, queue_pair: &Arc<QueuePair>, connection: Option<ConnectionHandle>) {
        let is_home = match &self.shared.posting {
            Posting::Runs => connection.is_some_and(|place| place.worker == self.home()),
            Posting::Rings => false,
            Posting::Laboratory(unfinished) => return self.assist(queue_pair, unfinished),
        };
        if let Some(place) = connection {
            self.worker(place).start_on(place.key, is_home);
        }
    }

    /// Sets what the peer of a queue pair may do to regions, beside what their own rights allow: everything, at first.
    /// Local rights among these say nothing. Does nothing in a child by fork.
    pub fn set_peer_rights(&self, queue_pair: &QueuePair, rights: Access) {
        if self.is_owner_process()
            && let Some(place) = queue_pair.set_peer_rights(rights)
        {
            self.worker(place).start_on(place.key, false);
        }
    }

    /// The application is done with a queue pair that still has something to send: [`Nic::close`] follows. What the
    /// peer sends from then on reaches no memory and takes no receive. Does nothing in a child by fork.
    pub fn retire(&self, queue_pair: &QueuePair) {
        if self.is_owner_process()
            && let Some(place) = queue_pair.retire()
        {
            self.worker(place).start_on(place.key, false);
        }
    }

    /// Posts a receive request to a queue pair's own receive queue.
    ///
    /// # Errors
    /// It could not be taken.
    pub fn post_receive(&self, queue_pair: &QueuePair, request: ReceiveRequest) -> Result<(), PostError> {
        if !self.is_owner_process() {
            return Err(PostError::Forked);
        }
        queue_pair.post_receive(&self.shared.registry, request)
    }

    /// Posts a receive request to a shared receive queue.
    ///
    /// # Errors
    /// It could not be taken.
    pub fn post_shared_receive(&self, queue: &ReceiveQueue, request: ReceiveRequest) -> Result<(), PostError> {
        if !self.is_owner_process() {
            return Err(PostError::Forked);
        }
        queue.post(&self.shared.registry, request)
    }

    /// Ends a shared receive queue: it takes no more requests, and those that wait are given up without a completion.
    /// Returns their ids, the oldest first; none in a child by fork.
    pub fn close_shared_receives(&self, queue: &ReceiveQueue) -> Vec<u64> {
        if !self.is_owner_process() {
            return Vec::new();
        }
        let requests = queue.close();
        requests.iter().for_each(|request| self.shared.registry.unpin_all(request.sink.slices()));
        queue.release(requests.len());
        requests.iter().map(|request| request.id).collect()
    }

    // --- workers

    /// Whether the calling thread runs this engine.
    fn runs(&self, worker: usize) -> bool {
        matches!(self.shared.posting, Posting::Runs) && worker == self.home()
    }

    /// The engine that the calling thread runs: threads are spread over them.
    fn home(&self) -> usize {
        if self.shared.workers.len() == 1 { 0 } else { calling::thread_number() % self.shared.workers.len() }
    }

    /// Where listeners and the start-ups at them are.
    pub(crate) fn front(&self) -> &Worker<N, C> {
        &self.shared.workers[0]
    }

    /// How many engines it has.
    pub(crate) fn engines(&self) -> usize {
        self.shared.workers.len()
    }

    /// The engine with this number.
    pub(crate) fn engine(&self, number: usize) -> Option<&Worker<N, C>> {
        self.shared.workers.get(number).map(|worker| &**worker)
    }

    pub(crate) fn host(&self) -> Option<HostId> {
        self.shared.host
    }

    pub(crate) fn event_count(&self) -> Arc<EventCount> {
        Arc::clone(&self.shared.common.event_count)
    }

    fn worker(&self, place: ConnectionHandle) -> &Worker<N, C> {
        &self.shared.workers[place.worker]
    }

    pub(crate) fn worker_at(&self, index: usize) -> &Worker<N, C> {
        &self.shared.workers[index]
    }

    pub(crate) fn least_loaded(&self) -> &Worker<N, C> {
        let workers = &self.shared.workers;
        if workers.len() == 1 {
            return &workers[0];
        }
        workers.iter().min_by_key(|worker| worker.command().connection_count()).unwrap_or(&workers[0])
    }
}

impl<N: Carrier, C: Clock + Clone> Nic<N, C>
where
    N: Send + 'static,
    N::Port: Send,
    N::Datagram: Send,
    N::Listener: Send,
    N::Lower: Send,
    C: Send + Sync + 'static,
{
    /// Starts the NIC's own threads, one for each engine, where [`Progress`] has them. They end with
    /// [`Nic::shut_down`].
    ///
    /// # Errors
    /// The operating system has no thread for us.
    pub fn spawn(&self) -> std::io::Result<()> {
        if !self.settings().has_thread() {
            return Ok(());
        }
        let (runs, running) = mpsc::channel();
        for worker in &self.shared.workers {
            let (worker, runs) = (Arc::clone(worker), runs.clone());
            let spawned = std::thread::Builder::new().name("weft-nic".into()).spawn(move || {
                worker.prepare();
                // No thread listens any more when another thread could not be had.
                let _ = runs.send(());
                worker.serve();
            });
            match spawned {
                Ok(thread) => self.shared.threads.lock().push(thread),
                Err(error) => {
                    self.shut_down();
                    return Err(error);
                }
            }
        }
        // What a thread needs at its start it has then.
        running.iter().take(self.shared.workers.len()).for_each(drop);
        Ok(())
    }
}

impl<N: Carrier, C: Clock + Clone> Nic<N, C> {
    /// Breaks all connections, flushes what is under way and ends the NIC's threads. Does nothing in a callback.
    pub fn shut_down(&self) {
        if !self.is_callable() {
            return;
        }
        self.shared.common.stop.store(true, Ordering::SeqCst);
        for worker in &self.shared.workers {
            worker.command().close();
            worker.wake();
        }
        let threads = core::mem::take(&mut *self.shared.threads.lock());
        for thread in threads {
            // A thread that has panicked has nothing left to shut down.
            let _ = thread.join();
        }
    }
}

fn check_depth(name: &'static str, asked: usize, most: u32) -> Result<(), Error> {
    if asked == 0 || asked > most as usize {
        return Err(Error::Depth { name, asked: asked as u64, most: u64::from(most) });
    }
    Ok(())
}
