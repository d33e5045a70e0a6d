//! The life of a stream, as one table.

use core::fmt;

use weft_base::InterfaceName;
use weft_wire::terminate::{Terminate, TerminateCode};

use crate::violation::Violation;

/// Where in its life a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Requests are taken, segments go both ways.
    Established,
    /// Closing was asked for: what was posted before is still sent.
    Draining,
    /// Everything was sent and the sending direction is closed. What the peer still sends is taken.
    Closing,
    /// An error was found here: a Terminate is waiting to be sent, or on its way.
    Terminating,
    /// Ended by an error: nothing is sent or taken any more. The stream below has yet to end.
    Failed,
    /// The stream below has ended.
    Closed,
}

impl State {
    /// Whether segments of the peer are taken.
    #[must_use]
    pub const fn receives(self) -> bool {
        matches!(self, Self::Established | Self::Draining | Self::Closing)
    }

    /// Whether messages are sent (a Terminate apart).
    #[must_use]
    pub const fn sends(self) -> bool {
        matches!(self, Self::Established | Self::Draining)
    }

    /// What follows.
    pub(crate) const fn on(self, event: Event) -> Self {
        match (self, event) {
            (_, Event::Ended) => Self::Closed,
            (Self::Established, Event::Close) => Self::Draining,
            (Self::Draining, Event::Drained) => Self::Closing,
            // RFC 5040 section 7.1: an error is told to the peer by a Terminate, ...
            (Self::Established | Self::Draining, Event::Error) => Self::Terminating,
            // ... unless nothing can be sent any more.
            (Self::Closing, Event::Error) => Self::Failed,
            (Self::Terminating, Event::TerminateSent) => Self::Failed,
            (Self::Established | Self::Draining | Self::Closing, Event::PeerTerminate) => Self::Failed,
            (Self::Established | Self::Draining | Self::Closing | Self::Terminating, Event::Abort) => Self::Failed,
            (state, _) => state,
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Established => "established",
            Self::Draining => "closing, and still sends what was posted",
            Self::Closing => "closed for sending",
            Self::Terminating => "ending with an error that the peer is being told",
            Self::Failed => "ended by an error",
            Self::Closed => "closed",
        })
    }
}

/// What changes the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The user closes.
    Close,
    /// Everything that was posted has been sent and answered.
    Drained,
    /// An error was found, here or in the stream below.
    Error,
    /// Our Terminate has left.
    TerminateSent,
    /// The peer's Terminate was delivered.
    PeerTerminate,
    /// The user aborts.
    Abort,
    /// The stream below has ended.
    Ended,
}

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

#[cfg(test)]
mod tests {
    use super::*;

    const STATES: [State; 6] =
        [State::Established, State::Draining, State::Closing, State::Terminating, State::Failed, State::Closed];
    const EVENTS: [Event; 7] = [
        Event::Close,
        Event::Drained,
        Event::Error,
        Event::TerminateSent,
        Event::PeerTerminate,
        Event::Abort,
        Event::Ended,
    ];

    /// Every pair of state and event. `.` stays.
    const TABLE: &str = "
             Close    Drained Error       TerminateSent PeerTerminate Abort  Ended
Established  Draining .       Terminating .             Failed        Failed Closed
Draining     .        Closing Terminating .             Failed        Failed Closed
Closing      .        .       Failed      .             Failed        Failed Closed
Terminating  .        .       .           Failed        .             Failed Closed
Failed       .        .       .           .             .             .      Closed
Closed       .        .       .           .             .             .      .
";

    #[test]
    fn every_pair_of_state_and_event() {
        let mut actual = String::new();
        for state in STATES {
            let cells = EVENTS.map(|event| match state.on(event) {
                next if next == state => ".".to_owned(),
                next => format!("{next:?}"),
            });
            actual += &format!("{state:?} {}\n", cells.join(" "));
        }
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let header = format!("{}\n", EVENTS.map(|event| format!("{event:?}")).join(" "));
        assert_eq!(words(&(header + &actual)), words(TABLE), "\n{actual}");
    }

    #[test]
    fn nothing_is_taken_after_an_error() {
        for state in STATES {
            let ended = matches!(state, State::Terminating | State::Failed | State::Closed);
            assert_eq!(state.receives(), !ended, "{state:?}");
        }
    }
}
