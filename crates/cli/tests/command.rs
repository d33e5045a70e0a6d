//! The command as a user runs it. Measurements are tiny: they show that every contestant still works, not how fast it
//! is.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

fn weft(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weft")).args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn code(output: &Output) -> Option<i32> {
    output.status.code()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A measurement of `contestant` alone, with `extra` arguments; `None`, and a line that says why, where it is not
/// installed.
fn measure(test: &str, contestant: &str, extra: &[&str]) -> Option<Value> {
    let mut arguments = vec!["perf", test, "--transport", contestant, "--vs", "none", "--launches", "1", "--json", "-"];
    // The machine may be busy with other things; only a contestant that hangs takes this long.
    arguments.extend(["--iterations", "40", "--warmup", "4", "--timeout", "3600"]);
    arguments.extend(extra);
    let output = weft(&arguments);
    let complaint = text(&output.stderr);
    if code(&output) == Some(1)
        && ["not installed", "no provider", "no such socket"].iter().any(|why| complaint.contains(why))
    {
        println!("skipped: {contestant}: {complaint}");
        return None;
    }
    assert_eq!(code(&output), Some(0), "{contestant} {test}: {complaint}");
    assert!(complaint.contains(contestant), "the table goes to standard error");
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

#[test]
fn help_has_examples() {
    for arguments in [&["--help"][..], &["perf", "--help"], &["info", "--help"], &["completions", "--help"]] {
        let output = weft(arguments);
        assert_eq!(code(&output), Some(0));
        let help = text(&output.stdout);
        assert!(help.contains("Example") || arguments == ["--help"], "{help}");
        assert!(!help.contains("perf-peer"), "the hidden subcommand stays hidden");
    }
}

#[test]
fn the_environment_is_checked_before_anything_is_done() {
    let with = |name: &str, value: &str, arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_weft")).args(arguments).env(name, value).output().unwrap();
        (code(&output), text(&output.stderr))
    };
    let (unknown, complaint) = with("FI_WEFT_TRANSPROT", "edge", &["stat"]);
    assert_eq!(unknown, Some(2), "{complaint}");
    assert!(complaint.contains("FI_WEFT_TRANSPROT: there is no such setting"), "{complaint}");
    assert!(complaint.contains("the nearest is FI_WEFT_TRANSPORT"), "{complaint}");
    let (wrong, complaint) = with("FI_WEFT_TUNE", "short=1M", &["perf", "latency"]);
    assert_eq!(wrong, Some(2), "{complaint}");
    assert!(complaint.contains("FI_WEFT_TUNE: short=\"1M\" is not possible"), "{complaint}");
    let (old, complaint) = with("FI_WEFT_SHORT", "8K", &["stat"]);
    assert_eq!(old, Some(0), "{complaint}");
    assert_eq!(complaint.matches("set FI_WEFT_TUNE=short=8K").count(), 1, "{complaint}");
    let (help, complaint) = with("FI_WEFT_TRANSPROT", "edge", &["stat", "--help"]);
    assert_eq!((help, &complaint[..]), (Some(0), ""));
}

#[test]
fn the_help_has_the_environment() {
    let output = weft(&["--help"]);
    let help = text(&output.stdout);
    for words in ["FI_WEFT_TRANSPORT", "default auto", "FI_WEFT_TUNE", "short (16K)", "Exit codes:"] {
        assert!(help.contains(words), "{words}: {help}");
    }
}

#[test]
fn a_wrong_command_line_exits_with_2() {
    let wrong = [
        &["nonsense"][..],
        &["perf"],
        &["perf", "speed"],
        &["perf", "latency", "--size", "zero"],
        &["perf", "latency", "--launches", "0"],
        &["perf", "latency", "--vs", "somebody"],
        &["perf", "latency", "--transport", "somebody"],
        &["perf", "latency", "--transport", "sockets:batched", "--vs", "none"],
        &["perf", "rate", "--transport", "ucx:fast", "--vs", "none"],
        &["perf", "rate", "--vs", "iwarp:crc=maybe"],
        &["perf", "latency", "--listen", "127.0.0.1"],
        &["completions", "nosuchshell"],
    ];
    for arguments in wrong {
        let output = weft(arguments);
        assert_eq!(code(&output), Some(2), "{arguments:?}: {}", text(&output.stderr));
        assert!(output.stdout.is_empty() && !output.stderr.is_empty());
    }
}

#[test]
fn a_failure_exits_with_1() {
    // No process listens on port 1, so it refuses at once.
    let output = weft(&["perf", "latency", "--transport", "sockets", "--vs", "none", "--connect", "127.0.0.1:1"]);
    assert_eq!(code(&output), Some(1));
    assert!(text(&output.stderr).contains("127.0.0.1 port 1"), "{}", text(&output.stderr));
    let output = weft(&["perf", "latency", "--transport", "libfabric:nonesuch", "--vs", "none"]);
    assert_eq!(code(&output), Some(1));
    let complaint = text(&output.stderr);
    assert!(complaint.contains("nonesuch") || complaint.contains("not installed"), "{complaint}");
}

#[test]
fn completions_are_made_for_each_shell() {
    for shell in ["bash", "zsh", "fish"] {
        let output = weft(&["completions", shell]);
        assert_eq!(code(&output), Some(0));
        assert!(text(&output.stdout).contains("latency"), "{shell}");
    }
}

#[test]
fn info_is_a_page_and_json() {
    let page = text(&weft(&["info"]).stdout);
    assert!(page.contains("interface") && page.contains("open files") && page.contains("MPTCP"), "{page}");
    let output = weft(&["info", "--json"]);
    assert_eq!(code(&output), Some(0));
    let info: Value = serde_json::from_slice(&output.stdout).unwrap();
    for part in ["interfaces", "limits", "abilities"] {
        assert!(!info[part].as_array().unwrap().is_empty(), "{part}");
    }
    assert!(info["system"]["cores"].as_u64().unwrap() > 0);
}

#[test]
fn latency_of_each_contestant() {
    for contestant in
        ["iwarp", "iwarp:progress=thread", "sockets", "mptcp", "libfabric", "libfabric:tcp;ofi_rxm", "ucx"]
    {
        // One size that is injected, one that is not.
        let Some(report) = measure("latency", contestant, &["--size", "8,64K"]) else { continue };
        let rows = report["rows"].as_array().unwrap();
        assert_eq!(rows.len(), 2, "{report}");
        assert_eq!(report["comparisons"].as_array().map(Vec::len), Some(0));
        for row in rows {
            assert_eq!((&report["test"], &row["metric"]), (&"latency".into(), &"half_round_trip".into()));
            assert_eq!((&row["contestant"], &row["unit"]), (&contestant.into(), &"us".into()));
            assert!(row["median"].as_f64().unwrap() > 0.0 && row["p99"].as_f64().unwrap() > 0.0, "{row}");
        }
    }
}

#[test]
fn bandwidth_of_each_contestant() {
    for contestant in ["iwarp", "iwarp:crc=off:markers=on", "sockets", "sockets:256K", "mptcp", "libfabric", "ucx"] {
        let Some(report) = measure("bandwidth", contestant, &["--size", "64K"]) else { continue };
        let (bounds, rows): (Vec<&Value>, Vec<&Value>) =
            report["rows"].as_array().unwrap().iter().partition(|row| row["contestant"] == "bound:memory copy");
        assert!(bounds.len() == 1 && bounds[0]["median"].as_f64().unwrap() > 0.0, "{report}");
        let metrics = rows.iter().map(|row| row["metric"].as_str().unwrap());
        // Not each contestant has it.
        let metrics: Vec<_> = metrics.filter(|metric| *metric != "throughput_with_start").collect();
        assert_eq!(metrics[..3], ["throughput", "sender_cpu", "receiver_cpu"]);
        let copies = contestant.starts_with("iwarp").then_some(["sender_copies", "receiver_copies"]);
        let shares = (contestant.starts_with("iwarp")).then_some(["sender_cpu_share", "receiver_cpu_share"]);
        assert_eq!(metrics[3..], [copies, shares].into_iter().flatten().flatten().collect::<Vec<_>>());
        assert!(rows[0]["median"].as_f64().unwrap() > 0.0, "{contestant}");
        assert!(rows[1..3].iter().all(|row| row["median"].is_number()), "{contestant}");
    }
}

#[test]
fn rate_of_each_contestant() {
    for contestant in ["iwarp", "sockets", "sockets:batched", "libfabric", "ucx"] {
        let Some(report) = measure("rate", contestant, &["--window", "16"]) else { continue };
        assert!(report["rows"][0]["median"].as_f64().unwrap() > 0.0, "{contestant}");
        assert_eq!(report["settings"]["window"], 16);
    }
}

#[test]
fn sleeping_pinned_and_other_operations_work() {
    measure("latency", "sockets", &["--wait", "block", "--pin", "on"]);
    measure("bandwidth", "sockets", &["--wait", "block", "--size", "1000"]);
    measure("latency", "iwarp", &["--wait", "block", "--size", "8,4K", "--operation", "write"]);
    let read = measure("latency", "iwarp", &["--operation", "read"]).unwrap();
    assert_eq!(read["rows"][0]["metric"], "round_trip");
    for operation in ["send", "read"] {
        measure(
            "bandwidth",
            "iwarp",
            &["--operation", operation, "--window", "3", "--size", "100000", "--fpdu", "path"],
        );
        measure("rate", "iwarp", &["--operation", operation, "--window", "1"]);
    }
    measure("latency", "ucx", &["--operation", "write"]);
    measure("bandwidth", "ucx", &["--operation", "read"]);
}

#[test]
fn peers_are_rows_with_a_ratio() {
    let file = std::env::temp_dir().join(format!("weft-perf-{}.json", std::process::id()));
    let arguments = ["perf", "rate", "--transport", "sockets", "--vs", "sockets:batched", "--launches", "2"];
    let arguments =
        [&arguments[..], &["--iterations", "100", "--timeout", "3600", "--json", file.to_str().unwrap()]].concat();
    let output = weft(&arguments);
    assert_eq!(code(&output), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("sockets / it"), "{}", text(&output.stdout));
    let report: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    std::fs::remove_file(file).unwrap();
    assert_eq!((&report["schema"], &report["schema_version"]), (&"weft-perf".into(), &2.into()));
    let [one, other] = ["sockets", "sockets:batched"].map(|name| {
        let row = report["rows"].as_array().unwrap().iter().find(|row| row["contestant"] == name).unwrap();
        let values: Vec<f64> =
            row["launches"].as_array().unwrap().iter().map(|launch| launch["value"].as_f64().unwrap()).collect();
        let number = |value: &Value| value.as_f64().unwrap();
        let [least, middle, most] = [&row["interval"]["low"], &row["median"], &row["interval"]["high"]].map(number);
        assert_eq!((values.len(), least), (2, values[0].min(values[1])), "{row}");
        assert!(least <= middle && middle <= most, "{row}");
        assert_eq!(row["interval"]["coverage"], 0.5, "of two values: {row}");
        assert!((number(&row["mean"]) / middle - 1.0).abs() < 1e-9, "of two it is the median: {row}");
        middle
    });
    let comparison = &report["comparisons"][0];
    assert_eq!((&comparison["contestant"], &comparison["peer"]), (&"sockets".into(), &"sockets:batched".into()));
    assert!((comparison["ratio"].as_f64().unwrap() - one / other).abs() < 1e-9);
    // Two launches are too few to say which is ahead.
    assert_eq!(comparison["verdict"], "equal", "{comparison}");
    let table = text(&output.stdout);
    for part in ["interval", " ~\n", "~ not told from the first", "load ", "processor time of other processes"] {
        assert!(table.contains(part), "{part}: {table}");
    }
    let machine = &report["machine"];
    assert!(machine["steal_share"].is_number() && machine["load_after"].is_array(), "{machine}");
    assert!(report["began_unix_s"].as_u64().unwrap() > 0 && report["seconds"].as_f64().unwrap() > 0.0, "{report}");
    assert_eq!(report["command"].as_array().unwrap()[2], "rate");
    for once in ["host", "kernel", "cores", "congestion_control"] {
        assert!(!machine[once].is_null(), "{once}");
    }
    for once in ["version", "commit", "settings", "question", "place"] {
        assert!(!report[once].is_null(), "{once}");
    }
}

/// A listening `weft perf`, killed when dropped.
struct Listener(Child);

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn two_machines_are_two_commands() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_weft"))
        .args(["perf", "--listen", "127.0.0.1:0"])
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let _listener = Listener(child);
    let address = line.strip_prefix("listening at ").and_then(|rest| rest.split(';').next()).unwrap();
    for contestant in ["sockets", "libfabric", "ucx"] {
        let Some(report) = measure("latency", contestant, &["--connect", address]) else { continue };
        assert!(report["rows"][0]["median"].as_f64().unwrap() > 0.0);
    }
}
