//! The calls that a connection and its engine make to a lower layer.

use core::time::Duration;
use std::net::SocketAddr;

use weft_base::{Hint, Interest, Network, PortError, PortOptions, Time, Token};
use weft_rdmap::{SendRequest, Stream};

use super::above::{StreamCell, StreamSink};
use super::datagrams::{ConnectionIds, DatagramKey, DatagramPorts, Destination, Leaving, SendFailure, Unmatched};
use super::io::Io;
#[cfg(doc)]
use super::words::MOST_PASSED;
use super::words::{
    Accepted, CallOutcome, Drained, Got, ListensAt, Passed, PassedRequest, Readiness, ReceiveError, SendError, Sent,
    StartStep, Undecided,
};
use crate::error::ConnectionError;
use crate::key::JobKey;
use crate::offer::{Offer, RequestInfo, StartError, StartMisuse, Transport};
use crate::queues::queue_pair::QueuePair;
use crate::rail_report::RailReport;

/// How a connection comes about. `N`: the network; `S`: what the layer uses of its engine ([`Io::scratch`]). No call
/// blocks.
pub trait Setup<N: Network, S>: Sized {
    /// What a connection is begun with.
    type Opening;

    /// Prepares the first word of a connection that is begun here.
    ///
    /// # Errors
    /// A setting is not possible.
    fn prepare(offer: &Offer, private_data: &[u8]) -> Result<Self::Opening, StartMisuse>;

    /// Whether a connection that is begun so needs a datagram port.
    fn calls_by_datagrams(_opening: &Self::Opening) -> bool {
        false
    }

    /// Begins to connect: over `datagrams` where [`Setup::calls_by_datagrams`] says so.
    ///
    /// # Errors
    /// The address can't be used, or the operating system refused.
    fn connect(
        network: &mut N,
        remote: SocketAddr,
        options: PortOptions,
        opening: Self::Opening,
        datagrams: Option<DatagramKey>,
        io: &mut Io<'_, S>,
    ) -> Result<Self, PortError>;

    /// It is later than [`Pollable::next_timeout`] while the connection is set up: another way may be tried as well.
    fn try_another(&mut self, _network: &mut N, _now: Time) {}

    /// A connection that a peer has begun.
    fn respond(port: N::Port, offer: Offer) -> Self;

    /// The peer has not said what is due within this time.
    fn timed_out(waited_for: Duration) -> StartError;

