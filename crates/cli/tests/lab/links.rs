//! `weft perf links`, which makes labs and measures what their links carry.

use super::*;

#[test]
fn what_links_carry_is_measured_and_drawn_while_one_is_cut() {
    let runtime = Runtime::new("links");
    if !runtime.up(&["--rate", "10M"]) {
        return;
    }
    let output = Command::new(env!("CARGO_BIN_EXE_weft"))
        .args([
            "perf",
            "links",
            "--links",
            "1,2",
            "--rate",
            "20M",
            "--vs",
            "tcp",
            "--launches",
            "1",
            "--seconds",
            "1.5",
        ])
        .args(["--cut-link", "carrier", "--receive", "place,copy", "--json", "-"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    let row = |links: u64, contestant: &str, metric: &str| {
        let is_it = |row: &&Value| {
            (&row["case"]["links"], &row["contestant"], &row["metric"])
                == (&links.into(), &contestant.into(), &metric.into())
        };
        result["rows"].as_array().unwrap().iter().find(is_it)
    };
    let of = |links, contestant, metric| row(links, contestant, metric).unwrap()["median"].as_f64().unwrap();
    for contestant in ["edge", "edge:receive=copy", "tcp"] {
        assert!(of(1, contestant, "throughput") > 0.0 && of(2, contestant, "throughput") > 0.0, "{result}");
        assert!(row(1, contestant, "pause").is_none() && row(2, contestant, "pause").is_some(), "{result}");
    }
    let series = &row(2, "edge", "throughput").unwrap()["launches"][0]["series"];
    assert_eq!(series["marks"].as_array().map(Vec::len), Some(2), "{series}");
    assert!(of(2, "edge", "out_of_order_share") > 0.0 && of(2, "edge", "kept_share") == 0.0, "{result}");
    let copied = |metric| of(2, "edge:receive=copy", metric);
    assert!(copied("out_of_order_share") == 0.0 && copied("kept_share") > 0.0 && copied("wake_ups") > 0.0, "{result}");
    let page = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(page.contains("full after ms") && page.contains("^ cut"), "{page}");

    let output = Command::new(env!("CARGO_BIN_EXE_weft"))
        .args(["perf", "links", "--links", "2", "--rate", "20M", "--vs", "tcp", "--launches", "1", "--seconds", "1"])
        .args(["--pattern", "two-way,ping-pong", "--size", "4,64K", "--json", "-"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["settings"]["patterns"], json!(["two-way", "ping-pong"]));
    for contestant in ["edge", "tcp"] {
        let row = |pattern: &str, size: u64, metric: &str| {
            let is_it = |row: &&Value| {
                let case = &row["case"];
                (&row["contestant"], &row["metric"]) == (&contestant.into(), &metric.into())
                    && (&case["pattern"], &case["size_bytes"]) == (&pattern.into(), &size.into())
            };
            result["rows"].as_array().unwrap().iter().find(is_it).cloned()
        };
        let median = |pattern, size, metric| row(pattern, size, metric).unwrap()["median"].as_f64().unwrap();
        // Beside busy processes a second may not be enough for one message.
        let possible = |pattern, size| {
            let share = median(pattern, size, "share_of_links") / 100.0;
            (share > 0.0).then(|| median(pattern, size, "throughput") * 1e9 / share)
        };
        assert!(possible("two-way", 65_536).is_none_or(|it| (9e6..10e6).contains(&it)), "{result}");
        assert!(possible("ping-pong", 4).is_none_or(|it| (4.5e6..5e6).contains(&it)), "{result}");
        assert!(row("two-way", 4, "half_round_trip").is_none(), "{result}");
        let trips = row("ping-pong", 65_536, "half_round_trip").unwrap();
        assert!(trips["median"].as_f64() > Some(0.0) && trips["p99"].as_f64() >= trips["median"].as_f64(), "{trips}");
        assert!(median("ping-pong", 4, "extra_frames") > -50.0, "no two messages share a frame: {result}");
        assert!(median("two-way", 65_536, "cpu_share") > 0.0, "{result}");
    }

    let output = Command::new(env!("CARGO_BIN_EXE_weft"))
        .args(["perf", "links", "--links", "1", "--rate", "20M", "--transport", "iwarp", "--vs", "none"])
        .args(["--launches", "1", "--seconds", "0.8", "--pattern", "one-way,ping-pong", "--json", "-"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "iWARP: {}", said(&output));

    for (wrong, complaint) in [
        (&["--links", "2", "--rate", "1G,2G,3G"][..], "--rate names 3 rates, for 2 links"),
        (&["--links", "9"], "9 is not in 1..=8"),
        (&["--vs", "edge:bbr"], "TCP alone has a congestion control"),
        (&["--emulate", "lose=1"], "\"lose\" is nothing that is done to frames"),
        (&["--emulate", "delay=20s"], "a delay of 20s is out of range"),
        (&["--pattern", "ping-pong", "--beside", "tcp"], "--beside: the other stream goes one way"),
        (&["--beside", "tcp", "--beside-delay", "1ms"], "--emulate <SHAPE>"),
        (&["--seconds", "2", "--omit", "2"], "--omit 2: nothing is left of streams of 2 s"),
        (&["--size", "8M"], "--size 8M: messages of links have at most 4M"),
        (&["--vs", "quic"], "links has no \"quic\" to measure; it has edge, iwarp, tcp, mptcp"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_weft")).args(["perf", "links"]).args(wrong).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(said(&output).contains(complaint), "{}", said(&output));
    }
}

#[test]
fn streams_are_measured_over_links_that_lose_and_beside_others() {
    let runtime = Runtime::new("emulate");
    if !runtime.up(&["--switch"]) {
        return;
    }
    let measure = |arguments: &[&str]| -> Value {
        let output = Command::new(env!("CARGO_BIN_EXE_weft"))
            .args([
                "perf",
                "links",
                "--links",
                "1",
                "--rate",
                "20M",
                "--launches",
                "1",
                "--seconds",
                "1.2",
                "--json",
                "-",
            ])
            .args(arguments)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        assert!(String::from_utf8_lossy(&output.stderr).contains("% of the first"));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let result =
        measure(&["--emulate", "delay=1ms", "--emulate", "delay=1ms,loss=2", "--vs", "tcp:reno,tcp:none-such"]);
    let is_measured = |row: &&Value| row["metric"] == "throughput" && row["contestant"] != "bound:headers";
    let rows: Vec<_> = result["rows"].as_array().unwrap().iter().filter(is_measured).collect();
    let cases: Vec<_> =
        rows.iter().map(|row| (row["contestant"].as_str().unwrap(), row["case"]["loss_percent"] == 2.0)).collect();
    assert!(rows.iter().all(|row| row["case"]["round_trip_ms"] == 2.0), "{result}");
    let both = |name| [(name, false), (name, true)];
    assert_eq!(cases, [both("edge"), both("tcp:reno")].concat(), "{result}");
    assert!(rows.iter().all(|row| row["median"].as_f64().unwrap() > 0.0), "{result}");
    let missing = &result["not_measured"][0];
    assert!(missing["contestant"] == "tcp:none-such" && missing["reason"].as_str().unwrap().contains("none-such"));
    let result = measure(&["--emulate", "delay=1ms,queue=66000", "--vs", "none", "--beside", "tcp:reno"]);
    let share = result["rows"].as_array().unwrap().iter().find(|row| row["metric"] == "share_of_both").unwrap();
    assert!(share["case"]["each_link"].as_str().unwrap().contains("queue 66000 bytes"), "{share}");
    assert_eq!(share["case"]["beside"], "tcp:reno");
    assert!((0.0..=100.0).contains(&share["median"].as_f64().unwrap()), "{result}");

    let far = ["--emulate", "delay=10ms,queue=66000", "--beside", "same", "--beside-delay", "2ms"];
    let result = measure(&[&far[..], &["--vs", "tcp:reno"]].concat());
    let is_share = |row: &&Value| row["metric"] == "share_of_both";
    let shares: Vec<_> = result["rows"].as_array().unwrap().iter().filter(is_share).collect();
    assert_eq!(shares.iter().map(|row| &row["contestant"]).collect::<Vec<_>>(), ["edge", "tcp:reno"], "{result}");
    for share in shares {
        assert_eq!((&share["case"]["beside"], &share["case"]["round_trip_beside_ms"]), (&json!("same"), &json!(4.0)));
        assert!((0.0..=100.0).contains(&share["median"].as_f64().unwrap()), "{share}");
    }

    // A number of links with a rate of its own, beside the one above with that of all.
    let result = measure(&["--links", "1x40M", "--emulate", "delay=1ms", "--vs", "none", "--omit", "0.2"]);
    assert_eq!(result["settings"]["omitted_s"], 0.2);
    let possible = |rate: &str| {
        let value = |metric: &str| {
            let is_it =
                |row: &&Value| row["contestant"] == "edge" && row["metric"] == metric && row["case"]["rate"] == rate;
            result["rows"].as_array().unwrap().iter().find(is_it).unwrap()["median"].as_f64().unwrap()
        };
        value("throughput") / value("share_of_links")
    };
    assert!((possible("40 Mb/s") / possible("20 Mb/s") - 2.0).abs() < 1e-6, "{result}");

    // What fails is told, and the rest is kept.
    let output = Command::new(env!("CARGO_BIN_EXE_weft"))
        .args(["perf", "links", "--links", "1", "--rate", "20M", "--emulate", "delay=1ms", "--emulate", "loss=100"])
        .args(["--transport", "tcp", "--vs", "none", "--launches", "2", "--seconds", "0.8", "--json", "-"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    let launches = |loss: f64| {
        let is_it = |row: &&Value| {
            (&row["contestant"], &row["metric"]) == (&json!("tcp"), &json!("throughput"))
                && row["case"]["loss_percent"] == loss
        };
        result["rows"].as_array().unwrap().iter().find(is_it).map(|row| row["launches"].as_array().unwrap().len())
    };
    assert_eq!((launches(0.0), launches(100.0)), (Some(2), None), "{result}");
    assert_eq!(result["not_measured"][0]["is_failure"], true, "{result}");
}
