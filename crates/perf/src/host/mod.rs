//! The machine that measures: what it is, what else it does, and what measurements need of it.

pub(crate) mod distance;
pub(crate) mod environments;
pub(crate) mod versions;
pub(crate) mod watch;
pub(crate) mod work;
