//! What a device can do at most. It says so (`ibv_query_device`), and keeps to it.

use weft::verbs::{MAX_LISTED, Offer};

/// Scatter and gather entries of a request.
pub(crate) const GATHER: usize = MAX_LISTED;
/// Bytes of inline data.
pub(crate) const INLINE: u32 = 1024;
/// Queue pairs of a process: as many as there are numbers.
pub(crate) const QUEUE_PAIRS: u32 = 4094;
/// Requests of a queue.
pub(crate) const REQUESTS: u32 = 16_384;
/// Entries of a completion queue.
pub(crate) const COMPLETIONS: u32 = 4 << 20;
/// Reads and atomics of a queue pair under way at a time, each way.
pub(crate) const READS: u8 = Offer::READS as u8;
/// Bytes of a message.
pub(crate) const MESSAGE: u32 = 1 << 31;
/// Memory regions.
pub(crate) const REGIONS: u32 = 65_536;
/// Protection domains.
pub(crate) const DOMAINS: u32 = 1024;
