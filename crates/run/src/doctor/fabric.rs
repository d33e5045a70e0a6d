//! Whether programs that use libfabric find Weft's provider, and can load it.

use std::env;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use weft::settings::Note;
use weft_command::provider::Provider;
use weft_libfabric::Library;

use super::finding::{Finding, Topic};
use super::shell::Shell;

const PATH: &str = "FI_PROVIDER_PATH";
const CHOICE: &str = "FI_PROVIDER";
/// The file that libfabric searches for.
const FILE: &str = "libweft-fi.so";
/// The manual page of the provider.
const PAGE: &str = "fi_weft";

/// How long libfabric may take to load the provider: it takes some milliseconds.
const LIMIT: Duration = Duration::from_secs(20);

/// Which provider programs of a shell get.
pub(super) struct Fabric<'a> {
    shell: &'a Shell,
}

impl<'a> Fabric<'a> {
    pub(super) const fn new(shell: &'a Shell) -> Self {
        Self { shell }
    }

    /// Whether libfabric finds Weft's provider, and takes it.
    pub(super) fn is_set_up(&self) -> bool {
        self.folder().is_some() && self.shell.get(CHOICE).is_none_or(names_weft)
    }

    /// The folder of `FI_PROVIDER_PATH` that has the provider.
    pub(super) fn folder(&self) -> Option<PathBuf> {
        self.shell.paths(PATH).into_iter().find(|folder| folder.join(FILE).is_file())
    }

    /// All that was found by reading. `is_needed`: without it programs do not use Weft.
    pub(super) fn findings(&self, is_needed: bool) -> Vec<Finding> {
        let mut all = vec![self.path(is_needed)];
        all.extend(self.choice());
        all.extend(self.parameters());
        all
    }

    fn path(&self, is_needed: bool) -> Finding {
        if let Some(folder) = self.folder() {
            return Topic::Libfabric.ok(format!("libfabric finds Weft's provider in {} ({PATH})", folder.display()));
        }
        let start = "start MPI programs by `weft run -- mpiexec ...`";
        match (self.shell.get(PATH), Provider::available()) {
            (_, Err(reason)) => {
                Topic::Libfabric.lack(is_needed, format!("there is no provider of Weft: {reason}"), "make install")
            }
            (Some(path), Ok(())) => Topic::Libfabric.problem(
                format!("{PATH}={path} has no {FILE}"),
                format!("{start}, or set it to the folder of {FILE}: pkg-config --variable=providerdir weft-fi"),
            ),
            (None, Ok(())) => Topic::Libfabric.lack(
                is_needed,
                format!("{PATH} is not set: libfabric does not find Weft's provider"),
                format!("{start}, or: export {PATH}=$(pkg-config --variable=providerdir weft-fi) {CHOICE}=weft"),
            ),
        }
    }

    fn choice(&self) -> Option<Finding> {
        let value = match self.shell.get(CHOICE) {
            Some(value) => value,
            None => {
                let text = format!("{CHOICE} is not set: libfabric may take another provider before Weft's");
                return self.folder().map(|_| Topic::Libfabric.note(text, format!("export {CHOICE}=weft")));
            }
        };
        Some(match names_weft(value) {
            true => Topic::Libfabric.ok(format!("{CHOICE}={value} allows Weft's provider")),
            false => Topic::Libfabric.problem(
                format!("{CHOICE}={value} excludes Weft's provider"),
                format!("export {CHOICE}=weft, or: unset {CHOICE}"),
            ),
        })
    }

    /// What is wrong with `FI_WEFT_*`: the provider reads them as this does.
    fn parameters(&self) -> Vec<Finding> {
        let given = self.shell.all().map(|(name, value)| (name.to_owned(), value.to_owned()));
        match weft::settings::read(given) {
            Ok(read) => {
                let note =
                    |note: &Note| Topic::Libfabric.note(note.to_string(), format!("man {PAGE} has all settings"));
                read.notes.iter().map(note).collect()
            }
            Err(wrong) => vec![Topic::Libfabric.problem(wrong.to_string(), format!("man {PAGE} has all settings"))],
        }
    }
}

/// Whether a value of `FI_PROVIDER` allows Weft's provider: a list of names, or `^` and a list of those that are not
/// wanted (fabric(7)).
fn names_weft(value: &str) -> bool {
    let (is_exclusion, names) = value.strip_prefix('^').map_or((false, value), |names| (true, names));
    names.split(',').any(|name| Provider::is_meant(name.trim())) != is_exclusion
}

/// What libfabric says of itself and its providers, in a process of its own: loading runs code of others.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Loaded {
    version: (u16, u16),
    /// Names and versions.
    providers: Vec<(String, (u16, u16))>,
}

impl Loaded {
    /// Of this process: libfabric as its loader finds it.
    ///
    /// # Errors
    /// In words.
    pub(super) fn here() -> Result<Self, String> {
        let library = Library::load().map_err(|error| error.to_string())?;
        let providers = library.providers().map_err(|error| error.to_string())?;
        let providers = providers.into_iter().map(|provider| (provider.name, provider.version)).collect();
        Ok(Self { version: library.version(), providers })
    }
}

