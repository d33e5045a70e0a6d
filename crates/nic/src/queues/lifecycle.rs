//! The states of a queue pair, and what leads from one to another.
//!
//! | | `Connect` | `Refuse` | `Establish` | `Close` | `End` | `Fail` |
//! |---|---|---|---|---|---|---|
//! | `Idle` | `Connecting` | - | - | - | `Closed` | `Failed` |
//! | `Connecting` | - | `Idle` | `Ready` | `Closing` | `Closed` | `Failed` |
//! | `Ready` | - | - | - | `Closing` | `Closed` | `Failed` |
//! | `Closing` | - | - | - | - | `Closed` | `Failed` |
//! | `Closed` | - | - | - | - | - | - |
//! | `Failed` | - | - | - | - | - | - |
//!
//! A `-`: the event changes nothing. The first end counts. A program that connects a queue pair which is not `Idle`
//! gets an error.

use crate::ids::State;

/// What happens to a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A call, or the answer to one, begins.
    Connect,
    /// It was refused before it began.
    Refuse,
    /// The connection is established.
    Establish,
    /// One side closes.
    Close,
    /// The connection is over, as it should be.
    End,
    /// The connection is over by an error.
    Fail,
}

impl State {
    /// The state after this. `None`: it changes nothing.
    pub(crate) const fn on(self, event: Event) -> Option<Self> {
        match (self, event) {
            (Self::Idle, Event::Connect) => Some(Self::Connecting),
            (Self::Connecting, Event::Refuse) => Some(Self::Idle),
            (Self::Connecting, Event::Establish) => Some(Self::Ready),
            (Self::Connecting | Self::Ready, Event::Close) => Some(Self::Closing),
            (Self::Closed | Self::Failed, _) => None,
            (_, Event::End) => Some(Self::Closed),
            (_, Event::Fail) => Some(Self::Failed),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All pairs, as the table above has them.
    #[test]
    fn the_table_of_states() {
        let events = [Event::Connect, Event::Refuse, Event::Establish, Event::Close, Event::End, Event::Fail];
        let table = State::ALL.map(|state| {
            let after = events.map(|event| state.on(event).map_or("-".to_owned(), |after| format!("{after:?}")));
            format!("{state:?}: {}", after.join(" "))
        });
        assert_eq!(
            table,
            [
                "Idle: Connecting - - - Closed Failed",
                "Connecting: - Idle Ready Closing Closed Failed",
                "Ready: - - - Closing Closed Failed",
                "Closing: - - - - Closed Failed",
                "Closed: - - - - - -",
                "Failed: - - - - - -",
            ]
        );
    }
}
