//! `weft perf mpi`, tiny: it shows that it works with a library that is here, not how fast it is.

use std::process::{Command, Output, Stdio};
use std::{env, fs};

use serde_json::Value;

fn perf(arguments: &[&str]) -> Output {
    let common = ["--launches", "1", "--iterations", "6", "--warmup", "2", "--timeout", "600", "--json", "-"];
    Command::new(env!("CARGO_BIN_EXE_weft"))
        .args(["perf", "mpi"])
        .args(arguments)
        .args(common)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// The report, and what a person sees, in one line; `None` when this machine has no MPI library or no compiler.
fn report_of(arguments: &[&str]) -> Option<(Value, String)> {
    let output = perf(arguments);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.code() == Some(1) && (text.contains("MPI library") || text.contains("C compiler")) {
        println!("skipped: {text}");
        return None;
    }
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {text}");
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    Some((serde_json::from_slice(&output.stdout).unwrap(), text))
}

fn rows<'a>(report: &'a Value, metric: &str) -> Vec<&'a Value> {
    let is_bound = |row: &Value| row["contestant"].as_str().is_some_and(|name| name.starts_with("bound:"));
    report["rows"].as_array().unwrap().iter().filter(|row| row["metric"] == metric && !is_bound(row)).collect()
}

#[test]
fn each_part_has_its_figures() {
    let arguments = ["--test", "latency", "--transport", "libfabric-tcp", "--vs", "none"];
    let Some((report, _)) = report_of(&arguments) else { return };
    let latency = rows(&report, "half_round_trip");
    assert!(latency.iter().all(|row| row["median"].as_f64().unwrap() > 0.0), "between two hosts, where that can be");
    let library = latency[0]["case"]["library"].as_str().unwrap();

    let (library, size) = (["--library", library], ["--size", "70K"]);
    let alone = ["--lab", "off", "--transport", "libfabric-tcp", "--vs", "none"];
    let (report, text) = report_of(&[&library[..], &size, &alone].concat()).unwrap();
    for metric in ["half_round_trip", "throughput", "message_rate", "receiver_cpu"] {
        assert_eq!(rows(&report, metric).len(), 1, "{metric}");
    }
    for metric in ["hidden", "total_time"] {
        let directions: Vec<_> =
            rows(&report, metric).iter().map(|row| row["case"]["direction"].as_str().unwrap()).collect();
        assert_eq!(directions, ["one way", "both ways"], "{metric}");
    }
    assert!(rows(&report, "hidden").iter().all(|row| (0.0..=100.0).contains(&row["median"].as_f64().unwrap())));
    assert!(text.contains("both: send and receive"), "{text}");
}

#[test]
fn many_ranks_share_this_host() {
    let many = ["--test", "allreduce,start", "--processes", "3,4", "--transport", "libfabric-tcp", "--vs", "none"];
    let Some((report, text)) = report_of(&many) else { return };
    for metric in ["collective_time", "start_to_end"] {
        let rows = rows(&report, metric);
        assert!(
            rows.iter().any(|row| row["case"]["ranks"] == 3) && rows.iter().any(|row| row["case"]["ranks"] == 4),
            "{text}"
        );
        assert!(rows.iter().all(|row| row["median"].as_f64().unwrap() > 0.0), "{text}");
    }
    assert_eq!(report["place"], "loopback", "none of them needs a network: {text}");
    assert_eq!(perf(&["--test", "start", "--processes", "1"]).status.code(), Some(2));
}

#[test]
fn weft_carries_messages_where_its_provider_is() {
    let output = perf(&["--lab", "off", "--test", "latency,overlap", "--size", "8", "--vs", "libfabric-tcp"]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.code() == Some(1)
        && ["MPI library", "C compiler", "libweft-fi.so"].iter().any(|what| text.contains(what))
    {
        println!("skipped: {text}");
        return;
    }
    assert_eq!(output.status.code(), Some(0), "{text}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    for metric in ["half_round_trip", "communication_time"] {
        let is_pair = |one: &&Value| {
            one["metric"] == metric && one["contestant"] == "mpi:weft" && one["peer"] == "mpi:libfabric-tcp"
        };
        let comparison = report["comparisons"].as_array().unwrap().iter().find(is_pair).expect("both were measured");
        assert!(comparison["ratio"].as_f64().unwrap() > 0.0, "{comparison}");
    }
}

#[test]
fn nothing_is_left_behind() {
    let folder = env::temp_dir().join(format!("test-of-weft-perf-mpi-{}", std::process::id()));
    fs::create_dir(&folder).unwrap();
    let left_by = |end: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_weft"))
            .args([
                "perf",
                "mpi",
                "--lab",
                "off",
                "--test",
                "rate",
                "--transport",
                "libfabric-tcp",
                "--vs",
                "none",
                "--launches",
                "1",
            ])
            .args(end)
            .env("TMPDIR", &folder)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let names = fs::read_dir(&folder).unwrap().flatten().map(|entry| entry.file_name().into_string().unwrap());
        let ours: Vec<_> = names.filter(|name| name.starts_with("weft-")).collect();
        (ours, String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (left, text) = left_by(&["--iterations", "10"]);
    assert!(left.is_empty(), "{left:?}: {text}");
    // Too much for a second: it is given up.
    let (left, text) = left_by(&["--iterations", "90000000", "--timeout", "1"]);
    assert!(left.is_empty(), "{left:?}: {text}");
    let reasons = ["too long", "MPI library", "C compiler"];
    assert!(reasons.iter().any(|reason| text.contains(reason)), "{text}");
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn what_is_wrong_is_said() {
    let refused = |arguments: &[&str], code, because: &str| {
        let output = perf(arguments);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{text}");
        assert!(text.contains(because), "{text}");
    };
    let nowhere = ["--mpi", "/nonexistent", "--library", "mpich"];
    refused(&nowhere, 1, "mpich is not here; pip install mpich");
    refused(&["--connect", "192.0.2.1"], 2, "on one machine");
    refused(&["--library", "lam"], 2, "possible values");
}
