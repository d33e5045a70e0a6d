//! Edge: RDMA over datagrams (`docs/wire.md`, `weft-edge`). Segments are placed as they arrive and acknowledged when
//! they are in place.
//!
//! `state` is what a connection has, `startup` sets up, `sending` and `receiving` join a [`weft_edge::Connection`] and
//! the stream above it, `wire` lays out its datagrams, `outbox` brings them to the engine's port, `acceptor` answers
//! those that the port does not know.

mod accepted;
pub(super) mod acceptor;
mod fences;
mod laboratory;
mod no_stream;
pub(super) mod outbox;
mod passing;
mod path_table;
mod rails;
mod receiving;
mod sending;
mod startup;
mod state;
pub(super) mod tx_batch;
mod wire;

use core::time::Duration;
use std::net::SocketAddr;

use weft_base::{Hint, HintKind, Interest, Network, PortError, PortOptions, Time, Token};
use weft_edge::Ending;
use weft_rdmap::{SendRequest, Stream};

use self::acceptor::EdgeAcceptor;
use self::no_stream::NoStream;
use self::outbox::Outbox;
pub(super) use self::state::{Edge, Opening};
use self::state::{Handed, Intake, Phase};
use self::tx_batch::EdgeLeaving;
use crate::error::ConnectionError;
use crate::key::JobKey;
use crate::lower::{
    Accepted, CallOutcome, ConnectionIds, DatagramKey, DatagramPorts, Datagrams, Destination, Drained, Got, Io,
    ListensAt, Passed, PassedRequest, Pollable, Readiness, ReceiveError, Segments, SendError, SendFailure, Sent, Setup,
    StartStep, StreamCell, StreamSink, Undecided, Unmatched,
};
use crate::offer::{LowerStartError, Offer, RequestInfo, StartError, StartMisuse, StartReason, Transport};
use crate::queues::queue_pair::QueuePair;
use crate::rail_report::RailReport;

/// While a port has no room, timers wait this long at least.
const ROOM_AFTER: Duration = Duration::from_millis(1);

impl<N: Network, S: AsMut<Outbox>> Setup<N, S> for Edge {
    type Opening = Opening;

    fn prepare(offer: &Offer, private_data: &[u8]) -> Result<Opening, StartMisuse> {
        startup::check_length(private_data)?;
        Ok(Opening { offer: *offer, private_data: private_data.to_vec() })
    }

    fn calls_by_datagrams(_: &Opening) -> bool {
        true
    }

    fn connect(
        _: &mut N,
        remote: SocketAddr,
        _: PortOptions,
        opening: Opening,
        datagrams: Option<DatagramKey>,
        io: &mut Io<'_, S>,
    ) -> Result<Self, PortError> {
        let port = datagrams.ok_or(PortError::NotPermitted)?;
        Ok(Self::call(port, remote, &opening, io))
    }

    /// Streams do not carry it.
    fn respond(_: N::Port, _: Offer) -> Self {
        Self::new(DatagramKey(slotmap::DefaultKey::default()), ([0, 0, 0, 0], 0).into(), Phase::Over)
    }

    fn timed_out(waited_for: Duration) -> StartError {
        let lower = LowerStartError::Other("the peer did not confirm in time");
        StartError { reason: StartReason::TimedOut { waited_for }, lower }
    }

    fn drive_start(&mut self, io: &mut Io<'_, S>) -> Result<StartStep, ConnectionError> {
        self.go_on(io)
    }

    fn is_connecting(&self) -> bool {
        matches!(&self.phase, Phase::Calling(calling) if !calling.is_heard)
    }

    fn why_late(&self) -> Option<ConnectionError> {
        let calling = match &self.phase {
            Phase::Calling(calling) => calling,
            Phase::Accepted(accepted) => return Some(ConnectionError::Start(accepted.why_late())),
            _ => return None,
        };
        if calling.caller.is_unproved() {
            let words = if calling.caller.has_key() {
                "what answers there does not prove that it has the job key of this side"
            } else {
                "what answers there proves that it has a job key, and this side has none: set the same key at both \
                 sides"
            };
            return Some(acceptor::failed(StartReason::Incompatible, words));
        }
        let is_unreachable = calling.unreachable && !calling.is_heard;
        is_unreachable.then_some(ConnectionError::Connect { remote: self.remote, error: PortError::Unreachable })
    }

    fn request(&self) -> Option<RequestInfo> {
        self.request_info()
    }

    fn accept(
        &mut self,
        private_data: &[u8],
        depths: Option<(u16, u16)>,
        io: &mut Io<'_, S>,
    ) -> Result<Accepted, Undecided> {
        self.accept_call(private_data, depths, io)
    }

