//! MPA on a byte stream (RFC 5044): each segment is an FPDU of one TCP connection.
//!
//! `startup` sets up, `send` and `receive` move FPDUs, `packets` those of message endpoints; `early` takes FPDUs out of
//! order from ports that show them so. [`laboratory`] moves them in experiments, which begin where a connection is
//! established and nowhere else.

mod bytes;
mod early;
mod held;
mod laboratory;
mod outgoing;
mod packets;
mod receive;
mod send;
pub(super) mod staging;
mod startup;

use core::time::Duration;
use std::net::SocketAddr;

use weft_base::{Interest, Lending, Network, Port, PortError, PortOptions, Received, Segmented, Time, Token};
use weft_rdmap::{SendRequest, Stream};

use self::bytes::Bytes;
use self::early::EarlyReceiver;
use self::laboratory::Staged;
use self::outgoing::Outgoing;
use self::receive::Receiver;
use self::send::Sender;
use self::staging::{Pool, Staging};
pub(super) use self::startup::Opening;
use self::startup::Start;
use crate::error::ConnectionError;
use crate::key::JobKey;
use crate::lower::{
    Accepted, DatagramKey, Datagrams, Drained, Got, Io, Passed, PassedRequest, Pollable, Readiness, ReceiveError,
    Segments, SendError, Sent, Setup, StartStep, StreamCell, StreamSink, Undecided,
};
use crate::offer::{MpaStartError, Offer, RequestInfo, StartError, StartMisuse, Transport};
use crate::queues::queue_pair::QueuePair;

/// MPA over a port.
pub struct Mpa<P: Port> {
    bytes: Bytes<P>,
    layer: Layer,
}

/// What is made of the bytes.
enum Layer {
    /// Start-up frames.
    Start(Start),
    /// FPDUs, in as few passes over the bytes as there can be.
    Plain(Box<Plain>),
    /// Nothing any more.
    Draining,
    /// FPDUs, by stages that may be on several threads.
    Laboratory(Box<Staged>),
}

/// FPDUs both ways.
struct Plain {
    sender: Sender,
    receiver: Inbound,
}

/// FPDUs in order, or as they come.
#[expect(clippy::large_enum_variant, reason = "in order is the usual case, and all of it lies in one box already")]
enum Inbound {
    InOrder(Receiver),
    AsTheyCome(Box<EarlyReceiver>),
}

impl Inbound {
    fn is_verdict_pending(&self) -> bool {
        matches!(self, Self::InOrder(receiver) if receiver.is_verdict_pending())
    }

    fn receive<P: Segmented + Lending, A: StreamSink>(
        &mut self,
        bytes: &mut Bytes<P>,
        above: &mut A,
        io: &mut Io<'_, impl AsMut<Pool>>,
    ) -> Result<Got, ReceiveError> {
        match self {
            Self::InOrder(receiver) => receiver.receive(bytes, above, io),
            Self::AsTheyCome(receiver) => receiver.receive(bytes, above, io),
        }
    }

    fn clear(&mut self) {
        match self {
            Self::InOrder(receiver) => receiver.clear(),
            Self::AsTheyCome(receiver) => receiver.clear(),
        }
    }

    /// What is in place of a frame that is being read straight there, or kept of those that came early.
    fn placed_bytes(&self) -> Option<u32> {
        match self {
            Self::InOrder(receiver) => receiver.placed_bytes(),
            Self::AsTheyCome(receiver) => Some(receiver.kept_bytes()),
        }
    }
}

impl<P: Segmented + Lending> Mpa<P> {
    fn new(port: P, start: Start) -> Self {
        let (staging, outgoing) = (Staging::default(), Outgoing::default());
        let bytes = Bytes { port, staging, outgoing, shows_segments: false };
        Self { bytes, layer: Layer::Start(start) }
    }

    /// Begins to connect.
    pub(super) fn begin<N: Network<Port = P>>(
        network: &mut N,
        remote: SocketAddr,
        options: PortOptions,
        opening: startup::Opening,
    ) -> Result<Self, PortError> {
        let port = network.connect(remote, options)?;
        let start = Start::connecting(opening.over(port.shows_segments()));
        Ok(Self::new(port, start))
    }

    /// Whether it is known already that it is not taken.
    pub(super) fn is_refused(&mut self) -> bool {
        self.bytes.port.poll_connected().is_err()
    }
}

