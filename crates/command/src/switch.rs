//! Features that are on or off.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// A feature that is on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Switch {
    /// It is used
    On,
    /// It is not
    Off,
}