    fn reject(&mut self, private_data: &[u8], io: &mut Io<'_, S>) -> Result<Drained, Undecided> {
        self.reject_call(private_data, io)
    }

    fn fail_start(&mut self, _: &ConnectionError, io: &mut Io<'_, S>) -> Drained {
        self.give_up(io)
    }

    fn establish(&mut self, stream: Stream, _: &QueuePair, _: &mut Io<'_, S>) -> StreamCell {
        StreamCell::Own(Box::new(stream))
    }
}

impl<S: AsMut<Outbox>> Segments<S> for Edge {
    fn transmit<A: StreamSink>(&mut self, above: &mut A, most: usize, io: &mut Io<'_, S>) -> Result<Sent, SendError> {
        let mut progress = self.take(Some(above), io).is_some();
        self.handle_times(Some(above), io);
        progress |= self.report_sent(above, io);
        if let Some(error) = self.failure() {
            return Err(error.into());
        }
        if let Some(running) = self.running() {
            running.hold_ack(io);
        }
        if !self.is_due(io) && !above.stream().can_transmit() {
            return Ok(Sent { progress, cut_short: false });
        }
        if self.pass_kept(above, io) {
            return Ok(Sent { progress: true, cut_short: false });
        }
        let sent = self.flush(Some(above), most, io)?;
        Ok(Sent { progress: progress | sent.progress, ..sent })
    }

    fn receive<A: StreamSink>(&mut self, above: &mut A, io: &mut Io<'_, S>) -> Result<Got, ReceiveError> {
        let taken = self.take(Some(above), io);
        if taken == Some(Handed::default()) {
            if self.rests_behind_messages(io) {
                return Ok(Got::Messages);
            }
            if self.holds_ack_of_messages(above, io) {
                return Ok(Got::MessagesToAnswer);
            }
        }
        let mut progress = taken.is_some();
        self.handle_times(Some(above), io);
        progress |= self.report_sent(above, io);
        let failure = self.failure();
        let Some(running) = self.running() else { return Ok(Got::Nothing) };
        // No check is needed whether an answer takes along what is not owed.
        running.took &= running.connection.owes_ack(io.now);
        if let Some(error) = running.error.take() {
            return Err(error);
        }
        // The end may have overtaken the word that all has arrived which was sent before.
        let is_heard = running.connection.acknowledged() == running.connection.next_position();
        let is_whole = running.peer_closed && running.intake.keeps_nothing();
        // What is acknowledged, but perhaps still in the hands of an engine that serves a port, is not told yet: to the
        // stream its requests would have failed.
        let is_told = !running.release.is_held();
        if is_told && (is_whole && is_heard || running.ended == Some(Ending::Closed)) {
            // A peer closes when all that it has sent is in place: one that names an end which nothing has reached
            // has lost something, or lies.
            let is_complete = running.connection.peer_end() == Some(above.stream().next_position());
            return Ok(Got::End { whole: is_complete || running.discards() });
        }
        if let Some(error) = failure {
            return Err(ReceiveError::Port(error));
        }
        if running.discards() {
            return Ok(Got::Over);
        }
        if running.is_closing {
            running.connection.hold_acks(false);
            // Nothing more is requested to be sent.
            progress |= self.flush::<A>(None, usize::MAX, io).is_ok_and(|sent| sent.progress);
        }
        Ok(if progress { Got::Progress } else { Got::Nothing })
    }

    fn pass_packet<A: StreamSink>(
        &mut self,
        above: &mut A,
        most: usize,
        io: &mut Io<'_, S>,
        write: impl FnOnce(&mut [u8]) -> Option<usize>,
    ) -> Passed {
        self.write_packet(above, most, io, write)
    }

    fn pass_request<A: StreamSink>(
        &mut self,
        above: &mut A,
        request: &SendRequest,
        io: &mut Io<'_, S>,
    ) -> PassedRequest {
        if self.pass_short(above, request, io) { PassedRequest::Waits } else { PassedRequest::Not }
    }

    /// A close that arrives is acknowledged.
    fn owes_completion(&self) -> bool {
        true
    }

    fn clear_unsent(&mut self, io: &mut Io<'_, S>) {
        self.waiting.clear();
        self.take_back(io);
    }

    fn clear_received(&mut self, _: &mut Io<'_, S>) {
        if let Some(running) = self.running() {
            running.intake = Intake::Discard;
        }
    }

    fn close_send(&mut self) {
        if let Some(running) = self.running() {
            running.is_closing = true;
            running.connection.close();
        }
    }

