//! MPA's start-up: who connects, who answers, and how long they may take.

use std::sync::Arc;

use slotmap::DefaultKey;
use weft_base::{DomainId, MessageNumber, Port, PortError, ReceivePiece, Received, Time};
use weft_lock::{Mutex, Rank};
use weft_mpa::{
    Agreement, Deframer, Framer, Initiator, Offer, Request, Responder, Role, StartFailure, StartFrame, Step,
};
use weft_rdmap::{Stream, StreamConfig};
use weft_wire::ddp;
use weft_wire::rdmap::{Control, Opcode, queue};
use weft_wire::terminate::Terminate;

use super::stages::{Core, HostStage, Pipeline, Protocol};
use super::{Connection, Context, Outcome, Phase, Running};
use crate::error::ConnectionError;
use crate::queues::queue_pair::{ConnectionInfo, QueuePair};
use crate::settings::{Coupling, Settings, Split};

/// A start-up frame is at most 532 bytes, and nothing may follow a request before it is answered: that much is read, and a little more so that
/// a peer that talks too early is noticed.
const START_BYTES: usize = 1024;

/// How far a start-up has come.
pub(crate) enum Start {
    /// The port is being connected; then the request goes out.
    Connecting {
        queue_pair: Arc<QueuePair>,
        initiator: Initiator,
        request: Box<StartFrame>,
        /// From then on there is no clock: the peer's program may be stopped while its host answers.
        waits_for_program: bool,
    },
    /// The request is out; the reply is awaited.
    Requesting { queue_pair: Arc<QueuePair>, initiator: Initiator },
    /// A request is awaited.
    Responding { listener: DefaultKey, responder: Responder },
    /// The request is here; the application decides.
    Deciding { request: Request },
    /// Between two states.
    Moving,
}

impl Start {
    pub(crate) fn is_connecting(&self) -> bool {
        matches!(self, Self::Connecting { .. })
    }

    pub(crate) fn queue_pair(&self) -> Option<&Arc<QueuePair>> {
        match self {
            Self::Connecting { queue_pair, .. } | Self::Requesting { queue_pair, .. } => Some(queue_pair),
            _ => None,
        }
    }
}

/// An offer, cut to what this NIC can hold.
pub(crate) fn within_limits(offer: &Offer, settings: &Settings) -> Offer {
    Offer { ird: offer.ird.min(settings.limits.read_depth), ord: offer.ord.min(settings.limits.read_depth), ..*offer }
}

impl<P: Port> Connection<P> {
    /// A connection that is begun here.
    pub(crate) fn initiate(
        port: P,
        queue_pair: Arc<QueuePair>,
        initiator: Initiator,
        request: StartFrame,
        deadline: Time,
    ) -> Self {
        let request = Box::new(request);
        let start = Start::Connecting { queue_pair, initiator, request, waits_for_program: false };
        Self::new(port, start, deadline)
    }

    /// The deadline is for the peer's host alone. When that has taken the stream its program may take as long as it likes: the port tells when the host
    /// answers no more ([`Port::check_peer`]).
    pub(crate) fn waiting_for_program(mut self) -> Self {
        if let Phase::Start(Start::Connecting { waits_for_program, .. }) = &mut self.phase {
            *waits_for_program = true;
        }
        self
    }

    /// A connection that a peer has begun.
    pub(crate) fn respond(port: P, listener: DefaultKey, offer: Offer, deadline: Time) -> Self {
        let start = Start::Responding { listener, responder: Responder::new(offer) };
        Self { listener: Some(listener), ..Self::new(port, start, deadline) }
    }

    pub(super) fn drive_start(&mut self, cx: &mut Context<'_>) -> Outcome {
        let Phase::Start(start) = &mut self.phase else { return Outcome::Idle };
        if let Start::Connecting { .. } = start {
            return self.drive_connect(cx);
        }
        match self.flush(cx).and_then(|sent| self.read_start(cx).map(|got| (sent, got))) {
            Ok((sent, Received::Nothing)) => {
                if sent {
                    Outcome::Progress
                } else {
                    Outcome::Idle
                }
            }
            Ok((_, Received::Bytes(_))) => self.advance_start(cx),
            // Who does not know what to make of the request may break the stream as well.
            Ok((_, Received::End)) | Err(PortError::Reset) => {
                self.fail_start(ConnectionError::Start(StartFailure::ClosedEarly), cx)
            }
            Err(error) => self.fail_start(ConnectionError::Port(error), cx),
        }
    }

