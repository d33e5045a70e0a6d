//! `weft run`: this process becomes a program that uses RDMA or MPI, with Weft's libraries before the system's.

use std::ffi::{OsStr, OsString};
use std::mem;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use weft_command::failure::Failure;
use weft_command::interrupt::Interrupt;
use weft_command::output;
use weft_command::provider::Provider;
use weft_command::verbs;
use weft_driver::board::{REPORT_VARIABLE, Report};

use crate::files::Files;
use crate::places::{find_program, quoted};
use crate::{check, mpi, report};

/// Which program.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  weft run -- ibv_devinfo -v
  weft run -- ib_write_bw                   # on one host, and on the other:
  weft run -- ib_write_bw 10.0.0.2
  weft run --report -- mpiexec -n 4 ./program
  weft run --local --report -- mpiexec -n 4 ./program
  eval \"$(weft run --print)\"                # for all programs of this shell
  eval \"$(weft run --print mpiexec)\"        # and for those of this MPI library
  weft run --check ./program
  mpirun -x LD_PRELOAD -x LD_LIBRARY_PATH ./program

The program's libibverbs is then Weft's: no kernel module, no root, no RDMA NIC. It is preloaded, and its folder comes \
first among those that libraries are loaded from. It also finds files of Weft's devices below /sys/class/infiniband \
and in /dev/infiniband (ibstat), but for shells that --print sets up. Variables: WEFT_VERBS_DEVICES (lo,eth0:mlx5_0: \
which interfaces are devices, and their names), WEFT_VERBS_CARRIER (edge, iwarp, shm, shm+iwarp, shm+edge, auto), \
WEFT_VERBS_TRANSPORT (roce, ib, iwarp: as what they are shown), WEFT_VERBS_PORTS (first of 4096), \
WEFT_VERBS_LOG=info. Programs that are linked statically, and those that run as another user, are not reached.

Programs that start MPI ranks, or are linked with MPICH, Open MPI or Intel MPI, get Weft's provider of libfabric in \
place of it: FI_PROVIDER_PATH, FI_PROVIDER, and what their library needs besides; --verbs has them get both. Launchers \
of Open MPI hand variables to other hosts only where -x names them.

weft doctor says why a program does not use Weft.")]
pub struct Arguments {
    /// Print the variables in place of running the program, for a shell to evaluate
    #[arg(long, conflicts_with_all = ["check", "report"])]
    print: bool,
    /// Say what the program wants of libibverbs and whether it gets it, in place of running it
    #[arg(long, conflicts_with = "report")]
    check: bool,
    /// Say on standard error, when the program has ended, which ranks of this host spoke over which transport
    #[arg(long)]
    report: bool,
    /// Have MPI ranks of one host use Weft between each other, in place of their library's shared memory
    #[arg(long)]
    local: bool,
    /// Lead MPI programs to Weft's libibverbs as well: those that use both, as NCCL does
    #[arg(long)]
    verbs: bool,
    /// The program, and its arguments
    #[arg(
        value_name = "PROGRAM",
        trailing_var_arg = true,
        allow_hyphen_values = true,
        required_unless_present = "print"
    )]
    program: Vec<OsString>,
}

/// Runs the program, or prints the variables. Returns when it has printed, when the program has ended that it reports
/// on, or when it can't run it.
///
/// # Errors
/// Weft's libraries are not there, or the program cannot be run; of [`Failure::Exited`] the program's own.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let program = arguments.program.split_first();
    if arguments.check {
        let (program, _) = program.ok_or_else(no_program)?;
        return check::check(program, &verbs::folder().map_err(Failure::Runtime)?);
    }
    let environment = Environment::of(program.map(|(program, _)| program.as_os_str()), arguments)?;
    if arguments.print {
        let lines = environment.variables.iter().map(|(name, value)| format!("export {name}={}\n", quoted(value)));
        return output::print_bytes(lines.collect::<String>().as_bytes());
    }
    let (program, rest) = program.ok_or_else(no_program)?;
    let running = format!("cannot run {}", program.display());
    let mut command = Command::new(program);
    command.args(rest).envs(environment.variables.iter().map(|(name, value)| (name, value)));
    if arguments.report {
        return run_and_report(&mut command, &running);
    }
    // The program has the folders that were made for it, and is this process: the next run removes them.
    mem::forget(environment);
    Err(Failure::while_doing(running)(command.exec()))
}

fn no_program() -> Failure {
    Failure::Usage("no program to run".into())
}

/// What is set for a program.
struct Environment {
    variables: Vec<(&'static str, OsString)>,
    /// Of MPI programs: the folder goes with it, if it was made.
    _provider: Option<Provider>,
    /// Of programs that use libibverbs.
    _files: Option<Files>,
}

impl Environment {
    /// For this program; without one for all programs that use libibverbs.
    fn of(program: Option<&OsStr>, arguments: &Arguments) -> Result<Self, Failure> {
        let path = program.and_then(find_program);
        let libraries = path.map(|path| mpi::libraries_of(&path)).unwrap_or_default();
        let is_mpi = !libraries.is_empty();
        let mut variables = Vec::new();
        // libfabric would ask libibverbs for devices that its program has no use for.
        let mut files = None;
        if !is_mpi || arguments.verbs {
            let folder = verbs::folder().map_err(Failure::Runtime)?;
            // A shell has no end that would remove them.
            files = if arguments.print { None } else { Files::make(&folder) };
            match &files {
                Some(files) => {
                    variables.extend(verbs::variables_with_paths(&folder));
                    variables.push(files.variable());
                }
                None => variables.extend(verbs::variables(&folder)),
            }
        }
        let provider = is_mpi.then(Provider::open).transpose().map_err(Failure::Runtime)?;
        if let Some(provider) = &provider {
            variables.extend(mpi::variables(&libraries, provider.folder(), arguments.local));
        }
        Ok(Self { variables, _provider: provider, _files: files })
    }
}

/// The pause between two checks whether the program has ended.
const STEP: Duration = Duration::from_millis(5);

/// Runs the program as a child, and says what its NICs have done. Its exit code becomes this process's.
fn run_and_report(command: &mut Command, running: &str) -> Result<(), Failure> {
    let kept = Report::create().map_err(Failure::while_doing("cannot make a folder for the report"))?;
    let interrupt = Interrupt::watch()?;
    let mut child = command.env(REPORT_VARIABLE, kept.folder()).spawn().map_err(Failure::while_doing(running))?;
    let mut has_passed = false;
    let status = loop {
        if let Some(status) = child.try_wait().map_err(Failure::while_doing(running))? {
            break status;
        }
        // Ctrl-C comes to the program as well, SIGTERM does not.
        if interrupt.has_come() && !has_passed {
            has_passed = true;
            let _ = kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM);
        }
        thread::sleep(STEP);
    };
    output::complain(report::page(&kept.read()).trim_end());
    end(status)
}

/// The exit code as a shell says it.
fn end(status: ExitStatus) -> Result<(), Failure> {
    match (status.code(), status.signal()) {
        (Some(0), _) => Ok(()),
        (Some(code), _) => Err(Failure::Exited(code as u8)),
        (None, signal) => Err(Failure::Exited((128 + signal.unwrap_or_default()) as u8)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_is_the_programs() {
        let status = |script: &str| Command::new("sh").args(["-c", script]).status().unwrap();
        assert!(end(status("exit 0")).is_ok());
        assert!(matches!(end(status("exit 3")), Err(Failure::Exited(3))));
        assert!(matches!(end(status("kill -TERM $$")), Err(Failure::Exited(143))));
    }
}
