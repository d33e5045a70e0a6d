//! The packet scripts in `scripts`, each against the standard that it names.

use std::fs;
use std::path::Path;

mod own;
mod script;

use own::Own;
use script::Script;

fn play_all(name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts").join(format!("{name}.txt"));
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let scripts = Script::all(&text);
    assert!(!scripts.is_empty(), "{name} holds no script");
    let mut failed = Vec::new();
    for script in scripts.into_iter().filter(|script| script.is_for("weft")) {
        if let Err(error) = script::play(script, Own::new()) {
            failed.push(format!("{name}, `{}`, {error}", script.title));
        }
    }
    assert!(failed.is_empty(), "\n{}\n", failed.join("\n"));
}

#[test]
fn rfc9293_opening() {
    play_all("opening");
}

#[test]
fn rfc9293_closing() {
    play_all("closing");
}

#[test]
fn rfc9293_data() {
    play_all("data");
}

#[test]
fn rfc5961_blind_attacks() {
    play_all("blind");
}

#[test]
fn rfc6675_sack() {
    play_all("sack");
}

#[test]
fn rfc8985_rack_and_tlp() {
    play_all("rack");
}

#[test]
fn rfc7323_timestamps_and_windows() {
    play_all("stamps");
}

#[test]
fn a_script_that_does_not_come_true_says_where() {
    let play = |body| script::play(Script::all(&format!("\n== \n{body}"))[0], Own::new());
    let script = "connect\n> S 0 mss 1000 wscale 0 sack\n< A 0 ack 9\n> R 7\n";
    assert_eq!(play(script).unwrap_err(), "line 4: `> R 7`: start is 9, end is 9");
    assert!(play("connect\n").unwrap_err().starts_with("before it, this leaves: S 0 win"));
    // A difference needs a clause that allows it.
    assert!(play("connect\nweft: > S 0 mss 1000 wscale 0 sack\n").unwrap_err().contains("no `either`"));
    assert!(play("connect\neither way\n").unwrap_err().contains("no clause"));
}
