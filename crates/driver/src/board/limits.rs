//! Limits of a board, and the number of its layout.

/// The number of the layout that this version of Weft writes and reads.
pub(super) const LAYOUT: u32 = 1;

/// Bytes of all text.
pub(super) const MAX_TEXT: usize = 64 * 1024;

/// The maximum number of a board's engines.
pub const MAX_ENGINES: usize = 256;

/// The maximum number of counters of an engine.
pub const MAX_COUNTERS: usize = 1024;

/// The maximum number of table rows of an engine.
pub const MAX_ROWS: usize = 256;

/// The maximum number of words of a row.
pub const MAX_WORDS: usize = 32;
