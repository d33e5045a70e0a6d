//! iWARP, over the network or through shared memory, or Edge, as each connection wants; or the best of them that
//! answers.

use core::time::Duration;
use std::net::SocketAddr;

use weft_base::{Hint, Interest, Network, Port, PortError, PortOptions, Time, Token};
use weft_rdmap::{SendRequest, Stream};

use super::edge::acceptor::EdgeAcceptor;
use super::edge::outbox::Outbox;
use super::edge::tx_batch::EdgeLeaving;
use super::edge::{self, Edge};
use super::mpa::staging::Pool;
use super::mpa::{self, Mpa};
use crate::error::ConnectionError;
use crate::key::JobKey;
use crate::lower::{
    Accepted, CallOutcome, ConnectionIds, DatagramKey, DatagramPorts, Datagrams, Destination, Drained, Got, Io,
    ListensAt, Passed, PassedRequest, Pollable, Readiness, ReceiveError, Scratch, Segments, SendError, SendFailure,
    Sent, Setup, StartStep, StreamCell, StreamSink, Undecided, Unmatched,
};
use crate::offer::{MpaOffer, Offer, RequestInfo, StartError, StartMisuse, Transport};
use crate::queues::queue_pair::QueuePair;
use crate::rail_report::RailReport;

/// Edge has this long to answer before iWARP is tried fallback it.
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// What both use of an engine for themselves.
#[derive(Debug, Default)]
pub struct Either {
    mpa: Pool,
    edge: Outbox,
}

impl Scratch for Either {
    fn prepare(&mut self, connections: usize) {
        self.mpa.prepare(connections);
        self.edge.prepare(connections);
    }
}

impl AsMut<Pool> for Either {
    #[inline]
    fn as_mut(&mut self) -> &mut Pool {
        &mut self.mpa
    }
}

impl AsMut<Outbox> for Either {
    #[inline]
    fn as_mut(&mut self) -> &mut Outbox {
        &mut self.edge
    }
}

/// The lower layer of a connection that may be either.
pub enum Choice<N: Network> {
    /// iWARP: MPA over a stream.
    Mpa(Mpa<N::Port>),
    /// Edge.
    Edge(Edge),
    /// A way is tried that another one may follow.
    Racing(Box<Racing<N>>),
}

/// Edge, and iWARP when there is no answer; or shared memory, and iWARP when the peer declines that. Until one stands.
pub struct Racing<N: Network> {
    edge: Option<Edge>,
    /// Shared memory, as long as iWARP is not begun; then that.
    mpa: Option<Mpa<N::Port>>,
    /// iWARP, until it is begun.
    fallback: Option<Fallback>,
    remote: SocketAddr,
    /// Why iWARP has failed, which tells more than that Edge has.
    error: Option<ConnectionError>,
}

/// How iWARP is begun fallback another way.
struct Fallback {
    opening: mpa::Opening,
    options: PortOptions,
    /// When. `None`: when the other way turns out to be none.
    at: Option<Time>,
}

/// What a connection is begun with.
pub enum Opening {
    /// Edge.
    Edge(edge::Opening),
    /// iWARP.
    Mpa(mpa::Opening),
    /// iWARP, through shared memory.
    Shared(mpa::Opening),
    /// The same where there is any; else over TCP.
    SharedOr { shared: mpa::Opening, mpa: mpa::Opening },
    /// Shared memory, where there is any; then Edge first, and iWARP.
    Any { shared: mpa::Opening, edge: edge::Opening, mpa: mpa::Opening },
}

/// Whether the listener for shared memory can't take it.
const fn is_declined(failure: &ConnectionError) -> bool {
    matches!(failure, ConnectionError::Connect { error: PortError::Declined, .. })
}

const fn sharing(options: PortOptions) -> PortOptions {
    PortOptions { shared_memory: true, ..options }
}

/// For streams on which nothing can change: MPA without what is there to find that.
const fn unchecked(offer: Offer) -> Offer {
    Offer { mpa: MpaOffer { crc: false, markers: None, ..offer.mpa }, ..offer }
}

macro_rules! each {
    ($self:expr, $lower:ident => $act:expr, trying $trying:pat => $both:expr) => {
        match $self {
            Choice::Mpa($lower) => $act,
            Choice::Edge($lower) => $act,
            Choice::Racing($trying) => $both,
        }
    };
}

