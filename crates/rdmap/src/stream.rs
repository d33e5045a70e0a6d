//! One stream: what its parts are, how it is created, commanded and ended.

mod deliver;
mod ordered;
mod outgoing;
mod placing;
mod receipts;
mod receive;
mod stalled;
mod transmit;
mod whole;

use core::fmt;

use weft_base::{DomainId, Slice, Stag, passes_end};
use weft_memory::{Access, Registry, RemoteFault, RemoteRight};
use weft_wire::rdmap::ReadRequest;
use weft_wire::terminate::{Terminate, TerminateCode, TerminatedSegment};

use crate::ahead::Ahead;
use crate::completion::{Completion, Status};
use crate::config::{ReadyKind, Role, StreamConfig};
use crate::lifecycle::{Action, Closed, StreamError};
use crate::order::Order;
use crate::receipts::Receipts;
use crate::request::{Operation, PostError, ReceiveSource, SendRequest};
use crate::requester::{Awaits, Requester};
use crate::responder::Responder;
use crate::segment::{Effect, Placement, Received, Written};
use crate::send::{Entry, SendQueue};
use crate::sent::InFlight;
use crate::state::{Event, State};
use crate::untagged::Receives;
use crate::violation::{Context, Violation};
use outgoing::Outgoing;
use placing::Placing;

/// One RDMAP stream. The crate's page says which calls there are, and in which order.
pub struct Stream {
    config: StreamConfig,
    registry: Registry,
    /// Who is told of with what the peer does to watched regions.
    owner: u64,
    /// What the peer may do to regions at all.
    peer_rights: Access,
    state: State,
    error: Option<StreamError>,
    /// The Terminate to be sent.
    terminate: Option<Terminate>,
    /// The Terminate blames a segment whose CRC has not been seen.
    is_provisional: bool,
    close_send_due: bool,
    abort_due: bool,

    /// Requests of this side ...
    sends: SendQueue,
    /// ... those among them that the peer has yet to answer ...
    requester: Requester,
    /// ... and what the peer asked of us.
    responder: Responder,
    outgoing: Outgoing,
    /// What the stream below has, and may still read.
    in_flight: InFlight,
    /// The memory of a Read Response that was cut off by an error, still pinned because a request in flight may name
    /// it.
    abandoned: Option<Slice>,

    order: Order<Received>,
    /// What Writes have placed before their turn, where their order was promised.
    ahead: Ahead,
    receives: Receives,
    /// Where the first Send stands that was put off for want of a receive, until the peer is told to go on.
    put_off_at: Option<u64>,
    /// No requests are given out, for the peer has no receive for Sends before them.
    holds_requests: bool,
    /// The Write that immediate data may belong to.
    written: Written,
    /// The next message may be the zero-length Send that says ready-to-receive.
    awaits_ready_send: bool,
    placing: Placing,
    /// Credits and acknowledgements, where both sides have agreed on them.
    receipts: Option<Box<Receipts>>,
    /// A receipt that may wait goes out with the next segment.
    holds_receipt: bool,
    /// Unsignaled successes that nobody has asked about yet.
    silent: usize,
}

/// Runs of segments that may be on their way, beyond one for each request of either side.
const SPARE_RUNS: usize = 64;

impl Stream {
    /// A stream that is established: the start-up below it is over. All memory that it will ever need is allocated
    /// here.
    ///
    /// From `seed` come the STags under which the peer answers reads. It is told each of them, and none is good for
    /// anything but the one answer, so the seed need not be a secret; streams should differ in it all the same.
    #[must_use]
    pub fn new(config: StreamConfig, registry: Registry, seed: u64) -> Self {
        let ready = config.ready_to_receive.filter(|_| config.role == Role::Initiator);
        // RFC 6581 section 9.1: a ready-to-receive Read needs an IRD of 1 even where the user has asked for none.
        let needs_ird = config.role == Role::Responder && config.ready_to_receive == Some(ReadyKind::Read);
        let ird = if needs_ird { config.ird.max(1) } else { config.ird };
        let most_runs = config.send_depth + usize::from(ird) + SPARE_RUNS;
        Self {
            state: State::Established,
            error: None,
            terminate: None,
            is_provisional: false,
            close_send_due: false,
            abort_due: false,
            sends: SendQueue::new(config.send_depth).acknowledged(config.receipts),
            requester: Requester::new(config.ord, seed),
            responder: Responder::new(ird),
            outgoing: Outgoing::new(ready, config.responder_waits && config.role == Role::Responder),
            in_flight: InFlight::new(most_runs),
            abandoned: None,
            order: Order::new(config.reorder_limit),
            ahead: Ahead::default(),
            receives: Receives::new(config.receive_depth).promised(config.receipts),
            put_off_at: None,
            holds_requests: false,
            written: Written::default(),
            awaits_ready_send: config.role == Role::Responder && config.ready_to_receive == Some(ReadyKind::Send),
            placing: Placing::new(config.lower.placements),
            receipts: receipts::begin(&config),
            holds_receipt: false,
            silent: 0,
            config,
            registry,
            owner: 0,
            peer_rights: Access::all(),
        }
    }

