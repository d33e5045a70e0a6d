//! Set-up: the caller, and the called.

use core::cell::Cell;
use core::time::Duration;
use std::collections::VecDeque;
use std::net::SocketAddr;

use weft_base::{DatagramBatch, DatagramSent, DomainId, Ecn, LocalAddress, Piece, PortError, Time};
use weft_edge::setup::{Answering, Call, Caller, Heard, IncomingCall, Key, Outcome, SetupTimes, Words};
use weft_edge::{Connection, Established};
use weft_rdmap::{LowerTraits, StreamConfig};
use weft_wire::edge::BASE_DATAGRAM;
use weft_wire::edge::setup::{MAX_PRIVATE_DATA, Message, Reject, Setup};

use super::accepted::{ANSWER_AGAIN_AFTER, AcceptedCall};
use super::acceptor::{failed, fresh, setup_key};
use super::fences::Fences;
use super::laboratory;
use super::outbox::Outbox;
use super::state::{Calling, Deciding, Edge, Opening, Phase, Running};
use super::tx_batch::Release;
use crate::error::ConnectionError;
use crate::lower::{Accepted, Datagram, DatagramKey, Drained, Io, StartStep, Terms, Undecided};
use crate::offer::{ConnectionInfo, LowerInfo, Offer, RequestInfo, Role, StartMisuse, StartReason};
use crate::policy::AnswerCredit;
use crate::settings::{FlowShare, Rails};

/// A program may take as long as it likes to decide: the peer that waits says how long.
const FOR_EVER: Duration = Duration::from_secs(365 * 24 * 3600);
/// A hello is retransmitted at the latest after this.
const LONGEST_REPEAT: Duration = Duration::from_millis(400);

/// How long a rejection is retransmitted to a caller that retries.
const REJECTED_FOR: Duration = Duration::from_secs(3);
/// Receive requests that a stream holds at a time.
const RECEIVE_DEPTH: usize = 1024;
/// Segments that a stream places before their turn: as many as a sender may have under way in datagrams of 1200 bytes
/// ([`weft_edge::Settings::in_flight_bytes`]).
const EARLY_SEGMENTS: usize = (32 << 20) / 1200;
/// Bytes of the headers of UDP and IPv4, or IPv6 (RFC 768, 791, 8200).
const IP_UDP_HEADERS: [u32; 2] = [28, 48];
/// The largest datagram that is tried, in bytes above UDP.
const LARGEST: u16 = 65000;

pub(super) fn check_length(private_data: &[u8]) -> Result<(), StartMisuse> {
    if private_data.len() <= MAX_PRIVATE_DATA {
        return Ok(());
    }
    Err(StartMisuse::PrivateDataTooLong { given: private_data.len(), limit: MAX_PRIVATE_DATA })
}

fn words<'a>(offer: &Offer, private_data: &'a [u8]) -> Words<'a> {
    Words { private_data, inbound_reads: offer.ird, outbound_reads: offer.ord }
}

/// Sends one datagram of set-up.
pub(super) fn say(
    bytes: &[u8],
    to: SocketAddr,
    (port, from): (DatagramKey, Option<LocalAddress>),
    io: &mut Io<'_, impl AsMut<Outbox>>,
) -> Result<(), PortError> {
    let batch = DatagramBatch { to: to.into(), from, segment_size: bytes.len() as u32, ecn: Ecn::NotCapable };
    io.counters.sends += 1;
    io.counters.sent_wire_bytes += bytes.len() as u64;
    match io.datagrams.send(port, &batch, &[Piece::Bytes(bytes)])? {
        // What finds no room is retransmitted later.
        DatagramSent::Taken(_) => Ok(()),
        // It will not pass later either.
        DatagramSent::TooLarge(carries) => {
            let headers = IP_UDP_HEADERS[usize::from(to.is_ipv6() && to.ip().to_canonical().is_ipv6())];
            let mtu = carries.map(|bytes| bytes + headers);
            Err(PortError::SmallMtu { mtu, needed: BASE_DATAGRAM as u32 + headers })
        }
    }
}

/// A hello has come again: so does the answer.
pub(super) fn repeat(
    answering: &Answering,
    datagram: &Datagram<'_>,
    place: (DatagramKey, Option<LocalAddress>),
    io: &mut Io<'_, impl AsMut<Outbox>>,
) {
    let Ok(Setup { source, message: Message::Hello(hello), .. }) = Setup::parse(datagram.bytes) else { return };
    let call = IncomingCall { id: source, from: datagram.from, hello };
    let mut answer = Vec::new();
    if answering.repeat(&call, &mut answer) {
        let _ = say(&answer, datagram.from, place, io);
    }
}

