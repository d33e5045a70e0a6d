//! `weft lab mpiexec`: an MPI library's launcher, with ranks in the hosts of a lab.
//!
//! The launcher runs in the first of the hosts, and starts its helpers in the others by a script that takes the place
//! of ssh. That, and the provider under the name that libfabric searches for, are in a directory beside the lab's file.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, iter};

use clap::Args;

use super::enter;
use super::state::{self, Lab, State};
use weft_command::failure::Failure;

/// The name of the file for libfabric, which loads what ends in `-fi.so`, and the one that cargo builds.
const PROVIDER: [&str; 2] = ["libweft-fi.so", "libweft_fi.so"];

/// The name of the script that launchers take for rsh.
const AGENT: &str = "rsh";

/// Variables that ranks in other hosts get: their names begin so.
const PASSED_ON: [&str; 5] = ["FI_", "WEFT_", "UCX_", "MPIR_CVAR_", "LD_LIBRARY_PATH"];

/// The arguments on the command line.
#[derive(Args, Debug)]
pub(super) struct Arguments {
    #[command(flatten)]
    lab: Lab,
    /// How many ranks
    #[arg(short, long = "ranks", value_name = "N")]
    n: usize,
    /// In which hosts, in this order: names or numbers [default: all]
    #[arg(long, value_name = "HOST[,...]", value_delimiter = ',')]
    hosts: Vec<String>,
    /// Ranks in a host before the next has its turn [default: one, and again from the first host on]
    #[arg(long, value_name = "N")]
    ppn: Option<usize>,
    /// What carries messages: weft, weft-edge, weft-iwarp, another provider of libfabric (tcp), or library for what the
    /// library chooses
    #[arg(long, value_name = "NAME", default_value = "weft")]
    over: String,
    /// The library's launcher: MPICH's, Intel MPI's, or Open MPI's
    #[arg(long, value_name = "PATH", default_value = "mpiexec")]
    mpiexec: PathBuf,
    /// The program and its arguments; options of the launcher may come first
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    program: Vec<OsString>,
}

/// Whose launcher it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Launcher {
    /// MPICH's and Intel MPI's.
    Hydra { is_intel: bool },
    /// Open MPI's, with its major version.
    OpenMpi(u32),
}

/// What a lab has for launchers.
struct Tools {
    agent: PathBuf,
    directory: PathBuf,
}

/// Runs the command. Returns only when that cannot be.
pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { lab, n, hosts, ppn, over, mpiexec, program } = arguments;
    let state = State::get(&lab.name())?;
    let all: Vec<_> = state.hosts.iter().map(|host| host.name().to_owned()).collect();
    let hosts = if hosts.is_empty() { &all } else { hosts };
    let placed = place(*n, hosts, *ppn).map_err(Failure::Usage)?;
    let mpiexec = find_program(mpiexec)?;
    let launcher = Launcher::ask(&mpiexec)?;
    let tools = Tools::make(&state, over)?;
    if matches!(launcher, Launcher::OpenMpi(_)) && tools.agent.to_string_lossy().contains(char::is_whitespace) {
        let words =
            format!("Open MPI takes no path with spaces for rsh: {}; set XDG_RUNTIME_DIR", tools.agent.display());
        return Err(Failure::Runtime(words));
    }
    let mut reached = Vec::new();
    for (host, ranks) in &placed {
        let host = state.host(host)?;
        // Where no names can be resolved an address is one.
        let name = if host.knows_names() { host.name().to_owned() } else { host.address(0).to_string() };
        reached.push((name, *ranks));
    }
    let mut command = enter::command(&state, &placed[0].0, mpiexec.as_os_str())?;
    for (name, value) in settings(launcher, over, &tools) {
        command.env(name, value);
    }
    command.args(launcher.arguments(*n, &reached, ppn.is_some(), over, &tools.agent));
    if let Launcher::OpenMpi(_) = launcher {
        let given = command.get_envs().map(|(name, _)| name.to_owned()).chain(env::vars_os().map(|(name, _)| name));
        let is_passed =
            |name: &OsString| name.to_str().is_some_and(|name| PASSED_ON.iter().any(|one| name.starts_with(one)));
        let passed: std::collections::BTreeSet<_> = given.filter(is_passed).collect();
        // In each host there are others of these.
        let own = [state::LAB_VARIABLE, state::HOST_VARIABLE, state::DIRECTORY_VARIABLE];
        for name in passed.into_iter().filter(|name| own.iter().all(|own| name != own)) {
            command.arg("-x").arg(name);
        }
    }
    enter::become_command(command.args(program))
}

