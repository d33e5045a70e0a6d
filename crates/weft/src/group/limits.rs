//! Limits of a group.

use core::time::Duration;

/// The most ranks.
pub(super) const MOST_RANKS: usize = 65_536;
/// The most bytes that one rank gives to an exchange.
pub(super) const MOST_BYTES: usize = 16 * 1024;
/// How long ranks wait for each other by default.
pub(super) const LIMIT: Duration = Duration::from_secs(60);