    fn drive_connect(&mut self, cx: &mut Context<'_>) -> Outcome {
        match self.port.poll_connected() {
            Ok(false) => Outcome::Idle,
            Ok(true) => {
                let Phase::Start(start) = &mut self.phase else { return Outcome::Idle };
                if let Start::Connecting { queue_pair, initiator, request, waits_for_program } =
                    core::mem::replace(start, Start::Moving)
                {
                    *start = Start::Requesting { queue_pair, initiator };
                    if waits_for_program {
                        self.deadline = None;
                    }
                    self.queue_bytes(&request, cx);
                }
                match self.flush(cx) {
                    Ok(_) => Outcome::Progress,
                    Err(error) => self.fail_start(ConnectionError::Port(error), cx),
                }
            }
            Err(error) => {
                let remote = self.port.remote_address();
                self.fail_start(ConnectionError::Connect { remote, error }, cx)
            }
        }
    }

    fn read_start(&mut self, cx: &mut Context<'_>) -> Result<Received, PortError> {
        let filled = self.staging.filled().len();
        let room = self.staging.room(1, cx.pool);
        let most = START_BYTES.saturating_sub(filled).clamp(1, room.len());
        let received = self.port.receive(&mut [ReceivePiece::Staging(&mut room[..most])])?;
        if let Received::Bytes(count) = received {
            self.staging.fill(count);
        }
        self.staging.release(cx.pool);
        Ok(received)
    }

    fn advance_start(&mut self, cx: &mut Context<'_>) -> Outcome {
        let Phase::Start(start) = &mut self.phase else { return Outcome::Idle };
        let bytes = self.staging.filled();
        match core::mem::replace(start, Start::Moving) {
            Start::Requesting { queue_pair, initiator } => match initiator.handle(bytes) {
                Step::More(initiator) => {
                    *start = Start::Requesting { queue_pair, initiator };
                    Outcome::Progress
                }
                Step::Done((agreement, consumed)) => {
                    self.staging.consume(consumed);
                    self.run(queue_pair, agreement, cx);
                    Outcome::Progress
                }
                Step::Failed(failure) => self.end_start(Some(queue_pair), ConnectionError::Start(failure), cx),
            },
            Start::Responding { listener, responder } => match responder.handle(bytes) {
                Step::More(responder) => {
                    *start = Start::Responding { listener, responder };
                    Outcome::Progress
                }
                Step::Done((request, consumed)) => {
                    self.staging.consume(consumed);
                    if !self.staging.filled().is_empty() {
                        return self.talked_early(cx);
                    }
                    *start = Start::Deciding { request };
                    self.deadline = Some(cx.now + cx.settings.decision_timeout);
                    Outcome::Request(listener)
                }
                Step::Failed(failure) => self.end_start(None, ConnectionError::Start(failure), cx),
            },
            Start::Deciding { .. } => self.talked_early(cx),
            other => {
                *start = other;
                Outcome::Idle
            }
        }
    }

    /// Nothing may come before the reply (RFC 5044 section 7.1.2).
    pub(crate) fn talked_early(&mut self, cx: &mut Context<'_>) -> Outcome {
        self.end_start(None, ConnectionError::Start(StartFailure::TalkedEarly), cx)
    }

    /// The request that waits for a decision.
    pub(crate) fn request(&self) -> Option<&Request> {
        match &self.phase {
            Phase::Start(Start::Deciding { request }) => Some(request),
            _ => None,
        }
    }