impl<N: Network, S: AsMut<Pool>> Setup<N, S> for Mpa<N::Port> {
    type Opening = startup::Opening;

    fn prepare(offer: &Offer, private_data: &[u8]) -> Result<Self::Opening, StartMisuse> {
        startup::Opening::new(offer, private_data)
    }

    fn connect(
        network: &mut N,
        remote: SocketAddr,
        options: PortOptions,
        opening: Self::Opening,
        _: Option<DatagramKey>,
        _: &mut Io<'_, S>,
    ) -> Result<Self, PortError> {
        Self::begin(network, remote, options, opening)
    }

    fn respond(port: N::Port, offer: Offer) -> Self {
        let start = Start::responding(&offer, port.shows_segments());
        Self::new(port, start)
    }

    fn timed_out(waited_for: Duration) -> StartError {
        MpaStartError::TimedOut { waited_for }.into()
    }

    fn drive_start(&mut self, io: &mut Io<'_, S>) -> Result<StartStep, ConnectionError> {
        self.go_on(io)
    }

    fn is_connecting(&self) -> bool {
        matches!(&self.layer, Layer::Start(start) if start.is_connecting())
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
        self.accept_request(private_data, depths, io).map(Accepted::Stands)
    }

    fn reject(&mut self, private_data: &[u8], io: &mut Io<'_, S>) -> Result<Drained, Undecided> {
        self.reject_request(private_data, io)
    }

    fn fail_start(&mut self, error: &ConnectionError, io: &mut Io<'_, S>) -> Drained {
        self.give_up(error, io)
    }

    fn establish(&mut self, stream: Stream, queue_pair: &QueuePair, io: &mut Io<'_, S>) -> StreamCell {
        let Some(framing) = self.take_framing() else { return StreamCell::Own(Box::new(stream)) };
        let segment_size = self.bytes.port.segment_size();
        if let Some(split) = laboratory::split(io.settings) {
            let (staged, cell) = Staged::new(split, framing, segment_size, stream, queue_pair);
            self.layer = Layer::Laboratory(Box::new(staged));
            return cell;
        }
        let sender = Sender::new(framing.framer, framing.large_fpdus, segment_size);
        let receiver = match EarlyReceiver::begin(&mut self.bytes, &framing.deframer) {
            Some(receiver) => Inbound::AsTheyCome(Box::new(receiver)),
            None => {
                let receiver = Receiver::new(framing.deframer, framing.crc, &mut self.bytes.port);
                io.counters.borrowing_connections += u64::from(receiver.borrows);
                Inbound::InOrder(receiver)
            }
        };
        self.layer = Layer::Plain(Box::new(Plain { sender, receiver }));
        StreamCell::Own(Box::new(stream))
    }
}

impl<P: Segmented + Lending, S: AsMut<Pool>> Segments<S> for Mpa<P> {
    fn transmit<A: StreamSink>(&mut self, above: &mut A, most: usize, io: &mut Io<'_, S>) -> Result<Sent, SendError> {
        match &mut self.layer {
            // A refused frame is still coming: nothing goes out before the word on it.
            Layer::Plain(plain) if plain.receiver.is_verdict_pending() => Ok(Sent::default()),
            Layer::Plain(plain) => plain.sender.transmit(&mut self.bytes, above, most, io),
            Layer::Start(_) | Layer::Draining => Ok(Sent::default()),
            Layer::Laboratory(staged) => staged.transmit(&mut self.bytes, above, io),
        }
    }

    fn receive<A: StreamSink>(&mut self, above: &mut A, io: &mut Io<'_, S>) -> Result<Got, ReceiveError> {
        let got = match &mut self.layer {
            Layer::Plain(plain) => plain.receiver.receive(&mut self.bytes, above, io),
            Layer::Start(_) | Layer::Draining => Ok(Got::Nothing),
            Layer::Laboratory(staged) => staged.receive(&mut self.bytes, above, io),
        };
        self.bytes.staging.release(io.scratch.as_mut());
        got
    }

    fn pass_packet<A: StreamSink>(
        &mut self,
        above: &mut A,
        most: usize,
        io: &mut Io<'_, S>,
        write: impl FnOnce(&mut [u8]) -> Option<usize>,
    ) -> Passed {
        match &mut self.layer {
            Layer::Plain(plain) if !plain.receiver.is_verdict_pending() => {
                plain.sender.pass_packet(&mut self.bytes.outgoing, above, most, io, write)
            }
            _ => Passed::Not,
        }
    }

