//! `weft lab exec` and `weft lab shell`: this process becomes a program in a host.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;

use super::state::{Name, State};
use weft_command::failure::Failure;

/// Tell a program in a host where it is.
const LAB_VARIABLE: &str = "WEFT_LAB";
const HOST_VARIABLE: &str = "WEFT_LAB_HOST";

/// Runs a command in a host. Returns only when that cannot be.
pub(super) fn exec(name: &Name, host: usize, command: &[OsString]) -> Result<(), Failure> {
    let Some((program, arguments)) = command.split_first() else {
        return Err(Failure::Usage("no command to run".to_owned()));
    };
    become_program(name, host, program, arguments)
}

/// Runs the user's shell in a host. Returns only when that cannot be.
pub(super) fn shell(name: &Name, host: usize) -> Result<(), Failure> {
    let shell = env::var_os("SHELL").filter(|shell| !shell.is_empty()).unwrap_or_else(|| "/bin/sh".into());
    become_program(name, host, &shell, &[])
}

fn become_program(name: &Name, index: usize, program: &OsStr, arguments: &[OsString]) -> Result<(), Failure> {
    let state = State::get(name)?;
    let Some(host) = state.hosts.get(index) else {
        let last = state.hosts.len() - 1;
        return Err(Failure::Usage(format!("lab {name} has no host {index}; its hosts are 0 to {last}")));
    };
    if !host.is_up() {
        let option = name.option();
        return Err(Failure::Runtime(format!(
            "host {index} of lab {name} has died; weft lab down {option}and up again"
        )));
    }
    let mut command = host.command(program);
    command.args(arguments).env(LAB_VARIABLE, name.to_string()).env(HOST_VARIABLE, index.to_string());
    Err(Failure::while_doing("cannot run nsenter")(command.exec()))
}
