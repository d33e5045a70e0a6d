//! Whether programs that use libibverbs get Weft's.

use std::fs;
use std::path::{Path, PathBuf};

use weft::verbs::Transport;
use weft_command::verbs::{FOLDER_VARIABLE, LIBRARY, MANAGER};
use weft_driver::{host_addresses, interface_addresses, interface_names};

use super::finding::{Finding, Topic};
use super::shell::Shell;
use crate::elf::Elf;

const PRELOAD: &str = "LD_PRELOAD";
const LIBRARY_PATH: &str = "LD_LIBRARY_PATH";

/// Names of the variables of Weft's libibverbs, behind `WEFT_VERBS_`.
const VARIABLES: [&str; 7] = ["DEVICES", "CARRIER", "TRANSPORT", "PORTS", "LOG", "FOLDER", "FILES"];

/// Ports of a range of `WEFT_VERBS_PORTS`.
const PORTS: u16 = 4096;

/// Where the loader finds libraries by itself, as far as it is the same everywhere.
const SYSTEM: [&str; 6] = [
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/lib/x86_64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/lib",
];

/// Which libibverbs programs of a shell get.
pub(super) struct Verbs<'a> {
    shell: &'a Shell,
    /// Where Weft's is, or why it is not there.
    folder: Result<&'a Path, &'a str>,
}

impl<'a> Verbs<'a> {
    pub(super) fn new(shell: &'a Shell, folder: &'a Result<PathBuf, String>) -> Self {
        Self { shell, folder: folder.as_deref().map_err(String::as_str) }
    }

    /// Whether programs that are linked with libibverbs get Weft's.
    pub(super) fn is_set_up(&self) -> bool {
        self.preloaded().is_some_and(|library| is_weft(&library))
    }

    /// All that was found. `is_needed`: without it programs do not use Weft.
    pub(super) fn findings(&self, is_needed: bool) -> Vec<Finding> {
        let mut all = vec![self.library(is_needed)];
        all.extend(self.missing_preloads());
        all.push(self.linked(is_needed));
        all.extend(self.loaded_by_name());
        all.extend(self.manager());
        all.extend(system());
        all.extend(variables(self.shell));
        all.extend(self.devices());
        all
    }

    /// The versions that Weft's libibverbs has.
    pub(super) fn versions(&self) -> Vec<String> {
        let bytes = self.folder.ok().and_then(|folder| fs::read(folder.join(LIBRARY)).ok());
        bytes.and_then(|bytes| Elf::parse(&bytes)).unwrap_or_default().defined
    }

    fn library(&self, is_needed: bool) -> Finding {
        match self.folder {
            Err(reason) => Topic::Verbs.lack(is_needed, reason, ""),
            Ok(folder) if is_weft(&folder.join(LIBRARY)) => {
                Topic::Verbs.ok(format!("Weft's libibverbs is {}", folder.join(LIBRARY).display()))
            }
            Ok(folder) => Topic::Verbs.lack(
                is_needed,
                format!("{} is no libibverbs of Weft", folder.join(LIBRARY).display()),
                format!("build it again with `make verbs`, or say another folder in {FOLDER_VARIABLE}"),
            ),
        }
    }

    /// Files of `LD_PRELOAD` that are not there: the loader complains of them at each start of a program.
    fn missing_preloads(&self) -> impl Iterator<Item = Finding> {
        let all = self.shell.paths(PRELOAD).into_iter();
        let missing = all.filter(|path| path.components().count() > 1 && !path.exists());
        missing.map(|path| {
            let text = format!("{PRELOAD} names {}, which is not there", path.display());
            Topic::Verbs.problem(text, format!("take it out of {PRELOAD}"))
        })
    }

