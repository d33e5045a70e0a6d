//! The stages of a message at its sender, and what leads from one to another.
//!
//! | | `Piece` | `Whole` | `Announce` | `Expose` | `Clear` | `Written` | `Taken` |
//! |---|---|---|---|---|---|---|---|
//! | `Queued` | `Streaming` | `Delivering` | `Asked` | `Exposed` | violation | - | violation |
//! | `Streaming` | `Streaming` | `Delivering` | - | - | violation | - | violation |
//! | `Delivering` | - | - | - | - | violation | - | complete |
//! | `Asked` | - | - | - | - | `Writing` | - | complete |
//! | `Writing` | - | - | - | - | violation | `Writing` | `Writing` |
//! | `Exposed` | - | - | - | - | violation | - | complete |
//!
//! A `-`: the event changes nothing. `Whole` completes a message that needs no acknowledgement of its delivery.
//! `Writing` completes once all writes have ended and, where the delivery is acknowledged, the peer has taken the
//! message. A second `Taken` then, or one that was not requested, is a violation.

use weft_wire::message::Outcome;

use super::terms::Violation;
use crate::host::Failure;

/// The progress of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Queued,
    /// Bytes up to this position were sent. The others follow.
    Streaming {
        position: u64,
    },
    /// The peer has all of it, and will report its delivery.
    Delivering,
    /// The peer will tell where to write it.
    Asked,
    Writing(Writing),
    /// The peer reads it.
    Exposed,
}

/// The progress of writing a message into the peer's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Writing {
    under_way: usize,
    failed: Option<Failure>,
    taken: Option<Outcome>,
}

/// What happens to a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// The next bytes were sent, but not the last.
    Piece { bytes: u64 },
    /// The last bytes were sent.
    Whole,
    /// The peer was asked where to write it.
    Announce,
    /// The peer was told where to read it.
    Expose,
    /// The peer has told where to write it; this many writes begin.
    Clear { writes: usize },
    /// One of the writes has ended.
    Written(Result<(), Failure>),
    /// The peer has received it, or never will.
    Taken(Outcome),
}

/// What follows from an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    To(Stage),
    Complete(Result<(), Failure>),
}

impl Stage {
    /// What follows from an event, for a message whose delivery is acknowledged if `delivery`.
    ///
    /// # Errors
    ///
    /// When the peer may not do this at this stage.
    pub(super) fn on(self, event: Event, delivery: bool) -> Result<Step, Violation> {
        Ok(match (self, event) {
            (Self::Queued, Event::Piece { bytes }) => Step::To(Self::Streaming { position: bytes }),
            (Self::Streaming { position }, Event::Piece { bytes }) => {
                Step::To(Self::Streaming { position: position + bytes })
            }
            (Self::Queued | Self::Streaming { .. }, Event::Whole) if delivery => Step::To(Self::Delivering),
            (Self::Queued | Self::Streaming { .. }, Event::Whole) => Step::Complete(Ok(())),
            (Self::Queued, Event::Announce) => Step::To(Self::Asked),
            (Self::Queued, Event::Expose) => Step::To(Self::Exposed),
            (Self::Asked, Event::Clear { writes }) => {
                Writing { under_way: writes, failed: None, taken: None }.step(delivery)
            }
            (_, Event::Clear { .. }) => return Err(Violation("a message is cleared that did not ask for it")),
            (Self::Writing(writing), Event::Written(outcome)) => writing.end_one(outcome).step(delivery),
            (Self::Queued | Self::Streaming { .. }, Event::Taken(_)) => {
                return Err(Violation("a message is taken that was not sent"));
            }
            (Self::Writing(writing), Event::Taken(outcome)) if delivery && writing.taken.is_none() => {
                Writing { taken: Some(outcome), ..writing }.step(delivery)
            }
            (Self::Writing(_), Event::Taken(_)) => {
                return Err(Violation("a message is taken that needs no answer"));
            }
            (_, Event::Taken(outcome)) => Step::Complete(result(outcome)),
            _ => Step::To(self),
        })
    }

    /// Bytes that were sent so far, of a message that goes out in packets.
    pub(super) const fn position(self) -> u64 {
        match self {
            Self::Streaming { position } => position,
            _ => 0,
        }
    }
}

impl Writing {
    const fn end_one(self, outcome: Result<(), Failure>) -> Self {
        let failed = match (self.failed, outcome) {
            (None, Err(failure)) => Some(failure),
            (failed, _) => failed,
        };
        Self { under_way: self.under_way.saturating_sub(1), failed, taken: self.taken }
    }

    /// Complete when all writes have ended, and the peer has answered if it must. A failure needs no answer.
    fn step(self, delivery: bool) -> Step {
        match self {
            Self { under_way: 0, failed: Some(failure), .. } => Step::Complete(Err(failure)),
            Self { under_way: 0, taken: Some(taken), .. } => Step::Complete(result(taken)),
            Self { under_way: 0, .. } if !delivery => Step::Complete(Ok(())),
            _ => Step::To(Stage::Writing(self)),
        }
    }
}

