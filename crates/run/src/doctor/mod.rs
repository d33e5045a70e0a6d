//! `weft doctor`: whether a program of this shell will use Weft, and why not.

mod fabric;
mod finding;
mod machine;
mod mpi;
mod shell;
mod verbs;

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use serde::Serialize;
use weft_command::failure::Failure;
use weft_command::output::{print, print_line};
use weft_command::provider::Provider;
use weft_command::verbs::{LIBRARY, folder};

use crate::check::judge;
use crate::elf::Elf;
use crate::mpi::libraries_of;
use crate::places::find_program;

use fabric::{Fabric, Loaded};
use finding::{Finding, Grade, Topic, page};
use shell::Shell;
use verbs::Verbs;

const EXAMPLES: &str = "\
Examples:
  weft doctor                         # would programs of this shell use Weft?
  weft doctor ./program               # would this one?
  weft run -- weft doctor ib_write_bw # would it under weft run?
  weft doctor --json | jq '.findings[] | select(.grade == \"problem\")'

Exit codes: 0 a program of this shell uses Weft, 1 something is in the way. Lines with ok are as they should be; a \
note names what costs speed, or concerns other programs; a problem has to be solved first, and the line below says \
how.";

/// The arguments on the command line.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The program, as a shell finds it; without it, programs that use libibverbs or libfabric
    #[arg(value_name = "PROGRAM", conflicts_with = "probe")]
    program: Option<OsString>,
    /// Print JSON, for programs
    #[arg(long)]
    json: bool,
    /// Print what libfabric says of itself: the other process of this command
    #[arg(long, hide = true)]
    probe: bool,
}

/// What is printed for programs.
#[derive(Serialize)]
struct Answer {
    uses_weft: bool,
    findings: Vec<Finding>,
}

/// Runs the command.
///
/// # Errors
/// [`Failure::Exited`] with 1 if a program does not use Weft; the page has said why.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.probe {
        let loaded = Loaded::here().map_err(Failure::Runtime)?;
        return print_line(serde_json::to_string(&loaded).expect("plain values become JSON"));
    }
    let findings = examine(&Shell::of_this_process(), arguments.program.as_ref())?;
    let uses_weft = findings.iter().all(|finding| finding.grade != Grade::Problem);
    if arguments.json {
        let answer = Answer { uses_weft, findings };
        print_line(serde_json::to_string_pretty(&answer).expect("plain values become JSON"))?;
    } else {
        print(format!("{}\n{}\n", page(&findings), verdict(&findings)))?;
    }
    if uses_weft { Ok(()) } else { Err(Failure::Exited(1)) }
}

fn verdict(findings: &[Finding]) -> String {
    match findings.iter().filter(|finding| finding.grade == Grade::Problem).count() {
        0 => "A program of this shell uses Weft.".to_owned(),
        1 => "A program of this shell does not use Weft: there is a problem above.".to_owned(),
        problems => format!("A program of this shell does not use Weft: there are {problems} problems above."),
    }
}

/// What a program uses to reach networks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Needs {
    verbs: bool,
    libfabric: bool,
}

/// Everything that is found for a shell, and for a program if one is named.
///
/// # Errors
/// There is no such program, or it cannot be read.
fn examine(shell: &Shell, program: Option<&OsString>) -> Result<Vec<Finding>, Failure> {
    let folder = folder();
    let (verbs, fabric) = (Verbs::new(shell, &folder), Fabric::new(shell));
    let (mut all, needs) = match program {
        Some(program) => {
            let missing = || Failure::Runtime(format!("there is no program {}", program.display()));
            let path = find_program(program).ok_or_else(missing)?;
            let bytes = fs::read(&path);
            let bytes = bytes.map_err(Failure::while_doing(format!("cannot read {}", path.display())))?;
            let needs = needs_of(&path, &bytes);
            (vec![describe(&path, &bytes, needs, &verbs.versions())], needs)
        }
        None => (Vec::new(), Needs::default()),
    };
    // Where no program says what it needs, one of both is enough.
    let needs = match needs {
        Needs { verbs: false, libfabric: false } => Needs { verbs: !fabric.is_set_up(), libfabric: !verbs.is_set_up() },
        needs => needs,
    };
    all.extend(verbs.findings(needs.verbs));
    all.extend(fabric.findings(needs.libfabric));
    let built = Provider::open().ok();
    if let Some(folder) = fabric.folder().or_else(|| built.as_ref().map(|built| built.folder().to_owned())) {
        all.push(fabric::load(&folder, &["doctor", "--probe"], needs.libfabric));
    }
    all.extend(mpi::choices(shell));
    all.extend(mpi::installed(shell, fabric.is_set_up()));
    all.extend(machine::findings(shell));
    Ok(all)
}

fn needs_of(path: &Path, bytes: &[u8]) -> Needs {
    let elf = Elf::parse(bytes).unwrap_or_default();
    let has = |beginning: &str| elf.needed.iter().any(|library| library.starts_with(beginning));
    Needs { verbs: has(LIBRARY), libfabric: has("libfabric.so") || !libraries_of(path).is_empty() }
}

fn describe(path: &Path, bytes: &[u8], needs: Needs, versions: &[String]) -> Finding {
    let libraries = libraries_of(path);
    let path = path.display();
    if needs.libfabric && !needs.verbs {
        let names = libraries.iter().map(|library| library.name()).collect::<Vec<_>>().join(" or ");
        return Topic::Program.ok(match names.as_str() {
            "" => format!("{path} is linked with libfabric"),
            names => format!("{path} belongs to {names}, which reaches networks through libfabric"),
        });
    }
    match judge(bytes, versions) {
        Ok(words) => Topic::Program.ok(format!("{path}: {words}")),
        Err(reason) => Topic::Program.problem(format!("{path}: {reason}"), ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_not_there_and_one_of_another_kind() {
        let missing = examine(&Shell::default(), Some(&"no-such-program".into())).unwrap_err();
        assert!(missing.to_string().contains("no-such-program"));
        let text = describe(Path::new("/p"), b"text", Needs::default(), &[]);
        assert!(text.grade == Grade::Problem && text.text.contains("ELF"), "{text:?}");
        let script = describe(Path::new("/p"), b"#!/bin/sh\n", Needs::default(), &[]);
        assert!(script.grade == Grade::Ok, "{script:?}");
    }

    #[test]
    fn a_program_of_mpi_needs_libfabric_alone() {
        let needs = Needs { verbs: false, libfabric: true };
        assert!(describe(Path::new("/p"), b"text", needs, &[]).text.contains("linked with libfabric"));
    }

    #[test]
    fn the_verdict_counts_problems() {
        let problem = Topic::Verbs.problem("x", "");
        let of = |count: usize| verdict(&vec![problem.clone(); count]);
        assert!(of(0).contains("uses Weft") && of(1).contains("a problem") && of(2).contains("2 problems"));
    }
}
