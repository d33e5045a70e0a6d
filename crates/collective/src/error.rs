//! What can be wrong, sorted by blame.

use std::error::Error;
use std::fmt;

use crate::{MAX_RANKS, MAX_VALUES};

/// A machine that cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetupError {
    /// The group has no rank, or more than [`MAX_RANKS`].
    Ranks(usize),
    /// This rank is none of the group's.
    NoSuchRank {
        /// The rank that was given.
        rank: usize,
        /// Ranks in the group.
        ranks: usize,
    },
    /// The values of all ranks together are more than [`MAX_VALUES`].
    TooLong {
        /// Values for each rank or in all, as the operation counts them.
        length: usize,
        /// Ranks in the group.
        ranks: usize,
    },
    /// A tree in which no rank has a child.
    NoFan,
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ranks(ranks) => write!(f, "a group of {ranks} ranks: there must be 1 to {MAX_RANKS}"),
            Self::NoSuchRank { rank, ranks } => {
                write!(f, "rank {rank} in a group of {ranks}: ranks are numbered from 0 to {}", ranks.saturating_sub(1))
            }
            Self::NoFan => write!(f, "a tree in which no rank has a child: let each have at least one"),
            Self::TooLong { length, ranks } => {
                write!(
                    f,
                    "{length} values among {ranks} ranks need room for more than {MAX_VALUES}: use fewer at a time"
                )
            }
        }
    }
}

impl Error for SetupError {}

/// A start that was refused; the machine is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartError {
    /// The last operation is still in progress.
    Active,
    /// As many values were given as the operation does not take.
    Length {
        /// Values that it takes.
        expected: usize,
        /// Values that were given.
        found: usize,
    },
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Active => write!(f, "the last operation still goes on: start the next when it is done"),
            Self::Length { expected, found } => write!(f, "{found} values were given: this operation takes {expected}"),
        }
    }
}

impl Error for StartError {}

/// A message that cannot be right. It changed nothing; its sender does not keep to the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerError {
    /// It belongs to an operation that is over, or to one that its sender cannot be in yet.
    Sequence {
        /// The operation that is in progress here, or comes next.
        here: u32,
        /// The operation that the message names.
        found: u32,
    },
    /// The plan has no such round.
    Round {
        /// Rounds of the plan.
        rounds: usize,
        /// The round that the message names.
        found: usize,
    },
    /// In this round another rank sends to this one.
    Sender {
        /// The rank that sends in this round.
        expected: usize,
        /// The rank that sent.
        found: usize,
    },
    /// It has more or fewer values than the round moves.
    Length {
        /// Values that the round moves.
        expected: usize,
        /// Values of the message.
        found: usize,
    },
    /// The message of this round has come before.
    Twice {
        /// The round.
        round: usize,
    },
}

impl fmt::Display for PeerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sequence { here, found } => {
                write!(f, "a message of operation {found} while {here} is the present one")
            }
            Self::Round { rounds, found } => write!(f, "a message of round {found} of an operation of {rounds} rounds"),
            Self::Sender { expected, found } => write!(f, "rank {found} sent in a round in which rank {expected} does"),
            Self::Length { expected, found } => {
                write!(f, "a message of {found} values in a round that moves {expected}")
            }
            Self::Twice { round } => write!(f, "a second message of round {round}"),
        }
    }
}

impl Error for PeerError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_the_value_and_what_is_right() {
        for (error, words) in [
            (SetupError::Ranks(0).to_string(), "a group of 0 ranks: there must be 1 to 65536"),
            (
                SetupError::NoSuchRank { rank: 4, ranks: 4 }.to_string(),
                "rank 4 in a group of 4: ranks are numbered from 0 to 3",
            ),
            (StartError::Length { expected: 8, found: 7 }.to_string(), "7 values were given: this operation takes 8"),
            (PeerError::Sender { expected: 2, found: 3 }.to_string(), "rank 3 sent in a round in which rank 2 does"),
        ] {
            assert_eq!(error, words);
        }
    }
}