    fn abort(&mut self, io: &mut Io<'_, S>) {
        if let Some(running) = self.running() {
            running.connection.abort(b"given up");
            self.waiting.clear();
            self.take_back(io);
            // Once: a peer that does not receive it gets another when it sends again.
            let _ = self.flush::<NoStream>(None, usize::MAX, io);
        }
    }

    fn drain(&mut self, io: &mut Io<'_, S>) -> Drained {
        if !matches!(self.phase, Phase::Running(_)) {
            return self.drain_start(io);
        }
        let mut progress = self.take::<NoStream>(None, io).is_some();
        if let Some(running) = self.running() {
            // No request waits for it any more.
            running.release.forget();
            running.intake = Intake::Discard;
            running.is_closing = true;
            running.connection.hold_acks(false);
            running.connection.close();
        }
        self.handle_times(None::<&mut NoStream>, io);
        progress |= self.flush::<NoStream>(None, usize::MAX, io).is_ok_and(|sent| sent.progress);
        let is_over = self.running().is_none_or(|running| running.connection.is_over());
        match (is_over || self.failure().is_some(), progress) {
            (true, _) => Drained::Over,
            (false, true) => Drained::Progress,
            (false, false) => Drained::Idle,
        }
    }

    fn unacknowledged(&self) -> usize {
        let Phase::Running(running) = &self.phase else { return 0 };
        let connection = &running.connection;
        let unheard = running.is_closing && running.ended.is_none() && !connection.has_close_arrived();
        (connection.next_position() - connection.acknowledged()) as usize + usize::from(unheard)
    }

    fn local_address(&self) -> Option<SocketAddr> {
        self.local.filter(|local| !local.ip().is_unspecified())
    }

    fn remote_address(&self) -> SocketAddr {
        self.remote
    }

    fn transport(&self) -> Transport {
        Transport::Edge
    }
}

impl<N: Network> Pollable<N> for Edge {
    const MEASURES_TIME: bool = true;

    fn lets_pass(&self, now: Time) -> bool {
        self.waiting.is_empty() && matches!(&self.phase, Phase::Running(running) if running.connection.can_pass(now))
    }

    // Out of line: the code of a connection over iWARP, which asks the same by `Choice`, is shorter without it.
    #[inline(never)]
    fn readiness(&self, now: Time) -> Readiness {
        let Phase::Running(running) = &self.phase else { return Readiness::polled(false) };
        let connection = &running.connection;
        let lingers = running.ended.is_some() && !connection.is_over();
        let unheard = running.is_closing && running.ended.is_none() && !connection.has_close_arrived();
        let unsent = connection.acknowledged() < connection.next_position() || running.release.is_held();
        let is_resting = self.waiting.is_empty() && running.held.is_none() && !running.took && !running.is_closing;
        let is_open = running.ended.is_none() && !running.peer_closed;
        Readiness {
            // A program that posts a receive and polls finds it at once.
            receive: !is_resting || running.starved.is_some(),
            send: !self.waiting.is_empty() || unsent || unheard || lingers,
            idle: is_resting && is_open && !connection.is_due(now) && !running.release.is_held(),
            fast: false,
        }
    }

    fn next_timeout(&self) -> Option<Time> {
        let at = match &self.phase {
            Phase::Calling(calling) => calling.caller.next_timeout(),
            Phase::Accepted(accepted) => accepted.next_timeout(),
            Phase::Running(running) => {
                let mut at = running.connection.next_timeout();
                if let Some(starved) = running.starved {
                    at = [at, Some(starved.at)].into_iter().flatten().min();
                }
                let at = [at, running.release.next_timeout()].into_iter().flatten().min();
                // What is held is not due in this turn.
                let next_turn = running.held.map(|(since, _)| since + Duration::from_nanos(1));
                let at = at.map(|at| next_turn.map_or(at, |next| at.max(next)));
                running.idle_until.set(at.unwrap_or(Time::ZERO));
                at
            }
            Phase::Rejected(_, until) => Some(*until),
            Phase::Deciding(_) | Phase::Over => None,
        };
        if self.waiting.is_empty() { at } else { at.map(|at| at.max(self.blocked_at + ROOM_AFTER)) }
    }

    #[inline(never)]
    fn may_time_out_before(&self, at: Time) -> bool {
        let Phase::Running(running) = &self.phase else { return true };
        if running.held.is_some() {
            // The next turn drives the connection, and asks again.
            return false;
        }
        running.starved.is_some() || running.release.is_held() || running.connection.may_time_out_before(at)
    }

    fn ports(&self) -> usize {
        0
    }