/// How many ranks each host has: one after the other in turns, or `ppn` in one before the next.
fn place(ranks: usize, hosts: &[String], ppn: Option<usize>) -> Result<Vec<(String, usize)>, String> {
    if ranks == 0 || ppn == Some(0) {
        return Err("a job has a rank at least, and a host of it too".to_owned());
    }
    if let Some(twice) = hosts.iter().enumerate().find(|(index, host)| hosts[..*index].contains(host)) {
        return Err(format!("--hosts names {} twice", twice.1));
    }
    let room = ppn.map(|ppn| ppn.saturating_mul(hosts.len()));
    if let Some(room) = room.filter(|room| *room < ranks) {
        let (ppn, hosts) = (ppn.unwrap_or_default(), hosts.len());
        return Err(format!("{ranks} ranks do not fit into {hosts} hosts with --ppn {ppn}: that is room for {room}"));
    }
    let count = |index: usize| match ppn {
        Some(ppn) => ranks.saturating_sub(index * ppn).min(ppn),
        None => ranks / hosts.len() + usize::from(index < ranks % hosts.len()),
    };
    let placed = hosts.iter().enumerate().map(|(index, host)| (host.clone(), count(index)));
    Ok(placed.filter(|(_, count)| *count > 0).collect())
}

impl Launcher {
    fn ask(mpiexec: &Path) -> Result<Self, Failure> {
        let mut command = Command::new(mpiexec);
        let said = command.arg("--version").stdin(Stdio::null()).output();
        let said = said.map_err(Failure::while_doing(mpiexec.display()))?;
        let text = String::from_utf8_lossy(&said.stdout) + String::from_utf8_lossy(&said.stderr);
        Self::of_version(&text).ok_or_else(|| {
            let first = text.lines().next().unwrap_or_default();
            let words = "is not the launcher of MPICH, Intel MPI or Open MPI; name one with --mpiexec";
            Failure::Runtime(format!("{} {words} (it says: {first:?})", mpiexec.display()))
        })
    }

    fn of_version(text: &str) -> Option<Self> {
        if text.contains("HYDRA") || text.contains("Intel(R) MPI") {
            return Some(Self::Hydra { is_intel: text.contains("Intel(R)") });
        }
        let rest = ["(Open MPI) ", "(OpenRTE) ", "(PRRTE) "].iter().find_map(|mark| text.split_once(mark))?.1;
        rest.split(|end: char| !end.is_ascii_digit()).next()?.parse().ok().map(Self::OpenMpi)
    }

    /// Its arguments, besides the program.
    fn arguments(
        self,
        ranks: usize,
        hosts: &[(String, usize)],
        in_blocks: bool,
        over: &str,
        agent: &Path,
    ) -> Vec<OsString> {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        let with_counts: Vec<_> = hosts.iter().map(|(name, count)| format!("{name}:{count}")).collect();
        let names: Vec<_> = hosts.iter().map(|(name, _)| name.clone()).collect();
        let mut all = vec!["-n".into(), ranks.to_string().into()];
        if let Self::Hydra { .. } = self {
            all.extend(["-launcher", "rsh", "-launcher-exec"].map(Into::into));
            all.push(agent.into());
            all.push("-hosts".into());
            // In turns it goes through the hosts again and again.
            all.push(if in_blocks { with_counts.join(",") } else { names.join(",") }.into());
            all.extend(if in_blocks { Vec::new() } else { words("-ppn 1") });
            return all;
        }
        // It does not see that several hosts of a lab share the processors.
        all.extend(words("--oversubscribe --bind-to none --mca mpi_yield_when_idle 1"));
        all.extend(words(if in_blocks { "--map-by slot --host" } else { "--map-by node --host" }));
        all.push(with_counts.join(",").into());
        let [option, name] =
            if self == Self::OpenMpi(4) { ["--mca", "plm_rsh_agent"] } else { ["--prtemca", "plm_ssh_agent"] };
        all.extend([option.into(), name.into(), agent.into()]);
        // `cm` leaves matching to what is below; `ob1` would send by sockets of its own.
        if let Some(provider) = provider_of(over) {
            all.extend(words(&format!("--mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include {provider}")));
        }
        all
    }
}

