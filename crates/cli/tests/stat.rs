//! `weft stat` as a user runs it, beside processes that show counters.

use std::env;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use weft::verbs::Counters;
use weft_driver::board::{Board, DIRECTORY_VARIABLE};

/// Makes this program a process with this many NICs, for others to read.
const NICS_VARIABLE: &str = "WEFT_TEST_NICS";

const READY: &str = "the boards are there";

/// Each line of its input is a count of requests sent; it ends with its input.
#[test]
#[ignore = "no test, but the process that tests look at"]
fn process_with_nics() {
    let Ok(nics) = env::var(NICS_VARIABLE) else { return };
    let names = [Counters::NAMES, &["dreams"]].concat();
    let boards: Vec<_> = (0..nics.parse().unwrap()).map(|_: u32| Board::create("a test", &names, 2).unwrap()).collect();
    println!("\n{READY}");
    for line in io::stdin().lines() {
        let mut counts = vec![0; names.len()];
        counts[0] = line.unwrap().parse().unwrap();
        boards.iter().for_each(|board| board.publish(1, &counts));
        println!("\n{READY}");
    }
}

struct Process {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Process {
    /// One with NICs, which shows them at the place that `place` names.
    fn start(nics: u32, place: (&str, &Path)) -> Self {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "process_with_nics", "--ignored", "--nocapture"])
            .env_remove(DIRECTORY_VARIABLE)
            .env(place.0, place.1)
            .env(NICS_VARIABLE, nics.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let mut process = Self { child, input, output };
        process.wait_ready();
        process
    }

    fn wait_ready(&mut self) {
        let mut lines = self.output.by_ref().lines();
        assert!(lines.any(|line| line.unwrap() == READY), "the process ended");
    }

    fn pid(&self) -> String {
        self.child.id().to_string()
    }

    /// All its NICs have sent this many requests.
    fn publish(&mut self, sent: u64) {
        writeln!(self.input.as_ref().unwrap(), "{sent}").unwrap();
        self.wait_ready();
    }

