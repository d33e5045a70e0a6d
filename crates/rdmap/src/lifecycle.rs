//! How a stream ends, and what is to be done then.

use core::fmt;

use weft_base::InterfaceName;
use weft_wire::terminate::{Terminate, TerminateCode};

use crate::violation::Violation;

/// How the stream below ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Closed {
    /// Both directions were closed, or the peer's was, between two frames.
    Graceful,
    /// The peer closed in the middle of a frame.
    MidFrame,
    /// The peer closed between two frames of one message.
    MidMessage,
    /// The peer, or this side, broke it.
    Reset,
    /// The peer did not answer in time.
    TimedOut,
    /// One of the sides has closed, and the peer has posted no receive in time for a Send that was posted before.
    NoReceive,
    /// The network interface of this host that carried it was deleted.
    InterfaceGone(InterfaceName),
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = match self {
            Self::InterfaceGone(name) => {
                return write!(f, "the network interface {name} of this host, which carried the connection, is gone");
            }
            Self::Graceful => "the connection was closed",
            Self::MidFrame => "the peer closed the connection in the middle of a frame",
            Self::MidMessage => "the peer closed the connection in the middle of a message",
            Self::Reset => "the connection was reset",
            Self::TimedOut => "the peer did not answer in time",
            Self::NoReceive => {
                "the connection was to be closed, and the peer has posted no receive in time for a message that was \
                 sent before: it must post one for each"
            }
        };
        f.write_str(words)
    }
}

/// What ended a stream before its time. The first cause stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamError {
    /// The peer broke the rules, and was sent a Terminate that says so.
    Violation(Violation),
    /// The stream below found an error, and the peer was sent a Terminate that says so.
    Below(TerminateCode),
    /// The peer sent a Terminate.
    Peer(Terminate),
    /// The stream below ended while requests were under way, or not as it should.
    Lost(Closed),
    /// This side aborted.
    Aborted,
}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Violation(violation) => write!(f, "the peer broke the protocol: {violation}"),
            Self::Below(code) => write!(f, "error below RDMA: {code}"),
            Self::Peer(terminate) => write!(f, "the peer ended the stream: {}", terminate.code),
            Self::Lost(how) => write!(f, "{how}"),
            Self::Aborted => f.write_str("aborted by this side"),
        }
    }
}

impl std::error::Error for StreamError {}

/// What the stream below has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Close the sending direction, after everything that was given out has been sent.
    CloseSend,
    /// Break the stream at once.
    Abort,
}
