//! MPA's start-up: which end connects, which answers, and what both have agreed on.

use weft_base::{DomainId, Lending, MessageNumber, PortError, ReceivePiece, Received, Segmented};
use weft_mpa::{
    Agreement, Deframer, Extensions, Framer, Initiator, MarkerSpacing, Request, Responder, Role, StartFailure,
    StartFrame, Step,
};
use weft_rdmap::StreamConfig;
use weft_wire::ddp;
use weft_wire::rdmap::{Control, Opcode, queue};
use weft_wire::terminate::Terminate;

use super::bytes::Framing;
use super::early::{RECEIVE_DEPTH, REORDER_LIMIT};
use super::staging::Pool;
use super::{Layer, Mpa};
use crate::error::ConnectionError;
use crate::lower::{Drained, Io, StartStep, Terms, Undecided};
use crate::offer::{ConnectionInfo, LowerInfo, LowerStartError, MpaInfo, Offer, RequestInfo, StartMisuse};

/// A start-up frame is at most 532 bytes, and nothing may follow a request before it is answered: that much is read,
/// and a little more so that a peer that talks too early is noticed.
const START_BYTES: usize = 1024;

/// An initiator, and its request.
type Beginning = (Initiator, StartFrame);

/// What a connection is begun with. Which port it gets is not known yet.
pub struct Opening {
    usual: Box<Beginning>,
    /// For a port that shows what arrives out of order.
    early: Option<Box<Beginning>>,
}

impl Opening {
    pub(super) fn new(offer: &Offer, private_data: &[u8]) -> Result<Self, StartMisuse> {
        let begin = |shows_segments| Initiator::start(mpa_offer(offer, shows_segments), private_data).map(Box::new);
        let early = if wants_early(offer) { Some(begin(true)?) } else { None };
        Ok(Self { usual: begin(false)?, early })
    }

    pub(super) fn over(self, shows_segments: bool) -> Box<Beginning> {
        self.early.filter(|_| shows_segments).unwrap_or(self.usual)
    }
}

/// How far a start-up has come.
pub(super) enum Start {
    /// The port is being connected; then the request goes out.
    Connecting { initiator: Initiator, request: Box<StartFrame> },
    /// The request is out; the reply is awaited.
    Requesting { initiator: Initiator },
    /// A request is awaited.
    Responding { responder: Responder },
    /// The request is here; the application decides.
    Deciding { request: Request },
    /// Agreed.
    Done(Framing),
    /// Between two states.
    Moving,
}

impl Start {
    pub(super) fn connecting(beginning: Box<Beginning>) -> Self {
        let (initiator, request) = *beginning;
        Self::Connecting { initiator, request: Box::new(request) }
    }

    pub(super) fn responding(offer: &Offer, shows_segments: bool) -> Self {
        Self::Responding { responder: Responder::new(mpa_offer(offer, shows_segments)) }
    }

    pub(super) fn is_connecting(&self) -> bool {
        matches!(self, Self::Connecting { .. })
    }

    fn take(&mut self) -> Self {
        core::mem::replace(self, Self::Moving)
    }
}

impl<P: Segmented + Lending> Mpa<P> {
    pub(super) fn go_on(&mut self, io: &mut Io<'_, impl AsMut<Pool>>) -> Result<StartStep, ConnectionError> {
        if matches!(&self.layer, Layer::Start(start) if start.is_connecting()) {
            return self.go_on_connecting(io);
        }
        match self.bytes.flush(io).and_then(|sent| self.read_start(io).map(|got| (sent, got))) {
            Ok((true, Received::Nothing)) => Ok(StartStep::Progress),
            Ok((false, Received::Nothing)) => Ok(StartStep::Idle),
            Ok((_, Received::Bytes(_))) => self.advance(),
            // A peer that does not know what to make of the request may break the stream as well.
            Ok((_, Received::End)) | Err(PortError::Reset) => Err(StartFailure::ClosedEarly.into()),
            Err(error @ PortError::Declined) => {
                Err(ConnectionError::Connect { remote: self.bytes.port.remote_address(), error })
            }
            Err(error) => Err(ConnectionError::Port(error)),
        }
    }

