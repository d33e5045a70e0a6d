//! What commands do when no process reads their output, when it has no room, and at Ctrl-C.

mod running;

use std::fs::{self, File};
use std::io::pipe;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use running::{weft, words};

/// Commands that say something and end.
const TALKATIVE: [&str; 8] = [
    "info",
    "info --json",
    "--help",
    "completions bash",
    "lab list",
    "stat --json",
    "demo --size 1M --seconds 0.001",
    "perf latency --transport sockets --vs none --launches 1 --iterations 8 --warmup 2 --json -",
];

fn command(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weft"));
    command.args(words(line)).stdin(Stdio::null());
    command
}

fn complaint(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn who_is_not_read_any_more_ends_without_a_word() {
    for line in TALKATIVE {
        let (reader, writer) = pipe().unwrap();
        drop(reader);
        let output = command(line).stdout(writer).output().unwrap();
        let said = complaint(&output);
        assert_eq!(output.status.code(), Some(141), "{line}: {said}");
        // The table is for people, where the figures go elsewhere.
        assert!(said.is_empty() || line.starts_with("perf") && said.starts_with("medians of"), "{line}: {said}");
    }
}

#[test]
fn where_there_is_no_room_the_command_says_so_and_fails() {
    for line in TALKATIVE {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = command(line).stdout(full).output().unwrap();
        let said = complaint(&output);
        assert_eq!(output.status.code(), Some(1), "{line}: {said}");
        assert!(said.contains("cannot write to standard output: No space left"), "{line}: {said}");
    }
}

#[test]
fn standard_error_that_takes_nothing_changes_nothing() {
    for (line, code) in [("rping -c -a 127.0.0.1 -p 1 -C 1", 1), ("demo --connect 127.0.0.1:x", 2), ("nonsense", 2)] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        assert_eq!(command(line).stderr(full).status().unwrap().code(), Some(code), "{line}");
    }
}

#[test]
fn a_line_of_standard_error_is_written_at_once() {
    let (reader, writer) = UnixDatagram::pair().unwrap();
    let code = command("rping -c -d -a 127.0.0.1 -p 1 -C 1").stderr(OwnedFd::from(writer)).status().unwrap().code();
    assert_eq!(code, Some(1));
    // Each call is a datagram of its own; there is room for all of them.
    reader.set_nonblocking(true).unwrap();
    let mut buffer = [0; 4096];
    let mut said = Vec::new();
    while let Ok(length @ 1..) = reader.recv(&mut buffer) {
        said.push(String::from_utf8(buffer[..length].to_vec()).unwrap());
    }
    assert!(!said.is_empty() && said.iter().all(|line| line.ends_with('\n')), "{said:?}");
}

#[test]
fn ctrl_c_is_the_reason_also_when_the_other_processes_of_a_command_ended_first() {
    if ignores_interrupts() {
        println!("skipped: who started this has it ignore Ctrl-C, and so do those that it starts");
        return;
    }
    for line in ["demo --size 1T", "perf latency --vs none --launches 1 --iterations 90000000 --timeout 3600"] {
        let mut command = command(line);
        // What a shell starts in the foreground is a group of its own; a terminal tells all of it.
        let child = command.process_group(0).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let group = Pid::from_raw(child.id().try_into().unwrap());
        let Some(others) = await_children(child.id()) else {
            panic!("{line}: {}", complaint(&child.wait_with_output().unwrap()));
        };
        // The others may have got it first, and ended.
        killpg(group, Signal::SIGSTOP).unwrap();
        for id in &others {
            kill(Pid::from_raw(id.parse().unwrap()), Signal::SIGINT).unwrap();
            while is_running(id) {
                thread::yield_now();
            }
        }
        killpg(group, Signal::SIGINT).unwrap();
        killpg(group, Signal::SIGCONT).unwrap();
        let output = child.wait_with_output().unwrap();
        // Either says so: by its exit code, or by having been ended by the signal, which shells show as the same
        // number.
        let said = output.status.code().or(output.status.signal().map(|signal| 128 + signal));
        assert_eq!(said, Some(130), "{line}: {}", complaint(&output));
    }
}

/// The ids of the processes that a process has started, once there are some that have become what they are to be;
/// `None` if it has ended before.
fn await_children(id: u32) -> Option<Vec<String>> {
    let peers = |child: &&str| {
        let line = fs::read_to_string(format!("/proc/{child}/cmdline")).unwrap_or_default();
        line.contains("demo-peer") || line.contains("perf-peer")
    };
    while is_running(&id.to_string()) {
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
        let ids: Vec<_> = children.split_whitespace().filter(peers).map(str::to_owned).collect();
        if !ids.is_empty() {
            return Some(ids);
        }
        thread::yield_now();
    }
    None
}

/// As a shell has what it starts in the background.
fn ignores_interrupts() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let bits = ignored.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or_default();
    bits & 1 << (Signal::SIGINT as u32 - 1) != 0
}

fn is_running(id: &str) -> bool {
    let state = fs::read_to_string(Path::new("/proc").join(id).join("stat")).unwrap_or_default();
    // One that has ended, and that no process has waited for yet, does not run.
    state.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

#[test]
fn a_file_that_cannot_be_written_is_found_out_before_anything_is_measured() {
    let line = "perf latency --transport sockets --vs none --iterations 90000000 --timeout 3600 --json /no/such/file";
    let output = weft(&words(line));
    assert_eq!(output.code, Some(1));
    assert_eq!(output.text, "weft: cannot write to /no/such/file: No such file or directory (os error 2)\n");
}