/// Loads the provider of this folder in another process of this program, which prints [`Loaded`] when it is called with
/// these arguments.
pub(super) fn load(folder: &Path, arguments: &[&str], is_needed: bool) -> Finding {
    let failed = |reason: String| Topic::Libfabric.lack(is_needed, reason, "");
    let program = match env::current_exe() {
        Ok(program) => program,
        Err(error) => return failed(format!("cannot find this program: {error}")),
    };
    let mut command = Command::new(program);
    command.args(arguments).env(PATH, folder).env(CHOICE, Provider::NAME).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    match command.spawn().and_then(|child| finish(child, LIMIT)) {
        Ok(Some(output)) => judge(&output.stdout, &output.stderr, is_needed),
        Ok(None) => failed(format!("libfabric has not loaded Weft's provider within {} s", LIMIT.as_secs())),
        Err(error) => failed(format!("cannot start this program again: {error}")),
    }
}

/// The output of a process that ends in time; it fits a pipe. `None`: it has not ended, and is killed.
fn finish(mut child: Child, limit: Duration) -> io::Result<Option<Output>> {
    let end = Instant::now() + limit;
    while child.try_wait()?.is_none() {
        if Instant::now() >= end {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().map(Some)
}

/// The finding from the output of that process.
fn judge(out: &[u8], complaints: &[u8], is_needed: bool) -> Finding {
    let complaints = String::from_utf8_lossy(complaints);
    let complaints = complaints.split_whitespace().collect::<Vec<_>>().join(" ");
    let Ok(loaded) = serde_json::from_slice::<Loaded>(out) else {
        return if complaints.contains("libfabric is not installed") {
            Topic::Libfabric.note(
                "this system has no libfabric of its own: MPI libraries that bring theirs do without",
                "on Debian: apt install libfabric1",
            )
        } else {
            Topic::Libfabric.lack(
                is_needed,
                format!("libfabric ended while it loaded Weft's provider: {complaints}"),
                "",
            )
        };
    };
    let version = |(major, minor): (u16, u16)| format!("{major}.{minor}");
    match loaded.providers.iter().find(|(name, _)| Provider::is_meant(name)) {
        Some((_, own)) => Topic::Libfabric.ok(format!(
            "libfabric {} of this system loads Weft's provider, version {}",
            version(loaded.version),
            version(*own)
        )),
        None => Topic::Libfabric.lack(
            is_needed,
            format!(
                "libfabric {} of this system loads Weft's provider, and it offers nothing: {}",
                version(loaded.version),
                if complaints.is_empty() { "it says no reason" } else { &complaints }
            ),
            "FI_LOG_LEVEL=info fi_info -p weft",
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::finding::Grade;
    use super::*;

    #[test]
    fn lists_of_providers_are_read_as_libfabric_reads_them() {
        for value in ["weft", "tcp,weft", "weft;ofi_rxm", "^tcp", "^tcp,shm"] {
            assert!(names_weft(value), "{value}");
        }
        for value in ["tcp", "^weft", "^tcp,weft", "weft2"] {
            assert!(!names_weft(value), "{value}");
        }
    }

    #[test]
    fn a_path_with_the_provider_is_set_up() {
        let folder = env::temp_dir().join(format!("weft-doctor-fabric-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(FILE), "").unwrap();
        let path = format!("/not/there:{}", folder.display());
        let with = |choice: &str| Shell::with([(PATH, &path), (CHOICE, choice)]);
        let (none, own, other) = (with(""), with("weft"), with("tcp"));
        let grades = |shell: &Shell| {
            let fabric = Fabric::new(shell);
            let grades: Vec<_> = fabric.findings(true).iter().map(|finding| finding.grade).collect();
            (fabric.is_set_up(), grades)
        };
        assert_eq!(grades(&none), (true, vec![Grade::Ok, Grade::Note]));
        assert_eq!(grades(&own), (true, vec![Grade::Ok, Grade::Ok]));
        assert_eq!(grades(&other), (false, vec![Grade::Ok, Grade::Problem]));
        let nothing = Shell::with([("FI_WEFT_TRANSPORTS", "edge")]);
        assert_eq!(grades(&nothing), (false, vec![Grade::Problem, Grade::Note]));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_the_other_process_says_is_understood() {
        let json =
            |providers: Vec<(String, (u16, u16))>| serde_json::to_vec(&Loaded { version: (1, 17), providers }).unwrap();
        let good = judge(&json(vec![("weft".into(), (0, 1))]), b"", true);
        assert!(
            good.grade == Grade::Ok && good.text.contains("1.17") && good.text.ends_with("version 0.1"),
            "{good:?}"
        );
        let wrong = judge(&json(vec![]), b"weft: FI_WEFT_PORT=x is\n not possible\n", true);
        assert!(wrong.grade == Grade::Problem && wrong.text.contains("FI_WEFT_PORT=x is not possible"), "{wrong:?}");
        let none = judge(b"", b"weft: libfabric is not installed (no such file)", true);
        assert_eq!(none.grade, Grade::Note);
        assert_eq!(judge(b"", b"Segmentation fault", false).grade, Grade::Note);
    }

    #[test]
    fn a_process_that_does_not_end_is_killed() {
        let run = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::piped());
            command.spawn().unwrap()
        };
        assert!(finish(run("exec sleep 1000"), Duration::ZERO).unwrap().is_none());
        let ended = finish(run("echo word"), Duration::from_secs(1000)).unwrap().unwrap();
        assert_eq!(ended.stdout, b"word\n");
    }

    #[test]
    fn an_impossible_setting_is_a_problem() {
        let shell = Shell::with([("FI_WEFT_TRANSPORT", "pigeon")]);
        let found = Fabric::new(&shell).parameters();
        assert!(matches!(&found[..], [one] if one.grade == Grade::Problem && one.text.contains("pigeon")), "{found:?}");
    }
}