    fn go_on_connecting(&mut self, io: &mut Io<'_, impl AsMut<Pool>>) -> Result<StartStep, ConnectionError> {
        match self.bytes.port.poll_connected() {
            Ok(false) => Ok(StartStep::Idle),
            Ok(true) => {
                let Layer::Start(start) = &mut self.layer else { return Ok(StartStep::Idle) };
                if let Start::Connecting { initiator, request } = start.take() {
                    *start = Start::Requesting { initiator };
                    self.bytes.queue(&request, io.scratch.as_mut());
                }
                self.bytes.flush(io).map_err(ConnectionError::Port)?;
                Ok(StartStep::Progress)
            }
            Err(error) => Err(ConnectionError::Connect { remote: self.bytes.port.remote_address(), error }),
        }
    }

    fn read_start(&mut self, io: &mut Io<'_, impl AsMut<Pool>>) -> Result<Received, PortError> {
        let staging = &mut self.bytes.staging;
        let filled = staging.filled().len();
        let room = staging.room(1, io.scratch.as_mut());
        let most = START_BYTES.saturating_sub(filled).clamp(1, room.len());
        let received = self.bytes.port.receive(&mut [ReceivePiece::Staging(&mut room[..most])])?;
        if let Received::Bytes(count) = received {
            staging.fill(count);
        }
        staging.release(io.scratch.as_mut());
        Ok(received)
    }

    fn advance(&mut self) -> Result<StartStep, ConnectionError> {
        let Layer::Start(start) = &mut self.layer else { return Ok(StartStep::Idle) };
        let staging = &mut self.bytes.staging;
        match start.take() {
            Start::Requesting { initiator } => match initiator.handle(staging.filled()) {
                Step::More(initiator) => {
                    *start = Start::Requesting { initiator };
                    Ok(StartStep::Progress)
                }
                Step::Done((agreement, consumed)) => {
                    staging.consume(consumed);
                    Ok(StartStep::Ready(self.agree(&agreement)))
                }
                Step::Failed(failure) => Err(failure.into()),
            },
            Start::Responding { responder } => match responder.handle(staging.filled()) {
                Step::More(responder) => {
                    *start = Start::Responding { responder };
                    Ok(StartStep::Progress)
                }
                Step::Done((request, consumed)) => {
                    staging.consume(consumed);
                    if !staging.filled().is_empty() {
                        return Err(talked_early());
                    }
                    *start = Start::Deciding { request };
                    Ok(StartStep::Request)
                }
                Step::Failed(failure) => Err(failure.into()),
            },
            Start::Deciding { .. } => Err(talked_early()),
            other => {
                *start = other;
                Ok(StartStep::Idle)
            }
        }
    }

    /// What was agreed: the way frames are made from now on, and the stream above them.
    fn agree(&mut self, agreement: &Agreement) -> Box<Terms> {
        let shows_segments = self.bytes.port.shows_segments();
        let is_early = shows_segments && agreement.receive_markers.is_some() && agreement.crc;
        let framing = Framing {
            framer: Framer::new(agreement.send_markers, agreement.crc),
            deframer: Deframer::new(agreement.receive_markers, agreement.crc),
            crc: agreement.crc,
            // A peer that has markers from us may place what arrives early: it can if an FPDU is no longer than a
            // segment.
            large_fpdus: agreement.extensions.large_fpdus && !(shows_segments && agreement.send_markers.is_some()),
        };
        self.layer = Layer::Start(Start::Done(framing));
        Box::new(Terms { stream: stream_config(agreement, is_early), info: self.info(agreement) })
    }