    /// Takes the request that waits for a decision; it must be put back, answered, or the connection dropped.
    pub(crate) fn take_request(&mut self) -> Option<Request> {
        let Phase::Start(start) = &mut self.phase else { return None };
        match core::mem::replace(start, Start::Moving) {
            Start::Deciding { request } => Some(request),
            other => {
                *start = other;
                None
            }
        }
    }

    pub(crate) fn put_back(&mut self, request: Request) {
        self.phase = Phase::Start(Start::Deciding { request });
    }

    /// The application accepts: the reply goes out, and the stream stands.
    pub(crate) fn accept(
        &mut self,
        queue_pair: Arc<QueuePair>,
        agreement: Agreement,
        reply: &StartFrame,
        cx: &mut Context<'_>,
    ) {
        self.queue_bytes(reply, cx);
        self.run(queue_pair, agreement, cx);
    }

    /// The application rejects, or had no time: the reply goes out, and the connection drains.
    pub(crate) fn reject(&mut self, reply: &StartFrame, cx: &mut Context<'_>) -> Outcome {
        self.queue_bytes(reply, cx);
        self.drain(cx);
        self.say_last_words(cx)
    }

    /// Sends what was queued last at once, for nobody may come back to do so: the application may be gone as soon as it knows.
    fn say_last_words(&mut self, cx: &mut Context<'_>) -> Outcome {
        match self.flush(cx) {
            Ok(_) if self.has_unsent() => Outcome::Progress,
            Ok(_) => {
                self.port.close_send();
                Outcome::Progress
            }
            Err(_) => Outcome::Over,
        }
    }

    /// Whether the peer has sent something before it was answered, which it may not (RFC 5044 section 7.1.2). Looks for what has not been received, too.
    pub(crate) fn has_talked_early(&mut self, cx: &mut Context<'_>) -> bool {
        !self.staging.filled().is_empty() || matches!(self.read_start(cx), Ok(Received::Bytes(_)))
    }

    /// Queues bytes that are no frame of the stream.
    fn queue_bytes(&mut self, bytes: &[u8], cx: &mut Context<'_>) {
        self.outgoing.write(bytes.len(), cx.pool, |out| {
            out.copy_from_slice(bytes);
            bytes.len()
        });
        self.outgoing.end_other(bytes.len());
    }

    fn run(&mut self, queue_pair: Arc<QueuePair>, agreement: Agreement, cx: &mut Context<'_>) {
        let framer = Framer::new(agreement.send_markers, agreement.crc);
        let stream = Stream::new(stream_config(&queue_pair, &agreement), cx.registry.clone(), cx.random.next_u64());
        let split = cx.settings.split;
        let protocol = Protocol::new(stream, framer, agreement.extensions.large_fpdus, self.port.segment_size());
        let pipeline = Pipeline::of(split);
        let core = match &pipeline {
            Some(pipeline) if split == Split::Assist => {
                let protocol = Arc::new(Mutex::new(Rank::Protocol, protocol));
                queue_pair.set_caller_stage(Arc::new(HostStage::new(Arc::clone(&protocol), pipeline)));
                Core::Shared(protocol)
            }
            _ => Core::Own(Box::new(protocol)),
        };
        let flat = (split == Split::Offload(Coupling::Decoupled)).then(|| Vec::with_capacity(1 << 16));
        let running = Running {
            core,
            pipeline,
            deframer: Deframer::new(agreement.receive_markers, agreement.crc),
            queue_pair: Arc::clone(&queue_pair),
            crc: agreement.crc,
            direct: None,
            incoming: None,
            flat,
            verdict_pending: false,
            cut_short: false,
            expect_large: 0,
            input_over: false,
            close_wanted: false,
            send_closed: false,
        };
        self.phase = Phase::Running(Box::new(running));
        self.deadline = None;
        cx.counters.connections += 1;
        queue_pair.establish(self.info(&agreement));
    }

    /// The peer has shown who it is, and reaches memory from now on.
    pub(crate) fn admit(&mut self) {
        if let Some((running, ..)) = self.running() {
            let domain = running.queue_pair.domain();
            running.core.hold().stream.set_domain(domain);
        }
    }

