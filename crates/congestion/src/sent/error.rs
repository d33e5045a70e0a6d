//! Calls that change nothing: why.

use core::fmt;

/// Why a packet was not recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// As many packets as the limit are not yet acknowledged.
    Full {
        /// The limit, in packets.
        limit: usize,
    },
    /// Numbers go up one by one, and are never used twice.
    Number {
        /// What was given.
        number: u64,
        /// What comes next.
        expected: u64,
    },
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full { limit } => {
                write!(f, "{limit} packets are under way, which is the limit; wait for acknowledgements")
            }
            Self::Number { number, expected } => {
                write!(f, "packet number {number} was given where {expected} comes next; numbers go up one by one")
            }
        }
    }
}

impl std::error::Error for SendError {}

/// Why an acknowledgement was refused. It changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckError {
    /// It has no range.
    Empty,
    /// It names a packet that was never sent: an error of the peer's, or a forgery.
    NeverSent {
        /// The number that it names.
        number: u64,
        /// The first number that was not sent yet.
        next: u64,
    },
    /// Its ranges do not go down, overlap, or end before they begin.
    Disorder {
        /// The first number of the range at fault.
        start: u64,
        /// Its last.
        end: u64,
    },
}

impl fmt::Display for AckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "an acknowledgement without a range; it must name one packet at least"),
            Self::NeverSent { number, next } => {
                write!(f, "packet {number} is acknowledged but was never sent (the next number is {next}); drop it")
            }
            Self::Disorder { start, end } => {
                write!(f, "range {start}..={end} of an acknowledgement is empty, or not below the one before; drop it")
            }
        }
    }
}

impl std::error::Error for AckError {}