    /// Goes on with the set-up.
    ///
    /// # Errors
    /// It has failed; [`Setup::fail_start`] is next.
    fn drive_start(&mut self, io: &mut Io<'_, S>) -> Result<StartStep, ConnectionError>;

    /// Whether the peer's host has not answered yet.
    fn is_connecting(&self) -> bool;

    /// What is known of why a call has come to nothing, when its time is over: what the peer did not prove, or what the
    /// network has said of its address so far, which may change.
    fn why_late(&self) -> Option<ConnectionError> {
        None
    }

    /// The request that waits for a decision.
    fn request(&self) -> Option<RequestInfo>;

    /// Accepts the request that waits. `depths`: IRD and ORD, if they are to be others than offered.
    ///
    /// # Errors
    /// It can't be accepted.
    fn accept(
        &mut self,
        private_data: &[u8],
        depths: Option<(u16, u16)>,
        io: &mut Io<'_, S>,
    ) -> Result<Accepted, Undecided>;

    /// Rejects the request that waits; [`Segments::drain`] sends the rest of the answer.
    ///
    /// # Errors
    /// It can't be rejected.
    fn reject(&mut self, private_data: &[u8], io: &mut Io<'_, S>) -> Result<Drained, Undecided>;

    /// The set-up is over without a connection. Sends the peer the reason, or breaks the port; what is not said
    /// yet is for [`Segments::drain`].
    fn fail_start(&mut self, error: &ConnectionError, io: &mut Io<'_, S>) -> Drained;

    /// The connection is established: from here on segments go out and arrive. Says how the stream is held, and counts
    /// what the connection is beside that.
    fn establish(&mut self, stream: Stream, queue_pair: &QueuePair, io: &mut Io<'_, S>) -> StreamCell;
}

/// Segments of an established connection in both directions, and its end. No call blocks.
pub trait Segments<S> {
    /// Takes segments and sends them until the port takes no more, nothing is left, or `most` bytes were sent.
    ///
    /// # Errors
    /// It can't go on.
    fn transmit<A: StreamSink>(&mut self, above: &mut A, most: usize, io: &mut Io<'_, S>) -> Result<Sent, SendError>;

    /// Receives once, and handles every segment that is whole then.
    ///
    /// # Errors
    /// It can't go on.
    fn receive<A: StreamSink>(&mut self, above: &mut A, io: &mut Io<'_, S>) -> Result<Got, ReceiveError>;

    /// Has a packet of at most `most` bytes written straight to where it is sent from. `write` says how long it has
    /// become, or that there is none; it is called only where a packet can go.
    fn pass_packet<A: StreamSink>(
        &mut self,
        _above: &mut A,
        _most: usize,
        _io: &mut Io<'_, S>,
        _write: impl FnOnce(&mut [u8]) -> Option<usize>,
    ) -> Passed {
        Passed::Not
    }

    /// Sends a Send or Write of at most [`MOST_PASSED`] bytes at once, from where the caller has it, where it fits one
    /// segment. Where that was done it is complete then, or the stream has it among those under way
    /// ([`Segments::owes_completion`], [`Stream::has_receipts`]). The receipt that is due ([`Stream::receipt_to_pass`])
    /// goes in front of it. Only where nothing that was taken from the stream waits to be sent
    /// ([`Pollable::lets_pass`]), and the stream lets it pass ([`Stream::can_pass`]).
    fn pass_request<A: StreamSink>(
        &mut self,
        _above: &mut A,
        _request: &SendRequest,
        _io: &mut Io<'_, S>,
    ) -> PassedRequest {
        PassedRequest::Not
    }

    /// Whether a request that passes completes later, when this layer answers for it: then [`Segments::pass_request`]
    /// hands those whose completion is due to [`Stream::pass_owed`].
    fn owes_completion(&self) -> bool {
        false
    }

    /// Throws away what has not been sent.
    fn clear_unsent(&mut self, io: &mut Io<'_, S>);

    /// Throws away what has been received of a segment.
    fn clear_received(&mut self, io: &mut Io<'_, S>);

    /// Sends what was taken, then tells the peer that nothing more will come. Receiving continues. What of that can't
    /// be sent at once counts in [`Readiness::send`].
    fn close_send(&mut self);

    /// Breaks the connection at once.
    fn abort(&mut self, io: &mut Io<'_, S>);

    /// After the end of the stream: sends what waits, tells the peer that this was all, throws away what still comes.
    fn drain(&mut self, io: &mut Io<'_, S>) -> Drained;

    /// Bytes that the peer's host has not acknowledged, as [`weft_base::Port::unacknowledged`].
    fn unacknowledged(&self) -> usize;

    /// The address of this end, where it is known.
    fn local_address(&self) -> Option<SocketAddr>;

    /// The address of the other end.
    fn remote_address(&self) -> SocketAddr;

    /// What carries it, as far as that is decided.
    fn transport(&self) -> Transport;
}

/// What there is to do, when, and which ports tell of it.
///
/// The connection keeps the [`Readiness`] of the last time that the layer was driven. Three answers are not in it, and
/// are asked when they are needed: [`Pollable::is_still`] is of the port, at that moment; [`Pollable::lets_pass`] is
/// asked once for a short request, where a layer is driven twice and more; and an exact [`Pollable::next_timeout`]
/// reads all timers, while the engine mostly learns enough from [`Pollable::may_time_out_before`].
pub trait Pollable<N: Network> {
    /// It measures times, so [`Io::now`] must be of the very turn: else it may be some turns old.
    const MEASURES_TIME: bool = false;

    /// Whether [`Segments::receive`] and [`Segments::transmit`] would find nothing that has come since they were called
    /// last, which is known without asking the port's system.
    fn is_still(&mut self) -> bool {
        false
    }

    /// What there is to do. To be asked when it was driven, for it changes with that, and with time.
    fn readiness(&self, now: Time) -> Readiness;

    /// Whether a request may go out now before anything that was taken from the stream.
    fn lets_pass(&self, now: Time) -> bool {
        !self.readiness(now).send
    }

    /// When it must be driven though nothing has come: retransmissions, delayed acknowledgements, probes.
    fn next_timeout(&self) -> Option<Time> {
        None
    }

    /// Whether [`Pollable::next_timeout`] may be earlier than `at`.
    #[inline]
    fn may_time_out_before(&self, _at: Time) -> bool {
        true
    }

    /// How many ports it has, which the network tells of one by one. At most 16, and always as many.
    fn ports(&self) -> usize {
        1
    }

    /// Arms the port with this index: the network reports `token` once when it is ready. For room to send whenever
    /// [`Readiness::send`] is set, unless the layer waits for something else.
    ///
    /// # Errors
    /// The operating system refused. The engine polls the port instead.
    fn arm(&mut self, network: &mut N, index: usize, token: Token, interest: Interest) -> Result<(), PortError>;

    /// Looks whether the peer's host still answers, as [`weft_base::Port::check_peer`].
    ///
    /// # Errors
    /// It does not.
    fn check_peer(&mut self, now: Time) -> Result<(), PortError>;

    /// The shortest round trip to the peer's host so far, as [`weft_base::Port::round_trip`].
    fn round_trip(&self) -> Option<Duration> {
        None
    }

    /// The same, of a lower layer that measures round trips itself, as the connection is used.
    fn round_trip_by_now(&self) -> Option<Duration> {
        None
    }

    /// Bytes of the stream that are here but not delivered: of a segment of which the rest is missing.
    fn received_bytes(&self) -> u32;

    /// Whether the peer has shown that it knows that it was accepted. Until then there is no connection.
    fn is_confirmed(&self) -> bool {
        true
    }

    /// Whether the peer has closed, though not all that was sent to it is in place ([`Got::End`] comes when it is).
    fn is_closed_by_peer(&self) -> bool {
        false
    }

    /// Whether the peer has no receive for a Send that was taken for sending.
    fn lacks_receive(&self) -> bool {
        false
    }
}

/// What a lower layer over datagrams reports of its engine's ports, and is given. Where there are none, what is written
/// here is enough.
pub trait Datagrams<S>: Sized {
    /// What stands at each datagram port, and answers those that it does not know. `()` where there are none.
    type Acceptor: Send;

    /// What leaves by a port that another engine serves. `()` where there are no datagram ports.
    type Leaving: Leaving;

    /// What a listener with this offer listens at: ports for streams, and a datagram port with the same number.
    fn listens_at(_offer: &Offer) -> ListensAt {
        ListensAt { streams: true, shared_memory: false, datagrams: false }
    }

    /// The acceptor of a new datagram port. `reset`: as [`DatagramPorts::reset_key`];
    /// `secret`: of this process; `key`: of the job, if it has one.
    fn acceptor(reset: [u8; 32], secret: [u8; 32], key: Option<&JobKey>) -> Self::Acceptor;

    /// Which connection a datagram is for, whether it is good or not.
    fn destination(_datagram: &[u8]) -> Destination {
        Destination::Nobody
    }

    /// How many datagrams at the front have the destination of the first one: a lower bound, at least 1. All but the
    /// last have `size` bytes.
    fn same_destination(_datagrams: &[u8], _size: usize) -> usize {
        1
    }

    /// Whether the payload of a datagram is as it was sent: what an engine checks that serves a port of another one.
    fn is_good(_datagram: &[u8]) -> bool {
        false
    }

    /// Whose datagram begins like this: a host on the path quotes it.
    fn quoted(_quote: &[u8]) -> Destination {
        Destination::Nobody
    }

    /// A datagram is for no connection. What is to be answered is written to `answer`.
    fn on_unmatched(
        _acceptor: &mut Self::Acceptor,
        _unmatched: &Unmatched<'_>,
        _io: &mut Io<'_, S>,
        _answer: &mut Vec<u8>,
    ) -> CallOutcome<Self> {
        CallOutcome::Nothing
    }

    /// By what datagrams find it, and the port that it uses; `None` where it has ports of its own.
    fn names(&self) -> Option<(DatagramKey, ConnectionIds)> {
        None
    }

    /// What an engine that serves one of the connection's ports reports of its sends.
    fn take_failures(&mut self, _failure: &SendFailure, _now: Time) {}

    /// A host on the path says something about what was sent, and quotes it: see [`Datagrams::quoted`].
    fn take_hint(&mut self, _hint: &Hint, _now: Time) {}

    /// Until when datagrams that come for it may be left unread. `None`: they are to be read when they come.
    fn unread_until(&self, _now: Time) -> Option<Time> {
        None
    }

    /// Adds the addresses of its rails that peers get, if it has any.
    fn report_rails(&self, ports: &dyn DatagramPorts, now: Time, reports: &mut Vec<RailReport>) {
        let _ = (ports, now, reports);
    }
}

/// A lower layer under one connection.
pub trait Lower<N: Network, S>: Setup<N, S> + Segments<S> + Pollable<N> + Datagrams<S> {}

impl<N: Network, S, L: Setup<N, S> + Segments<S> + Pollable<N> + Datagrams<S>> Lower<N, S> for L {}
