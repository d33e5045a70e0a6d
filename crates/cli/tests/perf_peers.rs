//! The peers of `weft perf` that other projects make, each a tiny instance: measured where it is built in or installed,
//! and else named with how to get it.

use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn perf(arguments: &[&str]) -> Output {
    // The machine may be busy with other things; only a test that hangs takes this long.
    let common = ["--launches", "1", "--iterations", "64", "--warmup", "2", "--timeout", "3600", "--json", "-"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_weft"));
    command.arg("perf").args(arguments).args(common).stdin(Stdio::null()).output().unwrap()
}

fn report_of(arguments: &[&str]) -> Value {
    let output = perf(arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// That a peer has figures and a version, or that the report says how to get it.
fn is_measured_or_named(test: &str, peer: &str, how: &str) {
    let report = report_of(&[test, "--size", "64", "--transport", "sockets", "--vs", peer]);
    let figures = report["rows"].as_array().unwrap().iter().find(|row| row["contestant"] == peer);
    match (figures, report["not_measured"].as_array().unwrap().first()) {
        (Some(row), None) => {
            assert!(row["median"].as_f64().unwrap() > 0.0, "{row}");
            assert!(report["peers"][peer].as_str().is_some_and(|version| version.contains('.')), "{report}");
        }
        (_, Some(missing)) => {
            let reason = missing["reason"].as_str().unwrap();
            assert!(reason.contains(how), "{reason}");
            println!("skipped: {peer}: {reason}");
        }
        (None, None) => panic!("{peer} has no figures and no reason: {report}"),
    }
}

#[test]
fn quinn_is_measured_or_named() {
    for test in ["latency", "bandwidth", "rate", "ping-ping"] {
        is_measured_or_named(test, "quinn", "--features quinn");
    }
}

#[test]
fn iceoryx2_is_measured_or_named() {
    for test in ["latency", "bandwidth", "rate"] {
        is_measured_or_named(test, "iceoryx2", "--features iceoryx2");
    }
}

#[test]
fn ucx_is_measured_or_named() {
    for peer in ["ucx:tcp", "ucx:posix", "ucx:cma"] {
        is_measured_or_named("latency", peer, "libucx-cu12");
    }
}

#[test]
fn the_kernel_is_the_version_of_sockets() {
    let report = report_of(&["latency", "--size", "64", "--transport", "sockets", "--vs", "iwarp"]);
    assert!(report["peers"]["sockets"].as_str().unwrap().starts_with("Linux "), "{report}");
    assert_eq!(report["peers"]["iwarp"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn an_environment_without_ucx_is_named() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weft"));
    let arguments = ["perf", "latency", "--size", "8", "--launches", "1", "--iterations", "8", "--vs", "ucx"];
    let output = command.args(arguments).env("WEFT_UCX", "/nowhere").stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("WEFT_UCX names no environment with UCX: /nowhere"), "{text}");
}
