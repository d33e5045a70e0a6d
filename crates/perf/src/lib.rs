//! Measurements of Weft and its peers: experiments, contestants, results, and what is drawn from them.
//!
//! An experiment is a list of cases (`experiments`); each case is measured in several launches of each contestant
//! (`contestants`), which take turns (`runner`). Each launch is two or more fresh processes, all driven by one over a
//! line of JSON at a time. [`result`] is the one schema that all measurements are written in, and all tables and
//! pictures are drawn from ([`report`]); [`statistics`] is what may be said of a few launches.
//!
//! The rooms are floors: each uses only those below it, and no file is part of a circle of imports; `imports.rs` of
//! the command's tests keeps that.
#![forbid(unsafe_code)]

mod command;
mod contestants;
mod experiments;
mod figures;
mod host;
mod model;
mod mpi;
pub mod report;
pub mod result;
mod runner;
pub mod statistics;

pub use command::arguments::Arguments;
pub use command::run::run;
pub use contestants::ucx::find as find_ucx;
pub use experiments::cuts::side::{SIDE_COMMAND as CUTS_COMMAND, Side as CutsSide, run as run_cuts_side};
pub use experiments::disorder::kernel::{DISORDER_COMMAND, Side as DisorderSide, run_side as run_disorder_side};
pub use experiments::links::side::{SIDE_COMMAND, Side, run as run_side};
pub use figures::run::{Figures, run as run_figures};
pub use runner::measurement::Measurement;
pub use runner::peer::run as run_peer;
pub use runner::protocol::PEER_COMMAND;
