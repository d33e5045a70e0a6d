//! `weft run`: this process becomes a program that uses RDMA, with Weft's libibverbs before the system's.

mod check;
mod elf;

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use weft_command::failure::Failure;
use weft_command::output;

/// The library, and the link by which programs load it themselves.
const LIBRARY: &str = "libibverbs.so.1";
/// The folder of the library, if it is not where `make install` and `make verbs` put it.
const FOLDER_VARIABLE: &str = "WEFT_VERBS_FOLDER";

/// Which program.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  weft run -- ibv_devinfo -v
  weft run -- ib_write_bw                   # on one host, and on the other:
  weft run -- ib_write_bw 10.0.0.2
  eval \"$(weft run --print)\"                # for all programs of this shell
  weft run --check ./program
  mpirun -x LD_PRELOAD -x LD_LIBRARY_PATH ./program

The program's libibverbs is then Weft's: no kernel module, no root, no RDMA NIC. It is preloaded, and its folder comes
first among those that libraries are loaded from. Variables: WEFT_VERBS_DEVICES (lo,eth0:mlx5_0: which interfaces are
devices, and their names), WEFT_VERBS_CARRIER (edge, iwarp, shm, shm+iwarp, auto), WEFT_VERBS_TRANSPORT (roce, ib,
iwarp: as what they are shown), WEFT_VERBS_PORTS (first of 4096), WEFT_VERBS_LOG=info. Programs that are linked
statically, and those that run as another user, are not reached.")]
pub(crate) struct Arguments {
    /// Print the variables in place of running a program, for a shell to evaluate
    #[arg(long, conflicts_with = "program")]
    print: bool,
    /// Say what the program wants of libibverbs and whether it gets it, in place of running it
    #[arg(long)]
    check: bool,
    /// The program, and its arguments
    #[arg(
        value_name = "PROGRAM",
        trailing_var_arg = true,
        allow_hyphen_values = true,
        required_unless_present = "print"
    )]
    program: Vec<OsString>,
}

/// Runs the program, or prints the variables. Returns when it has printed, or when it can't run it.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let folder = folder()?;
    let variables = variables(&folder);
    if arguments.print {
        let lines = variables.iter().map(|(name, value)| format!("export {name}={}\n", quoted(value)));
        return output::print_bytes(lines.collect::<String>().as_bytes());
    }
    let (program, rest) = arguments.program.split_first().ok_or_else(|| Failure::Usage("no program to run".into()))?;
    if arguments.check {
        return check::check(program, &folder);
    }
    let error = Command::new(program).args(rest).envs(variables).exec();
    Err(Failure::while_doing(format!("cannot run {}", program.display()))(error))
}

/// Where the library is.
fn folder() -> Result<PathBuf, Failure> {
    let has_it = |folder: &PathBuf| folder.join(LIBRARY).is_file();
    if let Some(said) = env::var_os(FOLDER_VARIABLE) {
        let said = PathBuf::from(said);
        let missing = || Failure::Runtime(format!("{FOLDER_VARIABLE}: there is no {LIBRARY} in {}", said.display()));
        return if has_it(&said) { Ok(said) } else { Err(missing()) };
    }
    let own = env::current_exe().map_err(Failure::while_doing("cannot find this program"))?;
    let beside = own.parent().unwrap_or(Path::new("/"));
    let places = ["verbs", "../lib/weft/verbs", "../lib64/weft/verbs"].map(|place| beside.join(place));
    let found = places.iter().find(|folder| has_it(folder)).and_then(|folder| folder.canonicalize().ok());
    found.ok_or_else(|| {
        let places = places.map(|place| place.display().to_string()).join(" or ");
        let words = format!(
            "there is no {LIBRARY} in {places}: build it with `make verbs`, or say its folder in {FOLDER_VARIABLE}"
        );
        Failure::Runtime(words)
    })
}

/// What is set for the program. What was there before comes behind.
fn variables(folder: &Path) -> [(&'static str, OsString); 2] {
    let before = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
    let joined = |first: OsString, rest: Option<OsString>| match rest {
        Some(rest) if !is_first(&first, &rest) => [first.as_os_str(), &rest].join(OsStr::new(":")),
        Some(rest) => rest,
        None => first,
    };
    [
        ("LD_PRELOAD", joined(folder.join(LIBRARY).into(), before("LD_PRELOAD"))),
        ("LD_LIBRARY_PATH", joined(folder.into(), before("LD_LIBRARY_PATH"))),
    ]
}

/// Whether a list begins with a path.
fn is_first(path: &OsStr, list: &OsStr) -> bool {
    list.as_encoded_bytes().split(|byte| *byte == b':').next() == Some(path.as_encoded_bytes())
}

/// As a word of a shell.
fn quoted(value: &OsStr) -> String {
    format!("'{}'", value.to_string_lossy().replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_values_as_they_are() {
        assert_eq!(quoted(OsStr::new("/a b/$c")), "'/a b/$c'");
        assert_eq!(quoted(OsStr::new("it's")), r"'it'\''s'");
    }

    #[test]
    fn what_is_first_already_is_not_put_there_again() {
        assert!(is_first(OsStr::new("/a"), OsStr::new("/a:/b")));
        assert!(!is_first(OsStr::new("/a"), OsStr::new("/ab:/a")));
    }
}
