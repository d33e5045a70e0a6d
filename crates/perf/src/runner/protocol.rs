//! What the processes of a run say to each other: lines of JSON.

use serde::{Deserialize, Serialize};

use crate::model::measure::Measured;

/// Name of the subcommand.
pub const PEER_COMMAND: &str = "perf-peer";

/// The longest line, in bytes.
pub(crate) const LINE_LIMIT: u64 = 64 << 10;

/// What a side says.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Said {
    /// It is ready, and this is where it is.
    Address(String),
    /// It is done, and this is what it saw.
    Measured(Measured),
    /// It cannot continue.
    Failed(String),
}