    fn pass_request<A: StreamSink>(
        &mut self,
        above: &mut A,
        request: &SendRequest,
        io: &mut Io<'_, S>,
    ) -> PassedRequest {
        match &mut self.layer {
            Layer::Plain(plain) if !plain.receiver.is_verdict_pending() => {
                plain.sender.pass_request(&mut self.bytes, above, request, io)
            }
            _ => PassedRequest::Not,
        }
    }

    fn clear_unsent(&mut self, io: &mut Io<'_, S>) {
        self.bytes.port.revoke();
        self.bytes.outgoing.clear(io.scratch.as_mut());
        if let Layer::Laboratory(staged) = &mut self.layer {
            staged.clear();
        }
    }

    fn clear_received(&mut self, io: &mut Io<'_, S>) {
        self.bytes.staging.clear(io.scratch.as_mut());
        if let Layer::Plain(plain) = &mut self.layer {
            plain.receiver.clear();
        }
    }

    fn close_send(&mut self) {
        self.bytes.port.close_send();
    }

    fn abort(&mut self, _: &mut Io<'_, S>) {
        self.bytes.port.abort();
    }

    fn drain(&mut self, io: &mut Io<'_, S>) -> Drained {
        self.layer = Layer::Draining;
        // The stream has let go of all memory.
        self.bytes.port.revoke();
        let Ok(sent) = self.bytes.flush(io) else { return Drained::Over };
        let all_sent = self.bytes.outgoing.is_empty();
        if all_sent {
            self.bytes.port.close_send();
        }
        match self.bytes.discard(io.scratch.as_mut()) {
            Ok(Received::Bytes(_)) => Drained::Progress,
            Ok(Received::Nothing) if sent => Drained::Progress,
            Ok(Received::Nothing) => Drained::Idle,
            Ok(Received::End) if all_sent => Drained::Over,
            Ok(Received::End) => Drained::Idle,
            Err(_) => Drained::Over,
        }
    }

    fn unacknowledged(&self) -> usize {
        self.bytes.port.unacknowledged()
    }

    fn local_address(&self) -> Option<SocketAddr> {
        self.bytes.port.local_address().ok()
    }

    fn remote_address(&self) -> SocketAddr {
        self.bytes.port.remote_address()
    }

    fn transport(&self) -> Transport {
        if self.bytes.port.keeps_bytes() { Transport::SharedMemory } else { Transport::Iwarp }
    }
}

impl<N: Network> Pollable<N> for Mpa<N::Port> {
    #[inline]
    fn is_still(&mut self) -> bool {
        matches!(self.layer, Layer::Plain(_)) && self.bytes.outgoing.is_empty() && self.bytes.port.is_still()
    }

    #[inline]
    fn readiness(&self, _: Time) -> Readiness {
        let waits = !self.bytes.outgoing.is_empty() || self.bytes.outgoing.lent() > 0;
        match &self.layer {
            Layer::Plain(plain) => {
                let fast = !waits && matches!(&plain.receiver, Inbound::InOrder(receiver) if receiver.is_straight());
                Readiness { fast, ..Readiness::polled(waits) }
            }
            Layer::Start(_) | Layer::Draining => Readiness::polled(waits),
            Layer::Laboratory(staged) => Readiness::polled(waits || !staged.is_empty()),
        }
    }

    fn arm(&mut self, network: &mut N, _: usize, token: Token, interest: Interest) -> Result<(), PortError> {
        network.arm_port(&mut self.bytes.port, token, interest)
    }

    fn check_peer(&mut self, now: Time) -> Result<(), PortError> {
        self.bytes.port.check_peer(now)
    }

    fn round_trip(&self) -> Option<Duration> {
        self.bytes.port.round_trip()
    }

    fn received_bytes(&self) -> u32 {
        let placed = match &self.layer {
            Layer::Plain(plain) => plain.receiver.placed_bytes(),
            _ => None,
        };
        placed.unwrap_or(self.bytes.staging.filled().len() as u32)
    }
}

impl<P: Port, S> Datagrams<S> for Mpa<P> {
    type Acceptor = ();
    type Leaving = ();

    fn acceptor(_: [u8; 32], _: [u8; 32], _: Option<&JobKey>) {}
}