    /// All that stands before this position in the stream below was placed, and has had its turn.
    #[must_use]
    pub fn next_position(&self) -> u64 {
        self.order.next()
    }

    /// Asks the peer for something. The memory that the request names is pinned already; the pin passes to the stream,
    /// which gives it back when the completion is polled (also where there is none to be seen: an unsignaled success).
    ///
    /// # Errors
    /// The request was not taken, and the pin stays with the caller.
    pub fn post(&mut self, request: SendRequest) -> Result<(), PostError> {
        if self.state != State::Established {
            return Err(PostError::NotReady(self.state));
        }
        self.check_request(&request.operation)?;
        self.sends.post(request)
    }

    /// From now on the peer reaches the regions of this domain. For a stream that has begun in [`DomainId::NONE`],
    /// until it was known who the peer is.
    pub fn set_domain(&mut self, domain: DomainId) {
        self.config.domain = domain;
    }

    /// What the peer may do to regions from now on, beside what their own rights allow: everything, until this was
    /// called. Local rights among these say nothing.
    pub fn set_peer_rights(&mut self, rights: Access) {
        self.peer_rights = rights;
    }

    /// As [`Registry::locate_remote`] says, for what the peer may do at all.
    fn locate_remote(
        &self,
        stag: Stag,
        offset: u64,
        length: u32,
        need: RemoteRight,
    ) -> Result<(Slice, u64), RemoteFault> {
        if !self.peer_rights.contains(need.access()) {
            return Err(RemoteFault::NotPermitted(need));
        }
        self.registry.locate_remote(self.config.domain, stag, offset, length, need)
    }

    /// Whom the peer is connected to, for the watches of regions ([`weft_memory::Watch`]). Nobody in particular, 0,
    /// until then.
    pub fn set_owner(&mut self, owner: u64) {
        self.owner = owner;
    }

    fn check_request(&self, operation: &Operation) -> Result<(), PostError> {
        if operation.needs_extensions() && !self.config.extensions {
            return Err(PostError::ExtensionsNotAgreed);
        }
        if operation.is_answered() && self.config.ord == 0 {
            return Err(PostError::NoReadsAgreed);
        }
        if let Operation::Atomic { sink, .. } = operation
            && sink.length != 8
        {
            return Err(PostError::InvalidAtomic { sink_length: sink.length });
        }
        match operation.remote() {
            Some((target, length)) if passes_end(target.offset, length.into()) => {
                Err(PostError::OffsetWraps { offset: target.offset, length })
            }
            _ => Ok(()),
        }
    }

    /// Closes: what was posted is still sent and answered, then [`Stream::poll_action`] says [`Action::CloseSend`]
    /// (RFC 5041 section 6.2.1).
    pub fn close(&mut self) {
        self.state = self.state.on(Event::Close);
        self.check_drained();
    }

    /// Says something that changes nothing, a zero-length RDMA Write, behind what this side has said, for a peer that
    /// has said nothing yet and may have overlooked that. Returns whether this may be worthwhile again.
    pub fn nudge(&mut self) -> bool {
        if self.state != State::Established || self.order.next() > 0 {
            return false;
        }
        self.outgoing.nudge();
        true
    }

    /// Whether there is nothing to send, to report or to do for the stream below, and will not be before a call changes
    /// that.
    #[must_use]
    #[inline]
    pub fn is_quiet(&self) -> bool {
        self.state == State::Established
            && !self.abort_due
            // With the peer's first word it may speak.
            && !self.outgoing.is_silent
            && self.silent == 0
            && self.sends.oldest_done().is_none()
            && self.receives.oldest_done().is_none()
            && !self.wants_grant()
            // How long that may last is for the caller to watch.
            && !self.lacks_credit()
            && !self.is_receipt_due()
            && !self.can_transmit()
    }

    /// Ends at once, without a word to the peer. [`Stream::poll_action`] says [`Action::Abort`].
    pub fn abort(&mut self) {
        if self.state != State::Closed {
            self.abort_due = true;
        }
        self.end(Event::Abort, StreamError::Aborted);
    }

