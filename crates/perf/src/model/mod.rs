//! Plain values that all rooms share: what a launch measures, of which contestant, and the metrics.

pub(crate) mod bound;
pub(crate) mod case;
pub(crate) mod contestant;
pub(crate) mod installation;
pub(crate) mod job;
pub(crate) mod measure;
pub(crate) mod metric;
pub(crate) mod nas;
pub(crate) mod reach;
pub(crate) mod run;
pub(crate) mod size;
pub(crate) mod stack;
pub(crate) mod target;
pub(crate) mod test;
