//! The tests of `weft perf` across two clusters, and that of set-ups by delay, each a tiny instance: they show that it
//! works, not how fast it is. What takes time in flight can't be faster than the delay; how much slower depends on the
//! machine.

use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn perf(arguments: &[&str]) -> Output {
    let common = ["--launches", "1", "--iterations", "4", "--warmup", "1", "--timeout", "3600", "--json", "-"];
    Command::new(env!("CARGO_BIN_EXE_weft"))
        .arg("perf")
        .args(arguments)
        .args(common)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// The report, and what a person sees, in one line; `None` where this machine lacks something that is named.
fn report_of(arguments: &[&str]) -> Option<(Value, String)> {
    let output = perf(arguments);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let lacking = ["namespace", "MPI library", "C compiler", "is missing", "ip_forward"];
    if output.status.code() == Some(1) && lacking.iter().any(|words| text.contains(words)) {
        println!("skipped: {text}");
        return None;
    }
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {text}");
    Some((serde_json::from_slice(&output.stdout).unwrap(), text.split_whitespace().collect::<Vec<_>>().join(" ")))
}

/// The median of a contestant in a case.
fn median(report: &Value, contestant: &str, metric: &str, is_meant: impl Fn(&Value) -> bool) -> f64 {
    let is_row = |row: &&Value| row["contestant"] == contestant && row["metric"] == metric && is_meant(&row["case"]);
    let row = report["rows"].as_array().unwrap().iter().find(is_row);
    row.unwrap_or_else(|| panic!("{contestant} has no {metric}: {report}"))["median"].as_f64().unwrap()
}

fn refused(arguments: &[&str], because: &str) {
    let output = perf(arguments);
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && words.contains(because), "{arguments:?}: {words}");
}

#[test]
fn one_endpoint_reaches_its_own_host_its_cluster_and_another() {
    let endpoint = "messages:transport=shm+edge";
    let words = ["clusters", "--size", "4", "--delay", "2ms", "--transport", endpoint, "--vs", "sockets"];
    let Some((report, text)) = report_of(&words) else { return };
    for contestant in [endpoint, "sockets"] {
        let to = |peer: &str| median(&report, contestant, "half_round_trip", |case| case["peer"] == peer);
        assert!(to("same host") > 0.0 && to("same cluster") > 0.0);
        assert!(to("other cluster") >= 2000.0, "{contestant} is faster than the link: {report}");
    }
    assert!(text.contains("two clusters of 2 hosts, links of 1 Gb/s; between the clusters"), "{text}");
    assert!(text.contains("same host: of the time of sockets"), "{text}");
    refused(&["clusters", "--lab", "off"], "two clusters");
    refused(&["clusters", "--connect", "192.0.2.1"], "--connect is not an option of weft perf clusters");
}

#[test]
fn a_set_up_takes_the_round_trips_of_its_handshakes() {
    let words = ["connect", "--lab", "1G", "--delay", "5ms", "--transport", "iwarp"];
    let others = "messages,messages:transport=edge:key=on,edge,edge:key=on,sockets";
    let Some((report, text)) = report_of(&[&words[..], &["--vs", others]].concat()) else { return };
    // TCP has one before the first message, MPA another; an endpoint's first message is behind at least these.
    for (contestant, least) in [("sockets", 1.0), ("iwarp", 2.0), ("messages", 2.0), ("edge", 1.0)] {
        let trips = median(&report, contestant, "round_trips", |_| true);
        assert!(trips >= least - 0.01, "{contestant}: {trips} round trips: {text}");
    }
    for contestant in ["messages:transport=edge:key=on", "edge:key=on"] {
        assert!(median(&report, contestant, "first_answer_time", |_| true) >= 20_000.0, "{text}");
    }
    assert!(median(&report, "sockets", "connect_time", |_| true) >= 10_000.0, "{text}");
    refused(&["connect", "--transport", "iwarp:key=on", "--vs", "none"], "over Edge alone");
    refused(&["connect", "--delay", "1ms"], "needs --lab");
}

#[test]
fn an_mpi_job_has_ranks_in_two_clusters() {
    let words = ["mpi-clusters", "--size", "64", "--delay", "1ms", "--transport", "libfabric-tcp", "--vs", "none"];
    let Some((report, text)) = report_of(&words) else { return };
    for metric in ["ring_time", "all_to_all_time", "halo_time", "sort_time"] {
        // A ring crosses the link twice, the others at least once.
        let least = if metric == "ring_time" { 2000.0 } else { 1000.0 };
        let us = median(&report, "mpi:libfabric-tcp", metric, |_| true);
        assert!(us >= least, "{metric}: {us}: {text}");
    }
    assert!(text.contains("two clusters of 4 hosts") && text.contains("bucketsort.c"), "{text}");
}