fn edge_settings(port: DatagramKey, io: &Io<'_, impl AsMut<Outbox>>) -> weft_edge::Settings {
    let defaults = weft_edge::Settings::default();
    weft_edge::Settings {
        credit: io.datagrams.credit(port),
        max_datagram: LARGEST,
        rails: if io.settings.rails == Rails::One { 1 } else { Rails::MOST as u8 },
        couples: io.settings.flow_share == FlowShare::Coupled,
        // No kernel answers for a program that is stopped: twice the time that a host is given.
        peer_timeout: io.settings.peer_timeout.map_or(FOR_EVER, |timeout| 2 * timeout),
        ..defaults
    }
}

impl Running {
    pub(super) fn new(established: &Established, port: DatagramKey, io: &Io<'_, impl AsMut<Outbox>>) -> Box<Self> {
        let connection = Connection::new(established, &edge_settings(port, io), io.now);
        Box::new(Self {
            connection,
            ends: VecDeque::new(),
            release: Release::default(),
            intake: laboratory::intake(io.settings),
            next: 0,
            fences: Fences::default(),
            peer_closed: false,
            is_closing: false,
            ended: None,
            held: None,
            answers: AnswerCredit::default(),
            took: false,
            starved: None,
            error: None,
            counted: weft_edge::Counters::default(),
            idle_until: Cell::new(Time::ZERO),
        })
    }
}

impl Edge {
    /// Calls. The hello leaves when it is driven.
    pub(super) fn call(
        port: DatagramKey,
        remote: SocketAddr,
        opening: &Opening,
        io: &mut Io<'_, impl AsMut<Outbox>>,
    ) -> Self {
        let host = Key::new(&io.datagrams.reset_key(port)).expect("32 bytes are enough for a key");
        let times =
            SetupTimes { longest_repeat: LONGEST_REPEAT, silence: FOR_EVER, answer: FOR_EVER, ..SetupTimes::default() };
        let key = io.settings.key.as_ref().map(setup_key);
        let call = Call {
            to: remote,
            fresh: fresh(io.datagrams),
            key: key.as_ref(),
            host: &host,
            words: words(&opening.offer, &opening.private_data),
            times,
        };
        let caller = Caller::new(&call, &edge_settings(port, io), io.now);
        let calling = Calling { caller, offer: opening.offer, is_heard: false, failed: None, unreachable: false };
        let mut edge = Self::new(port, remote, Phase::Calling(Box::new(calling)));
        edge.local = io.datagrams.local_address(port);
        edge
    }

    pub(super) fn go_on(&mut self, io: &mut Io<'_, impl AsMut<Outbox>>) -> Result<StartStep, ConnectionError> {
        match &mut self.phase {
            Phase::Calling(_) => self.go_on_calling(io),
            Phase::Deciding(deciding) => {
                let Deciding { answering, asked, .. } = &mut **deciding;
                let inbox = core::mem::take(&mut io.inbox);
                inbox.for_each(|datagram| repeat(answering, &datagram, (self.port, self.from), io));
                let first = !core::mem::replace(asked, true);
                Ok(if first { StartStep::Request } else { StartStep::Idle })
            }
            Phase::Accepted(_) => self.go_on_accepted(io),
            Phase::Running(_) | Phase::Rejected(..) | Phase::Over => Ok(StartStep::Idle),
        }
    }

    fn go_on_calling(&mut self, io: &mut Io<'_, impl AsMut<Outbox>>) -> Result<StartStep, ConnectionError> {
        let mut step = StartStep::Idle;
        let inbox = core::mem::take(&mut io.inbox);
        for datagram in inbox {
            io.counters.received_wire_bytes += datagram.bytes.len() as u64;
            let Phase::Calling(calling) = &mut self.phase else { break };
            let dropped = calling.caller.dropped();
            let outcome = calling.caller.receive(datagram.bytes, datagram.from, io.now);
            if calling.caller.dropped() == dropped {
                (calling.is_heard, calling.failed) = (true, None);
                step = StartStep::Progress;
                self.see_local(datagram.to, io);
            }
            if let Some(outcome) = outcome {
                return self.end_call(outcome, io);
            }
        }
        let (place, remote) = ((self.port, self.from), self.remote);
        let Phase::Calling(calling) = &mut self.phase else { return Ok(step) };
        if let Some(error) = calling.failed.filter(|_| !calling.is_heard) {
            return Err(ConnectionError::Connect { remote, error });
        }
        let mut hello = Vec::new();
        if calling.caller.transmit(io.now, &mut hello) {
            step = StartStep::Progress;
            match say(&hello, remote, place, io) {
                Ok(()) => {}
                Err(PortError::Unreachable) => calling.unreachable = true,
                Err(error) => return Err(ConnectionError::Connect { remote, error }),
            }
        }
        Ok(step)
    }

