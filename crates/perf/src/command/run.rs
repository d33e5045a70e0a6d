//! Runs what the command line asks for.

use weft_command::failure::Failure;
use weft_command::transport::Transport;

use crate::command::arguments::Arguments;
use crate::command::catalogue::design;
use crate::command::options::Options;
use crate::command::tests::What;
use crate::experiments::{cuts, disorder, fence, links};
use crate::runner::measurement::Measurement;
use crate::runner::{campaign, outcome, remote};

/// Runs the command.
///
/// # Errors
///
/// The command line asks for what can't be, or a contestant that is there failed.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    if let Some((address, link)) = &arguments.listen {
        return remote::listen(address, link.as_ref());
    }
    if let Some(arguments) = &arguments.cuts {
        return cuts::run(arguments);
    }
    arguments.options.as_deref().map_or(Ok(()), measure)
}

fn measure(arguments: &Options) -> Result<(), Failure> {
    if arguments.test == What::Streams {
        let outputs = arguments.files.open()?;
        let transport = arguments.transport_of_disorder()?;
        return match transport {
            Transport::Edge => disorder::edge::run(&arguments.disorder, arguments.links.links(), outputs),
            _ => disorder::run(&arguments.disorder, arguments.iterations, outputs),
        };
    }
    if let Some(scale) = arguments.scale_of_fences()? {
        let outputs = arguments.files.open()?;
        return fence::run(&arguments.fence, &scale, outputs, || arguments.place_of_windows(&scale));
    }
    if let Some(wishes) = arguments.links_wishes() {
        return links::run(&arguments.links, &wishes, arguments.files.open()?);
    }
    let plan = arguments.plan()?;
    let outputs = arguments.files.open()?;
    let measurement = Measurement::begin(plan.test.name(), plan.test.question());
    let results = campaign::run(&plan)?;
    let document = outcome::document(&plan, &results, measurement);
    let afterword = design(plan.test).afterword(&plan, &results);
    outputs.publish(&document, &outcome::table(&plan, &results, &document, &afterword))?;
    match results.broken() {
        Some(reason) => Err(Failure::Runtime(reason)),
        None => Ok(()),
    }
}