impl<N: Network> Racing<N> {
    /// Drives one of the two. When it has failed it is gone.
    fn drive_one<L: Setup<N, S>, S>(one: &mut Option<L>, io: &mut Io<'_, S>) -> Result<StartStep, ConnectionError> {
        let Some(lower) = one else { return Ok(StartStep::Idle) };
        let step = lower.drive_start(io);
        if let Err(failure) = &step {
            lower.fail_start(failure, io);
            *one = None;
        }
        step
    }

    /// Drives Edge. As long as iWARP is left, its failure only means that it is not waited for any more.
    fn drive_edge(&mut self, io: &mut Io<'_, impl AsMut<Outbox>>) -> Result<StartStep, ConnectionError> {
        let step = Self::drive_one(&mut self.edge, io);
        let Err(failure) = step else { return step };
        match &mut self.fallback {
            Some(fallback) => fallback.at = Some(io.now),
            None if self.mpa.is_some() => {}
            None => return Err(self.error.take().unwrap_or(failure)),
        }
        Ok(StartStep::Progress)
    }

    /// Drives shared memory, or iWARP, which follows where that is declined. As long as Edge is left, its failure is
    /// kept.
    fn drive_mpa(&mut self, io: &mut Io<'_, impl AsMut<Pool>>) -> Result<StartStep, ConnectionError> {
        let step = match self.error.take_if(|_| self.mpa.is_none()) {
            // It could not even begin.
            Some(failure) => Err(failure),
            None => Self::drive_one(&mut self.mpa, io),
        };
        let Err(failure) = step else { return step };
        if let Some(fallback) = self.fallback.as_mut().filter(|_| is_declined(&failure)) {
            fallback.at = Some(io.now);
            return Ok(StartStep::Progress);
        }
        if self.edge.is_none() {
            return Err(failure);
        }
        self.error = Some(failure);
        Ok(StartStep::Idle)
    }
}

impl<N: Network> Choice<N> {
    /// Through shared memory, if a program listens for that; by iWARP, which is begun with `other`, if it is declined.
    /// Returns the latter where none listens.
    fn connect_shared(
        network: &mut N,
        remote: SocketAddr,
        options: PortOptions,
        opening: mpa::Opening,
        other: mpa::Opening,
    ) -> Result<Self, mpa::Opening> {
        if !network.shares_memory() {
            return Err(other);
        }
        let Ok(mut mpa) = Mpa::begin(network, remote, sharing(options), opening) else { return Err(other) };
        if mpa.is_refused() {
            return Err(other);
        }
        let fallback = Some(Fallback { opening: other, options, at: None });
        Ok(Self::Racing(Box::new(Racing { edge: None, mpa: Some(mpa), fallback, remote, error: None })))
    }

    fn drive_both<S: AsMut<Pool> + AsMut<Outbox>>(&mut self, io: &mut Io<'_, S>) -> Result<StartStep, ConnectionError> {
        let Self::Racing(trying) = self else { return Ok(StartStep::Idle) };
        let step = trying.drive_edge(io)?;
        if let Some(edge) = trying.edge.take_if(|_| matches!(step, StartStep::Ready(_))) {
            if let Some(mpa) = &mut trying.mpa {
                Segments::<S>::abort(mpa, io);
            }
            *self = Self::Edge(edge);
            return Ok(step);
        }
        let other = trying.drive_mpa(io)?;
        if let Some(mpa) = trying.mpa.take_if(|_| matches!(other, StartStep::Ready(_))) {
            io.counters.fallbacks += u64::from(trying.fallback.is_none());
            *self = Self::Mpa(mpa);
            return Ok(other);
        }
        let idle = matches!((&step, &other), (StartStep::Idle, StartStep::Idle));
        Ok(if idle { StartStep::Idle } else { StartStep::Progress })
    }
}

impl<N: Network, S: AsMut<Pool> + AsMut<Outbox>> Setup<N, S> for Choice<N> {
    type Opening = Opening;

