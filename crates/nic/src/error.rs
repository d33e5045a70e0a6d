//! What can go wrong, sorted by whose fault it is.

use core::fmt;
use core::time::Duration;
use std::net::SocketAddr;

use weft_base::PortError;
use weft_memory::MemoryError;
use weft_rdmap::StreamError;

use crate::ids::State;
use crate::offer::{MpaStartError, StartError, StartMisuse, Transport};
use crate::settings::SettingsError;

/// The error text of a call from a callback.
const IN_CALLBACK: &str =
    "called from a callback, which holds the NIC: note there what is to be done, and do it when the callback is over";

/// A command to the NIC was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// A limit of the NIC is reached.
    Limit {
        /// Its name in [`crate::Limits`].
        name: &'static str,
        /// What it is set to.
        limit: u64,
    },
    /// A queue with room for nothing, or for more than [`crate::Limits`] says.
    Depth {
        /// Which setting.
        name: &'static str,
        /// What was requested.
        asked: u64,
        /// The most that can be had.
        most: u64,
    },
    /// The queue pair is not in the state that the call needs.
    State {
        /// The state that it is in.
        state: State,
        /// What was wanted.
        wanted: &'static str,
    },
    /// Things of different protection domains were combined.
    DomainMismatch,
    /// That incoming connection is gone: the peer gave up, or it was not decided in time.
    RequestGone,
    /// That listener was closed.
    ListenerGone,
    /// Settings of the NIC that do not go together.
    Settings(SettingsError),
    /// The event channel belongs to another NIC.
    OtherNic,
    /// This process is a child of the one that opened the NIC, by `fork`: it owns nothing of it.
    Forked,
    /// Called from a callback ([`crate::Completions::complete`] says what that is), which must not use a NIC.
    InCallback,
    /// A setting of the connection is not possible.
    Start(StartMisuse),
    /// The operating system refused.
    Port(PortError),
    /// The registry refused.
    Memory(MemoryError),
    /// The NIC has no engine of this number.
    NoEngine {
        /// The number, from 0.
        asked: usize,
        /// Engines that it has.
        engines: usize,
    },
    /// Nothing happened within the time given.
    TimedOut(Duration),
    /// The connection came to nothing, or ended.
    Connection(ConnectionError),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Limit { name, limit } => {
                write!(f, "the NIC's limit `{name}` of {limit} is reached; raise it in its settings, or release some")
            }
            Self::Depth { name, asked, most } => {
                write!(f, "{name} of {asked} is not possible: it must be between 1 and {most}")
            }
            Self::State { state, wanted } => write!(f, "the queue pair is {state}; it must be {wanted} for this"),
            Self::DomainMismatch => f.write_str("these belong to different protection domains"),
            Self::OtherNic => f.write_str("the event channel belongs to another NIC: make one of this NIC's context"),
            Self::RequestGone => {
                f.write_str("the incoming connection is gone: its peer gave up, or it was not accepted in time")
            }
            Self::ListenerGone => f.write_str("the listener is closed"),
            Self::Settings(error) => write!(f, "{error}"),
            Self::Forked => {
                f.write_str("this process is a child, by fork, of the one that opened the NIC; open another one here")
            }
            Self::InCallback => f.write_str(IN_CALLBACK),
            Self::Start(misuse) => write!(f, "{misuse}"),
            Self::Port(error) => write!(f, "{error}"),
            Self::Memory(error) => write!(f, "{error}"),
            Self::NoEngine { asked, engines } => {
                write!(f, "there is no engine {asked}: the NIC has {engines}, counted from 0 (Settings::engines)")
            }
            Self::TimedOut(after) => write!(f, "nothing happened within {after:?}"),
            Self::Connection(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<SettingsError> for Error {
    fn from(error: SettingsError) -> Self {
        Self::Settings(error)
    }
}

impl From<PortError> for Error {
    fn from(error: PortError) -> Self {
        Self::Port(error)
    }
}

impl From<MemoryError> for Error {
    fn from(error: MemoryError) -> Self {
        Self::Memory(error)
    }
}

impl From<StartMisuse> for Error {
    fn from(misuse: StartMisuse) -> Self {
        Self::Start(misuse)
    }
}

impl From<ConnectionError> for Error {
    fn from(error: ConnectionError) -> Self {
        Self::Connection(error)
    }
}

/// A work request was not taken. Nothing of it happened and it will have no completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PostError {
    /// As many work requests are under way as the queue is deep. Back-pressure: poll the completion queue, then post
    /// again.
    QueueFull {
        /// Work requests.
        depth: usize,
    },
    /// The completion queue has no place left for this request's completion. Poll it, then post again.
    CompletionQueueFull {
        /// Completions.
        capacity: usize,
    },
    /// The queue pair is not connected (yet).
    NotReady(State),
    /// This process is a child of the one that opened the NIC, by `fork`: it owns nothing of it.
    Forked,
    /// Called from a callback ([`crate::Completions::complete`] says what that is), which must not use a NIC.
    InCallback,
    /// The queue pair has ended; nothing can be posted to it any more. [`QueuePair::error`] returns the reason; `None`
    /// if it was closed in order.
    ///
    /// [`QueuePair::error`]: crate::QueuePair::error
    Ended,
    /// The memory can't be used for this.
    Memory(MemoryError),
    /// An operation of RFC 7306 (immediate data, atomics) on a connection whose peer has not agreed to them.
    NotAgreed,
    /// More than [`weft_base::MAX_GATHER`] slices, or more bytes than a message can have (2^32 - 1).
    TooLong,
    /// More bytes than can be sent inline.
    InlineTooLong {
        /// Bytes given.
        length: usize,
        /// The most there may be.
        most: usize,
    },
    /// The place for an atomic operation's result must be exactly 8 bytes.
    AtomicSink {
        /// Bytes given.
        length: u32,
    },
    /// The remote range passes the end of the 64-bit offsets.
    OffsetWraps {
        /// The tagged offset given.
        offset: u64,
        /// Bytes from there.
        length: u32,
    },
    /// The peer takes no reads or atomics at all (its IRD is 0).
    NoReads,
    /// A request with a fence among its flags on a connection that can't keep it ([`ConnectionInfo::fences`]).
    ///
    /// [`ConnectionInfo::fences`]: crate::offer::ConnectionInfo::fences
    NoFences,
    /// This queue pair uses a shared receive queue: post to that.
    SharedReceiveQueue,
}

