//! The life of a stream, as one table.

use core::fmt;

/// Where in its life a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Requests are taken, segments go both ways.
    Established,
    /// The user has closed the stream: what was posted before is still sent.
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

    /// Whether nothing more is sent or taken.
    #[must_use]
    pub const fn has_ended(self) -> bool {
        matches!(self, Self::Failed | Self::Closed)
    }

    /// What follows.
    pub(crate) const fn on(self, event: Event) -> Self {
        match (self, event) {
            (_, Event::Ended) => Self::Closed,
            (Self::Established, Event::Close) => Self::Draining,
            (Self::Draining, Event::Drained) => Self::Closing,
            // RFC 5040 section 7.1: a Terminate reports an error to the peer, ...
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
