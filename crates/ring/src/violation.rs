//! What the other side of a ring can do wrong.

use core::fmt;

/// The other side broke the rules of the ring, or something scribbled on it. The ring can't be used any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// The producer says that it has written up to a place that is behind what it said before, or beyond what the ring
    /// holds.
    Produced {
        /// The position.
        said: u64,
        /// The least that it could be.
        least: u64,
        /// The most.
        most: u64,
    },
    /// The consumer says that it has read up to a place that is behind what it said before, or that was never written.
    Consumed {
        /// The position.
        said: u64,
        /// The least that it could be.
        least: u64,
        /// The most.
        most: u64,
    },
    /// The producer said that nothing more would come, and then something else.
    AfterEnd {
        /// The position now.
        said: u64,
        /// The position of the end.
        end: u64,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Produced { said, least, most } => {
                write!(f, "the other side of the ring says it wrote up to {said}, which must be {least} to {most}")
            }
            Self::Consumed { said, least, most } => {
                write!(f, "the other side of the ring says it read up to {said}, which must be {least} to {most}")
            }
            Self::AfterEnd { said, end } => {
                write!(f, "the other side of the ring ended at {end} and now says {said}")
            }
        }
    }
}

impl core::error::Error for Violation {}