impl fmt::Display for PostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::QueueFull { depth } => {
                write!(
                    f,
                    "{depth} work requests are under way, as many as the queue is deep; poll completions, then post \
                     again"
                )
            }
            Self::CompletionQueueFull { capacity } => {
                write!(f, "the completion queue has no place left of its {capacity}; poll it, then post again")
            }
            Self::Forked => {
                f.write_str("this process is a child, by fork, of the one that opened the NIC; open another one here")
            }
            Self::InCallback => f.write_str(IN_CALLBACK),
            Self::NotReady(state) => write!(f, "the queue pair is {state}; connect it first"),
            Self::Ended => {
                f.write_str("the queue pair has ended (its `error()` tells why); nothing can be posted to it any more")
            }
            Self::Memory(error) => write!(f, "{error}"),
            Self::NotAgreed => {
                f.write_str("immediate data and atomic operations (RFC 7306) were not agreed with this peer")
            }
            Self::TooLong => {
                write!(f, "a work request may have at most {} slices and 4294967295 bytes", weft_base::MAX_GATHER)
            }
            Self::InlineTooLong { length, most } => {
                write!(f, "{length} bytes can't be sent inline, at most {most} can; use a memory region")
            }
            Self::AtomicSink { length } => {
                write!(f, "the result of an atomic operation needs a slice of exactly 8 bytes, not {length}")
            }
            Self::OffsetWraps { offset, length } => {
                write!(f, "{length} bytes from remote offset {offset:#x} on pass the end of the 64-bit offsets")
            }
            Self::NoFences => f.write_str(
                "a request with a fence needs a connection that keeps it: Edge, shared memory, iWARP without markers",
            ),
            Self::NoReads => f.write_str("the peer takes no reads and no atomic operations (its IRD is 0)"),
            Self::SharedReceiveQueue => {
                f.write_str("this queue pair takes its receives from a shared receive queue: post there")
            }
        }
    }
}

