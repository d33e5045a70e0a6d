//! The bytes of a message at its receiver, and what an event requires of each kind.
//!
//! | | `Match` | `Written` | `Discard` | `Lose` |
//! |---|---|---|---|---|
//! | `Empty` | `Finish` | violation | `Finish` | `Keep` |
//! | `Short` | `Place` | violation | `Finish` | `Keep` |
//! | `Partial` | `PlacePart` | violation | `Drop` | `Lose` |
//! | `Asked` | `Clear` | violation | `Answer` | `Lose` |
//! | `Buffer`, not written | `Wait` | `Fill` | `Wait` | `Lose` |
//! | `Buffer`, written | `Unload` | violation | `Finish` | `Keep` |
//! | `Direct` | `Wait` | `Conceal` | `Finish` | `Lose` |
//! | `Source` | `Read` | violation | `Finish` | `Lose` |
//! | `Lost` | `Fail` | violation | `Finish` | `Lose` |
//!
//! `Asked` becomes a `Buffer` when there is one within the budget, or `Direct` when a receive takes the message;
//! `Partial` becomes `Short` when its last byte is here; all become `Lost` when their sender is lost while a program
//! has claimed the message.

use super::terms::Violation;
use crate::host::{BufferId, Failure, Parts};

/// The bytes of a message.
pub(super) enum Body {
    /// They were in the packet.
    Empty,
    Short(Vec<u8>),
    /// The first `here` bytes were received. Those received before the message matched its receive are kept.
    Partial {
        bytes: Vec<u8>,
        here: u64,
    },
    /// The sender waits to be told where to write them.
    Asked {
        id: u64,
    },
    /// The sender writes them into a buffer.
    Buffer {
        buffer: BufferId,
        is_written: bool,
    },
    /// The sender writes them into the receive's memory.
    Direct,
    /// We read them.
    Source(Reading),
    /// The sender was lost before they were received.
    Lost,
}

/// The progress of reading.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) source: Parts,
    /// The part that is read next, and the offset in it.
    pub(super) part: usize,
    pub(super) part_offset: u64,
    /// Bytes of the message before that.
    pub(super) position: u64,
    pub(super) under_way: usize,
    pub(super) failure: Option<Failure>,
}

impl Reading {
    pub(super) const fn new(source: Parts) -> Self {
        Self { source, part: 0, part_offset: 0, position: 0, under_way: 0, failure: None }
    }
}

/// What happens to a message that has not been received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A receive takes it.
    Match,
    /// The peer has written it.
    Written,
    /// The program does not want it.
    Discard,
    /// Its sender is lost.
    Lose,
}

/// What an event requires.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step<'a> {
    /// Nothing: the next event decides.
    Wait,
    /// All bytes go into the receive; the message is finished.
    Place(&'a [u8]),
    /// These go into the receive, and those that follow directly.
    PlacePart(&'a [u8]),
    /// The buffer goes into the receive; the message is finished.
    Unload(BufferId),
    /// The buffer holds the message now.
    Fill,
    /// The peer no longer has access to the receive; the message is finished.
    Conceal,
    /// The sender is told to write into the receive.
    Clear,
    /// The sender is told that its message was taken.
    Answer(u64),
    /// The message is read.
    Read,
    /// What is here is dropped, and what follows.
    Drop,
    Finish,
    Fail,
    /// The message is whole: it stays.
    Keep,
    /// The message will never be whole.
    Lose,
}

impl Body {
    /// What an event requires.
    ///
    /// # Errors
    ///
    /// When the peer may not do this to such a message.
    pub(super) fn on(&self, event: Event) -> Result<Step<'_>, Violation> {
        Ok(match (event, self) {
            (Event::Match, Self::Empty) => Step::Finish,
            (Event::Match, Self::Short(bytes)) => Step::Place(bytes),
            (Event::Match, Self::Partial { bytes, .. }) => Step::PlacePart(bytes),
            (Event::Match, Self::Asked { .. }) => Step::Clear,
            (Event::Match, Self::Buffer { buffer, is_written: true }) => Step::Unload(*buffer),
            (Event::Match, Self::Source(_)) => Step::Read,
            (Event::Match, Self::Lost) => Step::Fail,
            (Event::Match, Self::Buffer { is_written: false, .. } | Self::Direct)
            | (Event::Discard, Self::Buffer { is_written: false, .. }) => Step::Wait,
            (Event::Written, Self::Buffer { is_written: false, .. }) => Step::Fill,
            (Event::Written, Self::Direct) => Step::Conceal,
            (Event::Written, _) => {
                return Err(Violation("a message is written that was not cleared, or was written before"));
            }
            (Event::Discard, Self::Partial { .. }) => Step::Drop,
            (Event::Discard, Self::Asked { id }) => Step::Answer(*id),
            (Event::Discard, _) => Step::Finish,
            (Event::Lose, Self::Empty | Self::Short(_) | Self::Buffer { is_written: true, .. }) => Step::Keep,
            (Event::Lose, _) => Step::Lose,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bodies() -> [(&'static str, Body); 9] {
        let buffer = BufferId(4);
        [
            ("Empty", Body::Empty),
            ("Short", Body::Short(vec![1])),
            ("Partial", Body::Partial { bytes: vec![1], here: 1 }),
            ("Asked", Body::Asked { id: 7 }),
            ("Buffer, not written", Body::Buffer { buffer, is_written: false }),
            ("Buffer, written", Body::Buffer { buffer, is_written: true }),
            ("Direct", Body::Direct),
            ("Source", Body::Source(Reading::new(Parts::new()))),
            ("Lost", Body::Lost),
        ]
    }

    fn cell(body: &Body, event: Event) -> String {
        let step = body.on(event).map(|step| format!("{step:?}"));
        step.unwrap_or_else(|_| "violation".to_owned()).split('(').next().expect("there is a first piece").to_owned()
    }

    /// All pairs, as the table above has them.
    #[test]
    fn the_table_of_bodies() {
        let table = bodies().map(|(name, body)| {
            let steps = [Event::Match, Event::Written, Event::Discard, Event::Lose].map(|event| cell(&body, event));
            format!("{name}: {}", steps.join(" "))
        });
        assert_eq!(
            table,
            [
                "Empty: Finish violation Finish Keep",
                "Short: Place violation Finish Keep",
                "Partial: PlacePart violation Drop Lose",
                "Asked: Clear violation Answer Lose",
                "Buffer, not written: Wait Fill Wait Lose",
                "Buffer, written: Unload violation Finish Keep",
                "Direct: Wait Conceal Finish Lose",
                "Source: Read violation Finish Lose",
                "Lost: Fail violation Finish Lose",
            ]
        );
    }

    #[test]
    fn what_a_step_needs_comes_with_it() {
        assert_eq!(Body::Short(vec![1, 2]).on(Event::Match), Ok(Step::Place(&[1, 2])));
        assert_eq!(Body::Asked { id: 7 }.on(Event::Discard), Ok(Step::Answer(7)));
    }
}
