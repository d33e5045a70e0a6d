//! Why a file is not a valid board.

use core::fmt;

use super::limits::{LAYOUT, MAX_COUNTERS, MAX_ENGINES, MAX_ROWS, MAX_TEXT, MAX_WORDS};

/// Why a file is not a valid board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// It does not start with a board's magic.
    Foreign,
    /// It has this other layout.
    Layout(u32),
    /// It is truncated.
    Short {
        /// Bytes that it has.
        is: usize,
        /// Bytes that its header requires.
        must: usize,
    },
    /// A limit of the layout is exceeded.
    Limit {
        /// Engines, at most [`MAX_ENGINES`] and at least 1.
        engines: usize,
        /// Counters, at most [`MAX_COUNTERS`] and at least 1.
        counters: usize,
        /// Bytes of text, at most 64 KiB.
        text: usize,
    },
    /// A table is too large: at most [`MAX_ROWS`](super::MAX_ROWS) rows and [`MAX_WORDS`](super::MAX_WORDS) words.
    Table {
        /// Rows of each engine.
        rows: usize,
        /// Words of each, at least 1.
        words: usize,
    },
    /// The number of names differs from that of counters, or one has a line break.
    Names,
    /// Its name has another process id than its header.
    OtherProcess(u32),
    /// It is a directory, a pipe, a link, or belongs to another user.
    NotOurs,
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign => f.write_str("is not a board of counters"),
            Self::Layout(layout) => {
                write!(f, "has layout {layout}, made by another version of Weft (this one reads layout {LAYOUT})")
            }
            Self::Short { is, must } => write!(f, "has {is} bytes of {must}"),
            Self::Limit { engines, counters, text } => write!(
                f,
                "has {engines} engines, {counters} counters and {text} bytes of text (from 1 to {MAX_ENGINES}, from 1 \
                 to {MAX_COUNTERS}, up to {MAX_TEXT})"
            ),
            Self::Table { rows, words } => {
                write!(f, "has a table of {rows} rows of {words} words (up to {MAX_ROWS}, from 1 to {MAX_WORDS})")
            }
            Self::Names => f.write_str("must have one name for each counter, without line breaks"),
            Self::OtherProcess(pid) => write!(f, "belongs to process {pid}, but its name has another"),
            Self::NotOurs => f.write_str("is not a plain file of this user"),
        }
    }
}

impl std::error::Error for Flaw {}
