//! What is drawn and written from results: charts, one page, and comma-separated values.
//!
//! Everything here is a pure function from [`Document`](crate::result::Document)s to text: nothing is measured, no file
//! is read or written, and the same documents give the same text.

mod case;
pub mod chart;
mod claim;
mod contestant;
pub mod csv;
mod markup;
pub mod page;
mod quantity;

pub(crate) use case::describe;
pub use claim::Claim;
pub use contestant::{is_bound, is_weft};
