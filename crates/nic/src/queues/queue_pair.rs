//! The side of a queue pair that application threads touch: they post here and read its state; the engine takes from
//! here.

mod batching;
pub(crate) mod laboratory;

use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;

use weft_base::{DomainId, passes_end};
use weft_lock::{Mutex, Rank};
use weft_memory::{Access, LocalRight, Registry};
use weft_rdmap::{Completion, CompletionKind, Operation, ReceiveRequest, SendRequest, Status, Stream};

use self::laboratory::CallerSide;
use crate::error::{ConnectionError, PostError};
use crate::ids::State;
use crate::ids::UpperId;
use crate::ids::{ConnectionHandle, HandleCell};
use crate::offer::ConnectionInfo;
use crate::queues::FIRST_PLACES;
use crate::queues::completion_queue::{CompletionQueue, QueuePairNumber, WorkCompletion};
use crate::queues::event_channel::{EventKind, EventSource};
use crate::queues::event_count::EventCount;
use crate::queues::lifecycle::Event;
use crate::queues::receive_queue::{ReceiveQueue, Source};

/// What a queue pair is made of.
#[derive(Clone, Debug)]
pub struct QueuePairAttributes {
    /// Its protection domain.
    pub domain: DomainId,
    /// Where sends, writes, reads and atomics complete.
    pub send_completions: Arc<CompletionQueue>,
    /// Where receives complete.
    pub receive_completions: Arc<CompletionQueue>,
    /// Send requests that may be under way.
    pub send_depth: u32,
    /// Receive requests that may wait; not used with a shared receive queue.
    pub receive_depth: u32,
    /// A receive queue shared with other queue pairs, instead of one of its own.
    pub shared_receives: Option<Arc<ReceiveQueue>>,
}

struct Submission {
    requests: VecDeque<SendRequest>,
    connection: Option<ConnectionHandle>,
    rung: bool,
    open: bool,
}

struct Life {
    info: Option<Arc<ConnectionInfo>>,
    error: Option<ConnectionError>,
    events: Option<Arc<EventSource>>,
}

/// A queue pair.
pub struct QueuePair {
    number: QueuePairNumber,
    domain: DomainId,
    send_depth: usize,
    send_completions: Arc<CompletionQueue>,
    receives: Arc<ReceiveQueue>,
    shares_receives: bool,
    receive_completions: Arc<CompletionQueue>,
    /// Its receives come from a shared queue which has their places in another completion queue.
    moves_places: bool,
    /// The message endpoint that it belongs to.
    upper: Option<UpperId>,
    /// Its peer reaches no memory before it has shown its identity.
    is_guarded: bool,
    sends_under_way: AtomicUsize,
    /// Places that requests under way have in the completion queue: those that are signaled.
    places: AtomicUsize,
    submission: Mutex<Submission>,
    /// The connection, for threads that post: changes with that of the submission.
    shown: HandleCell,
    /// Something was posted that the engine has not taken.
    has_posted: AtomicBool,
    state: AtomicU8,
    /// Bit 0: RFC 7306 was agreed. Bit 1: the peer takes reads. Bit 2: fences are kept. Bit 3: accepted. Bit 4: its
    /// connection is or was established. Bit 5: receipts were agreed.
    agreed: AtomicU8,
    /// What its peer may do to regions, beside what their own rights allow.
    peer_rights: AtomicU8,
    /// What its peer sends takes no receive any more.
    is_retired: AtomicBool,
    /// How long a Send waits for a receive of the peer, in nanoseconds. 0: for ever.
    receive_wait: AtomicU64,
    /// With this many requests under way, short ones that are posted wait for the next poll.
    batches_from: AtomicUsize,
    /// A stage of the way out that the calling thread has.
    laboratory: CallerSide,
    life: Mutex<Life>,
    event_count: Arc<EventCount>,
}

const AGREED_EXTENSIONS: u8 = 1;
const AGREED_READS: u8 = 2;
const AGREED_FENCES: u8 = 4;
/// A caller was accepted: requests may be posted before it has confirmed.
const ACCEPTED: u8 = 8;
/// Its connection has come about.
const ESTABLISHED: u8 = 16;
const AGREED_RECEIPTS: u8 = 32;

