//! `weft perf`: its command line, and what it starts.

pub(crate) mod arguments;
pub(crate) mod catalogue;
mod condition;
#[cfg(test)]
mod literature;
pub(crate) mod options;
pub(crate) mod run;
pub(crate) mod tests;