/// Which provider of libfabric is meant; `None`: the library chooses.
fn provider_of(over: &str) -> Option<&str> {
    match over {
        "library" => None,
        _ if over.starts_with("weft-") => Some("weft"),
        _ => Some(over),
    }
}

/// What is set for all ranks.
fn settings(launcher: Launcher, over: &str, tools: &Tools) -> Vec<(&'static str, OsString)> {
    let mut all: Vec<(&str, OsString)> = Vec::new();
    if let Launcher::OpenMpi(_) = launcher {
        // In a lab everybody is root, and of nothing but the lab.
        all.extend(["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"].map(|name| (name, "1".into())));
    }
    let Some(provider) = provider_of(over) else { return all };
    all.push(("FI_PROVIDER", provider.into()));
    match launcher {
        Launcher::Hydra { is_intel: true } => {
            all.extend([("I_MPI_FABRICS", "shm:ofi".into()), ("I_MPI_OFI_PROVIDER", provider.into())]);
        }
        Launcher::Hydra { is_intel: false } => all.push(("MPIR_CVAR_CH4_NETMOD", "ofi".into())),
        Launcher::OpenMpi(_) => {}
    }
    if provider == "weft" {
        all.push(("FI_PROVIDER_PATH", tools.directory.clone().into()));
    } else if provider.starts_with("tcp") && env::var_os("FI_TCP_IFACE").is_none() {
        // It may try the loopback device, where the other hosts are not.
        all.push(("FI_TCP_IFACE", "rail0".into()));
    }
    all.extend(over.strip_prefix("weft-").map(|transport| ("FI_WEFT_TRANSPORT", transport.into())));
    all
}

impl Tools {
    /// Makes what is not there yet, or is of another `weft`.
    fn make(state: &State, over: &str) -> Result<Self, Failure> {
        let directory = state.mpi_directory()?;
        let cannot = || Failure::while_doing(directory.display());
        DirBuilder::new().mode(0o700).recursive(true).create(&directory).map_err(cannot())?;
        let agent = directory.join(AGENT);
        let weft = env::current_exe().map_err(Failure::while_doing("cannot find weft"))?;
        let script = format!(
            "#!/bin/sh\n# Takes the place of rsh and ssh between the hosts of lab {name}.\n\
             exec {} lab rsh --name {name} \"$@\"\n",
            quoted(&weft.to_string_lossy()),
            name = state.name
        );
        replace(&agent, |draft| {
            fs::write(draft, &script)?;
            fs::set_permissions(draft, Permissions::from_mode(0o700))
        })
        .map_err(cannot())?;
        if provider_of(over) == Some("weft") {
            let provider = find_provider()?;
            replace(&directory.join(PROVIDER[0]), |draft| symlink(&provider, draft)).map_err(cannot())?;
        }
        Ok(Self { agent, directory })
    }
}

/// Puts a file in place of one that a process may be using.
fn replace(path: &Path, write: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
    let draft = path.with_extension(format!("{}", std::process::id()));
    fs::remove_file(&draft).or_else(state::gone)?;
    write(&draft)?;
    fs::rename(&draft, path)
}

/// As a shell reads it as one word.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// A program by its path, or in the search path.
fn find_program(name: &Path) -> Result<PathBuf, Failure> {
    let is_path = name.components().count() > 1;
    let path = env::var_os("PATH").unwrap_or_default();
    let folders: Vec<_> = if is_path { vec![PathBuf::new()] } else { env::split_paths(&path).collect() };
    let found = folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file());
    found.and_then(|path| std::path::absolute(path).ok()).ok_or_else(|| {
        let place = if is_path { "does not exist" } else { "is not in PATH" };
        Failure::Runtime(format!("{} {place}; name the launcher of an MPI library with --mpiexec", name.display()))
    })
}

