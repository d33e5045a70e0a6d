//! The states of a connection (RFC 9293 section 3.3.2). LISTEN is a [`Listener`](crate::Listener).

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// A SYN was sent.
    SynSent,
    /// SYNs have crossed, or one was answered; the last acknowledgement is missing.
    SynReceived,
    /// Data goes both ways.
    Established,
    /// This side has closed, and the peer has not acknowledged it.
    FinWait1,
    /// This side has closed; the peer continues to send.
    FinWait2,
    /// The peer has closed; this side may continue to send.
    CloseWait,
    /// Both have closed, at one time.
    Closing,
    /// Both have closed, the peer first; its last acknowledgement is missing.
    LastAck,
    /// Both have closed; segments that are still in flight are waited for.
    TimeWait,
    /// There is nothing any more.
    Closed,
}

/// What moves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// Both SYNs have come and are acknowledged.
    Synchronised,
    /// The user closes.
    Close,
    /// The peer acknowledged the FIN.
    FinAcknowledged,
    /// The peer's FIN came, with all before it.
    FinReceived,
}

impl State {
    pub(crate) const fn on(self, event: Event) -> Self {
        use {Event::*, State::*};
        match (self, event) {
            (SynSent | SynReceived, Synchronised) => Established,
            // RFC 9293 section 3.10.4: no peer knows of it yet.
            (SynSent, Close) => Closed,
            (Established, Close) => FinWait1,
            (CloseWait, Close) => LastAck,
            (FinWait1, FinAcknowledged) => FinWait2,
            (Closing, FinAcknowledged) => TimeWait,
            (LastAck, FinAcknowledged) => Closed,
            (Established, FinReceived) => CloseWait,
            (FinWait1, FinReceived) => Closing,
            (FinWait2, FinReceived) => TimeWait,
            (state, _) => state,
        }
    }

    /// Whether both directions know their sequence numbers.
    #[must_use]
    pub const fn is_synchronised(self) -> bool {
        !matches!(self, Self::SynSent | Self::SynReceived | Self::Closed)
    }
}

#[cfg(test)]
mod tests {
    use super::{Event::*, State::*};

    /// Figure 5 of RFC 9293: each way from established to closed.
    #[test]
    fn the_ways_to_the_end() {
        for (events, states) in [
            (&[Close, FinAcknowledged, FinReceived][..], &[FinWait1, FinWait2, TimeWait][..]),
            (&[Close, FinReceived, FinAcknowledged], &[FinWait1, Closing, TimeWait]),
            (&[FinReceived, Close, FinAcknowledged], &[CloseWait, LastAck, Closed]),
        ] {
            let mut state = SynReceived.on(Synchronised);
            for (event, expected) in events.iter().zip(states) {
                state = state.on(*event);
                assert_eq!(state, *expected, "{events:?}");
            }
        }
    }

    #[test]
    fn the_end_is_the_end() {
        for event in [Synchronised, Close, FinAcknowledged, FinReceived] {
            assert_eq!((Closed.on(event), TimeWait.on(event)), (Closed, TimeWait));
        }
    }
}
