//! What an application requests of a message endpoint, and what the endpoint reports.

use core::fmt;
use core::time::Duration;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use arrayvec::ArrayVec;
use weft_base::{PeerId, Stag};
use weft_memory::{Buffer, IoBuffer};
pub use weft_message::{Match, Peek};
use weft_wire::message::Refusal;

use crate::error::ConnectionError;
use crate::offer::{NO_DESCRIPTORS, Transport};

/// The most paths to reach one endpoint.
pub const MAX_ADDRESSES: usize = 4;

/// How an endpoint is named: a process that is given the name can reach it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    /// Its id: chosen at random by each endpoint, so that no other at the same address is taken for it. 0: not
    /// known.
    pub id: u64,
    /// The paths that lead to it: a set, of which a lower layer uses one or all. Where it uses one, it takes the first
    /// that leads there.
    pub paths: ArrayVec<SocketAddr, MAX_ADDRESSES>,
    /// The transport by which it is called, if that is known: a caller by another one gets an error that says so, in
    /// place of finding no program.
    pub transport: Option<Transport>,
}

impl Address {
    /// That of an endpoint which is bound to `local`, and reached by these addresses of its host; by that one if there
    /// are none.
    pub(super) fn bound(id: u64, local: SocketAddr, paths: &[IpAddr]) -> Self {
        let mut all: ArrayVec<SocketAddr, MAX_ADDRESSES> = ArrayVec::new();
        for path in paths.iter().take(MAX_ADDRESSES) {
            all.push(SocketAddr::new(*path, local.port()));
        }
        if all.is_empty() {
            all.push(local);
        }
        Self { id: id.max(1), paths: all, transport: None }
    }
}

impl From<SocketAddr> for Address {
    fn from(path: SocketAddr) -> Self {
        Self { id: 0, paths: [path].into_iter().collect(), transport: None }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, path) in self.paths.iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            write!(f, "{comma}{path}")?;
        }
        Ok(())
    }
}

/// Requests that an endpoint had accepted, and that had failed when it was closed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Undelivered {
    /// How many sends, writes, reads and atomics.
    pub requests: u64,
    /// Why the first of them failed.
    pub reason: Option<EndpointFailure>,
}

impl fmt::Display for Undelivered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.reason == Some(EndpointFailure::InCallback) {
            return write!(f, "not closed: {}", EndpointFailure::InCallback);
        }
        let requests = if self.requests == 1 { "request" } else { "requests" };
        write!(f, "closed with {} {requests} not delivered", self.requests)?;
        match &self.reason {
            Some(reason) => write!(f, ": {reason}"),
            None => Ok(()),
        }
    }
}

impl core::error::Error for Undelivered {}

/// When a send, write or atomic completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Level {
    /// Its memory may be used again: the stream below has its bytes, or they are kept.
    #[default]
    TransmitComplete,
    /// It is in the memory that it was meant for.
    Delivered,
}

/// A message to send.
#[derive(Debug)]
pub struct SendPost {
    /// The peer that it goes to.
    pub peer: PeerId,
    /// Its tag; `None` for an untagged message.
    pub tag: Option<u64>,
    /// Immediate data, which comes with it.
    pub data: Option<u64>,
    /// The bytes.
    pub memory: IoBuffer,
    /// The bytes are copied at once if need be: the lender may use its memory again as soon as the call has returned.
    /// For messages up to [`super::EndpointSettings::inject_bytes`].
    pub inject: bool,
    /// When it completes.
    pub level: Level,
    /// Whether to wait until all that was posted to this peer before has completed.
    pub fence: bool,
    /// Given back with the completion.
    pub context: u64,
    /// Given back with the completion.
    pub op_flags: u32,
}

impl SendPost {
    /// An untagged message that completes when its memory may be used again.
    #[must_use]
    pub fn new(peer: PeerId, memory: impl Into<IoBuffer>) -> Self {
        Self {
            peer,
            tag: None,
            data: None,
            memory: memory.into(),
            inject: false,
            level: Level::default(),
            fence: false,
            context: 0,
            op_flags: 0,
        }
    }

    /// With a tag.
    #[must_use]
    pub fn tag(self, tag: u64) -> Self {
        Self { tag: Some(tag), ..self }
    }

