//! How requests end.

use core::fmt;

use weft_base::Stag;
use weft_wire::rdmap::AtomicCode;

/// How a request ended. There is exactly one for each request, but none for a send request that succeeded and was not
/// signaled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The request's own number.
    pub id: u64,
    /// What it was.
    pub kind: CompletionKind,
    /// How it ended.
    pub status: Status,
    /// Bytes of the message: sent, read, or received; for immediate data that were received, those of the Write right
    /// before them. What a failed request has moved is unknown; it says 0.
    pub length: u32,
    /// The immediate data that was received: 64 bits, or 32 with a Send.
    pub immediate: Option<u64>,
    /// The STag that the peer requested to invalidate, and that is invalid now.
    pub invalidated: Option<Stag>,
    /// Whether the peer requested an event.
    pub solicited: bool,
}

/// What kind of request has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompletionKind {
    /// A Send.
    Send,
    /// A Write.
    Write,
    /// A Write with immediate data.
    WriteImmediate,
    /// Immediate data alone.
    Immediate,
    /// A Read.
    Read,
    /// An atomic operation.
    Atomic(AtomicCode),
    /// A receive: a Send came, or the receive failed.
    Receive,
    /// A receive that immediate data used up. Its buffer is untouched.
    ReceiveImmediate,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// It was done.
    Success,
    /// The stream ended before it was done. Whether the peer saw it is unknown (RFC 5040 section 6.2.1). The error of
    /// the stream or queue pair says why it ended; it is there before the first of these completions.
    Flushed,
    /// The message that came was longer than the receive buffer.
    LocalLength,
    /// The local buffer was not there any more, or the peer requested to invalidate an STag that it may not.
    LocalProtection,
    /// The peer refused access to its memory: STag, bounds or rights.
    RemoteAccess,
    /// The peer could not do it.
    RemoteOperation,
    /// The peer found the message itself wrong: no receive was posted there, or too short a one.
    RemoteInvalidRequest,
    /// The peer posted no receive for the message as long as it was waited for.
    NoReceive,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Success => "success",
            Self::Flushed => {
                "flushed: the connection ended before the request was done; the queue pair's `error()` tells why"
            }
            Self::LocalLength => "the message is longer than the receive buffer",
            Self::LocalProtection => "the local buffer or STag may not be used for this",
            Self::RemoteAccess => "the peer refused access to its memory (STag, bounds or rights)",
            Self::RemoteOperation => "the peer could not do the operation",
            Self::NoReceive => "the peer posted no receive for the message in time",
            Self::RemoteInvalidRequest => "the peer had no receive buffer for the message, or too short a one",
        })
    }
}
