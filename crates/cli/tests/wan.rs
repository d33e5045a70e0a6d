//! `weft wan` as it is used. Where namespaces or packet queues cannot be had, each test says why and passes.

mod running;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

/// What says that this system, not the command, is why it did not work.
const EXCUSES: [&str; 3] = ["is not installed", "does not let you make namespaces", "has no packet queues"];

fn wan(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weft")).arg("wan").args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Whether it can be had; a line that says why not.
fn can_be_had() -> bool {
    let output = wan(&["run", "--delay", "1ms", "--", "true"]);
    let complaint = text(&output.stderr);
    if EXCUSES.iter().any(|words| complaint.contains(words)) {
        println!("skipped: {complaint}");
        return false;
    }
    assert_eq!(output.status.code(), Some(0), "{complaint}");
    true
}

/// A file that goes with this.
struct File(PathBuf);

impl File {
    fn new(name: &str, content: &str) -> Self {
        let path = std::env::temp_dir().join(format!("weft-wan-{}-{name}", std::process::id()));
        fs::write(&path, content).unwrap();
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[test]
fn two_programs_run_and_their_exit_code_is_the_commands() {
    if !can_be_had() {
        return;
    }
    for (arguments, code) in [
        (&["--", "sh", "-c", "exit 7"][..], 7),
        (&["--", "true", "--and", "--", "sh", "-c", "exit 5"], 5),
        (&["--", "sh", "-c", "exit 7", "--and", "--", "sh", "-c", "sleep 60"], 7),
        (&["--", "sleep", "60", "--and", "--", "sh", "-c", "exit 5"], 5),
        (&["--linger", "0.1", "--", "true", "--and", "--", "sleep", "60"], 0),
        (&["--", "sh", "-c", "kill -TERM $$"], 143),
    ] {
        let output = wan(&[&["run", "--delay", "1ms"], arguments].concat());
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", text(&output.stderr));
    }
    let output = wan(&["run", "--delay", "1ms", "--", "sh", "-c", "echo $WEFT_WAN_ADDRESS $WEFT_WAN_PEER"]);
    assert_eq!(text(&output.stdout), "10.0.0.1 10.1.0.2\n");
}

#[test]
fn what_was_carried_is_told_as_text_as_json_and_while_it_runs() {
    if !can_be_had() {
        return;
    }
    // Three calls that the other host refuses.
    let calls = "for i in 1 2 3; do (: >/dev/tcp/$WEFT_WAN_PEER/9) 2>/dev/null; done; true";
    let output = wan(&["run", "--delay", "5ms", "--json", "--", "bash", "-c", calls]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)));
    assert_eq!((&report["carrier"], &report["forward"]["delay_ns"]), (&"queue".into(), &5_000_000.into()));
    assert!(report["reverse"]["delivered"].as_u64() >= Some(3), "{report}");

    let ask = format!("{} wan stat --json", env!("CARGO_BIN_EXE_weft"));
    let output = wan(&["run", "--carrier", "rings", "--delay", "1ms", "--", "sh", "-c", &ask]);
    // The program's network is not the command's, and its user is root there; so it may see none.
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(all.is_array(), "{all}");
    let said = text(&output.stderr);
    assert!(said.contains("carried by rings for"), "{said}");

    let running = running::Running::start(&["wan", "run", "--delay", "1ms", "--", "sleep", "60"]);
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !text(&wan(&["stat"]).stdout).contains("carried by queue for") {
        assert!(std::time::Instant::now() < until);
    }
    drop(running);
}

#[test]
fn what_is_wrong_is_said_before_anything_is_made() {
    let scenario = File::new("wrong.toml", "[both]\ndelay = \"4ms\"\n[[step]]\nat = \"1s\"\nboth.dleay = \"1ms\"\n");
    let line = format!("weft: {}: line 5: there is no key \"dleay\" in [both]; the keys are delay", scenario.path());
    let no_file = "weft: trace: /nonesuch: No such file or directory";
    for (arguments, words) in [
        (&["run", "--scenario", scenario.path(), "--", "true"][..], line.as_str()),
        (&["show", scenario.path()], line.as_str()),
        (&["run", "--delay", "4", "--", "true"], "weft: delay: \"4\" is no time; write for instance 500us"),
        (&["run", "--trace", "/nonesuch", "--", "true"], no_file),
        (&["run", "--queue", "5000", "--", "true"], "a queue needs a rate or a trace"),
        (&["run", "--duplicate", "1", "--", "true"], "use --carrier rings"),
        (&["run", "--carrier", "tape", "--", "true"], "queue and rings do"),
        (&["run", "--delay", "1ms", "--", "true", "--and"], "a program is missing"),
        (&["check", "--only", "loss,nonesuch"], "there is no case \"nonesuch\"; the cases are delay, far, rate"),
        (&["check", "--packets", "3"], "3 packets are out of range; a stream has 100 to 1000000"),
        (&["check", "--only", "copies", "--carrier", "queue"], "nothing is left to check"),
        (&["check", "--tolerance", "2000"], "from 0 to 1000 are possible"),
        (&["attach", "--interface", "lo"], "say what lies in front of it"),
        (&["attach", "--interface", "nonesuch", "--delay", "1ms"], "there is no interface \"nonesuch\"; there are lo"),
    ] {
        let output = wan(arguments);
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(words), "{arguments:?}: {said}");
    }
    let output = wan(&["run", "--scenario", "/nonesuch.toml", "--", "true"]);
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(1), ""));
}