    /// With this context.
    #[must_use]
    pub fn context(self, context: u64) -> Self {
        Self { context, ..self }
    }

    /// It completes then.
    #[must_use]
    pub fn level(self, level: Level) -> Self {
        Self { level, ..self }
    }
}

impl ReceivePost {
    /// A receive for an untagged message from any peer.
    #[must_use]
    pub fn new(memory: impl Into<IoBuffer>) -> Self {
        Self { source: None, matching: None, memory: memory.into(), many: None, context: 0, op_flags: 0 }
    }

    /// For a tagged message.
    #[must_use]
    pub fn matching(self, matching: Match) -> Self {
        Self { matching: Some(matching), ..self }
    }

    /// From this peer only.
    #[must_use]
    pub fn from(self, source: PeerId) -> Self {
        Self { source: Some(source), ..self }
    }

    /// With this context.
    #[must_use]
    pub fn context(self, context: u64) -> Self {
        Self { context, ..self }
    }
}

impl TransferPost {
    /// A transfer between this memory and that place.
    #[must_use]
    pub fn new(peer: PeerId, memory: impl Into<IoBuffer>, place: RemotePlace) -> Self {
        Self {
            peer,
            memory: memory.into(),
            place,
            pieces: Vec::new(),
            data: None,
            inject: false,
            level: Level::default(),
            fence: false,
            context: 0,
            op_flags: 0,
        }
    }

    /// With this context.
    #[must_use]
    pub fn context(self, context: u64) -> Self {
        Self { context, ..self }
    }

    /// It completes then.
    #[must_use]
    pub fn level(self, level: Level) -> Self {
        Self { level, ..self }
    }

    /// With immediate data.
    #[must_use]
    pub fn data(self, data: u64) -> Self {
        Self { data: Some(data), ..self }
    }
}

/// A receive.
#[derive(Debug)]
pub struct ReceivePost {
    /// The peer that it is from; `None`: any.
    pub source: Option<PeerId>,
    /// Which tags; `None`: untagged messages.
    pub matching: Option<Match>,
    /// Where to.
    pub memory: IoBuffer,
    /// Takes one message after another, until fewer bytes than this are left.
    pub many: Option<u64>,
    /// Given back with the completion.
    pub context: u64,
    /// Given back with the completion.
    pub op_flags: u32,
}

/// A place in a peer's memory: [`weft_memory::Region::stag`], and [`weft_memory::Region::base`] plus the offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemotePlace {
    /// The region, as its owner announced it.
    pub stag: Stag,
    /// The tagged offset in it.
    pub offset: u64,
}

/// A piece of a peer's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemotePiece {
    /// Where it begins.
    pub place: RemotePlace,
    /// Bytes.
    pub length: u64,
}

/// A write into a peer's memory, or a read from it.
#[derive(Debug)]
pub struct TransferPost {
    /// Whose memory.
    pub peer: PeerId,
    /// This side's memory.
    pub memory: IoBuffer,
    /// The peer's.
    pub place: RemotePlace,
    /// The peer's, where it is in several pieces, one behind the other: as many bytes together as this side's. `place`
    /// does not count then.
    pub pieces: Vec<RemotePiece>,
    /// A write's immediate data: the peer sees a completion with it when the bytes are there.
    pub data: Option<u64>,
    /// As for [`SendPost::inject`]; not for reads.
    pub inject: bool,
    /// When a write completes.
    pub level: Level,
    /// Whether to wait until all that was posted to this peer before has completed.
    pub fence: bool,
    /// Given back with the completion.
    pub context: u64,
    /// Given back with the completion.
    pub op_flags: u32,
}

/// What has completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Completed {
    /// A send.
    Send,
    /// A receive, or one message of a receive of many.
    Receive,
    /// A write.
    Write,
    /// A read.
    Read,
    /// An atomic operation.
    Atomic,
    /// A peer's write with immediate data. `context` and `op_flags` are 0; `length` is that of the write, or, beyond
    /// 1 GiB and for several pieces, of its last part.
    RemoteWrite,
}