    fn prepare(offer: &Offer, private_data: &[u8]) -> Result<Self::Opening, StartMisuse> {
        let edge = || <Edge as Setup<N, S>>::prepare(offer, private_data);
        let mpa = || <Mpa<N::Port> as Setup<N, S>>::prepare(offer, private_data);
        let shared = || <Mpa<N::Port> as Setup<N, S>>::prepare(&unchecked(*offer), private_data);
        Ok(match offer.transport {
            Transport::Iwarp => Opening::Mpa(mpa()?),
            Transport::Edge => Opening::Edge(edge()?),
            Transport::SharedMemory => Opening::Shared(shared()?),
            Transport::SharedMemoryOrIwarp => Opening::SharedOr { shared: shared()?, mpa: mpa()? },
            Transport::SharedMemoryOrEdge | Transport::Auto => {
                Opening::Any { shared: shared()?, edge: edge()?, mpa: mpa()? }
            }
        })
    }

    fn calls_by_datagrams(opening: &Self::Opening) -> bool {
        matches!(opening, Opening::Edge(_) | Opening::Any { .. })
    }

    fn connect(
        network: &mut N,
        remote: SocketAddr,
        options: PortOptions,
        opening: Self::Opening,
        datagrams: Option<DatagramKey>,
        io: &mut Io<'_, S>,
    ) -> Result<Self, PortError> {
        Ok(match opening {
            Opening::Mpa(opening) => Self::Mpa(Setup::<N, S>::connect(network, remote, options, opening, None, io)?),
            Opening::Edge(opening) => {
                Self::Edge(Setup::<N, S>::connect(network, remote, options, opening, datagrams, io)?)
            }
            Opening::Shared(opening) => Self::Mpa(Mpa::begin(network, remote, sharing(options), opening)?),
            Opening::SharedOr { shared, mpa } => match Self::connect_shared(network, remote, options, shared, mpa) {
                Ok(shared) => shared,
                Err(mpa) => Self::Mpa(Setup::<N, S>::connect(network, remote, options, mpa, None, io)?),
            },
            Opening::Any { shared, edge, mpa } => match Self::connect_shared(network, remote, options, shared, mpa) {
                Ok(shared) => shared,
                Err(opening) => {
                    let edge = Setup::<N, S>::connect(network, remote, options, edge, datagrams, io)?;
                    let fallback = Some(Fallback { opening, options, at: Some(io.now + ATTEMPT_DELAY) });
                    Self::Racing(Box::new(Racing { edge: Some(edge), mpa: None, fallback, remote, error: None }))
                }
            },
        })
    }

    fn try_another(&mut self, network: &mut N, now: Time) {
        let Self::Racing(trying) = self else { return };
        let is_heard = trying.edge.as_ref().is_some_and(|edge| !Setup::<N, S>::is_connecting(edge));
        let is_due = |fallback: &mut Fallback| !is_heard && fallback.at.is_some_and(|at| at <= now);
        let Some(Fallback { opening, options, .. }) = trying.fallback.take_if(is_due) else { return };
        match Mpa::begin(network, trying.remote, options, opening) {
            Ok(mpa) => trying.mpa = Some(mpa),
            Err(error) => trying.error = Some(ConnectionError::Connect { remote: trying.remote, error }),
        }
    }

    fn respond(port: N::Port, offer: Offer) -> Self {
        let offer = if port.keeps_bytes() { unchecked(offer) } else { offer };
        Self::Mpa(<Mpa<N::Port> as Setup<N, S>>::respond(port, offer))
    }

    fn timed_out(waited_for: Duration) -> StartError {
        <Mpa<N::Port> as Setup<N, S>>::timed_out(waited_for)
    }

    fn drive_start(&mut self, io: &mut Io<'_, S>) -> Result<StartStep, ConnectionError> {
        match self {
            Self::Mpa(lower) => Setup::<N, S>::drive_start(lower, io),
            Self::Edge(lower) => Setup::<N, S>::drive_start(lower, io),
            Self::Racing(_) => self.drive_both(io),
        }
    }

    fn is_connecting(&self) -> bool {
        each!(self, lower => Setup::<N, S>::is_connecting(lower), trying trying => {
            let edge = trying.edge.as_ref().is_none_or(|edge| Setup::<N, S>::is_connecting(edge));
            edge && trying.mpa.as_ref().is_none_or(|mpa| Setup::<N, S>::is_connecting(mpa))
        })
    }