const fn result(outcome: Outcome) -> Result<(), Failure> {
    match outcome {
        Outcome::Done => Ok(()),
        Outcome::Refused => Err(Failure::Refused),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITING: Stage = Stage::Writing(Writing { under_way: 2, failed: None, taken: None });
    const STAGES: [Stage; 6] =
        [Stage::Queued, Stage::Streaming { position: 5 }, Stage::Delivering, Stage::Asked, WRITING, Stage::Exposed];
    const EVENTS: [Event; 7] = [
        Event::Piece { bytes: 3 },
        Event::Whole,
        Event::Announce,
        Event::Expose,
        Event::Clear { writes: 2 },
        Event::Written(Ok(())),
        Event::Taken(Outcome::Done),
    ];

    fn name(stage: Stage) -> String {
        format!("{stage:?}").chars().take_while(char::is_ascii_alphabetic).collect()
    }

    fn cell(stage: Stage, event: Event) -> String {
        match stage.on(event, true) {
            Err(_) => "violation".to_owned(),
            Ok(Step::Complete(outcome)) => format!("complete({outcome:?})"),
            Ok(Step::To(after)) if after == stage => "-".to_owned(),
            Ok(Step::To(after)) => name(after),
        }
    }

    /// All pairs, as the table above has them.
    #[test]
    fn the_table_of_stages() {
        let table = STAGES.map(|stage| {
            let after = EVENTS.map(|event| cell(stage, event));
            format!("{}: {}", name(stage), after.join(" "))
        });
        assert_eq!(
            table,
            [
                "Queued: Streaming Delivering Asked Exposed violation - violation",
                "Streaming: Streaming Delivering - - violation - violation",
                "Delivering: - - - - violation - complete(Ok(()))",
                "Asked: - - - - Writing - complete(Ok(()))",
                "Writing: - - - - violation Writing Writing",
                "Exposed: - - - - violation - complete(Ok(()))",
            ]
        );
    }

    #[test]
    fn pieces_add_up() {
        let first = Stage::Queued.on(Event::Piece { bytes: 3 }, false);
        assert_eq!(first, Ok(Step::To(Stage::Streaming { position: 3 })));
        let second = Stage::Streaming { position: 3 }.on(Event::Piece { bytes: 4 }, false);
        assert_eq!(second, Ok(Step::To(Stage::Streaming { position: 7 })));
        assert_eq!(Stage::Streaming { position: 7 }.on(Event::Whole, false), Ok(Step::Complete(Ok(()))));
    }

    fn writing(under_way: usize, failed: Option<Failure>, taken: Option<Outcome>) -> Stage {
        Stage::Writing(Writing { under_way, failed, taken })
    }

    #[test]
    fn writes_complete_when_all_have_ended_and_the_answer_is_here() {
        let last = writing(1, None, None);
        assert_eq!(last.on(Event::Written(Ok(())), false), Ok(Step::Complete(Ok(()))));
        assert_eq!(last.on(Event::Written(Ok(())), true), Ok(Step::To(writing(0, None, None))));
        let early = last.on(Event::Taken(Outcome::Refused), true);
        assert_eq!(early, Ok(Step::To(writing(1, None, Some(Outcome::Refused)))));
        let refused = writing(1, None, Some(Outcome::Refused)).on(Event::Written(Ok(())), true);
        assert_eq!(refused, Ok(Step::Complete(Err(Failure::Refused))));
    }

    #[test]
    fn a_write_that_failed_decides() {
        let one_of_two = WRITING.on(Event::Written(Err(Failure::PeerLost)), true);
        assert_eq!(one_of_two, Ok(Step::To(writing(1, Some(Failure::PeerLost), None))));
        let last = writing(1, Some(Failure::PeerLost), None).on(Event::Written(Ok(())), true);
        assert_eq!(last, Ok(Step::Complete(Err(Failure::PeerLost))));
    }

    #[test]
    fn an_answer_that_was_not_requested_or_comes_twice_is_a_violation() {
        assert!(WRITING.on(Event::Taken(Outcome::Done), false).is_err());
        assert!(writing(1, None, Some(Outcome::Done)).on(Event::Taken(Outcome::Done), true).is_err());
    }

    #[test]
    fn a_message_without_bytes_is_complete_when_it_is_cleared() {
        assert_eq!(Stage::Asked.on(Event::Clear { writes: 0 }, false), Ok(Step::Complete(Ok(()))));
        assert_eq!(Stage::Asked.on(Event::Clear { writes: 0 }, true), Ok(Step::To(writing(0, None, None))));
    }
}
