//! Lower layer protocols (LLP, RFC 5041 section 2): what carries the DDP segments of one RDMA stream.
//!
//! The seam is the DDP segment. A lower layer takes segments from the stream within a budget, hands up what has arrived
//! as position, header and payload, is told where the payload goes, places it, and says when it is there. It owns its
//! ports, its framing, its timers and its integrity check; the stream above knows none of them. What it needs of the
//! connection it has through [`Above`].
//!
//! A layer that does more than a byte stream does keeps to these:
//! - each [`Arrival`] starts where the one before ends, and is as long as its segment's payload, one more with DDP's
//!   Last flag;
//! - [`weft_rdmap::Stream::handle_sent`] counts segments in the order in which they were taken, once the layer needs
//!   them no more;
//! - what the stream refuses without blame ends nothing: what it knows is acknowledged again, what it can't take now is
//!   offered again later;
//! - acknowledgements are taken in [`Lower::transmit`] as well, for after an error, or [`Got::Over`], nothing is
//!   received;
//! - [`Got::End`] comes when everything before the peer's last word is in place.
//!
//! Which lower layer a network's streams have is said by [`weft_base::Network::Stack`], a tag: [`Stack`] gives it a
//! meaning, in this crate for those that exist, in others for their own.
//!
//! Shared memory is a stream, [`weft_base::PortOptions::shared_memory`], and so what it carries is iWARP; what MPA
//! checks it need not check there ([`weft_base::Port::keeps_bytes`]).

pub(crate) mod choice;
mod datagrams;
pub(crate) mod edge;
pub(crate) mod mpa;

use core::ops::{Deref, DerefMut};
use core::time::Duration;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use weft_base::{Hint, Interest, Network, PortError, PortOptions, Random, Time, Token};
use weft_lock::{Mutex, MutexGuard};
use weft_memory::Registry;
use weft_rdmap::{Arrival, Demand, Placement, SendRequest, Stream, StreamConfig, Verdict, Violation};
use weft_wire::terminate::TerminateCode;

use crate::counters::Counters;
use crate::error::ConnectionError;
use crate::key::JobKey;
use crate::lower::choice::Choice;
pub(crate) use crate::lower::datagrams::InboxEntry;
pub use crate::lower::datagrams::{
    Datagram, DatagramKey, DatagramPorts, Destination, Inbox, Names, RailPort, ServedPorts, Stray,
};
use crate::lower::edge::Edge;
use crate::lower::edge::outbox::Outbox;
pub use crate::lower::edge::outbox::Told;
pub(crate) use crate::lower::edge::parcel::Leaving;
pub use crate::lower::edge::parcel::Parcel;
use crate::lower::mpa::Mpa;
use crate::lower::mpa::staging::Pool;
use crate::offer::{ConnectionInfo, Offer, RequestInfo, StartError, StartMisuse, Transport};
use crate::queues::queue_pair::QueuePair;
use crate::rail_report::RailReport;
use crate::settings::Settings;

/// What a lower layer may use while it is driven.
pub struct Io<'a> {
    pub(crate) pool: &'a mut Pool,
    pub(crate) outbox: &'a mut Outbox,
    /// The engine's datagram ports.
    pub datagrams: &'a mut dyn DatagramPorts,
    /// Datagrams that have come for this connection, for a lower layer over datagram ports: it takes all of them
    /// whenever it is driven.
    pub inbox: Inbox<'a>,
    /// The memory that payload comes from and goes to.
    pub registry: &'a Registry,
    /// The NIC's settings.
    pub settings: &'a Settings,
    /// The engine's counters.
    pub counters: &'a mut Counters,
    /// Unguessable numbers, from the NIC's seed.
    pub random: &'a mut Random,
    /// The time of the present turn.
    pub now: Time,
}

/// From where to where a connection is opened.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// The local address. `None`: the operating system chooses.
    pub local: Option<SocketAddr>,
    /// The peer's address.
    pub remote: SocketAddr,
}

impl Route {
    /// With a peer's address that can be one: what is unspecified is this host, as connect(2) has it for TCP. Answers
    /// to datagrams come from the loopback's address then, so that must be the one that is called.
    pub(crate) fn checked(self) -> Result<Self, ConnectionError> {
        if self.remote.port() == 0 {
            return Err(ConnectionError::Connect { remote: self.remote, error: PortError::NoPort });
        }
        let ip = match self.remote.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        let mut remote = self.remote;
        remote.set_ip(ip);
        Ok(Self { remote, ..self })
    }
}

