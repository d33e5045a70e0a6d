//! Whose stream is measured.

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// What carries the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Contestant {
    /// Sends over Edge, on all links
    Edge,
    /// Sends over iWARP, which has one link: that one is cut
    Iwarp,
    /// One stream of the kernel's multipath TCP, with a subflow on each link
    Mptcp,
    /// A stream of TCP on each link; the receiver puts the messages in order
    Tcp,
}

impl Contestant {
    /// Links of these that it uses.
    pub(crate) fn links(self, links: usize) -> usize {
        if self == Self::Iwarp { 1 } else { links }
    }

    /// Whether a kernel may be without it.
    pub(crate) fn may_be_missing(self) -> bool {
        self == Self::Mptcp
    }
}

impl fmt::Display for Contestant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_possible_value().map_or(Ok(()), |value| f.pad(value.get_name()))
    }
}
