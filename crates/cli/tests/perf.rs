//! The tests of `weft perf` beyond latency, bandwidth and rate, each a tiny instance: they show that it works, not how
//! fast it is.

use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// Kinds of fence that `--fence all` measures.
const FENCES: usize = 7;

fn perf(arguments: &[&str]) -> Output {
    perf_of_rounds(["--iterations", "8", "--warmup", "2"], arguments)
}

fn perf_of_rounds(rounds: [&str; 4], arguments: &[&str]) -> Output {
    // The machine may be busy with other things; only a test that hangs takes this long.
    let common = ["--launches", "1", "--timeout", "3600", "--json", "-"];
    Command::new(env!("CARGO_BIN_EXE_weft"))
        .arg("perf")
        .args(arguments)
        .args(rounds)
        .args(common)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// The report, and what a person sees, in one line.
fn report_of(arguments: &[&str]) -> (Value, String) {
    report_in(arguments, &perf(arguments))
}

fn report_in(arguments: &[&str], output: &Output) -> (Value, String) {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {text}");
    (serde_json::from_slice(&output.stdout).unwrap(), text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// The rows of contestants with this metric.
fn rows<'a>(report: &'a Value, metric: &str) -> Vec<&'a Value> {
    let is_bound = |row: &Value| row["contestant"].as_str().is_some_and(|name| name.starts_with("bound:"));
    report["rows"].as_array().unwrap().iter().filter(|row| row["metric"] == metric && !is_bound(row)).collect()
}

/// Medians of the first contestant and of its only peer in each case, all of which must be numbers.
fn medians(report: &Value, metric: &str) -> Vec<[f64; 2]> {
    let rows = rows(report, metric);
    let first = &report["rows"][0]["contestant"];
    let number = |row: &&Value| row["median"].as_f64().unwrap();
    let pair = |row: &&Value| {
        let is_peer = |other: &&&Value| other["case"] == row["case"] && other["contestant"] != *first;
        [number(row), rows.iter().find(is_peer).map(number).unwrap()]
    };
    rows.iter().filter(|row| row["contestant"] == *first).map(pair).collect()
}

/// Refused with the options of all tests that start processes.
fn refused(arguments: &[&str], because: &str) {
    is_refusal(arguments, &perf(arguments), because);
}

/// Refused with these options alone.
fn refused_alone(arguments: &[&str], because: &str) {
    let output = Command::new(env!("CARGO_BIN_EXE_weft")).arg("perf").args(arguments).output().unwrap();
    is_refusal(arguments, &output, because);
}

fn is_refusal(arguments: &[&str], output: &Output, because: &str) {
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {complaint}");
    assert!(complaint.contains(because), "{complaint}");
}

#[test]
fn ping_ping_has_exchanges_and_both_ways() {
    let (report, text) = report_of(&["ping-ping", "--size", "8,20K", "--vs", "sockets"]);
    assert_eq!(medians(&report, "exchange_time").len(), 2);
    assert!(medians(&report, "duplex_throughput").iter().flatten().all(|median| *median > 0.0));
    assert!(text.contains("both ways"), "{text}");
    refused(&["ping-ping", "--transport", "ucx", "--vs", "none"], "no such test");
}

#[test]
fn logp_has_its_parameters_of_each_size() {
    let (report, text) = report_of(&["logp", "--size", "1,1K", "--vs", "edge,shm,sockets"]);
    for (metric, count) in
        [("send_overhead", 8), ("receive_overhead", 8), ("gap", 8), ("latency", 8), ("gap_per_byte", 4)]
    {
        let rows = rows(&report, metric);
        assert_eq!(rows.len(), count, "{metric}: {text}");
        assert!(rows.iter().all(|row| row["median"].is_number()), "{metric}: {text}");
    }
    assert!(rows(&report, "round_trip").iter().all(|row| row["median"].as_f64().unwrap() > 0.0), "{text}");
    refused(&["logp", "--transport", "ucx", "--vs", "none"], "no such test");
}

#[test]
fn a_surface_is_the_same_over_each_design_and_its_picture_is_a_file() {
    let picture = std::env::temp_dir().join(format!("weft-surface-{}.png", std::process::id()));
    let path = picture.display().to_string();
    let arguments = ["isosurface", "--lab", "off", "--side", "20,32", "--size", "1000,64K", "--picture", &path];
    // A pass draws a whole picture, in a build without optimisation.
    let output = perf_of_rounds(["--iterations", "2", "--warmup", "1"], &arguments);
    let (report, text) = report_in(&arguments, &output);
    let times = rows(&report, "execution_time");
    assert_eq!(times.len(), 4 * 5, "{text}");
    assert!(times.iter().all(|row| row["median"].as_f64().unwrap() > 0.0), "{text}");
    assert!(rows(&report, "triangles").iter().all(|row| row["median"].as_f64().unwrap() > 1000.0), "{text}");
    assert!(text.contains("20 x 20 x 8: ") && text.contains("32 x 32 x 8: "), "{text}");
    let file = std::fs::read(&picture).unwrap();
    let _ = std::fs::remove_file(&picture);
    assert!(file.starts_with(b"\x89PNG"), "{} bytes", file.len());
    refused(&["isosurface", "--side", "8"], "8");
    refused(&["latency", "--side", "64"], "isosurface");
}

#[test]
fn a_notified_put_is_measured_beside_a_message_and_polled_memory() {
    let (report, text) = report_of(&["notified-put", "--size", "8,20K"]);
    let times = rows(&report, "half_round_trip");
    assert_eq!(times.len(), 2 * 3 * 3, "{text}");
    assert!(times.iter().all(|row| row["median"].as_f64().unwrap() > 0.0), "{text}");
    assert!(text.contains("polls its last byte"), "{text}");
    refused(&["bandwidth", "--operation", "notify", "--vs", "none"], "measured in latency");
}

#[test]
fn both_ways_also_asleep() {
    let (report, _) = report_of(&["ping-ping", "--size", "20K", "--vs", "sockets", "--wait", "block"]);
    assert_eq!(medians(&report, "duplex_throughput").len(), 1);
}

#[test]
fn overlap_is_told_of_each_operation_and_target() {
    for operation in ["send", "write", "read"] {
        let arguments = ["overlap", "--lab", "off", "--size", "2K", "--computation", "1,20", "--operation", operation];
        let thread = ["--transport", "iwarp:progress=thread", "--vs", "none"];
        let (report, _) = report_of(&[&arguments[..], &thread].concat());
        let shares = rows(&report, "overlap");
        let targets: Vec<_> = shares.iter().map(|row| row["case"]["target"].as_str().unwrap()).collect();
        assert_eq!(targets, ["silent", "computing", "polling"]);
        for row in shares.iter().chain(&rows(&report, "hidden")) {
            assert!((0.0..=100.0).contains(&row["median"].as_f64().unwrap()), "{row}");
            assert_eq!(row["case"]["operation"], operation);
        }
        assert_eq!(rows(&report, "throughput").len(), 2);
        assert!(
            rows(&report, "target_cpu").iter().all(|row| row["case"]["target"] == "silent"),
            "others use a core anyway"
        );
    }
}

#[test]
fn overlap_names_who_cannot() {
    let arguments = ["overlap", "--lab", "off", "--size", "2K", "--computation", "1", "--target", "silent,polling"];
    let (report, text) =
        report_of(&[&arguments[..], &["--transport", "iwarp:progress=caller", "--vs", "sockets"]].concat());
    let own = |row: &&&Value| row["contestant"] == "iwarp:progress=caller";
    let overlap = rows(&report, "overlap");
    let targets: Vec<_> = overlap.iter().filter(own).map(|row| row["case"]["target"].clone()).collect();
    assert_eq!(targets, ["polling"]);
    assert!(text.contains("not measured: sockets") && text.contains("never answers"), "{text}");
    assert!(report["not_measured"].as_array().unwrap().len() >= 2);
    // Of its own peers some can do nothing for a silent target, which is no mistake of the user's.
    let alone = ["overlap", "--lab", "off", "--size", "2K", "--computation", "1", "--target", "silent"];
    assert!(!rows(&report_of(&alone).0, "overlap").is_empty());
    refused(&[&alone[..], &["--vs", "sockets"]].concat(), "never answers");
}

#[test]
fn who_computes_can_be_called_for() {
    let summon = ["--transport", "iwarp:progress=summon", "--vs", "none", "--operation", "read"];
    let arguments = ["overlap", "--lab", "off", "--size", "2K", "--computation", "300", "--target", "computing,silent"];
    let (report, text) = report_of(&[&arguments[..], &summon].concat());
    let targets: Vec<_> = rows(&report, "overlap").iter().map(|row| row["case"]["target"].clone()).collect();
    assert_eq!(targets, ["computing"], "a target that sleeps is not called");
    assert!(text.contains("without a thread of its own"), "{text}");
}

#[test]
fn the_computed_part_of_a_transfer_is_told_of_each_computation() {
    let arguments = ["overlap-ratio", "--lab", "off", "--computation", "1,300", "--transport", "iwarp"];
    let (report, text) = report_of(&[&arguments[..], &["--vs", "edge,sockets"]].concat());
    let ratios = rows(&report, "computing");
    assert_eq!(ratios.len(), 6, "{text}");
    let percent = |row: &Value| row["median"].as_f64().unwrap();
    assert!(ratios.iter().all(|row| percent(row) > 0.0 && percent(row) <= 100.0), "{text}");
    assert!(ratios.iter().all(|row| row["case"]["target"] == "polling"), "{text}");
    // The whole time has the computation in it.
    let totals = rows(&report, "total_time");
    let long = totals.iter().filter(|row| row["case"]["computation_us"] == 300);
    assert!(long.map(|row| percent(row)).all(|total| total > 100.0), "{text}");
    let silent = [&arguments[..], &["--vs", "sockets", "--target", "silent"]].concat();
    assert_eq!(perf(&silent).status.code(), Some(2), "sockets can't be measured with a silent target alone");
    refused(&["overlap-ratio", "--computation", "2000000"], "not in 0..=1000000");
    refused(&["overlap-ratio", "--window", "4"], "--window");
}

#[test]
fn a_server_that_computes_is_read_all_the_same() {
    let arguments = ["progress", "--lateness", "0ms,2500us", "--size", "1K", "--transport", "iwarp"];
    let (report, text) = report_of(&[&arguments[..], &["--vs", "edge,sockets"]].concat());
    let fetches = rows(&report, "fetch_time");
    let of = |name: &str| fetches.iter().filter(|row| row["contestant"] == name).copied().collect::<Vec<_>>();
    for name in ["iwarp", "edge", "sockets"] {
        let cases: Vec<_> = of(name).iter().map(|row| row["case"]["late_ms"].as_f64().unwrap()).collect();
        assert_eq!(cases, [0.0, 2.5], "{name}");
    }
    // An answer that comes before its computation is over would be wrong on any machine.
    assert!(of("sockets")[1]["median"].as_f64().unwrap() > 1000.0, "{text}");
    assert!(text.contains("Time of a fetch"), "{text}");
    refused(&["progress", "--lateness", "2s"], "at most 1s");
    refused(&["progress", "--lateness", "16"], "no time");
    refused(&["progress", "--operation", "write"], "--operation");
    refused(&["progress", "--vs", "libfabric"], "exchanges");
    refused(&["overlap", "--lateness", "1ms"], "progress");
}

#[test]
fn streams_beside_a_computation_carry_the_same_load() {
    let arguments = ["slowdown", "--quick", "--streams", "3", "--load", "20M", "--size", "1K", "--transport", "iwarp"];
    let (report, text) = report_of(&[&arguments[..], &["--vs", "edge,sockets"]].concat());
    let slowdown = rows(&report, "slowdown");
    let names: Vec<_> = slowdown.iter().map(|row| row["contestant"].as_str().unwrap()).collect();
    assert_eq!(names, ["iwarp", "edge", "sockets"], "{text}");
    assert!(slowdown.iter().all(|row| row["median"].as_f64().unwrap() >= 0.0), "{text}");
    // What is paced is never more than was offered, and a message for the tick that has begun.
    let load: Vec<_> = rows(&report, "load").iter().map(|row| row["median"].as_f64().unwrap()).collect();
    assert!(load.len() == 3 && load.iter().all(|load| *load > 0.0 && *load < 25.0), "{load:?}");
    refused(&["slowdown", "--streams", "0"], "--streams");
    refused(&["slowdown", "--load", "fast"], "no rate");
    refused(&["slowdown", "--transport", "iwarp:progress=caller", "--vs", "none"], "a thread of its own");
    refused(&["slowdown", "--vs", "ucx"], "no such test");
    refused(&["progress", "--streams", "4"], "slowdown");
}

#[test]
fn a_lab_is_made_where_one_can_be() {
    let output = perf(&["latency", "--lab", "1G", "--transport", "iwarp", "--vs", "ucx"]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.code() == Some(1) {
        // A machine that has no lab says so, and what it would need.
        assert!(text.lines().count() <= 3 && !text.contains("side:"), "{text}");
        println!("skipped: {text}");
        return;
    }
    assert!(
        text.split_whitespace().collect::<Vec<_>>().join(" ").contains("test network, one link of 1 Gb/s"),
        "{text}"
    );
    let report = report_of(&["latency", "--lab", "none", "--delay", "3ms", "--size", "8", "--vs", "none"]).0;
    for launch in rows(&report, "half_round_trip").iter().flat_map(|row| row["launches"].as_array().unwrap()) {
        let lateness = &launch["lateness"];
        assert!(lateness["delay_ns"] == 3_000_000 && lateness["max_ns"].as_u64() > Some(0), "{report}");
    }
    refused(&["latency", "--lab", "fast"], "no rate");
    // As `weft lab up --rate 5` says it.
    refused(&["latency", "--lab", "5"], "rate");
}

#[test]
fn disorder_has_each_policy_in_each_case() {
    let run = |more: &[&str]| {
        let arguments = ["perf", "disorder", "--iterations", "500", "--lost", "0", "--late", "0,5", "--json", "-"];
        let output = Command::new(env!("CARGO_BIN_EXE_weft")).args(arguments).args(more).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let report = run(&[]);
    let goodput = rows(&report, "goodput");
    assert_eq!(goodput.len(), 8);
    let again = run(&["--policy", "place,buffer,go-back,drop"]);
    assert_eq!(report["rows"], again["rows"], "virtual time is the same each time");
    let of = |policy: &str, metric: &str| {
        let is_it = |row: &&&Value| row["contestant"] == policy && row["case"]["late_percent"] == 5.0;
        rows(&report, metric).iter().find(is_it).unwrap()["median"].as_f64().unwrap()
    };
    assert_eq!(of("place", "most_buffered"), 0.0);
    assert!(of("go-back", "sent_again") > 500.0, "{report}");
    let cut = run(&["--cut", "10"]);
    assert!(rows(&cut, "goodput").iter().all(|row| row["contestant"] != "go-back"), "{cut}");
    refused_alone(&["disorder", "--cut", "10", "--policy", "go-back"], "leave out --cut");
    refused_alone(&["disorder", "--late", "60"], "a number of percent from 0 to 50");
}

/// In real time: how long it takes is the machine's matter, that it keeps what comes early is not.
#[test]
fn disorder_has_the_kernel_beside_the_policies() {
    let arguments = ["disorder", "--iterations", "2000", "--lost", "0", "--late", "20", "--policy", "place,kernel"];
    let output = Command::new(env!("CARGO_BIN_EXE_weft")).arg("perf").args(arguments).args(["--json", "-"]).output();
    let output = output.unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    if text.contains("which cannot be had") {
        return println!("skipped: {text}");
    }
    assert_eq!(output.status.code(), Some(0), "{text}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let of = |policy: &str, metric: &str| {
        rows(&report, metric).iter().find(|row| row["contestant"] == policy).unwrap()["median"].as_f64().unwrap()
    };
    assert!(of("place", "most_buffered") == 0.0 && of("kernel", "most_buffered") > 1000.0, "{report}");
    assert!(of("place", "placed_early") > 0.0 && of("kernel", "placed_early") == 0.0, "{report}");
}

#[test]
fn edge_under_disorder_is_beside_itself_without() {
    let arguments =
        ["perf", "disorder", "--transport", "edge", "--links", "1", "--lost", "1", "--late", "0", "--json", "-"];
    let output = Command::new(env!("CARGO_BIN_EXE_weft")).args(arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let report = serde_json::from_slice::<Value>(&output.stdout).unwrap();
    let of = |metric: &str| rows(&report, metric)[0]["median"].as_f64().unwrap();
    // Of the packets one in a hundred is lost.
    assert!(of("share_of_no_faults") > 90.0 && of("packets_lost") > 100.0, "{report}");
    refused_alone(&["disorder", "--transport", "edge", "--cut", "1"], "are for iwarp");
    refused_alone(&["disorder", "--transport", "shm"], "iwarp or edge");
}

#[test]
fn split_ends_with_where_each_wins() {
    let (report, text) = report_of(&[
        "split",
        "--size",
        "4K",
        "--transport",
        "iwarp:split=host:progress=thread",
        "--vs",
        "iwarp:split=coupled,iwarp:split=decoupled,iwarp:split=assist",
    ]);
    let throughput = rows(&report, "throughput");
    // In and out of cache, without and with markers, of four.
    assert_eq!(throughput.len(), 2 * 2 * 4);
    assert!(throughput.iter().any(|row| row["case"]["cache"] == "out" && row["case"]["markers"] == "on"));
    assert!(rows(&report, "sender_cpu_share").len() > throughput.len(), "of latency too");
    let (_, end) = text.split_once("Where each wins").unwrap();
    assert!(end.contains("ahead") && end.contains("What markers cost"), "{text}");
    refused(&["split", "--transport", "iwarp:split=assist:progress=caller"], "split assist needs progress thread");
}

#[test]
fn markers_of_each_spacing() {
    let (report, _) = report_of(&["markers", "--size", "3000"]);
    let rows_of = rows(&report, "half_round_trip");
    let peers: Vec<_> = rows_of[1..].iter().map(|row| row["contestant"].as_str().unwrap().to_owned()).collect();
    assert_eq!(peers, ["512", "1K", "2K"].map(|spacing| format!("iwarp:markers={spacing}")));
    assert_eq!(rows(&report, "throughput").len(), 4);
}

#[test]
fn quiet_connections_are_counted() {
    let (report, _) = report_of(&["idle", "--connections", "5", "--seconds", "0.1", "--vs", "none"]);
    for metric in ["cpu", "passive_cpu", "wake_ups", "connection_memory", "passive_connection_memory"] {
        let rows = rows(&report, metric);
        assert_eq!(rows.len(), 3, "{metric}: just left, for long, and with queues of one entry");
        assert!(rows.iter().all(|row| row["median"].as_f64().unwrap() >= 0.0 && row["case"]["connections"] == 5));
    }
}

#[test]
fn everybody_sends_to_everybody() {
    let (report, text) = report_of(&["all-to-all", "--processes", "2,5", "--size", "1000", "--quick"]);
    let throughput = rows(&report, "throughput");
    assert_eq!(throughput.len(), 4, "two waits, two numbers of processes");
    assert!(throughput.iter().all(|row| row["median"].as_f64().unwrap() > 0.0));
    assert_eq!(rows(&report, "quiet_cpu").len(), 4);
    assert!(text.contains("5 processes reach"), "{text}");
    refused(&["all-to-all", "--processes", "1"], "1 is not in 2..=256");
    refused(&["all-to-all", "--processes", "1000"], "1000 is not in 2..=256");
}

#[test]
fn settings_are_options_and_variants() {
    let variants = "iwarp:engines=2,iwarp:short=descriptor,iwarp:away=20,iwarp:markers=1K";
    let (report, _) = report_of(&["latency", "--progress", "thread", "--away", "50", "--vs", variants]);
    assert_eq!(rows(&report, "half_round_trip").len(), 5);
    assert_eq!(report["settings"]["stack"]["away"], 50);
    refused(&["latency", "--away", "1"], "away");
    refused(&["latency", "--engines", "0"], "0 engines");
}

#[test]
fn matching_costs_the_same_among_many() {
    let (report, text) = report_of(&["match", "--others", "10,1000"]);
    let rows = rows(&report, "match_cpu");
    assert_eq!(rows.len(), 4 * 2 * 2, "receives, queues, numbers of others");
    assert!(rows.iter().all(|row| row["median"].as_f64().unwrap() > 0.0));
    assert!(rows.iter().any(|row| row["case"]["receive"] == "any source" && row["case"]["queue"] == "unexpected"));
    assert!(text.contains("added: what the others cost"), "{text}");
    refused(&["latency", "--transport", "matcher"], "weft perf match");
}

#[test]
fn messages_are_measured_like_anybody() {
    for (test, metric) in [("latency", "half_round_trip"), ("bandwidth", "throughput"), ("rate", "message_rate")] {
        let (report, _) = report_of(&[test, "--size", "8,100K", "--transport", "messages", "--vs", "none"]);
        let rows = rows(&report, metric);
        assert!(rows.len() == 2 && rows.iter().all(|row| row["median"].as_f64().unwrap() > 0.0), "{rows:?}");
    }
    refused(&["idle", "--transport", "messages", "--vs", "none"], "messages in one direction");
    refused(&["rate", "--transport", "messages:crc=off", "--vs", "none"], "crc is set for connections");
}

#[test]
fn fences_of_all_kinds_are_measured_by_ranks_that_the_command_starts() {
    let more = ["--ranks", "2,3", "--fence", "all", "--puts", "0,1,4", "--vs", "none", "--json", "-"];
    let output = Command::new(env!("CARGO_BIN_EXE_weft"))
        .args(["perf", "fence", "--iterations", "5", "--launches", "1"])
        .args(more)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let cases = rows(&report, "put_and_fence_time");
    assert_eq!((cases.len(), rows(&report, "cpu").len()), (2 * FENCES * 3, 2 * FENCES * 3));
    assert!(cases.iter().all(|case| case["median"].as_f64().unwrap() > 0.0), "{report}");
    refused(&["fence", "--vs", "sockets"], "weft-TRANSPORT (weft-edge");
    refused(&["fence", "--ranks", "0"], "0");
}

#[test]
fn windows_are_measured_over_the_transport_that_is_named() {
    for transport in ["iwarp", "edge", "shm"] {
        let output = perf(&["fence", "--ranks", "2", "--puts", "1", "--vs", "none", "--transport", transport]);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["settings"]["transport"], transport, "{report}");
    }
    for test in ["fence", "halo", "window-overlap"] {
        refused(
            &[test, "--transport", "own-tcp"],
            "own-tcp: windows are carried by iwarp, edge, shm, shm+iwarp, shm+edge or auto",
        );
    }
}

#[test]
fn a_raw_link_of_a_test_network_carries_edge_and_iwarp() {
    let lab = weft_lab::Lab::up(&weft_lab::Plan::default());
    if let Err(error) = lab {
        assert!(error.cannot_be_had(), "{error}");
        return println!("skipped: {error}");
    }
    drop(lab);
    let arguments =
        ["--lab", "none", "--no-offload", "--mtu", "9000", "--transport", "edge:raw=on", "--vs", "iwarp:raw=on"];
    for (test, metric) in [("latency", "half_round_trip"), ("bandwidth", "throughput")] {
        let (report, _) = report_of(&[&[test, "--size", "8,20K"], &arguments[..]].concat());
        assert!(medians(&report, metric).iter().flatten().all(|median| *median > 0.0), "{report}");
        assert_eq!(medians(&report, metric).len(), 2);
    }
    let (report, _) = report_of(&["in-order-tax", "--size", "8,20K", "--transport", "own-tcp:crc", "--vs", "sockets"]);
    for metric in ["half_round_trip", "throughput"] {
        assert!(medians(&report, metric).iter().flatten().all(|median| *median > 0.0), "{report}");
    }
    let place = format!("{:?}", report["place"]);
    assert!(place.contains("no segmentation offload"), "{place}");
    refused(&["latency", "--mtu", "9000"], "--lab");
    refused(&["overlap", "--lab", "none", "--transport", "own-tcp", "--vs", "none"], "latency, bandwidth and rate");
    refused(&["idle", "--lab", "none", "--transport", "iwarp:raw=on", "--vs", "none"], "for two processes");
    let output = perf(&["latency", "--transport", "edge:raw=on", "--vs", "none"]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && text.contains("raw link: measure with --lab none"), "{text}");
}

#[test]
fn late_and_lost_packets_of_a_link_are_cases_of_their_own() {
    if let Err(error) = weft_lab::Lab::up(&weft_lab::Plan::default()) {
        assert!(error.cannot_be_had(), "{error}");
        return println!("skipped: {error}");
    }
    let arguments = ["reordering", "--late", "0,5", "--lost", "1", "--size", "20K", "--vs", "iwarp,sockets"];
    let (report, text) = report_of(&arguments);
    for metric in ["throughput", "half_round_trip"] {
        let rows = rows(&report, metric);
        let late: Vec<_> = rows.iter().map(|row| row["case"]["late_percent"].as_f64().unwrap()).collect();
        assert_eq!(late, [0.0, 0.0, 0.0, 5.0, 5.0, 5.0], "{metric}: {text}");
        assert!(rows.iter().all(|row| row["case"]["lost_percent"] == 1.0), "{metric}: {text}");
        assert!(rows.iter().all(|row| row["median"].as_f64().unwrap() > 0.0), "{metric}: {text}");
    }
    assert!(text.contains("With 5 % of all packets late by up to 200µs, and 1 % lost"), "{text}");
    refused(&["reordering", "--loss", "1"], "--loss is not an option of weft perf reordering");
}

#[test]
fn fences_of_many_ranks_are_simulated_and_always_take_the_same() {
    let simulate = || {
        let words = ["perf", "fence", "--simulate", "2,64", "--puts", "0,8", "--json", "-"];
        let output = Command::new(env!("CARGO_BIN_EXE_weft")).args(words).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        report["rows"].clone()
    };
    let cases = simulate();
    assert_eq!(cases.as_array().unwrap().len(), 2 * FENCES * 2);
    assert_eq!(cases, simulate());
    refused(&["fence", "--simulate", "4", "--loggp", "1,2"], "three numbers");
    refused(&["halo", "--simulate", "4"], "--simulate is not an option of weft perf halo: it is one of fence");
    refused_alone(&["latency", "--emulate", "delay=5ms"], "it is one of links");
}

#[test]
fn halos_and_overlap_of_windows_are_measured() {
    let words = ["--ranks", "1,4", "--cells", "6", "--fence", "all"];
    let report = report_where_there_is_a_lab("halo", &words).unwrap();
    let halos = rows(&report, "halo_and_fence_time");
    assert_eq!((halos.len(), rows(&report, "cpu").len()), (2 * FENCES * 5, 2 * FENCES * 5));
    assert!(halos.iter().all(|case| case["median"].as_f64().unwrap() > 0.0), "{halos:?}");
    for place in ["off", "usual"] {
        let words = ["--size", "16,64K", "--fence", "counted,neighbour", "--lab", place];
        let Some(report) = report_where_there_is_a_lab("window-overlap", &words) else { continue };
        let overlap = report["rows"].as_array().unwrap();
        assert_eq!(overlap.len(), 2 * 2);
        assert!(overlap.iter().all(|case| (0.0..=100.0).contains(&case["median"].as_f64().unwrap())), "{overlap:?}");
        let expected = if place == "off" { "loopback" } else { "two hosts of a test network, one link of 1 Gb/s" };
        assert_eq!(report["place"], expected);
    }
    let report = report_where_there_is_a_lab("window-overlap", &["--size", "16", "--transport", "shm"]).unwrap();
    assert_eq!(report["place"], "loopback", "hosts share no memory");
    refused(&["window-overlap", "--lab", "--vs", "shm"], "share no memory");
    refused(&["fence", "--lab", "--transport", "shm"], "share no memory");
    refused(&["fence", "--lab", "--simulate", "4"], "--simulate");
    let mut ranked = Command::new(env!("CARGO_BIN_EXE_weft"));
    let meeting = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let environment = [("WEFT_RANK", "0"), ("WEFT_SIZE", "1"), ("WEFT_MEETING", &*meeting)];
    ranked.args(["perf", "fence", "--lab"]).envs(environment).env_remove("WEFT_TOKEN");
    let output = ranked.output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && complaint.contains("where the launcher has put them"), "{complaint}");
    refused(&["fence", "--connect", "10.0.0.1"], "--connect");
}

#[test]
fn heat_on_a_plate_is_solved_with_each_fence_and_verified() {
    let words = ["--ranks", "1,4", "--plate", "24", "--steps", "12", "--fence", "all"];
    let report = report_where_there_is_a_lab("heat", &words).unwrap();
    let times = rows(&report, "time_to_solution");
    assert_eq!(times.len(), 2 * FENCES);
    assert!(times.iter().all(|row| row["median"].as_f64().unwrap() > 0.0 && row["case"]["plate"] == 24), "{times:?}");
    assert!(rows(&report, "cpu").iter().all(|row| row["median"].as_f64().unwrap() > 0.0));
    let small = ["perf", "heat", "--ranks", "10", "--plate", "8", "--vs", "none", "--launches", "1"];
    let output = Command::new(env!("CARGO_BIN_EXE_weft")).args(small).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    refused(&["fence", "--plate", "64"], "it is one of heat");
}

/// What a test of windows reports without peers; `None` where there is to be a test network and can't be.
fn report_where_there_is_a_lab(test: &str, more: &[&str]) -> Option<Value> {
    let output = Command::new(env!("CARGO_BIN_EXE_weft"))
        .args(["perf", test, "--iterations", "5", "--launches", "1", "--vs", "none", "--json", "-"])
        .args(more)
        .output()
        .unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    if more.contains(&"usual")
        && weft_lab::Lab::up(&weft_lab::Plan::default()).is_err_and(|error| error.cannot_be_had())
    {
        println!("skipped: {complaint}");
        return None;
    }
    assert_eq!(output.status.code(), Some(0), "{complaint}");
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

#[test]
fn cache_traffic_is_counted_at_both_sides() {
    let arguments = ["cache-traffic", "--size", "64K", "--transport", "iwarp:verify=before-place", "--vs", "sockets"];
    let output = perf(&arguments);
    let said = String::from_utf8_lossy(&output.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
    if said.contains("nothing here counts cache misses") {
        assert!(said.contains("apt install valgrind"), "it says how to get a tool: {said}");
        return;
    }
    assert_eq!(output.status.code(), Some(0), "{said}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(said.contains("can't be added"), "{said}");
    for metric in ["sender_kernel_copies", "receiver_kernel_copies"] {
        for [iwarp, sockets] in medians(&report, metric) {
            // Headers and CRCs go through the kernel as well.
            assert!(sockets == 2.0 && (2.0..2.2).contains(&iwarp), "{metric}: {iwarp} {sockets}");
        }
    }
    // Each line of the target is new to a cache of 2 MiB, or of any processor.
    let [[placed, _]] = medians(&report, "receiver_cache_traffic")[..] else { panic!("one case: {report}") };
    assert!(placed > 0.5, "{placed}");
}
