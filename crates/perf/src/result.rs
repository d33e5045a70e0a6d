//! The one schema of results: what every measurement writes, and all that tables and pictures are drawn from.
//!
//! A [`Document`] is one measurement: on which machine, by which command, with which settings; its [`Row`]s are the
//! figures, one for each contestant, case and metric, with the value of each launch; its [`Comparison`]s are what may
//! be said of two of them.

mod document;
mod late;
mod row;

pub use document::{Document, FormatError, Machine, Missing, VERSION};
pub use late::Late;
pub use row::{Better, Case, Comparison, Histogram, Launch, Row, Series, Verdict};

/// The contestant for what the headers of TCP leave of a link's rate.
pub(crate) const HEADERS: &str = "bound:headers";
