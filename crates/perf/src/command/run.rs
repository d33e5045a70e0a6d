//! Runs what the command line asks for.

use std::time::Duration;

use serde_json::Value;
use weft_command::failure::Failure;
use weft_command::interrupt::Interrupt;
use weft_command::transport::Transport;

use crate::command::arguments::Arguments;
use crate::command::catalogue::design;
use crate::command::options::Options;
use crate::command::tests::What;
use crate::experiments::{cuts, disorder, fence, links};
use crate::result::Document;
use crate::runner::measurement::Measurement;
use crate::runner::plan::Plan;
use crate::runner::{campaign, outcome, remote};

/// The key of a case that says what the link adds to a round trip.
const ROUND_TRIP: &str = "round_trip_ms";

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

/// Contestants in turns, once for each delay of the network's link.
fn measure_contestants(arguments: &Options) -> Result<(), Failure> {
    let delays = arguments.delays();
    let first = delays.first().copied().unwrap_or_default();
    // What can't be done is found before anything is measured.
    let mut plan = arguments.plan(first)?;
    let (outputs, interrupt) = (arguments.files.open()?, Interrupt::watch()?);
    let (mut document, mut text, broken) = measure_plan(&plan, &interrupt)?;
    let mut broken = broken.into_iter().collect::<Vec<_>>();
    if let [_, others @ ..] = &delays[..]
        && !others.is_empty()
    {
        document = document.with_key(ROUND_TRIP, &round_trip(first));
        text = format!("{}\n{text}", heading(first));
        for delay in others.iter().take_while(|_| !interrupt.has_come()) {
            // One network goes before the next one is made.
            drop(plan);
            plan = arguments.plan(*delay)?;
            let (next, its_text, its_broken) = measure_plan(&plan, &interrupt)?;
            document = document.join(next.with_key(ROUND_TRIP, &round_trip(*delay)));
            text.push_str(&format!("\n{}\n{its_text}", heading(*delay)));
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

/// What the link adds to a round trip.
fn round_trip(delay: Duration) -> Value {
    (2.0 * delay.as_secs_f64() * 1e3).into()
}

fn heading(delay: Duration) -> String {
    format!("With {:?} more for each round trip", 2 * delay)
}