/// What chance does to packets is the same on a machine that is late.
#[test]
fn a_check_counts_what_chance_has_done_and_its_exit_code_says_whether_all_passed() {
    if !can_be_had() {
        return;
    }
    let output = wan(&["check", "--only", "loss,bursts,copies", "--packets", "2000", "--json"]);
    let said = text(&output.stderr);
    let checks: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{said}"));
    assert!(said.contains("1 of 5: queue, loss; about"), "{said}");
    assert_eq!((&checks["schema"], &checks["is_whole"]), (&"weft-wan-check 1".into(), &true.into()));
    let cases = checks["cases"].as_array().unwrap();
    let names: Vec<_> = cases.iter().map(|case| [&case["carrier"], &case["name"]].map(|name| name.as_str())).collect();
    let names: Vec<_> = names.into_iter().map(|[carrier, name]| (carrier.unwrap(), name.unwrap())).collect();
    let loss = ["loss", "bursts"];
    let wanted: Vec<_> = loss.map(|name| ("queue", name)).into_iter().chain(loss.map(|name| ("rings", name))).collect();
    assert_eq!(names, [&wanted[..], &[("rings", "copies")]].concat());
    for row in cases.iter().flat_map(|case| case["rows"].as_array().unwrap()) {
        // Where the machine has lost packets by itself, a note says so.
        assert!(row["verdict"] == "pass" || !row["note"].is_null(), "{checks:#}");
        assert!(row["z"].as_f64().is_some_and(|z| z.abs() < 5.0) || !row["note"].is_null(), "{checks:#}");
    }
    for case in cases {
        assert!(case["report"]["forward"]["packets"].as_u64() >= Some(2000), "{case:#}");
        assert!(case["report"]["forward"]["lateness"]["max_ns"].as_u64() > Some(0), "{case:#}");
    }
    assert_eq!(output.status.code(), Some(if checks["passed"] == true { 0 } else { 1 }), "{said}");

    // 10.02 packets are never lost.
    let exact = ["check", "--only", "loss", "--carrier", "queue", "--packets", "501", "--tolerance", "0"];
    let output = wan(&exact);
    let page = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{page}");
    assert!(page.contains("FAIL") && page.contains("0 passed, 1 failed"), "{page}");
}

#[test]
fn a_run_that_is_interrupted_or_killed_leaves_nothing() {
    if !can_be_had() {
        return;
    }
    let until = std::time::Instant::now() + std::time::Duration::from_secs(120);
    let is_there = |id: &String| PathBuf::from(format!("/proc/{id}")).exists();
    for is_killed in [false, true] {
        let arguments = ["wan", "run", "--delay", "1ms", "--", "sleep", "600", "--and", "--", "sleep", "601"];
        let mut running = running::Running::start(&arguments);
        let own = running.id().to_string();
        // Holders, the carrier, and in the end both programs.
        let children = children_with(&own, "sleep", until);
        if is_killed {
            running.kill();
        } else {
            running.interrupt();
        }
        let ended = running.end();
        assert_eq!(ended.code, if is_killed { None } else { Some(130) }, "{}", ended.text);
        while children.iter().any(is_there) {
            assert!(std::time::Instant::now() < until, "{children:?}");
        }
    }
}

/// The processes that a process has started, when two of them are this program.
fn children_with(parent: &str, program: &str, until: std::time::Instant) -> Vec<String> {
    let is_it = |id: &&String| {
        let words = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        words.split(|byte| *byte == 0).any(|word| word == program.as_bytes())
    };
    loop {
        let children = children(parent);
        if children.iter().filter(is_it).count() == 2 {
            return children;
        }
        assert!(std::time::Instant::now() < until, "{children:?}");
    }
}

/// The processes that a process has started.
fn children(parent: &str) -> Vec<String> {
    let names = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let is_child = |id: &String| {
        let state = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        // The name of the program may have spaces in it.
        state.rsplit_once(") ").is_some_and(|(_, words)| words.split(' ').nth(1) == Some(parent))
    };
    names.filter(is_child).collect()
}

#[test]
fn a_check_that_is_interrupted_says_what_it_has_and_leaves_nothing() {
    if !can_be_had() {
        return;
    }
    let arguments = ["wan", "check", "--only", "loss", "--carrier", "queue", "--packets", "1000000"];
    let running = running::Running::start(&arguments);
    running.await_text("1 of 1: queue, loss");
    let own = running.id().to_string();
    // A holder of each host, the carrier, and in the end the sender and the receiver.
    let children = children_with(&own, "probe", std::time::Instant::now() + std::time::Duration::from_secs(60));
    running.interrupt();
    let ended = running.end();
    assert_eq!(ended.code, Some(130), "{}", ended.text);
    assert!(ended.text.contains("It was interrupted."), "{}", ended.text);
    for child in children {
        assert!(!PathBuf::from(format!("/proc/{child}")).exists(), "{child} is left");
    }
}

#[test]
fn a_scenario_is_shown() {
    let scenario =
        File::new("right.toml", "seed = 7\nboth.delay = \"4ms\"\n[[step]]\nat = \"1s\"\nreverse.cut = true\n");
    let output = wan(&["show", scenario.path()]);
    let page = text(&output.stdout);
    assert!(page.starts_with("Seed 7.\n"), "{page}");
    let rows: Vec<_> = page.lines().skip(3).map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(rows, ["0ns delay 4ms delay 4ms", "1s delay 4ms cut, delay 4ms"], "{page}");
}
