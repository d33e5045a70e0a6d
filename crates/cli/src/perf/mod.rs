//! `weft perf`: how fast, and beside whom.
//!
//! Each run of each contestant is two fresh processes ([`peer`]), both driven by this one over a line of JSON at a time
//! ([`session`]); contestants take turns run by run ([`campaign`]); figures are medians over the runs ([`report`]).

mod arguments;
mod campaign;
mod contestant;
mod contestants;
mod measure;
mod peer;
mod plan;
mod remote;
mod report;
mod session;
mod size;

pub(crate) use arguments::Arguments;
pub(crate) use contestants::ucx;
pub(crate) use peer::{PEER_COMMAND, run as run_peer};

use crate::failure::Failure;

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if let Some(address) = &arguments.listen {
        return remote::listen(address);
    }
    let plan = arguments.plan()?;
    let results = campaign::run(&plan)?;
    let report = report::Report::new(&plan, &results);
    report.publish(&plan, &results, arguments.json.as_deref())?;
    match results.broken() {
        Some(reason) => Err(Failure::Runtime(reason)),
        None => Ok(()),
    }
}