    fn end(&mut self) {
        self.input = None;
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A directory for boards that goes with the test.
struct Place(PathBuf);

impl Place {
    fn new(test: &str) -> Self {
        let path = env::temp_dir().join(format!("weft-stat-{}-{test}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }

    fn start(&self, nics: u32) -> Process {
        Process::start(nics, (DIRECTORY_VARIABLE, &self.0))
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weft"));
        command.arg("stat").args(arguments).env(DIRECTORY_VARIABLE, &self.0).stdin(Stdio::null());
        command
    }

    /// Exit code, and what was written to standard output and standard error.
    fn stat(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        ended(self.command(arguments))
    }

    fn data(&self, arguments: &[&str]) -> Value {
        let (code, output, complaint) = self.stat(&[arguments, &["--json"]].concat());
        assert_eq!((code, &complaint[..]), (Some(0), ""));
        serde_json::from_str(&output).unwrap()
    }

    /// One that watches, and its lines.
    fn watch(&self, arguments: &[&str]) -> (Child, impl Iterator<Item = String> + use<>) {
        let mut child = self.command(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        (child, lines)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn ended(mut command: Command) -> (Option<i32>, String, String) {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn nothing_to_show_is_no_failure() {
    let place = Place::new("nothing");
    let (code, output, complaint) = place.stat(&[]);
    assert_eq!((code, &complaint[..]), (Some(0), ""));
    assert!(output.starts_with("No process"), "{output}");
    assert_eq!(place.data(&[])["nics"], serde_json::json!([]));
}

#[test]
fn all_nics_of_all_processes_are_listed() {
    let place = Place::new("all");
    let (mut one, two) = (place.start(1), place.start(2));
    one.publish(12_345);
    let (code, output, _) = place.stat(&[]);
    assert_eq!(code, Some(0));
    let of = |pid: &str| output.lines().filter(|line| line.split_whitespace().any(|word| word == pid)).count();
    assert_eq!((of(&one.pid()), of(&two.pid()), output.lines().count()), (1, 2, 4), "{output}");
    assert!(output.contains("12.3 K") && output.contains("a test"), "{output}");
}

#[test]
fn one_process_shows_everything() {
    let place = Place::new("one");
    let (mut process, _other) = (place.start(2), place.start(1));
    process.publish(77);
    let (code, output, _) = place.stat(&[&process.pid()]);
    assert_eq!(code, Some(0));
    for words in ["NIC 0, 2 engines: a test", "NIC 1", "traffic", "placement", "who ran the engine", "dreams"] {
        assert!(output.contains(words), "{words}: {output}");
    }
    // Heading, columns, nine groups, and a line each: shares of nothing are not shown.
    assert_eq!(output.lines().count(), 2 * (2 + 9 + Counters::NAMES.len() + 1) + 1, "{output}");

    let data = place.data(&[&process.pid()]);
    assert_eq!(data["nics"].as_array().unwrap().len(), 2);
    let nic = &data["nics"][1];
    assert_eq!(
        (&nic["nic"], &nic["counters"]["sent_messages"], &nic["per_second"]),
        (&1.into(), &77.into(), &Value::Null)
    );
    assert_eq!(nic["engines"][0]["sent_messages"], 0);
    assert_eq!(nic["engines"][1]["sent_messages"], 77);
}

#[test]
fn an_unknown_process_is_told_apart() {
    let place = Place::new("unknown");
    let process = place.start(1);
    let (code, output, complaint) = place.stat(&["4294967295"]);
    assert_eq!((code, &output[..]), (Some(1), ""));
    assert!(complaint.contains("4294967295") && complaint.contains(&process.pid()), "{complaint}");
}

#[test]
fn a_wrong_command_line_exits_with_2() {
    let place = Place::new("wrong");
    for arguments in [&["nonsense"][..], &["-1"], &["--watch", "0"], &["--watch", "soon"], &["1", "2"]] {
        assert_eq!(place.stat(arguments).0, Some(2), "{arguments:?}");
    }
}

#[test]
fn a_process_that_was_killed_is_gone() {
    let place = Place::new("killed");
    let mut process = place.start(3);
    assert_eq!(fs::read_dir(&place.0).unwrap().count(), 3);
    process.child.kill().unwrap();
    process.child.wait().unwrap();
    assert!(place.stat(&[]).1.starts_with("No process"));
    assert_eq!(fs::read_dir(&place.0).unwrap().count(), 0);
}

#[test]
fn what_cannot_be_read_is_named_and_the_rest_is_shown() {
    let place = Place::new("damaged");
    let process = place.start(1);
    fs::write(place.0.join("1-0"), "nonsense").unwrap();
    let (code, output, _) = place.stat(&[]);
    assert_eq!(code, Some(0));
    assert!(output.contains(&process.pid()) && output.contains("1-0: is not a board"), "{output}");
    assert_eq!(place.data(&[])["skipped"][0]["reason"], "is not a board of counters");
}

#[test]
fn watching_shows_what_changes_until_it_is_interrupted() {
    let place = Place::new("watch");
    let mut process = place.start(1);
    process.publish(1);
    let (mut watcher, lines) = place.watch(&["--watch", "0.1", "--json"]);
    let mut samples = lines.map(|line| serde_json::from_str::<Value>(&line).unwrap());
    let first = samples.next().unwrap();
    assert_eq!((&first["seconds"], &first["nics"][0]["counters"]["sent_messages"]), (&Value::Null, &1.into()));
    process.publish(1001);
    let grown = samples.find(|sample| sample["nics"][0]["counters"]["sent_messages"] == 1001).unwrap();
    let (seconds, rate) = (&grown["seconds"], &grown["nics"][0]["per_second"]["sent_messages"]);
    let requests = seconds.as_f64().unwrap() * rate.as_f64().unwrap();
    assert!((requests - 1000.0).abs() < 1e-6, "{grown}");

    kill(Pid::from_raw(watcher.id().cast_signed()), Signal::SIGINT).unwrap();
    assert_eq!(watcher.wait().unwrap().code(), Some(0));
}

#[test]
fn watching_a_process_ends_with_it() {
    let place = Place::new("end");
    let mut process = place.start(1);
    let (mut watcher, mut lines) = place.watch(&[&process.pid(), "--watch", "0.1"]);
    assert!(lines.next().unwrap().contains("NIC 0"));
    assert!(lines.any(|line| line.contains("per second")), "rates come with the second sample");
    process.end();
    assert!(lines.last().unwrap().ends_with("has no NIC any more"));
    assert_eq!(watcher.wait().unwrap().code(), Some(0));
}

#[test]
fn watching_ends_when_nobody_reads() {
    let place = Place::new("unread");
    let _process = place.start(1);
    let (mut watcher, lines) = place.watch(&["--watch", "0.1"]);
    drop(lines);
    assert_eq!(watcher.wait().unwrap().code(), Some(0));
}

#[test]
fn boards_are_found_in_the_runtime_directory() {
    let place = Place::new("runtime");
    fs::create_dir(&place.0).unwrap();
    let process = Process::start(1, ("XDG_RUNTIME_DIR", &place.0));
    assert!(place.0.join("weft").join(format!("{}-0", process.pid())).exists());
    let mut command = place.command(&[&process.pid()]);
    command.env_remove(DIRECTORY_VARIABLE).env("XDG_RUNTIME_DIR", &place.0);
    assert_eq!(ended(command).0, Some(0));
}

#[test]
fn who_has_no_place_for_its_counters_says_so() {
    let mut caller = Command::new(env!("CARGO_BIN_EXE_weft"));
    // No process listens there, which does not matter here.
    caller
        .args(["rping", "-c", "-a", "127.0.0.1", "-p", "1", "-C", "1"])
        .env(DIRECTORY_VARIABLE, "/proc/no/such/place");
    let output = caller.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(said.matches("weft stat will not show this process").count(), 1, "{said}");
}