impl QueuePair {
    pub(crate) fn new(number: QueuePairNumber, attributes: &QueuePairAttributes, event_count: Arc<EventCount>) -> Self {
        let depth = attributes.send_depth as usize;
        let own = || {
            let completions = Arc::clone(&attributes.receive_completions);
            let queue = ReceiveQueue::new(attributes.domain, attributes.receive_depth as usize, completions);
            queue.set_serves_one();
            Arc::new(queue)
        };
        let moves_places = |shared: &Arc<ReceiveQueue>| {
            let (theirs, own) = (shared.completions(), &attributes.receive_completions);
            !Arc::ptr_eq(theirs, own) && (theirs.has_places() || own.has_places())
        };
        Self {
            number,
            domain: attributes.domain,
            send_depth: depth,
            send_completions: Arc::clone(&attributes.send_completions),
            receives: attributes.shared_receives.clone().unwrap_or_else(own),
            shares_receives: attributes.shared_receives.is_some(),
            receive_completions: Arc::clone(&attributes.receive_completions),
            moves_places: attributes.shared_receives.as_ref().is_some_and(moves_places),
            upper: None,
            is_guarded: false,
            sends_under_way: AtomicUsize::new(0),
            places: AtomicUsize::new(0),
            submission: Mutex::new(
                Rank::Submission,
                Submission {
                    requests: VecDeque::with_capacity(depth.min(FIRST_PLACES)),
                    connection: None,
                    rung: false,
                    open: true,
                },
            ),
            shown: HandleCell::default(),
            has_posted: AtomicBool::new(false),
            state: AtomicU8::new(State::Idle as u8),
            agreed: AtomicU8::new(0),
            peer_rights: AtomicU8::new(Access::all().bits()),
            is_retired: AtomicBool::new(false),
            receive_wait: AtomicU64::new(0),
            batches_from: AtomicUsize::new(usize::MAX),
            laboratory: CallerSide::default(),
            life: Mutex::new(Rank::QueuePairLife, Life { info: None, error: None, events: None }),
            event_count,
        }
    }

    /// One that is a message endpoint's.
    pub(crate) fn with_upper(self, upper: UpperId) -> Self {
        Self { upper: Some(upper), ..self }
    }

    /// One whose peer reaches no memory before [`crate::engine::Engine::admit`].
    pub(crate) fn guarded(self, is_guarded: bool) -> Self {
        Self { is_guarded, ..self }
    }

    /// Whether it is one of those.
    pub(crate) fn is_guarded(&self) -> bool {
        self.is_guarded
    }

    /// The message endpoint that it belongs to.
    #[inline]
    pub(crate) fn upper(&self) -> Option<UpperId> {
        self.upper
    }

    /// Its number.
    #[must_use]
    pub fn number(&self) -> QueuePairNumber {
        self.number
    }

    /// Its protection domain.
    #[must_use]
    pub fn domain(&self) -> DomainId {
        self.domain
    }

    /// What its peer may do to regions, beside what their own rights allow.
    pub(crate) fn peer_rights(&self) -> Access {
        Access::from_bits(self.peer_rights.load(Ordering::Acquire))
    }

    /// Returns the connection to notify, if there is one.
    pub(crate) fn set_peer_rights(&self, rights: Access) -> Option<ConnectionHandle> {
        self.peer_rights.store(rights.bits(), Ordering::Release);
        // The stream takes them with what is posted.
        self.note_posted(&mut self.submission.lock())
    }

    /// Its peer reaches no memory and takes no receive any more. Returns the connection to notify, if there is one.
    pub(crate) fn retire(&self) -> Option<ConnectionHandle> {
        self.is_retired.store(true, Ordering::Relaxed);
        self.set_peer_rights(Access::LOCAL_READ)
    }

