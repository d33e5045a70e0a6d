//! `weft demo` as a user runs it, with measurements as short as they can be.

mod running;

use std::fs;
use std::path::Path;

use running::{Running, weft, words};
use serde_json::Value;

#[test]
fn data_goes_there_and_back() {
    let output = weft(&words("demo --size 3M --seconds 0.001"));
    assert_eq!(output.code, Some(0), "{}", output.text);
    assert!(output.text.starts_with("3 MiB of made-up data to process "), "{}", output.text);
    for part in ["RDMA write", "RDMA read back", "identical", "half round trip", "raw TCP"] {
        assert!(output.text.contains(part), "{part} in {}", output.text);
    }
}

#[test]
fn a_file_keeps_its_digest() {
    let directory = std::env::temp_dir().join(format!("weft-demo-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    // The digests are those of sha256sum.
    for (content, digest) in [
        (&b""[..], "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
        (b"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
    ] {
        let path = directory.join("file");
        fs::write(&path, content).unwrap();
        let json = demo_json(&["--file", path.to_str().unwrap()]);
        assert_eq!(json["settings"]["bytes"], content.len());
        for place in ["here", "there", "read_back"] {
            assert_eq!(json["settings"]["sha256"][place], digest);
        }
    }
    fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn more_than_the_windows_hold_goes_in_turns() {
    let json = demo_json(&["--size", "70M"]);
    assert_eq!(json["settings"]["bytes"], 70 << 20);
    let rows = json["rows"].as_array().unwrap();
    // Three of Weft and of TCP, and the file there and back.
    assert_eq!(rows.len(), 8);
    for row in rows {
        assert!(row["median"].as_f64().unwrap() > 0.0, "{row}");
    }
    assert_eq!(json["settings"]["crc"], true);
}

fn demo_json(arguments: &[&str]) -> Value {
    let output = weft(&[&["demo", "--json", "--seconds", "0.001"], arguments].concat());
    assert_eq!(output.code, Some(0), "{}", output.text);
    // On a slow machine a line before it says how far the demo is.
    let text = &output.text[output.text.find('{').unwrap()..];
    let json = serde_json::Deserializer::from_str(text).into_iter::<Value>().next().unwrap().unwrap();
    assert_eq!((&json["schema"], &json["test"]), (&"weft-perf".into(), &"demo".into()));
    assert_eq!(json["settings"]["identical"], true);
    json
}

#[test]
fn two_sides_may_be_started_by_hand() {
    let passive = Running::start(&words("demo --listen 127.0.0.1:0"));
    let address = format!("127.0.0.1:{}", passive.port());
    let active = weft(&["demo", "--connect", &address, "--size", "1M", "--seconds", "0.001"]);
    assert_eq!(active.code, Some(0), "{}", active.text);
    let passive = passive.end();
    assert_eq!(passive.code, Some(0), "{}", passive.text);
}

#[test]
fn ctrl_c_takes_the_second_process_along() {
    let demo = Running::start(&words("demo --size 1T"));
    let child = await_child(&demo);
    demo.interrupt();
    let demo = demo.end();
    assert_eq!(demo.code, Some(130), "{}", demo.text);
    assert!(demo.text.ends_with("weft: interrupted\n"), "{}", demo.text);
    assert!(!is_running(&child), "process {child} is left over");
}

#[test]
fn a_second_process_that_dies_is_an_error() {
    let demo = Running::start(&words("demo --size 1T"));
    let child = await_child(&demo);
    nix::sys::signal::kill(child.parse().map(nix::unistd::Pid::from_raw).unwrap(), nix::sys::signal::SIGKILL).unwrap();
    let demo = demo.end();
    assert_eq!(demo.code, Some(1), "{}", demo.text);
    assert!(demo.text.contains("second process"), "{}", demo.text);
}

/// The process id of the second process, once it is there.
fn await_child(demo: &Running) -> String {
    let path = format!("/proc/{0}/task/{0}/children", demo.id());
    loop {
        let children = fs::read_to_string(&path).expect("it runs");
        if let Some(child) = children.split_whitespace().next() {
            // Until it has become what it is to be, it is a copy of its parent.
            let line = fs::read_to_string(format!("/proc/{child}/cmdline")).unwrap_or_default();
            if line.contains("demo-peer") {
                return child.to_owned();
            }
        }
        std::thread::yield_now();
    }
}

fn is_running(process: &str) -> bool {
    Path::new("/proc").join(process).exists()
}

#[test]
fn failures_are_clear() {
    let refused = weft(&words("demo --connect 127.0.0.1:1"));
    assert_eq!(refused.code, Some(1));
    assert!(refused.text.contains("127.0.0.1:1: connection refused"), "{}", refused.text);
    let missing = weft(&words("demo --file /no/such/file"));
    assert_eq!(missing.code, Some(1));
    assert!(missing.text.contains("cannot open /no/such/file"), "{}", missing.text);
}

#[test]
fn a_wrong_command_line_exits_with_2() {
    for line in [
        "demo --size 0",
        "demo --size much",
        "demo --file / ",
        "demo --file /etc/hostname --size 1M",
        "demo --seconds 0",
        "demo --listen 127.0.0.1 --json",
        "demo --listen 127.0.0.1 --connect 127.0.0.1",
        "demo --connect 127.0.0.1:x",
        "demo --connect rdma://127.0.0.1",
        "demo --connect edge://127.0.0.1?rails=nowhere7",
        "demo --listen edge://127.0.0.1?lanes=lo",
        "rping -c -a edge://127.0.0.1?rails=nowhere7",
        "perf latency --connect edge://127.0.0.1?rails=nowhere7",
        "perf latency --connect edge://127.0.0.1 --transport iwarp",
    ] {
        let output = weft(&words(line));
        assert_eq!(output.code, Some(2), "{line}: {}", output.text);
        assert!(!output.text.is_empty(), "{line}");
    }
}

#[test]
fn help_shows_examples_and_hides_the_second_process() {
    let help = weft(&words("demo --help"));
    assert_eq!(help.code, Some(0));
    assert!(help.text.contains("weft demo --listen"), "{}", help.text);
    assert!(!weft(&words("--help")).text.contains("demo-peer"));
}
