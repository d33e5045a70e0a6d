//! Values that cross the seam: the result of a call, and why one can't be done.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use weft_base::PortError;
use weft_rdmap::StreamConfig;
use weft_wire::terminate::TerminateCode;

use crate::error::ConnectionError;
use crate::offer::{ConnectionInfo, StartMisuse};

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
    /// What the application gets.
    pub info: ConnectionInfo,
}

/// What becomes of a request that was accepted.
#[derive(Debug)]
pub enum Accepted {
    /// The connection is established: [`establish`](super::Setup::establish) is next.
    Stands(Box<Terms>),
    /// The caller has to confirm first, and then [`drive_start`](super::Setup::drive_start) says [`StartStep::Ready`].
    /// The application gets this of the connection.
    Awaits(Box<ConnectionInfo>),
}

/// How far a set-up has come.
#[derive(Debug)]
pub enum StartStep {
    /// Nothing could be done.
    Idle,
    /// Work was done; it continues.
    Progress,
    /// A request is here and waits for the application ([`accept`](super::Setup::accept),
    /// [`reject`](super::Setup::reject)).
    Request,
    /// The peer has accepted: [`establish`](super::Setup::establish) is next.
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
    /// Whole messages and nothing else, which [`StreamSink::packet`](super::StreamSink::packet) has taken: there is
    /// nothing to send or to report that there was not before, [`Readiness`] is as it was, and no time has changed but
    /// [`next_timeout`](super::Pollable::next_timeout) of a layer that is brought what comes.
    Messages,
    /// Whole messages and nothing else as well, for which an acknowledgement is due that an answer of the application
    /// would take along: it waits for that until the next turn, which must drive the connection. The peer may have
    /// acknowledged what was sent.
    MessagesToAnswer,
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
    /// The peer broke a rule of the lower layer: this is sent to it.
    Broken(TerminateCode),
    /// A segment broke a rule of DDP or RDMAP, and was not damaged: the stream has judged, and has a Terminate to send.
    Judged,
    /// The memory that a segment was being read into is gone.
    Memory,
    /// The port.
    Port(PortError),
}

/// The longest request, in bytes, that may pass the queues. Longer ones leave in one system call together with others.
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

/// What became of a short request that was to go out at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassedRequest {
    /// All of it went out, and the lower layer is as it was.
    Gone,
    /// It is sent, and something of it waits, or is to be acknowledged.
    Waits,
    /// Not now: nothing was done.
    Not,
}

/// What there is to do at a lower layer, as it says when it was driven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Readiness {
    /// It is driven in the next turn: it has to poll its ports, or has more to do. A layer that is brought what has
    /// arrived ([`Io::inbox`](super::Io::inbox)) may wait for that, for something that is posted, or for a time.
    pub receive: bool,
    /// Something that was taken from the stream waits to be sent, or to be acknowledged where the layer sends again.
    pub send: bool,
    /// When it is driven, it need not be asked to send until something comes, the stream has something, or a time has
    /// come ([`next_timeout`](super::Pollable::next_timeout)).
    pub idle: bool,
    /// Nothing waits in it, and [`Segments::receive`](super::Segments::receive) mostly brings nothing or
    /// [`Got::Messages`]: while the stream has nothing to do either, a poll needs no more than that.
    pub fast: bool,
}

impl Readiness {
    /// Of a layer that polls its ports, and is driven in each turn.
    #[must_use]
    pub const fn polled(send: bool) -> Self {
        Self { receive: true, send, idle: false, fast: false }
    }
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

/// What arrives of a datagram that is for no connection.
#[derive(Debug)]
pub enum CallOutcome<L> {
    /// Nothing.
    Nothing,
    /// A connection that is to be decided about.
    Call(L),
    /// A caller was refused, which the listener reports.
    Refused(ConnectionError),
}

impl<L> CallOutcome<L> {
    pub(crate) fn map<M>(self, made: impl FnOnce(L) -> M) -> CallOutcome<M> {
        match self {
            Self::Nothing => CallOutcome::Nothing,
            Self::Call(lower) => CallOutcome::Call(made(lower)),
            Self::Refused(error) => CallOutcome::Refused(error),
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