    fn end_call(
        &mut self,
        outcome: Outcome,
        io: &mut Io<'_, impl AsMut<Outbox>>,
    ) -> Result<StartStep, ConnectionError> {
        match outcome {
            Outcome::Accepted(established, heard) => {
                let Phase::Calling(calling) = &self.phase else { return Ok(StartStep::Idle) };
                let offer = calling.offer;
                let fences = established.peer_keeps_options;
                self.phase = Phase::Running(Running::new(&established, self.port, io));
                self.offer_rails(io);
                Ok(StartStep::Ready(self.terms(Role::Initiator, (offer.ird, offer.ord), fences, heard)))
            }
            Outcome::Rejected { reason: Reject::Application, private_data } => Err(failed(
                StartReason::Rejected { private_data: private_data.into() },
                "the peer does not want the connection",
            )),
            Outcome::Rejected { reason: Reject::Key, .. } => Err(failed(
                StartReason::Incompatible,
                if io.settings.key.is_some() {
                    "the peer has no job key, as this side has"
                } else {
                    "the peer wants a job key"
                },
            )),
            Outcome::Rejected { reason: Reject::OtherKey, .. } => {
                Err(failed(StartReason::Incompatible, "the peer has another job key than this side"))
            }
            Outcome::Rejected { reason: Reject::NotUnderstood, .. } if io.settings.key.is_some() => Err(failed(
                StartReason::Incompatible,
                "the peer does not understand how this side proves its job key: its Weft is older",
            )),
            Outcome::Rejected { .. } => Err(failed(StartReason::Incompatible, "the peer refuses what is offered")),
            Outcome::Versions(_) => {
                Err(failed(StartReason::Incompatible, "the peer speaks other versions of Edge than this side"))
            }
            Outcome::Silence { .. } => Err(failed(StartReason::ClosedEarly, "the peer did not answer")),
        }
    }

    fn terms(&self, role: Role, (ird, ord): (u16, u16), fences: bool, heard: Heard) -> Box<Terms> {
        let ord = ord.min(heard.inbound_reads);
        let info = ConnectionInfo {
            role,
            local: self.local.unwrap_or(self.remote),
            remote: self.remote,
            ird,
            ord,
            peer_ird: heard.inbound_reads,
            peer_ord: heard.outbound_reads,
            atomics_and_immediates: true,
            fences,
            private_data: heard.private_data,
            lower: LowerInfo::Edge,
        };
        Box::new(Terms { stream: stream_config(role, ird, ord), info })
    }

    pub(super) fn request_info(&self) -> Option<RequestInfo> {
        let Phase::Deciding(deciding) = &self.phase else { return None };
        let heard = deciding.answering.heard();
        Some(RequestInfo {
            remote: self.remote,
            local: self.local.unwrap_or(self.remote),
            mpa_revision: None,
            peer_ird: heard.inbound_reads,
            peer_ord: heard.outbound_reads,
            private_data: heard.private_data,
        })
    }

    pub(super) fn accept_call(
        &mut self,
        private_data: &[u8],
        depths: Option<(u16, u16)>,
        io: &mut Io<'_, impl AsMut<Outbox>>,
    ) -> Result<Accepted, Undecided> {
        if !matches!(self.phase, Phase::Deciding(_)) {
            return Err(Undecided::Gone);
        }
        check_length(private_data).map_err(Undecided::Misuse)?;
        let Phase::Deciding(deciding) = core::mem::replace(&mut self.phase, Phase::Over) else {
            return Err(Undecided::Gone);
        };
        let Deciding { mut answering, offer, .. } = *deciding;
        let (ird, ord) = depths.unwrap_or((offer.ird, offer.ord));
        let heard = answering.heard();
        let mut answer = Vec::new();
        let said = words(&Offer { ird, ord, ..offer }, private_data);
        let established = answering.accept(&said, &edge_settings(self.port, io), &mut answer);
        // If it is lost, it is retransmitted when the hello comes again.
        let _ = say(&answer, self.remote, (self.port, self.from), io);
        let fences = established.peer_keeps_options;
        let terms = self.terms(Role::Responder, (ird, ord), fences, heard);
        let info = Box::new(terms.info.clone());
        self.phase = Phase::Accepted(Box::new(AcceptedCall::new(answering, established, terms, io)));
        Ok(Accepted::Awaits(info))
    }