    pub(super) fn take_framing(&mut self) -> Option<Framing> {
        let Layer::Start(start) = &mut self.layer else { return None };
        match start.take() {
            Start::Done(framing) => Some(framing),
            _ => None,
        }
    }

    fn info(&self, agreement: &Agreement) -> ConnectionInfo {
        let remote = self.bytes.port.remote_address();
        ConnectionInfo {
            role: agreement.role,
            local: self.bytes.port.local_address().unwrap_or(remote),
            remote,
            ird: agreement.ird,
            ord: agreement.ord,
            peer_ird: agreement.peer_ird,
            peer_ord: agreement.peer_ord,
            atomics_and_immediates: agreement.extensions.atomics_and_immediates,
            fences: agreement.send_markers.is_none(),
            private_data: agreement.private_data().to_vec(),
            lower: LowerInfo::Mpa(MpaInfo {
                revision: agreement.revision,
                crc: agreement.crc,
                send_markers: agreement.send_markers,
                receive_markers: agreement.receive_markers,
                extensions: agreement.extensions,
            }),
        }
    }

    // --- the passive side

    pub(super) fn request_info(&self) -> Option<RequestInfo> {
        let Layer::Start(Start::Deciding { request }) = &self.layer else { return None };
        let remote = self.bytes.port.remote_address();
        Some(RequestInfo {
            remote,
            local: self.bytes.port.local_address().unwrap_or(remote),
            mpa_revision: Some(request.revision()),
            peer_ird: request.peer_ird(),
            peer_ord: request.peer_ord(),
            private_data: request.private_data().to_vec(),
        })
    }

    fn take_request(&mut self) -> Result<Request, Undecided> {
        let Layer::Start(start) = &mut self.layer else { return Err(Undecided::Gone) };
        match start.take() {
            Start::Deciding { request } => Ok(request),
            other => {
                *start = other;
                Err(Undecided::Gone)
            }
        }
    }

    /// The reply goes out, and the stream stands.
    pub(super) fn accept_request(
        &mut self,
        private_data: &[u8],
        depths: Option<(u16, u16)>,
        io: &mut Io<'_, impl AsMut<Pool>>,
    ) -> Result<Box<Terms>, Undecided> {
        let request = self.take_request()?;
        if self.has_talked_early(io) {
            return Err(Undecided::Failed(talked_early()));
        }
        let request = match depths {
            Some((ird, ord)) => request.with_depths(ird, ord),
            None => request,
        };
        match request.accept(private_data) {
            Ok((agreement, reply)) => {
                self.bytes.queue(&reply, io.scratch.as_mut());
                Ok(self.agree(&agreement))
            }
            Err((request, misuse)) => {
                self.layer = Layer::Start(Start::Deciding { request });
                Err(Undecided::Misuse(misuse.into()))
            }
        }
    }

    /// The reply goes out, and the connection drains.
    pub(super) fn reject_request(
        &mut self,
        private_data: &[u8],
        io: &mut Io<'_, impl AsMut<Pool>>,
    ) -> Result<Drained, Undecided> {
        match self.take_request()?.reject(private_data) {
            Ok(reply) => {
                self.bytes.queue(&reply, io.scratch.as_mut());
                self.bytes.staging.clear(io.scratch.as_mut());
                self.layer = Layer::Draining;
                Ok(self.send_last_words(io))
            }
            Err((request, misuse)) => {
                self.layer = Layer::Start(Start::Deciding { request });
                Err(Undecided::Misuse(misuse.into()))
            }
        }
    }

    /// Whether the peer has sent something before it was answered, which it may not (RFC 5044 section 7.1.2). Looks for
    /// what has not been received, too.
    fn has_talked_early(&mut self, io: &mut Io<'_, impl AsMut<Pool>>) -> bool {
        !self.bytes.staging.filled().is_empty() || matches!(self.read_start(io), Ok(Received::Bytes(_)))
    }

    // --- failure

