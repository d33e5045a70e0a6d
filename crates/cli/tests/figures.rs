//! `weft figures` as a user runs it: tiny, to show that it measures, continues, draws, and says what is wrong.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use weft_testing::numbers;

fn figures(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weft")).arg("figures").args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn said(output: &Output) -> String {
    [&output.stderr[..], &output.stdout[..]].map(String::from_utf8_lossy).concat()
}

/// A folder that goes with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("weft-figures-{name}-{}", std::process::id())))
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn experiments_are_measured_drawn_and_not_measured_twice() {
    let scratch = Scratch::new("measured");
    let out = scratch.0.display().to_string();
    let arguments = ["--quick", "rate", "fences-simulated", "--out", &out];
    let output = figures(&arguments);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let page = fs::read_to_string(scratch.path("figures.html")).unwrap();
    assert!(page.contains("How many small messages a second?") && page.contains("<svg"), "{page}");
    assert!(page.contains("rate.json"), "the samples are a file beside the page");
    assert!(!page.contains("http://") || !page.contains("src=\"http"), "nothing is loaded from anywhere");
    for file in ["rate-1.svg", "fences-simulated-1.svg", "figures.csv", "rate.log"] {
        assert!(Path::new(&scratch.path(file)).exists(), "{file}");
    }
    let read =
        |name: &str| -> Value { serde_json::from_str(&fs::read_to_string(scratch.path(name)).unwrap()).unwrap() };
    assert_eq!(read("rate.json")["schema"], "weft-perf");
    let output = figures(&arguments);
    assert!(said(&output).contains("rate: measured before"), "{}", said(&output));

    let elsewhere = scratch.path("again");
    let output = figures(&["--out", &elsewhere, "--from", &scratch.path("rate.json")]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(Path::new(&elsewhere).join("figures.html").exists());
}

#[test]
fn what_is_wrong_is_said_before_anything_is_measured() {
    let scratch = Scratch::new("wrong");
    fs::create_dir_all(&scratch.0).unwrap();
    let file = |name: &str, text: &str| {
        fs::write(scratch.path(name), text).unwrap();
        scratch.path(name)
    };
    let old = file("old.json", "{\"schema\": \"weft-perf\", \"schema_version\": 1}");
    let short = file("short.json", "{\"schema\": \"weft-perf\", \"schema_ver");
    let foreign = file("foreign.json", "{\"rows\": []}");
    let below_a_file = format!("{foreign}/figures");
    for (arguments, code, because) in [
        (&["--from", &*old][..], 2, "version 1, this weft reads version 2"),
        (&["--from", &*short], 2, "no whole JSON"),
        (&["--from", &*foreign], 2, "no result of weft perf"),
        (&["--from", "/no/such/file"], 2, "/no/such/file"),
        (&["speed"], 2, "there is no experiment \"speed\"; there are latency"),
        (&["speed"], 2, "and groups: edge, edge-short"),
        (&["rate", "--quick", "--out", &*below_a_file], 1, "cannot write to the folder"),
    ] {
        let output = figures(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", said(&output));
        assert!(said(&output).contains(because), "{arguments:?}: {}", said(&output));
    }
    let output = figures(&["--list"]);
    let list = said(&output);
    assert!(list.contains("How long does a cut hold data up?"), "{list}");
    assert!(list.lines().all(|line| line.len() <= 80), "{list}");
    let detail = said(&figures(&["--list", "cuts", "mpi"]));
    for part in ["longest pause", "weft perf cuts --cuts 1000", "130.0 minutes", "MPICH", "weft perf mpi"] {
        assert!(detail.contains(part), "{part}: {detail}");
    }
    assert!(list.contains("Edge beside its peers"), "{list}");
    let detail = said(&figures(&["--list", "rate-edge", "edge-short"]));
    let named: Vec<_> = detail.lines().filter(|line| line.contains("-edge: ")).collect();
    assert!(named.len() == 2 && named[0].starts_with("rate-edge") && named[1].starts_with("short-edge"), "{detail}");
}

#[test]
fn manual_pages_state_no_figures() {
    let scratch = Scratch::new("manual");
    let output = Command::new(env!("CARGO_BIN_EXE_weft")).arg("man").arg(&scratch.0).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let pages: Vec<_> = fs::read_dir(&scratch.0).unwrap().map(|page| page.unwrap().path()).collect();
    assert!(pages.len() > 20, "{pages:?}");
    for page in pages {
        // Times and shares are options and their defaults; other units of performance are measured.
        let text = format!("<!-- no figures: options -->\n{}", fs::read_to_string(&page).unwrap());
        let found = numbers(&text).unwrap();
        assert!(found.is_empty(), "{}: what was measured belongs into docs/lab-book: {found:?}", page.display());
    }
}
