//! The library as loaded by libfabric: `fi_info` of libfabric-bin lists its offers, if that is installed.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The folder with `libweft-fi.so`, as a user would install it.
fn installed() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("fi_info-{}", std::process::id()));
    let library = folder.join("libweft-fi.so");
    if !library.exists() {
        let built = env::current_exe().unwrap().with_file_name("libweft_fi.so");
        fs::create_dir_all(&folder).unwrap();
        let copy = folder.join(format!("{:?}", std::thread::current().id()));
        fs::copy(&built, &copy).unwrap_or_else(|error| panic!("{}: {error}", built.display()));
        fs::rename(copy, library).unwrap();
    }
    folder
}

/// The output of `fi_info`. `None`, after printing why, where there is none.
fn fi_info(arguments: &[&str], settings: &[(&str, &str)]) -> Option<Output> {
    let mut command = Command::new("fi_info");
    command.args(arguments).env("FI_PROVIDER_PATH", installed()).envs(settings.iter().copied());
    match command.output() {
        Ok(output) => Some(output),
        Err(error) => {
            println!("skipped: fi_info can't be run ({error}); libfabric-bin has it");
            None
        }
    }
}

fn lines(bytes: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(bytes).lines().map(|line| line.trim().to_owned()).collect()
}

#[test]
fn the_provider_is_listed() {
    let Some(output) = fi_info(&["-p", "weft"], &[]) else { return };
    let lines = lines(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert!(lines.contains(&"provider: weft".into()) && lines.contains(&"domain: lo".into()), "{lines:#?}");
}

#[test]
fn it_is_found_by_what_it_can_do() {
    let all = "FI_MSG|FI_TAGGED|FI_RMA|FI_ATOMIC|FI_MULTI_RECV|FI_DIRECTED_RECV|FI_SOURCE|FI_FENCE";
    for (arguments, found) in [
        (vec!["-t", "FI_EP_RDM", "-c", all], true),
        (vec!["-t", "FI_EP_MSG"], false),
        (vec!["-c", "FI_MULTICAST"], false),
        (vec!["-a", "FI_ADDR_STR"], true),
        (vec!["-d", "lo"], true),
        (vec!["-d", "nowhere0"], false),
        (vec!["-n", "127.0.0.1", "-P", "7"], true),
    ] {
        let Some(output) = fi_info(&[&["-p", "weft"], &arguments[..]].concat(), &[]) else { return };
        let listed = lines(&output.stdout).contains(&"provider: weft".into());
        assert_eq!(listed, found, "{arguments:?}: {output:?}");
    }
}

#[test]
fn the_users_choice_of_interfaces() {
    let Some(output) = fi_info(&["-p", "weft", "-v"], &[("FI_WEFT_INTERFACE", "127.0.0.1")]) else { return };
    let lines = lines(&output.stdout);
    let count = |line: &str| lines.iter().filter(|other| *other == line).count();
    assert_eq!(
        (count("---"), count("src_addr: fi_sockaddr_in://127.0.0.1:0"), count("name: lo")),
        (1, 1, 1),
        "{lines:#?}"
    );
}

#[test]
fn variables_are_listed() {
    let Some(output) = fi_info(&["-e"], &[]) else { return };
    let lines = lines(&output.stdout);
    for name in ["TRANSPORT", "PROGRESS", "INTERFACE", "PORT", "KEY", "PEER_TIMEOUT", "TUNE"] {
        assert!(lines.contains(&format!("# FI_WEFT_{name}: String")), "{name}: {lines:#?}");
    }
    assert_eq!(lines.iter().filter(|line| line.starts_with("# FI_WEFT_")).count(), 10, "{lines:#?}");
    assert!(lines.iter().any(|line| line.contains("short: ") && line.contains("(default 16K)")), "{lines:#?}");
}

#[test]
fn old_and_unknown_names_are_said_once_and_the_provider_is_there() {
    let settings = [("FI_WEFT_SHORT", "8K"), ("FI_WEFT_TRANSPROT", "edge")];
    let Some(output) = fi_info(&["-p", "weft"], &settings) else { return };
    let said = lines(&output.stderr);
    for words in [
        "weft: FI_WEFT_SHORT: this release still takes what the next one will not; set FI_WEFT_TUNE=short=8K",
        "weft: FI_WEFT_TRANSPROT: there is no such setting, and it has no effect; the nearest is FI_WEFT_TRANSPORT",
    ] {
        assert_eq!(said.iter().filter(|line| *line == words).count(), 1, "{said:#?}");
    }
    assert!(lines(&output.stdout).contains(&"provider: weft".into()), "{output:?}");
}

#[test]
fn a_wrong_value_is_said_once_and_other_providers_are_still_there() {
    let Some(output) = fi_info(&["-l"], &[]) else { return };
    let others = lines(&output.stdout).iter().any(|line| line == "tcp:");
    let Some(output) = fi_info(&[], &[("FI_WEFT_PROGRESS", "fast")]) else { return };
    let said = "weft: FI_WEFT_PROGRESS=\"fast\" is not possible: it must be hybrid, thread or caller";
    assert_eq!(lines(&output.stderr).iter().filter(|line| *line == said).count(), 1, "{output:?}");
    let lines = lines(&output.stdout);
    assert!(!lines.contains(&"provider: weft".into()));
    assert!(!others || lines.iter().any(|line| line.starts_with("provider: tcp")), "{lines:#?}");
}