    pub(super) fn give_up(&mut self, error: &ConnectionError, io: &mut Io<'_, impl AsMut<Pool>>) -> Drained {
        self.bytes.outgoing.clear(io.scratch.as_mut());
        self.bytes.staging.clear(io.scratch.as_mut());
        self.layer = Layer::Draining;
        let last_words = match error {
            ConnectionError::Start(error) => match &error.lower {
                LowerStartError::Mpa(failure) => last_words(failure),
                LowerStartError::Other(_) => None,
            },
            _ => None,
        };
        match last_words {
            Some(bytes) => {
                self.bytes.queue(&bytes, io.scratch.as_mut());
                self.send_last_words(io)
            }
            None => {
                self.bytes.port.abort();
                Drained::Over
            }
        }
    }

    /// Sends what was queued last at once, for no thread may come back to do so: the application may be gone as soon as
    /// it knows.
    fn send_last_words(&mut self, io: &mut Io<'_, impl AsMut<Pool>>) -> Drained {
        match self.bytes.flush(io) {
            Ok(_) if !self.bytes.outgoing.is_empty() => Drained::Progress,
            Ok(_) => {
                self.bytes.port.close_send();
                Drained::Progress
            }
            Err(_) => Drained::Over,
        }
    }
}

/// Whether markers are requested where they let FPDUs be placed as they come. Only a CRC makes them credible.
const fn wants_early(offer: &Offer) -> bool {
    offer.mpa.early && offer.mpa.crc
}

/// What MPA makes of an offer.
fn mpa_offer(offer: &Offer, shows_segments: bool) -> weft_mpa::Offer {
    let is_early = shows_segments && wants_early(offer);
    // FPDUs that are placed as they come fit a segment.
    let large_fpdus = offer.mpa.extensions.large_fpdus && !is_early;
    weft_mpa::Offer {
        receive_markers: offer.mpa.markers.or(is_early.then_some(MarkerSpacing::Standard)),
        crc: offer.mpa.crc,
        revision: offer.mpa.revision,
        ird: offer.ird,
        ord: offer.ord,
        negotiate_depths: offer.mpa.negotiate_depths,
        ready_to_receive: offer.mpa.ready_to_receive,
        extensions: Extensions { large_fpdus, ..offer.mpa.extensions },
        max_private_data: offer.mpa.max_private_data,
    }
}

/// Nothing may come before the reply (RFC 5044 section 7.1.2).
fn talked_early() -> ConnectionError {
    StartFailure::TalkedEarly.into()
}

/// `is_early`: segments are placed as they come.
fn stream_config(agreement: &Agreement, is_early: bool) -> StreamConfig {
    StreamConfig {
        domain: DomainId::NONE,
        role: match agreement.role {
            Role::Initiator => weft_rdmap::Role::Initiator,
            Role::Responder => weft_rdmap::Role::Responder,
        },
        send_depth: 0,
        receive_depth: if is_early { RECEIVE_DEPTH } else { 1 },
        ird: agreement.ird,
        ord: agreement.ord,
        extensions: agreement.extensions.atomics_and_immediates,
        receipts: agreement.extensions.receipts,
        reorder_limit: if is_early { REORDER_LIMIT } else { 0 },
        // Else they come in order.
        ordered_writes: is_early,
        lower: weft_rdmap::LowerTraits::default(),
        ready_to_receive: agreement.ready_to_receive.map(|kind| match kind {
            weft_mpa::ReadyKind::Send => weft_rdmap::ReadyKind::Send,
            weft_mpa::ReadyKind::Write => weft_rdmap::ReadyKind::Write,
            weft_mpa::ReadyKind::Read => weft_rdmap::ReadyKind::Read,
        }),
        responder_waits: agreement.responder_must_wait(),
    }
}
/// What is sent to the peer before the connection is closed: a rejecting reply, or a Terminate (RFC 6581 section 8).
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