    /// The stream below found an error that the peer is to be told. When it concerns the segment that was just refused
    /// as a [`Violation`] (a bad CRC, found later), it takes the violation's place: a damaged header proves nothing
    /// about the peer.
    pub fn fail(&mut self, code: TerminateCode) {
        let is_news = self.state != State::Terminating || self.is_provisional;
        if !is_news {
            return;
        }
        if self.is_provisional {
            self.error = None;
            self.is_provisional = false;
        }
        self.end(Event::Error, StreamError::Below(code));
        // RFC 5040 figure 10: an error of the stream below repeats no headers.
        self.tell(Some(Terminate { code, segment: None }), StreamError::Below(code));
    }

    /// The memory of this side that a segment belongs to has gone: that of a receive, or of a request that is answered.
    /// Its request ends with [`Status::LocalProtection`], everything else is flushed, and the peer is told which
    /// segment it was (RFC 5040 section 4.8: an error of this stream alone).
    pub fn fail_placement(&mut self, placement: &Placement) {
        match placement.received.effect {
            Effect::ReadResponse(part) => {
                let awaits = |awaits: &Awaits| matches!(awaits, Awaits::Read { stag, .. } if *stag == part.stag);
                let asked = self.requester.iter().find(|outstanding| awaits(&outstanding.awaits));
                let meant = asked.and_then(|outstanding| outstanding.sequence);
                self.sends.fail_first(Status::LocalProtection, |sequence, _| Some(sequence) == meant);
            }
            Effect::Send(_) => self.receives.fail_current(Status::LocalProtection),
            _ => {}
        }
        let code = TerminateCode::OperationStreamCatastrophic;
        let context = placement.received.context;
        self.end(Event::Error, StreamError::Below(code));
        let segment = context.header.map(|header| TerminatedSegment {
            length: u16::try_from(context.length).unwrap_or(u16::MAX),
            header,
            read_request: None,
        });
        self.tell(Some(Terminate { code, segment }), StreamError::Below(code));
    }

    /// The stream below has ended, and reads and writes no memory any more. Everything that is pending is flushed.
    pub fn handle_closed(&mut self, how: Closed) {
        if self.state == State::Closed {
            return;
        }
        // Between two frames, but not between two messages: this one, received in part, will never be whole.
        if how == Closed::NoReceive {
            // Where it waits here, nothing of it has gone out.
            let is_here = self.receipts.is_some();
            self.sends.fail_first(Status::NoReceive, |_, entry: &Entry| {
                entry.request.operation.takes_receive() && (!is_here || entry.is_untouched())
            });
        }
        let is_within = how == Closed::Graceful && (self.written.is_open() || self.receives.is_within());
        let how = if is_within { Closed::MidMessage } else { how };
        let is_orderly = how == Closed::Graceful && self.is_idle();
        let was_well = self.error.is_none();
        self.end(Event::Ended, StreamError::Lost(how));
        if is_orderly && was_well {
            self.error = None;
        }
        while let Some(run) = self.in_flight.take(u32::MAX) {
            self.release(run.release);
        }
        let abandoned = self.abandoned.take();
        self.release(abandoned);
        self.sends.let_go();
        self.close_send_due = false;
        self.abort_due = false;
    }

    /// The completion of the oldest send request, when it is complete. Send requests complete in the order of posting
    /// (RFC 5040 section 5.5, rule 15).
    pub fn poll_send_completion(&mut self) -> Option<Completion> {
        loop {
            let request = self.sends.oldest_done()?;
            self.unpin(request.operation.memory());
            let signaled = request.signaled;
            let completion = self.sends.pop()?;
            if signaled || completion.status != Status::Success {
                return Some(completion);
            }
            self.silent += 1;
        }
    }

    /// How many send requests have succeeded without a completion, because they were not signaled, since the last call:
    /// their places in the queues are free again.
    pub fn take_silent(&mut self) -> usize {
        core::mem::take(&mut self.silent)
    }

    /// The next completion of a receive request.
    pub fn poll_receive_completion(&mut self) -> Option<Completion> {
        self.unpin(self.receives.oldest_done()?.slices());
        self.receives.pop()
    }

    /// Completes requests that the stream has not taken yet as flushed, for a source that is this stream's alone: to be
    /// called when [`Stream::state`] takes no segments any more, until it says false; poll completions in between.
    pub fn flush_receives(&mut self, source: &mut dyn ReceiveSource) -> bool {
        !self.state.receives() && self.receives.flush_from(source)
    }

    /// What the stream below has to do.
    pub fn poll_action(&mut self) -> Option<Action> {
        if core::mem::take(&mut self.abort_due) {
            self.close_send_due = false;
            return Some(Action::Abort);
        }
        core::mem::take(&mut self.close_send_due).then_some(Action::CloseSend)
    }

    /// Where in its life the stream is.
    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    /// What ended it before its time.
    #[must_use]
    pub fn error(&self) -> Option<StreamError> {
        self.error
    }

