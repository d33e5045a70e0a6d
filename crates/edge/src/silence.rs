//! Whether a rail that does not answer has failed, or the peer is silent, as one table: the state of a rail of several.
//!
//! ```text
//!            Overdue  OtherAnswers  NoneAnswers  Left    Answers
//! Answering  Doubted  .             .            .       .          nothing is overdue
//! Doubted    .        Suspected     .            Failed  Answering  no other rail has answered since
//! Suspected  .        .             Doubted      Failed  Answering  another has: this one has until a time to answer
//! Failed     .        .             .            .       Answering  its packets were retransmitted on others
//! ```
//!
//! When each event happens is decided in `liveness`. With one rail there is no other to distinguish the two, and it
//! stays `Answering`.

use weft_base::Time;

/// The state of a rail, of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Silence {
    /// It answers, or nothing of it is overdue.
    #[default]
    Answering,
    /// It is overdue, and no other rail has answered since: it may be the peer that does not answer.
    Doubted {
        /// When it was found overdue.
        since: Time,
    },
    /// Another rail has answered. The rail has failed if it does not answer until `until`.
    Suspected {
        /// When it was found overdue.
        since: Time,
        /// When it is to be decided.
        until: Time,
    },
    /// The rail has failed: its packets in flight were retransmitted on others.
    Failed,
}

/// What changes the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// Nothing was acknowledged in time, which was found now.
    Overdue(Time),
    /// Another rail has answered later than this one should have. It has until then to answer as well.
    OtherAnswers(Time),
    /// It was to be decided, and no rail answers now.
    NoneAnswers,
    /// Another rail answers, and is sent what was in flight on this one.
    Left,
    /// The rail has answered, or has a new path, of which nothing is overdue.
    Answers,
}

impl Silence {
    /// What follows.
    pub(crate) const fn on(self, event: Event) -> Self {
        match (self, event) {
            (_, Event::Answers) => Self::Answering,
            (Self::Answering, Event::Overdue(since)) => Self::Doubted { since },
            (Self::Doubted { since }, Event::OtherAnswers(until)) => Self::Suspected { since, until },
            (Self::Suspected { since, .. }, Event::NoneAnswers) => Self::Doubted { since },
            (Self::Doubted { .. } | Self::Suspected { .. }, Event::Left) => Self::Failed,
            (state, _) => state,
        }
    }

    /// When it is to be decided whether the rail has failed.
    pub(crate) const fn decided_at(self) -> Option<Time> {
        match self {
            Self::Suspected { until, .. } => Some(until),
            Self::Answering | Self::Doubted { .. } | Self::Failed => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::ZERO;
    const STATES: [Silence; 4] = [
        Silence::Answering,
        Silence::Doubted { since: NOW },
        Silence::Suspected { since: NOW, until: NOW },
        Silence::Failed,
    ];
    const EVENTS: [Event; 5] =
        [Event::Overdue(NOW), Event::OtherAnswers(NOW), Event::NoneAnswers, Event::Left, Event::Answers];

    /// Every pair of state and event. `.` stays.
    const TABLE: &str = "
           Overdue OtherAnswers NoneAnswers Left   Answers
Answering  Doubted .            .           .      .
Doubted    .       Suspected    .           Failed Answering
Suspected  .       .            Doubted     Failed Answering
Failed     .       .            .           .      Answering
";

    /// Its name, without what is in it.
    fn name(what: impl core::fmt::Debug) -> String {
        format!("{what:?}").split(['(', ' ']).next().unwrap_or_default().to_owned()
    }

    #[test]
    fn every_pair_of_state_and_event() {
        let mut actual = format!("{}\n", EVENTS.map(name).join(" "));
        for state in STATES {
            let cells = EVENTS.map(|event| match state.on(event) {
                next if next == state => ".".to_owned(),
                next => name(next),
            });
            actual += &format!("{} {}\n", name(state), cells.join(" "));
        }
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(&actual), words(TABLE), "\n{actual}");
    }

    #[test]
    fn a_rail_stays_overdue_since_it_was_found_so() {
        let at = Time::from_nanos;
        let suspected = Silence::default().on(Event::Overdue(at(1))).on(Event::OtherAnswers(at(5)));
        assert_eq!(
            (suspected, suspected.decided_at()),
            (Silence::Suspected { since: at(1), until: at(5) }, Some(at(5)))
        );
        assert_eq!(suspected.on(Event::NoneAnswers).on(Event::Overdue(at(9))), Silence::Doubted { since: at(1) });
    }
}
