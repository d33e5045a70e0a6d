//! The life of a link, the connection of an endpoint, as one table.
//!
//! ```text
//!               Established  Ended
//! Opening       Up           Ending    opened by us, over a path of the peer
//! Unproven      Up           Ending    opened by a caller, which has yet to prove that it has the key
//! Unconfirmed   Up           Ending    opened by a caller, which was answered and has yet to confirm
//! Up            .            Ending    established
//! Ending        .            .         its end is under way, or has come
//! ```
//!
//! A link is made in one of the first three; it is removed when its queue pair has ended.

/// Where a link is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Being opened, by us, over this path.
    Opening(usize),
    /// Opened by a caller, which has yet to prove that it has the key.
    Unproven,
    /// Opened by a caller, which was answered and has yet to confirm.
    Unconfirmed,
    /// It is established.
    Up,
    /// Its end is under way, or has come.
    Ending,
}

/// What changes the phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// Both ends know that the other is there, and which peer it is: the peer has answered well, or the caller has
    /// proved or confirmed what it has yet to.
    Established,
    /// One of the ends does not want it any more, or it was not to be.
    Ended,
}

impl Phase {
    /// What follows.
    pub(super) const fn on(self, event: Event) -> Self {
        match (self, event) {
            (Self::Opening(_) | Self::Unproven | Self::Unconfirmed, Event::Established) => Self::Up,
            (Self::Up | Self::Ending, Event::Established) => self,
            (_, Event::Ended) => Self::Ending,
        }
    }

    /// Whether what arrives must wait until its peer is known.
    pub(super) const fn is_early(self) -> bool {
        matches!(self, Self::Opening(_) | Self::Unproven | Self::Unconfirmed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PHASES: [Phase; 5] = [Phase::Opening(0), Phase::Unproven, Phase::Unconfirmed, Phase::Up, Phase::Ending];
    const EVENTS: [Event; 2] = [Event::Established, Event::Ended];

    /// Every pair of phase and event. `.` stays.
    const TABLE: &str = "
             Established Ended
Opening(0)   Up          Ending
Unproven     Up          Ending
Unconfirmed  Up          Ending
Up           .           Ending
Ending       .           .
";

    #[test]
    fn every_pair_of_phase_and_event() {
        let mut actual = format!("{}\n", EVENTS.map(|event| format!("{event:?}")).join(" "));
        for phase in PHASES {
            let cells = EVENTS.map(|event| match phase.on(event) {
                next if next == phase => ".".to_owned(),
                next => format!("{next:?}"),
            });
            actual += &format!("{phase:?} {}\n", cells.join(" "));
        }
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(&actual), words(TABLE), "\n{actual}");
    }

    #[test]
    fn what_comes_waits_until_the_link_is_established() {
        for phase in PHASES {
            assert_eq!(phase.is_early(), phase.on(Event::Established) != phase, "{phase:?}");
        }
    }
}