    /// Moves on when closing was asked for and nothing is left to send or to wait for.
    fn check_drained(&mut self) {
        if self.state == State::Draining && self.is_idle() && !self.is_receipt_due() {
            self.state = self.state.on(Event::Drained);
            self.close_send_due = true;
        }
    }

    fn is_idle(&self) -> bool {
        self.in_flight.is_empty() && self.responder.is_empty() && self.requester.is_empty() && self.sends.is_idle()
    }

    /// The peer broke the rules: it is told, and everything ends (RFC 5040 section 7.1).
    fn raise(&mut self, violation: Violation, context: &Context, read: Option<ReadRequest>) {
        if matches!(violation, Violation::TooLong { queue: weft_wire::rdmap::queue::SEND, .. }) {
            self.receives.fail_current(Status::LocalLength);
        }
        let error = StreamError::Violation(violation);
        self.end(Event::Error, error);
        self.tell(violation.terminate(context, read), error);
    }

    /// Has a Terminate sent for the error that is the first one. If nothing can be sent any more, the stream below is
    /// broken instead.
    fn tell(&mut self, terminate: Option<Terminate>, error: StreamError) {
        let is_first = *self.error.get_or_insert(error) == error;
        match self.state {
            // RFC 5040 section 7.1, rule 4: the first error is the one that is told.
            State::Terminating if is_first => self.terminate = terminate,
            State::Failed if is_first => self.abort_due = true,
            _ => {}
        }
    }

    /// An error, or the end: nothing is taken any more, and every request that is not complete is flushed.
    fn end(&mut self, event: Event, error: StreamError) {
        let next = self.state.on(event);
        if next == self.state {
            return;
        }
        self.state = next;
        self.error.get_or_insert(error);
        self.sends.flush();
        self.receives.flush();
        self.requester.clear();
        if let Some(slice) = self.responder.abandon() {
            self.abandoned = Some(slice);
        }
        self.outgoing.abandon();
        self.release_abandoned();
    }

    /// The peer's Terminate was delivered. RFC 5040 section 5.4: nothing needs to be sent any more; section 6.2.1:
    /// everything outstanding completes in error, and the stream below should be closed gracefully.
    fn on_terminated(&mut self, terminate: Terminate) {
        let status = refused_status(terminate.code);
        let requester = &self.requester;
        self.sends.fail_first(status, |sequence, entry| is_blamed(&terminate, requester, sequence, entry));
        self.end(Event::PeerTerminate, StreamError::Peer(terminate));
        self.close_send_due = true;
    }

    fn release_abandoned(&mut self) {
        if self.in_flight.is_empty() {
            let abandoned = self.abandoned.take();
            self.release(abandoned);
        }
    }

    fn release(&self, slice: Option<Slice>) {
        if let Some(slice) = slice {
            self.registry.unpin(slice);
        }
    }

    fn unpin(&self, memory: &[Slice]) {
        if !memory.is_empty() {
            self.registry.unpin_all(memory);
        }
    }
}

impl Drop for Stream {
    /// Whoever drops a stream has ended the stream below: no pin outlives it.
    fn drop(&mut self) {
        self.handle_closed(Closed::Reset);
        while let Some(request) = self.sends.abandon() {
            self.unpin(request.operation.memory());
        }
        while self.poll_receive_completion().is_some() {}
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("state", &self.state).field("error", &self.error).finish_non_exhaustive()
    }
}

/// What a refusal by the peer means for the request that it names.
fn refused_status(code: TerminateCode) -> Status {
    match code.numbers() {
        (0, 1, _) | (1, 1, _) => Status::RemoteAccess,
        (1, 2, _) => Status::RemoteInvalidRequest,
        (0, _, _) | (1, 0, _) => Status::RemoteOperation,
        _ => Status::Flushed,
    }
}

/// Whether a Terminate speaks of this request: it repeats the header of the segment that it blames.
fn is_blamed(terminate: &Terminate, requester: &Requester, sequence: u64, entry: &Entry) -> bool {
    use weft_wire::ddp::Target;
    let Some(segment) = terminate.segment else { return false };
    if let Some(read) = segment.read_request {
        return requester.iter().any(|outstanding| {
            outstanding.sequence == Some(sequence)
                && matches!(outstanding.awaits, Awaits::Read { stag, .. } if stag == read.sink_stag)
        });
    }
    match segment.header.target {
        Target::Untagged { queue, number, .. } => entry.number == Some((queue, number)),
        Target::Tagged { stag, offset } => match &entry.request.operation {
            Operation::Write { payload, target } | Operation::WriteImmediate { payload, target, .. } => {
                let end = target.offset.saturating_add(u64::from(payload.length()));
                target.stag == stag && (target.offset..end).contains(&offset)
            }
            _ => false,
        },
    }
}