    /// How long a Send, or immediate data, for which the peer has no receive is kept waiting over a transport that
    /// keeps it: Edge, or any other where receipts were agreed. Then the connection ends, and the request has the
    /// status [`Status::NoReceive`]. `None`, as at first: for ever. Holds from the next time that a receive is missing.
    pub fn set_receive_wait(&self, wait: Option<Duration>) {
        let nanoseconds = wait.map_or(0, |wait| u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX).max(1));
        self.receive_wait.store(nanoseconds, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn receive_wait(&self) -> Option<Duration> {
        let nanoseconds = self.receive_wait.load(Ordering::Relaxed);
        (nanoseconds > 0).then(|| Duration::from_nanos(nanoseconds))
    }

    /// Where it is in its life.
    #[must_use]
    pub fn state(&self) -> State {
        State::ALL[usize::from(self.state.load(Ordering::Acquire))]
    }

    /// What was agreed with the peer; `None` before it is connected.
    #[must_use]
    pub fn info(&self) -> Option<Arc<ConnectionInfo>> {
        self.life.lock().info.clone()
    }

    /// Why it failed; `None` while it has not.
    #[must_use]
    pub fn error(&self) -> Option<ConnectionError> {
        self.life.lock().error.clone()
    }

    /// The queue that gets its events from now on, if any. Those that are in the old queue and were not taken are
    /// dropped.
    pub fn set_events(&self, source: Option<Arc<EventSource>>) {
        let before = core::mem::replace(&mut self.life.lock().events, source);
        if let Some(before) = before {
            before.withdraw();
        }
    }

    fn tell(&self, kind: EventKind) {
        let source = self.life.lock().events.clone();
        if let Some(source) = source {
            source.tell(kind);
        }
    }

    /// Send requests that it may have under way.
    #[must_use]
    pub fn send_depth(&self) -> usize {
        self.send_depth
    }

    /// Send requests that are under way.
    #[must_use]
    pub fn sends_under_way(&self) -> usize {
        self.sends_under_way.load(Ordering::Acquire)
    }

    pub(crate) fn receives(&self) -> &Arc<ReceiveQueue> {
        &self.receives
    }

    /// For one frame: the oldest receive requests, as the stream needs them.
    pub(crate) fn receive_source(&self) -> Source<'_> {
        self.receives.source(self.elsewhere(), self.is_retired.load(Ordering::Relaxed))
    }

    /// The peer needs no more of what it was promised: its stream has ended.
    pub(crate) fn take_back_promises(&self, promised: u32) {
        self.receives.take_back(promised, self.elsewhere());
    }

    /// Where the places of receives are moved to that come from a shared queue, if they are.
    fn elsewhere(&self) -> Option<&CompletionQueue> {
        self.moves_places.then_some(&*self.receive_completions)
    }

    pub(crate) fn post_receive(&self, registry: &Registry, request: ReceiveRequest) -> Result<(), PostError> {
        if self.shares_receives {
            return Err(PostError::SharedReceiveQueue);
        }
        self.receives.post(registry, request)
    }

    /// Takes the requests until one can't be taken. Returns how many were, and the connection whose doorbell is to be
    /// rung.
    pub(crate) fn submit(
        &self,
        registry: &Registry,
        requests: impl IntoIterator<Item = SendRequest>,
    ) -> (usize, Option<PostError>, Option<ConnectionHandle>) {
        let mut submission = self.submission.lock();
        let mut posted = 0;
        let mut failure = None;
        for request in requests {
            if let Err(error) = self.admit(registry, &request, submission.open) {
                failure = Some(error);
                break;
            }
            submission.requests.push_back(request);
            posted += 1;
        }
        let ring = if posted > 0 { self.note_posted(&mut submission) } else { None };
        (posted, failure, ring)
    }

    /// The same with one request, which is moved once.
    #[inline]
    pub(crate) fn submit_one(
        &self,
        registry: &Registry,
        request: &SendRequest,
    ) -> Result<Option<ConnectionHandle>, PostError> {
        let mut submission = self.submission.lock();
        self.admit(registry, request, submission.open)?;
        submission.requests.push_back(*request);
        Ok(self.note_posted(&mut submission))
    }

    /// Requests were put into the queue. Returns the connection whose doorbell is to be rung.
    #[inline]
    fn note_posted(&self, submission: &mut Submission) -> Option<ConnectionHandle> {
        let ring = !core::mem::replace(&mut submission.rung, true);
        self.has_posted.store(true, Ordering::Release);
        submission.connection.filter(|_| ring)
    }

