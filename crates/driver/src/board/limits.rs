//! What a board has room for, and the number of its layout.

/// The number of the layout that this version of Weft writes and reads.
pub(super) const LAYOUT: u32 = 1;

/// Bytes of all text.
pub(super) const MAX_TEXT: usize = 64 * 1024;

/// Engines of a NIC that a board has room for.
pub const MAX_ENGINES: usize = 256;

/// Counters of an engine that a board has room for.
pub const MAX_COUNTERS: usize = 1024;

/// Rows of an engine that a board has room for.
pub const MAX_ROWS: usize = 256;

/// Words of a row that a board has room for.
pub const MAX_WORDS: usize = 32;
