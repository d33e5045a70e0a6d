//! `weft lab exec`, `weft lab shell` and `weft lab rsh`: this process becomes a program in a host.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::process::Command;

use super::state::{self, DIRECTORY_VARIABLE, HOST_VARIABLE, LAB_VARIABLE, Name, State};
use weft_command::failure::Failure;

/// Where NICs show their counters, if it is set: in a host, its user's usual directory would be another one than
/// outside.
const BOARDS_VARIABLE: &str = "WEFT_BOARDS";

/// Runs a command in a host. Returns only when that cannot be.
pub(super) fn exec(name: &Name, host: &str, command: &[OsString]) -> Result<(), Failure> {
    let Some((program, arguments)) = command.split_first() else {
        return Err(Failure::Usage("no command to run".to_owned()));
    };
    become_program(name, host, program, arguments)
}

/// Runs the user's shell in a host. Returns only when that cannot be.
pub(super) fn shell(name: &Name, host: &str) -> Result<(), Failure> {
    let shell = env::var_os("SHELL").filter(|shell| !shell.is_empty()).unwrap_or_else(|| "/bin/sh".into());
    become_program(name, host, &shell, &[])
}

/// Runs a command line in a host as rsh and ssh do: options, a host, and words that a shell reads as one line. Returns
/// only when that cannot be.
pub(super) fn rsh(name: &Name, words: &[OsString]) -> Result<(), Failure> {
    let mut words = words.iter().skip_while(|word| word.as_encoded_bytes().starts_with(b"-"));
    let host = words.next().and_then(|host| host.to_str());
    let host = host.ok_or_else(|| Failure::Usage("no host to run a command in".to_owned()))?;
    let line = words.cloned().collect::<Vec<_>>().join(OsStr::new(" "));
    become_program(name, host, OsStr::new("/bin/sh"), &["-c".into(), line])
}

/// A command in a host, with the host's environment.
pub(super) fn command(state: &State, host: &str, program: &OsStr) -> Result<Command, Failure> {
    let host = state.host(host)?;
    // The user namespace of a lab has no rights over that of another.
    if let Some(here) = env::var_os(LAB_VARIABLE).filter(|here| *here != *state.name.to_string()) {
        let (here, there) = (here.display().to_string(), &state.name);
        let words = format!("this is a host of lab {here}, from which no host of lab {there} can be entered");
        return Err(Failure::Runtime(words));
    }
    let mut command = host.command(program);
    command.env(LAB_VARIABLE, state.name.to_string()).env(HOST_VARIABLE, host.index().to_string());
    let directory = state::own_directory()?;
    if env::var_os(BOARDS_VARIABLE).is_none() {
        command.env(BOARDS_VARIABLE, &directory);
    }
    command.env(DIRECTORY_VARIABLE, directory);
    Ok(command)
}

/// This process becomes a command.
pub(super) fn become_command(command: &mut Command) -> Result<(), Failure> {
    Err(Failure::while_doing("cannot run nsenter")(command.exec()))
}

fn become_program(name: &Name, host: &str, program: &OsStr, arguments: &[OsString]) -> Result<(), Failure> {
    become_command(command(&State::get(name)?, host, program)?.args(arguments))
}