    fn why_late(&self) -> Option<ConnectionError> {
        each!(self, lower => Setup::<N, S>::why_late(lower), trying trying => {
            trying.edge.as_ref().and_then(|edge| Setup::<N, S>::why_late(edge))
        })
    }

    fn request(&self) -> Option<RequestInfo> {
        each!(self, lower => Setup::<N, S>::request(lower), trying _ => None)
    }

    fn accept(
        &mut self,
        private_data: &[u8],
        depths: Option<(u16, u16)>,
        io: &mut Io<'_, S>,
    ) -> Result<Accepted, Undecided> {
        each!(self, lower => Setup::<N, S>::accept(lower, private_data, depths, io), trying _ => Err(Undecided::Gone))
    }

    fn reject(&mut self, private_data: &[u8], io: &mut Io<'_, S>) -> Result<Drained, Undecided> {
        each!(self, lower => Setup::<N, S>::reject(lower, private_data, io), trying _ => Err(Undecided::Gone))
    }

    fn fail_start(&mut self, error: &ConnectionError, io: &mut Io<'_, S>) -> Drained {
        each!(self, lower => Setup::<N, S>::fail_start(lower, error, io), trying trying => {
            if let Some(edge) = &mut trying.edge {
                Setup::<N, S>::fail_start(edge, error, io);
            }
            match trying.mpa.take() {
                Some(mut mpa) => {
                    let drained = Setup::<N, S>::fail_start(&mut mpa, error, io);
                    *self = Self::Mpa(mpa);
                    drained
                }
                None => Drained::Over,
            }
        })
    }

    fn establish(&mut self, stream: Stream, queue_pair: &QueuePair, io: &mut Io<'_, S>) -> StreamCell {
        each!(self, lower => Setup::<N, S>::establish(lower, stream, queue_pair, io), trying _ => {
            StreamCell::Own(Box::new(stream))
        })
    }
}

impl<N: Network, S: AsMut<Pool> + AsMut<Outbox>> Segments<S> for Choice<N> {
    #[inline]
    fn transmit<A: StreamSink>(&mut self, above: &mut A, most: usize, io: &mut Io<'_, S>) -> Result<Sent, SendError> {
        each!(self, lower => Segments::<S>::transmit(lower, above, most, io), trying _ => Ok(Sent::default()))
    }

    #[inline]
    fn receive<A: StreamSink>(&mut self, above: &mut A, io: &mut Io<'_, S>) -> Result<Got, ReceiveError> {
        each!(self, lower => Segments::<S>::receive(lower, above, io), trying _ => Ok(Got::Nothing))
    }

    #[inline]
    fn pass_packet<A: StreamSink>(
        &mut self,
        above: &mut A,
        most: usize,
        io: &mut Io<'_, S>,
        write: impl FnOnce(&mut [u8]) -> Option<usize>,
    ) -> Passed {
        each!(self, lower => Segments::<S>::pass_packet(lower, above, most, io, write), trying _ => Passed::Not)
    }

    #[inline]
    fn pass_request<A: StreamSink>(
        &mut self,
        above: &mut A,
        request: &SendRequest,
        io: &mut Io<'_, S>,
    ) -> PassedRequest {
        each!(self, lower => Segments::<S>::pass_request(lower, above, request, io), trying _ => PassedRequest::Not)
    }

    #[inline]
    fn owes_completion(&self) -> bool {
        each!(self, lower => Segments::<S>::owes_completion(lower), trying _ => false)
    }

    fn clear_unsent(&mut self, io: &mut Io<'_, S>) {
        each!(self, lower => Segments::<S>::clear_unsent(lower, io), trying _ => {});
    }

    fn clear_received(&mut self, io: &mut Io<'_, S>) {
        each!(self, lower => Segments::<S>::clear_received(lower, io), trying _ => {});
    }

    fn close_send(&mut self) {
        each!(self, lower => Segments::<S>::close_send(lower), trying _ => {});
    }

    fn abort(&mut self, io: &mut Io<'_, S>) {
        each!(self, lower => Segments::<S>::abort(lower, io), trying trying => {
            if let Some(mpa) = &mut trying.mpa {
                Segments::<S>::abort(mpa, io);
            }
        });
    }

