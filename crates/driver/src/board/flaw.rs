//! What is wrong with a file, as a board.

use core::fmt;

use super::limits::{LAYOUT, MAX_COUNTERS, MAX_ENGINES, MAX_ROWS, MAX_TEXT, MAX_WORDS};

/// What is wrong with a file, as a board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// It does not begin as a board does.
    Foreign,
    /// It has this other layout.
    Layout(u32),
    /// It ends too early.
    Short {
        /// Bytes that it has.
        is: usize,
        /// Bytes that it must have for what it says.
        must: usize,
    },
    /// A limit of the layout is passed.
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
    /// There are not as many names as counters, or one has a line break.
    Names,
    /// Its name says another process than its content.
    OtherProcess(u32),
    /// It is a directory, a pipe, a link, or belongs to somebody else.
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
            Self::OtherProcess(pid) => write!(f, "says that it is of process {pid}, its name says otherwise"),
            Self::NotOurs => f.write_str("is not a plain file of this user"),
        }
    }
}

impl std::error::Error for Flaw {}