/// What a set-up has agreed on.
#[derive(Debug)]
pub struct Terms {
    /// What the stream is made with. Its domain and depth are the queue pair's, and are put in there.
    pub stream: StreamConfig,
    /// What the application is told.
    pub info: ConnectionInfo,
}

/// What becomes of a request that was accepted.
#[derive(Debug)]
pub enum Accepted {
    /// The connection stands: [`Lower::establish`] is next.
    Stands(Box<Terms>),
    /// The caller has to confirm first, and then [`Lower::drive_start`] says [`StartStep::Ready`]. The application is
    /// told this of the connection.
    Awaits(Box<ConnectionInfo>),
}

/// How far a set-up has come.
#[derive(Debug)]
pub enum StartStep {
    /// Nothing could be done.
    Idle,
    /// Something was done; it goes on.
    Progress,
    /// A request is here and waits for the application ([`Lower::accept`], [`Lower::reject`]).
    Request,
    /// The peer has accepted: [`Lower::establish`] is next.
    Ready(Box<Terms>),
}

/// Why a decision on a request could not be carried out.
#[derive(Debug)]
pub enum Undecided {
    /// It is gone, or was none.
    Gone,
    /// What the application wants is not possible. The request still waits.
    Misuse(StartMisuse),
    /// The peer has broken the rules meanwhile.
    Failed(ConnectionError),
}

/// What a turn of sending has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Something was sent.
    pub progress: bool,
    /// As much was sent as one turn may: there may be more.
    pub cut_short: bool,
}

/// Why sending can't go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// The port.
    Port(PortError),
    /// Memory went away under a segment of which a part may have been sent: no Terminate can follow.
    Memory,
}

impl From<PortError> for SendError {
    fn from(error: PortError) -> Self {
        Self::Port(error)
    }
}

/// What a turn of receiving has brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Got {
    /// Nothing.
    Nothing,
    /// Something.
    Progress,
    /// The stream takes nothing more.
    Over,
    /// The peer sends no more: behind a whole segment, or in the middle of one.
    End {
        /// Nothing of a segment is missing.
        whole: bool,
    },
}

/// Why receiving can't go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveError {
    /// The peer broke a rule of the lower layer: it is told this.
    Broken(TerminateCode),
    /// A segment broke a rule of DDP or RDMAP, and was not damaged: the stream has judged, and has a Terminate to send.
    Judged,
    /// The memory that a segment was being read into is gone.
    Memory,
    /// The port.
    Port(PortError),
}

/// A request with so many bytes at most may pass the queues: more are worth a system call together with others.
pub const MOST_PASSED: u32 = 128;

/// What became of a packet that was to go out straight into its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passed {
    /// It is laid out, and goes with what is sent next.
    Yes,
    /// It is laid out, and best sent before more is: the peer takes it meanwhile.
    Apart,
    /// There was none.
    Nothing,
    /// Not now: something is to go before it, or there is no room.
    Not,
}

/// What is left to do after the end of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drained {
    /// Nothing could be done.
    Idle,
    /// Something was sent, or thrown away.
    Progress,
    /// Both directions are closed, or the port has failed.
    Over,
}

/// What a lower layer needs of the connection above it.
pub trait Above {
    /// The stream, held until this is dropped: for segments to be sent.
    fn stream(&mut self) -> StreamGuard<'_>;

    /// Where the payload of a segment belongs: `head` is its beginning, [`weft_rdmap::HEAD_LENGTH`] bytes of it or all.
    /// `demand`: what the peer asks of the order of placement, where the lower layer can say such a thing.
    fn locate(&mut self, arrival: Arrival, demand: Demand, length: u32, head: &[u8]) -> Verdict;

    /// The payload is in place and its check was good.
    ///
    /// # Errors
    /// What it completes breaks a rule: the stream knows ([`ReceiveError::Judged`]).
    fn placed(&mut self, placement: &Placement, counters: &mut Counters) -> Result<(), Violation>;

    /// Offers a whole segment, whose check was good, to the message endpoint of this connection. Returns whether it has
    /// taken it: then nothing else is to be done with it.
    fn packet(&mut self, arrival: Arrival, ulpdu: &[u8], io: &mut Io<'_>) -> bool;

    /// Whether a packet of a message endpoint may be sent before what is posted next.
    fn passes_packets(&self) -> bool;

    /// Whether Sends that were put off for want of a receive may come again, because the first of them has one now. The
    /// peer is to be told then: this says so once.
    fn go_on(&mut self) -> bool;
}

/// A lower layer under one connection. No call blocks.
pub trait Lower<N: Network>: Sized {
    /// What a connection is begun with.
    type Opening;
    /// What stands at each datagram port, and answers those that it does not know. `()` where there are none.
    type Door: Send;
    /// It measures times, so [`Io::now`] must be of the very turn: else it may be some turns old.
    const MEASURES_TIME: bool = false;

