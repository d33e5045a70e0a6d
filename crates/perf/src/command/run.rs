//! Runs what the command line asks for.

use std::fs;

use weft_command::failure::Failure;
use weft_command::interrupt::Interrupt;
use weft_command::transport::Transport;

use crate::command::arguments::Arguments;
use crate::command::catalogue::design;
use crate::command::options::Options;
use crate::command::tests::What;
use crate::contestants::isosurface::picture;
use crate::experiments::{cuts, disorder, fence, links};
use crate::result::Document;
use crate::runner::measurement::Measurement;
use crate::runner::plan::Plan;
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
    measure_contestants(arguments)
}

/// Contestants in turns, once for each condition of the network's link.
fn measure_contestants(arguments: &Options) -> Result<(), Failure> {
    let conditions = arguments.conditions();
    let first = conditions.first().copied().unwrap_or_default();
    // What can't be done is found before anything is measured.
    let mut plan = arguments.plan(&first)?;
    let (outputs, interrupt) = (arguments.files.open()?, Interrupt::watch()?);
    draw(arguments, &plan)?;
    let (mut document, mut text, broken) = measure_plan(&plan, &interrupt)?;
    let mut broken = broken.into_iter().collect::<Vec<_>>();
    if conditions.len() > 1 || first.faults.is_some() {
        document = first.mark(document);
        text = format!("{}\n{text}", first.heading());
        for condition in conditions.iter().skip(1).take_while(|_| !interrupt.has_come()) {
            // One network goes before the next one is made.
            drop(plan);
            plan = arguments.plan(condition)?;
            let (next, its_text, its_broken) = measure_plan(&plan, &interrupt)?;
            document = document.join(condition.mark(next));
            text.push_str(&format!("\n{}\n{its_text}", condition.heading()));
            broken.extend(its_broken);
        }
        document.is_cut_short |= interrupt.has_come();
    }
    outputs.publish(&document, &text)?;
    match broken.into_iter().next() {
        _ if document.is_cut_short => Err(Failure::Interrupted),
        Some(reason) => Err(Failure::Runtime(reason)),
        None => Ok(()),
    }
}

/// Writes the picture that all contestants must come to, if it is wanted.
fn draw(arguments: &Options, plan: &Plan) -> Result<(), Failure> {
    let side = plan.cases.iter().find_map(|case| case.job.volume).map(|volume| volume.side);
    let (Some(path), Some(side)) = (&arguments.picture, side) else { return Ok(()) };
    let failed = |error| Failure::Runtime(format!("cannot write {}: {error}", path.display()));
    fs::write(path, picture(side)).map_err(failed)
}

/// The document, the table, and why it counts as failed if it does.
fn measure_plan(plan: &Plan, interrupt: &Interrupt) -> Result<(Document, String, Option<String>), Failure> {
    let measurement = Measurement::begin(plan.test.name(), plan.test.question());
    let results = campaign::run(plan, interrupt)?;
    let document = outcome::document(plan, &results, measurement);
    let afterword = design(plan.test).afterword(plan, &results);
    let mut text = outcome::table(plan, &results, &document, &afterword);
    if document.is_cut_short {
        text.push_str("\nINTERRUPTED: not all launches were made\n");
    }
    Ok((document, text, results.broken()))
}
