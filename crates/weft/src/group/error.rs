//! Why a group could not be made or used.

use core::fmt;
use core::time::Duration;
use std::io;
use std::net::SocketAddr;

/// Why a group could not be made or used.
#[derive(Debug)]
pub enum GroupError {
    /// No group has such a rank.
    NoSuchRank {
        /// The rank.
        rank: usize,
        /// The ranks of the group.
        size: usize,
    },
    /// A variable of the environment makes no sense.
    Environment {
        /// Its name.
        name: &'static str,
        /// What it says; nothing when it is not there.
        value: String,
    },
    /// The operating system.
    Io {
        /// What was to be done.
        what: &'static str,
        /// Where.
        address: Option<SocketAddr>,
        /// Why it was not.
        error: io::Error,
    },
    /// The bootstrap server has not answered.
    NoAnswer {
        /// Where it should be.
        address: SocketAddr,
        /// How long it was waited for.
        waited_for: Duration,
    },
    /// What the bootstrap server says: which rank has not come, is lost, or does not belong here.
    Told(String),
    /// More than a rank may give.
    TooLong {
        /// Bytes.
        length: usize,
        /// Bytes that are possible.
        most: usize,
    },
    /// The bootstrap server or the launcher has sent something that is not in its protocol.
    Protocol(String),
    /// The launcher speaks PMIx, and a request to it has failed or has returned an invalid value.
    Pmix(weft_pmix::Error),
}

impl fmt::Display for GroupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchRank { rank, size } => {
                let most = super::limits::MOST_RANKS;
                write!(f, "rank {rank} of {size}: ranks are numbered from 0, and at most {most}")
            }
            Self::Environment { name, value } if value.is_empty() => write!(f, "{name} is not set, or empty"),
            Self::Environment { name, value } => write!(f, "{name} is `{value}`, which makes no sense there"),
            Self::Io { what, address: Some(address), error } => write!(f, "cannot {what} at {address}: {error}"),
            Self::Io { what, address: None, error } => write!(f, "cannot {what}: {error}"),
            Self::NoAnswer { address, waited_for } => write!(
                f,
                "the bootstrap server at {address} has not answered within {waited_for:?}: is rank 0 running, and is \
                 that its address?"
            ),
            Self::Told(text) => f.write_str(text),
            Self::TooLong { length, most } => {
                write!(f, "{length} bytes for an exchange between ranks: at most {most} are possible")
            }
            Self::Pmix(error) => error.fmt(f),
            Self::Protocol(text) => write!(f, "not the protocol of a group: {text}"),
        }
    }
}

impl core::error::Error for GroupError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Io { error, .. } => Some(error),
            Self::Pmix(error) => Some(error),
            _ => None,
        }
    }
}