    /// The first libibverbs of `LD_PRELOAD`.
    fn preloaded(&self) -> Option<PathBuf> {
        let is_one =
            |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("libibverbs.so"));
        self.shell.paths(PRELOAD).into_iter().find(is_one)
    }

    fn linked(&self, is_needed: bool) -> Finding {
        match self.preloaded() {
            Some(library) if is_weft(&library) => {
                Topic::Verbs.ok(format!("programs that are linked with libibverbs get Weft's ({PRELOAD})"))
            }
            Some(library) => Topic::Verbs.problem(
                format!("{PRELOAD} puts another libibverbs first: {}", library.display()),
                format!("take it out of {PRELOAD}, or start programs by `weft run -- PROGRAM`"),
            ),
            None => Topic::Verbs.lack(
                is_needed,
                format!("{PRELOAD} does not name Weft's libibverbs: programs of this shell get the system's"),
                "start them by `weft run -- PROGRAM`, or set this shell up with: eval \"$(weft run --print)\"",
            ),
        }
    }

    /// Those that load libibverbs by its name, as NCCL does. Reported where the shell is set up for the others.
    fn loaded_by_name(&self) -> Option<Finding> {
        let folders = self.shell.paths(LIBRARY_PATH);
        let names = ["libibverbs.so", LIBRARY];
        let mut found = folders.iter().flat_map(|folder| names.map(|name| folder.join(name)));
        let first = found.find(|file| file.exists());
        match first {
            Some(library) if is_weft(&library) => {
                Some(Topic::Verbs.ok(format!("programs that load libibverbs by its name get Weft's ({LIBRARY_PATH})")))
            }
            _ if !self.is_set_up() => None,
            other => {
                let which = other.map_or("the system's".to_owned(), |library| library.display().to_string());
                Some(Topic::Verbs.note(
                    format!("programs that load libibverbs by its name (NCCL, brpc) get {which}"),
                    format!("put Weft's folder first in {LIBRARY_PATH}: eval \"$(weft run --print)\""),
                ))
            }
        }
    }

    fn manager(&self) -> Option<Finding> {
        let library = self.folder.ok()?.join(MANAGER);
        Some(match library.is_file() {
            true => Topic::Verbs.note(
                format!("Weft's {MANAGER} refuses: programs that connect by rdma_cm (-R of perftest) do not work yet"),
                "",
            ),
            false => Topic::Verbs.note(format!("{} is not there", library.display()), "make verbs"),
        })
    }

    /// Interfaces that are devices, as far as no variable says otherwise.
    fn devices(&self) -> Option<Finding> {
        let named = self.shell.get("WEFT_VERBS_DEVICES");
        if named.is_some() {
            return None;
        }
        let running = host_addresses();
        let of_others: Vec<_> = running.iter().filter(|host| host.is_running).collect();
        Some(match of_others.first() {
            Some(host) => {
                let more =
                    if of_others.len() > 1 { format!(", and {} more", of_others.len() - 1) } else { String::new() };
                Topic::Verbs.ok(format!("other hosts are reached by {} ({}){more}", host.interface, host.address.ip))
            }
            None => Topic::Verbs.note(
                "no interface has an address but the loopback: programs reach this host alone",
                "connect a network; inside one host nothing is to be done",
            ),
        })
    }
}

/// Whether a file is Weft's libibverbs: none of rdma-core has the private versions of several releases.
fn is_weft(library: &Path) -> bool {
    let Some(elf) = fs::read(library).ok().and_then(|bytes| Elf::parse(&bytes)) else { return false };
    ["IBVERBS_PRIVATE_34", "IBVERBS_PRIVATE_65"].iter().all(|version| elf.defined.iter().any(|other| other == version))
}

/// The system's own.
fn system() -> Option<Finding> {
    let file = SYSTEM.iter().map(|folder| Path::new(folder).join(LIBRARY)).find(|file| file.exists());
    Some(match file {
        Some(file) => Topic::Verbs.ok(format!("the system's libibverbs is {}", file.display())),
        None => Topic::Verbs.note(
            "the system has no libibverbs: programs that are linked with it start only under `weft run`",
            "on Debian: apt install libibverbs1",
        ),
    })
}

