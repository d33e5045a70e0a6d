//! `weft perf`: how fast, and beside whom.
//!
//! A test is a list of cases ([`designs`]); each case is measured in several runs of each contestant, which take turns
//! ([`campaign`]). Each run is two or more fresh processes ([`peer`]), all driven by this one over a line of JSON at a
//! time ([`session`]). Figures ([`metric`]) are medians over the runs ([`report`]).

mod arguments;
mod campaign;
mod contestant;
mod contestants;
mod designs;
mod destination;
mod disorder;
mod distance;
mod fence;
mod job;
mod links;
mod machine;
mod measure;
mod metric;
mod mpi;
mod overlap;
mod peer;
mod place;
mod provider;
mod remote;
mod report;
mod scratch;
mod session;
mod size;
mod spread;
mod stack;
mod work;

pub(crate) use arguments::Arguments;
pub(crate) use contestants::ucx;
pub(crate) use disorder::{DISORDER_COMMAND, Side as DisorderSide, run_side as run_disorder_side};
pub(crate) use links::{SIDE_COMMAND, Side, run_side};
pub(crate) use peer::{PEER_COMMAND, run as run_peer};
pub(crate) use stack::Transport;

use crate::failure::Failure;
use destination::Destination;
use machine::Watch;

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if let Some(address) = &arguments.listen {
        return remote::listen(address, arguments.link.as_ref());
    }
    if arguments.wants_disorder() {
        let json = arguments.json.as_deref().map(Destination::open).transpose()?;
        let transport = arguments.transport_of_disorder()?;
        return match transport {
            Transport::Edge => disorder::edge::run(&arguments.disorder, arguments.links.links(), json),
            _ => disorder::run(&arguments.disorder, arguments.iterations, json),
        };
    }
    if let Some(scale) = arguments.scale_of_fences()? {
        let json = arguments.json.as_deref().map(Destination::open).transpose()?;
        return fence::run(&arguments.fence, &scale, json, || arguments.place_of_windows(&scale));
    }
    if let Some(wishes) = arguments.links_wishes() {
        let json = arguments.json.as_deref().map(Destination::open).transpose()?;
        return links::run(&arguments.links, &wishes, json);
    }
    let plan = arguments.plan()?;
    let json = arguments.json.as_deref().map(Destination::open).transpose()?;
    let watch = Watch::start();
    let results = campaign::run(&plan)?;
    let report = report::Report::new(&plan, &results, watch.stop());
    report.publish(&plan, &results, json)?;
    match results.broken() {
        Some(reason) => Err(Failure::Runtime(reason)),
        None => Ok(()),
    }
}
