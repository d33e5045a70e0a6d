//! Starts the processes of a run, here, in a test network or on another machine, and collects what they measured.

pub(crate) mod bounds;
pub(crate) mod campaign;
pub(crate) mod counting;
pub(crate) mod measurement;
pub(crate) mod outcome;
pub(crate) mod outputs;
pub(crate) mod peer;
pub(crate) mod place;
pub(crate) mod plan;
pub(crate) mod process;
pub(crate) mod protocol;
pub(crate) mod registry;
pub(crate) mod remote;
pub(crate) mod session;
pub(crate) mod traffic;