/// `WEFT_VERBS_*` with values that the library does not take, and names that it does not know.
fn variables(shell: &Shell) -> Vec<Finding> {
    let mut wrong = Vec::new();
    let mut judge = |name: &str, is_right: bool, possible: &str| {
        let Some(value) = shell.get(name).filter(|_| !is_right) else { return };
        wrong.push(Topic::Verbs.problem(format!("{name}={value} is not possible"), format!("write {possible}")));
    };
    let value = |name: &str| shell.get(name).unwrap_or_default().to_owned();
    let carriers = Transport::ALL.map(Transport::name).join(", ");
    judge("WEFT_VERBS_CARRIER", Transport::of_name(&value("WEFT_VERBS_CARRIER")).is_some(), &carriers);
    let shown = value("WEFT_VERBS_TRANSPORT").to_ascii_lowercase();
    judge("WEFT_VERBS_TRANSPORT", ["roce", "ib", "iwarp"].contains(&shown.as_str()), "roce, ib or iwarp");
    let first = value("WEFT_VERBS_PORTS").parse::<u16>();
    let is_first = first.is_ok_and(|first| first >= PORTS && first % PORTS == 0);
    judge("WEFT_VERBS_PORTS", is_first, "the first of 4096 ports: a multiple of 4096 from 4096 to 61440");
    let devices = value("WEFT_VERBS_DEVICES");
    let unknown = devices.split(',').map(|part| part.split(':').next().unwrap_or_default().trim()).find(|interface| {
        interface_addresses(interface).is_empty() || !interface_names().iter().any(|name| name == interface)
    });
    judge(
        "WEFT_VERBS_DEVICES",
        unknown.is_none(),
        &format!(
            "INTERFACE or INTERFACE:DEVICE, separated by commas; {:?} is no interface with an address",
            unknown.unwrap_or_default()
        ),
    );
    for name in shell.with_prefix("WEFT_VERBS_").filter(|name| !VARIABLES.contains(name)) {
        let known = VARIABLES.map(|name| format!("WEFT_VERBS_{name}")).join(", ");
        wrong.push(Topic::Verbs.note(format!("no part of Weft reads WEFT_VERBS_{name}"), format!("there are {known}")));
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::super::finding::Grade;
    use super::*;

    fn grades(findings: &[Finding]) -> Vec<(Grade, String)> {
        findings.iter().map(|finding| (finding.grade, finding.text.clone())).collect()
    }

    #[test]
    fn a_shell_without_variables_gets_the_systems() {
        let (shell, folder) = (Shell::default(), Err("there is no library".to_owned()));
        let verbs = Verbs::new(&shell, &folder);
        assert!(!verbs.is_set_up());
        for (is_needed, grade) in [(true, Grade::Problem), (false, Grade::Note)] {
            let found = grades(&verbs.findings(is_needed));
            assert_eq!(found[0], (grade, "there is no library".to_owned()));
            assert!(found[1].0 == grade && found[1].1.contains("does not name Weft's"), "{found:?}");
        }
    }

    #[test]
    fn another_library_that_is_first_is_a_problem_and_so_is_one_that_is_not_there() {
        let own = std::env::current_exe().unwrap();
        let folder = std::env::temp_dir().join(format!("weft-doctor-verbs-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        // Not a libibverbs of Weft, but a file of the right kind.
        let other = folder.join(LIBRARY);
        fs::copy(own, &other).unwrap();
        let preload = format!("/not/there.so:{}", other.display());
        let shell = Shell::with([(PRELOAD, &preload), (LIBRARY_PATH, &folder.display().to_string())]);
        let place = Ok(folder.clone());
        let verbs = Verbs::new(&shell, &place);
        let found = grades(&verbs.findings(false));
        let problems: Vec<_> =
            found.iter().filter(|(grade, _)| *grade == Grade::Problem).map(|(_, text)| text).collect();
        assert_eq!(problems.len(), 2, "{found:?}");
        assert!(problems[0].contains("/not/there.so, which is not there"), "{found:?}");
        assert!(problems[1].contains("another libibverbs first"), "{found:?}");
        assert!(found[0].1.contains("is no libibverbs of Weft"), "{found:?}");
        assert!(!verbs.is_set_up());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn values_that_are_not_taken_are_problems() {
        let wrong = Shell::with([
            ("WEFT_VERBS_CARRIER", "tcp"),
            ("WEFT_VERBS_TRANSPORT", "rocev2"),
            ("WEFT_VERBS_PORTS", "5000"),
            ("WEFT_VERBS_DEVICES", "lo,no-such-interface:mlx5_0"),
            ("WEFT_VERBS_DEVICE", "lo"),
        ]);
        let found = grades(&variables(&wrong));
        assert_eq!(found.len(), 5, "{found:?}");
        assert!(found[..4].iter().all(|(grade, _)| *grade == Grade::Problem), "{found:?}");
        assert_eq!(found[4], (Grade::Note, "no part of Weft reads WEFT_VERBS_DEVICE".to_owned()));
        let right = Shell::with([
            ("WEFT_VERBS_CARRIER", "shm+iwarp"),
            ("WEFT_VERBS_TRANSPORT", "IB"),
            ("WEFT_VERBS_PORTS", "8192"),
            ("WEFT_VERBS_LOG", "info"),
        ]);
        assert!(variables(&right).is_empty(), "{:?}", variables(&right));
    }

    #[test]
    fn the_documents_have_the_same_variables() {
        let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/verbs.md")).unwrap();
        let rows = page.lines().filter_map(|line| line.strip_prefix("| `WEFT_VERBS_")?.split_once('`'));
        let mut named: Vec<_> = rows.map(|(name, _)| name).collect();
        let mut known = VARIABLES.to_vec();
        named.sort_unstable();
        known.sort_unstable();
        assert_eq!(named, known);
    }
}