/// A completion.
#[derive(Debug)]
pub struct Event {
    /// What has completed.
    pub completed: Completed,
    /// The request's.
    pub context: u64,
    /// The request's.
    pub op_flags: u32,
    /// The message was tagged, for sends and receives.
    pub tagged: bool,
    /// How it ended.
    pub outcome: Result<(), EndpointFailure>,
    /// The peer: the receiver, the sender, the owner of the memory. `None` for a receive that got nothing.
    pub peer: Option<PeerId>,
    /// Bytes: of the message, as far as it is in this side's memory.
    pub length: u64,
    /// Of a message that was received: its tag.
    pub tag: u64,
    /// Immediate data that came with it.
    pub data: Option<u64>,
    /// Where in the receive's memory the message begins.
    pub offset: u64,
    /// The request is over. Only a receive of many reports more than once.
    pub last: bool,
    /// The buffer that was lent, when the request is over and it was one of Rust's own.
    pub buffer: Option<Buffer>,
}

/// Why a request has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndpointFailure {
    /// The message was longer than the receive's memory. What fitted is there.
    Truncated {
        /// Bytes of the whole message.
        length: u64,
        /// Bytes of the memory.
        room: u64,
    },
    /// The application canceled it.
    Canceled,
    /// No connection to the peer could be had. Lists every path that was tried, and what became of it.
    Unreachable(Arc<Attempts>),
    /// The connection to the peer was lost.
    Lost(ConnectionError),
    /// The peer has no such region, or does not grant this right, or its region is shorter.
    Access,
    /// The peer does not do this operation on these elements, or the address is not a multiple of their size.
    Operation,
    /// A limit of this side's memory table was reached.
    NoMemory,
    /// The memory of the operation was not there any more: it was unmapped, or its file was truncated, before it
    /// completed.
    Fault,
    /// The peer could not take part.
    Refused,
    /// The endpoint was closed.
    Closed,
    /// Nothing was closed: the call came from a callback ([`Completions::complete`] says what that is).
    InCallback,
}

/// What was tried to reach a peer, and what became of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempts(pub Vec<Attempt>);

/// One path that was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// From where, if that is known.
    pub local: Option<SocketAddr>,
    /// Where to.
    pub remote: SocketAddr,
    /// What became of it.
    pub failure: AttemptFailure,
}

/// Why a path to a peer was no good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttemptFailure {
    /// No connection.
    Connection(ConnectionError),
    /// Another endpoint listens there.
    SomebodyElse,
    /// What listens there speaks MPA, and is no endpoint.
    Foreign,
    /// What listens there speaks another version of the protocol.
    Version {
        /// That version.
        theirs: u8,
    },
    /// The peer has no room for another connection.
    Full,
    /// This endpoint itself listens there.
    Itself,
    /// The peer knows this endpoint's id, and not the address that the connection came from.
    Elsewhere,
    /// The peer has a job key, and this endpoint has none.
    KeyWanted,
    /// This endpoint has a job key, and the peer has none.
    NoKey,
    /// Both have a job key, and not the same.
    WrongKey,
    /// The peer knows nothing of something that this endpoint insists on.
    Extension,
    /// The peer's process has no file descriptors left for another connection.
    Exhausted,
    /// The peer's address says that it is called by another transport than this endpoint calls by. Nothing was tried.
    Transport {
        /// What this endpoint calls by.
        ours: Transport,
        /// What the peer is called by.
        theirs: Transport,
    },
}

/// Why a request was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndpointError {
    /// As many requests as possible are under way: read completions, and try again.
    Again,
    /// A peer that this endpoint does not know.
    UnknownPeer(PeerId),
    /// Longer than possible.
    TooLong {
        /// What it was.
        what: &'static str,
        /// Its length.
        length: u64,
        /// What is possible.
        most: u64,
    },
    /// Lengths that do not agree, or an operation that these elements do not have.
    Invalid(&'static str),
    /// No message was set aside under this number.
    NotClaimed(u64),
    /// The endpoint is closed.
    Closed,
    /// Called from a callback ([`Completions::complete`] says what that is), which must not use an endpoint.
    InCallback,
    /// The NIC.
    Nic(crate::error::Error),
}

