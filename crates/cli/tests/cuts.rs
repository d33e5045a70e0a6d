//! `weft perf cuts`, small: that links are cut and mended, that what comes of it is a document of the schema, and that
//! nothing is lost. How long anything takes is not tested.
//!
//! Where labs cannot be had, each test says why and passes.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Output, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use weft_perf::result::{Document, Row};

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weft"));
    command.args(["perf", "cuts"]).args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Whether there can be no lab, which the command reports then.
fn is_skipped(complaint: &str) -> bool {
    let is_impossible =
        complaint.contains("is not installed") || complaint.contains("does not let you make namespaces");
    if is_impossible {
        println!("skipped: {complaint}");
    }
    is_impossible
}

fn row<'a>(document: &'a Document, contestant: &str, metric: &str, way: &str, with_cut: bool) -> &'a Row {
    let is_meant = |row: &&Row| {
        (row.contestant.as_str(), row.metric.as_str()) == (contestant, metric)
            && (&row.case["way"], &row.case["with_cut"]) == (&json!(way), &json!(with_cut))
    };
    document.rows.iter().find(is_meant).unwrap_or_else(|| panic!("no {metric} of {contestant} {way} in the rows"))
}

#[test]
fn cuts_are_measured_beside_instants_without_one() {
    let arguments = ["--cuts", "2", "--peer-cuts", "1", "--links", "2", "--rate", "50M", "--ways", "silent,carrier"];
    let output = command(&[&arguments[..], &["--vs", "tcp", "--json", "-"]].concat()).output().unwrap();
    let complaint = said(&output);
    if is_skipped(&complaint) {
        return;
    }
    assert_eq!(output.status.code(), Some(0), "{complaint}");
    assert!(complaint.contains("2 of edge in 1 launch, 1 of tcp in 1 launch; about 1 minute"), "{complaint}");
    assert!(complaint.contains("p99") && complaint.contains("miscounted"), "the tables go to standard error");

    let document = Document::read(&String::from_utf8(output.stdout).unwrap()).unwrap();
    assert_eq!((document.test.as_str(), document.is_cut_short), ("cuts", false));
    assert_eq!(document.contestants(), ["edge", "tcp"]);
    for way in ["silent", "carrier"] {
        for with_cut in [true, false] {
            let pause = row(&document, "edge", "longest_pause", way, with_cut);
            assert!(pause.is_main && pause.unit == "ms" && pause.median > Some(0.0), "{pause:?}");
            assert_eq!(pause.histogram().unwrap().counts, [1]);
            assert!(row(&document, "edge", "recovery_time", way, with_cut).median.is_some());
        }
    }
    for contestant in ["edge", "tcp"] {
        let of = |metric| row(&document, contestant, metric, "all", true).median;
        assert!(of("sent_bytes") > Some(0.0));
        for fault in ["lost_bytes", "doubled_bytes", "out_of_order_bytes", "damaged_bytes"] {
            assert_eq!(of(fault), Some(0.0), "{contestant}: {fault}");
        }
    }
    assert!(row(&document, "edge", "operations", "all", true).median > Some(0.0));
    assert_eq!(row(&document, "edge", "miscounted_operations", "all", true).median, Some(0.0));
    // A stream of TCP whose link is cut has to wait for it: no transport that does is mistaken for one that does not.
    let tcp = document.rows.iter().find(|row| row.contestant == "tcp" && row.metric == "longest_pause").unwrap();
    assert!(tcp.worst > Some(900.0), "{tcp:?}");
}

#[test]
fn what_was_measured_before_an_interrupt_is_kept() {
    let arguments =
        ["--cuts", "50", "--links", "2", "--rate", "50M", "--ways", "silent", "--vs", "none", "--json", "-"];
    let mut child = command(&arguments).spawn().unwrap();
    let mut complaints = BufReader::new(child.stderr.take().unwrap());
    let mut plan = String::new();
    complaints.read_line(&mut plan).unwrap();
    if is_skipped(&plan) {
        child.wait().unwrap();
        return;
    }
    assert!(plan.contains("50 of edge in 3 launches"), "{plan}");
    // It has watched for Ctrl-C since before it said so.
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    let mut complaint = String::new();
    complaints.read_to_string(&mut complaint).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{complaint}");
    assert!(complaint.contains("Interrupted: what was measured until then is shown"), "{complaint}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["is_cut_short"], json!(true));
}

#[test]
fn a_wrong_command_line_says_what_is_right() {
    for (wrong, complaint) in [
        (&["--vs", "quic"][..], "edge, iwarp, mptcp and tcp"),
        (&["--links", "9"], "from 1 to 8"),
        (&["--size", "8"], "from 64 bytes to 64K"),
        (&["--ways", "slowly"], "carrier, silent, send and receive"),
        (&["--cuts", "0"], "0 is not in 1..=100000"),
        (&["--rate", "1"], "100 kb/s to 100 Gb/s"),
        (&["--runs", "3"], "unexpected argument '--runs'"),
    ] {
        let output = command(wrong).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{wrong:?}: {}", said(&output));
        assert!(said(&output).contains(complaint), "{wrong:?}: {}", said(&output));
    }
}