    /// Checks a request, and takes what it needs: a place in its queue, one in the completion queue if it is signaled,
    /// and a pin on its memory.
    fn admit(&self, registry: &Registry, request: &SendRequest, open: bool) -> Result<(), PostError> {
        if !open {
            // Its end has begun, though the state does not say so yet.
            return Err(PostError::Ended);
        }
        self.check_state()?;
        self.check_request(request)?;
        if self.sends_under_way.load(Ordering::Acquire) >= self.send_depth {
            return Err(PostError::QueueFull { depth: self.send_depth });
        }
        if request.signaled && !self.send_completions.reserve(1) {
            return Err(PostError::CompletionQueueFull { capacity: self.send_completions.capacity() });
        }
        if let Err(error) = self.pin(registry, &request.operation) {
            if request.signaled {
                self.send_completions.release(1);
            }
            return Err(error);
        }
        if request.signaled {
            self.places.fetch_add(1, Ordering::AcqRel);
        }
        self.sends_under_way.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    /// As [`QueuePair::submit_one`] for a request that passes the queues: it has no place among those under way, and
    /// one in the completion queue only if it is signaled, for it never fails. [`QueuePair::end_passing`] follows.
    pub(crate) fn admit_passing(&self, registry: &Registry, request: &SendRequest) -> Result<(), PostError> {
        self.check_state()?;
        self.check_request(request)?;
        self.pin(registry, &request.operation)?;
        if request.signaled && !self.send_completions.reserve(1) {
            unpin(registry, &request.operation);
            return Err(PostError::CompletionQueueFull { capacity: self.send_completions.capacity() });
        }
        Ok(())
    }

    /// The same for one that completes later: it has its places, as if it had been submitted.
    pub(crate) fn admit_owed(&self, registry: &Registry, request: &SendRequest) -> Result<(), PostError> {
        let submission = self.submission.lock();
        self.admit(registry, request, submission.open)
    }

    /// It was not sent after all, and goes through the queues as if nothing had been.
    pub(crate) fn withdraw(&self, registry: &Registry, request: &SendRequest) {
        unpin(registry, &request.operation);
        self.sends_under_way.fetch_sub(1, Ordering::AcqRel);
        if request.signaled && self.take_place() {
            self.send_completions.release(1);
        }
    }

    /// A request has passed the queues, and is complete; or it goes through them, as if nothing had been.
    #[inline]
    pub(crate) fn end_passing(&self, registry: &Registry, request: &SendRequest, passed: bool) {
        unpin(registry, &request.operation);
        if !request.signaled {
            return;
        }
        if passed {
            let completion = request.completion(Status::Success);
            self.send_completions.push(WorkCompletion { queue_pair: self.number, completion });
        } else {
            self.send_completions.release(1);
        }
    }

    fn pin(&self, registry: &Registry, operation: &Operation) -> Result<(), PostError> {
        let right = if operation.is_answered() { LocalRight::Write } else { LocalRight::Read };
        let memory = operation.memory();
        if memory.is_empty() { Ok(()) } else { registry.pin_all(self.domain, memory, right).map_err(PostError::Memory) }
    }

    fn check_state(&self) -> Result<(), PostError> {
        match self.state() {
            State::Ready => Ok(()),
            State::Connecting if self.agreed.load(Ordering::Acquire) & ACCEPTED != 0 => Ok(()),
            State::Closing | State::Closed | State::Failed => Err(PostError::Ended),
            state => Err(PostError::NotReady(state)),
        }
    }

    fn check_request(&self, request: &SendRequest) -> Result<(), PostError> {
        let agreed = self.agreed.load(Ordering::Acquire);
        if request.flags.has_fence() && agreed & AGREED_FENCES == 0 {
            return Err(PostError::NoFences);
        }
        let operation = &request.operation;
        match operation {
            Operation::SendImmediate { .. }
            | Operation::WriteImmediate { .. }
            | Operation::Immediate { .. }
            | Operation::Atomic { .. }
                if agreed & AGREED_EXTENSIONS == 0 =>
            {
                Err(PostError::NotAgreed)
            }
            Operation::Read { .. } | Operation::Atomic { .. } if agreed & AGREED_READS == 0 => Err(PostError::NoReads),
            Operation::Atomic { sink, .. } if sink.length != 8 => Err(PostError::AtomicSink { length: sink.length }),
            _ => match operation.remote() {
                Some((target, length)) if passes_end(target.offset, length.into()) => {
                    Err(PostError::OffsetWraps { offset: target.offset, length })
                }
                _ => Ok(()),
            },
        }
    }

    // --- the engine's side

    pub(crate) fn begin(&self, connection: ConnectionHandle) {
        self.connect_to(&mut self.submission.lock(), Some(connection));
        self.on(Event::Connect);
    }

    /// Its connection has another place now, unless it has ended.
    pub(crate) fn move_to(&self, connection: ConnectionHandle) {
        let mut submission = self.submission.lock();
        if submission.open {
            self.connect_to(&mut submission, Some(connection));
        }
    }

    fn connect_to(&self, submission: &mut Submission, connection: Option<ConnectionHandle>) {
        submission.connection = connection;
        self.shown.set(connection);
    }

    /// The queue pair may be connected again: a connect was refused before it began.
    pub(crate) fn reset(&self) {
        self.connect_to(&mut self.submission.lock(), None);
        self.on(Event::Refuse);
    }

    /// From idle to connecting, by one caller only.
    pub(crate) fn claim(&self) -> Result<(), State> {
        if self.on(Event::Connect) { Ok(()) } else { Err(self.state()) }
    }

    #[inline]
    pub(crate) fn connection(&self) -> Option<ConnectionHandle> {
        self.shown.get().unwrap_or_else(|_| self.submission.lock().connection)
    }

    /// A caller was accepted, and has to confirm before the connection is established. What is posted until then goes
    /// out then.
    pub(crate) fn accept(&self, info: ConnectionInfo) {
        self.agree(info, ACCEPTED);
    }

    pub(crate) fn establish(&self, info: ConnectionInfo) {
        self.agree(info, ESTABLISHED);
        if self.on(Event::Establish) {
            self.tell(EventKind::Established);
        }
    }

    fn agree(&self, info: ConnectionInfo, mut agreed: u8) {
        if info.atomics_and_immediates {
            agreed |= AGREED_EXTENSIONS;
        }
        if info.ord > 0 {
            agreed |= AGREED_READS;
        }
        if info.fences {
            agreed |= AGREED_FENCES;
        }
        if info.mpa().is_some_and(|mpa| mpa.extensions.receipts) {
            agreed |= AGREED_RECEIPTS;
        }
        self.agreed.store(agreed, Ordering::Release);
        self.life.lock().info = Some(Arc::new(info));
    }

    pub(crate) fn closing(&self) {
        self.on(Event::Close);
    }

    /// Whether something was posted that was not taken.
    #[inline]
    pub(crate) fn has_posted(&self) -> bool {
        self.has_posted.load(Ordering::Acquire)
    }

    /// Hands what was posted to the stream. Returns whether there was anything.
    pub(crate) fn move_posted(&self, stream: &mut Stream, registry: &Registry) -> bool {
        stream.set_peer_rights(self.peer_rights());
        let mut took = false;
        let mut refused = None;
        self.drain(|request| {
            took = true;
            if stream.state() != weft_rdmap::State::Established {
                refused.get_or_insert_with(Vec::new).push(*request);
            } else if let Err(error) = stream.post(*request) {
                // The queue pair has made the same checks, so this can't be.
                panic!("a request that was admitted is refused: {error}");
            }
        });
        for request in refused.into_iter().flatten() {
            self.flush_send(registry, &request);
        }
        took
    }

    /// Moves what was posted since the last call to `take`.
    pub(crate) fn drain(&self, mut take: impl FnMut(&SendRequest)) {
        if !self.has_posted() {
            return;
        }
        let mut submission = self.submission.lock();
        self.has_posted.store(false, Ordering::Release);
        submission.rung = false;
        for request in &submission.requests {
            take(request);
        }
        submission.requests.clear();
    }

    /// Takes a place in the completion queue that a request under way has.
    fn take_place(&self) -> bool {
        let taken = self.places.fetch_update(Ordering::AcqRel, Ordering::Acquire, |places| places.checked_sub(1));
        taken.is_ok()
    }

    /// A send request has ended. One that is not signaled has failed, and has no place yet.
    pub(crate) fn complete_send(&self, completion: Completion) {
        self.sends_under_way.fetch_sub(1, Ordering::AcqRel);
        if !self.take_place() {
            self.send_completions.reserve_beyond();
        }
        self.send_completions.push(WorkCompletion { queue_pair: self.number, completion });
    }

    /// This many send requests have succeeded, and are not signaled.
    pub(crate) fn complete_silently(&self, count: usize) {
        self.sends_under_way.fetch_sub(count, Ordering::AcqRel);
    }

    /// A send request comes to nothing: the connection is over.
    pub(crate) fn flush_send(&self, registry: &Registry, request: &SendRequest) {
        unpin(registry, &request.operation);
        self.complete_send(request.completion(Status::Flushed));
    }

    pub(crate) fn complete_receive(&self, completion: Completion) {
        self.receive_completions.push(WorkCompletion { queue_pair: self.number, completion });
    }

    /// Why the connection is about to end. The first reason stays.
    pub(crate) fn blame(&self, error: ConnectionError) {
        self.life.lock().error.get_or_insert(error);
    }

    /// The connection is over. What the stream did not take is flushed: one completion each.
    pub(crate) fn finish(&self, registry: &Registry, error: Option<ConnectionError>) {
        let event = if error.is_some() { Event::Fail } else { Event::End };
        if let Some(error) = error {
            self.blame(error);
        }
        let unsent = {
            let mut submission = self.submission.lock();
            submission.open = false;
            self.connect_to(&mut submission, None);
            core::mem::take(&mut submission.requests)
        };
        for request in unsent {
            self.flush_send(registry, &request);
        }
        if !self.shares_receives {
            for request in self.receives.close() {
                registry.unpin_all(request.sink.slices());
                self.complete_receive(flushed(request.id, CompletionKind::Receive));
            }
        }
        self.laboratory.end();
        let ends = self.on(event);
        self.send_completions.connection_ended(self.number);
        if ends {
            self.report_end();
        }
    }

    fn report_end(&self) {
        let was_established = self.agreed.load(Ordering::Acquire) & ESTABLISHED != 0;
        self.tell(match self.error() {
            Some(error) if was_established => EventKind::Failed(error),
            Some(error) => EventKind::NotConnected(error),
            None => EventKind::Disconnected,
        });
        if self.shares_receives {
            self.tell(EventKind::LastReceive);
        }
    }

    /// It goes, and its receive requests are not reported.
    pub(crate) fn discard_receives(&self, registry: &Registry) {
        if self.shares_receives {
            return;
        }
        let requests = self.receives.close();
        requests.iter().for_each(|request| registry.unpin_all(request.sink.slices()));
        self.receives.release(requests.len());
    }

    /// Something happens to it. Returns whether its state changes.
    fn on(&self, event: Event) -> bool {
        let after = |state| State::ALL[usize::from(state)].on(event).map(|state| state as u8);
        let changes = self.state.fetch_update(Ordering::SeqCst, Ordering::SeqCst, after).is_ok();
        if changes {
            self.event_count.turn();
        }
        changes
    }
}

impl fmt::Debug for QueuePair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueuePair")
            .field("number", &self.number)
            .field("state", &self.state())
            .field("sends_under_way", &self.sends_under_way())
            .finish_non_exhaustive()
    }
}

fn unpin(registry: &Registry, operation: &Operation) {
    let memory = operation.memory();
    if !memory.is_empty() {
        registry.unpin_all(memory);
    }
}

fn flushed(id: u64, kind: CompletionKind) -> Completion {
    Completion { id, kind, status: Status::Flushed, length: 0, immediate: None, invalidated: None, solicited: false }
}

#[cfg(test)]
mod tests;
