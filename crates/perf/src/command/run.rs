//! Runs what the command line asks for.

use weft_command::destination::Destination;
use weft_command::failure::Failure;
use weft_command::transport::Transport;

use crate::command::arguments::Arguments;
use crate::command::catalogue::design;
use crate::experiments::{disorder, fence, links};
use crate::host::watch::Watch;
use crate::runner::{campaign, outcome, remote};

/// Runs the command.
///
/// # Errors
///
/// The command line asks for what can't be, or a contestant that is there failed.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
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
    let report = outcome::Report::new(&plan, &results, watch.stop());
    let afterword = design(plan.test).afterword(&plan, &results);
    report.publish(&plan, &results, &afterword, json)?;
    match results.broken() {
        Some(reason) => Err(Failure::Runtime(reason)),
        None => Ok(()),
    }
}