/// The provider's file: in `FI_PROVIDER_PATH`, beside this command, or where it is installed.
fn find_provider() -> Result<PathBuf, Failure> {
    let told = env::var_os("FI_PROVIDER_PATH").unwrap_or_default();
    let program = env::current_exe().map_err(Failure::while_doing("cannot find weft"))?;
    let beside = program.parent().unwrap_or(Path::new("/"));
    let prefix = beside.parent().unwrap_or(beside);
    let installed = [prefix.join("lib/libfabric"), prefix.join("lib")];
    let folders: Vec<_> = env::split_paths(&told).chain(iter::once(beside.to_owned())).chain(installed).collect();
    let files = folders.iter().flat_map(|folder| PROVIDER.map(|name| folder.join(name)));
    files.map(fs::canonicalize).find_map(Result::ok).ok_or_else(|| {
        let folders: Vec<_> = folders.iter().map(|folder| folder.display().to_string()).collect();
        let words = "install it, or build it (cargo build -p weft-provider), or name its folder in FI_PROVIDER_PATH";
        Failure::Runtime(format!("{} is not in {}; {words}", PROVIDER[0], folders.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn ranks_are_placed_in_turns_or_in_blocks() {
        let hosts = names(&["a0", "a1", "b0"]);
        let placed = |ranks, ppn| {
            place(ranks, &hosts, ppn).map(|all| all.iter().map(|(host, ranks)| format!("{host}:{ranks}")).collect())
        };
        assert_eq!(placed(8, None), Ok(names(&["a0:3", "a1:3", "b0:2"])));
        assert_eq!(placed(2, None), Ok(names(&["a0:1", "a1:1"])));
        assert_eq!(placed(5, Some(2)), Ok(names(&["a0:2", "a1:2", "b0:1"])));
        assert_eq!(placed(3, Some(4)), Ok(names(&["a0:3"])));
        assert!(placed(7, Some(2)).unwrap_err().contains("room for 6"));
        assert!(placed(0, None).is_err() && placed(1, Some(0)).is_err());
        assert!(place(2, &names(&["a0", "a0"]), None).unwrap_err().contains("a0 twice"));
    }

    #[test]
    fn launchers_are_told_apart_by_what_they_say() {
        let of = Launcher::of_version;
        assert_eq!(of("HYDRA build details:\n    Version: 5.0.2\n"), Some(Launcher::Hydra { is_intel: false }));
        assert_eq!(of("Intel(R) MPI Library for Linux* OS, Version 2021"), Some(Launcher::Hydra { is_intel: true }));
        assert_eq!(of("mpiexec (OpenRTE) 4.1.4\n"), Some(Launcher::OpenMpi(4)));
        assert_eq!(of("mpiexec (Open MPI) 5.0.11\n"), Some(Launcher::OpenMpi(5)));
        assert_eq!(of("GNU bash, version 5"), None);
    }

    #[test]
    fn launchers_are_told_hosts_and_who_takes_the_place_of_ssh() {
        let hosts = [("a0".to_owned(), 2), ("b0".to_owned(), 1)];
        let told = |launcher: Launcher, in_blocks, over| {
            let words = launcher.arguments(3, &hosts, in_blocks, over, Path::new("/x/rsh"));
            words.join(" ".as_ref()).into_string().unwrap()
        };
        let hydra = Launcher::Hydra { is_intel: false };
        assert_eq!(told(hydra, false, "weft"), "-n 3 -launcher rsh -launcher-exec /x/rsh -hosts a0,b0 -ppn 1");
        assert!(told(hydra, true, "weft").ends_with("-hosts a0:2,b0:1"));
        let four = told(Launcher::OpenMpi(4), true, "weft-edge");
        assert!(four.contains("--map-by slot --host a0:2,b0:1 --mca plm_rsh_agent /x/rsh"), "{four}");
        assert!(four.ends_with("mtl_ofi_provider_include weft"), "{four}");
        let five = told(Launcher::OpenMpi(5), false, "library");
        assert!(five.ends_with("--map-by node --host a0:2,b0:1 --prtemca plm_ssh_agent /x/rsh"), "{five}");
    }

    #[test]
    fn a_word_for_a_shell_is_one_word() {
        assert_eq!(quoted("/a b/it's"), r"'/a b/it'\''s'");
    }
}