    fn info(&self, agreement: &Agreement) -> ConnectionInfo {
        let remote = self.port.remote_address();
        ConnectionInfo {
            role: agreement.role,
            local: self.port.local_address().unwrap_or(remote),
            remote,
            revision: agreement.revision,
            crc: agreement.crc,
            send_markers: agreement.send_markers,
            receive_markers: agreement.receive_markers,
            ird: agreement.ird,
            ord: agreement.ord,
            peer_ird: agreement.peer_ird,
            peer_ord: agreement.peer_ord,
            extensions: agreement.extensions,
            private_data: agreement.private_data().to_vec(),
        }
    }

    pub(super) fn fail_start(&mut self, error: ConnectionError, cx: &mut Context<'_>) -> Outcome {
        let queue_pair = match &self.phase {
            Phase::Start(start) => start.queue_pair().cloned(),
            _ => None,
        };
        self.end_start(queue_pair, error, cx)
    }

    fn end_start(
        &mut self,
        queue_pair: Option<Arc<QueuePair>>,
        error: ConnectionError,
        cx: &mut Context<'_>,
    ) -> Outcome {
        cx.counters.failed_starts += 1;
        self.outgoing.clear(cx.pool);
        let last_words = match &error {
            ConnectionError::Start(failure) => last_words(failure),
            _ => None,
        };
        self.drain(cx);
        let outcome = match last_words {
            Some(bytes) => {
                self.queue_bytes(&bytes, cx);
                self.say_last_words(cx)
            }
            None => {
                self.port.abort();
                Outcome::Over
            }
        };
        if let Some(queue_pair) = queue_pair {
            queue_pair.finish(cx.registry, Some(error));
        }
        outcome
    }
}

fn stream_config(queue_pair: &QueuePair, agreement: &Agreement) -> StreamConfig {
    StreamConfig {
        domain: if queue_pair.is_guarded() { DomainId::NONE } else { queue_pair.domain() },
        role: match agreement.role {
            Role::Initiator => weft_rdmap::Role::Initiator,
            Role::Responder => weft_rdmap::Role::Responder,
        },
        send_depth: queue_pair.send_depth(),
        receive_depth: 1,
        ird: agreement.ird,
        ord: agreement.ord,
        extensions: agreement.extensions.atomics_and_immediates,
        reorder_limit: 0,
        ready_to_receive: agreement.ready_to_receive.map(|kind| match kind {
            weft_mpa::ReadyKind::Send => weft_rdmap::ReadyKind::Send,
            weft_mpa::ReadyKind::Write => weft_rdmap::ReadyKind::Write,
            weft_mpa::ReadyKind::Read => weft_rdmap::ReadyKind::Read,
        }),
        responder_waits: agreement.responder_must_wait(),
    }
}

/// What the peer is told before the connection is closed: a rejecting reply, or a Terminate (RFC 6581 section 8).
fn last_words(failure: &StartFailure) -> Option<Vec<u8>> {
    if let Some(reply) = failure.reply() {
        return Some(reply.to_vec());
    }
    let (code, mut framer) = failure.terminate_code().zip(failure.terminate_framer())?;
    let mut bytes = [0; Terminate::MAX_LENGTH];
    let length = Terminate { code, segment: None }.emit(&mut bytes);
    let mut ulpdu = [0; ddp::UNTAGGED_LENGTH + Terminate::MAX_LENGTH];
    let header = ddp::Header {
        last: true,
        control: Control { opcode: Opcode::Terminate }.emit(),
        target: ddp::Target::Untagged { word: 0, queue: queue::TERMINATE, number: MessageNumber::FIRST, offset: 0 },
    };
    let start = header.emit(&mut ulpdu);
    ulpdu[start..start + length].copy_from_slice(&bytes[..length]);
    let ulpdu = &ulpdu[..start + length];
    let layout = framer.frame(ulpdu.len() as u32);
    let mut frame = vec![0; layout.length()];
    let mut nothing: &[u8] = &[];
    // Copying from a slice can't fail.
    let _ = layout.write(ulpdu, &mut nothing, &mut frame);
    Some(frame)
}
