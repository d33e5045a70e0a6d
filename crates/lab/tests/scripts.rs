//! The packet scripts of `weft-tcp`, played with the kernel's TCP: a check of the scripts. Where the two differ, a
//! script says which clause allows it.
//!
//! `WEFT_SCRIPT` plays only those whose title has that in it. Where this system allows no namespaces, or lacks a
//! program, each test says so and passes. A script that the machine was too busy for says so too.

mod linux;
#[path = "../../tcp/tests/script/mod.rs"]
mod script;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use std::{env, fs, thread};

use linux::Linux;
use script::Script;
use weft_lab::{Host, Lab, Plan};

/// The variable that says to this program which script it plays.
const ROLE: &str = "WEFT_LAB_ROLE";
/// Scripts that are played at one time.
const AT_ONE_TIME: usize = 6;
/// A script has failed when it has done so that often while this process was let run.
const FAILURES: usize = 3;
/// How often it is tried.
const TRIES: usize = 12;
/// With a longer stall, a time in a script cannot be distinguished from that of a busy machine.
const STALL: Duration = Duration::from_millis(6);

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tcp/tests/scripts").join(format!("{name}.txt"))
}

fn read(name: &str) -> String {
    let path = file(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Plays one script of a file, in a namespace of its own; without a role it is no test.
#[test]
fn worker() {
    let Ok(role) = env::var(ROLE) else { return };
    let [name, number] = role.split(' ').collect::<Vec<_>>()[..] else { panic!("{role} is no role") };
    let text = read(name);
    let mut linux = Linux::new();
    let played = script::play(Script::all(&text)[number.parse::<usize>().unwrap()], &mut linux);
    println!(
        "worker: {}",
        match played {
            Ok(()) => "good".to_owned(),
            Err(error) if linux.stall() > STALL => format!("stalled: {error}"),
            Err(error) => error,
        }
    );
}

/// What came of a script.
enum Verdict {
    Good,
    Busy(String),
    Wrong(String),
}

fn play(host: &Host, name: &str, number: usize) -> Verdict {
    let (mut failures, mut busy) = (0, String::new());
    for _ in 0..TRIES {
        let mut command = host.command("unshare");
        command.args(["--net", "--"]).arg(env::current_exe().unwrap());
        command.args(["--exact", "worker", "--nocapture", "--test-threads=1"]);
        let output = command.env(ROLE, format!("{name} {number}")).output().unwrap();
        let lines = String::from_utf8_lossy(&output.stdout);
        let word = lines.lines().find_map(|line| line.split_once("worker: ")).map(|(_, word)| word);
        match word {
            Some("good") => return Verdict::Good,
            Some(word) if word.starts_with("stalled") => busy = word.to_owned(),
            _ => failures += 1,
        }
        if failures == FAILURES {
            return Verdict::Wrong(word.unwrap_or(&String::from_utf8_lossy(&output.stderr)).to_owned());
        }
    }
    Verdict::Busy(busy)
}

fn play_all(name: &str) {
    let lab = match Lab::up(&Plan::default()) {
        Ok(lab) => lab,
        Err(error) if error.cannot_be_had() => return println!("skipped: {error}"),
        Err(error) => panic!("{error}"),
    };
    let text = read(name);
    let wanted = env::var("WEFT_SCRIPT").unwrap_or_default();
    let mut scripts: Vec<_> = Script::all(&text).into_iter().enumerate().collect();
    scripts.retain(|(_, script)| script.is_for("linux") && script.title.contains(&wanted));
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let worker = || {
        while let Some((number, script)) = scripts.get(next.fetch_add(1, Ordering::Relaxed)) {
            match play(lab.host(0), name, *number) {
                Verdict::Good => println!("{name}, `{}`: good", script.title),
                Verdict::Busy(word) => println!("{name}, `{}`: skipped: too busy a machine: {word}", script.title),
                Verdict::Wrong(error) => wrong.lock().unwrap().push(format!("{name}, `{}`, {error}", script.title)),
            }
        }
    };
    thread::scope(|scope| (0..AT_ONE_TIME).for_each(|_| drop(scope.spawn(worker))));
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

#[test]
fn opening() {
    play_all("opening");
}

#[test]
fn closing() {
    play_all("closing");
}

#[test]
fn data() {
    play_all("data");
}

#[test]
fn blind() {
    play_all("blind");
}

#[test]
fn sack() {
    play_all("sack");
}

#[test]
fn rack() {
    play_all("rack");
}

#[test]
fn stamps() {
    play_all("stamps");
}