    /// Checks whether the caller has confirmed. What confirms stays in the inbox: the connection takes it.
    fn go_on_accepted(&mut self, io: &mut Io<'_, impl AsMut<Outbox>>) -> Result<StartStep, ConnectionError> {
        let (place, remote) = ((self.port, self.from), self.remote);
        let Phase::Accepted(accepted) = &mut self.phase else { return Ok(StartStep::Idle) };
        let mut inbox = io.inbox;
        if inbox.any(|datagram| accepted.established.is_confirmed_by(datagram.bytes)) {
            return Ok(self.stand(io).map_or(StartStep::Idle, StartStep::Ready));
        }
        core::mem::take(&mut io.inbox).for_each(|datagram| repeat(&accepted.answering, &datagram, place, io));
        if accepted.next_timeout().is_some_and(|at| at <= io.now) {
            // The answer may be lost: it is retransmitted.
            let _ = say(accepted.answering.answer(), remote, place, io);
            accepted.answer_at = io.now + ANSWER_AGAIN_AFTER * (1 << accepted.answers);
            accepted.answers += 1;
        }
        Ok(StartStep::Idle)
    }

    /// The caller has confirmed.
    fn stand(&mut self, io: &mut Io<'_, impl AsMut<Outbox>>) -> Option<Box<Terms>> {
        let Phase::Accepted(accepted) = core::mem::replace(&mut self.phase, Phase::Over) else { return None };
        let AcceptedCall { established, terms, answered_at, .. } = *accepted;
        let established = Established { took: Some(io.now.since(answered_at)), ..established };
        self.phase = Phase::Running(Running::new(&established, self.port, io));
        self.offer_rails(io);
        Some(terms)
    }

    pub(super) fn reject_call(
        &mut self,
        private_data: &[u8],
        io: &mut Io<'_, impl AsMut<Outbox>>,
    ) -> Result<Drained, Undecided> {
        check_length(private_data).map_err(Undecided::Misuse)?;
        if self.say_no(Reject::Application, private_data, io) { Ok(Drained::Progress) } else { Err(Undecided::Gone) }
    }

    fn say_no(&mut self, reason: Reject, private_data: &[u8], io: &mut Io<'_, impl AsMut<Outbox>>) -> bool {
        if !matches!(self.phase, Phase::Deciding(_)) {
            return false;
        }
        let Phase::Deciding(deciding) = core::mem::replace(&mut self.phase, Phase::Over) else { return false };
        let mut answering = deciding.answering;
        let mut answer = Vec::new();
        answering.reject(reason, private_data, &mut answer);
        let _ = say(&answer, self.remote, (self.port, self.from), io);
        self.phase = Phase::Rejected(Box::new(answering), io.now + REJECTED_FOR);
        true
    }

    /// The set-up is over without a connection.
    pub(super) fn give_up(&mut self, io: &mut Io<'_, impl AsMut<Outbox>>) -> Drained {
        let called = match &self.phase {
            Phase::Deciding(deciding) => Some(deciding.answering.name()),
            Phase::Accepted(accepted) => Some(accepted.answering().name()),
            _ => None,
        };
        // Its caller may still call.
        called.into_iter().for_each(|name| io.datagrams.forget_call(name));
        if self.say_no(Reject::Full, &[], io) {
            return Drained::Progress;
        }
        self.phase = Phase::Over;
        Drained::Over
    }

    /// What is left to do without a connection: a rejection is retransmitted to a caller that retries.
    pub(super) fn drain_start(&mut self, io: &mut Io<'_, impl AsMut<Outbox>>) -> Drained {
        let Phase::Rejected(answering, until) = &self.phase else { return Drained::Over };
        if *until <= io.now {
            return Drained::Over;
        }
        let inbox = core::mem::take(&mut io.inbox);
        let any = !inbox.is_empty();
        inbox.for_each(|datagram| repeat(answering, &datagram, (self.port, self.from), io));
        if any { Drained::Progress } else { Drained::Idle }
    }
}

fn stream_config(role: Role, ird: u16, ord: u16) -> StreamConfig {
    StreamConfig {
        domain: DomainId::NONE,
        role: match role {
            Role::Initiator => weft_rdmap::Role::Initiator,
            Role::Responder => weft_rdmap::Role::Responder,
        },
        send_depth: 0,
        receive_depth: RECEIVE_DEPTH,
        ird,
        ord,
        extensions: true,
        receipts: false,
        reorder_limit: EARLY_SEGMENTS,
        ordered_writes: true,
        lower: LowerTraits { placements: 1, cuts_again: true, holds_back: true },
        ready_to_receive: None,
        responder_waits: false,
    }
}
