//! `weft run` and `weft doctor` as a user runs them, with programs in place of those of others.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

const WEFT: &str = env!("CARGO_BIN_EXE_weft");

/// A directory that goes with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("weft-programs-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        Self(path)
    }

    /// A script that can be run.
    fn script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The command, without variables of this shell that it judges.
fn weft(arguments: &[&str]) -> Command {
    let mut command = Command::new(WEFT);
    command.args(arguments).stdin(Stdio::null());
    for name in ["LD_PRELOAD", "LD_LIBRARY_PATH", "FI_PROVIDER_PATH", "FI_PROVIDER"] {
        command.env_remove(name);
    }
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Whether Weft's provider of libfabric was built; where a test built only the command, MPI programs have none.
fn has_provider() -> bool {
    let beside = Path::new(WEFT).parent().unwrap();
    let is_built = ["libweft_fi.so", "deps/libweft_fi.so"].iter().any(|file| beside.join(file).is_file());
    if !is_built {
        println!("skipped: Weft's provider was not built");
    }
    is_built
}

/// An MPI library's starter, which says that it is Open MPI's, and runs `text` in place of ranks.
fn starter_of(scratch: &Scratch, text: &str) -> PathBuf {
    scratch.script("mpiexec", &format!("[ \"$1\" = --version ] && {{ echo 'mpiexec (Open MPI) 5.0'; exit; }}\n{text}"))
}

#[test]
fn a_shell_that_is_not_set_up_is_told_so() {
    let output = weft(&["doctor", "--json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["uses_weft"], false);
    let findings = answer["findings"].as_array().unwrap();
    let problem = |topic: &str| {
        findings
            .iter()
            .any(|finding| finding["topic"] == topic && finding["grade"] == "problem" && finding["text"] != "")
    };
    assert!(problem("verbs") && problem("libfabric"), "{answer:#}");
    assert!(findings.iter().any(|finding| finding["topic"] == "machine"), "{answer:#}");

    let page = weft(&["doctor"]).output().unwrap();
    assert_eq!(page.status.code(), Some(1));
    let words = text(&page.stdout);
    assert!(words.contains("programs that use libibverbs\n") && words.contains("           do: "), "{words}");
    assert!(words.contains("does not use Weft"), "{words}");
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let output = weft(&["doctor", "no-such-program"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("no-such-program") && output.stdout.is_empty());
}

#[test]
fn a_starter_of_ranks_gets_the_variables_of_its_library() {
    if !has_provider() {
        return;
    }
    let scratch = Scratch::new("variables");
    let starter = starter_of(&scratch, "env; exit 3");
    let run = |more: &[&str]| {
        let mut arguments = vec!["run"];
        arguments.extend(more);
        arguments.push(starter.to_str().unwrap());
        weft(&arguments).env("WEFT_BOARDS", &scratch.0).output().unwrap()
    };
    let output = run(&["--"]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    let environment = text(&output.stdout);
    for line in ["FI_PROVIDER=weft\n", "OMPI_MCA_pml=cm\n", "OMPI_MCA_mtl=ofi\n", "FI_PROVIDER_PATH=/"] {
        assert!(environment.contains(line), "no {line:?} in {environment}");
    }
    for foreign in ["I_MPI_", "MPIR_CVAR", "LD_PRELOAD"] {
        assert!(!environment.contains(foreign), "{foreign} in {environment}");
    }
    let printed = run(&["--print"]);
    assert!(text(&printed.stdout).contains("export OMPI_MCA_pml='cm'\n"), "{}", text(&printed.stdout));
}

#[test]
fn a_report_names_ranks_and_their_transport() {
    if !has_provider() {
        return;
    }
    let scratch = Scratch::new("report");
    // Two processes of the command take the place of ranks.
    let ranks = format!(
        "PMI_RANK=5 '{WEFT}' perf latency --transport shm --vs none --launches 1 --iterations 20 --warmup 1 >&2; exit 7"
    );
    let starter = starter_of(&scratch, &ranks);
    let output = weft(&["run", "--report", "--", starter.to_str().unwrap()]).env("WEFT_BOARDS", &scratch.0).output();
    let output: Output = output.unwrap();
    assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
    let report = text(&output.stderr);
    assert!(report.contains("over shared memory: rank 5\n"), "{report}");
    assert!(!report.contains("over Edge"), "{report}");
    let mut left = fs::read_dir(&scratch.0).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(!left.any(|name| name.to_string_lossy().starts_with("report-")), "the folder of the report is gone");

    let silent = starter_of(&scratch, "exit 0");
    let output = weft(&["run", "--report", "--", silent.to_str().unwrap()]).env("WEFT_BOARDS", &scratch.0).output();
    let words = text(&output.unwrap().stderr);
    assert!(words.contains("no process of this host has opened a NIC") && words.contains("weft doctor"), "{words}");
}