impl AttemptFailure {
    /// What a refusal means to the caller; a tie is none.
    pub(super) fn of(refusal: Refusal) -> Option<Self> {
        match refusal {
            Refusal::Tie => None,
            Refusal::SomebodyElse => Some(Self::SomebodyElse),
            Refusal::Version => Some(Self::Version { theirs: 0 }),
            Refusal::Full => Some(Self::Full),
            Refusal::Itself => Some(Self::Itself),
            Refusal::Elsewhere => Some(Self::Elsewhere),
            Refusal::KeyWanted => Some(Self::KeyWanted),
            Refusal::NoKey => Some(Self::NoKey),
            Refusal::Extension => Some(Self::Extension),
            Refusal::Exhausted => Some(Self::Exhausted),
        }
    }
}

impl fmt::Display for AttemptFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // The address is written before it.
            Self::Connection(ConnectionError::Connect { error, .. }) => error.fmt(f),
            Self::Connection(ConnectionError::NoAnswer { waited_for, is_connected: false, .. }) => {
                write!(f, "timed out: no answer within {waited_for:?}")
            }
            Self::Connection(ConnectionError::NoAnswer {
                waited_for,
                is_connected: true,
                transport: Transport::Edge,
                ..
            }) => write!(f, "timed out: the call arrived, and no endpoint has answered it within {waited_for:?}"),
            Self::Connection(ConnectionError::NoAnswer { waited_for, is_connected: true, .. }) => {
                write!(
                    f,
                    "timed out: connected, and no answer of an endpoint within {waited_for:?}: its program is stopped, \
                     or is no endpoint of Weft"
                )
            }
            Self::Connection(error) => error.fmt(f),
            Self::Foreign => f.write_str("what listens there speaks MPA, and is no endpoint of Weft"),
            Self::SomebodyElse => f.write_str("another endpoint listens there"),
            Self::Version { theirs } => write!(f, "the endpoint there speaks version {theirs} of Weft's messages"),
            Self::Full => f.write_str("the endpoint there has no room for another connection"),
            Self::Exhausted => f.write_str(NO_DESCRIPTORS),
            Self::Transport { ours, theirs } => write!(
                f,
                "this endpoint speaks {}, and the endpoint there {}: set the same transport for both \
                 (FI_WEFT_TRANSPORT)",
                ours.name(),
                theirs.name()
            ),
            Self::Itself => f.write_str("this endpoint itself listens there: the address is one that its own host has"),
            Self::KeyWanted => {
                f.write_str("the endpoint there wants a job key, and this one has none (FI_WEFT_KEY is not set here)")
            }
            Self::NoKey => {
                f.write_str("the endpoint there has no job key, as this one has (FI_WEFT_KEY is not set there)")
            }
            Self::WrongKey => {
                f.write_str("wrong key: the endpoint there has another job key than this one (FI_WEFT_KEY differs)")
            }
            Self::Extension => {
                f.write_str("the endpoint there does not understand all that this one says: it is of an older version")
            }
            Self::Elsewhere => f.write_str(
                "the endpoint there knows this one by other addresses than the one that the connection comes from: \
                 name that one too, or give both a job key, with which it does not matter (FI_WEFT_KEY)",
            ),
        }
    }
}

impl fmt::Display for Attempts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, attempt) in self.0.iter().enumerate() {
            let before = if number == 0 { "" } else { "; " };
            match attempt.local {
                Some(local) => write!(f, "{before}from {} to {}: {}", local.ip(), attempt.remote, attempt.failure)?,
                None => write!(f, "{before}to {}: {}", attempt.remote, attempt.failure)?,
            }
        }
        let is_silent_loopback = |attempt: &Attempt| {
            let is_unanswered = matches!(
                attempt.failure,
                AttemptFailure::Connection(
                    ConnectionError::Connect { .. } | ConnectionError::NoAnswer { is_connected: false, .. }
                )
            );
            is_unanswered && attempt.remote.ip().to_canonical().is_loopback()
        };
        if !self.0.is_empty() && self.0.iter().all(is_silent_loopback) {
            f.write_str(
                "; the peer has offered the loopback alone, which leads to this host itself: if it is on another one, \
                 it must offer an address of its network (FI_WEFT_INTERFACE there)",
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for EndpointFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { length, room } => {
                write!(f, "the message has {length} bytes and the receive room for {room}: the rest is lost")
            }
            Self::Canceled => f.write_str("canceled"),
            Self::Unreachable(attempts) => write!(f, "the peer can't be reached: {attempts}"),
            Self::Lost(error) => write!(f, "the connection to the peer was lost: {error}"),
            Self::Access => f.write_str("the peer grants no such access: no such key, right or range"),
            Self::Operation => f.write_str(
                "the peer does not do this operation there: not for these elements, or the address is not a multiple \
                 of their size",
            ),
            Self::NoMemory => f.write_str("this side's memory table is full"),
            Self::Fault => f.write_str(
                "the operation's memory is not there any more: it was unmapped, or its file was truncated, before it \
                 completed",
            ),
            Self::Refused => f.write_str("the peer could not take part: it has no memory for it"),
            Self::Closed => f.write_str("the endpoint was closed"),
            Self::InCallback => crate::error::Error::InCallback.fmt(f),
        }
    }
}

