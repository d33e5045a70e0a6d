//! `weft lab list`.

use super::state::State;
use weft_command::failure::Failure;
use weft_command::output::{print, print_line};
use weft_command::table::{Align, Table};

/// Runs the command.
pub(super) fn run(json: bool) -> Result<(), Failure> {
    let labs = State::all()?;
    if json {
        print_line(serde_json::to_string_pretty(&labs).expect("plain values become JSON"))
    } else if labs.is_empty() {
        print_line("No lab is up; make one with weft lab up")
    } else {
        print(table(&labs))
    }
}

fn table(labs: &[State]) -> Table {
    let mut table = Table::new(&[
        ("lab", Align::Left),
        ("hosts", Align::Right),
        ("links", Align::Right),
        ("rate", Align::Right),
        ("MTU", Align::Right),
        ("offload", Align::Left),
        ("keeper", Align::Right),
    ]);
    for State { name, plan, keeper, .. } in labs {
        table.row([
            name.to_string(),
            plan.hosts.to_string(),
            plan.links.to_string(),
            plan.rates_text(),
            plan.mtu.to_string(),
            if plan.offloads { "on" } else { "off" }.to_owned(),
            keeper.id.to_string(),
        ]);
    }
    table
}