    fn drain(&mut self, io: &mut Io<'_, S>) -> Drained {
        each!(self, lower => Segments::<S>::drain(lower, io), trying _ => Drained::Over)
    }

    fn unacknowledged(&self) -> usize {
        each!(self, lower => Segments::<S>::unacknowledged(lower), trying _ => 0)
    }

    fn local_address(&self) -> Option<SocketAddr> {
        each!(self, lower => Segments::<S>::local_address(lower), trying trying => match (&trying.edge, &trying.mpa) {
            (Some(edge), _) => Segments::<S>::local_address(edge),
            (None, mpa) => mpa.as_ref().and_then(|mpa| Segments::<S>::local_address(mpa)),
        })
    }

    fn remote_address(&self) -> SocketAddr {
        each!(self, lower => Segments::<S>::remote_address(lower), trying trying => trying.remote)
    }

    fn transport(&self) -> Transport {
        each!(self, lower => Segments::<S>::transport(lower), trying _ => Transport::Auto)
    }
}

impl<N: Network> Pollable<N> for Choice<N> {
    const MEASURES_TIME: bool = false;

    #[inline]
    fn is_still(&mut self) -> bool {
        each!(self, lower => Pollable::<N>::is_still(lower), trying _ => false)
    }

    #[inline]
    fn readiness(&self, now: Time) -> Readiness {
        match self {
            Self::Mpa(lower) => {
                let ready = Pollable::<N>::readiness(lower, now);
                Readiness { idle: !ready.send, ..ready }
            }
            Self::Edge(lower) => Pollable::<N>::readiness(lower, now),
            Self::Racing(_) => Readiness::polled(false),
        }
    }

    #[inline]
    fn lets_pass(&self, now: Time) -> bool {
        each!(self, lower => Pollable::<N>::lets_pass(lower, now), trying _ => false)
    }

    #[inline]
    fn next_timeout(&self) -> Option<Time> {
        each!(self, lower => Pollable::<N>::next_timeout(lower), trying trying => {
            let edge = trying.edge.as_ref();
            let is_heard = edge.is_some_and(|edge| !Setup::<N, Either>::is_connecting(edge));
            let fallback = trying.fallback.as_ref().and_then(|fallback| fallback.at).filter(|_| !is_heard);
            [edge.and_then(|edge| Pollable::<N>::next_timeout(edge)), fallback].into_iter().flatten().min()
        })
    }

    #[inline]
    fn may_time_out_before(&self, at: Time) -> bool {
        match self {
            Self::Mpa(_) => false,
            Self::Edge(lower) => Pollable::<N>::may_time_out_before(lower, at),
            Self::Racing(_) => true,
        }
    }

    fn arm(&mut self, network: &mut N, index: usize, token: Token, interest: Interest) -> Result<(), PortError> {
        each!(self, lower => Pollable::<N>::arm(lower, network, index, token, interest), trying trying => {
            match &mut trying.mpa {
                Some(mpa) if interest != Interest::NOTHING => {
                    let is_connecting = Setup::<N, Either>::is_connecting(mpa);
                    let interest = Interest { readable: !is_connecting, writable: is_connecting, ..interest };
                    Pollable::<N>::arm(mpa, network, index, token, interest)
                }
                Some(mpa) => Pollable::<N>::arm(mpa, network, index, token, interest),
                None => Ok(()),
            }
        })
    }

    fn check_peer(&mut self, now: Time) -> Result<(), PortError> {
        each!(self, lower => Pollable::<N>::check_peer(lower, now), trying trying => {
            trying.mpa.as_mut().map_or(Ok(()), |mpa| Pollable::<N>::check_peer(mpa, now))
        })
    }

    fn round_trip(&self) -> Option<Duration> {
        each!(self, lower => Pollable::<N>::round_trip(lower), trying _ => None)
    }

    fn round_trip_by_now(&self) -> Option<Duration> {
        each!(self, lower => Pollable::<N>::round_trip_by_now(lower), trying _ => None)
    }

    fn received_bytes(&self) -> u32 {
        each!(self, lower => Pollable::<N>::received_bytes(lower), trying _ => 0)
    }