impl std::error::Error for PostError {}

/// A list of work requests was taken only in part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PostFailure {
    /// How many, from the start of the list, were taken and will complete.
    pub posted: usize,
    /// Why the next one was not.
    pub error: PostError,
}

impl fmt::Display for PostFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "after {} work requests: {}", self.posted, self.error)
    }
}

impl std::error::Error for PostFailure {}

/// Why a connection came to nothing, or ended other than by being closed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectionError {
    /// The stream below broke.
    Port(PortError),
    /// The stream below could not be had.
    Connect {
        /// Where to.
        remote: SocketAddr,
        /// Why.
        error: PortError,
    },
    /// The peer has not answered in time.
    NoAnswer {
        /// Where it should be.
        remote: SocketAddr,
        /// For how long.
        waited_for: Duration,
        /// A host has taken the call there, and then sent nothing, or too little: over TCP it has taken the connection,
        /// over Edge it has announced that the answer is pending.
        is_connected: bool,
        /// By what it was called.
        transport: Transport,
    },
    /// The set-up failed: rejected, incompatible, malformed, or too slow.
    Start(StartError),
    /// The RDMA stream ended: by an error that was found here, by the peer's Terminate, or because the stream below was
    /// lost.
    Stream(StreamError),
    /// This side could not begin it: a limit was reached, for example.
    Local(Box<Error>),
    /// The application destroyed the queue pair or closed the NIC.
    Abandoned,
    /// The peer has closed the connection.
    Closed,
    /// The peer has broken the rules of the protocol above RDMA.
    Protocol,
}

impl fmt::Display for ConnectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Port(error) => write!(f, "{error}"),
            Self::Connect { remote, error: PortError::Refused } => {
                write!(f, "connection refused: no listener at {remote}")
            }
            Self::Connect { remote, error } => write!(f, "{error}: {remote}"),
            Self::NoAnswer { remote, waited_for, is_connected: false, .. } => {
                write!(f, "timed out: no answer from {remote} within {waited_for:?}")
            }
            Self::NoAnswer { remote, waited_for, is_connected: true, transport: Transport::Edge } => write!(
                f,
                "timed out: {remote} has heard the call, and its program has not answered it within {waited_for:?}"
            ),
            Self::NoAnswer { remote, waited_for, is_connected: true, .. } => write!(
                f,
                "timed out: {remote} is connected, and its MPA start-up frame did not come within {waited_for:?}: does \
                 it speak MPA?"
            ),
            Self::Start(failure) => write!(f, "{failure}"),
            Self::Stream(error) => write!(f, "{error}"),
            Self::Local(error) => write!(f, "{error}"),
            Self::Abandoned => f.write_str("the queue pair was destroyed"),
            Self::Closed => f.write_str("the peer has closed the connection"),
            Self::Protocol => f.write_str("the peer has broken the rules of the messages' protocol"),
        }
    }
}

impl std::error::Error for ConnectionError {}

impl From<MpaStartError> for ConnectionError {
    fn from(failure: MpaStartError) -> Self {
        Self::Start(failure.into())
    }
}

/// A caller whose set-up has failed before there was anything to decide: it sent no request in time, something that is
/// no request, or more than it may.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedStart {
    /// The caller.
    pub remote: SocketAddr,
    /// What was wrong.
    pub error: ConnectionError,
}
