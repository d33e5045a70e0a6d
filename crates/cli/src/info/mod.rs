//! `weft info`: what this machine has and can do.

mod abilities;
mod interfaces;
mod kernel_file;
mod limits;

use clap::Args;
use serde::Serialize;

use weft_command::failure::Failure;
use weft_command::output::{print, print_line};
use weft_command::table::{Align, Table};

use abilities::Ability;
use interfaces::Interface;
use limits::{Limit, System};

const EXAMPLES: &str = "\
Examples:
  weft info
  weft info --json | jq '.abilities[] | select(.available | not)'";

/// The arguments on the command line.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Print JSON, for programs
    #[arg(long)]
    json: bool,
}

/// Everything that is shown.
#[derive(Debug, Serialize)]
struct Info {
    system: System,
    interfaces: Vec<Interface>,
    limits: Vec<Limit>,
    abilities: Vec<Ability>,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let info = Info {
        system: System::here()?,
        interfaces: interfaces::all()?,
        limits: limits::all()?,
        abilities: abilities::all(),
    };
    if arguments.json {
        print_line(serde_json::to_string_pretty(&info).expect("plain values become JSON"))
    } else {
        print(info.page())
    }
}

impl Info {
    fn page(&self) -> String {
        let System { host, kernel, cores, version, commit } = &self.system;
        let mut interfaces = Table::new(&[
            ("interface", Align::Left),
            ("state", Align::Left),
            ("MTU", Align::Right),
            ("speed", Align::Right),
            ("rail", Align::Left),
            ("addresses", Align::Left),
        ]);
        self.interfaces.iter().for_each(|interface| interfaces.row(interface.cells()));
        let mut limits = Table::new(&[("limit", Align::Left), ("value", Align::Left)]);
        self.limits.iter().for_each(|limit| limits.row([limit.name.to_owned(), limit.value.clone()]));
        let mut abilities = Table::new(&[("ability", Align::Left), ("", Align::Left), ("", Align::Left)]);
        self.abilities.iter().for_each(|ability| abilities.row(ability.cells()));
        format!(
            "{host}, Linux {kernel}, {cores} cores; weft {version} ({commit})\n\n{interfaces}\n{limits}\n{abilities}"
        )
    }
}