    fn is_confirmed(&self) -> bool {
        each!(self, lower => Pollable::<N>::is_confirmed(lower), trying _ => true)
    }

    fn is_closed_by_peer(&self) -> bool {
        each!(self, lower => Pollable::<N>::is_closed_by_peer(lower), trying _ => false)
    }

    fn lacks_receive(&self) -> bool {
        each!(self, lower => Pollable::<N>::lacks_receive(lower), trying _ => false)
    }
}

impl<N: Network, S> Datagrams<S> for Choice<N> {
    type Acceptor = EdgeAcceptor;
    type Leaving = EdgeLeaving;

    fn listens_at(offer: &Offer) -> ListensAt {
        use Transport::{Auto, Edge, Iwarp, SharedMemoryOrEdge};
        ListensAt {
            streams: offer.transport != Edge,
            shared_memory: !matches!(offer.transport, Iwarp | Edge),
            datagrams: matches!(offer.transport, Edge | SharedMemoryOrEdge | Auto),
        }
    }

    fn acceptor(reset: [u8; 32], secret: [u8; 32], key: Option<&JobKey>) -> Self::Acceptor {
        <Edge as Datagrams<S>>::acceptor(reset, secret, key)
    }

    fn destination(datagram: &[u8]) -> Destination {
        <Edge as Datagrams<S>>::destination(datagram)
    }

    fn same_destination(datagrams: &[u8], size: usize) -> usize {
        <Edge as Datagrams<S>>::same_destination(datagrams, size)
    }

    fn is_good(datagram: &[u8]) -> bool {
        <Edge as Datagrams<S>>::is_good(datagram)
    }

    fn quoted(quote: &[u8]) -> Destination {
        <Edge as Datagrams<S>>::quoted(quote)
    }

    fn on_unmatched(
        acceptor: &mut Self::Acceptor,
        unmatched: &Unmatched<'_>,
        io: &mut Io<'_, S>,
        answer: &mut Vec<u8>,
    ) -> CallOutcome<Self> {
        <Edge as Datagrams<S>>::on_unmatched(acceptor, unmatched, io, answer).map(Self::Edge)
    }

    fn names(&self) -> Option<(DatagramKey, ConnectionIds)> {
        match self {
            Self::Mpa(_) => None,
            Self::Edge(edge) => Datagrams::<S>::names(edge),
            Self::Racing(trying) => trying.edge.as_ref().and_then(|edge| Datagrams::<S>::names(edge)),
        }
    }

    fn take_failures(&mut self, failure: &SendFailure, now: Time) {
        if let Self::Edge(edge) = self {
            Datagrams::<S>::take_failures(edge, failure, now);
        }
    }

    fn take_hint(&mut self, hint: &Hint, now: Time) {
        match self {
            Self::Mpa(_) => {}
            Self::Edge(edge) => Datagrams::<S>::take_hint(edge, hint, now),
            Self::Racing(trying) => {
                if let Some(edge) = &mut trying.edge {
                    Datagrams::<S>::take_hint(edge, hint, now);
                }
            }
        }
    }

    fn unread_until(&self, now: Time) -> Option<Time> {
        match self {
            Self::Edge(lower) => Datagrams::<S>::unread_until(lower, now),
            Self::Mpa(_) | Self::Racing(_) => None,
        }
    }

    fn report_rails(&self, ports: &dyn DatagramPorts, now: Time, reports: &mut Vec<RailReport>) {
        each!(self, lower => Datagrams::<S>::report_rails(lower, ports, now, reports), trying _ => {});
    }
}

#[cfg(test)]
mod tests {
    use weft_wire::mpa::MarkerSpacing;

    use super::*;

    #[test]
    fn what_finds_damage_is_left_out_where_there_is_none_and_nothing_else() {
        let mpa = MpaOffer { crc: true, markers: Some(MarkerSpacing::Standard), ..MpaOffer::default() };
        let offer = Offer { ird: 3, ord: 4, mpa, ..Offer::default() };
        let expected = Offer { mpa: MpaOffer { crc: false, markers: None, ..mpa }, ..offer };
        assert_eq!(unchecked(offer), expected);
        assert_ne!(unchecked(offer), offer);
    }
}