    fn arm(&mut self, _: &mut N, _: usize, _: Token, _: Interest) -> Result<(), PortError> {
        Ok(())
    }

    fn check_peer(&mut self, _: Time) -> Result<(), PortError> {
        match self.failure() {
            Some(PortError::TimedOut) => Err(PortError::TimedOut),
            _ => Ok(()),
        }
    }

    fn round_trip_by_now(&self) -> Option<Duration> {
        match &self.phase {
            Phase::Running(running) => running.connection.shortest_round_trip(),
            _ => None,
        }
    }

    fn received_bytes(&self) -> u32 {
        0
    }

    fn is_confirmed(&self) -> bool {
        !matches!(self.phase, Phase::Accepted(_))
    }

    fn is_closed_by_peer(&self) -> bool {
        matches!(&self.phase, Phase::Running(running) if running.peer_closed)
    }

    fn lacks_receive(&self) -> bool {
        matches!(&self.phase, Phase::Running(running) if running.connection.is_refused())
    }
}

impl<S> Datagrams<S> for Edge {
    type Acceptor = EdgeAcceptor;
    type Leaving = EdgeLeaving;

    fn listens_at(_: &Offer) -> ListensAt {
        ListensAt { streams: false, shared_memory: false, datagrams: true }
    }

    fn acceptor(reset: [u8; 32], secret: [u8; 32], key: Option<&JobKey>) -> EdgeAcceptor {
        EdgeAcceptor::new(reset, secret, key)
    }

    fn destination(datagram: &[u8]) -> Destination {
        acceptor::destination(datagram)
    }

    fn same_destination(datagrams: &[u8], size: usize) -> usize {
        acceptor::same_destination(datagrams, size)
    }

    fn is_good(datagram: &[u8]) -> bool {
        tx_batch::has_good_payload(datagram)
    }

    fn quoted(quote: &[u8]) -> Destination {
        acceptor::quoted(quote)
    }

    fn on_unmatched(
        acceptor: &mut EdgeAcceptor,
        unmatched: &Unmatched<'_>,
        io: &mut Io<'_, S>,
        answer: &mut Vec<u8>,
    ) -> CallOutcome<Self> {
        acceptor::on_unmatched(acceptor, unmatched, io, answer)
    }

    fn names(&self) -> Option<(DatagramKey, ConnectionIds)> {
        let (own, peer) = match &self.phase {
            Phase::Calling(calling) => (calling.caller.id().0, None),
            Phase::Deciding(deciding) => {
                let (from, id) = deciding.answering.caller();
                (deciding.answering.id().0, Some((from, id.0)))
            }
            Phase::Running(running) => {
                let connection = &running.connection;
                (connection.id().0, Some((self.remote, connection.remote_id().0)))
            }
            Phase::Accepted(accepted) => {
                let (from, id) = accepted.answering().caller();
                (accepted.answering().id().0, Some((from, id.0)))
            }
            Phase::Rejected(answering, _) => {
                let (from, id) = answering.caller();
                (answering.id().0, Some((from, id.0)))
            }
            Phase::Over => return None,
        };
        Some((self.port, ConnectionIds { own, peer }))
    }

    fn take_failures(&mut self, failure: &SendFailure, now: Time) {
        Self::take_failures(self, core::slice::from_ref(failure), now);
    }

    fn take_hint(&mut self, hint: &Hint, now: Time) {
        match &mut self.phase {
            // That it quotes this call, whose name cannot be guessed, is known from how it has come here.
            Phase::Calling(calling) if hint.to.ip() == Some(self.remote) => match hint.what {
                // Only a host knows which program has its ports.
                HintKind::Refused if hint.by == Some(self.remote.ip()) => calling.failed = Some(PortError::Refused),
                HintKind::Refused | HintKind::Unreachable => calling.unreachable = true,
                HintKind::TooLarge(_) => {}
            },
            Phase::Running(running) => {
                running.connection.take_hint(hint, now);
                running.idle_until.set(Time::ZERO);
                self.settle(Handed::default(), now);
            }
            _ => {}
        }
    }

    fn unread_until(&self, now: Time) -> Option<Time> {
        let Phase::Running(running) = &self.phase else { return None };
        let has_room = self.waiting.is_empty() && running.starved.is_none();
        running.connection.unread_until(now).filter(|_| has_room)
    }

    fn report_rails(&self, ports: &dyn DatagramPorts, now: Time, reports: &mut Vec<RailReport>) {
        if let Phase::Running(running) = &self.phase {
            self.report(&running.connection, ports, now, reports);
        }
    }
}