impl core::error::Error for EndpointFailure {}

impl fmt::Display for EndpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Again => f.write_str("as many requests as possible are under way: read completions and try again"),
            Self::UnknownPeer(peer) => write!(f, "this endpoint knows no peer {}", peer.0),
            Self::TooLong { what, length, most } => write!(f, "{what} of {length} bytes: at most {most} are possible"),
            Self::Invalid(what) => f.write_str(what),
            Self::NotClaimed(number) => write!(f, "no message was set aside under {number:#x}"),
            Self::Closed => f.write_str("the endpoint is closed"),
            Self::InCallback => crate::error::Error::InCallback.fmt(f),
            Self::Nic(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for EndpointError {}

impl From<crate::error::Error> for EndpointError {
    fn from(error: crate::error::Error) -> Self {
        Self::Nic(error)
    }
}

/// What is wrong though no request has failed yet.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// A peer's host has taken the connection, and its program does not answer.
    NoReply {
        /// Where it should be.
        remote: SocketAddr,
        /// For how long a connection has been wanted.
        waited_for: Duration,
        /// After how long it counts as unreachable
        /// ([`EndpointSettings::reply_timeout`](super::EndpointSettings::reply_timeout)).
        until: Option<Duration>,
    },
    /// This process has no file descriptors left for another connection: callers are refused until it has.
    NoDescriptors {
        /// How many it may have, if that is known.
        limit: Option<u64>,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoReply { remote, waited_for, until } => {
                let waited_for = waited_for.as_secs();
                write!(
                    f,
                    "the host at {remote} has taken the connection, and its program has not answered for \
                     {waited_for} s: it does not run its NIC, or is stopped, or another program has this port"
                )?;
                match until {
                    Some(until) => {
                        write!(f, "; waiting until {} s are over (FI_WEFT_TUNE=reply_timeout=...)", until.as_secs())
                    }
                    None => f.write_str("; waiting on"),
                }
            }
            Self::NoDescriptors { limit } => {
                f.write_str("no file descriptors are left for another connection")?;
                if let Some(limit) = limit {
                    write!(f, ": this process may have {limit}")?;
                }
                f.write_str("; peers that call are refused until there are: raise the limit (`ulimit -n`)")
            }
        }
    }
}

/// Where an endpoint's completions go.
pub trait Completions: Send + Sync {
    /// Something has completed.
    ///
    /// Called by the thread that runs the NIC, under the lock of the engine: nothing else of that engine moves until it
    /// returns, so it should only note what has happened, and wake the thread that does the rest. It can't use an
    /// endpoint or a NIC, neither this one nor another one, from this thread:
    /// - posting, opening, closing, connecting and listening fail: [`EndpointError::InCallback`],
    ///   [`Error::InCallback`](crate::Error::InCallback), [`PostError::InCallback`](crate::PostError::InCallback);
    /// - calls that wait do not: they take what is there and return;
    /// - calls that report no error do nothing, and answer no, none or zero.
    ///
    /// Receives may be posted to queue pairs and shared receive queues. What is dropped here and needs the NIC for its
    /// end (an endpoint, a queue pair, a listener, the last handle of a NIC) ends on another thread, soon after.
    ///
    /// The same holds for the condition of [`Nic::wait_until`](crate::Nic::wait_until).
    fn complete(&self, event: Event);

    /// Something is wrong that would else only show as a standstill. A program should print it. Called as
    /// [`Completions::complete`] is, with the same rules. Without one of its own an implementation ignores it.
    fn warn(&self, _warning: &Warning) {}
}