    // --- set-up

    /// Prepares the first word of a connection that is begun here.
    ///
    /// # Errors
    /// A setting is not possible.
    fn prepare(offer: &Offer, private_data: &[u8]) -> Result<Self::Opening, StartMisuse>;

    /// Begins to connect: over `datagrams` where [`Lower::calls_by_datagrams`] says so.
    ///
    /// # Errors
    /// The address can't be used, or the operating system refused.
    fn connect(
        network: &mut N,
        remote: SocketAddr,
        options: PortOptions,
        opening: Self::Opening,
        datagrams: Option<DatagramKey>,
        io: &mut Io<'_>,
    ) -> Result<Self, PortError>;

    /// It is later than [`Lower::next_timeout`] while the connection is set up: another way may be tried as well.
    fn try_another(&mut self, _network: &mut N, _now: Time) {}

    /// A connection that a peer has begun.
    fn respond(port: N::Port, offer: Offer) -> Self;

    /// The peer has not said what is due within this time.
    fn timed_out(waited_for: Duration) -> StartError;

    /// Goes on with the set-up.
    ///
    /// # Errors
    /// It has failed; [`Lower::fail_start`] is next.
    fn drive_start(&mut self, io: &mut Io<'_>) -> Result<StartStep, ConnectionError>;

    /// Whether the peer's host has not answered yet.
    fn is_connecting(&self) -> bool;

    /// What the network has said of the peer's address so far, which may change: nobody has answered. It is why a call
    /// comes to nothing when its time is over.
    fn doubt(&self) -> Option<PortError> {
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
        io: &mut Io<'_>,
    ) -> Result<Accepted, Undecided>;

    /// Rejects the request that waits; [`Lower::drain`] sends the rest of the answer.
    ///
    /// # Errors
    /// It can't be rejected.
    fn reject(&mut self, private_data: &[u8], io: &mut Io<'_>) -> Result<Drained, Undecided>;

    /// The set-up is over without a connection. Says what the peer is to be told, or breaks the port; what is not said
    /// yet is for [`Lower::drain`].
    fn fail_start(&mut self, error: &ConnectionError, io: &mut Io<'_>) -> Drained;

    /// The connection stands: from here on segments of this stream go and come. Says how the stream is held.
    fn establish(&mut self, stream: Stream, queue_pair: &QueuePair, settings: &Settings) -> StreamCell;

    // --- segments

    /// Takes segments and sends them until the port takes no more, nothing is left, or `most` bytes were sent.
    ///
    /// # Errors
    /// It can't go on.
    fn transmit<A: Above>(&mut self, above: &mut A, most: usize, io: &mut Io<'_>) -> Result<Sent, SendError>;

    /// Receives once, and handles every segment that is whole then.
    ///
    /// # Errors
    /// It can't go on.
    fn receive<A: Above>(&mut self, above: &mut A, io: &mut Io<'_>) -> Result<Got, ReceiveError>;

    /// Whether [`Lower::receive`] and [`Lower::transmit`] would find nothing that has come since they were called last,
    /// which is known without asking the port's system.
    fn is_still(&mut self) -> bool {
        false
    }

    /// Has a packet of at most `most` bytes written straight to where it is sent from. `write` says how long it has
    /// become, or that there is none; it is asked only where a packet can go.
    fn pass_packet<A: Above>(
        &mut self,
        _above: &mut A,
        _most: usize,
        _io: &mut Io<'_>,
        _write: impl FnOnce(&mut [u8]) -> Option<usize>,
    ) -> Passed {
        Passed::Not
    }

    /// Sends a Send or Write of at most [`MOST_PASSED`] bytes at once, from where the caller has it, where it fits one
    /// segment. Returns whether that was done: it is complete then, or the stream has it among those under way
    /// ([`Lower::owes_completion`]). Only where nothing that was taken from the stream waits to be sent
    /// ([`Lower::lets_pass`]), and the stream lets it pass ([`Stream::can_pass`]).
    fn pass_request<A: Above>(&mut self, _above: &mut A, _request: &SendRequest, _io: &mut Io<'_>) -> bool {
        false
    }

    /// Whether a request that passes completes later, when this layer answers for it: then [`Lower::pass_request`]
    /// hands those whose completion is told to [`Stream::pass_owed`].
    fn owes_completion(&self) -> bool {
        false
    }

    /// Whether something that was taken from the stream waits to be sent, or to be acknowledged where the layer sends
    /// again.
    fn has_unsent(&self) -> bool;

    /// Whether a request may go out now before anything that was taken from the stream.
    fn lets_pass(&self, _now: Time) -> bool {
        !self.has_unsent()
    }

    /// Whether it has nothing to do until something comes, the stream has something, or a time has come
    /// ([`Lower::next_timeout`]).
    fn is_idle(&self, _now: Time) -> bool {
        !self.has_unsent() && !self.keeps_time()
    }

    /// Throws away what has not been sent.
    fn clear_unsent(&mut self, io: &mut Io<'_>);

    /// Throws away what has been received of a segment.
    fn clear_received(&mut self, io: &mut Io<'_>);

    /// Bytes of the stream that are here but not handed up: of a segment of which the rest is missing.
    fn received_bytes(&self) -> u32;

    // --- the end, and the ports

    /// Sends what was taken, then tells the peer that nothing more will come. Receiving goes on. What of that can't be
    /// sent at once counts in [`Lower::has_unsent`].
    fn close_send(&mut self);

    /// Breaks the connection at once.
    fn abort(&mut self, io: &mut Io<'_>);

    /// After the end of the stream: sends what waits, tells the peer that this was all, throws away what still comes.
    fn drain(&mut self, io: &mut Io<'_>) -> Drained;

    /// Whether there is nothing to do until something comes, something is posted, or a time has come: then it need
    /// not be looked at. For layers that are brought what has come ([`Io::inbox`]).
    fn rests(&self) -> bool {
        false
    }

    /// Whether the peer has shown that it knows that it was accepted. Until then there is no connection.
    fn is_confirmed(&self) -> bool {
        true
    }

    /// Whether the peer has no receive for a Send that was taken for sending.
    fn lacks_receive(&self) -> bool {
        false
    }

    /// Whether the peer has closed, though not all that was sent to it is in place ([`Got::End`] comes when it is).
    fn is_closed_by_peer(&self) -> bool {
        false
    }

    /// Bytes that the peer's host has not acknowledged, as [`weft_base::Port::unacknowledged`].
    fn unacknowledged(&self) -> usize;

    /// Looks whether the peer's host still answers, as [`weft_base::Port::check_peer`].
    ///
    /// # Errors
    /// It does not.
    fn check_peer(&mut self, now: Time) -> Result<(), PortError>;

    /// The address of this end, where it is known.
    fn local_address(&self) -> Option<SocketAddr>;

    /// The address of the other end.
    fn remote_address(&self) -> SocketAddr;

    /// What carries it, as far as that is decided.
    fn transport(&self) -> Transport;

    /// Whether the peer may lend the payload of its segments ([`weft_base::Port::begin_borrowing`]).
    fn borrows(&self) -> bool {
        false
    }

    /// Adds what others are told of its rails, if it has any.
    fn report_rails(&self, ports: &dyn DatagramPorts, now: Time, reports: &mut Vec<RailReport>) {
        let _ = (ports, now, reports);
    }

    /// How many ports it has, which the network tells of one by one. At most 16, and always as many.
    fn ports(&self) -> usize {
        1
    }

    /// Asks the network to report `token` once when there is something to do at the port with this index. Room is asked
    /// for whenever [`Lower::has_unsent`] says so; a layer that waits for something else leaves that out.
    ///
    /// # Errors
    /// The operating system refused: it is looked at instead.
    fn arm(&mut self, network: &mut N, index: usize, token: Token, interest: Interest) -> Result<(), PortError>;

    /// When it must be driven though nothing has come: retransmissions, delayed acknowledgements, probes.
    fn next_timeout(&self) -> Option<Time> {
        None
    }

    /// Whether [`Lower::next_timeout`] may be earlier than `at`.
    #[inline]
    fn may_time_out_before(&self, _at: Time) -> bool {
        self.keeps_time()
    }

    /// Whether [`Lower::next_timeout`] may say anything.
    #[inline]
    fn keeps_time(&self) -> bool {
        true
    }

    // --- datagram ports, which belong to the engine

    /// Whether a connection that is begun so needs a datagram port.
    fn calls_by_datagrams(_opening: &Self::Opening) -> bool {
        false
    }

    /// What a listener with this offer listens at: ports for streams, and a datagram port with the same number.
    fn listens_at(_offer: &Offer) -> ListensAt {
        ListensAt { streams: true, shared_memory: false, datagrams: false }
    }

    /// What is known of why a call has come to nothing, when its time is over.
    fn why_late(&self) -> Option<StartError> {
        None
    }

    /// Who stands at a new datagram port. `host`: as [`DatagramPorts::host_key`];
    /// `secret`: of this process; `key`: of the job, if it has one.
    fn door(host: [u8; 32], secret: [u8; 32], key: Option<&JobKey>) -> Self::Door;

    /// For whom a datagram is, without looking at whether it is good.
    fn destination(_datagram: &[u8]) -> Destination {
        Destination::Nobody
    }

    /// Whether the payload of a datagram is as it was sent: what an engine looks at that serves a port of another one.
    fn is_good(_datagram: &[u8]) -> bool {
        false
    }

    /// What an engine that serves one of the connection's ports says of what it has sent.
    fn take_told(&mut self, _told: &Told, _now: Time) {}

    /// A datagram is for no connection. What is to be answered is written to `answer`.
    fn knock(_door: &mut Self::Door, _stray: &Stray<'_>, _io: &mut Io<'_>, _answer: &mut Vec<u8>) -> Knocked<Self> {
        Knocked::Nothing
    }

    /// By what datagrams find it, and the port that it uses; `None` where it has ports of its own.
    fn names(&self) -> Option<(DatagramKey, Names)> {
        None
    }

    /// Whose datagram begins like this: somebody on the way quotes it.
    fn quoted(_quote: &[u8]) -> Destination {
        Destination::Nobody
    }

    /// Somebody on the way says something about what was sent, and quotes it: see [`Lower::quoted`].
    fn take_hint(&mut self, _hint: &Hint, _now: Time) {}
}

/// What comes of a datagram that is for no connection.
#[derive(Debug)]
pub enum Knocked<L> {
    /// Nothing.
    Nothing,
    /// A connection that is to be decided about.
    Call(L),
    /// A caller was refused, which whoever listens is told.
    Refused(ConnectionError),
}

impl<L> Knocked<L> {
    pub(crate) fn map<M>(self, made: impl FnOnce(L) -> M) -> Knocked<M> {
        match self {
            Self::Nothing => Knocked::Nothing,
            Self::Call(lower) => Knocked::Call(made(lower)),
            Self::Refused(error) => Knocked::Refused(error),
        }
    }
}

/// Where a listener listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListensAt {
    /// For streams.
    pub streams: bool,
    /// For streams through shared memory too, where the network has that.
    pub shared_memory: bool,
    /// For datagrams.
    pub datagrams: bool,
}

/// Gives a tag of [`Network::Stack`] its meaning.
pub trait Stack<N: Network> {
    /// The lower layer of that network's connections.
    type Lower: Lower<N>;
}

impl<N: Network> Stack<N> for weft_base::Iwarp {
    type Lower = Mpa<N::Port>;
}

impl<N: Network> Stack<N> for weft_base::Edge {
    type Lower = Edge;
}

impl<N: Network> Stack<N> for weft_base::IwarpOrEdge {
    type Lower = Choice<N>;
}

/// A network whose streams have a lower layer: each whose tag has a meaning.
pub trait Carrier: Network + Sized {
    /// The lower layer.
    type Lower: Lower<Self>;
}

impl<N: Network> Carrier for N
where
    N::Stack: Stack<N>,
{
    type Lower = <N::Stack as Stack<N>>::Lower;
}

/// A stream: the engine's own, or shared with calling threads that do a stage of its way out.
pub enum StreamCell {
    /// The engine's own.
    Own(Box<Stream>),
    /// Shared.
    Shared(Arc<Mutex<Stream>>),
}

impl StreamCell {
    /// Holds it.
    #[inline]
    pub fn hold(&mut self) -> StreamGuard<'_> {
        match self {
            Self::Own(stream) => StreamGuard::Own(stream),
            Self::Shared(stream) => StreamGuard::Shared(stream.lock()),
        }
    }
}

/// A stream, held.
pub enum StreamGuard<'a> {
    /// The engine's own.
    Own(&'a mut Stream),
    /// Shared.
    Shared(MutexGuard<'a, Stream>),
}

impl Deref for StreamGuard<'_> {
    type Target = Stream;

    #[inline]
    fn deref(&self) -> &Stream {
        match self {
            Self::Own(stream) => stream,
            Self::Shared(stream) => stream,
        }
    }
}

impl DerefMut for StreamGuard<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Stream {
        match self {
            Self::Own(stream) => stream,
            Self::Shared(stream) => stream,
        }
    }
}
